#!/usr/bin/env bash
# Runs the test program with the built wheel installed in an environment of its own: run.sh SUBCOMMAND ARGS…, from the
# repository's root. DUEQ_PYTHON names another Python than python3. `run.sh example FILE` runs a program of a user's,
# `run.sh orders` the package's example.
set -euo pipefail

target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
python="${DUEQ_PYTHON:-python3}"
home="$target/sdks/python-test"
wheel="$(ls "$target"/sdks/dist/dueq-*-py3-none-any.whl)"
mkdir -p "$home"
(
  flock 9
  stamp="$(sha256sum "$wheel"; "$python" --version)"
  if [[ "$(cat "$home/stamp" 2> /dev/null)" != "$stamp" ]]; then
    rm -rf "$home/venv" "$home/stamp"
    "$python" -m venv "$home/venv"
    "$home/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel" >&2
    echo "$stamp" > "$home/stamp"
  fi
) 9> "$home/lock"
if [[ ${1-} == orders ]]; then
  exec "$home/venv/bin/python" openapi/sdks/python/examples/orders.py
fi
if [[ ${1-} == example ]]; then
  exec "$home/venv/bin/python" "$2"
fi
# -B: no __pycache__ beside the program.
exec "$home/venv/bin/python" -B tests/sdk/python/program.py "$@"
