"""Sends requests by urllib3; safe to use from several threads."""

import ssl
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional, Union

import urllib3

from dueq._server import reason
from dueq.errors import ConnectError, TimeoutError

Timeout = Union[float, tuple[float, float]]


class Answer(NamedTuple):
    """What came back, read to its end."""

    status: int
    headers: Mapping[str, str]
    data: bytes
    response: Any = None

    def read(self) -> bytes:
        """For the generated code."""
        return self.data


class Transport:
    """One pool of connections."""

    def __init__(self, connections: int, ssl_context: Optional[ssl.SSLContext]) -> None:
        options: dict[str, Any] = {} if ssl_context is None else {"ssl_context": ssl_context}
        self._pool = urllib3.PoolManager(maxsize=connections, retries=False, **options)
        self._closed = False

    def send(
        self, method: str, server: str, url: str, headers: dict[str, str], body: Optional[bytes], timeout: Timeout
    ) -> Answer:
        """The answer, whatever it is; raises ConnectError and TimeoutError where there is none."""
        if self._closed:
            raise RuntimeError("this client is closed")
        if isinstance(timeout, tuple):
            limits = urllib3.Timeout(connect=timeout[0], read=timeout[1])
        else:
            limits = urllib3.Timeout(total=timeout)
        try:
            response = self._pool.request(
                method, url, body=body, headers=headers, timeout=limits, redirect=False, retries=False
            )
        except urllib3.exceptions.TimeoutError as error:
            limit = sum(timeout) if isinstance(timeout, tuple) else timeout
            raise TimeoutError(server, f"{method} {url[len(server) :]}", f"{limit:g} s have passed") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ConnectError(server, f"{method} {url[len(server) :]}", reason(error)) from error
        return Answer(response.status, response.headers, response.data, response)

    def pause(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)

    def close(self) -> None:
        """Closes the idle connections, for good."""
        self._closed = True
        self._pool.clear()
