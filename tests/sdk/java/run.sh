#!/usr/bin/env bash
# Runs the Java SDK's test program against the built jar: run.sh SUBCOMMAND ARGS…, from the repository's root, after
# openapi/sdks/java/build.sh. `run.sh example FILE` runs a program of a user's, `run.sh orders` that of the
# package; `run.sh classpath` prints what to put on a
# classpath.
set -euo pipefail

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
home="$target/sdks/java-test"
here=tests/sdk/java
jar="$(ls "$target"/sdks/dist/dueq-*.jar)"
classpath="$jar:$target/sdks/java/lib/*"
if [[ ${1:-} == classpath ]]; then
  printf '%s\n' "$classpath"
  exit 0
fi

mkdir -p "$home"
exec 9> "$home/lock"
flock 9
inputs="$(sha256sum "$here"/run.sh "$here"/src/*.java "$jar")"
if [[ "$(cat "$home/inputs.txt" 2> /dev/null)" != "$inputs" ]]; then
  rm -rf "$home/classes"
  mkdir -p "$home/classes"
  javac --release 17 -encoding UTF-8 -Xlint:all -Werror -cp "$classpath" -d "$home/classes" "$here"/src/*.java >&2
  printf '%s\n' "$inputs" > "$home/inputs.txt"
fi
exec 9>&-

case ${1:-} in
  example) example=$2 ;;
  orders) example=openapi/sdks/java/examples/Orders.java ;;
esac
if [[ -v example ]]; then
  exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$classpath" "$example"
fi
# Compiled quickly rather than well: a run takes seconds, and the compiler shares the processors with all the rest.
exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$home/classes:$classpath" Main "$@"
