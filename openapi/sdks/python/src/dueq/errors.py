"""What can go wrong, and what a handler may raise to say what becomes of its message."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Optional, Union

from dueq import _json

__all__ = ["Dead", "FieldProblem", "ProblemError", "RetryIn"]


class FieldProblem(NamedTuple):
    """What is wrong with one field of a request."""

    field: str
    reason: str


class ProblemError(Exception):
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
        said = "; ".join(f"{e.field}: {e.reason}" for e in self.errors) or self.detail
        return f"{self.status} {self.code or self.title}: {said}"

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


def _seconds(value: Optional[str]) -> Optional[float]:
    # dueq gives seconds; a proxy's date is not worth a parser.
    return float(value) if value is not None and value.strip().isdigit() else None


class RetryIn(Exception):
    """Raised by a handler: the message comes again after `delay_s` seconds instead of the backoff of its topic."""

    def __init__(self, delay_s: Union[int, float], reason: str = "") -> None:
        if not 0 <= delay_s <= 315_360_000:
            raise ValueError("delay_s is between 0 and ten years")
        super().__init__(reason or f"again in {delay_s} s")
        self.delay_s = delay_s


class Dead(Exception):
    """Raised by a handler: the message is dead at once, for the reason given."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
