"""Client and worker for dueq, a delay queue over HTTP.

`Client` blocks and may be shared by threads, `AsyncClient` has the same methods for asyncio. `Worker` works on the messages of
a topic, `webhooks.verify` checks callbacks. The models of requests and answers are here too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dueq._options import (
    CallbackOptions,
    Debounce,
    Duration,
    MessageOptions,
    NewMessage,
    Once,
    PublishOptions,
    Throttle,
    TickMessage,
    traceparent,
)
from dueq._sync.client import Client, Key
from dueq._version import __version__
from dueq.errors import ConnectError, Dead, DueqError, FieldProblem, ProblemError, RetryIn, WebhookError
from dueq.errors import TimeoutError as TimeoutError
from dueq.generated import models

# Without TimeoutError: `from dueq import *` must not hide the builtin one, which catches more.
__all__ = [
    "AsyncClient",
    "AsyncKey",
    "CallNext",
    "CallbackOptions",
    "Client",
    "ConnectError",
    "Dead",
    "Debounce",
    "DueqError",
    "Duration",
    "FieldProblem",
    "Key",
    "MessageOptions",
    "Middleware",
    "NewMessage",
    "Once",
    "ProblemError",
    "PublishOptions",
    "RetryIn",
    "Throttle",
    "TickMessage",
    "WebhookError",
    "Worker",
    "WorkerMessage",
    "__version__",
    "traceparent",
    "webhooks",
]
__all__ += models.__all__

if TYPE_CHECKING:
    from dueq import webhooks
    from dueq._async.client import AsyncClient, AsyncKey
    from dueq.generated.models import *
    from dueq.worker import CallNext, Middleware, Worker, WorkerMessage
else:
    # Imported when they are first used: a program that publishes needs few of them.
    _later = {
        **dict.fromkeys(("AsyncClient", "AsyncKey"), "dueq._async.client"),
        **dict.fromkeys(("CallNext", "Middleware", "Worker", "WorkerMessage"), "dueq.worker"),
        **dict.fromkeys(models.__all__, "dueq.generated.models"),
    }

    def __getattr__(name: str) -> Any:
        if name == "webhooks":
            return import_module("dueq.webhooks")
        if name not in _later:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_later[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
