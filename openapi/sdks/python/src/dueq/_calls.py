"""Sends the requests of the generated APIs by aiohttp."""

import asyncio
import ssl
from typing import Any, Optional, Union

import aiohttp
from yarl import URL

from dueq._http import open_session
from dueq._request import TIMEOUT_S, Requests, RequestSerialized

__all__ = ["ApiClient", "RequestSerialized"]

Timeout = Union[None, float, tuple[float, float]]


class Answer:
    """What came back; `data` is there after `read`."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.status = response.status
        self.headers = response.headers
        self.data = b""

    async def read(self) -> bytes:
        async with self.response:
            self.data = await self.response.read()
        return self.data


class ApiClient(Requests):
    """One pool of connections, opened with the first request in the event loop that makes it."""

    def __init__(
        self,
        server: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        connections: int = 100,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        super().__init__(server, api_key)
        self._connections = connections
        self._ssl_context = ssl_context
        self._session: Optional[aiohttp.ClientSession] = None

    @classmethod
    def get_default(cls) -> "ApiClient":
        """What a generated API uses that is made without a client."""
        return cls()

    async def call_api(
        self,
        method: str,
        url: str,
        header_params: dict[str, str],
        body: Optional[bytes] = None,
        post_params: Any = None,
        _request_timeout: Timeout = None,
    ) -> Answer:
        if self._session is None:
            self._session = open_session(self._connections, self._ssl_context, {})
        if isinstance(_request_timeout, tuple):
            timeout = aiohttp.ClientTimeout(sock_connect=_request_timeout[0], sock_read=_request_timeout[1])
        else:
            timeout = aiohttp.ClientTimeout(total=_request_timeout or TIMEOUT_S)
        return Answer(
            await self._session.request(
                method,
                URL(url, encoded=True),
                data=body,
                headers=header_params,
                timeout=timeout,
                allow_redirects=False,
                # Else a POST without a body claims to be bytes, which dueq refuses.
                skip_auto_headers=("Content-Type",),
            )
        )

    async def close(self) -> None:
        """Closes its connections; a later request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            # TLS connections are closed a moment after the session.
            await asyncio.sleep(0)
