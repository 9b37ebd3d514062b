"""Sends the requests of the generated APIs by urllib3; safe to use from several threads."""

import ssl
from typing import Any, Optional, Union

import urllib3

from dueq._request import TIMEOUT_S, Requests, RequestSerialized

__all__ = ["ApiClient", "RequestSerialized"]

Timeout = Union[None, float, tuple[float, float]]


class Answer:
    """What came back; `data` is there after `read`."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self.response = response
        self.status = response.status
        self.headers = response.headers
        self.data = b""

    def read(self) -> bytes:
        self.data = self.response.data
        self.response.release_conn()
        return self.data


class ApiClient(Requests):
    """One pool of connections."""

    def __init__(
        self,
        server: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        connections: int = 10,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        super().__init__(server, api_key)
        options: dict[str, Any] = {} if ssl_context is None else {"ssl_context": ssl_context}
        self._pool = urllib3.PoolManager(maxsize=connections, retries=False, **options)

    @classmethod
    def get_default(cls) -> "ApiClient":
        """What a generated API uses that is made without a client."""
        return cls()

    def call_api(
        self,
        method: str,
        url: str,
        header_params: dict[str, str],
        body: Optional[bytes] = None,
        post_params: Any = None,
        _request_timeout: Timeout = None,
    ) -> Answer:
        if isinstance(_request_timeout, tuple):
            timeout = urllib3.Timeout(connect=_request_timeout[0], read=_request_timeout[1])
        else:
            timeout = urllib3.Timeout(total=_request_timeout or TIMEOUT_S)
        return Answer(
            self._pool.request(
                method,
                url,
                body=body,
                headers=header_params,
                timeout=timeout,
                redirect=False,
                retries=False,
                preload_content=False,
            )
        )

    def close(self) -> None:
        """Closes the idle connections."""
        self._pool.clear()
