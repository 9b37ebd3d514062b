#!/usr/bin/env bash
# Runs the test program with the built wheel installed in an environment of its own: run.sh SUBCOMMAND ARGS…, from the
# repository's root. DUEQ_PYTHON names another Python than python3. `run.sh example FILE` runs a program of a user's,
# `run.sh framework FILE` one with what tests/sdk/python/frameworks.txt names beside the wheel,
# `run.sh orders` the package's example, `run.sh unit` checks the types of package, example and tests first.
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
    "$home/venv/bin/pip" install --quiet --disable-pip-version-check "$wheel[public-keys]" >&2
    echo "$stamp" > "$home/stamp"
  fi
) 9> "$home/lock"
if [[ ${1-} == orders ]]; then
  exec "$home/venv/bin/python" openapi/sdks/python/examples/orders.py
fi
if [[ ${1-} == example ]]; then
  exec "$home/venv/bin/python" "$2"
fi
if [[ ${1-} == framework ]]; then
  flock "$home/lock" "$home/venv/bin/pip" install --quiet --disable-pip-version-check -r tests/sdk/python/frameworks.txt >&2
  exec "$home/venv/bin/python" "$2"
fi
if [[ ${1-} == unit && $# == 1 ]]; then
  (
    flock 9
    if ! cmp -s tests/sdk/python/requirements.txt "$home/checkers/installed.txt"; then
      rm -rf "$home/checkers"
      "$python" -m venv "$home/checkers"
      "$home/checkers/bin/pip" install --quiet --disable-pip-version-check -r tests/sdk/python/requirements.txt >&2
      cp tests/sdk/python/requirements.txt "$home/checkers/installed.txt"
    fi
    MYPYPATH=tests/sdk/python "$home/checkers/bin/mypy" --strict --python-executable "$home/venv/bin/python" \
      --cache-dir "$home/mypy" tests/sdk/python/*.py openapi/sdks/python/examples/*.py >&2
    "$home/checkers/bin/mypy" --python-executable "$home/venv/bin/python" --cache-dir "$home/mypy" \
      --config-file openapi/sdks/python/pyproject.toml -p dueq >&2
  ) 9> "$home/lock"
fi
# -B: no __pycache__ beside the program.
exec "$home/venv/bin/python" -B tests/sdk/python/program.py "$@"
