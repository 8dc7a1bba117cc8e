#!/usr/bin/env bash
# Chooses the AWS role of one stack: exact key, :instance, longest path prefix, @environment, else the plain role.
#
# Reads MODE, DISPATCHED, STACK_KEY, INSTANCE, TARGET_ENVIRONMENT, ROLE, ROLE_MAP, PLAN_ROLE; writes output `role`.
set -euo pipefail
# shellcheck source=actions/prepare/string-map.sh
source "$(dirname "${BASH_SOURCE[0]}")/string-map.sh"

from_map() {
  string_map "$ROLE_MAP" || {
    echo '::error::aws-role-arn-map is no JSON object with text values'
    exit 1
  }
  local path=$STACK_KEY i key by_instance='' by_prefix='' by_environment='' longest=-1
  [[ -z $INSTANCE ]] || path=${STACK_KEY%":$INSTANCE"}
  for ((i = 0; i < ${#map_keys[@]}; i++)); do
    key=${map_keys[i]}
    if [[ $key == "$STACK_KEY" ]]; then
      role=${map_values[i]}
      return
    elif [[ $key == @* ]]; then
      [[ $key != "@$TARGET_ENVIRONMENT" ]] || by_environment=${map_values[i]}
    elif [[ $key == :* ]]; then
      [[ -z $INSTANCE || $key != ":$INSTANCE" ]] || by_instance=${map_values[i]}
    elif [[ $key != *:* ]]; then
      key=${key%/}
      if [[ -n $key && "$path/" == "$key/"* ]] && ((${#key} > longest)); then
        longest=${#key} by_prefix=${map_values[i]}
      fi
    fi
  done
  role=${by_instance:-${by_prefix:-$by_environment}}
}

role=''
if [[ $DISPATCHED == true && $MODE != apply ]]; then
  role=${PLAN_ROLE:-$ROLE}
else
  [[ -z ${ROLE_MAP//[[:space:]]/} ]] || from_map
  role=${role:-$ROLE}
fi

if [[ -z $role ]]; then
  printf '::notice::No AWS role for %s: the job keeps the identity of its runner.\n' "$STACK_KEY"
elif [[ $role == *[$'\r\n']* ]]; then
  echo '::error::the AWS role holds a line break'
  exit 1
fi
printf 'role=%s\n' "$role" >>"$GITHUB_OUTPUT"
