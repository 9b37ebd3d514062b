"""What handlers have decided and the server does not know yet: acks and nacks, repeated until they are answered.

Acks ride on the next lease request. Where none is sent within 5 ms, they go by themselves, as nacks always do. Repeating one
is safe, as its token is good for one grant only.
"""

import asyncio
from collections import deque
from time import monotonic
from typing import Any, Callable, Optional

from dueq._retry import Backoff
from dueq.worker.message import Held
from dueq.worker.wire import RETRY_AFTER_S, Wire

LINGER_S = 0.005
MOST = 1000
# Statuses of a single message after which it is told again.
AGAIN = frozenset(("redis_unavailable", "outcome_unknown"))


class Outbox:
    """Pending acks and nacks; `on_lost` and `on_error` are told what becomes of them."""

    def __init__(self, wire: Wire, on_lost: Callable[[Held], None], on_error: Callable[[BaseException], None]) -> None:
        self._wire = wire
        self._on_lost = on_lost
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._pending: dict[str, deque[Held]] = {"ack": deque(), "nack": deque()}
        self._senders: dict[str, asyncio.Task[None]] = {}
        self._timer: Optional[asyncio.TimerHandle] = None

    def ack(self, held: Held) -> None:
        """Its handler returned."""
        self._add("ack", held, {})

    def nack(self, held: Held, **how: Any) -> None:
        """Its handler failed, or it is given back; `how` is what a nack may say."""
        self._add("nack", held, how)

    def take_acks(self) -> list[Held]:
        """Acks for a lease request to carry: `answered` or `unanswered` must follow."""
        acks = self._pending["ack"]
        if not acks:
            return []
        if len(acks) <= MOST:
            taken = list(acks)
            acks.clear()
            return taken
        return [acks.popleft() for _ in range(MOST)]

    def answered(self, verb: str, batch: list[Held], outcomes: list[dict[str, Any]]) -> bool:
        """Takes in what the server said; whether all of it is settled."""
        again = []
        for held, outcome in zip(batch, outcomes):
            status = outcome["status"]
            if status == "ok":
                continue
            if status in AGAIN:
                held.repeated = True
                again.append(held)
            elif held.repeated and (status == "message_not_found" or verb == "nack"):
                pass  # the first try was done, and its answer lost
            else:
                self._on_lost(held)
        self._put_back(verb, again)
        return not again

    def unanswered(self, verb: str, batch: list[Held], sent: float) -> None:
        """Puts back what a request carried that failed; what was sent after the end of its lease is past help."""
        again = []
        for held in batch:
            held.repeated = True
            if sent < held.deadline:
                again.append(held)
            else:
                self._on_lost(held)
        self._put_back(verb, again)

    def empty(self) -> bool:
        """Whether the server knows all there is to say."""
        return not any(self._pending.values()) and not self._senders

    async def drain(self, timeout: float) -> None:
        """Sends everything, repeating for at most so many seconds."""
        end = monotonic() + timeout
        while not self.empty():
            self._send()
            left = end - monotonic()
            if left <= 0:
                break
            await asyncio.wait(list(self._senders.values()), timeout=left)

    async def close(self) -> None:
        """Sends nothing more."""
        if self._timer is not None:
            self._timer.cancel()
        senders = list(self._senders.values())
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)

    def _add(self, verb: str, held: Held, how: dict[str, Any]) -> None:
        held.report = {"id": held.id, "lease_token": held.token, **how}
        held.since = monotonic()
        self._pending[verb].append(held)
        if self._timer is None:
            self._timer = self._loop.call_later(LINGER_S, self._lingered)

    def _put_back(self, verb: str, batch: list[Held]) -> None:
        self._pending[verb].extendleft(reversed(batch))
        if batch and self._timer is None:
            self._timer = self._loop.call_later(LINGER_S, self._lingered)

    def _lingered(self) -> None:
        self._timer = None
        waiting = [queue[0].since for queue in self._pending.values() if queue]
        if not waiting:
            return
        left = min(waiting) + LINGER_S - monotonic()
        if left > 0.0005:
            self._timer = self._loop.call_later(left, self._lingered)
        else:
            self._send()

    def _send(self) -> None:
        for verb, queue in self._pending.items():
            if queue and verb not in self._senders:
                self._senders[verb] = self._loop.create_task(self._sender(verb, queue))

    async def _sender(self, verb: str, queue: deque[Held]) -> None:
        backoff = Backoff(RETRY_AFTER_S)
        try:
            while queue:
                batch = [queue.popleft() for _ in range(min(MOST, len(queue)))]
                sent = monotonic()
                try:
                    outcomes = await self._wire.tell(verb, [held.report for held in batch])
                except BaseException as error:
                    hopeless = self._wire.hopeless(error)
                    if not hopeless:
                        self.unanswered(verb, batch, sent)
                    if not isinstance(error, Exception):
                        raise
                    self._on_error(error)
                    if not hopeless:
                        await asyncio.sleep(backoff.next_s(error))
                else:
                    if self.answered(verb, batch, outcomes):
                        backoff.reset()
                    else:
                        await asyncio.sleep(backoff.next_s())
        finally:
            del self._senders[verb]
