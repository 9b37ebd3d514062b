#!/usr/bin/env bash
# Runs the test program with the built package, from the repository's root: tests/sdk/typescript/run.sh SUBCOMMAND ARGS…
# `unit` as SUBCOMMAND runs what needs no dueq: the hard parts of client and worker against a server that misbehaves on purpose, the
# dueq in memory, and a program of a user's, as ES module and as CommonJS. That and the example are compiled strictly.
# `example FILE` compiles a program of a user's and runs it; `orders` does so with the package's own example. `framework FILE` runs a
# program that needs Express, or one in TypeScript (.mts) that needs NestJS.
set -euo pipefail

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
here=tests/sdk/typescript
folder="$target/sdks/typescript-test"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)"
tarball="$target/sdks/dist/dueq-$version.tgz"
compiler="$target/sdks/typescript/node_modules/typescript/lib"
[[ -f $tarball ]] || { echo "no $tarball: run openapi/sdks/typescript/build.sh" >&2; exit 3; }

# compile OPTION… FILE… : as strictly as a user may have it, and in either kind of module.
compile() {
  node "$compiler/tsc.js" --strict --exactOptionalPropertyTypes --noUncheckedIndexedAccess --noImplicitOverride \
    --noUnusedLocals --noPropertyAccessFromIndexSignature --skipDefaultLibCheck --target es2022 --module node16 \
    --types node --typeRoots "$folder/node_modules/@types" "$@" >&2
}

mkdir -p "$folder"
exec 9> "$folder.lock"
flock 9
stamp="$(cat "$tarball" "$here"/{run.sh,package.json,tsconfig.json,user.ts,documented.mjs,src/*.ts} | sha256sum)"
if [[ ! -f $folder/stamp || $(< "$folder/stamp") != "$stamp" ]]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  cp -r "$here"/{package.json,tsconfig.json,documented.mjs,src} "$folder/"
  # The compiler, and Node's types, are those that the package was built with.
  types="$(sed -n 's/.*"\(@types\/node\)": "\(.*\)".*/\1@\2/p' openapi/sdks/typescript/package.json)"
  (
    cd "$folder"
    npm install --silent --no-audit --no-fund --no-package-lock --no-save "$tarball" "$types"
    node "$compiler/tsc.js" -p .
  ) >&2
  echo "$stamp" > "$folder/stamp"
fi
exec 9>&-
if [[ ${1-} == orders ]]; then set -- example openapi/sdks/typescript/examples/orders.ts; fi
if [[ ${1-} == example ]]; then
  own="$(mktemp -d "$folder/example-XXXXXX")"
  cp "$2" "$own/example.ts"
  compile --outDir "$own" "$own/example.ts"
  exec node "$own/example.js"
fi
if [[ ${1-} == framework && $2 == *.mts ]]; then
  mkdir -p "$folder/nest"
  flock "$folder.lock" npm install --prefix "$folder/nest" --silent --no-audit --no-fund --no-package-lock \
    @nestjs/{common,core,platform-express}@12.5.1 reflect-metadata@0.2.2 rxjs@7.8.2 >&2
  own="$(mktemp -d "$folder/nest/app-XXXXXX")"
  cp "$2" "$own/app.mts"
  # As `nest new` sets the compiler up; the types of what Nest needs are not ours to check.
  compile --noPropertyAccessFromIndexSignature false --skipLibCheck --experimentalDecorators --emitDecoratorMetadata \
    --outDir "$own" "$own/app.mts"
  exec node "$own/app.mjs"
fi
if [[ ${1-} == framework ]]; then
  # Of its own: npm removes what it was not asked for.
  mkdir -p "$folder/web"
  flock "$folder.lock" npm install --prefix "$folder/web" --silent --no-audit --no-fund --no-package-lock express@5.3.0 >&2
  own="$(mktemp -d "$folder/web/app-XXXXXX")"
  cp "$2" "$own/app.mjs"
  exec node "$own/app.mjs"
fi
if [[ ${1-} == unit ]]; then
  own="$(mktemp -d "$folder/user-XXXXXX")"
  cp "$here/user.ts" "$own/user.mts"
  cp "$here/user.ts" "$own/user.cts"
  cp openapi/sdks/typescript/examples/orders.ts "$own/"
  compile --outDir "$own" "$own"/{orders.,user.m,user.c}ts
  export TYPESCRIPT="$compiler/typescript.js" STEPS=tests/sdk/steps.jsonl
  # Its last lines are the failures.
  exec node --test --test-reporter spec "$folder"/{out/{hard,calls,memory}.js,documented.mjs} "$own"/user.{m,c}js
fi
exec node "$folder/out/main.js" "$@"
