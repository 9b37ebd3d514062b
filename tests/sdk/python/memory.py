"""The dueq in memory that users' tests run against (dueq.testing), and their programs against it."""

import asyncio
import contextlib
import inspect
import io
import json
import re
import unittest
import urllib.error
import urllib.request
import warnings
from collections import Counter
from datetime import timedelta
from pathlib import Path
from types import FunctionType
from typing import Any

import dueq.testing
import dueq.webhooks
import dueq.worker
import typed
from dueq import (
    AckRequest,
    AsyncClient,
    Client,
    ConnectError,
    Dead,
    ExtendRequest,
    LeaseRequest,
    NackRequest,
    ProblemError,
    RetryIn,
    State,
    UpdateMessageRequest,
    Worker,
    WorkerMessage,
)
from dueq.testing import TestServer

from steps import PARTS

DOCUMENTED = (FunctionType, property, classmethod, staticmethod)
MINUTE = timedelta(minutes=1)
# What it does not have: the operation, and how many parts of the steps end there.
SKIPPED = Counter(
    {
        "PUT /topics/T-config": 1,
        "PUT /topics/T-own": 1,
        "PUT /schedules/T": 2,
        "GET /messages/ID/payload": 1,
        "addresses of callbacks are not looked at": 1,
    }
)


class InMemory(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        warnings.simplefilter("error")
        self.server = TestServer()
        self.addCleanup(self.server.close)

    def work(self, handler: Any, **options: Any) -> None:
        """Has a worker work until nothing is due."""
        options = {"on_failed": lambda message, error: None, **options}
        Worker(self.server.client(), "t", handler, **options).run_blocking(until_empty=True)

    def states(self) -> list[tuple[Any, State, Any]]:
        return [(message.payload, message.state, message.last_error) for message in self.server.messages("t")]

    def test_repeats_become_one_message_as_their_policy_says(self) -> None:
        with self.server.client() as client:
            for n in range(3):
                client.publish("t", n, debounce={"key": "d", "delay": MINUTE, "max_wait": 2 * MINUTE})
                client.publish("t", f"throttled {n}", throttle={"key": "k", "every": MINUTE})
                client.publish("t", f"once {n}", once={"key": "o", "for": MINUTE})
            payloads = [message.payload for message in self.server.messages("t")]
            self.assertEqual(payloads, [2, "throttled 0", "once 0", "throttled 2"])
            self.server.advance(MINUTE)
            last = client.publish("t", 3, debounce={"key": "d", "delay": 5 * MINUTE, "max_wait": 2 * MINUTE})
            self.assertEqual(last.due_at, last.published_at + 2 * MINUTE)
            self.assertFalse(client.publish("t", "once more", once={"key": "o", "for": MINUTE}).duplicate)
            self.assertFalse(client.publish("t", "next", throttle={"key": "k", "every": MINUTE}).duplicate)
            for wrong in ({"key": "a"}, {"key": "a", "delay": 1, "maxwait": 2}):
                self.assertRaises((TypeError, ValueError), client.publish, "t", 1, debounce=wrong)
            self.assertRaises(ProblemError, client.publish, "t", 1, key="a", once={"key": "o", "for": 1})

    async def test_the_steps_that_a_real_dueq_takes_are_the_same(self) -> None:
        said: list[dict[str, Any]] = []
        skipped: list[str] = []
        async with self.server.async_client() as client:
            for part in PARTS:
                try:
                    await part(client, "T", lambda **members: said.append(members))
                except ProblemError as problem:
                    self.assertEqual((problem.status, problem.code), (501, "not_supported"))
                    missing = problem.detail.removeprefix("dueq.testing does not have ")
                    skipped.append(re.sub(r"[0-9a-f-]{36}", "ID", missing))
                except AssertionError:  # not refused
                    skipped.append("addresses of callbacks are not looked at")
        lines = (Path(__file__).parent / "../steps.jsonl").read_text().splitlines()
        wanted = {step["step"]: step for step in map(json.loads, lines)}
        for step in json.loads(json.dumps(said, default=str)):
            self.assertEqual(step, wanted.pop(step["step"]))
        self.assertEqual(Counter(skipped), SKIPPED)
        left = {"configure", "reset", "pause", "list", "drop", "callback_refused", "schedule", "trigger", "payload"}
        left |= {"put_schedule", "run_schedule", "delete_schedule", "put_topic", "put_group", "delete_topic"}
        self.assertEqual(set(wanted), left)

    def test_a_message_is_due_when_the_clock_says_so(self) -> None:
        handled: list[Any] = []
        with self.server.client() as client:
            for n in (2, 1):
                client.publish("t", n, delay=n * 30 * MINUTE, key=str(n))
            self.server.advance(29 * MINUTE)
            self.work(lambda message: handled.append(message.payload))
            self.assertEqual((handled, len(self.states())), ([], 2))
            self.server.advance(MINUTE)
            self.work(lambda message: handled.append(message.payload))
            self.assertTrue(client.key("t", "2").reschedule(delay=0))
            self.work(lambda message: handled.append(message.payload))
            self.assertFalse(client.key("t", "2").cancel())
        self.assertEqual((handled, self.states()), ([1, 2], []))

    async def test_a_worker_that_waits_is_woken_by_clock_and_publisher(self) -> None:
        handled: asyncio.Queue[Any] = asyncio.Queue()

        async def handle(message: WorkerMessage) -> None:
            handled.put_nowait(message.payload)

        async with self.server.async_client() as client:
            worker = Worker(client, ["urgent", "t"], handle)
            running = asyncio.create_task(worker.run())
            await client.publish("t", 1, delay=3600)
            await asyncio.sleep(0.1)
            await client.publish("urgent", 2)
            self.assertEqual(await asyncio.wait_for(handled.get(), 5), 2)
            while self.server.messages("urgent"):  # not acknowledged yet: its lease would end with the hour
                await asyncio.sleep(0.01)
            self.server.advance(3600)
            self.assertEqual(await asyncio.wait_for(handled.get(), 5), 1)
            worker.stop()
            await running
            # Nobody is there any more to be given it.
            await client.publish("t", 3)
        self.assertEqual([(m.payload, m.state) for m in self.server.messages("t")], [(3, State.READY)])

    def test_until_empty_takes_in_what_handlers_publish_and_leaves_nothing_unsaid(self) -> None:
        handled: list[int] = []
        with self.server.client() as client:

            def handle(message: WorkerMessage) -> None:
                handled.append(message.payload)
                if message.payload >= 103:
                    raise Dead("enough")
                if message.payload >= 97:
                    client.publish("t", message.payload + 3)

            client.publish_batch("t", [{"payload": n} for n in range(100)])
            self.work(handle, concurrency=3, prefetch=7)
            self.assertEqual(sorted(handled), list(range(106)))
            self.assertEqual(sorted(message.payload for message in client.dead("t")), [103, 104, 105])
            self.assertEqual([state for _, state, _ in self.states()], ["dead"] * 3)

    async def test_until_empty_works_what_a_handler_waits_for_and_ends_at_once_where_nothing_is(self) -> None:
        handled: list[str] = []
        answered = asyncio.Event()
        async with self.server.async_client() as client:

            async def handle(message: WorkerMessage) -> None:
                if message.payload == "question":
                    await asyncio.sleep(0.1)  # the worker has found nothing already
                    await client.publish("t", "answer")
                    await answered.wait()
                handled.append(message.payload)
                answered.set()

            await asyncio.wait_for(Worker(client, "none", handle).run(until_empty=True), 1)
            await client.publish("t", "question")
            await asyncio.wait_for(Worker(client, "t", handle).run(until_empty=True), 8)
        self.assertEqual(handled, ["answer", "question"])

    def test_handlers_fail_as_they_do_with_dueq(self) -> None:
        tries: list[Any] = []

        def handle(message: WorkerMessage) -> None:
            tries.append((message.payload, message.attempt))
            if message.payload == "later" and message.attempt == 1:
                raise RetryIn(3600, "busy")
            if message.payload == "dead":
                raise Dead("no such order")
            if message.payload == "poor":
                raise ValueError("failed")

        with self.server.client() as client:
            client.publish_batch(
                "t",
                [
                    {"payload": "later"},
                    {"payload": "dead"},
                    {"payload": "poor", "max_attempts": 2},
                    {"payload": "first", "priority": 9},
                ],
            )
            self.work(handle, concurrency=1)
            self.assertEqual(tries, [("first", 1), ("later", 1), ("dead", 1), ("poor", 1)])
            self.assertEqual(
                self.states(),
                [("later", "delayed", "busy"), ("dead", "dead", "no such order"), ("poor", "delayed", "failed")],
            )
            self.server.advance(1)  # the backoff
            self.work(handle)
            self.server.advance(3600)
            self.work(handle)
            self.assertEqual(tries[4:], [("poor", 2), ("later", 2)])
            self.assertEqual([message.payload for message in client.dead("t")], ["dead", "poor"])
            self.assertEqual(client.redrive("t", 1), 1)
            self.assertEqual([state for _, state, _ in self.states()], ["ready", "dead"])
            self.assertEqual([(t.name, t.counts.ready, t.counts.dead) for t in client.topics()], [("t", 1, 1)])

    def test_keys_and_idempotency_keys_are_kept(self) -> None:
        with self.server.client(retries=False) as client:

            def publish(payload: Any, **options: Any) -> Any:
                try:
                    published = client.publish("t", payload, **options)
                except ProblemError as problem:
                    return problem.code
                return published.id, published.duplicate

            first, _ = publish(1, key="k", idempotency_key="i")
            self.assertEqual(publish(1, key="k", idempotency_key="i"), (first, True))
            self.assertEqual(publish(2, key="k", idempotency_key="i"), "idempotency_key_reused")
            self.assertEqual(publish(2, key="k"), (first, True))
            self.assertEqual(publish(2, key="k", on_duplicate="reject"), "duplicate_key")
            self.assertEqual(publish(3, key="k", on_duplicate="replace"), (first, True))
            self.assertEqual(self.states(), [(3, "ready", None)])
            self.server.advance(11 * MINUTE)
            self.assertEqual(publish(1, key="other", idempotency_key="i")[1], False)
            for code, topic, key in (
                ("invalid_input", "t", None),
                ("invalid_topic_name", "a/b", "k"),
                ("topic_reserved", "_own", "k"),
            ):
                with self.assertRaises(ProblemError) as raised:
                    client.publish(topic, 1, key=key, on_duplicate="reject")
                self.assertEqual(raised.exception.code, code)
            with self.assertRaisesRegex(ProblemError, "messages.1..content_type: only with"):
                client.publish_batch("t", [{"payload": 1}, {"payload": 2, "content_type": "image/png"}])

    def test_leases_end_and_their_tokens_with_them(self) -> None:
        with self.server.client() as client:
            api = client.api
            id = client.publish("t", b"\x00", key="k", key_until="granted").id

            def lease() -> Any:
                [message] = api.leases.lease_messages("t", LeaseRequest(lease_ms=5000)).messages
                return message

            first = lease()
            self.assertEqual((first.payload_base64, first.content_type), ("AA==", "application/octet-stream"))
            self.assertIsNone(client.key("t", "k").get())  # the first lease has freed the key
            api.leases.extend_lease(id, ExtendRequest(lease_token=first.lease_token, lease_ms=60_000))
            self.server.advance(31)
            self.assertEqual(self.server.messages("t")[0].state, "leased")
            with self.assertRaisesRegex(ProblemError, "message_leased"):
                api.messages.delete_message(id)
            self.server.advance(30)
            with self.assertRaisesRegex(ProblemError, "lease_lost"):
                api.leases.ack_message(id, AckRequest(lease_token=first.lease_token))
            second = lease()
            self.assertEqual((second.attempt, second.attempts_left), (2, 8))
            nack = NackRequest(lease_token=second.lease_token, release=True)
            api.leases.nack_message(id, nack)
            self.assertEqual((lease().attempts_left, self.server.messages("t")[0].attempts), (8, 3))
            with self.assertRaisesRegex(ProblemError, "422 invalid_input"):
                api.leases.nack_message(id, NackRequest(lease_token="x", dead=True, release=True))
            api.messages.delete_message(id, force=True)
            id = client.publish("t", 1, delay=60).id
            changed = api.messages.update_message(id, UpdateMessageRequest(payload=None, max_attempts=1))
            self.assertEqual((changed.payload, changed.attempts_left, changed.state), (None, 1, "delayed"))
            for absent in (client.key("nowhere", "k").cancel, client.key("t", "k").cancel):
                self.assertIs(absent(), False)
            call = client.callback("http://example.com/", timeout=5, secret="whsec_c2VjcmV0")
            [message] = self.server.messages("_callbacks")
            assert message.callback is not None
            self.assertEqual((message.id, message.callback.url), (call.id, "http://example.com/"))
            self.assertEqual((message.callback.secret, message.callback.timeout_ms), ("***", 5000))

    def test_what_it_does_not_have_it_refuses(self) -> None:
        with self.server.client() as client:
            with self.assertRaisesRegex(ProblemError, "501 not_supported: dueq.testing does not have GET /schedules"):
                client.api.schedules.list_schedules()
        for body, status, code in ((b'{"payload": 1, "dealy_ms": 5}', 422, "invalid_input"), (b"{", 400, "malformed_json")):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{self.server.url}/topics/t/messages", body)
            problem = ProblemError.from_answer(refused.exception.code, {}, refused.exception.read())
            refused.exception.close()
            self.assertEqual((problem.status, problem.code), (status, code))
        self.server.close()
        with self.server.client(retries=False) as client, self.assertRaises(ConnectError):
            client.publish("t", 1)

    async def test_a_users_program_runs_as_it_is_typed(self) -> None:
        async with self.server.async_client() as client:
            await typed.with_asyncio(client)

        def rest() -> None:
            with self.server.client() as blocked:
                typed.without_asyncio(blocked)
                typed.workers(blocked, self.server.async_client())
            typed.fake(self.server)

        await asyncio.to_thread(rest)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            typed.hook(b"{}", {})
        self.assertIn("not signed", said.getvalue())


class Surface(unittest.TestCase):
    def test_every_public_name_is_documented(self) -> None:
        bare = []
        for module in (dueq, dueq.testing, dueq.webhooks, dueq.worker):
            for name in module.__all__:
                member = getattr(module, name)
                parts: dict[str, Any] = {name: member} if inspect.isclass(member) or inspect.isfunction(member) else {}
                if inspect.isclass(member):
                    own = {part: value for part, value in vars(member).items() if not part.startswith("_")}
                    parts |= {f"{name}.{part}": value for part, value in own.items() if isinstance(value, DOCUMENTED)}
                bare += [part for part, value in parts.items() if not value.__doc__]
        self.assertEqual(bare, [])

    def test_the_clients_have_the_same_methods(self) -> None:
        self.assertEqual(set(dir(AsyncClient)) ^ set(dir(Client)), {"__aenter__", "__aexit__", "__enter__", "__exit__"})
