#!/usr/bin/env bash
# Builds the npm package `dueq`, run from the repository's root: target/sdks/dist/dueq-VERSION.tgz.
# shellcheck source=openapi/sdks/common.sh
source openapi/sdks/common.sh
need typescript python3 node npm
if (($(node -p 'process.versions.node.split(".")[0]') < 20)); then
  say "typescript needs Node.js 20 or later"
  exit 3
fi

here=openapi/sdks/typescript
package="$built/typescript"
tarball="$dist/dueq-$version.tgz"

mkdir -p "$package"
exec 8> "$package.lock"
flock 8

# What the package is made of: nothing is done where none of it changed.
stamp="$(
  { echo "$version"; node --version; cat openapi/openapi.json openapi/sdks/common.sh openapi/sdks/generator.txt LICENSE CHANGELOG.md
    find "$here" -type f | LC_ALL=C sort | xargs sha256sum; } | sha256sum
)"
if [[ -f $tarball && -f $package/stamp && $(< "$package/stamp") == "$stamp" ]]; then
  exit 0
fi
rm -f "$package/stamp"

say "building the TypeScript package"
generate typescript "$package/generated"
if grep -nE '^ +[A-Za-z]+Request: ' "$package"/generated/apis/*.ts >&2; then
  die "generator.yaml must map these bodies to the parameter \`body\`"
fi
# Types that only browsers have; a user of Node need not have theirs.
sed -i -e "s/WindowOrWorkerGlobalScope\['fetch'\]/(url: string, init: RequestInit) => Promise<Response>/" \
  -e "s/\bRequestCredentials\b/RequestInit['credentials']/" "$package/generated/runtime.ts"
# A parameter that is missing is a mistake like others.
sed -i 's/class RequiredError extends Error /class RequiredError extends TypeError /' "$package/generated/runtime.ts"
# Every call takes the same options, the typed APIs' too.
sed -i -e '/^export const BASE_PATH/i import type { CallOptions } from "../sender.js";\nexport type { CallOptions };\n' \
  -e 's/initOverrides?: RequestInit |/initOverrides?: CallOptions |/' "$package/generated/runtime.ts"
sed -i 's/initOverrides?: RequestInit |/initOverrides?: runtime.CallOptions |/' "$package"/generated/apis/*.ts
# What the generator says nothing about.
sed -i -E -e 's#^export interface (\w+)OperationRequest \{#/** The parameters of `\l\1`. */\n&#;t' \
  -e 's#^export interface (\w+)Request \{#/** The parameters of `\l\1`. */\n&#' \
  -e 's#^export (const|type) (\w+)Enum = #/** The values that a parameter may have. */\n&#' "$package"/generated/apis/*.ts
sed -i -z -E -e 's#/\*\*\n +\* \n +\*/(\n +body)#/** The request'"'"'s body. */\1#g' \
  -e 's#/\*\*\n \* \n \*/(\nexport class (\w+)Api )#/** \2, as the HTTP API has them. */\1#' "$package"/generated/apis/*.ts

rm -rf "$package/src" "$package/examples" "$package/dist"
cp -r "$here/src" "$here/examples" "$package/"
cp -r "$package/generated" "$package/src/api"
find "$package/src/api" -name '.openapi-generator*' -prune -exec rm -rf {} +
cp "$here/tsconfig.json" "$here/README.md" LICENSE CHANGELOG.md "$package/"
sed "s/\"version\": \"0.0.0\"/\"version\": \"$version\"/" "$here/package.json" > "$package/package.json"

cd "$package"
npm install --silent --no-audit --no-fund --no-package-lock >&2
node_modules/.bin/tsc -p . >&2
node_modules/.bin/tsc -p . --module commonjs --moduleResolution node10 --esModuleInterop --outDir dist/cjs >&2
echo '{ "type": "commonjs" }' > dist/cjs/package.json
npm pack --silent --pack-destination "$dist" > /dev/null
echo "$stamp" > "$package/stamp"
