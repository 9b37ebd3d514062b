"""How aiohttp is used, by client and worker alike."""

import asyncio
import ssl
from typing import Optional, Union

import aiohttp

from dueq._server import reason
from dueq.errors import ConnectError, TimeoutError


def open_session(connections: int, ssl_context: Optional[ssl.SSLContext], headers: dict[str, str]) -> aiohttp.ClientSession:
    """A session of aiohttp without what dueq does not need: cookies, redirects, proxies from the environment."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=connections, keepalive_timeout=30, ssl=ssl_context if ssl_context is not None else True
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=headers,
        raise_for_status=False,
    )
    # It would repeat a DELETE by itself, and 404 would then say that there was nothing to delete.
    session._retry_connection = False
    return session


def no_answer(
    error: BaseException, server: str, operation: str, timeout: Union[float, tuple[float, float]]
) -> Union[ConnectError, TimeoutError]:
    """dueq's error for one of aiohttp's."""
    if isinstance(error, asyncio.TimeoutError):
        limit = sum(timeout) if isinstance(timeout, tuple) else timeout
        return TimeoutError(server, operation, f"{limit:g} s have passed")
    if isinstance(error, aiohttp.ServerDisconnectedError):  # its text may be half of an answer
        return ConnectError(server, operation, "the connection was closed before the answer was complete")
    return ConnectError(server, operation, reason(error), sent=not isinstance(error, aiohttp.ClientConnectorError))
