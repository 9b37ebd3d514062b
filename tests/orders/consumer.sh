#!/usr/bin/env bash
# A whole consumer: leases up to 20 messages, works on them, and acknowledges them as it asks for the next.
# Usage: consumer.sh SERVER TOPIC LOG    (SIGTERM: finishes what it does and ends)
server=$1 topic=$2 log=$3 acks='[]' stop=
trap 'stop=1' TERM
until [ "$stop" ]; do
  answer=$(curl -sS --fail-with-body -H 'content-type: application/json' "$server/topics/$topic/lease" \
    -d '{"max_messages":20,"lease_ms":5000,"wait_ms":2000,"acks":'"$acks"'}') || { echo "$answer" >&2; sleep 1; continue; }
  printf '\x1e%s\n' "$answer" >> "$log" # the work: each answer, set off by a record separator
  sleep 0.05
  acks=$(jq -c '[.messages[] | {id, lease_token}]' <<< "$answer")
done
