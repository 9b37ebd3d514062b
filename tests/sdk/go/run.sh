#!/usr/bin/env bash
# Runs the test program of the Go SDK from the repository's root, against the module that openapi/sdks/go/build.sh made:
#   tests/sdk/go/run.sh SUBCOMMAND ARGS…
#   tests/sdk/go/run.sh example FILE       a program of a user's, built against the module
#   tests/sdk/go/run.sh framework FILE     the same of a web app
#   tests/sdk/go/run.sh orders             the example of the package, like that
#   tests/sdk/go/run.sh unit               the worker against a server that misbehaves on purpose (unit.sh)
set -euo pipefail

if [ "${1-}" = unit ]; then exec "$(dirname "$0")/unit.sh"; fi
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
if [ "${1-}" = framework ]; then set -- example "$2"; fi
if [ "${1-}" = orders ]; then set -- example openapi/sdks/go/examples/orders/main.go; fi
here="$(cd "$(dirname "$0")" && pwd)"
work="$target/sdks/go-test"
mkdir -p "$work"
exec 9> "$work/lock"
flock 9
sed "s|=> .*|=> $target/sdks/go|" "$here/go.mod" > "$work/go.mod"
if [ "${1-}" = example ]; then
  own="$(mktemp -d "$work/example-XXXXXX")"
  cp "$2" "$own/main.go"
  cp "$work/go.mod" "$own/go.mod"
  go build -C "$own" -o "$own/example" . >&2
  exec "$own/example"
fi
# Beside, and then in place: a program that is running stays what it is. The cache makes it quick when nothing changed.
go build -C "$here" -modfile "$work/go.mod" ${RACE:+-race} -o "$work/program.new" . >&2
cmp -s "$work/program.new" "$work/program" || mv "$work/program.new" "$work/program"
exec 9>&-
exec "$work/program" "$@"
