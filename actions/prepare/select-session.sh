#!/usr/bin/env bash
# Chooses the AWS session name: plain text, or by mode from a JSON object whose `drift` falls back to `plan`.
#
# Reads MODE and SESSION_NAME; writes output `session-name`, empty for the default of the credentials action.
set -euo pipefail
LC_ALL=C # a name is bytes: every one that AWS refuses becomes a dash
# shellcheck source=actions/prepare/string-map.sh
source "$(dirname "${BASH_SOURCE[0]}")/string-map.sh"

name=$SESSION_NAME
if [[ $name == '{'* ]]; then
  string_map "$SESSION_NAME" || {
    echo '::error::aws-role-session-name is no JSON object with text values'
    exit 1
  }
  name='' plan_name='' found=false
  for ((i = 0; i < ${#map_keys[@]}; i++)); do
    [[ ${map_keys[i]} != "$MODE" ]] || name=${map_values[i]} found=true
    [[ ${map_keys[i]} != plan ]] || plan_name=${map_values[i]}
  done
  [[ $MODE != drift || $found == true ]] || name=$plan_name
fi

name=${name//[!a-zA-Z0-9_+=,.@-]/-}
name=${name:0:64}
if ((${#name} == 1)); then
  printf '::error::aws-role-session-name gives %q; a session name has 2 to 64 characters\n' "$name"
  exit 1
fi
printf 'session-name=%s\n' "$name" >>"$GITHUB_OUTPUT"
