"""Client and worker for dueq, a delay queue over HTTP.

`Client` is the API for asyncio, `dueq.blocking.Client` the same for code without it; the models of requests and answers are
here, imported when they are first used. `Worker` works on the messages of a topic.
"""

from typing import TYPE_CHECKING, Any

from dueq._version import __version__
from dueq.client import Client
from dueq.errors import Dead, FieldProblem, ProblemError, RetryIn
from dueq.generated import models
from dueq.worker import Worker, WorkerMessage

__all__ = ["Client", "Dead", "FieldProblem", "ProblemError", "RetryIn", "Worker", "WorkerMessage", "__version__"]
__all__ += models.__all__

if TYPE_CHECKING:
    from dueq.generated.models import *
else:

    def __getattr__(name: str) -> Any:
        if name in models.__all__:
            return getattr(models, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
