#!/usr/bin/env bash
# Tests the worker's hard parts against a server that does what no real one does at will, and has go vet and staticcheck look at
# module, example and tests; from the repository's root, after openapi/sdks/go/build.sh. RACE=1 has the race detector watch, which
# needs a C compiler.
set -euo pipefail

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
here="$(cd "$(dirname "$0")" && pwd)"
module="$target/sdks/go"
work="$target/sdks/go-test"
mkdir -p "$work"
sed "s|=> .*|=> $module|" "$here/go.mod" > "$work/unit.mod"

GOBIN="$work" go install honnef.co/go/tools/cmd/staticcheck@v0.8.2
checked() {
  cd "$1"
  go vet ./...
  go list ./... | grep -v '/api$' | xargs "$work/staticcheck" # api is generated, with a style of its own
}
(checked "$module")
rm -rf "$work/checked"
mkdir "$work/checked"
cp "$here"/*.go "$work/checked"
cp "$work/unit.mod" "$work/checked/go.mod" # staticcheck does not take -modfile
(checked "$work/checked")

go test -C "$module" ${RACE:+-race} -count=1 "$@" . ./webhooks
exec go test -C "$here" -modfile "$work/unit.mod" ${RACE:+-race} -count=1 "$@" .
