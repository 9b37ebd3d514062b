"""Checks that a request came from dueq: its callbacks are signed as https://www.standardwebhooks.com says."""

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Union

from dueq._options import Duration, seconds
from dueq.errors import WebhookError

__all__ = ["verify"]

_NAMES = ("webhook-id", "webhook-timestamp", "webhook-signature")
# dueq signs the topic apart from the body.
_TOPIC = ("dueq-topic", "dueq-signature")


def verify(
    body: Union[bytes, str],
    headers: Mapping[str, str],
    secret: Union[str, Iterable[str]],
    tolerance: Duration = timedelta(minutes=5),
) -> None:
    """Returns if the request was signed with the secret a moment ago; raises `dueq.WebhookError`, which says why not.

    A topic in the header `dueq-topic` is verified, too. Topics that share a secret are told apart by it; it is absent where
    the request is not from dueq.

    body: as it came, before anything has parsed it.
    headers: of the request; names in any case.
    secret: `whsec_…`, as dueq has it; several while it is being changed.
    tolerance: how far the clocks may differ, and how long the request may have been under way.
    """
    given: dict[str, str] = {}
    for name, value in headers.items():
        name = name.lower()
        # Else the caller may look at another `webhook-id` than the signed one.
        if name in _NAMES + _TOPIC and name in given:
            raise WebhookError(f"there is more than one {name}")
        given[name] = value
    missing = [name for name in _NAMES if not given.get(name)]
    if missing:
        raise WebhookError(f"not signed: there is no {' and no '.join(missing)}")
    timestamp = given["webhook-timestamp"]
    if not re.fullmatch("[0-9]{1,12}", timestamp):
        raise WebhookError(f"webhook-timestamp is no number of seconds: {timestamp[:40]!r}")
    age = time.time() - int(timestamp)
    if abs(age) > seconds("tolerance", tolerance):
        raise WebhookError(f"webhook-timestamp is {abs(age):.0f} s {'old' if age > 0 else 'ahead'}")
    content = _bytes(body) if isinstance(body, str) else body
    signed = _bytes(f"{given['webhook-id']}.{timestamp}.") + content
    keys = list(map(_key, [secret] if isinstance(secret, str) else secret))
    if not _is_signed(signed, given["webhook-signature"], keys):
        raise WebhookError("no signature in webhook-signature is right for this body and secret")
    if not any(name in given for name in _TOPIC):
        return
    missing = [name for name in _TOPIC if not given.get(name)]
    if missing:
        raise WebhookError(f"the topic is not signed: there is no {' and no '.join(missing)}")
    signed = _bytes(f"{given['webhook-id']}:{timestamp}:{given['dueq-topic']}")
    if not _is_signed(signed, given["dueq-signature"], keys):
        raise WebhookError("no signature in dueq-signature is right for this topic and secret")


def _is_signed(signed: bytes, header: str, keys: list[bytes]) -> bool:
    signatures = [_bytes(s[3:]) for s in header.split(" ") if s.startswith("v1,")]
    right = False
    for key in keys:
        wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
        for signature in signatures:
            right |= hmac.compare_digest(wanted, signature)
    return right


def _bytes(text: str) -> bytes:
    # Servers make surrogates of bytes that are no UTF-8.
    return text.encode("utf-8", "surrogateescape")


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret[6:] if secret.startswith("whsec_") else secret, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise ValueError("the secret is whsec_ and base64")
    return key
