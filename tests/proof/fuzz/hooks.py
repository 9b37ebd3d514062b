"""Requests that are as valid as before and reach further: long polls that wait no longer than 20 ms, and the right
token for a message whose lease is known (leases.json, id to token)."""

import json
import pathlib

import schemathesis

LEASES = json.loads(pathlib.Path("leases.json").read_text())


def with_token(message, id):
    """Puts the lease's token in place of another string that a token could be."""
    token = message.get("lease_token")
    if id in LEASES and isinstance(token, str) and 0 < len(token) <= 64:
        message["lease_token"] = LEASES[id]


@schemathesis.hook
def before_call(ctx, case, kwargs):
    body = case.body
    if not isinstance(body, dict):
        return
    wait_ms = body.get("wait_ms")
    if isinstance(wait_ms, (int, float)) and not isinstance(wait_ms, bool) and 20 < wait_ms <= 60_000:
        body["wait_ms"] = 20
    with_token(body, (case.path_parameters or {}).get("id"))
