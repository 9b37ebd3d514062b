"""The client: publishing and what goes with it, and the generated APIs at one server."""

from collections.abc import AsyncIterator, Iterable
from copy import copy
from datetime import datetime
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any, Optional, Union
from uuid import UUID, uuid4

from dueq._async.manage import Manage, pages
from dueq._options import ABSENT, CallbackOptions, Duration, NewMessage, PublishOptions, due, fields, milliseconds, named, repeats
from dueq._retry import PASSING, Backoff, suppress_gone
from dueq.errors import ConnectError, ProblemError, TimeoutError

if TYPE_CHECKING:
    import ssl

    from typing_extensions import Unpack

    from dueq._async.api import CallbacksApi, LeasesApi, MessagesApi, SchedulesApi, ServiceApi, TopicsApi
    from dueq._async.calls import ApiClient
    from dueq.generated.models import Message, PublishedMessage, PublishResult, TopicItem

__all__ = ["AsyncApi", "AsyncClient", "AsyncKey"]


class AsyncClient(Manage):
    """dueq's client for asyncio. It may be shared by everything in a program that publishes.

    Use it in `async with`, or `await client.close()`. Raises `dueq.ProblemError` where dueq refuses a request,
    `dueq.ConnectError` and `dueq.TimeoutError` where there is no answer, `ValueError` for an argument that cannot be right
    (pydantic's ValidationError is one). Durations are timedelta, or numbers of seconds.

    server: the base URL; `DUEQ_SERVER`, or http://127.0.0.1:8080 unless given.
    api_key: sent as bearer token; `DUEQ_API_KEY` unless given.
    timeout: how long one try of a request may take; a lease request that waits may take its `wait_ms` more.
    deadline: how long a request is repeated, in all, that got no answer, or one that says to come again; 0: not at all.
    retries: whether requests are repeated at all. Only those are that are safe to repeat: every publish, reading, changing and
        deleting one message, ack, nack and extend.
    connections: how many are kept open.
    ssl_context: for https, what to trust, in place of the system's certificates.
    """

    api: "AsyncApi"
    """A method for every operation of dueq's OpenAPI document."""

    def __init__(
        self,
        server: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        timeout: Duration = 30.0,
        deadline: Duration = 30.0,
        retries: bool = True,
        connections: int = 100,
        ssl_context: "Optional[ssl.SSLContext]" = None,
    ) -> None:
        # Imported with the first client: the HTTP library takes its time.
        from dueq._async.calls import ApiClient

        self._calls = ApiClient(server, api_key, connections=connections, ssl_context=ssl_context)
        self._calls.set(timeout, deadline, retries)
        self.api = AsyncApi(self._calls)

    def with_options(
        self, *, timeout: Optional[Duration] = None, deadline: Optional[Duration] = None, retries: Optional[bool] = None
    ) -> "AsyncClient":
        """This client with other settings, on the same connections: `client.with_options(timeout=5).publish(…)`."""
        other = copy(self)
        other._calls = self._calls.with_options(timeout, deadline, retries)
        other.api = AsyncApi(other._calls)
        return other

    async def publish(self, topic: str, payload: Any, **options: "Unpack[PublishOptions]") -> "PublishedMessage":
        """Publishes a message, once however often it has to be repeated within the topic's `idempotency_window_ms` (10 minutes
        unless set).

        payload: anything that JSON has, or bytes.
        delay: how long until it is due (timedelta or seconds); or at: when, a datetime with a time zone.
        debounce={"key", "delay", "max_wait"}: publish when it has been quiet for a while.
        throttle={"key", "every"}: publish at most once per interval. once={"key", "for"}: publish once within a time.
        key: its own name in its topic, for `client.key`; key_until: "done" or "granted".
        on_duplicate: what to do if the key is taken: "return" that message, "reject" (duplicate_key), "replace" it.
        group: messages of a group are leased in the order in which they were published.
        idempotency_key: publishing again with the same one gets the first answer.
        priority: 0…255, higher first. ttl: it expires so long after it fell due.
        max_attempts, backoff: how often it is tried, how long it waits after a failure; the topic's unless given.
        headers: a mapping, returned with the lease. content_type: of bytes.
        callback: in a pushed topic, where dueq sends it.
        """
        from dueq.generated.models.publish_request import PublishRequest

        request = PublishRequest(**fields({"payload": payload, **options}, PublishOptions))
        return await self.api.messages.publish_message(named("topic", topic), request)

    async def publish_batch(self, topic: str, messages: Iterable[NewMessage]) -> "list[PublishResult]":
        """Publishes up to 1000 messages in one request; each is a dict of its `payload` and `publish`'s options.

        The results are in the same order. `status` is "ok", then `message` is there, or the code that `publish` would raise.
        """
        from dueq.generated.models import PublishBatchRequest, PublishRequest

        named("topic", topic)
        requests = [PublishRequest(**fields(message, NewMessage)) for message in messages]
        retries = self._calls.retries
        for request in requests if retries else ():
            if not repeats(request):
                request.idempotency_key = str(uuid4())
        results: dict[int, PublishResult] = {}
        left = list(range(len(requests)))
        end = monotonic() + self._calls.deadline_s
        backoff = Backoff()
        while left:
            client = self.with_options(deadline=max(0.001, end - monotonic()))
            try:
                answer = await client.api.messages.publish_batch(
                    topic, PublishBatchRequest(messages=[requests[n] for n in left])
                )
            except (ConnectError, ProblemError, TimeoutError):
                if not results:
                    raise
                break  # what is known of the others is worth more
            results.update(zip(left, answer.results))
            left = [n for n in left if results[n].status in PASSING and repeats(requests[n])]
            pause = backoff.next_s()
            if not retries or monotonic() + pause >= end:
                break
            if left:
                await self._calls.pause(pause)
        return [results[n] for n in range(len(requests))]

    async def callback(self, url: str, payload: Any = ABSENT, **options: "Unpack[CallbackOptions]") -> "PublishedMessage":
        """Has dueq call a URL, now or later, until it answers 2xx: the message in dueq's topic `_callbacks` that it makes.

        payload: the body, anything that JSON has, or bytes; empty unless given.
        The options of `publish`, except `callback`, and:
        method: "POST" unless given. timeout: how long the URL may take, 15 s unless given.
        secret: what it is signed with; the server's unless given. `dueq.webhooks.verify` checks it.
        secret_headers: names of headers that nobody can read back.
        """
        from dueq.generated.models.schedule_callback_request import ScheduleCallbackRequest

        body = {**options} if payload is ABSENT else {**options, "payload": payload}
        return await self.api.callbacks.schedule_callback(ScheduleCallbackRequest(url=url, **fields(body, CallbackOptions)))

    def key(self, topic: str, key: str) -> "AsyncKey":
        """The live message of this key in the topic, to look at, cancel or reschedule it."""
        return AsyncKey(self.api, named("topic", topic), named("key", key))

    def dead(self, topic: str) -> "AsyncIterator[Message]":
        """Every dead message of the topic, with its payload, longest dead first."""
        from dueq.generated.models.listed_state import ListedState

        return pages(lambda cursor: self.api.messages.list_messages(named("topic", topic), ListedState.DEAD, payload=True, cursor=cursor))

    def topics(self, prefix: Optional[str] = None) -> "AsyncIterator[TopicItem]":
        """Every topic whose name begins so, by name."""
        return pages(lambda cursor: self.api.topics.list_topics(prefix, cursor=cursor))

    list_topics = topics
    """The name that the other languages have for it."""

    async def redrive(self, topic: str, max_messages: Optional[int] = None, *, spread: Optional[Duration] = None) -> int:
        """Makes dead messages of the topic ready again, longest dead first: how many.

        max_messages: so many at most; 10,000 unless given. spread: their due times are spread over so long.
        """
        from dueq.generated.models.redrive_request import RedriveRequest

        request = RedriveRequest()
        if max_messages is not None:
            request.max_messages = max_messages
        if spread is not None:
            request.spread_ms = milliseconds("spread", spread)
        answer = await self.api.topics.redrive_topic(named("topic", topic), request)
        return answer.redriven

    async def redrive_message(self, id: Union[UUID, str]) -> "Message":
        """Makes one dead message ready again."""
        return await self.api.messages.redrive_message(UUID(str(id)))

    async def close(self) -> None:
        """Closes the connections; the client cannot be used any more."""
        await self._calls.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()


class AsyncKey:
    """The live message (delayed, ready or leased) of a key; made by `client.key`."""

    def __init__(self, api: "AsyncApi", topic: str, key: str) -> None:
        self._api = api
        self.topic = topic
        self.key = key

    async def get(self) -> "Optional[Message]":
        """The message; None where there is none."""
        with suppress_gone():
            return await self._api.messages.get_message_by_key(self.topic, self.key)
        return None

    async def cancel(self) -> bool:
        """Deletes it; False where there is none. Raises ProblemError (message_leased) while it is leased."""
        with suppress_gone():
            await self._api.messages.delete_message_by_key(self.topic, self.key)
            return True
        return False

    async def reschedule(self, *, delay: Optional[Duration] = None, at: Optional[datetime] = None) -> bool:
        """Has it fall due after `delay` from now, or at `at`; False where there is none."""
        from dueq.generated.models.update_message_request import UpdateMessageRequest

        if delay is None and at is None:
            raise ValueError("delay or at is needed")
        with suppress_gone():
            await self._api.messages.update_message_by_key(self.topic, self.key, UpdateMessageRequest(**due(delay, at)))
            return True
        return False


# Each API is imported when it is first used: pydantic takes its time with their arguments.
class AsyncApi:
    """The generated APIs: a method for every operation of dueq's OpenAPI document."""

    def __init__(self, calls: "ApiClient") -> None:
        self._calls = calls

    @cached_property
    def messages(self) -> "MessagesApi":
        """Publishing, looking at, changing and deleting messages."""
        from dueq._async.api.messages_api import MessagesApi

        return MessagesApi(self._calls)

    @cached_property
    def leases(self) -> "LeasesApi":
        """Leasing, acknowledging, giving back, extending."""
        from dueq._async.api.leases_api import LeasesApi

        return LeasesApi(self._calls)

    @cached_property
    def topics(self) -> "TopicsApi":
        """Topics and their configuration."""
        from dueq._async.api.topics_api import TopicsApi

        return TopicsApi(self._calls)

    @cached_property
    def callbacks(self) -> "CallbacksApi":
        """Having a URL called."""
        from dueq._async.api.callbacks_api import CallbacksApi

        return CallbacksApi(self._calls)

    @cached_property
    def schedules(self) -> "SchedulesApi":
        """Publishing by the clock."""
        from dueq._async.api.schedules_api import SchedulesApi

        return SchedulesApi(self._calls)

    @cached_property
    def service(self) -> "ServiceApi":
        """Health, metrics, the OpenAPI document."""
        from dueq._async.api.service_api import ServiceApi

        return ServiceApi(self._calls)
