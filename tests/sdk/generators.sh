#!/usr/bin/env bash
# The generators that people use beside openapi-generator, each tried on the document as its user would: it makes a client,
# the client is built or type-checked, and a small program publishes, leases and acknowledges with it, and is refused.
#   openapi-python-client  3.1  python3
#   openapi-typescript     3.1  node, npm     (with openapi-fetch)
#   oapi-codegen           3.0  go
#   progenitor             3.0  cargo         (its first build takes minutes)
#   ruby                   3.1  ruby with typhoeus           (openapi-generator; the program is that of the guide)
#   php                    3.1  php with Debian's guzzle     (the same)
#   csharp                 3.1                               (openapi-generator; only the names are checked)
# Usage: tests/sdk/generators.sh --server URL [name…]   (none: all)
# Exit status: 0 done, 1 not so, 2 wrong usage, 3 the toolchain of the only one that was asked for is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
sources="$PWD/tests/sdk/generators"
documents="$PWD/openapi"
work="$(realpath -m "${CARGO_TARGET_DIR:-target}")/sdks/generators"
all=(openapi-python-client openapi-typescript oapi-codegen progenitor ruby php csharp)

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
  shown rust | diff - <(tail -n +3 examples/loop.rs) >&2
  CARGO_TARGET_DIR="$work/$1" cargo build --quiet --locked --bins --examples >&2
  "$work/$1/debug/dueq-generated-by-progenitor" "$server" "$2"
  handles_one "$work/$1/debug/examples/loop"
}

# Makes a client of openapi-generator in a folder of its own, and goes there. A warning is an error, but for its notice that OpenAPI
# 3.1 is young, and the model that Ruby has another name for.
openapi-generator() {
  # shellcheck source=openapi/sdks/common.sh
  . openapi/sdks/common.sh
  get_generator
  rm -rf "${work:?}/$1"
  mkdir -p "$work/$1"
  cd "$work/$1"
  "$generator/bin/openapi-generator-cli" generate -g "$1" -i "$documents/openapi.json" -o "$1" --additional-properties="$2" > log 2>&1
  if grep -E 'WARN|ERROR' log | grep -v -e 'OpenAPI 3.1 support is still in beta' -e 'Renamed to ModelRetry' >&2; then exit 1; fi
}

# The last program of a language on the guide's page.
shown() {
  awk -v "fence=\`\`\`$1" '/^```$/ { within = 0 } within { text = text $0 "\n" } $0 == fence { within = 1; text = "" }
    END { printf "%s", text }' "$documents/../src/guide/languages.md"
}

# handles_one PROGRAM… : the program of the guide publishes one message and handles it.
handles_one() {
  curl --silent --output /dev/null --request DELETE "$server/topics/orders?force=true"
  local said
  said=$(DUEQ_SERVER="$server" "$@")
  [ "$said" = 'order 42, attempt 1' ] || { say "it said: $said"; exit 1; }
}

ruby() {
  need ruby python3
  command ruby -e 'require "typhoeus"' 2> /dev/null || { say "ruby has no typhoeus"; exit 3; }
  openapi-generator "$1" gemName=dueq,moduleName=Dueq
  shown ruby > loop.rb
  handles_one env ruby -I ruby/lib loop.rb
}

php() {
  need php python3
  local guzzle=/usr/share/php/GuzzleHttp/autoload.php
  [ -f "$guzzle" ] || { say "there is no $guzzle (apt install php-guzzlehttp-guzzle)"; exit 3; }
  openapi-generator "$1" invokerPackage=Dueq
  shown php > loop.php
  # What composer would write.
  mkdir vendor
  cat > vendor/autoload.php <<EOF
<?php
require '$guzzle';
spl_autoload_register(function (\$class) {
    \$file = __DIR__ . '/../php/lib/' . str_replace(['Dueq\\\\', '\\\\'], ['', '/'], \$class) . '.php';
    if (is_file(\$file)) { require \$file; }
});
EOF
  handles_one env php loop.php
}

csharp() {
  need python3
  openapi-generator "$1" packageName=Dueq
  local method
  for method in PublishMessageAsync LeaseMessagesAsync AckMessageAsync NackMessageAsync ScheduleCallbackAsync PutScheduleAsync; do
    grep -rq "Task<.*> $method(" csharp/src/Dueq/Api || { say "there is no $method"; exit 1; }
  done
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
