"""What a handler is given, and what the worker remembers of it while it holds the lease.

The message is a view of the answer's JSON: making one costs nothing, however many are leased, and only what a handler looks
at is converted. Its members are those of the generated `LeasedMessage`.
"""

import base64
import threading
from collections.abc import Mapping
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, Callable, Generic, Optional
from uuid import UUID

if TYPE_CHECKING:
    import asyncio

    from typing_extensions import TypeVar

    P = TypeVar("P", default=Any)
else:
    from typing import TypeVar

    P = TypeVar("P")


def reader(kind: Any) -> Optional[Callable[[Any], Any]]:
    """What makes payloads this type; raises ValueError for those that do not fit."""
    if kind is None:
        return None
    from pydantic import TypeAdapter, ValidationError

    validate: Callable[[Any], Any] = TypeAdapter(kind).validate_python

    def read(payload: Any) -> Any:
        try:
            return validate(payload)
        except ValidationError as error:
            # pydantic's own text quotes the payload, which belongs neither in a log nor in `last_error`.
            wrong = (".".join(map(str, ("payload", *e["loc"]))) + f": {e['msg']}" for e in error.errors(include_input=False))
            raise ValueError("; ".join(wrong)) from None

    return read


class WorkerMessage(Generic[P]):
    """A leased message; `WorkerMessage[Order]` where the worker's `payload_type` is `Order`."""

    __slots__ = ("_raw", "_payload", "_lost", "_cancelled", "_event")

    def __init__(self, raw: dict[str, Any]) -> None:
        self._raw = raw
        self._payload: Any = raw.get("payload")
        self._lost = False
        self._cancelled = False
        self._event: Optional[threading.Event] = None

    @property
    def id(self) -> UUID:
        """Its id."""
        return UUID(self._raw["id"])

    @property
    def topic(self) -> str:
        """Its topic."""
        return str(self._raw["topic"])

    @property
    def payload(self) -> P:
        """The payload, if it is JSON; numbers that neither int nor float can hold are Decimal."""
        payload: P = self._payload
        return payload

    @property
    def payload_base64(self) -> Optional[str]:
        """The payload in base64, if it is bytes."""
        return self._raw.get("payload_base64")

    @property
    def payload_bytes(self) -> Optional[bytes]:
        """The payload, if it is bytes."""
        encoded = self._raw.get("payload_base64")
        return None if encoded is None else base64.b64decode(encoded)

    @property
    def content_type(self) -> Optional[str]:
        """Media type of the bytes."""
        return self._raw.get("content_type")

    @property
    def headers(self) -> Mapping[str, str]:
        """The publisher's headers."""
        headers: Mapping[str, str] = self._raw["headers"]
        return headers

    @property
    def key(self) -> Optional[str]:
        """Its key, where it was published with one."""
        return self._raw.get("key")

    @property
    def group(self) -> Optional[str]:
        """Its group, where it was published in one."""
        return self._raw.get("group")

    @property
    def traceparent(self) -> Optional[str]:
        """The trace that it was published in, as a W3C `traceparent`, if that is recorded."""
        return self._raw.get("traceparent")

    @property
    def priority(self) -> int:
        """0…255."""
        return int(self._raw["priority"])

    @property
    def attempt(self) -> int:
        """Number of this grant, from 1."""
        return int(self._raw["attempt"])

    @property
    def attempts_left(self) -> int:
        """Counted grants that are left; 0: this is the last."""
        return int(self._raw["attempts_left"])

    @property
    def published_at(self) -> datetime:
        """When it was published."""
        return _instant(self._raw["published_at"])

    @property
    def due_at(self) -> datetime:
        """When it fell due; after a nack or an expired lease, when it came back."""
        return _instant(self._raw["due_at"])

    @property
    def lease_token(self) -> str:
        """Proves that this worker holds the lease."""
        return str(self._raw["lease_token"])

    @property
    def lease_ms(self) -> int:
        """Time left when it was leased, ms; the worker extends the lease by itself."""
        return int(self._raw["lease_ms"])

    @property
    def lease_expires_at(self) -> datetime:
        """When the lease would have ended if it were not extended."""
        return _instant(self._raw["lease_expires_at"])

    @property
    def lost(self) -> bool:
        """Whether the lease is lost: somebody else may have the message, and nothing said about it counts any more."""
        return self._lost

    @property
    def cancelled(self) -> bool:
        """Whether the handler should end: the lease is lost, or the worker stops and its `stop_timeout` has passed."""
        return self._cancelled

    def wait_cancelled(self, timeout: Optional[float] = None) -> bool:
        """Blocks until `cancelled`, at most so many seconds; for handlers that are plain functions."""
        if self._event is None:
            self._event = threading.Event()
            if self._cancelled:
                self._event.set()
        return self._event.wait(timeout)

    def _cancel(self, lost: bool) -> None:
        self._lost = self._lost or lost
        self._cancelled = True
        if self._event is not None:
            self._event.set()

    def __repr__(self) -> str:
        return f"<WorkerMessage {self._raw['id']} of {self._raw['topic']}, attempt {self._raw['attempt']}>"


def _instant(text: str) -> datetime:
    # Before 3.11 fromisoformat does not know Z.
    return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)


class Held:
    """A message whose lease the worker has, or whose end it still has to report. Times are time.monotonic()'s."""

    __slots__ = (
        "message",
        "id",
        "token",
        "lease_ms",
        "deadline",
        "extend_at",
        "extending",
        "lost",
        "given_up",
        "task",
        "report",
        "since",
        "repeated",
    )

    def __init__(self, raw: dict[str, Any], arrived: float) -> None:
        self.message = WorkerMessage(raw)
        self.id: str = raw["id"]
        self.token: str = raw["lease_token"]
        self.lease_ms: int = max(1000, raw["lease_ms"])
        self.extending = False
        self.lost = False
        # The worker stops and does not wait for the handler any longer.
        self.given_up = False
        # While the handler runs.
        self.task: Optional[asyncio.Task[None]] = None
        # What to say to the server about it, since when, and whether it may have heard it already.
        self.report: dict[str, Any] = {}
        self.since = 0.0
        self.repeated = False
        self.leased(arrived, raw["lease_ms"])

    def leased(self, since: float, lease_ms: int) -> None:
        """The lease lasts so long; a third of it is waited before it is extended."""
        self.deadline = since + lease_ms / 1000
        self.extend_at = since + max(0.2, lease_ms / 3000)

    def over(self) -> bool:
        """Whether the lease has ended by this worker's clock."""
        return monotonic() >= self.deadline
