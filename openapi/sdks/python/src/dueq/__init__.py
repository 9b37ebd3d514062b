"""Client and worker for dueq, a delay queue over HTTP.

`Client` is for asyncio, `dueq.blocking.Client` the same for code without it. `Worker` works on the messages of a topic,
`webhooks.verify` checks callbacks. The models of requests and answers are here too, imported when they are first used.
"""

from typing import TYPE_CHECKING, Any

from dueq import webhooks
from dueq._options import CallbackOptions, Duration, MessageOptions, NewMessage, PublishOptions, traceparent
from dueq._version import __version__
from dueq.client import Client, Key
from dueq.errors import ConnectError, Dead, DueqError, FieldProblem, ProblemError, RetryIn, WebhookError
from dueq.errors import TimeoutError as TimeoutError
from dueq.generated import models
from dueq.worker import CallNext, Middleware, Worker, WorkerMessage

# Without TimeoutError: `from dueq import *` must not hide the builtin one, which catches more.
__all__ = [
    "CallNext",
    "CallbackOptions",
    "Client",
    "ConnectError",
    "Dead",
    "DueqError",
    "Duration",
    "FieldProblem",
    "Key",
    "MessageOptions",
    "Middleware",
    "NewMessage",
    "ProblemError",
    "PublishOptions",
    "RetryIn",
    "WebhookError",
    "Worker",
    "WorkerMessage",
    "__version__",
    "traceparent",
    "webhooks",
]
__all__ += models.__all__

if TYPE_CHECKING:
    from dueq.generated.models import *
else:

    def __getattr__(name: str) -> Any:
        if name in models.__all__:
            return getattr(models, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
