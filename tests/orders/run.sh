#!/usr/bin/env bash
# 10,000 order events through a running dueq: two producers, three shell consumers, one of them killed while it holds
# a lease; then check.py proves from their logs that every order was acknowledged, none early, none lost.
# Usage: tests/orders/run.sh [SERVER]    (COUNT=10000 SEED=1 in the environment; about 70 seconds)
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1 # leaves nothing in the tree
server=${1:-http://127.0.0.1:8080}
server=${server%/}
count=${COUNT:-10000} seed=${SEED:-1} lease_ms=5000
here=$(cd "$(dirname "$0")" && pwd)
topic=orders-$$-$(date +%s)
logs=$(mktemp -d)

for tool in curl jq python3; do
  command -v "$tool" > /dev/null || { echo "orders: $tool is missing (apt install $tool)" >&2; exit 1; }
done
curl -fsS "$server/readyz" > /dev/null || { echo "orders: no dueq is ready at $server (make run)" >&2; exit 1; }

pids=()
end() {
  kill "${pids[@]}" 2> /dev/null || true
  wait
}
trap end EXIT

# give_up_at SECONDS: for loops that wait for the server
give_up_at() { [ "$SECONDS" -lt "$1" ] || { echo "orders: no progress: $(in_topic .counts)" >&2; exit 1; }; }

# in_topic FILTER: the topic as the server tells of it
in_topic() { curl -fsS "$server/topics/$topic" | jq -r "$1"; }

echo "orders: $count events to $topic at $server, logs in $logs"
for n in 1 2 3; do
  : > "$logs/consumed-$n.log"
  "$here/consumer.sh" "$server" "$topic" "$logs/consumed-$n.log" &
  pids+=($!)
done
producers=()
for n in 1 2; do
  python3 "$here/produce.py" "$server" "$topic" "$((seed * 2 + n))" "$((count / 2))" "$logs/produced-$n.log" &
  producers+=($!)
done
for producer in "${producers[@]}"; do wait "$producer"; done
echo "orders: published"

# Midway, and while it works: its log has just got a new answer with messages in it, which nobody has acknowledged.
deadline=$((SECONDS + 120))
until [ "$(in_topic .totals.acked)" -ge "$((count / 2))" ]; do give_up_at "$deadline"; sleep 0.5; done
victim=${pids[2]} log=$logs/consumed-3.log
size=$(stat -c %s "$log")
while sleep 0.005; do
  grown=$(stat -c %s "$log")
  [ "$grown" = "$size" ] && continue
  kill -STOP "$victim"
  if tail -c +"$((size + 2))" "$log" | jq -e '.messages != []' > /dev/null; then break; fi
  kill -CONT "$victim"
  size=$grown
done
kill -9 "$victim"
wait "$victim" 2> /dev/null || true
echo "orders: killed a consumer that held $(tail -c +"$((size + 2))" "$log" | jq '.messages | length') leases"
unset 'pids[2]'

deadline=$((SECONDS + 120))
until [ "$(in_topic '.counts | .delayed + .ready + .leased')" = 0 ]; do give_up_at "$deadline"; sleep 0.5; done
end # each consumer ends after its answer, so that the last acks are in the logs
trap - EXIT
echo "orders: $(in_topic '.totals | "the topic counts \(.published) published, \(.granted) granted, \(.acked) acked, \(.lease_expired) leases expired, \(.dead) dead"')"
python3 "$here/check.py" "$lease_ms" "$(basename "$log")" "$logs"
rm -rf "$logs"
