"""Keeps the leases: extends each when a third of it has passed, says which are lost, and ends requests that hang."""

import asyncio
from time import monotonic
from typing import Any, Callable, Optional

from dueq._retry import Backoff
from dueq.worker.message import Held
from dueq.worker.outbox import AGAIN, MOST
from dueq.worker.wire import Wire

# How often the leases are looked at; the shortest lease is 1 s, a third of it three times this.
TICK_S = 0.1
# An extension that failed is tried again after so long at most, however long the backoff.
SOON_S = 1.0


class Keeper:
    """Looks after all that is held, also what waits to begin."""

    def __init__(
        self,
        wire: Wire,
        held: dict[str, Held],
        lease_ms: Optional[int],
        lose: Callable[[Held], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._wire = wire
        self._held = held
        self._lease_ms = lease_ms
        self._lose = lose
        self._on_error = on_error
        self._extensions: set[asyncio.Task[None]] = set()
        self._backoff = Backoff()

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            while True:
                self._look()
                self._wire.look()
                await asyncio.sleep(TICK_S)
        finally:
            for extension in self._extensions:
                extension.cancel()
            await asyncio.gather(*self._extensions, return_exceptions=True)

    def _look(self) -> None:
        now = monotonic()
        due: list[Held] = []
        for held in list(self._held.values()):
            if held.lost:
                continue
            if held.deadline <= now:
                self._lose(held)
            elif held.extend_at <= now and not held.extending:
                held.extending = True
                due.append(held)
        for first in range(0, len(due), MOST):
            extension = asyncio.create_task(self._extend(due[first : first + MOST]))
            self._extensions.add(extension)
            extension.add_done_callback(self._extensions.discard)

    async def _extend(self, batch: list[Held]) -> None:
        sent = monotonic()
        # A request that hangs must leave time for another.
        patience = min(held.deadline for held in batch) - sent
        try:
            items = [{"id": held.id, "lease_token": held.token, "lease_ms": self._lease_ms or held.lease_ms} for held in batch]
            outcomes = await self._wire.tell("extend", items, timeout=max(0.25, patience / 2))
        except Exception as error:
            again = monotonic() + min(SOON_S, self._backoff.next_s(error))
            for held in batch:
                held.extend_at = again
            self._on_error(error)
        else:
            self._backoff.reset()
            for held, outcome in zip(batch, outcomes):
                self._extended(held, outcome, sent)
        finally:
            for held in batch:
                held.extending = False

    def _extended(self, held: Held, outcome: dict[str, Any], sent: float) -> None:
        status = outcome["status"]
        if status == "ok":
            # From the sending on, as the server may have done it any time since.
            held.leased(sent, outcome["lease_ms"])
        elif status in AGAIN:
            held.extend_at = monotonic() + min(SOON_S, self._backoff.next_s())
        elif self._held.get(held.token) is held and not held.lost:
            # Else its handler has ended meanwhile, and the ack was faster.
            self._lose(held)
