#!/usr/bin/env bash
# Tests the worker's hard parts against a server that does what no real one does at will; from the repository's root, after
# openapi/sdks/go/build.sh. RACE=1 has the race detector watch, which needs a C compiler.
set -euo pipefail

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
here="$(cd "$(dirname "$0")" && pwd)"
mkdir -p "$target/sdks/go-test"
sed "s|=> .*|=> $target/sdks/go|" "$here/go.mod" > "$target/sdks/go-test/unit.mod"
go test -C "$target/sdks/go" ${RACE:+-race} -count=1 "$@" . ./webhooks
exec go test -C "$here" -modfile "$target/sdks/go-test/unit.mod" ${RACE:+-race} -count=1 "$@" .
