# What building every SDK shares; sourced by build.sh of each language, which runs in the repository's root.
# The generator is openapi-generator from PyPI, which bundles the jar, with a Java runtime from PyPI beside it, so that
# nobody needs a JDK to build the Python package.
# shellcheck shell=bash
set -euo pipefail

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
# Where packages are built, and where finished ones are put.
built="$target/sdks"
dist="$built/dist"
generator="$built/generator"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)"
export target built dist generator version

say() { printf 'sdks: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { type -P "$1" > /dev/null; }

# need LANGUAGE PROGRAM… : ends with status 3, which means "toolchain missing", where one is not there.
need() {
  local language=$1 program
  shift
  for program in "$@"; do
    have "$program" || { say "$language needs $program"; exit 3; }
  done
}

# The generator in an environment of its own; several languages may be built at once.
get_generator() {
  mkdir -p "$built" "$dist"
  exec 9> "$built/generator.lock"
  flock 9
  if ! cmp -s openapi/sdks/generator.txt "$generator/installed.txt"; then
    say "installing openapi-generator"
    rm -rf "$generator"
    python3 -m venv "$generator"
    "$generator/bin/pip" install --quiet --disable-pip-version-check -r openapi/sdks/generator.txt
    cp openapi/sdks/generator.txt "$generator/installed.txt"
  fi
  exec 9>&-
}

# generate LANGUAGE FOLDER : runs the generator by openapi/sdks/LANGUAGE/generator.yaml into FOLDER. A warning is an error, but for
# its notice that OpenAPI 3.1 is young, and a line that its Python target prints for every document that has a model.
generate() {
  local language=$1 folder=$2 log="$built/$1-generator.log"
  get_generator
  rm -rf "$folder"
  mkdir -p "$folder"
  "$generator/bin/openapi-generator-cli" generate -i openapi/openapi.json -c "openapi/sdks/$language/generator.yaml" \
    -o "$folder" > "$log" 2>&1 || { cat "$log" >&2; die "generating $language failed"; }
  if grep -E 'WARN|ERROR' "$log" | grep -v -e 'OpenAPI 3.1 support is still in beta' \
    -e 'Failed to get the schema name: null' >&2; then
    die "the generator warned about $language"
  fi
}
