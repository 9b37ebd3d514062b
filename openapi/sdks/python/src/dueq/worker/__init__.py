"""The worker: leases the messages of a topic, has a handler work on each, and tells dueq how it went."""

import inspect
import signal
import threading
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from dueq._options import Duration, seconds
from dueq._request import Requests
from dueq.worker.message import P, WorkerMessage
from dueq.worker.options import CallNext, Hooks, Middleware, Options, called

if TYPE_CHECKING:
    import asyncio

    from dueq._async.client import AsyncClient
    from dueq._sync.client import Client
    from dueq.worker.engine import Engine

__all__ = ["CallNext", "Middleware", "Worker", "WorkerMessage"]


class Worker:
    """Calls `handler` with every message of `topic` that falls due, as `WorkerMessage`.

    client: a `Client` or an `AsyncClient`. The worker asks its server with its key and its `ssl_context`, on connections of its
        own; it never closes the client. `timeout` counts where it is shorter than the worker's own time-outs (10 s), and
        without `retries` a request that fails ends `run`.
    Of several topics the first that has a message wins.

    A handler that returns has its message acknowledged. One that raises has it come again by the backoff of its topic, with the
    text of what it raised as reason; `RetryIn` and `Dead` say what else. Its lease is extended until it ends. If the lease is
    lost all the same, an `async def` handler is cancelled; a plain function, which runs in a thread, can ask
    `message.cancelled`. Messages may come more than once: make handlers idempotent.

    payload_type: what pydantic makes of `message.payload`: a model, a dataclass, a TypedDict … One that does not fit fails as
        if the handler had raised ValueError.
    concurrency: handlers at once.
    prefetch: messages that may wait here beyond those that are handled, 1…1000; 1 means none. More makes short handlers faster.
    lease_ms: how long a lease lasts unless it is extended, 1000…43200000; the topic's unless given.
    wait_ms: how long a request waits for messages, 0…60000. Keep it 5 s below every time-out on the way.
    stop_timeout: how long handlers have to end after `stop`; then they are cancelled and their messages given back.
    middleware: async functions around every handler, the first one outermost: `async def timed(message, call_next)`. They
        `await call_next(message)`, and see what it returns and raises; what they raise counts as the handler's.

    on_lease(count), on_start(message), on_done(message, ms), on_failed(message, error), on_lost(message), on_error(error):
    called in the event loop, so they must not block; what they raise is logged. Failures are logged (logger `dueq.worker`)
    where they have no hook.
    """

    def __init__(
        self,
        client: "Union[Client, AsyncClient]",
        topic: Union[str, Sequence[str]],
        handler: "Callable[[WorkerMessage[P]], Union[Awaitable[Any], Any]]",
        *,
        payload_type: Optional[type[P]] = None,
        concurrency: int = 10,
        prefetch: int = 1,
        lease_ms: Optional[int] = None,
        wait_ms: int = 20_000,
        stop_timeout: Duration = 30.0,
        middleware: Sequence[Middleware] = (),
        on_lease: Optional[Callable[[int], Any]] = None,
        on_start: Optional[Callable[[WorkerMessage], Any]] = None,
        on_done: Optional[Callable[[WorkerMessage, float], Any]] = None,
        on_failed: Optional[Callable[[WorkerMessage, BaseException], Any]] = None,
        on_lost: Optional[Callable[[WorkerMessage], Any]] = None,
        on_error: Optional[Callable[[BaseException], Any]] = None,
    ) -> None:
        calls = getattr(client, "_calls", None)
        if not isinstance(calls, Requests):
            raise TypeError(f"client is a dueq.Client or a dueq.AsyncClient, not {client!r}")
        self._calls = calls
        self._check_open()
        topics = (topic,) if isinstance(topic, str) else tuple(topic or ())
        self._options = Options(
            topics,
            handler,
            payload_type,
            concurrency,
            prefetch,
            lease_ms,
            wait_ms,
            seconds("stop_timeout", stop_timeout),
            tuple(middleware),
        )
        self._hooks = Hooks(on_lease, on_start, on_done, on_failed, on_lost, on_error)
        self._lock = threading.Lock()
        self._engine: Optional[Engine] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._stopped = False

    async def run(self, *, signals: bool = False, until_empty: bool = False) -> None:
        """Works until `stop`, then returns when no message is held any more.

        until_empty: stops by itself when no message is due and no handler runs: for tests, and for jobs that a timer starts.
        signals: SIGINT and SIGTERM stop it too, for the main thread. Being cancelled stops it without waiting for handlers.
        Raises ProblemError when dueq refuses what it asks and would again: a wrong key, a topic that is pushed, bad options.
        Whatever passes (no connection, 5xx, 429) is waited for, unless the client has no retries.
        """
        # Imported with the first run: asyncio and aiohttp take their time.
        import asyncio

        from dueq.worker.engine import Engine
        from dueq.worker.wire import Wire

        self._check_open()
        options = self._options
        wire = Wire(
            self._calls,
            options.topics,
            connections=options.most_loops + 4,
            lease_ms=options.lease_ms,
            wait_ms=options.wait_ms,
        )
        try:
            threaded = not any(map(inspect.iscoroutinefunction, called(options.handler)))
            engine = Engine(options, self._hooks, wire, threaded, until_empty)
            with self._lock:
                if self._engine is not None:
                    raise RuntimeError("this worker runs already")
                self._engine, self._loop = engine, asyncio.get_running_loop()
                if self._stopped:
                    engine.stop()
            caught = self._catch_signals(engine) if signals else []
            try:
                await engine.run()
            finally:
                for number in caught:
                    asyncio.get_running_loop().remove_signal_handler(number)
                with self._lock:
                    self._engine = self._loop = None
                    self._stopped = False
        finally:
            await wire.close()
        if engine.failure is not None:
            raise engine.failure

    def run_blocking(self, *, signals: bool = True, until_empty: bool = False) -> None:
        """`run` for code without asyncio; in another thread than the main one signals are left alone."""
        import asyncio

        main = threading.current_thread() is threading.main_thread()
        asyncio.run(self.run(signals=signals and main, until_empty=until_empty))

    def stop(self) -> None:
        """Has `run` end: no new lease, what has not begun is given back, what runs may finish. From any thread, at any time."""
        with self._lock:
            self._stopped = True
            if self._engine is not None and self._loop is not None:
                self._loop.call_soon_threadsafe(self._engine.stop)

    def _check_open(self) -> None:
        if self._calls.closed:
            raise RuntimeError("this client is closed")

    @staticmethod
    def _catch_signals(engine: "Engine") -> list[int]:
        import asyncio

        loop = asyncio.get_running_loop()
        caught: list[int] = []

        def stop() -> None:
            # The next signal ends the program as usual.
            for number in caught:
                loop.remove_signal_handler(number)
            engine.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, stop)
            except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
                continue
            caught.append(number)
        return caught
