"""What a worker can be told, checked once."""

import inspect
import logging
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from dueq.worker.message import WorkerMessage

# Lease requests under way at once: few, so that under load each asks for all handlers that have become free meanwhile.
MOST_LOOPS = 4

log = logging.getLogger("dueq.worker")

Handler = Callable[[WorkerMessage], Union[Awaitable[Any], Any]]
CallNext = Callable[[WorkerMessage], Awaitable[Any]]
"""What a middleware calls to go on: the next one, or the handler."""
Middleware = Callable[[WorkerMessage, CallNext], Awaitable[Any]]
"""What is called around every handler of a worker: `async def timed(message, call_next): return await call_next(message)`."""


def called(handler: Any) -> tuple[Any, Any]:
    """What a call of the handler may run: a function, or the `__call__` of an object, which is no `async def` itself."""
    while hasattr(handler, "func"):  # functools.partial
        handler = handler.func
    return handler, type(handler).__call__


@dataclass(frozen=True)
class Options:
    """See `Worker`."""

    topics: tuple[str, ...]
    handler: Handler
    payload_type: Any
    concurrency: int
    prefetch: int
    lease_ms: Optional[int]
    wait_ms: int
    stop_timeout: float
    middleware: tuple[Middleware, ...]

    def __post_init__(self) -> None:
        if not self.topics or not all(isinstance(topic, str) and topic for topic in self.topics):
            raise ValueError(f"topic is a name, or several, not {self.topics!r}")
        for name, function in (("handler", self.handler), *(("middleware", layer) for layer in self.middleware)):
            if not callable(function):
                raise TypeError(f"{name} is a function, not {function!r}")
            if any(inspect.isgeneratorfunction(part) or inspect.isasyncgenfunction(part) for part in called(function)):
                raise TypeError(f"{name} is a function without yield, not {function!r}: what it has would never run")
        for name, low, high in (
            ("concurrency", 1, 1_000_000),
            ("prefetch", 1, 1000),
            ("lease_ms", 1000, 43_200_000),
            ("wait_ms", 0, 60_000),
        ):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and low <= value <= high):
                raise ValueError(f"{name} is a whole number between {low} and {high}, not {value!r}")

    @property
    def most_held(self) -> int:
        """How many messages are held at once at most, running and waiting."""
        return self.concurrency if self.prefetch == 1 else self.concurrency + self.prefetch

    @property
    def batch(self) -> int:
        """How many messages a lease request asks for at most."""
        return max(self.prefetch, min(-(-self.concurrency // MOST_LOOPS), 1000))

    @property
    def most_loops(self) -> int:
        """How many lease requests are under way at once at most."""
        return min(MOST_LOOPS, -(-self.most_held // self.batch))


@dataclass(frozen=True)
class Hooks:
    """See `Worker`."""

    on_lease: Optional[Callable[[int], Any]] = None
    on_start: Optional[Callable[[WorkerMessage], Any]] = None
    on_done: Optional[Callable[[WorkerMessage, float], Any]] = None
    on_failed: Optional[Callable[[WorkerMessage, BaseException], Any]] = None
    on_lost: Optional[Callable[[WorkerMessage], Any]] = None
    on_error: Optional[Callable[[BaseException], Any]] = None

    def call(self, hook: Optional[Callable[..., Any]], *arguments: Any) -> None:
        """Calls one if it is there; what it raises is logged and stops nothing."""
        if hook is None:
            return
        try:
            hook(*arguments)
        except Exception:
            log.exception("a hook of the worker failed")
