"""Every method of clients and worker as a user's program calls it: mypy reads this strictly, and memory.py runs it.

What must not pass mypy has a `type: ignore`, which mypy itself refuses where there is nothing to ignore.
"""

from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Optional

import dueq
from dueq import (
    AsyncClient,
    BackoffRequest,
    CallNext,
    Client,
    Dead,
    Key,
    Message,
    MessageOptions,
    Middleware,
    NewMessage,
    PublishedMessage,
    PublishResult,
    RetryIn,
    State,
    TopicItem,
    Worker,
    WorkerMessage,
    webhooks,
)
from dueq.testing import TestServer
from typing_extensions import assert_type


@dataclass
class Order:
    order: int


TOMORROW = datetime.now(timezone.utc) + timedelta(days=1)
OPTIONS: MessageOptions = {
    "delay": 0.5,
    "key": "k",
    "key_until": "done",
    "on_duplicate": "replace",
    "priority": 9,
    "ttl": timedelta(days=1),
    "max_attempts": 3,
    "backoff": BackoffRequest(base_ms=100),
    "headers": {"source": "shop"},
}


async def with_asyncio(client: AsyncClient) -> None:
    assert_type(await client.publish("t", {"order": 1}, **OPTIONS), PublishedMessage)
    await client.publish("t", b"\x00", content_type="image/png", at=TOMORROW, idempotency_key="i")
    batch: list[NewMessage] = [{"payload": 1}, {"payload": None, "delay": timedelta(hours=1)}]
    assert_type(await client.publish_batch("t", batch), list[PublishResult])
    call = await client.callback("https://example.com/", {"a": 1}, method="PUT", timeout=5, secret_headers=["x-key"])
    assert_type(call, PublishedMessage)
    key = client.key("t", "k")
    found = await key.get()
    assert_type(found, Optional[Message])
    assert found is not None and found.state is State.DELAYED
    assert_type(await key.reschedule(delay=60), bool)
    assert_type(await key.reschedule(at=TOMORROW), bool)
    assert_type(await key.cancel(), bool)
    assert_type([message async for message in client.dead("t")], list[Message])
    assert_type([topic async for topic in client.topics("t")], list[TopicItem])
    assert_type(await client.redrive("t", 10, spread=timedelta(minutes=1)), int)
    assert_type(client.with_options(timeout=5, deadline=10, retries=False), AsyncClient)
    assert_type(await client.api.messages.get_message(call.id), Message)
    try:
        assert_type(await client.redrive_message(call.id), Message)
    except dueq.ProblemError as problem:
        assert_type((problem.status, problem.code, problem.retry_after), tuple[int, str, Optional[float]])
    wrongs: list[Callable[[], Awaitable[Any]]] = [
        lambda: client.publish("t", 1, dealy=5),  # type: ignore[call-arg]
        lambda: client.publish("t", 1, delay="5"),  # type: ignore[arg-type]
        lambda: client.publish("t", 1, at=5),  # type: ignore[arg-type]
        lambda: client.put_schedule("s", topic="t", cron="@daily"),  # type: ignore[call-arg]
        lambda: client.put_schedule("s", {"payload": 1, "delay": 5}, topic="t", every=60),  # type: ignore[typeddict-unknown-key]
        lambda: client.put_schedule("s", {"payload": 1}, topic="t", every="60"),  # type: ignore[arg-type]
    ]
    for wrong in wrongs:
        try:
            await wrong()
        except (TypeError, ValueError):
            continue
        raise AssertionError("not refused")


def without_asyncio(client: Client) -> None:
    assert_type(client.publish("t", {"order": 1}, **OPTIONS), PublishedMessage)
    assert_type(client.publish_batch("t", [{"payload": n, "delay": n} for n in range(2)]), list[PublishResult])
    call = client.callback("https://example.com/")
    key = client.key("t", "k")
    assert_type(key, Key)
    assert_type(key.get(), Optional[Message])
    assert_type((key.reschedule(delay=60), key.cancel()), tuple[bool, bool])
    assert_type([message for message in client.dead("t")], list[Message])
    assert_type([topic for topic in client.topics()], list[TopicItem])
    assert_type(client.redrive("t"), int)
    assert_type(client.with_options(timeout=5), Client)
    assert_type(client.api.messages.get_message(call.id), Message)
    try:
        assert_type(client.redrive_message(str(call.id)), Message)
    except dueq.ProblemError:
        pass


def hook(body: bytes, headers: Mapping[str, str]) -> None:
    try:
        webhooks.verify(body, headers, ["whsec_c2VjcmV0"], tolerance=timedelta(minutes=1))
    except dueq.WebhookError as error:
        print(error)


async def timed(message: WorkerMessage, call_next: CallNext) -> Any:
    return await call_next(message)


def workers(client: Client, later: AsyncClient) -> None:
    async def typed(message: WorkerMessage[Order]) -> None:
        assert_type(message.payload, Order)
        if message.attempts_left == 0 or message.lost:
            raise Dead("too often")
        if message.attempt == 1:
            raise RetryIn(timedelta(seconds=1), "later")

    def plain(message: WorkerMessage) -> str:
        assert_type((message.key, message.headers), tuple[Optional[str], Mapping[str, str]])
        return "done"

    around: list[Middleware] = [timed]
    Worker(later, "t", typed, payload_type=Order, middleware=around).stop()
    Worker(client, ["t", "u"], plain, concurrency=2, prefetch=5, lease_ms=5000, wait_ms=100).run_blocking(until_empty=True)
    Worker(client, "t", plain, on_done=lambda message, ms: print(message.id, ms / 1000), on_failed=lambda message, error: None)
    with suppress(TypeError):
        Worker(client, "t", 5)  # type: ignore[arg-type]
    with suppress(TypeError):
        Worker("t", plain)  # type: ignore[call-arg, arg-type]


def fake(server: TestServer) -> None:
    server.advance(timedelta(days=2))
    assert_type(server.messages("t"), list[Message])
    assert_type((server.client(timeout=5), server.async_client(), server.url), tuple[Client, AsyncClient, str])
