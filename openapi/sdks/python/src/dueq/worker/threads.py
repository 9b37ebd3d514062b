"""Runs handlers that are plain functions.

Not a ThreadPoolExecutor: Python waits for its threads before it exits, and a handler that was given up must not keep a program
from ending.
"""

import asyncio
import threading
from queue import SimpleQueue
from typing import Any, Callable, Optional

Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Threads:
    """Up to `most` daemon threads, started when they are needed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[Optional[Job]] = SimpleQueue()
        self._started = 0
        self._busy = 0

    async def run(self, function: Callable[[], Any]) -> Any:
        """What the function returns or raises. If this is cancelled, the function goes on and its result is dropped."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._busy += 1
        if self._busy > self._started and self._started < self._most:
            self._started += 1
            threading.Thread(target=self._work, name=f"dueq-{self._started}", daemon=True).start()
        self._jobs.put((function, future))
        return await future

    def close(self) -> None:
        """Lets the threads end as soon as they are idle."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            function, future = job
            result: Any = None
            raised: Optional[BaseException] = None
            try:
                result = function()
            except BaseException as error:
                raised = error
            try:
                self._loop.call_soon_threadsafe(self._done, future, result, raised)
            except RuntimeError:  # the event loop is closed: nobody waits any longer
                return

    def _done(self, future: "asyncio.Future[Any]", result: Any, raised: Optional[BaseException]) -> None:
        self._busy -= 1
        if future.done():
            return
        if raised is None:
            future.set_result(result)
        elif isinstance(raised, Exception) and not isinstance(raised, StopIteration):
            future.set_exception(raised)
        else:
            future.set_exception(RuntimeError(f"handler ended by {raised!r}"))
