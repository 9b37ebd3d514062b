"""Checks that a request came from dueq: its callbacks are signed as https://www.standardwebhooks.com says."""

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Callable, Union

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
    secret: `whsec_…`, as dueq has it; several while it is being changed. Or a public key of dueq's, `whpk_…`, which the extra
        `dueq[public-keys]` is needed for.
    tolerance: how far the clocks may differ, and how long the request may have been under way.
    """
    keys = list(map(_key, [secret] if isinstance(secret, str) else secret))
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


# Says whether this signature of a header is one of the key, and right for these bytes.
_Key = Callable[[bytes, str], bool]


def _is_signed(signed: bytes, header: str, keys: list[_Key]) -> bool:
    signatures = header.split(" ")
    return any([key(signed, signature) for key in keys for signature in signatures])


def _bytes(text: str) -> bytes:
    # Servers make surrogates of bytes that are no UTF-8.
    return text.encode("utf-8", "surrogateescape")


def _key(secret: str) -> _Key:
    is_public = secret.startswith("whpk_")
    try:
        key = base64.b64decode(secret[5:] if is_public else secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if is_public:
        return _public(key)
    if not key:
        raise ValueError("the secret is whsec_ and base64")

    def is_right(signed: bytes, signature: str) -> bool:
        wanted = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
        return hmac.compare_digest(wanted, _bytes(signature))

    return is_right


def _public(key: bytes) -> _Key:
    if len(key) != 32:
        raise ValueError("the public key is whpk_ and 32 bytes in base64")
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise ImportError("whpk_… needs the package cryptography: pip install 'dueq[public-keys]'") from error
    public = Ed25519PublicKey.from_public_bytes(key)

    def is_right(signed: bytes, signature: str) -> bool:
        if not signature.startswith("v1a,"):
            return False
        try:
            public.verify(base64.b64decode(signature[4:], validate=True), signed)
        except (InvalidSignature, binascii.Error, ValueError):
            return False
        return True

    return is_right
