#!/bin/sh
# Prints how many resources the plan creates, updates, replaces and deletes.
set -eu
count() {
  grep -o "\"change\":{\"actions\":\[$1\]" "$STACKORDER_PLAN_JSON" | wc -l | tr -d ' '
}
creates=$(count '"create"')
updates=$(count '"update"')
deletes=$(count '"delete"')
replaces=$(count '"delete","create"')
echo "post-plan: $STACKORDER_STACK: $creates to create, $updates to update, $replaces to replace, $deletes to delete"
