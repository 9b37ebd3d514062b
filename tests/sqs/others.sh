#!/usr/bin/env bash
# Runs the tests of SQS that LocalStack or moto have, from a checkout of yours, against a dueq that this starts. Nothing of theirs is
# copied. What is expected to fail is in others.txt, with the reason; the exit status says if anything else failed.
# Usage: tests/sqs/others.sh CHECKOUT [PYTEST_ARGUMENT…]
#   PYTHON  the interpreter, for LocalStack 3.13 or later (python3); DUEQ  the program (target/debug/dueq)
#   The port 4566 must be free, and redis-server on PATH.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
checkout=$(cd "$1" && pwd)
shift
target=${CARGO_TARGET_DIR:-$here/../../target}
venv=$target/others
dueq=${DUEQ:-$target/debug/dueq}
if ! cmp -s "$here/others-requirements.txt" "$venv/installed.txt"; then
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" install --quiet -r "$here/others-requirements.txt"
  cp "$here/others-requirements.txt" "$venv/installed.txt"
fi

export PYTHONDONTWRITEBYTECODE=1 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_DEFAULT_REGION=us-east-1
url=http://127.0.0.1:4566
work=$(mktemp -d)
if [ -d "$checkout/localstack-core" ]; then
  # With keys: where there are none, no GET changes anything that has its signature in the query.
  flags=(--sqs-waits --api-key test --api-key 000000000002)
  tests=(tests/aws/services/sqs/test_sqs.py tests/aws/services/sqs/test_sqs_move_task.py)
  # Its version is made by its build.
  printf 'import sys, types\nsys.modules["localstack.version"] = types.SimpleNamespace(__version__="0")\n' > "$work/others.py"
  export PYTHONPATH=$work:$checkout/localstack-core:$checkout TEST_SKIP_LOCALSTACK_START=1
  export TEST_AWS_ENDPOINT_URL=$url AWS_ENDPOINT_URL=$url LOCALSTACK_HOST=127.0.0.1:4566
else
  flags=(--sqs-account 123456789012)
  tests=(tests/test_sqs/test_sqs.py tests/test_sqs/test_sqs_message_attributes.py)
  # It asks STS for the account.
  cat > "$work/others.py" <<'EOF'
from botocore.client import BaseClient
call = BaseClient._make_api_call
BaseClient._make_api_call = lambda self, action, parameters: (
    {"Account": "123456789012"} if action == "GetCallerIdentity" else call(self, action, parameters))
EOF
  export PYTHONPATH=$work:$checkout TEST_SERVER_MODE=true TEST_SERVER_MODE_ENDPOINT=$url MOTO_CALL_RESET_API=false
fi

trap 'kill $(cat "$work"/*.pid 2> /dev/null) 2> /dev/null || true; rm -rf "$work"' EXIT
redis-server --port 0 --unixsocket "$work/redis" --save '' --daemonize yes --pidfile "$work/redis.pid" > /dev/null
"$dueq" serve --redis-url "redis+unix://$work/redis" --listen 127.0.0.1:4566 "${flags[@]}" 2> "$work/log" &
echo $! > "$work/dueq.pid"
for _ in $(seq 100); do
  curl --silent --fail --output /dev/null "$url/readyz" && break
  sleep 0.1
done

cd "$checkout"
"$venv/bin/python" -m pytest -p others -p no:cacheprovider -q --timeout 60 -rfE --tb=no --color=no "$@" "${tests[@]}" > "$work/results" || true
tail -n 1 "$work/results" | grep " passed"
unexpected=$(sed -nE 's/^(FAILED|ERROR) [^:]*::(.*::)?([A-Za-z0-9_]+).*/\3/p' "$work/results" | sort -u \
  | grep -vxFf <(sed 's/:.*//' "$here/others.txt" | tr ' ' '\n') || true)
[ -z "$unexpected" ] || { printf 'not expected to fail:\n%s\n' "$unexpected"; exit 1; }
