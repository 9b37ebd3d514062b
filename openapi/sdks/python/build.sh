#!/usr/bin/env bash
# Builds the wheel: what is generated (twice, for asyncio and for blocking code, sharing the models) and what is written by
# hand, put together in target/sdks/python, built into target/sdks/dist. Does nothing when nothing changed.
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
generate python "$out/asyncio"
generate python/blocking "$out/blocking"

package="$out/package"
mkdir -p "$package"
cp -r "$here/pyproject.toml" "$here/README.md" "$here/src" LICENSE "$package/"
printf '"""The version of the package and of the server that it was built for."""\n\n__version__ = "%s"\n' "$version" \
  > "$package/src/dueq/_version.py"

# Of what is generated, the parts that are used: one set of models, two of APIs.
take() {
  local from=$1 to=$2 part
  shift 2
  mkdir -p "$to"
  for part in "$@"; do cp -r "$from/$part" "$to/"; done
  printf '"""Generated from openapi/openapi.json."""\n' > "$to/__init__.py"
}
take "$out/asyncio/dueq/generated" "$package/src/dueq/generated" api models api_client.py api_response.py rest.py
take "$out/blocking/dueq/blocking/generated" "$package/src/dueq/blocking/generated" api api_client.py api_response.py rest.py
sed -i 's/dueq\.blocking\.generated\.models/dueq.generated.models/' "$package"/src/dueq/blocking/generated/api/*.py
# A payload may be anything, not "anything or None", which could not be looked into.
sed -i 's/\bOptional\[Any\]/Any/' "$package"/src/dueq/generated/models/*.py
# The blocking client is the asyncio one without its awaits, on another transport.
for file in client.py _calls.py; do
  sed -E -e 's/\b(async|await) //g' -e 's/\b(__)a(enter__|exit__)/\1\2/g' -e 's/\bAsyncIterator\b/Iterator/g' \
    -e 's/\bdueq\.(_calls|_transport|generated\.api)\b/dueq.blocking.\1/g' \
    "$package/src/dueq/$file" > "$package/src/dueq/blocking/$file"
done
find "$package" -name __pycache__ -prune -exec rm -rf {} +

rm -f "$dist"/dueq-*.whl
"$generator/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$dist" "$package"
echo "$stamp" > "$out/stamp"
