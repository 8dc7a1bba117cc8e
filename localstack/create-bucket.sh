#!/bin/sh
# Creates the sample's state bucket in the emulator and waits until it answers.
set -eu
endpoint=${1:-http://127.0.0.1:4566}
bucket=stackorder-example-state
tries=0
until curl -fsS -o /dev/null -X PUT "$endpoint/$bucket"; do
  tries=$((tries + 1))
  if [ "$tries" -ge 30 ]; then
    echo "no S3 answers at $endpoint" >&2
    exit 1
  fi
  sleep 1
done
echo "bucket $bucket is at $endpoint"
