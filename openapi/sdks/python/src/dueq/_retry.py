"""When a request is tried again, and what is said about a server that is away: for client and worker alike."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import inf
from random import uniform
from typing import Optional

from dueq.errors import ProblemError

# Nothing was done, or what was done is found again by the key or token of the request.
PASSING = frozenset(("redis_unavailable", "outcome_unknown", "overloaded"))
GONE = frozenset(("message_not_found", "topic_not_found", "schedule_not_found"))


def passing(status: int, headers: Mapping[str, str], body: bytes) -> Optional[ProblemError]:
    """The refusal in an answer, if it can be gone the next time."""
    if status not in (408, 429, 502, 503, 504):
        return None
    problem = ProblemError.from_answer(status, headers, body)
    # Without a code it is a proxy's.
    return problem if status in (408, 429) or problem.code in PASSING or not problem.code else None


def gone(status: int, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether an answer is dueq's that there is no such message; a 404 of a proxy says nothing about it."""
    return status == 404 and ProblemError.from_answer(status, headers, body).code in GONE


@contextmanager
def suppress_gone() -> Iterator[None]:
    """Ends quietly where dueq refuses because there is no such message, topic or schedule."""
    try:
        yield
    except ProblemError as problem:
        if problem.code not in GONE:
            raise


class Backoff:
    """How long to wait after a failure: 100 ms doubling to 5 s, anything from nothing to that, so that clients spread.

    A server that asks for longer is given it, up to `most_s`.
    """

    def __init__(self, most_s: float = inf) -> None:
        self._most_s = most_s
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def next_s(self, error: Optional[BaseException] = None) -> float:
        pause = uniform(0, min(5.0, 0.1 * 2 ** min(self._failures, 10)))
        self._failures += 1
        least = getattr(error, "retry_after", None)
        return max(pause, min(least or 0.0, self._most_s))


class Away:
    """Logs once when a server is away, and once when it is back."""

    def __init__(self, log: logging.Logger, url: str) -> None:
        self._log = log
        self._url = url
        self._away = False

    def failed(self, error: BaseException) -> None:
        """A request failed, and will be tried again."""
        if not self._away:
            self._away = True
            self._log.warning("cannot reach %s, retrying: %s", self._url, getattr(error, "reason", error))

    def answered(self) -> None:
        """A request was answered."""
        if self._away:
            self._away = False
            self._log.warning("%s answers again", self._url)
