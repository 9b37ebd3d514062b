#!/usr/bin/env bash
# Builds the wheel: what is generated, what is written by hand, and the blocking client, which is made of the asyncio one, put
# together in target/sdks/python, built into target/sdks/dist. Does nothing when nothing changed.
source openapi/sdks/common.sh
need python python3

here=openapi/sdks/python
out="$built/python"
mkdir -p "$built" "$dist"
exec 8> "$built/python.lock"
flock 8

stamp="$({ echo "$version"; find "$here" openapi/sdks/common.sh openapi/sdks/generator.txt openapi/openapi.json LICENSE \
  -type f -not -path '*/__pycache__/*' -print0 | sort -z | xargs -0 sha256sum; } | sha256sum)"
wheel="$dist/dueq-$version-py3-none-any.whl"
if [[ -f $wheel && "$(cat "$out/stamp" 2> /dev/null)" == "$stamp" ]]; then exit 0; fi

say "building python"
rm -rf "$out"
mkdir -p "$out"
generate python "$out/generated"

package="$out/package"
mkdir -p "$package"
cp -r "$here/pyproject.toml" "$here/README.md" "$here/src" LICENSE "$package/"
module="$package/src/dueq"
printf '"""The version of the package and of the server that it was built for."""\n\n__version__ = "%s"\n' "$version" \
  > "$module/_version.py"

# Of what is generated, the parts that are used.
mkdir "$module/generated"
printf '"""Generated from openapi/openapi.json."""\n' > "$module/generated/__init__.py"
cp -r "$out/generated/dueq/generated/models" "$module/generated/"
cp -r "$out/generated/dueq/generated/api" "$module/_async/"
sed -E -i 's/\bdueq\.generated\.(api_client|api_response|rest)\b/dueq._async.calls/; s/\bdueq\.generated\.api\b/dueq._async.api/' \
  "$module"/_async/api/*.py
# The bytes of a payload are not to be changed.
sed -i 's/\bbytearray\b/bytes/g' "$module"/_async/api/*.py
# A payload may be anything, not "anything or None", which could not be looked into.
sed -i 's/\bOptional\[Any\]/Any/' "$module"/generated/models/*.py
# The client that blocks is the asyncio one without its awaits, on another transport.
cp -r "$module"/_async/. "$module/_sync"
find "$module/_sync" -name '*.py' -exec sed -E -i -e 's/\b(async (def|for|with)|await )/\2/g' -e 's/\b__a(enter|exit)__/__\1__/g' \
  -e 's/\bAsync(Api|Client|Iterator|Key)\b/\1/g' -e 's/\b_async\b/_sync/g' -e 's/ for asyncio\b//' {} +
cp "$here/src/dueq/_sync/transport.py" "$module/_sync/"
find "$package" -name __pycache__ -prune -exec rm -rf {} +

rm -f "$dist"/dueq-*.whl
"$generator/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$dist" "$package"
echo "$stamp" > "$out/stamp"
