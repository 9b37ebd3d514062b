"""The client for asyncio: the generated APIs at one server."""

import ssl
from functools import cached_property
from typing import TYPE_CHECKING, Optional

from dueq._calls import ApiClient

if TYPE_CHECKING:
    from dueq.generated.api import CallbacksApi, LeasesApi, MessagesApi, SchedulesApi, ServiceApi, TopicsApi

__all__ = ["Client"]


# Each API is imported when it is first used: pydantic takes its time with their arguments.
class Client:
    """dueq's API for asyncio.

    Every method of `messages`, `leases`, `topics`, `callbacks`, `schedules` and `service` is a request. Raises
    `dueq.ProblemError` where dueq refuses it, `pydantic.ValidationError` for an argument that cannot be right, and
    `aiohttp.ClientError` or `asyncio.TimeoutError` where there is no answer. Use it as an async context manager, or
    `await client.close()`.

    server: the base URL; `DUEQ_SERVER`, or http://127.0.0.1:8080 unless given.
    api_key: sent as bearer token; `DUEQ_API_KEY` unless given.
    connections: how many requests are under way at once at most, long polls included; others wait.
    ssl_context: for https, what to trust, in place of the system's certificates.
    """

    def __init__(
        self,
        server: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        connections: int = 100,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._calls = ApiClient(server, api_key, connections=connections, ssl_context=ssl_context)

    @cached_property
    def messages(self) -> "MessagesApi":
        """Publishing, looking at, changing and deleting messages."""
        from dueq.generated.api.messages_api import MessagesApi

        return MessagesApi(self._calls)

    @cached_property
    def leases(self) -> "LeasesApi":
        """Leasing, acknowledging, giving back, extending."""
        from dueq.generated.api.leases_api import LeasesApi

        return LeasesApi(self._calls)

    @cached_property
    def topics(self) -> "TopicsApi":
        """Topics and their configuration."""
        from dueq.generated.api.topics_api import TopicsApi

        return TopicsApi(self._calls)

    @cached_property
    def callbacks(self) -> "CallbacksApi":
        """Having a URL called."""
        from dueq.generated.api.callbacks_api import CallbacksApi

        return CallbacksApi(self._calls)

    @cached_property
    def schedules(self) -> "SchedulesApi":
        """Publishing by the clock."""
        from dueq.generated.api.schedules_api import SchedulesApi

        return SchedulesApi(self._calls)

    @cached_property
    def service(self) -> "ServiceApi":
        """Health, metrics, the OpenAPI document."""
        from dueq.generated.api.service_api import ServiceApi

        return ServiceApi(self._calls)

    async def close(self) -> None:
        """Closes the connections."""
        await self._calls.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()
