"""SQS's protocol as boto3 has it: each function is one scenario, with queues of its own. They run side by side.

Usage: scenarios.py BASE_URL KEY NARROW_KEY
  KEY may do everything, NARROW_KEY may publish to `narrow-*` and nothing else.
What is expected is what AWS's API reference says; where dueq differs, src/guide/sqs.md says so.
"""

import concurrent.futures
import hashlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.parse
import uuid

import boto3
import dramatiq
import dramatiq_sqs
from botocore.config import Config
from botocore.exceptions import ClientError

BASE, KEY, NARROW = sys.argv[1:4]
ENDPOINT = f"{BASE}/sqs"


def client(key=KEY):
    config = Config(retries={"total_max_attempts": 1}, max_pool_connections=50, user_agent_extra="scenarios")
    return boto3.client("sqs", endpoint_url=ENDPOINT, region_name="eu-central-1", aws_access_key_id=key,
                        aws_secret_access_key="anything", config=config)


sqs = client()


def queue(suffix="", **attributes):
    name = f"sqs-{uuid.uuid4().hex[:12]}{suffix}"
    if suffix == ".fifo":
        attributes.setdefault("FifoQueue", "true")
    return sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]


def name_of(url):
    return url.rsplit("/", 1)[1]


def send(url, body="m", **more):
    return sqs.send_message(QueueUrl=url, MessageBody=body, **more)


def receive(url, most=10, **more):
    more.setdefault("WaitTimeSeconds", 0)
    return sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=most, **more).get("Messages", [])


def eventually(what, look, seconds=10):
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, what
        time.sleep(0.05)


def counts(url):
    names = ["", "NotVisible", "Delayed"]
    got = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return [int(got[f"ApproximateNumberOfMessages{name}"]) for name in names]


def fails(code, call, *args, message="", by=sqs, **kwargs):
    """The call raises the exception whose code in the older protocol is this."""
    try:
        call(*args, **kwargs)
    except ClientError as error:
        assert error.response["Error"]["Code"] == code, (code, error.response)
        assert message in error.response["Error"]["Message"], (message, error.response)
        return error
    raise AssertionError(f"{call} {kwargs} did not fail with {code}")


def native(method, path, body=None, key=KEY, headers=None):
    """A request of dueq's own API, or a raw one."""
    where = urllib.parse.urlsplit(BASE)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
    sent = {"authorization": f"Bearer {key}", "content-type": "application/json"} | (headers or {})
    connection.request(method, where.path + path, body if isinstance(body, (bytes, str)) else json.dumps(body), sent)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def a_message_comes_back_as_it_was_sent():
    url = queue()
    assert url == f"{ENDPOINT}/000000000000/{name_of(url)}", url
    assert sqs.get_queue_url(QueueName=name_of(url))["QueueUrl"] == url
    attributes = {
        "s": {"DataType": "String", "StringValue": "a\nü"}, "n": {"DataType": "Number.int", "StringValue": "-1.50e3"},
        "b": {"DataType": "Binary", "BinaryValue": bytes(range(256))}, "h.x": {"DataType": "String", "StringValue": "plain"},
    }
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}
    for body in ["hello", '{"a": 1E400, "a": "\u2028"}', "[1,]", "\t\r\n ü \U0010ffff", "x" * 1_000_000]:
        # botocore itself compares the digests of body and attributes.
        sent = send(url, body, MessageAttributes=attributes, MessageSystemAttributes=trace)
        assert sent["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
        [got] = receive(url, MessageAttributeNames=["All"], AttributeNames=["All"])
        assert (got["Body"], got["MessageId"]) == (body, sent["MessageId"])
        assert got["MessageAttributes"] == attributes and got["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
        system = got["Attributes"]
        assert system["ApproximateReceiveCount"] == "1" and system["AWSTraceHeader"].startswith("Root=1-")
        sent_at, first = int(system["SentTimestamp"]), int(system["ApproximateFirstReceiveTimestamp"])
        assert sent_at <= first <= sent_at + 60_000, system
        sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
    send(url, MessageAttributes=attributes)
    [got] = receive(url, MessageAttributeNames=["h.*", "n"], VisibilityTimeout=0)
    assert sorted(got["MessageAttributes"]) == ["h.x", "n"] and "Attributes" not in got
    # Old clients have only the older name.
    known = sqs.meta.service_model.operation_model("ReceiveMessage").input_shape.members
    newest = max({"AttributeNames", "MessageSystemAttributeNames"} & set(known))
    [got] = receive(url, **{newest: ["ApproximateReceiveCount"]})
    assert got["Attributes"] == {"ApproximateReceiveCount": "2"} and "MessageAttributes" not in got
    large = {f"n{i}": {"DataType": "Number.x", "StringValue": "1" * 90_000} for i in range(10)}
    send(url, "large", MessageAttributes=large)
    [got] = receive(url, MessageAttributeNames=["All"])
    assert got["MessageAttributes"] == large


def the_other_api_shows_the_same_messages():
    url = queue()
    topic = name_of(url)
    send(url, '{"order": 42}', MessageAttributes={"X-Shop": {"DataType": "String", "StringValue": "s"}})
    status, _, answer = native("POST", f"/topics/{topic}/lease", {})
    [leased] = json.loads(answer)["messages"]
    assert leased["payload"] == {"order": 42} and leased["headers"] == {"X-Shop": "s"}
    native("POST", f"/topics/{topic}/messages", {"payload": [1], "headers": {"a": "b", "~": "no attribute"}})
    native("POST", f"/topics/{topic}/messages", {"payload_base64": "AP8=", "content_type": "image/png"})
    by_body = {got["Body"]: got for got in receive(url, MessageAttributeNames=["All"])}
    assert sorted(by_body) == ["AP8=", "[1]"]
    assert by_body["[1]"]["MessageAttributes"] == {"a": {"DataType": "String", "StringValue": "b"}}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "77", "DelaySeconds": "3"})
    config = json.loads(native("GET", f"/topics/{topic}")[2])["config"]
    assert (config["lease_ms"], config["ttl_ms"], config["max_payload_bytes"]) == (77_000, 345_600_000, 1_048_576)
    # What only SQS knows outlives a change by the other API.
    assert native("PUT", f"/topics/{topic}", {"lease_ms": 5000})[0] == 200
    got = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (got["VisibilityTimeout"], got["DelaySeconds"], got["MaximumMessageSize"]) == ("5", "3", "262144")
    topic = f"sqs-plain.{uuid.uuid4().hex[:12]}"
    native("PUT", f"/topics/{topic}", {})
    plain = f"{ENDPOINT}/{topic}"
    send(plain)
    assert len(receive(plain)) == 1


def a_delay_of_a_day_works():
    url = queue()
    id = send(url, DelaySeconds=86_400)["MessageId"]
    message = json.loads(native("GET", f"/messages/{id}")[2])
    due, published = (message[name][:19] for name in ("due_at", "published_at"))
    seconds = [time.mktime(time.strptime(it, "%Y-%m-%dT%H:%M:%S")) for it in (due, published)]
    assert 86_399 <= seconds[0] - seconds[1] <= 86_401, message
    assert counts(url) == [0, 0, 1] and receive(url) == []
    slow = queue(DelaySeconds="1")
    send(slow)
    send(slow, "now", DelaySeconds=0)
    assert [got["Body"] for got in receive(slow)] == ["now"]
    assert [got["Body"] for got in receive(slow, WaitTimeSeconds=5)] == ["m"]
    fails("InvalidParameterValue", send, url, DelaySeconds=-1)


def visibility_ends_is_changed_and_old_handles_delete():
    url = queue(VisibilityTimeout="2")
    send(url)
    assert counts(url) == [1, 0, 0]
    [first] = receive(url)
    assert counts(url) == [0, 1, 0] and receive(url) == []
    # After its timeout, and before anybody else has the message, a handle still works.
    [second] = receive(url, WaitTimeSeconds=5, AttributeNames=["All"])
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"
    firsts = int(second["Attributes"]["ApproximateFirstReceiveTimestamp"])
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"], VisibilityTimeout=0)
    [third] = receive(url, AttributeNames=["All"], VisibilityTimeout=30)
    assert third["Attributes"]["ApproximateReceiveCount"] == "3"
    assert int(third["Attributes"]["ApproximateFirstReceiveTimestamp"]) == firsts
    # Whoever had it before changes nothing, and hears nothing of it.
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"], VisibilityTimeout=0)
    assert counts(url) == [0, 1, 0]
    # Shorter than it was, which wakes who waits.
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=third["ReceiptHandle"], VisibilityTimeout=1)
    begun = time.monotonic()
    [fourth] = receive(url, WaitTimeSeconds=10, VisibilityTimeout=1)
    assert time.monotonic() - begun < 5
    eventually("the timeout ends", lambda: counts(url) == [1, 0, 0])
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=fourth["ReceiptHandle"], VisibilityTimeout=30)
    assert receive(url) == [], "invisible again"
    for _ in range(2):
        sqs.delete_message(QueueUrl=url, ReceiptHandle=fourth["ReceiptHandle"])
    assert counts(url) == [0, 0, 0]
    send(url)
    [zero] = receive(url, VisibilityTimeout=0)
    [again] = receive(url, VisibilityTimeout=0)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=zero["ReceiptHandle"])
    assert counts(url) == [1, 0, 0], "somebody else has had it since"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
    assert counts(url) == [0, 0, 0]
    change = sqs.change_message_visibility
    handle = again["ReceiptHandle"]
    fails("InvalidParameterValue", change, QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=5)
    fails("InvalidParameterValue", change, QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=43_201)


def a_long_poll_waits_and_is_woken():
    url = queue(ReceiveMessageWaitTimeSeconds="10")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        begun = time.monotonic()
        waiting = pool.submit(lambda: sqs.receive_message(QueueUrl=url).get("Messages"))
        time.sleep(0.3)
        send(url)
        assert len(waiting.result()) == 1 and 0.2 < time.monotonic() - begun < 5
    begun = time.monotonic()
    assert receive(url, WaitTimeSeconds=1) == [] and time.monotonic() - begun > 0.9


def messages_received_too_often_move_to_the_dead_letter_queue():
    dead, url = queue(), queue()
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    source = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    assert arn == f"arn:aws:sqs:eu-central-1:000000000000:{name_of(dead)}"
    policy = {"deadLetterTargetArn": arn, "maxReceiveCount": "2"}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(policy)})
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])["Attributes"]["RedrivePolicy"]
    assert json.loads(shown) == policy | {"maxReceiveCount": 2}
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [url]
    attributes = {"n": {"DataType": "Number", "StringValue": "1"}, "s": {"DataType": "String", "StringValue": "x"}}
    sent = send(url, "poison", MessageAttributes=attributes)
    for _ in range(2):
        assert len(receive(url, VisibilityTimeout=0)) == 1
    assert receive(url) == []
    [got] = eventually("it moves", lambda: receive(dead, AttributeNames=["All"], MessageAttributeNames=["All"]))
    assert (got["Body"], got["MessageId"], got["MessageAttributes"]) == ("poison", sent["MessageId"], attributes)
    system = got["Attributes"]
    assert (system["DeadLetterQueueSourceArn"], system["ApproximateReceiveCount"]) == (source, "3")
    eventually("it is only there", lambda: json.loads(native("GET", f"/topics/{name_of(url)}")[2])["counts"]["dead"] == 0)
    # It goes by the timeout as well, and an empty policy ends it.
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(policy | {"maxReceiveCount": 1})})
    send(url, "slow")
    assert len(receive(url, VisibilityTimeout=1)) == 1
    eventually("it moves by itself", lambda: [got["Body"] for got in receive(dead)] == ["slow"])
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
    send(url, "stays")
    for _ in range(12):
        assert len(receive(url, VisibilityTimeout=0)) == 1
    put = lambda text: sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": text})
    for wrong in ["no json", "{}", json.dumps({"deadLetterTargetArn": arn}), json.dumps(policy | {"maxReceiveCount": 1001}),
                  json.dumps(policy | {"deadLetterTargetArn": f"{arn}-none"}),
                  json.dumps(policy | {"deadLetterTargetArn": "arn:aws:sqs:x"}), json.dumps(policy | {"deadLetterTargetArn": source})]:
        fails("InvalidParameterValue", put, wrong)


def batches_tell_of_each_entry():
    url = queue()
    entries = [{"Id": f"e{i}", "MessageBody": str(i)} for i in range(9)]
    entries[3]["MessageBody"], entries[5]["DelaySeconds"] = "a\0", -1
    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert len(sent["Successful"]) == 7 and all(it["MessageId"] and it["MD5OfMessageBody"] for it in sent["Successful"])
    failed = {it["Id"]: (it["Code"], it["SenderFault"]) for it in sent["Failed"]}
    assert failed["e3"] == ("InvalidMessageContents", True) and failed["e5"][1] and len(failed) == 2, failed
    got = receive(url)
    assert sorted(it["Body"] for it in got) == ["0", "1", "2", "4", "6", "7", "8"]
    changes = [{"Id": str(i), "ReceiptHandle": it["ReceiptHandle"], "VisibilityTimeout": 0} for i, it in enumerate(got)]
    answer = sqs.change_message_visibility_batch(QueueUrl=url, Entries=changes + [{"Id": "x", "ReceiptHandle": "x", "VisibilityTimeout": 1}])
    assert len(answer["Successful"]) == 7 and answer["Failed"][0]["Code"] == "ReceiptHandleIsInvalid", answer
    got = receive(url)
    deletes = [{"Id": str(i), "ReceiptHandle": it["ReceiptHandle"]} for i, it in enumerate(got)]
    answer = sqs.delete_message_batch(QueueUrl=url, Entries=[{"Id": "first", "ReceiptHandle": "no"}] + deletes)
    assert [it["Id"] for it in answer["Successful"]] == [str(i) for i in range(7)] and answer["Failed"][0]["Id"] == "first"
    assert counts(url) == [0, 0, 0]
    prefix = "AWS.SimpleQueueService."
    batch = lambda entries: sqs.send_message_batch(QueueUrl=url, Entries=entries)
    fails(f"{prefix}EmptyBatchRequest", batch, [])
    fails(f"{prefix}TooManyEntriesInBatchRequest", batch, [{"Id": str(i), "MessageBody": "x"} for i in range(11)], message="sent 11")
    fails(f"{prefix}BatchEntryIdsNotDistinct", batch, [{"Id": "a", "MessageBody": "x"}] * 2, message="Id a repeated")
    fails(f"{prefix}InvalidBatchEntryId", batch, [{"Id": "a.b", "MessageBody": "x"}])
    big = [{"Id": str(i), "MessageBody": "x" * 600_000} for i in range(2)]
    fails(f"{prefix}BatchRequestTooLong", batch, big, message="You have sent 1200000 bytes")
    assert counts(url) == [0, 0, 0]


def a_fifo_queue_keeps_order_in_groups_and_drops_repeats():
    url = queue(".fifo")
    put = lambda body, group, id: send(url, body, MessageGroupId=group, MessageDeduplicationId=id)
    first = put("a1", "a", "1")
    again = put("other text", "a", "1")
    assert again["MessageId"] == first["MessageId"]
    numbers = [first["SequenceNumber"]] + [put(body, body[0], body)["SequenceNumber"] for body in ["a2", "b1", "a3", "b2"]]
    assert [int(it) for it in numbers] == sorted(set(map(int, numbers)))
    assert counts(url) == [5, 0, 0]
    got = receive(url, AttributeNames=["All"])
    bodies = lambda got: [it["Body"] for it in got]
    assert bodies(got) == ["a1", "a2", "a3", "b1", "b2"]
    system = got[0]["Attributes"]
    assert (system["MessageGroupId"], system["MessageDeduplicationId"], system["SequenceNumber"]) == ("a", "1", numbers[0])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=got[0]["ReceiptHandle"])
    show = lambda it, seconds: sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=it["ReceiptHandle"], VisibilityTimeout=seconds)
    show(got[2], 0)
    assert receive(url) == [], "a2 is in flight"
    show(got[1], 1)
    assert bodies(eventually("a2 comes again", lambda: receive(url))) == ["a2", "a3"]
    show(got[3], 0)
    attempt = {"ReceiveRequestAttemptId": "again", "VisibilityTimeout": 5}
    b1 = receive(url, WaitTimeSeconds=2, **attempt)
    assert bodies(b1) == ["b1"], "b2 is in flight, but later"
    assert receive(url, **attempt) == b1 and receive(url) == []
    expired = receive(queue(".fifo"))
    assert expired == []
    short = queue(".fifo", VisibilityTimeout="1", ContentBasedDeduplication="true")
    for _ in range(2):
        send(short, "same", MessageGroupId="g")
    [got] = receive(short)
    eventually("the timeout ends", lambda: counts(short) == [1, 0, 0])
    delete = sqs.delete_message
    fails("InvalidParameterValue", delete, QueueUrl=short, ReceiptHandle=got["ReceiptHandle"], message="has expired")
    fails("MissingParameter", send, url, MessageDeduplicationId="1", message="MessageGroupId")
    fails("InvalidParameterValue", send, url, MessageGroupId="g", message="ContentBasedDeduplication")
    fails("InvalidParameterValue", send, url, MessageGroupId="a b", MessageDeduplicationId="1")
    fails("InvalidParameterValue", send, url, MessageGroupId="g", MessageDeduplicationId="1", DelaySeconds=1)
    fails("InvalidParameterValue", send, queue(), MessageDeduplicationId="1")


def tenants_of_a_standard_queue_take_turns():
    url = queue()
    for body in "1234":
        send(url, body, MessageGroupId="noisy")
    send(url, "5", MessageGroupId="quiet")
    got = receive(url, 2, AttributeNames=["MessageGroupId"])
    assert sorted(it["Attributes"]["MessageGroupId"] for it in got) == ["noisy", "quiet"]
    assert len(receive(url)) == 3, "they wait for no other"
    fails("InvalidParameterValue", send, url, MessageGroupId="a b")


def queues_are_created_changed_listed_and_deleted():
    name = f"sqs-life-{uuid.uuid4().hex[:8]}"
    create = lambda **attributes: sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    url = sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "40"}, tags={"a": "1"})["QueueUrl"]
    assert create() == url and create(VisibilityTimeout="40") == url
    fails("QueueAlreadyExists", create, VisibilityTimeout="41", message="VisibilityTimeout")
    got = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert got | {"CreatedTimestamp": "", "LastModifiedTimestamp": ""} == {
        "ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesDelayed": "0",
        "ApproximateNumberOfMessagesNotVisible": "0", "CreatedTimestamp": "", "DelaySeconds": "0",
        "LastModifiedTimestamp": "", "MaximumMessageSize": "1048576", "MessageRetentionPeriod": "345600",
        "QueueArn": f"arn:aws:sqs:eu-central-1:000000000000:{name}", "ReceiveMessageWaitTimeSeconds": "0",
        "SqsManagedSseEnabled": "false", "VisibilityTimeout": "40",
    }, got
    assert abs(int(got["CreatedTimestamp"]) - time.time()) < 60 and abs(int(got["LastModifiedTimestamp"]) - time.time()) < 60
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=url)
    kept = {"Policy": '{"Version": "2012-10-17"}', "KmsMasterKeyId": "k", "MessageRetentionPeriod": "60", "VisibilityTimeout": "0"}
    sqs.set_queue_attributes(QueueUrl=url, Attributes=kept)
    got = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(kept))["Attributes"]
    assert got == kept, got
    send(url)
    assert len(receive(url)) == len(receive(url)) == 1, "the queue's timeout of 0 holds"
    sqs.tag_queue(QueueUrl=url, Tags={"b": "2", "c": ""})
    sqs.untag_queue(QueueUrl=url, TagKeys=["a", "none"])
    many = {f"t{i}": "" for i in range(49)}
    fails("InvalidParameterValue", sqs.tag_queue, QueueUrl=url, Tags=many)
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"b": "2", "c": ""}
    others = [sqs.create_queue(QueueName=f"{name}-{i}")["QueueUrl"] for i in range(3)]
    assert sqs.list_queues(QueueNamePrefix=name)["QueueUrls"] == [url] + others
    pages = sqs.get_paginator("list_queues").paginate(QueueNamePrefix=name, PaginationConfig={"PageSize": 3})
    assert [len(page["QueueUrls"]) for page in pages] == [3, 1]
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=f"{name}-no")
    [one, two] = [send(others[0], body) for body in ("1", "2")]
    send(others[0], "3", DelaySeconds=60)
    [held] = receive(others[0], most=1)
    sqs.purge_queue(QueueUrl=others[0])
    assert counts(others[0]) == [0, 0, 0], "what is in flight goes as well"
    sqs.delete_message(QueueUrl=others[0], ReceiptHandle=held["ReceiptHandle"])
    send(others[0])
    for gone in [url] + others:
        sqs.delete_queue(QueueUrl=gone)
    gone = "AWS.SimpleQueueService.NonExistentQueue"
    for call in [send, receive, counts]:
        error = fails(gone, call, url)
        assert isinstance(error, sqs.exceptions.QueueDoesNotExist)
    fails(gone, sqs.get_queue_url, QueueName=name)
    fails(gone, sqs.purge_queue, QueueUrl=url)
    fails(gone, sqs.delete_queue, QueueUrl=f"{ENDPOINT}/_callbacks")
    assert native("GET", f"/topics/{name}")[0] == 404, "nothing made it again"


def what_is_wrong_is_refused_as_aws_refuses_it():
    url = queue()
    create = lambda name, **attributes: sqs.create_queue(QueueName=name, Attributes=attributes)
    for name in ["", "a b", "a.b", "a.fifo", "x" * 81, "-a", "_a", "ü"]:
        fails("InvalidParameterValue", create, name)
    fails("InvalidParameterValue", create, "fifo", FifoQueue="true")
    set = lambda **attributes: sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)
    for attributes in [{"VisibilityTimeout": "-1"}, {"VisibilityTimeout": "43201"}, {"VisibilityTimeout": "x"},
                       {"MessageRetentionPeriod": "59"}, {"MaximumMessageSize": "1023"}, {"ReceiveMessageWaitTimeSeconds": "21"},
                       {"SqsManagedSseEnabled": "yes"}]:
        fails("InvalidAttributeValue", set, **attributes)
    for attributes in [{"Nope": "1"}, {"ContentBasedDeduplication": "true"}, {"DeduplicationScope": "queue"}, {"FifoQueue": "true"}]:
        fails("InvalidAttributeName", set, **attributes)
    fails("InvalidAttributeValue", set, Policy="x" * 40_000)
    fails("InvalidParameterValue", set, Policy=json.dumps("x" * 40_000).join(["{\"a\": ", "}"]))
    fails("InvalidAttributeName", sqs.get_queue_attributes, QueueUrl=url, AttributeNames=["Nope"])
    assert receive(url, AttributeNames=["Nope"]) == [], "a name that is unknown stops no consumer"
    fails("InvalidParameterValue", receive, url, most=11, message="Must be between 1 and 10")
    fails("InvalidParameterValue", receive, url, WaitTimeSeconds=21, message="Must be >= 0 and <= 20")
    fails("InvalidParameterValue", receive, url, VisibilityTimeout=43_201)
    fails("MissingParameter", send, url, "")
    for text in ["\0", "a\x0b", "\ufffe"]:
        error = fails("InvalidMessageContents", send, url, text)
        assert isinstance(error, sqs.exceptions.InvalidMessageContents)
    fails("InvalidParameterValue", send, url, "x" * 1_048_577, message="shorter than 1048576 bytes")
    set(MaximumMessageSize="1024")
    with_attribute = {"a": {"DataType": "String", "StringValue": "x" * 20}}
    fails("InvalidParameterValue", send, url, "x" * 1000, MessageAttributes=with_attribute)
    for name, attribute in [("a", {"DataType": "Date", "StringValue": "1"}), ("a", {"DataType": "String", "StringValue": ""}),
                            ("a", {"DataType": "Number", "StringValue": "x"}), ("a", {"DataType": "Binary", "StringValue": "x"}),
                            ("aws.a", {"DataType": "String", "StringValue": "1"}), ("a..b", {"DataType": "String", "StringValue": "1"}),
                            ("a b", {"DataType": "String", "StringValue": "1"}), ("", {"DataType": "String", "StringValue": "1"}),
                            ("a", {"DataType": "String", "StringValue": "\0"}), ("a", {"DataType": "", "StringValue": "1"})]:
        fails("InvalidParameterValue", send, url, MessageAttributes={name: attribute})
    many = {f"a{i}": {"DataType": "String", "StringValue": "1"} for i in range(11)}
    fails("InvalidParameterValue", send, url, MessageAttributes=many)
    for name, kind, value in [("Nope", "String", "1"), ("AWSTraceHeader", "String", "x" * 4097), ("AWSTraceHeader", "Number", "1")]:
        bogus = {name: {"DataType": kind, "StringValue": value}}
        fails("InvalidParameterValue", send, url, MessageSystemAttributes=bogus)
    assert counts(url) == [0, 0, 0]
    send(url)
    [got] = receive(url)
    other = queue()
    handle = got["ReceiptHandle"]
    for where, forged in [(other, handle), (url, handle[:-1] + ("A" if handle[-1] != "A" else "B")), (url, "x"), (url, "\u2028"),
                          (url, handle + "x"), (url, handle.split(".")[0] + "."), (url, "x" * 5000)]:
        error = fails("ReceiptHandleIsInvalid", sqs.delete_message, QueueUrl=where, ReceiptHandle=forged)
        assert handle[:20] not in str(error), "it may be good elsewhere, and logs have what is said"
        assert isinstance(error, sqs.exceptions.ReceiptHandleIsInvalid)
        fails("ReceiptHandleIsInvalid", sqs.change_message_visibility, QueueUrl=where, ReceiptHandle=forged, VisibilityTimeout=0)
    assert counts(url) == [0, 1, 0]
    allowed = {"QueueUrl": url, "Label": "x", "AWSAccountIds": ["111111111111", "222222222222"], "Actions": ["*"]}
    sqs.add_permission(**allowed)
    fails("InvalidParameterValue", sqs.add_permission, **allowed, message="Already exists.")
    policy = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"]
    assert json.loads(policy)["Statement"][0]["Principal"]["AWS"] == [f"arn:aws:iam::{it}:root" for it in allowed["AWSAccountIds"]]
    sqs.remove_permission(QueueUrl=url, Label="x")
    fails("ResourceNotFoundException", sqs.list_message_move_tasks, SourceArn="arn:aws:sqs:x:0:y")


def a_key_does_what_its_scopes_say():
    narrow = client(NARROW)
    mine = sqs.create_queue(QueueName=f"narrow-{uuid.uuid4().hex[:8]}")["QueueUrl"]
    url = queue()
    send(url)
    [held] = receive(url)
    assert narrow.get_queue_url(QueueName=name_of(mine))["QueueUrl"] == mine
    narrow.send_message(QueueUrl=mine, MessageBody="m")
    handle = held["ReceiptHandle"]
    one = [{"Id": "a", "ReceiptHandle": handle}]
    for call, arguments in [
        (narrow.receive_message, {"QueueUrl": mine}), (narrow.receive_message, {"QueueUrl": url}),
        (narrow.send_message, {"QueueUrl": url, "MessageBody": "x"}), (narrow.get_queue_url, {"QueueName": name_of(url)}),
        (narrow.delete_message, {"QueueUrl": url, "ReceiptHandle": handle}), (narrow.delete_message_batch, {"QueueUrl": url, "Entries": one}),
        (narrow.delete_message, {"QueueUrl": mine, "ReceiptHandle": handle}), (narrow.purge_queue, {"QueueUrl": mine}),
        (narrow.change_message_visibility, {"QueueUrl": url, "ReceiptHandle": handle, "VisibilityTimeout": 0}),
        (narrow.get_queue_attributes, {"QueueUrl": url, "AttributeNames": ["All"]}), (narrow.list_queues, {}),
        (narrow.delete_queue, {"QueueUrl": mine}), (narrow.create_queue, {"QueueName": "narrow-new"}),
        (narrow.set_queue_attributes, {"QueueUrl": mine, "Attributes": {}}), (narrow.list_queue_tags, {"QueueUrl": mine}),
        (narrow.get_queue_url, {"QueueName": "no-such-queue"}),
    ]:
        fails("AccessDenied", call, **arguments)
    assert counts(url) == [0, 1, 0] and counts(mine) == [1, 0, 0]
    fails("InvalidClientTokenId", client("dq_no-such-key").list_queues)


def raw_requests_get_answers_in_the_form_of_sqs():
    signed = f"AWS4-HMAC-SHA256 Credential={KEY}/20261126/x/sqs/aws4_request, SignedHeaders=host, Signature=0"
    base = {"authorization": signed, "content-type": "application/x-amz-json-1.0", "x-amz-target": "AmazonSQS.ListQueues"}
    for path, body, headers, status, kind in [
        ("/sqs", "{}", {}, 200, None), ("/sqs/", "{}", {}, 200, None),
        ("/sqs", "{", {}, 400, "SerializationException"), ("/sqs", "[]", {}, 400, "SerializationException"),
        ("/sqs", '{"MaxResults": "x"}', {}, 400, "SerializationException"),
        ("/sqs", '{"MaxResults": 1001}', {}, 400, "InvalidParameterValueException"),
        ("/sqs", '{"MaxResults": 1, "NextToken": "x"}', {}, 400, "InvalidParameterValueException"),
        ("/sqs", "{}", {"x-amz-target": "AmazonSQS.Nope"}, 400, "UnknownOperationException"),
        ("/sqs", "{}", {"x-amz-target": "x"}, 400, "UnknownOperationException"),
        ("/sqs", "{}", {"content-type": "text/plain"}, 400, "SerializationException"),
        ("/sqs", "{}", {"x-amz-target": "AmazonSQS.PurgeQueue"}, 400, "MissingRequiredParameterException"),
        ("/sqs/sqs-no-such", "{}", {"x-amz-target": "AmazonSQS.PurgeQueue"}, 400, "QueueDoesNotExist"),
        ("/sqs/%00", "{}", {"x-amz-target": "AmazonSQS.PurgeQueue"}, 400, "QueueDoesNotExist"),
        ("/sqs/sqs-no-such", '{"Entries": [' + "{}," * 2000 + "{}]}", {"x-amz-target": "AmazonSQS.SendMessageBatch"}, 400, "QueueDoesNotExist"),
        ("/sqs", "{}", {"authorization": "AWS4-HMAC-SHA256 Credential=x"}, 403, "UnrecognizedClientException"),
        ("/sqs", "{}", {"authorization": f"Bearer {KEY}"}, 200, None),
    ]:
        got, answer_headers, answer = native("POST", path, body, headers=base | headers)
        assert (got, answer_headers["content-type"]) == (status, "application/x-amz-json-1.0"), (path, body[:60], got, answer)
        answer = json.loads(answer)
        assert answer_headers["x-amzn-requestid"] and answer.get("__type", "#").split("#")[1] == (kind or ""), (body[:60], answer)
    assert native("POST", "/topics/a/lease", "{}", headers={"authorization": signed})[0] == 401, "only SQS's own path takes it"


CONSUMER = """
import sys, boto3
base, key, url = sys.argv[1:]
sqs = boto3.client("sqs", endpoint_url=base + "/sqs", region_name="x", aws_access_key_id=key, aws_secret_access_key="x")
while True:
    for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=2, VisibilityTimeout=2).get("Messages", []):
        print(message["Body"], flush=True)
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
"""


def a_thousand_messages_outlive_a_killed_consumer():
    url = queue()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        entries = [[{"Id": str(i), "MessageBody": f"{n}-{i}"} for i in range(10)] for n in range(100)]
        list(pool.map(lambda batch: sqs.send_message_batch(QueueUrl=url, Entries=batch)["Successful"], entries))
    start = lambda: subprocess.Popen([sys.executable, "-c", CONSUMER, BASE, KEY, url], stdout=subprocess.PIPE, text=True)
    consumers = [start(), start()]
    seen = {consumers[0].stdout.readline().strip() for _ in range(50)}
    consumers[0].send_signal(signal.SIGKILL)
    seen.update(line.strip() for line in consumers[0].stdout)
    eventually("all are consumed", lambda: counts(url) == [0, 0, 0], 60)
    consumers[1].kill()
    seen.update(line.strip() for line in consumers[1].stdout)
    wanted = {f"{n}-{i}" for n in range(100) for i in range(10)}
    assert wanted <= seen, f"lost: {sorted(wanted - seen)[:5]}"


def a_celery_worker_runs_its_tasks():
    if "MessageSystemAttributeNames" not in sqs.meta.service_model.operation_model("ReceiveMessage").input_shape.members:
        return  # So old a botocore does not know AWS_ENDPOINT_URL_SQS.
    with tempfile.TemporaryDirectory() as folder:
        notes = os.path.join(folder, "notes")
        path = [os.path.dirname(os.path.abspath(__file__)), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = os.environ | {
            "BROKER": f"sqs://{urllib.parse.quote(KEY, safe='')}:secret@", "AWS_ENDPOINT_URL_SQS": ENDPOINT, "NOTES": notes,
            "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1",
        }
        said = open(os.path.join(folder, "said"), "w+")
        # The pool of threads: no process of the worker is left if this one is killed.
        words = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-P", "threads", "-c", "4", "--without-gossip",
                 "--without-mingle", "--without-heartbeat", "-l", "WARNING"]
        worker = subprocess.Popen(words, env=env, cwd=folder, stdout=said, stderr=said)
        send = "import celery_app\nfor i in range(30): celery_app.note.apply_async((i,), countdown=i % 3)"
        subprocess.run([sys.executable, "-c", send], env=env, cwd=folder, check=True)

        def noted():
            assert worker.poll() is None, open(said.name).read()
            return os.path.exists(notes) and open(notes).read().split()

        try:
            eventually("all tasks ran", lambda: len(noted() or []) >= 30, 60)
            assert sorted(map(int, noted())) == list(range(30))
            url = sqs.get_queue_url(QueueName="celery-test-celery")["QueueUrl"]
            eventually("all are acknowledged", lambda: counts(url) == [0, 0, 0], 20)
        finally:
            worker.kill()
            worker.wait()


def dramatiq_runs_its_actors():
    broker = dramatiq_sqs.SQSBroker(
        namespace=f"dramatiq-{uuid.uuid4().hex[:8]}", endpoint_url=ENDPOINT, region_name="eu-central-1", aws_access_key_id=KEY,
        aws_secret_access_key="x", middleware=[dramatiq.middleware.Retries(min_backoff=10)])
    tried, done = [], []

    def note(number):
        tried.append(number)
        if number % 10 == 0 and tried.count(number) == 1:
            raise ValueError("another time")
        done.append(number)

    actor = dramatiq.actor(note, broker=broker)
    for number in range(30):
        actor.send_with_options(args=(number,), delay=number % 3 * 500)
    worker = dramatiq.Worker(broker, worker_threads=4, worker_timeout=100)
    worker.start()
    eventually("all ran", lambda: len(done) >= 30, 30)
    worker.stop()
    assert sorted(done) == list(range(30)) and len(tried) == 33


SCENARIOS = [value for value in list(globals().values()) if callable(value) and value.__doc__ is None and "_" in value.__name__
             and value.__module__ == "__main__" and value.__name__ not in ("name_of",)]


def main():
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        running = {pool.submit(scenario): scenario.__name__ for scenario in SCENARIOS}
        for done in concurrent.futures.as_completed(running):
            error = done.exception()
            print("FAILED" if error else "ok", running[done], flush=True)
            if error:
                failed += 1
                traceback.print_exception(error)
    assert len(SCENARIOS) >= 13, SCENARIOS
    sys.exit(1 if failed else 0)


main()
