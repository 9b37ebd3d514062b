"""Sends requests by urllib3; safe to use from several threads."""

import ssl
import time
from collections.abc import Mapping
from io import BytesIO
from math import inf
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
        operation = f"{method} {url[len(server) :]}"
        if isinstance(timeout, tuple):
            limits = urllib3.Timeout(connect=timeout[0], read=timeout[1])
            end = inf
        else:
            limits = urllib3.Timeout(total=timeout)
            end = time.monotonic() + timeout
        try:
            response = self._pool.request(
                method,
                url,
                body=body,
                headers=headers,
                timeout=limits,
                redirect=False,
                retries=False,
                preload_content=False,
            )
            content = _read(response, end)
        except urllib3.exceptions.NewConnectionError as error:  # one of urllib3's time-outs, but refused, or no such host
            raise ConnectError(server, operation, reason(error), sent=False) from error
        except urllib3.exceptions.TimeoutError as error:
            limit = sum(timeout) if isinstance(timeout, tuple) else timeout
            raise TimeoutError(server, operation, f"{limit:g} s have passed") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ConnectError(server, operation, reason(error)) from error
        # As the generated code promises, one whose body has been read.
        whole = urllib3.HTTPResponse(
            BytesIO(content), response.headers, response.status, reason=response.reason, decode_content=False
        )
        return Answer(response.status, response.headers, content, whole)

    def pause(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)

    def close(self) -> None:
        """Closes the idle connections, for good."""
        self._closed = True
        self._pool.clear()


def _read(response: urllib3.BaseHTTPResponse, end: float) -> bytes:
    """The body. urllib3 limits only how long each piece of it may take, so one that drips would never end."""
    content = bytearray()
    try:
        while piece := response.read1(65536):
            content += piece
            if time.monotonic() > end:
                raise urllib3.exceptions.TimeoutError
    except BaseException:
        response.close()
        raise
    response.release_conn()
    return bytes(content)
