# Reads a flat JSON object of strings without jq: not every self-hosted runner has it.
#
# string_map TEXT fills the arrays map_keys and map_values, or returns 1 when TEXT is anything else.
# Works with bash 3.2, which macOS runners still have.

unescape_json() {
  local text=$1 out='' char
  while [[ -n $text ]]; do
    char=${text:0:1}
    text=${text:1}
    if [[ $char == '\' ]]; then
      char=${text:0:1}
      text=${text:1}
      case $char in
        '"' | '\' | /) ;;
        *) return 1 ;; # no control character or \u escape belongs into a key, a role or a name
      esac
    fi
    out+=$char
  done
  printf '%s' "$out"
}

string_map() {
  local rest=$1 blank='[[:space:]]*' quoted='"(([^"\\]|\\.)*)"' key value
  local open="^${blank}\\{${blank}(.*)\$"
  local pair="^${quoted}${blank}:${blank}${quoted}${blank}(.*)\$"
  map_keys=() map_values=()
  [[ $rest =~ $open ]] || return 1
  rest=${BASH_REMATCH[1]}
  if [[ $rest =~ ^\}${blank}$ ]]; then
    return 0
  fi
  while [[ $rest =~ $pair ]]; do
    rest=${BASH_REMATCH[5]}
    key=${BASH_REMATCH[1]} value=${BASH_REMATCH[3]}
    key=$(unescape_json "$key") && value=$(unescape_json "$value") || return 1
    map_keys+=("$key") map_values+=("$value")
    if [[ $rest =~ ^\}${blank}$ ]]; then
      return 0
    fi
    [[ $rest =~ ^,${blank}(.*)$ ]] || return 1
    rest=${BASH_REMATCH[1]}
  done
  return 1
}
