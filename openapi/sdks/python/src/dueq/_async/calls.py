"""Sends the requests of the generated APIs, and repeats those that are safe to repeat."""

import logging
import ssl
from copy import copy
from time import monotonic
from typing import Optional, Union

from dueq._async.answer import Answer, RESTResponseType, Timeout
from dueq._async.transport import Transport
from dueq._options import Duration
from dueq._request import ONCE, ApiResponse, How, Requests, RequestSerialized
from dueq._retry import Away, Backoff, gone, passing
from dueq.errors import ConnectError, ProblemError, TimeoutError

# For the generated APIs.
__all__ = ["ApiClient", "ApiResponse", "RESTResponseType", "RequestSerialized"]

log = logging.getLogger("dueq")


class ApiClient(Requests):
    """What the generated APIs of one client share."""

    def __init__(
        self,
        server: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        connections: int = 100,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        super().__init__(server, api_key, ssl_context)
        self._transport = Transport(connections, ssl_context)
        self._away = Away(log, self.server)

    @classmethod
    def get_default(cls) -> "ApiClient":
        """What a generated API uses that is made without a client."""
        return cls()

    def with_options(self, timeout: Optional[Duration], deadline: Optional[Duration], retries: Optional[bool]) -> "ApiClient":
        """The same with other settings, on the same connections."""
        other = copy(self)
        other.set(timeout, deadline, retries)
        return other

    @property
    def closed(self) -> bool:
        """Whether it is closed for good."""
        return self._transport.closed

    async def call_api(
        self,
        method: str,
        url: str,
        header_params: dict[str, str],
        body: Optional[bytes] = None,
        how: How = ONCE,
        _request_timeout: Optional[Timeout] = None,
    ) -> Answer:
        limit = _request_timeout or self.timeout_s + how.wait_s
        end = monotonic() + self.deadline_s
        backoff = Backoff()
        unsure = False
        while True:
            if how.repeat and not isinstance(limit, tuple):
                limit = min(limit, max(0.001, end - monotonic()))
            error: Union[None, ConnectError, TimeoutError, ProblemError]
            try:
                answer = await self._transport.send(method, self.server, url, header_params, body, limit)
            except (ConnectError, TimeoutError) as lost:
                error, unsure = lost, unsure or lost.sent
            else:
                if unsure and how.gone_is_done and gone(answer.status, answer.headers, answer.data):
                    return answer._replace(status=204, data=b"")
                error = passing(answer.status, answer.headers, answer.data)
                if error is None:
                    self._away.answered()
                if error is None or not how.repeat:
                    return answer
                # A proxy that answers so may have lost dueq's answer.
                unsure = unsure or error.code == "outcome_unknown" or (not error.code and error.status in (502, 504))
            pause = backoff.next_s(error)
            if not how.repeat or monotonic() + pause >= end:
                raise error
            if not isinstance(error, ProblemError) or error.status >= 500:
                self._away.failed(error)
            await self._transport.pause(pause)

    async def pause(self, seconds: float) -> None:
        """Waits."""
        await self._transport.pause(seconds)

    async def close(self) -> None:
        """Closes its connections, for good."""
        await self._transport.close()
