"""The client for code without asyncio: the same APIs and models, each method blocks. It may be shared by threads.

A worker without asyncio is `dueq.Worker` with a handler that is a plain function, started by `run_blocking()`.
"""

import ssl
from functools import cached_property
from typing import TYPE_CHECKING, Optional

from dueq.blocking._calls import ApiClient

if TYPE_CHECKING:
    from dueq.blocking.generated.api import CallbacksApi, LeasesApi, MessagesApi, SchedulesApi, ServiceApi, TopicsApi

__all__ = ["Client"]


# Each API is imported when it is first used: pydantic takes its time with their arguments.
class Client:
    """dueq's API for code that blocks.

    Raises `dueq.ProblemError` where dueq refuses a request, `pydantic.ValidationError` for an argument that cannot be right,
    and `urllib3.exceptions.HTTPError` where there is no answer. Use it as a context manager, or `client.close()`.

    server: the base URL; `DUEQ_SERVER`, or http://127.0.0.1:8080 unless given.
    api_key: sent as bearer token; `DUEQ_API_KEY` unless given.
    connections: how many are kept for the next requests.
    ssl_context: for https, what to trust, in place of the system's certificates.
    """

    def __init__(
        self,
        server: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        connections: int = 10,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._calls = ApiClient(server, api_key, connections=connections, ssl_context=ssl_context)

    @cached_property
    def messages(self) -> "MessagesApi":
        """Publishing, looking at, changing and deleting messages."""
        from dueq.blocking.generated.api.messages_api import MessagesApi

        return MessagesApi(self._calls)

    @cached_property
    def leases(self) -> "LeasesApi":
        """Leasing, acknowledging, giving back, extending."""
        from dueq.blocking.generated.api.leases_api import LeasesApi

        return LeasesApi(self._calls)

    @cached_property
    def topics(self) -> "TopicsApi":
        """Topics and their configuration."""
        from dueq.blocking.generated.api.topics_api import TopicsApi

        return TopicsApi(self._calls)

    @cached_property
    def callbacks(self) -> "CallbacksApi":
        """Having a URL called."""
        from dueq.blocking.generated.api.callbacks_api import CallbacksApi

        return CallbacksApi(self._calls)

    @cached_property
    def schedules(self) -> "SchedulesApi":
        """Publishing by the clock."""
        from dueq.blocking.generated.api.schedules_api import SchedulesApi

        return SchedulesApi(self._calls)

    @cached_property
    def service(self) -> "ServiceApi":
        """Health, metrics, the OpenAPI document."""
        from dueq.blocking.generated.api.service_api import ServiceApi

        return ServiceApi(self._calls)

    def close(self) -> None:
        """Closes the idle connections."""
        self._calls.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()
