"""One run of a worker: the lease loops, the handlers, and the order in which they stop.

Everything here happens in one event loop, so plain attributes are enough; what a step must see as one is done without an await
in between. Leases are kept by `keeper`, acks and nacks told by `outbox`.
"""

import asyncio
import inspect
import logging
from collections import deque
from contextvars import copy_context
from time import monotonic
from typing import Any, Optional

from dueq._options import milliseconds, traceparent
from dueq._retry import Away, Backoff
from dueq.errors import Dead, RetryIn
from dueq.worker.keeper import Keeper
from dueq.worker.message import Held, WorkerMessage, reader
from dueq.worker.options import CallNext, Hooks, Middleware, Options, log
from dueq.worker.outbox import Outbox
from dueq.worker.threads import Threads
from dueq.worker.wire import RETRY_AFTER_S, Wire

# A lease request under way at the stop has so long to be answered: what it brings is given back, and dueq takes back what it
# grants to a client that is gone.
LEASE_GRACE_S = 0.5
# Handlers that are cancelled have so long to end.
CANCEL_GRACE_S = 1.0
# Acks and nacks are repeated for so long after the last handler.
DRAIN_S = 5.0
# Until the topic is empty: while handlers run it is looked again so often, as they may wait for what they publish.
LOOK_S = 1.0
REASON_CHARACTERS = 1024


class Engine:
    """Runs until `stop`, or until dueq refuses what it asks; `failure` is then the refusal."""

    def __init__(self, options: Options, hooks: Hooks, wire: Wire, threaded: bool, until_empty: bool) -> None:
        self.options = options
        self.until_empty = until_empty
        self.hooks = hooks
        self.wire = wire
        self.failure: Optional[BaseException] = None
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._read = reader(options.payload_type)
        self._work: CallNext = self._call_handler
        for layer in reversed(options.middleware):
            self._work = _around(layer, self._work)
        self._threads = Threads(options.concurrency) if threaded else None
        self._outbox = Outbox(wire, self._lost_report, self._trouble)
        self._held: dict[str, Held] = {}
        self._waiting: deque[Held] = deque()
        self._running = 0
        self._asked = 0
        self._leasers: set[asyncio.Task[None]] = set()
        self._roomless: deque[asyncio.Future[None]] = deque()
        self._backoff = Backoff(RETRY_AFTER_S)
        self._away = Away(log, wire.server)
        wire.on_answer = self._away.answered
        self._keeper = Keeper(wire, self._held, options.lease_ms, self._lose, self._trouble)

    def stop(self) -> None:
        """No new lease from now on."""
        self._stopping.set()
        while self._roomless:
            _wake(self._roomless.popleft())

    async def run(self) -> None:
        """Leases and handles until `stop`; being cancelled stops too, without waiting for handlers."""
        keeping = self._loop.create_task(self._keeper.run())
        keeping.add_done_callback(self._ended)
        patience = self.options.stop_timeout
        try:
            self._start_leaser()
            try:
                await self._stopping.wait()
            except asyncio.CancelledError:
                patience = 0.0
                raise
            finally:
                self.stop()
                await self._finish(patience)
        finally:
            keeping.cancel()
            if self._threads is not None:
                self._threads.close()
            await self._outbox.close()
            await asyncio.gather(keeping, return_exceptions=True)

    async def _finish(self, patience: float) -> None:
        try:
            end = monotonic() + patience
            self._release_waiting()
            if self._leasers:
                await asyncio.wait(self._leasers, timeout=LEASE_GRACE_S)
            for leaser in list(self._leasers):
                leaser.cancel()
            await asyncio.gather(*self._leasers, return_exceptions=True)
            await self._handlers_end(end - monotonic())
        finally:  # also when a second signal cancels the patience
            await self._give_up()

    async def _give_up(self) -> None:
        for leaser in self._leasers:
            leaser.cancel()
        for held in self._held.values():
            held.given_up = True
            held.message._cancel(lost=False)
            if held.task is not None:
                held.task.cancel()
        await self._handlers_end(CANCEL_GRACE_S)
        for held in self._held.values():  # they heed no cancellation
            if not held.lost:
                held.lost = True
                self._outbox.nack(held, release=True)
        await self._outbox.drain(DRAIN_S)

    async def _handlers_end(self, timeout: float) -> None:
        running = [held.task for held in self._held.values() if held.task is not None]
        if running and timeout > 0:
            await asyncio.wait(running, timeout=timeout)

    def _release_waiting(self) -> None:
        while self._waiting:
            held = self._waiting.popleft()
            if self._held.pop(held.token, None) is not None:
                self._outbox.nack(held, release=True)

    # Leasing

    def _start_leaser(self) -> None:
        leaser = self._loop.create_task(self._lease())
        self._leasers.add(leaser)
        leaser.add_done_callback(self._leasers.discard)
        leaser.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        # A loop that dies must not leave a worker that does nothing.
        if not task.cancelled() and task.exception() is not None:
            self.failure = self.failure or task.exception()
            self.stop()

    async def _lease(self) -> None:
        answered = True
        while await self._room():
            want = min(self.options.batch, self._free())
            self._asked += want
            acks = self._outbox.take_acks()
            # No other loop, handler or outcome under way can make a message ready behind this request's back.
            last = len(self._leasers) == 1 and not self._held and self._outbox.empty()
            sent = monotonic()
            try:
                messages, outcomes = await self.wire.lease(want, acks, wait=answered and not self.until_empty)
            except BaseException as error:
                answered = False  # the next try waits for nothing, so that it is soon known whether the server is back
                self._asked -= want
                self._outbox.unanswered("ack", acks, sent)
                if not isinstance(error, Exception):
                    raise
                self._trouble(error)
                if self._spare():
                    return
                await self._pause(self._backoff.next_s(error))
                continue
            self._asked -= want
            answered = True
            self._backoff.reset()
            self._outbox.answered("ack", acks, outcomes)
            self._accept(messages)
            if len(messages) == want:
                if len(self._leasers) < self.options.most_loops and not self._stopping.is_set():
                    self._start_leaser()
            elif not messages and self._spare():
                return
            elif not messages and self.until_empty:
                if last and self._outbox.empty():
                    self.stop()
                else:
                    await self._settle()

    async def _settle(self) -> None:
        """Nothing is ready, but what is held can still change that: waits for some of it."""
        running = [held.task for held in self._held.values() if held.task is not None]
        if running:
            await asyncio.wait(running, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        else:
            await self._outbox.drain(DRAIN_S)

    def _spare(self) -> bool:
        """Whether this loop, which got nothing, can end as there are others; it counts as ended from now on."""
        if len(self._leasers) < 2:
            return False
        self._leasers.discard(_current())
        self._wake_leasers()
        return True

    async def _room(self) -> bool:
        """Waits until a request is worth making; False when the worker stops."""
        while not self._stopping.is_set():
            if self._has_room():
                return True
            waiter = self._loop.create_future()
            self._roomless.append(waiter)
            await waiter
        return False

    def _free(self) -> int:
        return self.options.most_held - len(self._held) - self._asked

    def _has_room(self) -> bool:
        # A busy worker does not ask for messages one by one: it waits for half of what is prefetched (the other half waits here
        # meanwhile, so that no handler does), and beside another request for half a batch.
        batch = self.options.batch if self._asked else self.options.prefetch
        return self._free() >= (batch + 1) // 2

    def _wake_leasers(self) -> None:
        # One is enough for what became free: every handler that ends calls this, and so does every loop that ends.
        if self._roomless and self._has_room():
            _wake(self._roomless.popleft())

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except asyncio.TimeoutError:
            pass

    # Handling

    def _accept(self, messages: list[Held]) -> None:
        if not messages:
            return
        for held in messages:
            self._held[held.token] = held
            self._waiting.append(held)
        self.hooks.call(self.hooks.on_lease, len(messages))
        if self._stopping.is_set():
            self._release_waiting()
        else:
            self._begin()

    def _begin(self) -> None:
        while self._waiting and self._running < self.options.concurrency:
            held = self._waiting.popleft()
            if not held.lost:
                self._running += 1
                held.task = self._loop.create_task(self._handle(held))

    async def _handle(self, held: Held) -> None:
        hooks, message = self.hooks, held.message
        try:
            traceparent.set(message.traceparent or message.headers.get("traceparent"))
            began = monotonic()
            if began >= held.deadline:
                self._lose(held, running=False)
                return
            if hooks.on_start is not None:
                hooks.call(hooks.on_start, message)
            await self._work(message)
            if not held.lost:
                self._outbox.ack(held)
                if hooks.on_done is not None:
                    hooks.call(hooks.on_done, message, (monotonic() - began) * 1000)
        except asyncio.CancelledError as error:
            held.given_up = held.given_up or self._stopping.is_set()  # the loop itself is being ended
            self._failed(held, error)
        except Exception as error:
            self._failed(held, error)
        finally:
            self._running -= 1
            self._held.pop(held.token, None)
            if not self._stopping.is_set():
                self._begin()
                self._wake_leasers()

    async def _call_handler(self, message: WorkerMessage) -> Any:
        if self._threads is None:
            result = self._call(message)
        else:
            context = copy_context()
            result = await self._threads.run(lambda: context.run(self._call, message))
        return await result if inspect.isawaitable(result) else result

    def _call(self, message: WorkerMessage) -> Any:
        if self._read is not None:
            message._payload = self._read(message._payload)
        return self.options.handler(message)

    def _failed(self, held: Held, error: BaseException) -> None:
        if held.lost:
            return
        if held.given_up:
            self._outbox.nack(held, release=True)
            return
        reason = _reason(error)
        if isinstance(error, RetryIn):
            self._outbox.nack(held, delay_ms=milliseconds("delay", error.delay_s), reason=reason)
        elif isinstance(error, Dead):
            self._outbox.nack(held, dead=True, reason=reason)
        else:
            self._outbox.nack(held, reason=reason)
        if self.hooks.on_failed is not None:
            self.hooks.call(self.hooks.on_failed, held.message, error)
        else:
            # Where a handler said itself what is to be done, its stack says nothing; and asking for another try is no failure
            # while one is left.
            meant = isinstance(error, (Dead, RetryIn))
            again = isinstance(error, RetryIn) and held.message.attempts_left > 0
            level = logging.INFO if again else logging.WARNING
            log.log(level, "the handler of %r failed: %r", held.message, error, exc_info=None if meant else error)

    # What goes wrong

    def _lose(self, held: Held, running: bool = True) -> None:
        """The lease is lost: its handler is told, or never begun."""
        held.lost = True
        held.message._cancel(lost=True)
        if held.task is None:
            self._held.pop(held.token, None)
            self._wake_leasers()
        elif running and self._threads is None:
            held.task.cancel()
        self._lost_report(held)

    def _lost_report(self, held: Held) -> None:
        held.message._cancel(lost=True)
        if self.hooks.on_lost is not None:
            self.hooks.call(self.hooks.on_lost, held.message)
        else:
            log.warning("the lease of %r is lost", held.message)

    def _trouble(self, error: BaseException) -> None:
        if self.hooks.on_error is not None:
            self.hooks.call(self.hooks.on_error, error)
        elif self.wire.hopeless(error):
            log.error("the worker of %s stops: %s", ", ".join(self.options.topics), error)
        else:
            self._away.failed(error)
        if self.wire.hopeless(error) and self.failure is None:
            self.failure = error
            self.stop()


def _around(layer: Middleware, call_next: CallNext) -> CallNext:
    return lambda message: layer(message, call_next)


def _reason(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    # Halves of surrogate pairs are no UTF-8, and one would spoil the whole request.
    return text[:REASON_CHARACTERS].encode("utf-8", "replace").decode()


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


def _current() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    assert task is not None
    return task
