"""An order service on dueq, which must be allowed to call 127.0.0.1, and must sign with the secret in WEBHOOK_SECRET."""

import asyncio
import os
from datetime import timedelta

from aiohttp import test_utils, web
from dueq import Client, ConnectError, Dead, ProblemError, RetryIn, Worker, WorkerMessage, webhooks

left, done = {10, 11, 12}, set()
called = asyncio.Event()


async def handle(message: WorkerMessage) -> None:
    order = message.payload["order"]
    if order == 11 and message.attempt == 1:
        raise RetryIn(0, "the bank is closed")
    left.discard(order)
    if not left:
        worker.stop()  # handlers finish, and what they decided is sent, before it ends
    if order == 12:
        raise Dead("no such order")
    done.add(order)


worker = Worker("work", handle)


async def hook(request: web.BaseRequest) -> web.Response:
    body = await request.read()
    webhooks.verify(body, request.headers, os.environ["WEBHOOK_SECRET"])
    print("callback", body.decode())
    called.set()
    return web.Response()


async def main() -> None:
    async with Client() as client, Client("http://127.0.0.1:1", retries=False) as nobody:
        await client.publish("orders", {"order": 1}, delay=timedelta(minutes=30), key="order/1")
        order = client.key("orders", "order/1")
        print("published", (await order.get()).key)
        print("moved", str(await order.reschedule(delay=timedelta(minutes=60))).lower())
        print("cancelled", str(await order.cancel()).lower(), "then", str(await order.cancel()).lower())
        try:
            for _ in range(2):
                await client.publish("orders", {"order": 2}, key="order/2", on_duplicate="reject")
        except ProblemError as problem:
            print("refused", problem.code)
        ids = {(await client.publish("payments", {"order": 2}, idempotency_key="pay/2")).id for _ in range(2)}
        print("repeated", "the same message" if len(ids) == 1 else "another message")
        results = await client.publish_batch("work", [{"payload": {"order": n}} for n in (10, 11, 12)])
        print("batch", len([result for result in results if result.status == "ok"]))
        await worker.run(signals=True)
        print("worked", *sorted(done))
        async for dead in client.dead("work"):
            print("dead", dead.payload["order"])
        print("redriven", await client.redrive("work"))
        async with test_utils.RawTestServer(hook) as server:
            await client.callback(str(server.make_url("/hook")), {"order": 10})
            await called.wait()
        try:
            await nobody.publish("orders", {"order": 3})
        except ConnectError as error:
            print("unreachable", error.url)


asyncio.run(main())
