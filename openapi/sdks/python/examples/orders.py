"""An order service on dueq, which must be allowed to call 127.0.0.1 and must sign with the secret in WEBHOOK_SECRET."""

import asyncio
import os
from datetime import timedelta

from aiohttp import web
from aiohttp.test_utils import RawTestServer
from dueq import AsyncClient, ConnectError, Dead, ProblemError, RetryIn, WebhookError, Worker, WorkerMessage, webhooks

done: list[int] = []


async def handle(message: WorkerMessage) -> None:
    order = message.payload["order"]
    if order == 11 and message.attempt == 1:
        raise RetryIn(0, "the bank is closed")
    if order == 12:
        raise Dead("no such order")
    done.append(order)


async def main() -> None:
    called = asyncio.Queue[str]()

    async def hook(request: web.BaseRequest) -> web.Response:
        try:
            webhooks.verify(await request.read(), request.headers, os.environ["WEBHOOK_SECRET"])
        except WebhookError as error:
            return web.Response(status=401, text=str(error))
        called.put_nowait(await request.text())
        return web.Response()

    async with AsyncClient() as client, AsyncClient("http://127.0.0.1:1", retries=False) as away, RawTestServer(hook) as server:
        order = client.key("orders", "order/1")
        await client.publish("orders", {"order": 1}, delay=timedelta(minutes=30), key=order.key)
        print("published", order.key)
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
        await Worker(client, "work", handle).run(until_empty=True)
        print("worked", *sorted(done))
        print("dead", *[dead.payload["order"] async for dead in client.dead("work")])
        print("redriven", await client.redrive("work"))
        await client.callback(str(server.make_url("/hook")), {"order": 10})
        print("callback", await called.get())
        try:
            await away.publish("orders", {"order": 3})
        except ConnectError as error:
            print("unreachable", error.url)


asyncio.run(main())
