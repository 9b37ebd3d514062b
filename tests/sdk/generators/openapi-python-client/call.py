"""Calls a dueq through what openapi-python-client made of its document: what a user of the generator would write first."""

import sys

from dueq import Client
from dueq.api.leases import ack_message, lease_messages
from dueq.api.messages import get_message, publish_message
from dueq.api.service import get_metrics
from dueq.models import (
    AckRequest,
    BackoffKind,
    BackoffRequest,
    LeaseRequest,
    LeaseResponse,
    Message,
    Problem,
    PublishedMessage,
    PublishRequest,
    State,
)

server, topic = sys.argv[1:]

with Client(base_url=server) as client:
    payload = {"nested": [None, False, {"a": 1.5, "big": 2**80}], "none": None}
    published = publish_message.sync(
        topic,
        client=client,
        body=PublishRequest(
            payload=payload,
            key="order-42",
            priority=3,
            backoff=BackoffRequest(kind=BackoffKind.FIXED, base_ms=10),
        ),
    )
    assert isinstance(published, PublishedMessage), published
    assert published.state == State.READY, published

    leased = lease_messages.sync(topic, client=client, body=LeaseRequest(wait_ms=5000))
    assert isinstance(leased, LeaseResponse), leased
    (message,) = leased.messages
    assert message.id == published.id, message
    assert message.payload == payload, message
    assert message.lease_expires_at > message.published_at, message

    token = AckRequest(lease_token=message.lease_token)
    assert ack_message.sync_detailed(message.id, client=client, body=token).status_code == 204
    again = ack_message.sync(message.id, client=client, body=token)
    assert isinstance(again, Problem), again
    assert again.code == "message_not_found", again

    wrong = publish_message.sync(topic, client=client, body=PublishRequest(payload=1, priority=256))
    assert isinstance(wrong, Problem), wrong
    assert wrong.code == "invalid_input", wrong
    assert isinstance(wrong.errors, list) and wrong.errors[0].field == "priority", wrong

    nothing = publish_message.sync(topic, client=client, body=PublishRequest(payload=None))
    assert isinstance(nothing, PublishedMessage), nothing
    found = get_message.sync(nothing.id, client=client)
    assert isinstance(found, Message), found
    assert found.payload is None, found

    metrics = get_metrics.sync(client=client)
    assert isinstance(metrics, str) and "# EOF" in metrics, metrics
print("ok")
