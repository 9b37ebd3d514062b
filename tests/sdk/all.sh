#!/usr/bin/env bash
# Builds the SDKs and runs the tests of tests/sdk against the packages.
# Usage: tests/sdk/all.sh [--build [LANGUAGE]…|--smoke|--present]
#   --build    builds what can be built here, all languages or these, and runs nothing.
#   --smoke    one language, Python, takes the steps; nothing where it cannot be built.
#   --present  only the languages whose toolchain is here, with fewer publishes through faults; says in the last lines which
#              were left out. Otherwise all four are wanted, and also the other generators of tests/sdk/generators.sh, NestJS and
#              Spring Boot.
set -euo pipefail
cd "$(dirname "$0")/../.."
present=false
languages=(python typescript go java)
case ${1-} in
  --present)
    present=true
    export DUEQ_TEST_PUBLISHES=${DUEQ_TEST_PUBLISHES:-3000}
    ;;
  --smoke) languages=(python) ;;
  --build) [ $# = 1 ] || languages=("${@:2}") ;;
esac

built=() missing=()
for language in "${languages[@]}"; do
  status=0
  "openapi/sdks/$language/build.sh" || status=$?
  case $status in
    0) built+=("$language") ;;
    3) missing+=("$language") ;; # its toolchain is not here; build.sh said what it needs
    *) exit "$status" ;;
  esac
done
if [ "${1-}" = --build ]; then exit; fi
# on THREADS FILTER…
on() { "${CARGO:-cargo}" test --locked --test sdk -- --ignored --test-threads "$@"; }
if [ "${1-}" = --smoke ]; then
  if [ ${#built[@]} -gt 0 ]; then on 2 python::takes_the_steps python::gives_back; else echo "sdks: SKIPPED: ${missing[*]}"; fi
  exit
fi

if ! $present && [ ${#missing[@]} -gt 0 ]; then
  echo "sdks: not all four can be built here, missing: ${missing[*]}" >&2
  exit 1
fi

# Two at a time: each starts several processes, and some look at the time. A test's name begins with its language.
if [ ${#built[@]} -gt 0 ]; then on 2 "${built[@]/%/::}"; fi
if ! $present; then on 1 generators:: web::frameworks::; fi
echo "sdks: tested: ${built[*]:-none}"
if [ ${#missing[@]} -gt 0 ]; then
  echo "sdks: SKIPPED, no toolchain: ${missing[*]} (make test-sdks wants all four)"
fi
