#!/usr/bin/env bash
# Builds the Go SDK from the repository's root: target/sdks/go is the module dueq.dev/go (for `replace`), and
# target/sdks/dist/go a file tree that GOPROXY takes, with the module's zip; that also lies in dist itself.
# shellcheck source=openapi/sdks/common.sh
source openapi/sdks/common.sh
need go go gofmt python3

own=openapi/sdks/go
module="$built/go"
stamp="$built/go.stamp"
mkdir -p "$built"
exec 8> "$module.lock"
flock 8
inputs() {
  find "$own" openapi/openapi.json openapi/sdks/common.sh openapi/sdks/generator.txt LICENSE CHANGELOG.md -type f -print0 | sort -z | xargs -0 sha256sum
  go version
  echo "$version"
}
if [ -d "$module" ] && [ -d "$dist/go" ] && inputs | cmp -s - "$stamp"; then exit 0; fi
rm -f "$stamp"

fresh="$built/go.new"
rm -rf "$fresh"
generate go "$fresh/api"
rm -rf "$fresh/api/.openapi-generator"* "$fresh/api/api"
# A body that is left out is no body; as a nil pointer in an interface it would be sent as null.
sed -i -E 's/^(\s*)localVarPostBody = (r\.\w+)$/\1if \2 != nil {\n\1\tlocalVarPostBody = \2\n\1}/' "$fresh"/api/api_*.go
# An answer that is bytes comes as bytes; what is sent may come from a reader.
sed -i -E -e 's/\(\*?io\.Reader, \*http\.Response, error\)/([]byte, *http.Response, error)/' -e 's/^(\s*localVarReturnValue\s+)\*?io\.Reader$/\1[]byte/' \
  -e 's/@return io\.Reader$/@return []byte/' "$fresh"/api/api_*.go
# Initialisms are spelled as Go spells them (message.ID), in names and in comments.
sed -i -E 's/(Id|Url|Ttl)(s?)([^a-z]|$)/\U\1\E\2\3/g' "$fresh"/api/*.go
# What the generator leaves without a comment, and users see.
sed -i -E -e 's/^func \(r \w+\) Execute\(/\/\/ Execute sends the request.\n&/' \
  -e 's/^type (Api(\w+)Request) struct/\/\/ \1 is a call of \2: its methods set what it takes, and Execute sends it.\n&/' "$fresh"/api/api_*.go
# Descriptions of parameters come escaped as for HTML, which no option prevents.
sed -i -e 's/&#x60;/`/g' -e 's/&#39;/'"'"'/g' -e 's/&quot;/"/g' -e 's/&lt;/</g' -e 's/&gt;/>/g' -e 's/&amp;/\&/g' "$fresh"/api/api_*.go
cp -r "$own"/*.go "$own"/{api,webhooks,dueqtest,examples,go.mod,README.md} LICENSE CHANGELOG.md "$fresh"
cat > "$fresh/version.go" << GO
package dueq

// Version is that of this package, and of the dueq whose API it was generated from.
const Version = "$version"
GO
gofmt -w "$fresh"
(cd "$fresh" && go vet ./...)
rm -rf "$module"
mv "$fresh" "$module"

python3 "$own/pack.py" "$module" dueq.dev/go "v$version" "$dist"
inputs > "$stamp"
say "go: $module, $dist/go"
