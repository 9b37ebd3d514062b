"""The client for code without asyncio: the same methods and models, each method blocks. It may be shared by threads.

A worker without asyncio is `dueq.Worker` with a handler that is a plain function, started by `run_blocking()`.
"""

from dueq.blocking.client import Client, Key

__all__ = ["Client", "Key"]
