#!/usr/bin/env bash
# HTTPS beside plain HTTP: two servers on one Redis, asked in turns by wrk over 64 kept-alive connections, without the
# handshakes. Prints requests a second and the ratio of the medians.
# Usage: tests/bench/tls.sh [DUEQ]   (default: target/release/dueq)
set -euo pipefail
dueq=$(realpath "${1:-target/release/dueq}")
rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-4}
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null; wait; rm -rf "$dir"' EXIT
cd "$dir"

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=dueq \
  -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem 2> openssl.log
redis-server --port 0 --unixsocket "$dir/redis.sock" --save "" > redis.log &
until [ -S redis.sock ]; do sleep 0.1; done
serve() { # serve NAME ARGUMENTS…
  "$dueq" serve --listen 127.0.0.1:0 --addr-file "$dir/$1" --redis-url "redis+unix://$dir/redis.sock" "${@:2}" 2> "$1.log" &
  until [ -s "$1" ]; do sleep 0.1; done
}
serve http
serve https --tls-cert cert.pem --tls-key key.pem
cat > publish.lua << 'LUA'
wrk.method = "POST"
wrk.body = '{"payload": {"order": 42}, "delay_ms": 3600000}'
wrk.headers["content-type"] = "application/json"
LUA

rate() { # rate SCHEME PATH ARGUMENTS…
  wrk -t 1 -c 64 -d "${seconds}s" "${@:3}" "$1://localhost:$(sed 's/.*://' "$1")$2" | awk '/Requests\/sec/ { printf "%d\n", $2 }'
}
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
compare() { # compare NAME PATH ARGUMENTS…
  : > plain.txt; : > tls.txt
  for _ in $(seq "$rounds"); do
    rate http "${@:2}" >> plain.txt
    rate https "${@:2}" >> tls.txt
  done
  local plain tls
  plain=$(median < plain.txt) tls=$(median < tls.txt)
  printf '%-8s  http %7d/s   https %7d/s   ratio %.2f\n' "$1" "$plain" "$tls" "$(awk "BEGIN { print $tls / $plain }")"
}
compare healthz /healthz
compare publish /topics/bench/messages -s publish.lua
