"""What is hard to provoke against a real dueq: answers of a newer server, lost answers, and numbers that Python cannot hold."""

import asyncio
import builtins
import hmac
import json
import pickle
import re
import socket
import subprocess
import sys
import threading
import time
import unittest
import warnings
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from http import HTTPStatus
from typing import Any, Callable, Optional, Union
from unittest.mock import patch

import dueq
from aiohttp import web
from dueq import (
    AckOutcome,
    AckStatus,
    AsyncClient,
    CallNext,
    Client,
    ConnectError,
    Dead,
    LeasedMessage,
    LeaseRequest,
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
from dueq._retry import Backoff


@dataclass
class Order:
    number: int


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

    def test_text_takes_no_more_room_than_it_needs(self) -> None:
        self.assertEqual(_json.dumps({"ü": "😀\n"}), '{"ü":"😀\\n"}'.encode())
        self.assertEqual(_json.dumps(["ü\ud800", Decimal("1e400")]), b'["\\u00fc\\ud800",1E+400]')

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

    def test_its_message_says_what_was_wrong(self) -> None:
        detail = "on_duplicate: only with key"
        fields = [{"field": "on_duplicate", "reason": "only with key"}]
        body = json.dumps({"code": "invalid_input", "detail": detail, "errors": fields}).encode()
        self.assertEqual(str(ProblemError.from_answer(422, {}, body)), "422 invalid_input: on_duplicate: only with key")
        body = json.dumps({"detail": detail, "errors": [*fields, {"field": "a", "reason": "b"}]}).encode()
        problem = ProblemError.from_answer(422, {}, body)
        self.assertEqual(str(problem), f"422 {HTTPStatus(422).phrase}: on_duplicate: only with key; a: b")
        self.assertEqual(str(ProblemError.from_answer(409, {}, b'{"code":"c","detail":"no"}')), "409 c: no")
        self.assertEqual(str(ProblemError.from_answer(503, {}, b"")), "503 Service Unavailable")
        self.assertEqual(str(ProblemError.from_answer(299, {}, b"")), "299 refused")


Reply = Callable[[str, Any], Awaitable[Any]]


class Fake:
    """A server that answers as a test says: a body, a status, a code of dueq's, or None to cut the connection.

    A tuple is a status, a text and headers; "drip" and "drip chunks" never come to an end.
    """

    def __init__(self, reply: Reply, port: int = 0) -> None:
        self.reply = reply
        self.port = port
        self.asked: list[tuple[str, Any]] = []
        self.lines: list[str] = []
        self.keys: list[Optional[str]] = []
        self.authorizations: set[Optional[str]] = set()

    async def __aenter__(self) -> "Fake":
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.runner = web.AppRunner(app, handler_cancellation=True)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", self.port)
        await site.start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        verb = request.path.rsplit("/", 1)[1]
        content = await request.read()
        body = json.loads(content) if request.content_type == "application/json" else content or None
        self.asked.append((verb, body))
        self.lines.append(f"{request.method} {request.raw_path}")
        self.keys.append(request.headers.get("Idempotency-Key"))
        self.authorizations.add(request.headers.get("Authorization"))
        answer = await self.reply(verb, body)
        if answer is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if isinstance(answer, tuple):
            return web.Response(status=answer[0], text=answer[1], headers=dict(*answer[2:]))
        if answer in ("drip", "drip chunks"):
            stream = web.StreamResponse()
            stream.content_length = 1000 if answer == "drip" else None
            await stream.prepare(request)
            while True:
                await stream.write(b" ")
                await asyncio.sleep(0.05)
        if isinstance(answer, int):
            return web.json_response({"code": f"code_{answer}", "detail": "no"}, status=answer)
        if isinstance(answer, str):
            return web.json_response({"code": answer, "detail": "no"}, status=404 if answer.endswith("_found") else 503)
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

    async def work(
        self,
        handler: Any,
        seconds: float,
        server: Optional[Fake] = None,
        topic: Any = "t",
        client: Union[Client, AsyncClient, None] = None,
        **options: Any,
    ) -> Fake:
        async with nullcontext(server) if server and client else server or Fake(self.reply) as fake:
            worker = Worker(
                client or AsyncClient(fake.url),
                topic,
                handler,
                on_lost=self.lost.append,
                **{
                    "wait_ms": 200,
                    "on_error": self.errors.append,
                    "on_failed": lambda message, error: None,
                    **options,
                },
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
        self.assertIsInstance(self.errors[0], dueq.TimeoutError)
        self.assertIn("POST /messages/extend", str(self.errors[0]))

    async def test_failures_are_logged_where_no_hook_is(self) -> None:
        self.leases = [[leased(1), leased(2), leased(3), leased(4, attempts_left=0)]]

        async def handle(message: WorkerMessage) -> None:
            if message.payload == 1:
                raise Dead("no such order")
            if message.payload in {3, 4}:
                raise RetryIn(30, "busy")
            message.payload.get("order")

        with self.assertLogs("dueq.worker") as logs:
            await self.work(handle, 0.4, prefetch=4, on_failed=None)
        first, second, third, last = logs.output
        self.assertEqual([record.levelname for record in logs.records], ["WARNING", "WARNING", "INFO", "WARNING"])
        self.assertIn("RetryIn", third)
        self.assertIn("RetryIn", last)
        for part in (leased(1)["id"], " of t, attempt 1", "Dead('no such order')"):
            self.assertIn(part, first)
        self.assertNotIn("Traceback", first)
        for part in (leased(2)["id"], "AttributeError", "Traceback", "in handle"):
            self.assertIn(part, second)

    async def test_a_server_that_is_away_is_logged_once_and_so_is_its_return(self) -> None:
        trouble: list[Any] = [None, 503, None]
        waits: list[int] = []

        async def reply(verb: str, body: Any) -> Any:
            waits.append(body["wait_ms"])
            return trouble.pop(0) if trouble else await self.reply(verb, body)

        with self.assertLogs("dueq.worker") as logs:
            fake = await self.work(lambda message: None, 2, Fake(reply), concurrency=1, on_error=None)
        self.assertEqual(
            logs.output,
            [
                f"WARNING:dueq.worker:cannot reach {fake.url}, retrying: the connection was closed before the answer was complete",
                f"WARNING:dueq.worker:{fake.url} answers again",
            ],
        )
        # What asks whether it is back does not wait for messages.
        self.assertEqual(waits[:5], [200, 0, 0, 0, 200])

    async def test_a_worker_takes_either_client_and_does_not_close_it(self) -> None:
        async def answer(verb: str, body: Any) -> Any:
            return PUBLISHED if verb == "messages" else await self.reply(verb, body)

        handled: list[int] = []
        async with Fake(answer) as fake, AsyncClient(fake.url, "secret") as awaited:
            with Client(fake.url, "secret") as blocked:
                either: tuple[Union[Client, AsyncClient], ...] = (blocked, awaited)
                for n, client in enumerate(either):
                    self.leases = [[leased(n)]]
                    await self.work(lambda message: handled.append(message.payload), 0.4, fake, client=client)
                await asyncio.to_thread(blocked.publish, "t", 1)
                await awaited.publish("t", 1)
                self.assertEqual((handled, fake.authorizations), ([0, 1], {"Bearer secret"}))
                left = Worker(blocked, "t", print)
        for refused in (lambda: Worker(blocked, "t", print), lambda: Worker(awaited, "t", print), left.run_blocking):
            with self.assertRaisesRegex(RuntimeError, "this client is closed"):
                await asyncio.to_thread(refused)
        for wrong in ("http://127.0.0.1:8080", None):
            with self.assertRaisesRegex(TypeError, "client is a dueq.Client or a dueq.AsyncClient"):
                Worker(wrong, "t", print)  # type: ignore[arg-type]

    async def test_time_outs_and_retries_of_the_client_count(self) -> None:
        async def hang(verb: str, body: Any) -> Any:
            if verb == "lease" and not self.leases:
                await asyncio.sleep(60)
            return None if verb == "nack" else await self.reply(verb, body)

        async with Fake(hang) as fake:
            client = Client(fake.url, timeout=0.3)
            await self.work(print, 1, fake, client=client, wait_ms=0)
            self.assertGreaterEqual(len(self.errors), 1)
            self.assertEqual({type(error) for error in self.errors}, {dueq.TimeoutError})
            began = time.monotonic()
            with self.assertRaisesRegex(dueq.TimeoutError, "0.3 s have passed"):
                await self.work(print, 30, fake, client=client.with_options(retries=False), wait_ms=0)
            self.leases = [[leased(1)]]
            fake.asked.clear()

            def fail(message: WorkerMessage) -> None:
                raise Dead("no")

            with self.assertRaises(dueq.ConnectError):
                await self.work(fail, 30, fake, client=client.with_options(retries=False, timeout=5), wait_ms=5000)
            self.assertEqual(len(fake.told("nack")), 1)
            self.assertLess(time.monotonic() - began, 10)

    async def test_a_worker_without_topic_or_handler_is_refused(self) -> None:
        for topic, handler in (("", print), (None, print), ("t", None), ("t", "print")):
            with self.assertRaisesRegex((TypeError, ValueError), "topic is|handler is"):
                Worker(Client(), topic, handler)  # type: ignore[arg-type]

    async def test_generators_are_no_handlers(self) -> None:
        async def several(message: WorkerMessage) -> Any:
            yield message

        def plain(message: WorkerMessage) -> Any:
            yield message

        class Object:
            async def __call__(self, message: WorkerMessage) -> Any:
                yield message

        for handler in (several, plain, Object(), partial(plain)):
            with self.assertRaisesRegex(TypeError, "without yield"):
                Worker(Client(), "t", handler)

    async def test_what_is_not_dueq_is_one_outage(self) -> None:
        bad: list[Any] = [(200, "<html>"), [], {"messages": [{}], "acks": []}, {"messages": None}, {}]
        nacks: list[Any] = []

        async def reply(verb: str, body: Any) -> Any:
            if verb == "nack" and nacks:
                return nacks.pop()
            return bad.pop() if bad else await self.reply(verb, body)

        def handle(message: WorkerMessage) -> None:
            raise Dead("no")

        with self.assertLogs("dueq.worker") as logs:
            fake = await self.work(handle, 5, Fake(reply), concurrency=1, on_error=None)
        self.assertEqual(
            logs.output,
            [
                f"WARNING:dueq.worker:cannot reach {fake.url}, retrying: the answer is not dueq's",
                f"WARNING:dueq.worker:{fake.url} answers again",
            ],
        )
        self.leases = [[leased(1)]]
        nacks += [{"results": [{}]}, {"results": []}, {"results": [1]}]
        fake = await self.work(handle, 2, Fake(reply))
        self.assertEqual([item["reason"] for item in fake.told("nack")], ["no"] * 4)
        self.assertEqual([type(error) for error in self.errors], [ConnectError] * 3)
        self.assertEqual(self.lost, [])

    async def test_a_long_retry_after_is_cut_short(self) -> None:
        self.assertEqual(Backoff(60).next_s(ProblemError(429, retry_after=3600)), 60)
        self.assertEqual(Backoff().next_s(ProblemError(429, retry_after=3600)), 3600)
        self.leases = [[leased(1)]]
        later = (429, "", {"Retry-After": "3600"})
        trouble = {"lease": [later], "nack": [later]}

        async def reply(verb: str, body: Any) -> Any:
            return trouble[verb].pop() if trouble[verb] else await self.reply(verb, body)

        def handle(message: WorkerMessage) -> None:
            raise Dead("no")

        with patch("dueq.worker.engine.RETRY_AFTER_S", 0.1), patch("dueq.worker.outbox.RETRY_AFTER_S", 0.1):
            fake = await self.work(handle, 2, Fake(reply))
        self.assertEqual((len(fake.told("nack")), len(self.errors)), (2, 2))

    async def until(self, what: str, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 8
        while not condition():
            self.assertLess(time.monotonic(), end, f"never: {what}")
            await asyncio.sleep(0.002)

    async def test_no_handler_is_idle_while_messages_are_ready(self) -> None:
        for concurrency, prefetch in ((1, 1), (2, 1), (3, 1), (5, 1), (10, 1), (40, 1), (1, 3), (4, 3), (10, 50)):
            for until_empty in (False, True):
                with self.subTest(concurrency=concurrency, prefetch=prefetch, until_empty=until_empty):
                    await self._none_idle(concurrency, prefetch, until_empty)

    async def _none_idle(self, concurrency: int, prefetch: int, until_empty: bool) -> None:
        total = 4 * concurrency + prefetch
        ready, asked, most, number = total, 0, 0, 0
        running: list[asyncio.Future[None]] = []
        woken = asyncio.Event()

        async def reply(verb: str, body: dict[str, Any]) -> Any:
            nonlocal ready, asked, most, number
            if verb != "lease":
                return await self.reply(verb, body)
            asked += body["max_messages"]
            most = max(most, asked + len(running))
            if not ready:
                woken.clear()
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(woken.wait(), body["wait_ms"] / 1000)
            came = min(ready, body["max_messages"])
            ready -= came
            number += came
            asked -= body["max_messages"]
            acks = [{"id": "", "status": "ok"} for _ in body.get("acks", [])]
            return {"messages": [leased(number - nth) for nth in range(came)], "acks": acks}

        async def handler(message: WorkerMessage) -> None:
            running.append(asyncio.get_running_loop().create_future())
            await running[-1]

        async with Fake(reply) as fake:
            worker = Worker(AsyncClient(fake.url), "t", handler, concurrency=concurrency, prefetch=prefetch, wait_ms=2000)
            run = asyncio.create_task(worker.run(until_empty=until_empty))
            for last in (False, True):
                left = total
                while left:
                    busy = min(concurrency, left)
                    await self.until(f"all busy, {left} left", lambda: len(running) == busy)
                    ended = running[: 1 + left % 7]
                    del running[: len(ended)]
                    left -= len(ended)
                    if not left and not last:
                        ready = total
                        woken.set()
                    for end in ended:
                        end.set_result(None)
            if not until_empty:
                worker.stop()
            await run
        riding = [ack for verb, body in fake.asked if verb == "lease" for ack in body.get("acks", [])]
        # A set: acks that rode on a request that the stop cut off are sent again.
        self.assertEqual(len({ack["id"] for ack in [*fake.told("ack"), *riding]}), 2 * total)
        if prefetch == 1:
            self.assertLessEqual(most, concurrency)

    async def test_a_lease_request_asks_for_the_handlers_that_are_free(self) -> None:
        self.leases = [[leased(10 * nth + n) for n in range(10)] for nth in range(4)]
        running: list[asyncio.Future[None]] = []

        async def handler(message: WorkerMessage) -> None:
            running.append(asyncio.get_running_loop().create_future())
            await running[-1]

        async with Fake(self.reply) as fake:
            worker = Worker(AsyncClient(fake.url), "t", handler, concurrency=40)
            run = asyncio.create_task(worker.run())
            await self.until("all busy", lambda: len(running) == 40)
            for end in running[:7]:
                end.set_result(None)
            await asyncio.sleep(0.1)
            worker.stop()
            for end in running[7:]:
                end.set_result(None)
            await run
        sizes = [body["max_messages"] for verb, body in fake.asked if verb == "lease"]
        self.assertEqual(sizes, [10, 10, 10, 10, 7])

    async def test_a_worker_does_not_end_before_it_knows_that_nothing_became_ready_while_it_asked(self) -> None:
        tries: list[Any] = []
        retried = asyncio.Event()
        self.leases = [[leased(1)]]

        async def reply(verb: str, body: dict[str, Any]) -> Any:
            if verb == "nack":
                self.leases.append([leased(1, lease_token="again")])
                asyncio.get_running_loop().call_later(0.05, retried.set)
            elif verb == "lease" and sum(asked == "lease" for asked, _ in fake.asked) == 2:
                await retried.wait()  # it finds nothing, and its answer comes only after that of the nack
                return {"messages": [], "acks": []}
            return await self.reply(verb, body)

        async def handler(message: WorkerMessage) -> None:
            tries.append(message.payload)
            await self.until("a request while it runs", lambda: len(fake.asked) >= 2)
            if len(tries) == 1:
                raise RetryIn(0, "busy")

        async with Fake(reply) as fake:
            worker = Worker(AsyncClient(fake.url), "t", handler, concurrency=2, on_failed=lambda message, error: None)
            await asyncio.wait_for(worker.run(until_empty=True), 8)
        self.assertEqual(tries, [1, 1])

    async def test_several_topics_are_asked_for_at_once(self) -> None:
        self.leases = [[leased(1, topic="b/1")]]
        topics: list[str] = []

        async def handle(message: WorkerMessage) -> None:
            topics.append(message.topic)

        fake = await self.work(handle, 0.4, topic=["a", "b/1"])
        self.assertEqual((topics, fake.lines[0]), (["b/1"], "POST /lease"))
        self.assertEqual(fake.asked[0][1]["topics"], ["a", "b/1"])
        fake = await self.work(handle, 0.2, topic="b/1")
        self.assertEqual(fake.lines[0], "POST /topics/b%2F1/lease")

    async def test_payloads_become_what_is_asked_for(self) -> None:
        self.leases = [[leased(1, payload={"number": 42}), leased(2, payload={"number": "many"})]]
        orders: list[Order] = []

        async def handle(message: WorkerMessage[Order]) -> None:
            orders.append(message.payload)

        fake = await self.work(handle, 0.4, prefetch=2, payload_type=Order)
        self.assertEqual(orders, [Order(42)])
        [nack] = fake.told("nack")
        self.assertEqual(nack["lease_token"], "token-2")
        self.assertRegex(nack["reason"], "^payload.number: Input should be a valid integer")

    async def test_a_payload_that_does_not_fit_is_not_quoted(self) -> None:
        self.leases = [[leased(1, payload={"number": "card 4111"}), leased(2, payload="card 4111")]]
        with self.assertLogs("dueq.worker") as logs:
            fake = await self.work(lambda message: None, 0.4, prefetch=2, payload_type=Order, on_failed=None)
        self.assertEqual(len(fake.told("nack")), 2)
        self.assertIn("payload.number: Input should be", "".join(logs.output))
        self.assertNotIn("4111", "".join(logs.output) + str(fake.told("nack")))

    async def test_what_a_handler_publishes_belongs_to_its_trace(self) -> None:
        def traced() -> list[list[dict[str, Any]]]:
            return [[leased(1, headers={"traceparent": "00-1"}), leased(2), leased(3, headers={"traceparent": "00-3"})]]

        async with Fake(lambda verb, body: asyncio.sleep(0, PUBLISHED)) as shop:

            async def handle(message: WorkerMessage) -> None:
                async with AsyncClient(shop.url) as client:
                    await asyncio.sleep(0.01)
                    own = {"Traceparent": "own"} if message.payload == 3 else {"a": "b"}
                    await client.publish("t", message.payload, headers=own)

            def block(message: WorkerMessage) -> None:
                with Client(shop.url) as client:
                    client.publish("t", message.payload)

            self.leases = traced()
            await self.work(handle, 1, prefetch=3)
            self.leases = traced()
            await self.work(block, 1, prefetch=3)
            sent = [(body["payload"], body.get("headers")) for _, body in shop.asked]
        self.assertEqual(
            sorted(sent[:3], key=str), [(1, {"a": "b", "traceparent": "00-1"}), (2, {"a": "b"}), (3, {"Traceparent": "own"})]
        )
        self.assertEqual(sorted(sent[3:], key=str), [(1, {"traceparent": "00-1"}), (2, None), (3, {"traceparent": "00-3"})])

    async def test_middleware_is_around_every_handler_the_first_outermost(self) -> None:
        seen: list[Any] = []
        name: ContextVar[str] = ContextVar("name")

        async def outer(message: WorkerMessage, call_next: CallNext) -> Any:
            try:
                result = await call_next(message)
                seen.append((message.payload, "outer", result))
            except Exception as error:
                seen.append((message.payload, "outer", str(error)))
                raise

        class Inner:
            async def __call__(self, message: WorkerMessage, call_next: CallNext) -> Any:
                name.set(f"n{message.payload}")
                if message.payload == 2:
                    raise RetryIn(5, "closed")
                if message.payload == 3:
                    return "skipped"
                try:
                    return f"{await call_next(message)}!"
                except KeyError as error:
                    raise Dead("no such order") from error

        def plain(message: WorkerMessage) -> str:
            if message.payload == 4:
                raise KeyError(4)
            if message.payload == 5:
                raise ValueError("five")
            return name.get()

        async def handle(message: WorkerMessage) -> str:
            return plain(message)

        for handler in (plain, handle):
            self.leases = [[leased(n) for n in range(1, 6)]]
            seen.clear()
            fake = await self.work(handler, 0.4, prefetch=5, middleware=[outer, Inner()])
            wanted = [(1, "n1!"), (2, "closed"), (3, "skipped"), (4, "no such order"), (5, "five")]
            self.assertEqual(sorted(seen), [(n, "outer", result) for n, result in wanted])
            nacks = {item["lease_token"]: (item.get("delay_ms"), item.get("dead")) for item in fake.told("nack")}
            self.assertEqual(nacks, {"token-2": (5000, None), "token-4": (None, True), "token-5": (None, None)})
        for wrong in (5, [5], [None]):
            with self.assertRaises(TypeError):
                Worker(Client(), "t", print, middleware=wrong)  # type: ignore[arg-type]

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

            running = asyncio.create_task(Worker(AsyncClient(fake.url), "t", handle, concurrency=1, prefetch=2).run())
            await asyncio.sleep(0.4)
            running.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await running
            self.assertEqual(
                sorted(item["lease_token"] for item in fake.told("nack") if item["release"]), ["token-1", "token-2"]
            )

    async def test_being_cancelled_while_it_stops_gives_back_what_runs(self) -> None:
        self.leases = [[leased(1)]]
        async with Fake(self.reply) as fake:

            async def handle(message: WorkerMessage) -> None:
                await asyncio.sleep(60)

            worker = Worker(AsyncClient(fake.url), "t", handle, wait_ms=100)
            running = asyncio.create_task(worker.run())
            for step in (worker.stop, running.cancel):
                await asyncio.sleep(0.4)
                step()
            with self.assertRaises(asyncio.CancelledError):
                await running

            async def leave() -> None:
                running = asyncio.create_task(worker.run())
                await asyncio.sleep(0.4)
                worker.stop()
                await asyncio.sleep(0.1)
                self.assertFalse(running.done())  # the end of the loop cancels it, and its handlers

            self.leases = [[leased(2)]]
            await asyncio.to_thread(asyncio.run, leave())
            released = [(item["lease_token"], item["release"]) for item in fake.told("nack")]
            self.assertEqual(released, [("token-1", True), ("token-2", True)])


PROXY_502 = (502, "<html>a proxy's")
PUBLISHED = {"id": leased(1)["id"], "topic": "t", "state": "ready", "published_at": INSTANT, "duplicate": False}


class Clients(unittest.IsolatedAsyncioTestCase):
    """Every test is made for the client with asyncio, and for the one that blocks."""

    def setUp(self) -> None:
        warnings.simplefilter("error")
        self.answers: list[Any] = []

    async def reply(self, verb: str, body: Any) -> Any:
        """Gives out `answers`; the last one again and again."""
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == "nothing":
            await asyncio.sleep(60)
        return answer

    async def both(self, answers: list[Any], call: Callable[[Any], Any], **options: Any) -> list[tuple[Any, Fake]]:
        """What the call of each client returned or raised, and the server that was asked."""
        outcomes: list[tuple[Any, Fake]] = []

        def block(url: str) -> Any:
            with Client(url, **options) as client:
                result = call(client)
                return list(result) if isinstance(result, Iterator) else result

        async def wait(url: str) -> Any:
            async with AsyncClient(url, **options) as client:
                result = call(client)
                return [item async for item in result] if isinstance(result, AsyncIterator) else await result

        for run in (wait, lambda url: asyncio.to_thread(block, url)):
            self.answers = list(answers)
            async with Fake(self.reply) as fake:
                try:
                    outcomes.append((await run(fake.url), fake))
                except Exception as error:
                    outcomes.append((error, fake))
        return outcomes

    async def test_options_become_fields(self) -> None:
        instant = datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=1)))
        for result, fake in await self.both(
            [PUBLISHED],
            lambda client: client.publish(
                "t", b"\x00", at=instant, ttl=1.5, key="k", on_duplicate="replace", headers={"a": "b"}
            ),
        ):
            self.assertEqual(str(result.id), PUBLISHED["id"])
            wanted = {"payload_base64": "AA==", "deliver_at": "2030-01-01T00:00:00+01:00", "ttl_ms": 1500}
            self.assertEqual(fake.asked[0][1], {**wanted, "key": "k", "on_duplicate": "replace", "headers": {"a": "b"}})
        for _, fake in await self.both([PUBLISHED], lambda client: client.publish("t", 1, delay=0.0004, ttl=16.1)):
            self.assertEqual((fake.asked[0][1]["delay_ms"], fake.asked[0][1]["ttl_ms"]), (1, 16_100))
        for _, fake in await self.both(
            [PUBLISHED], lambda client: client.callback("http://h/", delay=timedelta(minutes=30), timeout=2, method="PUT")
        ):
            self.assertEqual(fake.lines, ["POST /callbacks"])
            wanted = {"url": "http://h/", "delay_ms": 1_800_000, "timeout_ms": 2000, "method": "PUT"}
            self.assertEqual(fake.asked[0][1], wanted)

    async def test_what_cannot_be_right_is_refused_at_once_and_in_words(self) -> None:
        naive = datetime(2030, 1, 1)
        wrong: list[tuple[str, Callable[[Any], Any]]] = [
            ("no time zone", lambda client: client.publish("t", 1, at=naive)),
            ("no time zone", lambda client: client.key("t", "k").reschedule(at=naive)),
            (
                "no time zone",
                lambda client: client.api.messages.publish_message("t", PublishRequest(payload=1, deliver_at=naive)),
            ),
            ("without a time zone", lambda client: client.api.messages.publish_raw("t", b"", deliver_at=naive)),
            ("given both", lambda client: client.publish("t", 1, at=naive, delay=1)),
            ("0 or more", lambda client: client.publish("t", 1, delay=timedelta(seconds=-1))),
            ("unknown option: dealy", lambda client: client.publish("t", 1, dealy=5)),
            ("number of seconds", lambda client: client.publish("t", 1, delay="1h")),
            ("number of seconds", lambda client: client.publish("t", 1, delay=naive)),
            ("topic is empty", lambda client: client.publish("", 1)),
            ("topic is a string", lambda client: client.publish_batch(None, [])),
            ("topic is a string", lambda client: client.redrive(5)),
            ("topic is empty", lambda client: client.dead("")),
            ("key is empty", lambda client: client.key("t", "").cancel()),
            ("a message is a dict", lambda client: client.publish_batch("t", [1, 2])),
            ("a message is a dict", lambda client: client.publish_batch("t", {"payload": 1})),
            ("needed", lambda client: client.key("t", "k").reschedule()),
            ("more than 0", lambda client: client.with_options(timeout=0).publish("t", 1)),
        ]
        for words, call in wrong:
            for error, fake in await self.both([PUBLISHED], call):
                self.assertIsInstance(error, (TypeError, ValueError))
                self.assertIn(words, str(error))
                self.assertEqual(fake.lines, [])

    async def test_a_closed_client_says_so(self) -> None:
        client = AsyncClient()
        await client.close()
        with self.assertRaisesRegex(RuntimeError, "closed"):
            await client.publish("t", 1)
        with Client() as blocked:
            pass
        with self.assertRaisesRegex(RuntimeError, "closed"):
            blocked.publish("t", 1)

    async def test_a_server_that_never_answers_is_not_waited_for(self) -> None:
        began = time.monotonic()
        for error, fake in await self.both(["nothing"], lambda client: client.publish("t", 1), timeout=0.2, retries=False):
            self.assertIsInstance(error, dueq.TimeoutError)
            self.assertIsInstance(error, TimeoutError)
            self.assertEqual((error.url, error.operation), (fake.url, "POST /topics/t/messages"))
            self.assertIn(fake.url, str(error))
        for error, _ in await self.both(["nothing"], lambda client: client.with_options(deadline=0.3).publish("t", 1)):
            self.assertIsInstance(error, dueq.TimeoutError)
        self.assertLess(time.monotonic() - began, 5)

    async def test_an_answer_that_drips_is_not_waited_for(self) -> None:
        for drip in ("drip", "drip chunks"):
            began = time.monotonic()
            for error, _ in await self.both([drip], lambda client: client.publish("t", 1), timeout=0.3, retries=False):
                self.assertIsInstance(error, dueq.TimeoutError)
                self.assertIn("0.3 s have passed", str(error))
            self.assertLess(time.monotonic() - began, 5)

    async def test_headers_that_drip_are_not_waited_for(self) -> None:
        for first in (b"HTTP/1.1 200 OK\r\nX-A: ", b"HTTP/1.1 100 Continue\r\n\r\n"):

            dripping: list[Any] = []

            async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                dripping.append(asyncio.current_task())
                with suppress(OSError):
                    writer.write(first)
                    while True:
                        writer.write(first if b"100" in first else b"a")
                        await writer.drain()
                        await asyncio.sleep(0.05)
                writer.close()

            server = await asyncio.start_server(drip, "127.0.0.1", 0)
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            began = time.monotonic()
            async with AsyncClient(url, timeout=0.3, retries=False) as client:
                with self.assertRaises(dueq.TimeoutError):
                    await client.publish("t", 1)
            with Client(url, timeout=0.3, retries=False) as blocked:
                with self.assertRaises(dueq.TimeoutError):
                    await asyncio.to_thread(blocked.publish, "t", 1)
            self.assertLess(time.monotonic() - began, 3)
            await asyncio.wait_for(asyncio.gather(*dripping), 5)
            server.close()

    async def test_a_server_that_reads_nothing_is_not_waited_for(self) -> None:
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen()
            with Client(f"http://127.0.0.1:{deaf.getsockname()[1]}", timeout=0.3, retries=False) as blocked:
                with self.assertRaises(dueq.TimeoutError):
                    await asyncio.to_thread(blocked.publish, "t", "x" * 20_000_000)

    async def test_who_answers_before_it_has_read_all_is_heard(self) -> None:
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 413 X\r\nContent-Length: 17\r\n\r\n" + b'{"code":"large"} ')
            await asyncio.sleep(0.2)
            writer.close()

        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with Client(url, retries=False) as blocked, self.assertRaisesRegex(ProblemError, "413 large"):
                await asyncio.to_thread(blocked.publish, "t", "x" * 20_000_000)

    async def test_connections_are_kept_and_dead_ones_are_not_used(self) -> None:
        self.answers = [PUBLISHED]
        async with Fake(self.reply) as fake:
            blocked = Client(fake.url, retries=False, connections=1)
            idle = blocked._calls._transport._idle
            await asyncio.gather(*(asyncio.to_thread(blocked.publish, "t", 1) for _ in range(5)))
            [kept] = idle
            await asyncio.to_thread(blocked.publish, "t", 1)
            self.assertEqual((len(fake.lines), idle), (6, [kept]))
        async with Fake(self.reply, int(fake.url.rsplit(":", 1)[1])):
            await asyncio.to_thread(blocked.publish, "t", 1)
            self.assertIsNot(idle[0], kept)
            blocked.close()
        self.assertEqual(idle, [])

    async def test_long_answers_come_whole_and_cut_ones_not_at_all(self) -> None:
        long = {**PUBLISHED, "colour": "red" * 300_000}
        for result, _ in await self.both([long], lambda client: client.publish("t", 1)):
            self.assertEqual(len(result.to_dict()["colour"]), 900_000)

        async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{")
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(cut, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with AsyncClient(url, retries=False) as client:
                with self.assertRaises(ConnectError) as raised:
                    await client.publish("t", 1)
            self.assertTrue(raised.exception.sent)
            with Client(url, retries=False) as blocked:
                with self.assertRaises(ConnectError) as raised:
                    await asyncio.to_thread(blocked.publish, "t", 1)
            self.assertTrue(raised.exception.sent)

    def test_a_client_may_be_used_in_one_event_loop_after_another(self) -> None:
        client = AsyncClient("http://127.0.0.1:1")

        async def publish() -> Any:
            self.answers = [PUBLISHED]
            async with Fake(self.reply) as fake:
                client._calls.server = fake.url
                return (await client.publish("t", 1)).state

        for _ in range(2):
            self.assertEqual(asyncio.run(publish()), State.READY)
            self.assertEqual(len(client._calls._transport._sessions), 1)
        asyncio.run(client.close())

    async def test_nobody_there_is_no_time_out(self) -> None:
        url = "http://127.0.0.1:1"
        async with AsyncClient(url, retries=False) as client:
            with self.assertRaises(ConnectError) as raised:
                await client.publish("t", 1)
        self.assertFalse(raised.exception.sent)
        with Client(url, retries=False) as blocked:
            with self.assertRaisesRegex(ConnectError, "refused") as raised:
                blocked.publish("t", 1)
        self.assertFalse(raised.exception.sent)
        again = pickle.loads(pickle.dumps(raised.exception))
        self.assertEqual((str(again), again.url, again.sent), (str(raised.exception), url, False))

    async def test_a_lease_may_take_as_long_as_it_waits(self) -> None:
        async def slow(verb: str, body: Any) -> Any:
            await asyncio.sleep(0.5)
            return {"messages": [], "acks": []}

        async with Fake(slow) as fake, AsyncClient(fake.url, timeout=0.2) as client:
            answer = await client.api.leases.lease_messages("t", LeaseRequest(wait_ms=1000))
            self.assertEqual(answer.messages, [])
            with self.assertRaises(dueq.TimeoutError):
                await client.api.leases.lease_messages("t")
            self.assertEqual([body for _, body in fake.asked], [{"wait_ms": 1000}, None])

    async def test_what_is_safe_to_repeat_is_repeated_with_its_key(self) -> None:
        troubles = [None, "redis_unavailable", PROXY_502, "outcome_unknown", 429, "overloaded", PUBLISHED]
        with self.assertLogs("dueq") as logs:
            outcomes = await self.both(troubles, lambda client: client.publish("t", 1))
        for result, fake in outcomes:
            self.assertEqual(str(result.id), PUBLISHED["id"])
            self.assertEqual((len(fake.keys), len(set(fake.keys))), (7, 1))
            self.assertTrue(fake.keys[0])
        said = [re.sub(r"http://\S+?(,| )", r"URL\1", line) for line in logs.output]
        self.assertEqual(
            [line[:40] for line in said], ["WARNING:dueq:cannot reach URL, retrying:", "WARNING:dueq:URL answers again"] * 2
        )

    async def test_a_message_of_a_group_is_repeated_with_its_key_too(self) -> None:
        for result, fake in await self.both(["outcome_unknown", PUBLISHED], lambda client: client.publish("t", 1, group="g")):
            self.assertEqual((str(result.id), len(fake.keys), len(set(fake.keys))), (PUBLISHED["id"], 2, 1))
        for result, fake in await self.both(
            ["outcome_unknown", PUBLISHED], lambda client: client.callback("https://example.com/", 1, group="g")
        ):
            self.assertEqual((str(result.id), len(fake.keys), len(set(fake.keys))), (PUBLISHED["id"], 2, 1))
        for result, fake in await self.both(
            ["outcome_unknown", PUBLISHED], lambda client: client.publish("t", 1, group="g", idempotency_key="mine")
        ):
            self.assertEqual((str(result.id), len(fake.lines)), (PUBLISHED["id"], 2))

    async def test_what_is_not_is_not(self) -> None:
        for error, fake in await self.both([None], lambda client: client.api.leases.lease_messages("t")):
            self.assertIsInstance(error, ConnectError)
            self.assertEqual(fake.lines, ["POST /topics/t/lease"])
        for off in ({"retries": False}, {"deadline": 0}):
            for error, fake in await self.both([None], lambda client: client.publish("t", 1), **off):
                self.assertIsInstance(error, ConnectError)
                self.assertEqual(fake.keys, [None])
        for error, fake in await self.both(["not_ready"], lambda client: client.api.service.get_readiness()):
            self.assertEqual((error.code, len(fake.lines)), ("not_ready", 1))

    async def test_the_deadline_ends_it(self) -> None:
        began = time.monotonic()
        for error, fake in await self.both(["redis_unavailable"], lambda client: client.publish("t", 1), deadline=0.5):
            # The last try may have too little time left.
            self.assertTrue(isinstance(error, dueq.TimeoutError) or error.code == "redis_unavailable", error)
            self.assertGreater(len(fake.lines), 1)
        self.assertLess(time.monotonic() - began, 5)

    async def test_what_a_batch_could_not_store_is_repeated(self) -> None:
        def results(*statuses: str) -> Any:
            return {"results": [{"status": status} for status in statuses]}

        answers = [results("ok", "redis_unavailable", "topic_full"), None, results("ok")]
        messages = [{"payload": n, "delay": 1} for n in range(3)]
        for result, fake in await self.both(answers, lambda client: client.publish_batch("t", messages)):
            self.assertEqual([item.status for item in result], ["ok", "ok", "topic_full"])
            sent = [body["messages"] for _, body in fake.asked]
            self.assertEqual([item["payload"] for item in sent[0]], [0, 1, 2])
            self.assertEqual(sent[1:], [[sent[0][1]]] * 2)
            self.assertEqual(len({item["idempotency_key"] for item in sent[0]}), 3)

    async def test_a_cancel_whose_answer_was_lost_is_done(self) -> None:
        for lost in (None, "outcome_unknown", PROXY_502, (504, "")):
            for result, fake in await self.both([lost, "message_not_found"], lambda client: client.key("t", "a/b").cancel()):
                self.assertEqual((result, fake.lines), (True, ["DELETE /topics/t/keys/a%2Fb"] * 2))

    async def test_a_cancel_that_was_not_done_is_not_said_to_be(self) -> None:
        for passed in ("redis_unavailable", (503, "a proxy's"), 429):
            for result, _ in await self.both([passed, "message_not_found"], lambda client: client.key("t", "k").cancel()):
                self.assertIs(result, False)
        # A proxy's page says nothing of dueq's messages.
        for error, _ in await self.both([None, (404, "<html>")], lambda client: client.key("t", "k").cancel()):
            self.assertEqual((type(error), error.status, error.code), (ProblemError, 404, ""))
        self.answers = ["message_not_found"]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        async with AsyncClient(f"http://127.0.0.1:{port}") as client:
            with Client(f"http://127.0.0.1:{port}") as blocked:
                cancels = asyncio.gather(
                    client.key("t", "k").cancel(), asyncio.to_thread(lambda: blocked.key("t", "k").cancel())
                )
                await asyncio.sleep(0.25)
                async with Fake(self.reply, port):
                    self.assertEqual(await cancels, [False, False])

    async def test_nothing_under_a_key_is_no_error(self) -> None:
        for call, wanted in (
            (lambda client: client.key("t", "..").cancel(), False),
            (lambda client: client.key("t", "..").reschedule(delay=1), False),
            (lambda client: client.key("t", "..").get(), None),
        ):
            for result, fake in await self.both(["message_not_found"], call):
                self.assertIs(result, wanted)
                # As it is, it would be the topic's URL.
                self.assertEqual([line.split(" ")[1] for line in fake.lines], ["/topics/t/keys/%2E%2E"])
        for error, _ in await self.both(["page_not_found"], lambda client: client.key("t", "k").get()):
            self.assertIsInstance(error, ProblemError)

    async def test_lists_go_on_over_all_pages(self) -> None:
        counts = {state: 0 for state in ("delayed", "ready", "leased", "blocked", "dead", "acked")}
        pages = [
            {"items": [{"name": "a", "paused": False, "counts": counts}], "next_cursor": "c/1"},
            {"items": [{"name": "b", "paused": False, "counts": counts}]},
        ]
        for result, fake in await self.both(pages, lambda client: client.topics("x")):
            self.assertEqual([topic.name for topic in result], ["a", "b"])
            self.assertEqual(fake.lines, ["GET /topics?prefix=x", "GET /topics?prefix=x&cursor=c%2F1"])

    async def test_a_query_bears_instants_and_what_looks_like_one(self) -> None:
        instant = datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=1)))
        for _, fake in await self.both(
            [PUBLISHED], lambda client: client.api.messages.publish_raw("t", b"x", deliver_at=instant, key="T1+0100")
        ):
            query = "deliver_at=2030-01-01T00%3A00%3A00.000000%2B01%3A00&key=T1%2B0100"
            self.assertEqual(fake.lines, [f"POST /topics/t/messages/raw?{query}"])

    async def test_a_refusal_is_the_same_error_with_both(self) -> None:
        for error, fake in await self.both([409], lambda client: client.publish("t", Decimal("1e400"))):
            self.assertIsInstance(error, ProblemError)
            self.assertEqual((error.code, fake.asked[0][0]), ("code_409", "messages"))


class Surface(unittest.TestCase):
    def test_a_server_that_no_url_can_name_is_refused_and_its_password_not_quoted(self) -> None:
        for server in ("localhost:8080", "http://h:99999", "http://h o", "http://user:geheim@h", "ftp://h"):
            for make in (AsyncClient, Client):
                with self.assertRaises(ValueError) as raised:
                    make(server)
                self.assertNotIn("geheim", str(raised.exception))

    def test_options_of_a_worker_that_cannot_be_are_refused(self) -> None:
        wrongs: list[tuple[str, Any]] = [("concurrency", "5"), ("prefetch", 2.5), ("wait_ms", -1), ("stop_timeout", "1")]
        for name, value in wrongs:
            with self.assertRaisesRegex((TypeError, ValueError), name):
                Worker(Client(), "t", print, **{name: value})

    def test_a_program_without_asyncio_does_not_pay_for_it(self) -> None:
        code = "import sys, dueq; dueq.Client(); print(*sorted({'asyncio', 'aiohttp', 'pydantic'} & set(sys.modules)))"
        loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        self.assertEqual(loaded.stdout, "\n")

    def test_every_name_is_there_when_it_is_asked_for(self) -> None:
        self.assertLessEqual(set(dueq.__all__), set(dir(dueq)))
        for name in dueq.__all__:
            self.assertTrue(hasattr(dueq, name), name)
        with self.assertRaisesRegex(AttributeError, "has no attribute 'blocking'"):
            dueq.blocking  # type: ignore[attr-defined]  # noqa: B018

    def test_a_star_import_hides_no_builtin(self) -> None:
        self.assertEqual(set(dueq.__all__) & set(dir(builtins)), set())
        self.assertTrue(issubclass(dueq.TimeoutError, TimeoutError))

    def test_an_api_key_that_no_header_can_bear_is_refused_and_not_quoted(self) -> None:
        for key in ("geheim\n", "ge heim", "gehéim"):
            for make in (AsyncClient, Client):
                with self.assertRaisesRegex(ValueError, "API key") as raised:
                    make(api_key=key)
                self.assertNotIn("heim", str(raised.exception))


class Webhooks(unittest.TestCase):
    SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    # From the documentation of Standard Webhooks.
    HEADERS = {
        "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "Webhook-Timestamp": "1614265330",
        "Webhook-Signature": "v2,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    BODY = b'{"test": 2432232314}'

    def verify(self, body: bytes = BODY, secret: Any = SECRET, tolerance: Any = 1e10, **headers: str) -> None:
        changed = {f"webhook-{name}": value for name, value in headers.items()}
        given = {k: v for k, v in self.HEADERS.items() if k.lower() not in changed}
        dueq.webhooks.verify(body, {**given, **changed}, secret, tolerance)

    def test_what_dueq_signed_is_accepted(self) -> None:
        self.verify()
        self.verify(secret=["whsec_c2VjcmV0", self.SECRET])
        dueq.webhooks.verify(self.BODY.decode(), self.HEADERS, self.SECRET, timedelta(days=36500))

    def test_everything_else_is_refused_in_words(self) -> None:
        for words, wrong in (
            ("no signature", {"body": self.BODY + b" "}),
            ("no signature", {"secret": "whsec_c2VjcmV0"}),
            ("no signature", {"secret": []}),
            ("no signature", {"signature": "v1,é v1a,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}),
            ("no signature", {"id": "msg_2"}),
            ("no webhook-id", {"id": ""}),
            ("no number", {"timestamp": "soon"}),
            ("no number", {"timestamp": "1" * 400}),
            ("no number", {"timestamp": "1" * 5000}),
            ("no number", {"timestamp": "¹"}),
            ("no signature", {"id": "\udcff"}),
            ("no signature", {"signature": "v1,\udcff"}),
            ("more than one webhook-id", {"ID": "msg_2"}),
            ("s old", {"tolerance": timedelta(minutes=5)}),
            ("s ahead", {"tolerance": 300, "timestamp": str(int(time.time()) + 400)}),
        ):
            with self.assertRaisesRegex(dueq.WebhookError, words):
                self.verify(**wrong)
        with self.assertRaisesRegex(ValueError, "whsec_"):
            self.verify(secret="whsec_?")

    def test_public_keys_verify_what_dueq_signs_with_its_key_pairs(self) -> None:
        # As dueq's own tests have them.
        public = "whpk_XL9MzUGxc2s/gozEjuXB1blGuxvZRLLYCHL8skSJPaQ="
        good = {
            "webhook-id": "msg_1",
            "webhook-timestamp": "1763700000",
            "webhook-signature": "v1,AAAA v1a,NlkuXO2v0fFGNf9nJ+WLerVrsJD/MOd31wd28H6XBkiDTh9/z+ADuVpRq6KqXIi4zQxAINKVgt272/ZxtD4mCA==",
            "dueq-topic": "orders",
            "dueq-signature": "v1a,fRPka8NyhfacLz4J5uvT51S1xG7Gt4v23/+bpTkpEQM4tq2dHeUPczdKYSuH5+pNW+fKkVmBdGS1VeV6X/ZnBw==",
        }

        def verify(body: bytes = b"{}", secret: Any = public, **changed: str) -> None:
            headers = {**good, **{name.replace("_", "-"): value for name, value in changed.items()}}
            dueq.webhooks.verify(body, headers, secret, 1e10)

        verify()
        verify(secret=[self.SECRET, public])
        for wrong in (
            {"body": b"{ }"},
            {"secret": self.SECRET},
            {"secret": "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="},
            {"webhook_id": "msg_2"},
            {"dueq_topic": "hooks"},
            {"webhook_signature": good["webhook-signature"].replace("v1a,", "v1,")},
            {"webhook_signature": "v1a, v1a,é v1a,AAAA"},
        ):
            with self.assertRaisesRegex(dueq.WebhookError, "no signature"):
                verify(**wrong)
        for bad in ("whpk_", "whpk_AAAA", "whpk_?", "whpk_" + self.SECRET):
            with self.assertRaisesRegex(ValueError, "whpk_ and 32 bytes"):
                verify(secret=bad)

    def test_a_topic_is_verified_with_the_body(self) -> None:
        def tag(topic: str, secret: str = self.SECRET) -> str:
            signed = f"msg_p5jXN8AQM9LWM0D4loKWxJek:1614265330:{topic}".encode()
            return "v1," + b64encode(hmac.digest(b64decode(secret[6:]), signed, "sha256")).decode()

        def verify(body: bytes = self.BODY, **headers: str) -> None:
            given = {f"Dueq-{name}": value for name, value in headers.items()}
            dueq.webhooks.verify(body, {**self.HEADERS, **given}, self.SECRET, 1e10)

        old = "whsec_c2VjcmV0"
        verify(topic="orders", signature=tag("orders"))
        verify(topic="orders", signature=f"{tag('orders', old)} {tag('orders')}")
        for words, wrong in (
            ("this topic", {"topic": "orders", "signature": tag("hooks")}),
            ("this topic", {"topic": "orders", "signature": tag("orders", old)}),
            ("this topic", {"topic": "orders", "signature": "v2" + tag("orders")[2:]}),
            ("this topic", {"topic": "\udcff", "signature": "v1,\udcff"}),
            ("no dueq-signature", {"topic": "orders"}),
            ("no dueq-signature", {"topic": "orders", "signature": ""}),
            ("no dueq-topic", {"signature": tag("orders")}),
            ("more than one dueq-topic", {"topic": "orders", "TOPIC": "hooks", "signature": tag("orders")}),
            ("this body", {"body": b"{}", "topic": "orders", "signature": tag("orders")}),
        ):
            with self.assertRaisesRegex(dueq.WebhookError, words):
                verify(**wrong)
