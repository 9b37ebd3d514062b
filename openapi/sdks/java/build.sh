#!/usr/bin/env bash
# Builds the Java SDK: target/sdks/dist/dueq-<version>.jar, the same with what it needs in it (-all), its sources, javadoc and POM, and
# the libraries that it needs in target/sdks/java/lib.
# Run from the repository's root.
source openapi/sdks/common.sh

need java java javac mvn
mkdir -p "$built" "$dist"
exec 8> "$built/java.lock"
flock 8

here=openapi/sdks/java
home="$built/java"
jar="$dist/dueq-$version.jar"
pom="$dist/dueq-$version.pom"
inputs="$(find "$here" openapi/openapi.json openapi/sdks/common.sh openapi/sdks/generator.txt LICENSE -type f ! -name README.md -print0 |
  sort -z | xargs -0 sha256sum; printf '%s\n' "$version"; javac -version 2>&1)"
if [[ -f $jar && -f $pom && -d $home/lib && "$(cat "$home/inputs.txt" 2> /dev/null)" == "$inputs" ]]; then
  exit 0
fi

say "building Java"
rm -f "$home/inputs.txt"
mkdir -p "$home"
generate java "$home/generated"

# The generator decodes answers in the platform's charset, which is no UTF-8 before JDK 18 where the locale is C; there is no
# option for it.
apis=("$home"/generated/src/main/java/dev/dueq/api/*Api.java)
sed -i 's/new String(\([A-Za-z]*\)\.readAllBytes())/new String(\1.readAllBytes(), java.nio.charset.StandardCharsets.UTF_8)/' "${apis[@]}"
# With bytes as bytes, the generator still makes a file of an answer.
sed -i 's/File responseValue = downloadFileFromResponse(localVarResponse, localVarResponseBody);/byte[] responseValue = localVarResponseBody.readAllBytes();/' \
  "${apis[@]}"
for api in "${apis[@]}"; do
  grep -q 'StandardCharsets.UTF_8)' "$api" && ! grep -q 'readAllBytes())' "$api" || die "the generator reads answers otherwise: $api"
done

rm -rf "$home/project" "$home/lib"
mkdir -p "$home/project/src/main"
cp -r "$home/generated/src/main/java" "$home/project/src/main/java"
cp -r "$here/src/main/java/." "$home/project/src/main/java/"
install -D -m 644 LICENSE "$home/project/src/main/resources/META-INF/LICENSE"
sed "s/@VERSION@/$version/" "$here/pom.xml" > "$home/project/pom.xml"
log="$built/java-maven.log"
# Without the network where everything is there already.
mvn -B -o -q -f "$home/project/pom.xml" package > "$log" 2>&1 ||
  mvn -B -ntp -f "$home/project/pom.xml" package > "$log" 2>&1 || { cat "$log" >&2; die "building Java failed"; }
cp -r "$home/project/target/lib" "$home/lib"
rm -f "$dist"/dueq-*.jar "$dist"/dueq-*.pom
cp "$home/project/target/dueq-$version"{,-all,-sources,-javadoc}.jar "$dist/"
cp "$home/project/pom.xml" "$pom"
printf '%s\n' "$inputs" > "$home/inputs.txt"
