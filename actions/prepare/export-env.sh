#!/usr/bin/env bash
# Exports the workflow's `env` input, then its `env` secret, to the steps that follow.
#
# Reads INPUT_ENV and SECRET_ENV, appends to GITHUB_ENV. Lines are NAME=VALUE, or NAME<<DELIM … DELIM.
# Every fault is reported and then nothing at all is exported.
set -euo pipefail

names=() values=() faults=0

fault() { # source, line number, what
  printf '::error::%s, line %d: %s\n' "$1" "$2" "$3"
  faults=$((faults + 1))
}

mask_text() {
  local text=$1
  text=${text//'%'/%25}
  text=${text//$'\r'/%0D}
  [[ -z $text ]] || printf '::add-mask::%s\n' "$text"
}

# Each line as it is and trimmed: tools print both forms.
mask() {
  local line trimmed
  while IFS= read -r line; do
    trimmed=${line#"${line%%[![:space:]]*}"}
    trimmed=${trimmed%"${trimmed##*[![:space:]]}"}
    [[ -n $trimmed ]] || continue
    mask_text "$line"
    [[ $trimmed == "$line" ]] || mask_text "$trimmed"
  done <<<"$1"
}

name_is_allowed() { # source, line number, name
  if [[ ! $3 =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]]; then
    fault "$1" "$2" 'not a variable name'
    return 1
  fi
  local upper
  upper=$(tr '[:lower:]' '[:upper:]' <<<"$3")
  case $upper in
    GITHUB_* | RUNNER_* | ACTIONS_* | STACKORDER_* | LD_* | PATH | HOME | NODE_OPTIONS | BASH_ENV | BASHOPTS | SHELLOPTS | PS4)
      fault "$1" "$2" "the name $3 is reserved"
      return 1
      ;;
  esac
}

read_variables() { # source, text, masked: true or false
  local source=$1 masked=$3 line number=0 start head name value delimiter first closed
  exec 3<<<"$2"
  while IFS= read -r line <&3; do
    number=$((number + 1)) start=$number
    line=${line%$'\r'}
    [[ -n ${line//[[:space:]]/} ]] || continue
    head=${line%%=*}
    if [[ $line == *=* && $head != *'<<'* ]]; then
      name=$head value=${line#*=}
    elif [[ $line == *'<<'* ]]; then
      name=${line%%'<<'*} delimiter=${line#*'<<'} value='' first=true closed=false
      if [[ -z $delimiter ]]; then
        fault "$source" "$start" 'no delimiter after <<'
        continue
      fi
      while IFS= read -r line <&3; do
        number=$((number + 1))
        line=${line%$'\r'}
        if [[ $line == "$delimiter" ]]; then
          closed=true
          break
        fi
        [[ $first == true ]] || value+=$'\n'
        value+=$line first=false
      done
      if [[ $closed == false ]]; then
        [[ $masked == false ]] || mask "$value"
        # The delimiter itself may be a secret that was pasted wrongly: it is not printed.
        fault "$source" "$start" 'the block is never closed by its delimiter'
        continue
      fi
    else
      [[ $masked == false ]] || mask "$line"
      fault "$source" "$start" 'neither NAME=VALUE nor NAME<<DELIMITER'
      continue
    fi
    [[ $masked == false ]] || mask "$value"
    name_is_allowed "$source" "$start" "$name" || continue
    names+=("$name") values+=("$value")
  done
  exec 3<&-
}

read_variables 'input env' "${INPUT_ENV-}" false
read_variables 'secret env' "${SECRET_ENV-}" true
if ((faults > 0)); then
  echo '::error::nothing was exported'
  exit 1
fi

for ((i = 0; i < ${#names[@]}; i++)); do
  delimiter=stackorder_$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  printf '%s<<%s\n%s\n%s\n' "${names[i]}" "$delimiter" "${values[i]}" "$delimiter" >>"$GITHUB_ENV"
done
