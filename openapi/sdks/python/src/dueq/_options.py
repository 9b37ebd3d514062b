"""The options of messages: as people give them, and as requests have them."""

import base64
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime, timedelta
from math import ceil, isfinite
from typing import TYPE_CHECKING, Any, Optional, TypedDict, Union

if TYPE_CHECKING:
    from dueq.generated.models import (
        AuthRequest,
        BackoffRequest,
        CallbackRequest,
        CallMethod,
        CompletionRequest,
        KeyUntil,
        OnDuplicate,
        RetryRequest,
    )

Duration = Union[timedelta, float]

# A payload that was left out: None is one.
ABSENT: Any = object()


traceparent: ContextVar[Optional[str]] = ContextVar("traceparent", default=None)
"""The trace that what is published belongs to: its header `traceparent`, unless the message has one.

A worker sets it to that of the message whose handler runs.
"""


class DebounceWait(TypedDict, total=False):
    """The part of `Debounce` that may be left out."""

    max_wait: Duration
    """It is due no later than this long after its first publish."""


class Debounce(DebounceWait):
    """Each publish of the key moves the message and replaces its content, until it is leased."""

    key: str
    """Its key in its topic, for `client.key`."""
    delay: Duration
    """How long after its latest publish it is due."""


class Throttle(TypedDict):
    """At most one message per interval: the first at once, the latest content of the others at the end of the interval."""

    key: str
    """What is throttled."""
    every: Duration
    """The interval."""


# `for` is a keyword, so this is no class.
Once = TypedDict("Once", {"key": str, "for": Duration})
Once.__doc__ = "For so long, whatever is published with the key gets the first answer."

# The durations in each named policy for duplicates.
POLICIES = {"debounce": ("delay", "max_wait"), "throttle": ("every",), "once": ("for",)}


class _Standing(TypedDict, total=False):
    """What can be said about a message, whenever and however often it is published."""

    key: Optional[str]
    """Its own name in its topic, for `client.key`; one live message has it."""
    key_until: Optional[Union["KeyUntil", str]]
    """`done` (default), or `granted`: the first lease frees the key."""
    on_duplicate: Optional[Union["OnDuplicate", str]]
    """If the key is taken: `return` (default) that message, `reject`, or `replace` it."""
    group: Optional[str]
    """Messages of a group are leased in the order in which they were published."""
    priority: Optional[int]
    """0…255, 0 unless given; among ready messages higher goes first."""
    ttl: Optional[Duration]
    """It expires so long after it first fell due."""
    max_attempts: Optional[int]
    """How often it is tried before it is dead; the topic's unless given."""
    backoff: Optional["BackoffRequest"]
    """How long it waits after a failure; the topic's unless given."""
    headers: Optional[Mapping[str, str]]
    """Returned with the lease, sent with a callback."""
    content_type: Optional[str]
    """Media type of a payload that is bytes."""
    on_done: Optional["CompletionRequest"]
    """Where to publish what came of it, `{"url": …}` or `{"topic": …}`; the topic's unless given."""
    on_dead: Optional["CompletionRequest"]
    """Where to publish that it died; the topic's unless given."""


class MessageOptions(_Standing, total=False):
    """What can be said about a message when it is published. Durations are timedelta, or numbers of seconds."""

    delay: Optional[Duration]
    """How long until it is due; at once unless given."""
    at: Optional[datetime]
    """When it is due, with a time zone. Not with `delay`."""
    debounce: Optional[Debounce]
    """Publish when it has been quiet for a while. Only one of these three, and not with the keys below."""
    throttle: Optional[Throttle]
    """Publish at most once per interval."""
    once: Optional[Once]
    """Publish once within a time."""
    idempotency_key: Optional[str]
    """The same key, the same message, however often it is published. The client makes one up for its retries, unless given."""


class PublishOptions(MessageOptions, total=False):
    """What can be said about a message of a topic."""

    callback: Optional["CallbackRequest"]
    """In a pushed topic: where dueq sends it."""


class NewMessage(PublishOptions):
    """A message of `publish_batch`: its payload and its options."""

    payload: Any
    """Anything that JSON has, or bytes."""


class _TickOptions(_Standing, total=False):
    """The part of `TickMessage` that may be left out."""

    callback: Optional["CallbackRequest"]
    """In a pushed topic: where dueq sends it."""


class TickMessage(_TickOptions):
    """A message of `put_schedule`: its payload, and its options other than when it is due."""

    payload: Any
    """Anything that JSON has, or bytes."""


class CallbackOptions(MessageOptions, total=False):
    """What can be said about a callback."""

    method: Optional[Union["CallMethod", str]]
    """POST unless given; PUT, PATCH, GET or DELETE."""
    timeout: Optional[Duration]
    """How long the URL may take to answer; 15 s unless given."""
    connect_timeout: Optional[Duration]
    """How much of that connecting may take, TLS included; unless given 5 s, and 10 s with TLS."""
    retry: Optional["RetryRequest"]
    """Which failed calls are retried; all except for 410 unless given."""
    auth: Optional["AuthRequest"]
    """How the call proves who is calling: `basic` or `oauth2`, in place of a header `authorization`."""
    client_cert: Optional[str]
    """The name of the server's client certificate to call with."""
    secret: Optional[str]
    """What it is signed with, in place of the server's signing secret; see `dueq.webhooks`."""
    secret_headers: Optional[list[str]]
    """Further headers that nobody can read back, besides `authorization` and `cookie`."""


def named(what: str, value: str) -> str:
    """The name of a topic, or a key; raises ValueError and TypeError where it cannot be one."""
    if not isinstance(value, str):
        raise TypeError(f"{what} is a string, not {value!r}")
    if not value:
        raise ValueError(f"{what} is empty")
    return value


def seconds(name: str, value: Duration) -> float:
    """A duration in seconds; raises ValueError where it is none."""
    if not isinstance(value, timedelta) and not hasattr(value, "__float__"):  # float would read text
        raise TypeError(f"{name} is a timedelta or a number of seconds, not {value!r}")
    number = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not isfinite(number) or number < 0:
        raise ValueError(f"{name} is a duration of 0 or more, not {value!r}")
    return number


def milliseconds(name: str, value: Duration) -> int:
    """A duration in milliseconds, rounded up; raises ValueError where it is none."""
    # 16.1 * 1000 is a little more than 16100.
    return ceil(round(seconds(name, value) * 1000, 6))


def due(delay: Optional[Duration], at: Optional[datetime]) -> dict[str, Any]:
    """The fields that say when a message is due."""
    if delay is not None and at is not None:
        raise ValueError("delay and at cannot be given both")
    if delay is not None:
        return {"delay_ms": milliseconds("delay", delay)}
    if at is None:
        return {}
    if not isinstance(at, datetime):
        raise TypeError(f"at is a datetime, not {at!r}; delay takes durations")
    if at.utcoffset() is None:
        raise ValueError(f"at has no time zone: {at.isoformat()}; datetime.now(timezone.utc) has one")
    return {"deliver_at": at}


def policy(name: str, given: Any) -> dict[str, Any]:
    """A named policy for duplicates as requests have it; raises TypeError and ValueError where it is none."""
    names = ("key", *POLICIES[name])
    if not isinstance(given, Mapping) or not set(given) <= set(names):
        raise TypeError(f"{name} is a dict of {', '.join(names)}, not {given!r}")
    times = {part: given[part] for part in POLICIES[name] if given.get(part) is not None}
    return {"key": given.get("key"), **{f"{part}_ms": milliseconds(part, time) for part, time in times.items()}}


def repeats(request: Any) -> bool:
    """Whether a publish may be sent again: it says what becomes of a repeat."""
    return any(getattr(request, name, None) for name in ("idempotency_key", *POLICIES))


def fields(options: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The fields of a request that publishes; `kind` is the TypedDict that names the options."""
    if not isinstance(options, Mapping):
        raise TypeError(f"a message is a dict of its payload and options, not {options!r}")
    unknown = options.keys() - kind.__annotations__ - {"payload"}
    if unknown:
        raise TypeError(f"unknown option: {', '.join(sorted(unknown))}")
    given = {name: value for name, value in options.items() if value is not None}
    made = due(given.pop("delay", None), given.pop("at", None))
    for name in ("ttl", "timeout", "connect_timeout"):
        if name in given:
            made[f"{name}_ms"] = milliseconds(name, given.pop(name))
    made.update({name: policy(name, given.pop(name)) for name in POLICIES if name in given})
    if "payload" in options:
        payload = options["payload"]
        given.pop("payload", None)
        if isinstance(payload, (bytes, bytearray, memoryview)):
            made["payload_base64"] = base64.b64encode(payload).decode()
        else:
            made["payload"] = payload
    # What a schedule publishes belongs to no trace of today's.
    trace, headers = None if kind is TickMessage else traceparent.get(), given.pop("headers", {})
    if trace is not None and not any(name.lower() == "traceparent" for name in headers):
        headers = {**headers, "traceparent": trace}
    if headers:
        made["headers"] = headers
    return {**given, **made}
