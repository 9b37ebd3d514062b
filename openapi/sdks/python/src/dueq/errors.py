"""What can go wrong, and what a handler may raise to say what becomes of its message."""

import builtins
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple, Optional

from dueq import _json
from dueq._options import Duration, seconds

__all__ = ["ConnectError", "Dead", "DueqError", "FieldProblem", "ProblemError", "RetryIn", "WebhookError"]


class DueqError(Exception):
    """What every error of a request is."""


class FieldProblem(NamedTuple):
    """What is wrong with one field of a request."""

    field: str
    reason: str


class ProblemError(DueqError):
    """dueq refused a request.

    `status` is the HTTP status, `code` the stable name of what happened (`lease_lost`, `topic_not_found` …; empty where a
    proxy answered in dueq's place), `detail` says it to people, `errors` names the fields of bad input, `request_id` is in
    dueq's log, `retry_after` is in seconds where the answer said when to come again.
    """

    def __init__(
        self,
        status: int,
        code: str = "",
        detail: str = "",
        *,
        title: str = "",
        type: str = "about:blank",
        errors: Optional[list[FieldProblem]] = None,
        request_id: Optional[str] = None,
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(status, code, detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.title = title
        self.type = type
        self.errors = errors or []
        self.request_id = request_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        name = self.code or self.title or _phrase(self.status)
        # dueq's detail names the first of the fields.
        what = "; ".join(f"{e.field}: {e.reason}" for e in self.errors) or self.detail
        return f"{self.status} {name}: {what}" if what else f"{self.status} {name}"

    @classmethod
    def from_answer(cls, status: int, headers: Mapping[str, str], body: bytes) -> "ProblemError":
        """From an answer whose status is not 2xx, whoever gave it."""
        try:
            problem: Any = _json.loads(body)
        except (ValueError, RecursionError):
            problem = None
        if not isinstance(problem, dict):
            problem = {"detail": body[:1024].decode("utf-8", "replace")}
        given = problem.get("errors")
        return cls(
            status,
            str(problem.get("code", "")),
            str(problem.get("detail", "")),
            title=str(problem.get("title", "")),
            type=str(problem.get("type", "about:blank")),
            errors=[
                FieldProblem(str(e.get("field", "")), str(e.get("reason", "")))
                for e in (given if isinstance(given, list) else [])
                if isinstance(e, dict)
            ],
            request_id=problem.get("request_id") or headers.get("x-request-id"),
            retry_after=_seconds(headers.get("retry-after")),
        )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "refused"


def _seconds(value: Optional[str]) -> Optional[float]:
    # dueq gives seconds; a proxy's date is not worth a parser.
    return float(value) if value is not None and value.strip().isdecimal() else None


class _NoAnswer(DueqError):
    _words = ""

    def __init__(self, url: str, operation: str, reason: str, sent: bool = True) -> None:
        super().__init__(f"{self._words} {url} ({operation}): {reason}")
        self.url = url
        self.operation = operation
        self.reason = reason
        self.sent = sent

    def __reduce__(self) -> Any:
        return type(self), (self.url, self.operation, self.reason, self.sent)


class ConnectError(_NoAnswer, ConnectionError):
    """There was no connection, it broke before the answer was complete, or what answered is not dueq.

    `url` is the server's, `operation` the method and path, `reason` what the network said; the cause is the HTTP library's.
    `sent` is False where no connection was made; else whether dueq did what was asked is not known.
    """

    _words = "cannot reach"


class TimeoutError(_NoAnswer, builtins.TimeoutError):
    """There was no answer in time; whether dueq did what was asked is not known. Attributes as `ConnectError`'s."""

    _words = "no answer from"


class WebhookError(DueqError):
    """A webhook is not what dueq sent, or not now; the message says why."""


class RetryIn(Exception):
    """Raised by a handler: the message comes again after `delay` instead of the backoff of its topic.

    delay: a timedelta, or seconds.
    """

    def __init__(self, delay: Duration, reason: str = "") -> None:
        self.delay_s = seconds("delay", delay)
        if self.delay_s > 315_360_000:
            raise ValueError("delay is at most ten years")
        super().__init__(reason or f"again in {self.delay_s:g} s")


class Dead(Exception):
    """Raised by a handler: the message is dead at once, for the reason given."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
