"""Sends requests by aiohttp."""

import asyncio
import ssl
from typing import Optional

import aiohttp
from yarl import URL

from dueq._async.answer import Answer, Timeout
from dueq._http import no_answer, open_session


class Transport:
    """One pool of connections for each event loop that makes requests."""

    def __init__(self, connections: int, ssl_context: Optional[ssl.SSLContext]) -> None:
        self._connections = connections
        self._ssl_context = ssl_context
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}
        self.closed = False

    async def send(
        self, method: str, server: str, url: str, headers: dict[str, str], body: Optional[bytes], timeout: Timeout
    ) -> Answer:
        """The answer, whatever it is; raises ConnectError and TimeoutError where there is none."""
        if self.closed:
            raise RuntimeError("this client is closed")
        session = self._sessions.get(asyncio.get_running_loop()) or await self._open()
        if isinstance(timeout, tuple):
            limits = aiohttp.ClientTimeout(sock_connect=timeout[0], sock_read=timeout[1])
        else:
            limits = aiohttp.ClientTimeout(total=timeout)
        try:
            async with session.request(
                method,
                URL(url, encoded=True),
                data=body,
                headers=headers,
                timeout=limits,
                allow_redirects=False,
                # Else a POST without a body claims to be bytes, which dueq refuses.
                skip_auto_headers=("Content-Type",),
            ) as response:
                return Answer(response.status, response.headers, await response.read())
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise no_answer(error, server, f"{method} {url[len(server) :]}", timeout) from error

    async def _open(self) -> aiohttp.ClientSession:
        for ended in [loop for loop in self._sessions if loop.is_closed()]:  # each asyncio.run has its own
            await self._sessions.pop(ended).close()
        session = open_session(self._connections, self._ssl_context, {})
        self._sessions[asyncio.get_running_loop()] = session
        return session

    async def pause(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Closes the connections, for good."""
        self.closed = True
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()
            # TLS connections are closed a moment after the session.
            await asyncio.sleep(0)
