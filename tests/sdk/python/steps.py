"""The steps of tests/sdk/steps.md, all by the typed client."""

import base64
import time
from collections.abc import Awaitable
from datetime import datetime, timedelta, timezone
from typing import Any, Callable

from dueq import (
    AckBatchItem,
    AckBatchRequest,
    AckRequest,
    AsyncClient,
    BackoffKind,
    BackoffRequest,
    ExtendRequest,
    LeaseAck,
    LeasedMessage,
    LeaseRequest,
    NackRequest,
    OnDuplicate,
    ProblemError,
    PublishBatchRequest,
    PublishRequest,
    PutScheduleRequest,
    PutTopicRequest,
    RetentionRequest,
    ScheduleCallbackRequest,
    ScheduledMessageRequest,
    TickMessage,
    UpdateMessageRequest,
    UpdateTopicRequest,
)

Say = Callable[..., None]


async def refused(request: Awaitable[Any]) -> ProblemError:
    """The refusal of a request that dueq must refuse."""
    try:
        answer = await request
    except ProblemError as problem:
        return problem
    raise AssertionError(f"not refused: {answer}")


async def steps(client: AsyncClient, topic: str, say: Say) -> None:
    for part in PARTS:
        await part(client, topic, say)


async def lease_one(client: AsyncClient, topic: str) -> LeasedMessage:
    [message] = (await client.api.leases.lease_messages(topic, LeaseRequest(lease_ms=30_000))).messages
    return message


async def messages(client: AsyncClient, topic: str, say: Say) -> None:
    publish, leases = client.api.messages.publish_message, client.api.leases
    request = PublishRequest(
        payload={"order": 42, "items": [None, False, {"n": 1.5}], "note": "ü"},
        key="order/42",
        headers={"source": "sdk"},
        priority=7,
    )
    first = await publish(topic, request)
    say(step="publish", state=first.state, duplicate=first.duplicate)
    second = await publish(topic, request)
    say(step="duplicate", duplicate=second.duplicate, same_id=second.id == first.id)
    first = await publish(topic, PublishRequest(payload="once", idempotency_key="once"))
    second = await publish(topic, PublishRequest(payload="once"), idempotency_key="once")
    say(step="idempotent", duplicate=second.duplicate, same_id=second.id == first.id)
    delayed = await publish(topic, PublishRequest(payload=None, delay_ms=5000))
    say(step="delayed", state=delayed.state)
    results = await client.api.messages.publish_batch(
        topic,
        PublishBatchRequest(
            messages=[
                PublishRequest(payload=False),
                PublishRequest(payload=1, key="order/42", on_duplicate=OnDuplicate.REJECT),
                PublishRequest(payload_base64=base64.b64encode(b"\x00\xff").decode(), content_type="image/png"),
            ]
        ),
    )
    say(step="batch", statuses=[result.status for result in results.results])
    got = await client.api.messages.get_message_by_key(topic, "order/42")
    say(
        step="get",
        state=got.state,
        attempts=got.attempts,
        headers=got.headers,
        priority=got.priority,
        payload=got.payload,
    )

    leased = await lease_one(client, topic)
    say(
        step="lease",
        key=leased.key,
        attempt=leased.attempt,
        attempts_left=leased.attempts_left,
        headers=leased.headers,
        priority=leased.priority,
        payload=leased.payload,
    )
    token = leased.lease_token
    extended = await leases.extend_lease(leased.id, ExtendRequest(lease_token=token, lease_ms=60_000))
    say(step="extend", lease_ms=extended.lease_ms)
    nacked = await leases.nack_message(leased.id, NackRequest(lease_token=token, delay_ms=0, reason="later"))
    say(step="nack", state=nacked.state, attempt=nacked.attempt)
    problem = await refused(leases.ack_message(leased.id, AckRequest(lease_token=token)))
    say(step="stale", status=problem.status, code=problem.code)
    again = await lease_one(client, topic)
    await leases.ack_message(again.id, AckRequest(lease_token=again.lease_token))
    say(step="again", key=again.key, attempt=again.attempt)
    problem = await refused(leases.ack_message(again.id, AckRequest(lease_token=again.lease_token)))
    say(step="gone", status=problem.status, code=problem.code)

    three = (await leases.lease_messages(topic, LeaseRequest(max_messages=10))).messages
    acked = await leases.ack_batch(AckBatchRequest(messages=[AckBatchItem(id=m.id, lease_token=m.lease_token) for m in three]))
    say(step="three", payloads=[content(m) for m in three], acks=[result.status for result in acked.results])
    began = time.monotonic()
    [polled] = (await leases.lease_messages(topic, LeaseRequest(wait_ms=20_000))).messages
    say(step="poll", payload=polled.to_dict()["payload"], waited=time.monotonic() - began >= 0.2)
    ride = await leases.lease_messages(topic, LeaseRequest(acks=[LeaseAck(id=polled.id, lease_token=polled.lease_token)]))
    say(step="ride", messages=len(ride.messages), acks=[ack.status for ack in ride.acks])


def content(message: LeasedMessage) -> Any:
    if message.payload_base64 is not None:
        return {"base64": message.payload_base64, "content_type": message.content_type}
    return message.payload


async def by_key(client: AsyncClient, topic: str, say: Say) -> None:
    await client.api.messages.publish_message(topic, PublishRequest(payload=1, key="cart", delay_ms=3_600_000))
    updated = await client.api.messages.update_message_by_key(
        topic, "cart", UpdateMessageRequest(priority=9, delay_ms=7_200_000)
    )
    assert updated.due_at is not None
    ahead = (updated.due_at - updated.published_at).total_seconds()
    say(step="update", state=updated.state, priority=updated.priority, moved=ahead > 7000)
    await client.api.messages.delete_message_by_key(topic, "cart")
    problem = await refused(client.api.messages.get_message_by_key(topic, "cart"))
    say(step="delete", status=problem.status, code=problem.code)

    await client.api.messages.publish_message(topic, PublishRequest(payload="poison"))
    poison = await lease_one(client, topic)
    await client.api.leases.nack_message(
        poison.id, NackRequest(lease_token=poison.lease_token, dead=True, reason="no such order")
    )
    dead = await client.api.messages.get_message(poison.id)
    say(step="dead", state=dead.state, last_error=dead.last_error, attempts=dead.attempts)
    redriven = await client.api.messages.redrive_message(poison.id)
    await client.api.messages.delete_message(poison.id)
    say(step="redrive", state=redriven.state)


async def topics(client: AsyncClient, topic: str, say: Say) -> None:
    name = f"{topic}-config"
    await client.api.topics.put_topic(
        name,
        PutTopicRequest(
            lease_ms=60_000,
            max_attempts=3,
            backoff=BackoffRequest(kind=BackoffKind.SCHEDULE, delays_ms=[1000, 5000]),
            retention=RetentionRequest(acked_ms=1000),
        ),
    )
    config = (await client.api.topics.get_topic(name)).config
    say(
        step="configure",
        lease_ms=config.lease_ms,
        max_attempts=config.max_attempts,
        backoff=config.backoff.to_dict(),
        retention=config.retention.to_dict(),
    )
    reset = await client.api.topics.update_topic(name, UpdateTopicRequest(max_attempts=None, lease_ms=45_000))
    say(step="reset", lease_ms=reset.config.lease_ms, max_attempts=reset.config.max_attempts)
    paused = await client.api.topics.pause_topic(name)
    resumed = await client.api.topics.resume_topic(name)
    say(step="pause", paused=[paused.paused, resumed.paused])
    listed = await client.api.topics.list_topics(prefix=name)
    say(step="list", names=[item.name.replace(topic, "T") for item in listed.items])
    await client.api.topics.delete_topic(name)
    problem = await refused(client.api.topics.get_topic(name))
    say(step="drop", status=problem.status, code=problem.code)


async def contradiction(client: AsyncClient, topic: str, say: Say) -> None:
    both = PublishRequest(payload=1, delay_ms=1, deliver_at=datetime(2030, 1, 1, tzinfo=timezone.utc))
    problem = await refused(client.api.messages.publish_message(topic, both))
    say(step="refused", status=problem.status, code=problem.code, fields=[error.field for error in problem.errors])


async def callbacks(client: AsyncClient, topic: str, say: Say) -> None:
    scheduled = await client.api.callbacks.schedule_callback(
        ScheduleCallbackRequest(url="https://example.com/hook", payload={"order": 42}, delay_ms=3_600_000, key=topic)
    )
    message = await client.api.messages.get_message(scheduled.id)
    await client.api.messages.delete_message(scheduled.id)
    assert message.callback is not None
    say(step="callback", topic=message.topic, state=message.state, url=message.callback.url)


async def callback_address(client: AsyncClient, topic: str, say: Say) -> None:
    problem = await refused(client.api.callbacks.schedule_callback(ScheduleCallbackRequest(url="http://10.0.0.1/")))
    say(step="callback_refused", status=problem.status, code=problem.code)


async def schedules(client: AsyncClient, topic: str, say: Say) -> None:
    await client.api.schedules.put_schedule(
        topic,
        PutScheduleRequest(
            cron="0 9 * * MON-FRI",
            timezone="Europe/Berlin",
            topic=f"{topic}-ticks",
            message=ScheduledMessageRequest(payload="daily"),
        ),
    )
    schedule = await client.api.schedules.get_schedule(topic)
    say(
        step="schedule",
        cron=schedule.cron,
        timezone=schedule.timezone,
        paused=schedule.paused,
        has_next=schedule.next_at is not None,
    )
    await client.api.schedules.trigger_schedule(topic)
    paused = await client.api.schedules.pause_schedule(topic)
    await client.api.schedules.delete_schedule(topic)
    problem = await refused(client.api.schedules.get_schedule(topic))
    say(step="trigger", paused=paused.paused, status=problem.status, code=problem.code)


async def payload(client: AsyncClient, topic: str, say: Say) -> None:
    every = base64.b64encode(bytes(range(256))).decode()
    published = await client.api.messages.publish_message(topic, PublishRequest(payload_base64=every, delay_ms=3_600_000))
    came: bytes = await client.api.messages.get_message_payload(published.id)
    await client.api.messages.delete_message(published.id)
    say(step="payload", base64=base64.b64encode(came).decode())


async def own_schedules(client: AsyncClient, topic: str, say: Say) -> None:
    daily: TickMessage = {"payload": "daily", "priority": 7, "headers": {"source": "sdk"}}
    await client.put_schedule(topic, daily, topic=f"{topic}-ticks", cron="0 9 * * MON-FRI", timezone="Europe/Berlin")
    schedule = await client.get_schedule(topic)
    assert schedule is not None and schedule.topic is not None
    say(
        step="put_schedule",
        topic=schedule.topic.replace(topic, "T"),
        cron=schedule.cron,
        timezone=schedule.timezone,
        payload=schedule.message.payload,
        priority=schedule.message.priority,
        headers=schedule.message.headers,
    )
    listed = topic in [schedule.name async for schedule in client.list_schedules()]
    paused = [(await client.pause_schedule(topic)).paused, (await client.resume_schedule(topic)).paused]
    await client.trigger_schedule(topic)
    schedule = await client.get_schedule(topic)
    assert schedule is not None
    say(step="run_schedule", listed=listed, paused=paused, published=schedule.last_message_id is not None)
    deleted = [await client.delete_schedule(topic), await client.delete_schedule(topic)]
    say(step="delete_schedule", deleted=deleted, there=await client.get_schedule(topic) is not None)


async def own_topics(client: AsyncClient, topic: str, say: Say) -> None:
    name, group = f"{topic}-own", "customer-7"
    await client.put_topic(name, {"max_attempts": 3, "group_order": "fair"})
    await client.update_topic(name, UpdateTopicRequest(lease_ms=45_000))
    paused = [(await client.pause_topic(name)).paused, (await client.resume_topic(name)).paused]
    names = [item.name.replace(topic, "T") async for item in client.list_topics(name)]
    own = await client.get_topic(name)
    assert own is not None
    say(step="put_topic", names=names, paused=paused, max_attempts=own.config.max_attempts, lease_ms=own.config.lease_ms)
    await client.put_group(name, group, {"concurrency": 5})
    paused = [(await client.pause_group(name, group)).paused, (await client.resume_group(name, group)).paused]
    [listed] = [listed async for listed in client.list_groups(name)]
    await client.delete_group(name, group)
    limited = (await client.get_group(name, group)).concurrency is not None
    say(step="put_group", groups=[listed.group], concurrency=listed.concurrency, paused=paused, limited=limited)
    deleted = [await client.delete_topic(name, force=True), await client.delete_topic(name)]
    say(step="delete_topic", deleted=deleted, there=await client.get_topic(name) is not None)


async def dead_letters(client: AsyncClient, topic: str, say: Say) -> None:
    name = f"{topic}-dead"
    for payload in ("first", "second", "third"):
        await client.publish(name, payload)
        poison = await lease_one(client, name)
        await client.api.leases.nack_message(poison.id, NackRequest(lease_token=poison.lease_token, dead=True))
    dead = [message async for message in client.dead(name)]
    redriven = await client.redrive(name, 2, spread=timedelta(hours=1))
    await client.redrive_message(dead[2].id)
    states = [(await client.api.messages.get_message(message.id)).state for message in dead]
    say(step="dead_letters", payloads=[message.payload for message in dead], redriven=redriven, states=states)


PARTS = (
    messages,
    by_key,
    topics,
    contradiction,
    callbacks,
    callback_address,
    schedules,
    payload,
    own_schedules,
    own_topics,
    dead_letters,
)
