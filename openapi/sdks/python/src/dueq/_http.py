"""How aiohttp is used, by client and worker alike."""

import ssl
from typing import Optional

import aiohttp


def open_session(connections: int, ssl_context: Optional[ssl.SSLContext], headers: dict[str, str]) -> aiohttp.ClientSession:
    """A session of aiohttp without what dueq does not need: cookies, redirects, proxies from the environment."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=connections, keepalive_timeout=30, ssl=ssl_context if ssl_context is not None else True
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=headers,
        raise_for_status=False,
    )
