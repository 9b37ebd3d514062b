"""The worker's requests. They go to aiohttp directly: one a message under load, they are where the time goes."""

import asyncio
import sys
from math import inf
from time import monotonic
from typing import Any, Callable, Optional, TypeVar

import aiohttp
from yarl import URL

from dueq import _json
from dueq._http import no_answer, open_session
from dueq._request import Requests
from dueq._server import segment
from dueq.errors import ConnectError, ProblemError
from dueq.worker.message import Held

T = TypeVar("T")

# For everything but a lease request's wait, s.
PATIENCE_S = 10.0
CONNECT_S = 5.0
# A server that wants to be asked again much later is asked after so long: leases and acks should not wait for an hour.
RETRY_AFTER_S = 60.0


class Wire:
    """One session with connections for every handler's lease request and for ack, nack, extend beside them."""

    def __init__(
        self,
        client: Requests,
        topics: tuple[str, ...],
        *,
        connections: int,
        lease_ms: Optional[int],
        wait_ms: int,
    ) -> None:
        headers = {**client.headers, "Content-Type": "application/json"}
        self._session = open_session(connections, client.ssl_context, headers)
        self.server = server = client.server
        self._retries = client.retries
        path = f"/topics/{segment(topics[0])}/lease" if len(topics) == 1 else "/lease"
        self._lease_url = URL(server + path, encoded=True)
        self._urls = {verb: URL(f"{server}/messages/{verb}", encoded=True) for verb in ("ack", "nack", "extend")}
        self._want: dict[str, Any] = {"wait_ms": wait_ms}
        if len(topics) > 1:
            self._want["topics"] = topics
        if lease_ms is not None:
            self._want["lease_ms"] = lease_ms
        self._patience = min(PATIENCE_S, client.timeout_s)
        self._lease_patience = wait_ms / 1000 + self._patience
        # A time-out of aiohttp's for each request would take a sixth of a lease's time; `look` ends those that hang.
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_S, self._patience))
        self._ends: dict[asyncio.Task[Any], float] = {}
        self.on_answer: Callable[[], None] = lambda: None
        self._hung: set[asyncio.Task[Any]] = set()

    def hopeless(self, error: BaseException) -> bool:
        """Whether not to try again: dueq refused the request for what it is, not for the moment, or the client does not retry."""
        if not self._retries or not isinstance(error, ProblemError):
            return not self._retries
        return not (error.status in (408, 429) or error.status >= 500)

    def look(self) -> None:
        """Ends requests whose time is over; to be called every now and then."""
        now = monotonic()
        for task, end in self._ends.items():
            if end <= now and task not in self._hung:
                self._hung.add(task)
                task.cancel()

    async def lease(self, count: int, acks: list[Held], wait: bool) -> tuple[list[Held], list[dict[str, Any]]]:
        """Up to so many messages, and the outcome of each ack, in order."""
        want = {**self._want, "max_messages": count}
        if not wait:
            want["wait_ms"] = 0
        if acks:
            want["acks"] = [held.report for held in acks]
        body = _json.dumps(want)

        def read(answer: Any) -> tuple[list[Held], list[dict[str, Any]]]:
            now = monotonic()
            return [Held(raw, now) for raw in answer["messages"]], _outcomes(answer.get("acks", []), len(acks))

        return await self._post(self._lease_url, body, self._lease_patience, read)

    async def tell(self, verb: str, items: list[dict[str, Any]], timeout: float = inf) -> list[dict[str, Any]]:
        """ack, nack or extend: the outcome of each item, in order."""
        body = _json.dumps({"messages": items})
        patience = min(timeout, self._patience)
        return await self._post(self._urls[verb], body, patience, lambda answer: _outcomes(answer["results"], len(items)))

    async def _post(self, url: URL, body: bytes, patience: float, read: Callable[[Any], T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._ends[task] = monotonic() + patience
        try:
            async with self._session.post(url, data=body, timeout=self._timeout, allow_redirects=False) as response:
                content = await response.read()
                if response.status != 200:
                    raise ProblemError.from_answer(response.status, response.headers, content)
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise no_answer(error, self.server, f"POST {url.raw_path}", min(CONNECT_S, self._patience)) from error
        except asyncio.CancelledError:
            if task not in self._hung:
                raise
            if sys.version_info >= (3, 11):
                task.uncancel()
            raise no_answer(asyncio.TimeoutError(), self.server, f"POST {url.raw_path}", patience) from None
        finally:
            del self._ends[task]
            self._hung.discard(task)
        try:
            result = read(_json.loads(content))
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise ConnectError(self.server, f"POST {url.raw_path}", "the answer is not dueq's") from error
        self.on_answer()
        return result

    async def close(self) -> None:
        await self._session.close()


def _outcomes(outcomes: Any, count: int) -> list[dict[str, Any]]:
    if not all(isinstance(outcome["status"], str) for outcome in outcomes) or len(outcomes) != count:
        raise ValueError(f"{count} outcomes are missing")
    return list(outcomes)
