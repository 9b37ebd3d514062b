"""What is hard to provoke against a real dueq: answers of a newer server, lost answers, and numbers that Python cannot hold."""

import asyncio
import json
import threading
import time
import unittest
import warnings
from collections.abc import Awaitable
from decimal import Decimal
from typing import Any, Callable, Optional

from aiohttp import web
from dueq import (
    AckOutcome,
    AckStatus,
    Dead,
    LeasedMessage,
    Message,
    ProblemError,
    PublishRequest,
    RetryIn,
    State,
    UpdateTopicRequest,
    Worker,
    WorkerMessage,
    _json,
)
from dueq.blocking import Client

INSTANT = "2026-11-20T18:15:00.123Z"


def leased(number: int, **members: Any) -> dict[str, Any]:
    """A leased message as dueq answers it."""
    return {
        "id": f"01a1fd2d-54d0-8000-8001-{number:012}",
        "topic": "t",
        "payload": number,
        "headers": {},
        "priority": 0,
        "attempt": 1,
        "attempts_left": 9,
        "published_at": INSTANT,
        "due_at": INSTANT,
        "lease_token": f"token-{number}",
        "lease_ms": 30_000,
        "lease_expires_at": INSTANT,
        **members,
    }


class Json(unittest.TestCase):
    def test_payloads_survive_both_ways(self) -> None:
        for text in ("null", "false", "0", '""', '{"a":[null,{"b":false}]}', "123456789012345678901234567890", "1E+400"):
            request = PublishRequest(payload=_json.loads(text.encode()))
            self.assertEqual(_json.dumps(request), f'{{"payload":{text}}}'.encode())
        digits = "7" * 5000
        self.assertEqual(_json.dumps([_json.loads(f"[{digits}, 1.5]".encode())]), f"[[{digits},1.5]]".encode())
        self.assertEqual(_json.loads(b"[-1e400]"), [Decimal("-1e400")])

    def test_what_is_no_json_is_refused(self) -> None:
        for value in (float("nan"), float("inf"), Decimal("NaN"), object()):
            with self.assertRaises((ValueError, TypeError)):
                _json.dumps(value)


class Models(unittest.TestCase):
    def test_enums_bear_values_of_a_newer_server(self) -> None:
        outcome = AckOutcome.from_dict({"id": leased(1)["id"], "status": "postponed", "until": 5})
        self.assertEqual((outcome.status, outcome.status.name), ("postponed", "UNKNOWN"))
        self.assertEqual(_json.dumps(outcome), json.dumps(outcome.to_dict(), default=str, separators=(",", ":")).encode())
        self.assertIs(AckStatus("ok"), AckStatus.OK)
        self.assertEqual(State("melted").value, "melted")

    def test_unknown_fields_are_kept_in_answers_and_refused_in_requests(self) -> None:
        message = LeasedMessage.from_dict(leased(1, colour="red"))
        self.assertEqual(message.to_dict()["colour"], "red")
        with self.assertRaises(ValueError):
            PublishRequest.from_dict({"payload": 1, "delay": 5})

    def test_null_is_told_from_absent(self) -> None:
        self.assertEqual(UpdateTopicRequest.from_dict({"lease_ms": 5000}).to_dict(), {"lease_ms": 5000})
        self.assertEqual(UpdateTopicRequest(max_attempts=None).to_dict(), {"max_attempts": None})
        self.assertEqual(PublishRequest(payload_base64="AA==").to_dict(), {"payload_base64": "AA=="})
        self.assertNotIn("payload", Message.model_construct(_fields_set=set()).to_dict())


class Problems(unittest.TestCase):
    def test_whatever_is_answered_is_one_error(self) -> None:
        problem = ProblemError.from_answer(
            429, {"retry-after": "7"}, b'{"code":"topic_full","detail":"full","errors":[{"field":"a","reason":"b"}]}'
        )
        self.assertEqual((problem.code, problem.retry_after, problem.errors[0].field), ("topic_full", 7.0, "a"))
        problem = ProblemError.from_answer(502, {"x-request-id": "r"}, b"<html>bad gateway")
        self.assertEqual((problem.code, problem.request_id), ("", "r"))
        self.assertIn("<html>", problem.detail)


Reply = Callable[[str, dict[str, Any]], Awaitable[Any]]


class Fake:
    """A server that answers as a test says: a body, a status, or None to cut the connection."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def __aenter__(self) -> "Fake":
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.runner = web.AppRunner(app, handler_cancellation=True)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        verb = request.path.rsplit("/", 1)[1]
        body = await request.json()
        self.asked.append((verb, body))
        answer = await self.reply(verb, body)
        if answer is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if isinstance(answer, int):
            return web.json_response({"code": f"code_{answer}", "detail": "no"}, status=answer)
        return web.json_response(answer)

    def told(self, verb: str) -> list[dict[str, Any]]:
        return [item for asked, body in self.asked if asked == verb for item in body["messages"]]


class Workers(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        warnings.simplefilter("error")
        self.lost: list[Any] = []
        self.errors: list[BaseException] = []
        self.leases: list[list[dict[str, Any]]] = []
        self.statuses: dict[str, list[Optional[str]]] = {}

    async def reply(self, verb: str, body: dict[str, Any]) -> Any:
        """Gives out `leases`, one a request; statuses of acks and nacks as told, None cuts the connection."""
        if verb == "lease":
            statuses = [self.status("ack") for _ in body.get("acks", [])]
            if None in statuses:
                return None
            if not self.leases:
                await asyncio.sleep(body["wait_ms"] / 1000)
            messages = self.leases.pop(0) if self.leases else []
            return {"messages": messages, "acks": [{"id": "", "status": status} for status in statuses]}
        statuses = [self.status(verb) for _ in body["messages"]]
        if None in statuses:
            return None
        return {"results": [{"id": "", "status": status, "lease_ms": 1000} for status in statuses]}

    def status(self, verb: str) -> Optional[str]:
        queue = self.statuses.get(verb)
        return queue.pop(0) if queue else "ok"

    async def work(self, handler: Any, seconds: float, server: Optional[Fake] = None, **options: Any) -> Fake:
        async with server or Fake(self.reply) as fake:
            worker = Worker(
                "t",
                handler,
                server=fake.url,
                on_lost=self.lost.append,
                on_error=self.errors.append,
                on_failed=lambda message, error: None,
                **{"wait_ms": 200, **options},
            )
            asyncio.get_running_loop().call_later(seconds, worker.stop)
            await worker.run()
        return fake

    async def test_an_ack_without_an_answer_is_repeated_and_then_done(self) -> None:
        self.leases = [[leased(1)]]
        self.statuses["ack"] = [None, "outcome_unknown", "message_not_found"]

        async def handle(message: WorkerMessage) -> None:
            pass

        fake = await self.work(handle, 1.5)
        acks = [body["acks"] for verb, body in fake.asked if verb == "lease" and "acks" in body]
        acks += [body["messages"] for verb, body in fake.asked if verb == "ack"]
        self.assertEqual(acks, [[{"id": leased(1)["id"], "lease_token": "token-1"}]] * 3)
        self.assertEqual(self.lost, [])

    async def test_a_lease_that_is_lost_at_the_ack_is_told(self) -> None:
        self.leases = [[leased(1)]]
        self.statuses["ack"] = ["lease_lost"]

        async def handle(message: WorkerMessage) -> None:
            pass

        await self.work(handle, 0.5)
        self.assertEqual([message.payload for message in self.lost], [1])

    async def test_nacks_say_what_was_raised(self) -> None:
        self.leases = [[leased(1), leased(2), leased(3), leased(4), leased(5)]]

        async def handle(message: WorkerMessage) -> None:
            if message.payload == 1:
                raise RetryIn(30, "later")
            if message.payload == 2:
                raise Dead("no such order")
            if message.payload == 3:
                raise ValueError("\ud800" + "x" * 2000)
            if message.payload == 4:
                raise KeyError
            raise asyncio.CancelledError

        fake = await self.work(handle, 0.4, prefetch=5)
        told = sorted(fake.told("nack"), key=lambda item: str(item["id"]))
        how = [{k: v for k, v in item.items() if k not in ("id", "lease_token")} for item in told]
        self.assertEqual(how[0], {"delay_ms": 30_000, "reason": "later"})
        self.assertEqual(how[1], {"dead": True, "reason": "no such order"})
        self.assertEqual(how[2], {"reason": "?" + "x" * 1023})
        self.assertEqual(how[3:], [{"reason": "KeyError"}, {"reason": "CancelledError"}])
        self.assertEqual(fake.told("ack"), [])

    async def test_what_waits_is_released_and_what_runs_is_finished(self) -> None:
        self.leases = [[leased(n) for n in range(1, 6)]]
        began: list[int] = []

        async def handle(message: WorkerMessage) -> None:
            began.append(message.payload)
            await asyncio.sleep(0.6)

        fake = await self.work(handle, 0.3, concurrency=2, prefetch=5, wait_ms=20_000)
        self.assertEqual(began, [1, 2])
        self.assertEqual([item["lease_token"] for item in fake.told("ack")], ["token-1", "token-2"])
        released = fake.told("nack")
        self.assertEqual(
            [(item["lease_token"], item["release"]) for item in released], [(f"token-{n}", True) for n in (3, 4, 5)]
        )

    async def test_handlers_that_outlast_the_stop_are_cancelled_and_released(self) -> None:
        self.leases = [[leased(1), leased(2)]]

        async def handle(message: WorkerMessage) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                assert message.cancelled and not message.lost
                if message.payload == 1:
                    raise
                await asyncio.sleep(60)  # heeds nothing

        began = time.monotonic()
        fake = await self.work(handle, 0.3, prefetch=2, stop_timeout=0.2)
        self.assertLess(time.monotonic() - began, 3)
        self.assertEqual(sorted(item["lease_token"] for item in fake.told("nack") if item["release"]), ["token-1", "token-2"])
        self.assertEqual(fake.told("ack"), [])

    async def test_a_lease_that_cannot_be_extended_is_lost_by_the_clock(self) -> None:
        self.leases = [[leased(1, lease_ms=1000), leased(2, lease_ms=1000)]]
        self.statuses["extend"] = [None] * 100
        cancelled: list[float] = []
        began = time.monotonic()

        async def handle(message: WorkerMessage) -> None:
            try:
                await asyncio.sleep(5)
            except asyncio.CancelledError:
                cancelled.append(time.monotonic() - began)
                raise

        fake = await self.work(handle, 1.8, concurrency=1, prefetch=2)
        self.assertEqual(sorted(message.payload for message in self.lost), [1, 2])
        self.assertEqual(len(cancelled), 1)
        self.assertLess(cancelled[0], 1.4)
        self.assertEqual(fake.told("ack") + fake.told("nack"), [])
        self.assertGreater(len([verb for verb, _ in fake.asked if verb == "extend"]), 1)

    async def test_plain_functions_run_in_threads_and_can_ask(self) -> None:
        self.leases = [[leased(1), leased(2, lease_ms=1000)]]
        self.statuses["extend"] = ["lease_lost"]
        seen: list[Any] = []

        def handle(message: WorkerMessage) -> None:
            seen.append(threading.current_thread().name)
            if message.payload == 2:
                seen.append(message.wait_cancelled(5))

        fake = await self.work(handle, 1.0, prefetch=2)
        self.assertIn(True, seen)
        self.assertTrue(all(str(name).startswith("dueq-") for name in seen if name is not True), seen)
        self.assertEqual([message.payload for message in self.lost], [2])
        self.assertEqual(fake.told("nack"), [])

    async def test_what_cannot_get_better_ends_the_worker(self) -> None:
        async def refuse(verb: str, body: dict[str, Any]) -> Any:
            return 401

        with self.assertRaises(ProblemError) as raised:
            await self.work(lambda message: None, 5, Fake(refuse))
        self.assertEqual((raised.exception.status, len(self.errors)), (401, 1))

    async def test_what_passes_is_waited_for(self) -> None:
        self.leases = [[leased(1)]]
        trouble: list[Any] = [503, None, 500, 429, 408]
        handled: list[int] = []

        async def reply(verb: str, body: dict[str, Any]) -> Any:
            return trouble.pop(0) if trouble else await self.reply(verb, body)

        async def handle(message: WorkerMessage) -> None:
            handled.append(message.payload)

        await self.work(handle, 4, Fake(reply))
        self.assertEqual((handled, len(self.errors)), ([1], 5))

    async def test_a_server_that_hangs_is_asked_again(self) -> None:
        self.leases = [[leased(1, lease_ms=1500)]]
        hangs = [True]

        async def reply(verb: str, body: dict[str, Any]) -> Any:
            if verb == "extend" and hangs and hangs.pop():
                await asyncio.sleep(60)
            return await self.reply(verb, body)

        async def handle(message: WorkerMessage) -> None:
            await asyncio.sleep(1.8)

        fake = await self.work(handle, 2.2, Fake(reply))
        self.assertEqual((len(self.errors), self.lost, len(fake.told("ack"))), (1, [], 1))
        self.assertIsInstance(self.errors[0], asyncio.TimeoutError)

    async def test_hooks_that_raise_stop_nothing(self) -> None:
        self.leases = [[leased(1)], [leased(2)]]
        handled: list[int] = []

        async def handle(message: WorkerMessage) -> None:
            handled.append(message.payload)

        def fail(*_arguments: Any) -> None:
            raise ValueError("a hook")

        with self.assertLogs("dueq.worker"):
            await self.work(handle, 0.5, on_lease=fail, on_start=fail, on_done=fail)
        self.assertEqual(handled, [1, 2])

    async def test_being_cancelled_gives_everything_back(self) -> None:
        self.leases = [[leased(1), leased(2)]]
        async with Fake(self.reply) as fake:

            async def handle(message: WorkerMessage) -> None:
                await asyncio.sleep(60)

            running = asyncio.create_task(Worker("t", handle, server=fake.url, concurrency=1, prefetch=2).run())
            await asyncio.sleep(0.4)
            running.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await running
            self.assertEqual(
                sorted(item["lease_token"] for item in fake.told("nack") if item["release"]), ["token-1", "token-2"]
            )


class Blocking(unittest.IsolatedAsyncioTestCase):
    async def test_the_blocking_client_raises_the_same_error(self) -> None:
        async def refuse(verb: str, body: dict[str, Any]) -> Any:
            return 409

        def publish(url: str) -> None:
            with Client(url) as client, self.assertRaises(ProblemError) as raised:
                client.messages.publish_message("t", PublishRequest(payload=Decimal("1e400")))
            self.assertEqual(raised.exception.code, "code_409")

        async with Fake(refuse) as fake:
            await asyncio.to_thread(publish, fake.url)
            self.assertEqual(fake.asked[0][0], "messages")
