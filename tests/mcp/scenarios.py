"""`dueq mcp` as the official SDK drives it over stdio, in both lifecycles of the protocol: each function is one scenario.

Usage: scenarios.py DUEQ BASE_URL KEY NARROW_KEY RECEIVER_URL
  KEY may do everything, NARROW_KEY may read `narrow-*` and nothing else. RECEIVER_URL records its calls.
"""

import asyncio
import json
import sys
import time
import traceback
import urllib.request
import uuid
from contextlib import asynccontextmanager

from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

DUEQ, BASE, KEY, NARROW, RECEIVER = sys.argv[1:6]
LIFECYCLES = ("legacy", "auto")


@asynccontextmanager
async def agent(mode, *more, key=KEY, url=BASE):
    server = StdioServerParameters(command=DUEQ, args=["mcp", *more], env={"DUEQ_SERVER": url, "DUEQ_API_KEY": key})
    async with Client(server, mode=mode, read_timeout_seconds=60) as client:
        yield client


async def answer(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    return json.loads(result.content[0].text)


async def refused(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.content
    return result.content[0].text


def request(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    asked = urllib.request.Request(BASE + path, data=data, headers=headers, method=method)
    with urllib.request.urlopen(asked) as got:
        return json.loads(got.read() or "null")


def died(topic, reason):
    request("POST", f"/topics/{topic}/messages", {"payload": {"reason": reason}})
    message = request("POST", f"/topics/{topic}/lease", {})["messages"][0]
    nack = {"lease_token": message["lease_token"], "dead": True, "reason": reason}
    request("POST", f"/messages/{message['id']}/nack", nack)
    return message["id"]


def new(name):
    return f"{name}-{uuid.uuid4().hex[:12]}"


async def it_says_what_it_is_and_reads_unless_it_may_write(mode):
    async with agent(mode) as client:
        assert client.protocol_version == {"legacy": "2025-11-25", "auto": "2026-07-28"}[mode]
        assert "read" in client.instructions and "data" in client.instructions
        reading = {tool.name: tool for tool in (await client.list_tools()).tools}
        prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
        prompt = await client.get_prompt("review_dead_letters", {"topic": "orders"})
    assert all(tool.annotations.read_only_hint for tool in reading.values()), reading
    assert "explain_message" in reading and "schedule_callback" not in reading
    assert prompts == {"why_late", "review_dead_letters"}
    assert "orders" in prompt.messages[0].content.text and "scopes" in prompt.messages[0].content.text
    async with agent(mode, "--allow-write") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(reading) < set(tools)
    writing = [tool for name, tool in tools.items() if name not in reading]
    assert len(writing) >= 9 and not any(tool.annotations.read_only_hint for tool in writing)
    assert tools["cancel_messages"].annotations.destructive_hint
    assert not tools["schedule_callback"].annotations.destructive_hint
    assert tools["schedule_callback"].annotations.idempotent_hint
    for tool in tools.values():
        assert tool.title and tool.description and tool.input_schema["additionalProperties"] is False, tool


async def a_callback_that_is_scheduled_twice_arrives_once(mode):
    order = {"order": new("once")}
    asked = {"url": f"{RECEIVER}/{mode}", "payload": order, "delay": "1s"}
    async with agent(mode, "--allow-write") as client:
        first = await answer(client, "schedule_callback", **asked)
        again = await answer(client, "schedule_callback", **asked)
        assert again["duplicate"] and again["id"] == first["id"] and not first["duplicate"]
        shown = await answer(client, "explain_message", id=first["id"])
        assert shown["waiting_for"]["until"] in shown["explanation"] and shown["payload"] == order
        end = time.monotonic() + 30
        while (await answer(client, "explain_message", id=first["id"]))["state"] != "acked":
            assert time.monotonic() < end, "it was not called"
            await asyncio.sleep(0.05)
    # Another session knows of it, too.
    async with agent(mode, "--allow-write") as client:
        late = await answer(client, "schedule_callback", **asked)
        assert late["id"] == first["id"] and "once_key" in late["note"], late
        other = await answer(client, "schedule_callback", once_key=new("other"), **asked)
        assert not other["duplicate"]
        await answer(client, "cancel_messages", ids=[other["id"]])


async def dead_letters_are_grouped_counted_and_redriven(mode):
    topic = new("dead")
    ids = [died(topic, f"timeout after {n} s") for n in (1, 2)] + [died(topic, "no such order")]
    async with agent(mode, "--allow-write") as client:
        reasons = await answer(client, "list_dead_reasons", topic=topic)
        assert [item["count"] for item in reasons["items"]] == [2, 1], reasons
        dry = await answer(client, "redrive_dead", topic=topic, query="error:timeout")
        assert (dry["matched"], dry["dry_run"]) == (2, True), dry
        assert (await answer(client, "get_topic", topic=topic))["counts"]["dead"] == 3
        done = await answer(client, "redrive_dead", topic=topic, query="error:timeout", dry_run=False)
        assert (done["redriven"], done["dry_run"]) == (2, False), done
        found = await answer(client, "find_messages", topic=topic, state="dead")
        assert [item["id"] for item in found["items"]] == ids[2:], found
        shown = await answer(client, "explain_message", id=ids[2])
        assert "redrive_dead" in shown["explanation"] and "no such order" not in shown["explanation"]


async def what_the_key_may_not_is_refused_with_the_scope(mode):
    async with agent(mode, "--allow-write", key=NARROW) as client:
        assert (await answer(client, "get_access"))["scopes"] == ["read:narrow-*"]
        said = await refused(client, "publish_message", topic="narrow-a", payload=1)
        assert "narrow lacks publish:narrow-a" in said, said
        said = await refused(client, "get_topic", topic="orders")
        assert "narrow lacks read:orders" in said, said
    async with agent(mode, key="wrong-wrong-wrong-wrong") as client:
        assert "401" in await refused(client, "list_topics")


async def errors_leave_the_session_alive(mode):
    async with agent(mode, url="http://127.0.0.1:9") as client:
        assert "nothing listens" in await refused(client, "list_topics")
        assert "unknown argument" in await refused(client, "list_topics", colour="red")
        for tool in ("schedule_callback", "no_such_tool"):
            try:
                await client.call_tool(tool, {})
            except MCPError as error:
                assert error.code == -32602, error
            else:
                raise AssertionError(f"{tool} is there")
        assert (await client.list_tools()).tools


async def main():
    failed = 0
    scenarios = [each for each in globals().values() if asyncio.iscoroutinefunction(each)]
    scenarios = [each for each in scenarios if each.__code__.co_varnames[:1] == ("mode",) and "_" in each.__name__]
    assert len(scenarios) == 5, scenarios
    for scenario in scenarios:
        for mode in LIFECYCLES:
            try:
                await scenario(mode)
            except BaseException:
                failed += 1
                print(f"{scenario.__name__} ({mode}):")
                traceback.print_exc(file=sys.stdout)
    sys.exit(1 if failed else 0)


asyncio.run(main())
