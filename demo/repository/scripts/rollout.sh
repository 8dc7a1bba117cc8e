#!/bin/sh
# Stands for what only an apply can find out. Called while a resource is being created.
case $1 in
  ok) ;;
  fail)
    echo "rollout failed: quota exceeded" >&2
    exit 1
    ;;
  hang)
    echo "rollout is waiting for the load balancer"
    # Ends with the tool that called it, and after ten minutes in any case.
    seconds=0
    while [ "$seconds" -lt 600 ] && kill -0 "$PPID" 2>/dev/null; do
      sleep 1
      seconds=$((seconds + 1))
    done
    exit 1
    ;;
  *)
    echo "rollout must be ok, fail or hang, not $1" >&2
    exit 2
    ;;
esac
