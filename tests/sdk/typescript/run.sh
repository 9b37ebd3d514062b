#!/usr/bin/env bash
# Runs the test program with the built package, from the repository's root: tests/sdk/typescript/run.sh SUBCOMMAND ARGS…
# `unit` as SUBCOMMAND runs the hard parts of client and worker against a server that misbehaves on purpose; it needs no dueq.
# `example FILE` compiles a program of a user's and runs it; `orders` does so with the package's own example.
set -euo pipefail

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
here=tests/sdk/typescript
folder="$target/sdks/typescript-test"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)"
tarball="$target/sdks/dist/dueq-$version.tgz"
[[ -f $tarball ]] || { echo "no $tarball: run openapi/sdks/typescript/build.sh" >&2; exit 3; }

mkdir -p "$folder"
exec 9> "$folder.lock"
flock 9
stamp="$(cat "$tarball" "$here"/{run.sh,package.json,tsconfig.json,src/*.ts} | sha256sum)"
if [[ ! -f $folder/stamp || $(< "$folder/stamp") != "$stamp" ]]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  cp -r "$here"/{package.json,tsconfig.json,src} "$folder/"
  # The compiler, and Node's types, are those that the package was built with.
  types="$(sed -n 's/.*"\(@types\/node\)": "\(.*\)".*/\1@\2/p' openapi/sdks/typescript/package.json)"
  (
    cd "$folder"
    npm install --silent --no-audit --no-fund --no-package-lock --no-save "$tarball" "$types"
    "$target/sdks/typescript/node_modules/.bin/tsc" -p .
  ) >&2
  echo "$stamp" > "$folder/stamp"
fi
exec 9>&-
if [[ ${1-} == orders ]]; then set -- example openapi/sdks/typescript/examples/orders.ts; fi
if [[ ${1-} == example ]]; then
  own="$(mktemp -d "$folder/example-XXXXXX")"
  cp "$2" "$own/example.ts"
  "$target/sdks/typescript/node_modules/.bin/tsc" --strict --target es2022 --module nodenext \
    --types node --typeRoots "$folder/node_modules/@types" --outDir "$own" "$own/example.ts" >&2
  exec node "$own/example.js"
fi
if [[ ${1-} == unit ]]; then exec node --test "$folder/out/hard.js" "$folder/out/calls.js"; fi
exec node "$folder/out/main.js" "$@"
