#!/usr/bin/env bash
# Runs the Java SDK's test program against the built jar: run.sh SUBCOMMAND ARGS…, from the repository's root, after
# openapi/sdks/java/build.sh.
#   run.sh unit           what needs no server: javac's and javadoc's warnings, client and worker against servers that misbehave,
#                         and the dueq in memory
#   run.sh example FILE   a program of a user's
#   run.sh orders         the package's example
#   run.sh classpath      prints what to put on a classpath
set -euo pipefail

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
home="$target/sdks/java-test"
here=tests/sdk/java
sdk=openapi/sdks/java
version="$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)"
jar="$target/sdks/dist/dueq-$version.jar"
classpath="$jar:$target/sdks/java/lib/*"
if [[ ${1:-} == classpath ]]; then
  printf '%s\n' "$classpath"
  exit 0
fi

# compile FOLDER ARGS… : into a folder of the build, without a warning.
compile() {
  rm -rf "${home:?}/$1"
  mkdir -p "$home/$1"
  javac --release 17 -encoding UTF-8 -Xlint:all -Werror -cp "$home/classes:$classpath" -d "$home/$1" "${@:2}" >&2
}

mkdir -p "$home"
exec 9> "$home/lock"
flock 9
inputs="$(sha256sum "$here"/run.sh "$here"/src/*.java "$jar")"
if [[ "$(cat "$home/inputs.txt" 2> /dev/null)" != "$inputs" ]]; then
  compile classes "$here"/src/*.java
  printf '%s\n' "$inputs" > "$home/inputs.txt"
fi

case ${1:-} in
  unit | hard)
    compile example "$sdk"/examples/*.java
    # Broken comments are errors, and so is a public name without one. A comment that says all needs no @param and no @return.
    mapfile -t sources < <(find "$sdk/src" -name '*.java')
    compile documented -Xdoclint:all/protected,-missing "${sources[@]}"
    if javac --release 17 -encoding UTF-8 -cp "$classpath" -d "$home/documented" -Xdoclint:missing/protected -Xmaxwarns 10000 \
      "${sources[@]}" 2>&1 | grep 'warning: no comment' >&2; then
      exit 1
    fi
    ;;
  example) example=$2 ;;
  orders) example=$sdk/examples/Orders.java ;;
esac
exec 9>&-
if [[ -v example ]]; then
  exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$classpath" "$example"
fi
# Compiled quickly rather than well: a run takes seconds, and the compiler shares the processors with all the rest.
exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$home/classes:$classpath" Main "$@"
