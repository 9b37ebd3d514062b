"""The test program of the Python SDK: steps, workers and measurements, as the tests in tests/sdk call them.

`unit` beside these runs the tests of unit.py and memory.py, which need no server.
"""

import argparse
import asyncio
import json
import logging
import sys
import time
import unittest
from typing import Any

from dueq import AckRequest, AsyncClient, LeaseRequest, Worker, WorkerMessage

from steps import steps


def say(line: str) -> None:
    print(line, flush=True)


def say_json(**members: Any) -> None:
    say(json.dumps(members, ensure_ascii=False))


async def work(args: argparse.Namespace) -> None:
    """Handles `{"n": …}`, failing once where n is a multiple of 20."""

    async def handle(message: WorkerMessage) -> None:
        n = message.payload["n"]
        if n % 20 == 0 and message.attempt == 1:
            say(f"failed {message.id}")
            raise RuntimeError(f"number {n} fails at first")
        await asyncio.sleep((n % 7) / 1000)
        say(f"handled {message.id}")

    worker = Worker(
        AsyncClient(args.server),
        args.topic,
        handle,
        concurrency=args.concurrency,
        prefetch=args.prefetch,
        on_failed=lambda message, error: None,
    )
    running = asyncio.create_task(worker.run(signals=True))
    await asyncio.sleep(0.05)
    say("ready")
    await running
    say("stopped")


async def lose(args: argparse.Namespace) -> None:
    """Says when a handler is cancelled because its lease is lost."""

    async def handle(message: WorkerMessage) -> None:
        if message.payload == {"long": True}:
            await asyncio.sleep(3.5)
            say(f"long {message.id}")
            return
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            if message.lost:
                say(f"cancelled {message.id}")
            raise

    worker = Worker(AsyncClient(args.server), args.topic, handle, lease_ms=1000)
    running = asyncio.create_task(worker.run(signals=True))
    await asyncio.sleep(0.05)
    say("ready")
    await running
    say("stopped")


async def bench_work(args: argparse.Namespace) -> None:
    """An empty handler, until N messages are handled and acknowledged."""
    handled = 0
    began = 0.0

    async def handle(message: WorkerMessage) -> None:
        nonlocal handled, began
        if not handled:
            began = time.monotonic()
        handled += 1
        if handled == args.messages:
            worker.stop()

    worker = Worker(AsyncClient(args.server), args.topic, handle, concurrency=args.concurrency, prefetch=args.prefetch)
    await worker.run()
    say_json(per_s=handled / (time.monotonic() - began))


async def bench_late(args: argparse.Namespace) -> None:
    """How long after its due time a message's handler begins, by the wall clock."""
    late: list[float] = []

    async def handle(message: WorkerMessage) -> None:
        now = time.time()
        late.append((now - message.due_at.timestamp()) * 1000)
        if len(late) == args.messages:
            worker.stop()

    worker = Worker(AsyncClient(args.server), args.topic, handle, concurrency=1)
    await worker.run()
    late.sort()
    say_json(p50_ms=late[len(late) // 2], p99_ms=late[min(len(late) - 1, len(late) * 99 // 100)], max_ms=late[-1])


async def echo(args: argparse.Namespace) -> None:
    """Publishes again what the typed client leased: payloads must come through it as they were."""
    async with AsyncClient(args.server) as client:
        leases = client.api.leases
        while leased := (await leases.lease_messages(args.topic, LeaseRequest(max_messages=100))).messages:
            for message in leased:
                await client.publish(args.to, message.payload, headers=message.headers)
                await leases.ack_message(message.id, AckRequest(lease_token=message.lease_token))


async def publish(args: argparse.Namespace) -> None:
    """Publishes `{"n": 0}` and so on, whatever happens to connections and server."""
    numbers = iter(range(args.count))
    published = 0

    async def some(client: AsyncClient) -> None:
        nonlocal published
        for n in numbers:
            await client.publish(args.topic, {"n": n})
            published += 1

    async with AsyncClient(args.server, deadline=120) as client:
        await asyncio.gather(*(some(client) for _ in range(16)))
    say(f"published {published}")


async def run_steps(args: argparse.Namespace) -> None:
    async with AsyncClient(args.server) as client:
        await steps(client, args.topic, say_json)


def main() -> None:
    if sys.argv[1:2] == ["unit"]:
        unittest.main(None, argv=["unit", *(sys.argv[2:] or ("unit", "memory"))])
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)

    def command(name: str, function: Any, **options: Any) -> None:
        sub = commands.add_parser(name)
        sub.add_argument("--server", required=True)
        for option, default in options.items():
            kind = str if option in ("topic", "to") else int
            sub.add_argument(f"--{option}", type=kind, default=default, required=default is None)
        sub.set_defaults(function=function)

    command("steps", run_steps, topic=None)
    command("echo", echo, topic=None, to=None)
    publishing = commands.add_parser("publish")
    publishing.add_argument("count", type=int)
    publishing.add_argument("topic")
    publishing.add_argument("--server", required=True)
    publishing.set_defaults(function=publish)
    command("work", work, topic=None, concurrency=10, prefetch=1)
    command("lose", lose, topic=None)
    command("bench-work", bench_work, topic=None, concurrency=64, prefetch=1, messages=None)
    command("bench-late", bench_late, topic=None, messages=None)
    args = parser.parse_args()
    asyncio.run(args.function(args))


if __name__ == "__main__":
    main()
