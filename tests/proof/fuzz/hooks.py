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


def short(wait_ms):
    """The time to wait, 20 ms in place of any longer one that is allowed; a query may hold it as text."""
    try:
        allowed = not isinstance(wait_ms, bool) and 20 < float(wait_ms) <= 60_000
    except (TypeError, ValueError):
        allowed = False
    return 20 if allowed else wait_ms


@schemathesis.hook
def before_call(ctx, case, kwargs):
    for place in (case.query, case.body):
        if isinstance(place, dict) and "wait_ms" in place:
            place["wait_ms"] = short(place["wait_ms"])
    if isinstance(case.body, dict):
        with_token(case.body, (case.path_parameters or {}).get("id"))
