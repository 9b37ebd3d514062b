#!/usr/bin/env bash
# Runs the Java SDK's test program against the built jar: run.sh SUBCOMMAND ARGS…, from the repository's root, after
# openapi/sdks/java/build.sh.
#   run.sh unit           what needs no server: warnings of javac and javadoc, the POM, client and worker against servers that
#                         misbehave, and the dueq in memory
#   run.sh example FILE   a program of a user's, with the jar that has all in it
#   run.sh framework FILE a program that needs Spring Boot
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

mkdir -p "$home"
if [[ ${1:-} == framework ]]; then
  # As a user has it: Spring Boot chooses the versions of what the SDK needs. The Maven cache is of its own, as the SDK goes into it.
  app="$home/spring"
  maven() { mvn -B -q -ntp -Dmaven.repo.local="$app/repository" "$@" >&2; }
  rm -rf "$app/lib"
  maven install:install-file -Dfile="$jar" -DpomFile="${jar%.jar}.pom"
  maven -f "$here/spring.xml" -Ddueq.version="$version" dependency:copy-dependencies -DoutputDirectory="$app/lib"
  own="$(mktemp -d "$app/app-XXXXXX")"
  javac --release 17 -Xlint:all -Werror -cp "$app/lib/*" -d "$own" "$2" >&2
  exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$own:$app/lib/*" shop.App
fi
exec 9> "$home/lock"
flock 9
# Tests and example, as a user compiles them.
programs=("$here"/src/*.java "$sdk"/examples/*.java)
inputs="$(sha256sum "$here"/run.sh "${programs[@]}" "$jar")"
if [[ "$(cat "$home/inputs.txt" 2> /dev/null)" != "$inputs" ]]; then
  rm -rf "$home/classes"
  mkdir -p "$home/classes"
  javac --release 17 -encoding UTF-8 -Xlint:all -Werror -cp "$classpath" -d "$home/classes" "${programs[@]}" >&2
  printf '%s\n' "$inputs" > "$home/inputs.txt"
fi

case ${1:-} in
  unit | hard)
    # No warning, no broken comment, and no public name without one. A comment that says all needs no @param and no @return.
    mapfile -t sources < <(find "$sdk/src" -name '*.java')
    mkdir -p "$home/checked"
    if javac --release 17 -encoding UTF-8 -Xlint:all -Xdoclint:all/protected -Xmaxwarns 10000 -cp "$classpath" -d "$home/checked" \
      "${sources[@]}" 2>&1 | grep -E '(warning|error): ' | grep -v -E 'warning: no @(param|return|throws)' >&2; then
      exit 1
    fi
    # What Maven Central wants.
    python3 - "$target/sdks/dist/dueq-$version" << 'END'
import os, sys, xml.etree.ElementTree as tree
pom = tree.parse(sys.argv[1] + ".pom").getroot()
for name in ("name", "description", "url", "licenses/license/url", "developers/developer/name", "scm/connection", "scm/url"):
    if not pom.findtext("/".join("{http://maven.apache.org/POM/4.0.0}" + part for part in name.split("/"))):
        sys.exit("the POM has no " + name)
for kind in ("-sources.jar", "-javadoc.jar"):
    os.stat(sys.argv[1] + kind)
END
    ;;
  example) example=$2 ;;
  orders) example=$sdk/examples/Orders.java ;;
esac
exec 9>&-
if [[ -v example ]]; then
  exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "${jar%.jar}-all.jar" "$example"
fi
# Compiled quickly rather than well: a run takes seconds, and the compiler shares the processors with all the rest.
exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$home/classes:$classpath" Main "$@"
