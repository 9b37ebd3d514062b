#!/usr/bin/env bash
# The generators that people use beside openapi-generator, each tried on the document as its user would: it makes a client,
# the client is built or type-checked, and a small program publishes, leases and acknowledges with it, and is refused.
#   openapi-python-client  3.1  python3
#   openapi-typescript     3.1  node, npm     (with openapi-fetch)
#   oapi-codegen           3.0  go
#   progenitor             3.0  cargo         (its first build takes minutes)
# Usage: tests/sdk/generators.sh --server URL [name…]   (none: all)
# Exit status: 0 done, 1 not so, 2 wrong usage, 3 the toolchain of the only one that was asked for is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
sources="$PWD/tests/sdk/generators"
documents="$PWD/openapi"
work="$(realpath -m "${CARGO_TARGET_DIR:-target}")/sdks/generators"
all=(openapi-python-client openapi-typescript oapi-codegen progenitor)

say() { printf 'generators: %s\n' "$*" >&2; }
usage() { say "usage: tests/sdk/generators.sh --server URL [${all[*]}]"; exit 2; }
have() { type -P "$1" > /dev/null; }

# need PROGRAM… : ends what tries a generator with status 3 where one is not there.
need() {
  local program
  for program in "$@"; do
    have "$program" || { say "there is no $program"; exit 3; }
  done
}

# Copies the files of a generator to where it works, and goes there; what was made before stays.
take() {
  mkdir -p "$work/$1"
  cp --recursive "$sources/$1/." "$work/$1/"
  cd "$work/$1"
}

openapi-python-client() {
  need python3
  take "$1"
  if ! cmp -s requirements.txt venv/installed.txt; then
    rm -rf venv
    python3 -m venv venv
    venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
    cp requirements.txt venv/installed.txt
  fi
  rm -rf dueq
  # It tidies up with the ruff that it finds.
  PATH="$PWD/venv/bin:$PATH" venv/bin/openapi-python-client generate --path "$documents/openapi.json" --config config.yaml \
    --meta none --output-path dueq --fail-on-warning >&2
  # What uses the client is checked strictly; the client itself has a line that mypy does not like.
  venv/bin/mypy --strict --follow-imports=silent --no-error-summary call.py >&2
  venv/bin/python call.py "$server" "$2"
}

openapi-typescript() {
  need node npm
  take "$1"
  if ! cmp -s package.json node_modules/installed.json; then
    npm install --silent --no-audit --no-fund --no-package-lock >&2
    cp package.json node_modules/installed.json
  fi
  npx --no-install openapi-typescript "$documents/openapi.json" --output dueq.ts >&2
  npx --no-install tsc >&2
  node built/call.js "$server" "$2"
}

oapi-codegen() {
  need go
  take "$1"
  mkdir -p dueq
  go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 --config config.yaml \
    "$documents/openapi-3.0.json" >&2
  go vet ./... >&2
  go run . "$server" "$2"
}

progenitor() {
  need cargo
  # Where it is: it reads the document from the sources, and builds elsewhere.
  cd "$sources/$1"
  CARGO_TARGET_DIR="$work/$1" cargo build --quiet --locked >&2
  "$work/$1/debug/dueq-generated-by-progenitor" "$server" "$2"
}

[ "${1-}" = --server ] && [ -n "${2-}" ] || usage
server="${2%/}"
shift 2
for name in "$@"; do
  case " ${all[*]} " in *" $name "*) ;; *) usage ;; esac
done
asked=$#
[ $# -gt 0 ] || set -- "${all[@]}"

failed=()
for name in "$@"; do
  # A process of its own, in which `set -e` counts.
  ("$name" "$name" "generators-$name-$$" > /dev/null) &
  status=0
  wait $! || status=$?
  case $status in
    0) say "$name: ok" ;;
    3)
      [ "$asked" != 1 ] || exit 3
      say "$name: skipped"
      ;;
    *) failed+=("$name") ;;
  esac
done
[ ${#failed[@]} = 0 ] || { say "failed: ${failed[*]}"; exit 1; }
