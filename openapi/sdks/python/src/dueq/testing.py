"""A dueq in memory, for the tests of programs that use it: no Redis, and a clock that the test moves.

    with TestServer() as server, server.client() as client:
        client.publish("orders", {"order": 42}, delay=timedelta(minutes=30))
        server.advance(timedelta(minutes=30))
        Worker(client, "orders", handle).run_blocking(until_empty=True)
        assert server.messages("orders") == []

It publishes, leases, settles, finds, changes, deletes, lists and redrives messages as dueq does. Callbacks it does not make:
they are messages in the topic `_callbacks`. Topics have no configuration (a lease lasts 30 s, a message has 10 attempts, the
backoff is 1 s doubled each time up to an hour, without jitter), a message's own backoff and time to live are ignored, and
there are no schedules. Requests for anything else are refused with the code `not_supported`.
"""

import re
import select
import socket
import sys
import threading
import time
from contextlib import suppress
from datetime import datetime, timezone
from enum import Enum
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from math import ceil, inf
from socketserver import ThreadingTCPServer
from typing import Any, Callable, Optional
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import ValidationError

from dueq import _json
from dueq._async.client import AsyncClient
from dueq._options import POLICIES, Duration, milliseconds
from dueq._sync.client import Client
from dueq.generated import models

__all__ = ["TestServer"]

CALLBACKS = "_callbacks"
LEASE_MS = 30_000
ATTEMPTS = 10
IDEMPOTENCY_WINDOW_MS = 600_000
CONTENT = ("payload", "payload_base64", "content_type", "headers", "priority", "callback")
STATUSES = {
    "invalid_topic_name": 400,
    "topic_reserved": 403,
    "message_not_found": 404,
    "topic_not_found": 404,
    "invalid_input": 422,
    "idempotency_key_reused": 422,
    "not_supported": 501,
}  # 409 the others


class TestServer:
    """A dueq in memory, at `url`, until `close` or the end of its `with`."""

    __test__ = False  # nothing for pytest to collect
    url: str
    """Where it listens, on a free port of this machine."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._offset_ms = 0
        self._made = 0
        self._topics: set[str] = set()
        self._messages: list[_Message] = []  # but those that are done, in the order of publishing
        self._answered: dict[tuple[str, str, str], tuple[int, Any, dict[str, Any]]] = {}  # until when, what, and the answer
        # The end of the latest interval, its beginning, and its message.
        self._throttled: dict[tuple[str, str], tuple[int, int, Optional[_Message]]] = {}
        self._closed = False
        self._listener = _Listener(self)
        self.url = f"http://127.0.0.1:{self._listener.server_address[1]}"
        threading.Thread(target=self._listener.serve_forever, args=(0.05,), name="dueq.testing", daemon=True).start()

    def client(self, **options: Any) -> Client:
        """A client of it, with options as `dueq.Client`'s."""
        return Client(self.url, **options)

    def async_client(self, **options: Any) -> AsyncClient:
        """A client of it for asyncio, with options as `dueq.AsyncClient`'s."""
        return AsyncClient(self.url, **options)

    def advance(self, duration: Duration) -> None:
        """Moves its clock: what falls due in the meantime is due, and leases that end in the meantime are over."""
        with self._changed:
            self._offset_ms += milliseconds("duration", duration)
            self._changed.notify_all()

    def messages(self, topic: str) -> "list[models.Message]":
        """The messages in a topic, but for those that are done, in the order in which they were published."""
        with self._changed:
            self._tick()
            return [models.Message.from_dict(m.shown()) for m in self._messages if m.topic == topic]

    def close(self) -> None:
        """Ends it: whoever waits for messages is answered, and connections are closed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._listener.close()

    def __enter__(self) -> "TestServer":
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    # Time

    def _now(self) -> int:
        return time.time_ns() // 1_000_000 + self._offset_ms

    def _tick(self) -> float:
        """Does what time does; how many ms until there is something to do next."""
        now, following = self._now(), inf
        for m in self._messages:
            if m.state == "leased" and m.until <= now:
                m.come_back(m.until, now)
            if m.state == "delayed" and m.due <= now:
                m.state = "ready"
            if m.state in ("leased", "delayed"):
                following = min(following, (m.until if m.state == "leased" else m.due) - now)
        return following

    # Requests, which have the lock

    def _answer(self, request: "_Request", path: str, body: Any) -> Any:
        for method, pattern, handle in ROUTES:
            match = re.fullmatch(pattern, path)
            if method == request.command and match:
                names = {name: unquote(value) for name, value in match.groupdict().items()}
                with self._changed:
                    self._tick()
                    return handle(self, request, {} if body is None else body, **names)
        raise _Refusal("not_supported", f"dueq.testing does not have {request.command} {path}")

    def _publish(self, request: "_Request", body: Any, topic: str) -> Any:
        return self._take(topic, _publishable(topic, body), request.headers.get("Idempotency-Key"))

    def _callback(self, request: "_Request", body: Any) -> Any:
        given = _checked(models.ScheduleCallbackRequest, body)
        if not re.match("https?://.", given["url"]):
            raise _Refusal("invalid_input", fields={"url": "not an http or https URL"})
        own = ("url", "method", "timeout_ms", "connect_timeout_ms", "retry", "client_cert", "secret_headers")
        given["callback"] = {name: given.pop(name) for name in own if name in given}
        if given.pop("secret", None):
            given["callback"]["secret"] = "***"
        if auth := given.pop("auth", None):
            hidden = {name: "***" for name in ("password", "client_secret") if name in auth}
            given["callback"]["auth"] = {**auth, **hidden}
        return self._take(CALLBACKS, given, request.headers.get("Idempotency-Key"))

    def _publish_batch(self, request: "_Request", body: Any, topic: str) -> Any:
        messages = _checked(models.PublishBatchRequest, body)["messages"]
        results: list[dict[str, Any]] = []
        for given in [_publishable(topic, message, f"messages[{n}].") for n, message in enumerate(messages)]:
            try:
                results.append({"status": "ok", "message": self._take(topic, given)})
            except _Refusal as refusal:
                results.append({"status": refusal.code})
        return {"results": results}

    def _take(self, topic: str, given: dict[str, Any], idempotency_key: Optional[str] = None) -> dict[str, Any]:
        now = self._now()
        idempotency_key = given.pop("idempotency_key", None) or idempotency_key
        _check_policy({**given, **({"idempotency_key": idempotency_key} if idempotency_key else {})})
        debounce, throttle, once = (given.pop(name, None) for name in POLICIES)
        if debounce:
            given.update(key=debounce["key"], on_duplicate="replace", key_until="granted", delay_ms=debounce["delay_ms"])
        name, window_ms, asked = (topic, "", idempotency_key or ""), IDEMPOTENCY_WINDOW_MS, given
        if once:
            name, window_ms, asked = (topic, "once", once["key"]), once["for_ms"], {}
        until, before, answer = self._answered.get(name, (0, None, {}))
        if now < until:
            if before != asked:
                raise _Refusal("idempotency_key_reused")
            return {**answer, "duplicate": True}
        m, due = self._live(topic, given.get("key")), _due(given, now) or now
        if debounce and debounce.get("max_wait_ms") is not None:
            due = min(due, (m.published if m else now) + debounce["max_wait_ms"])
        if throttle:
            until, due, m = self._throttled.get((topic, throttle["key"]), (now, now, None))
            if due <= now:
                due, m = max(until, now), None
            elif m not in self._messages or m.state not in ("delayed", "ready"):
                m = None
        choice, duplicate = "replace" if throttle else given.get("on_duplicate", "return"), m is not None
        if m is None:
            m = _Message(self._id(), topic, given.get("key"), given.get("key_until", "done"), now)
            self._messages.append(m)
            self._topics.add(topic)
        elif choice == "reject":
            raise _Refusal("duplicate_key")
        elif choice == "replace" and m.state == "leased":
            raise _Refusal("message_leased")
        if not duplicate or choice == "replace":
            m.content = {name: given[name] for name in CONTENT if name in given}
            m.budget = given.get("max_attempts", ATTEMPTS)
            m.fall_due(due, now)
            self._changed.notify_all()
        answer = {"id": m.id, "topic": topic, "state": m.state, "published_at": _instant(m.published), "duplicate": duplicate}
        if m.state != "leased":
            answer["due_at"] = _instant(m.due)
        if name[2]:
            self._answered[name] = (now + window_ms, asked, answer)
        if throttle:
            self._throttled[topic, throttle["key"]] = (due + throttle["every_ms"], due, m)
        return answer

    def _id(self) -> str:
        self._made += 1
        return f"00000000-0000-4000-8000-{self._made:012}"

    def _live(self, topic: str, key: Optional[str]) -> "Optional[_Message]":
        return next((m for m in self._messages if key is not None and (m.topic, m.key) == (topic, key) and m.has_key()), None)

    def _lease(self, request: "_Request", body: Any, topic: Optional[str] = None) -> Any:
        given = _checked(models.LeaseFromTopicsRequest if topic is None else models.LeaseRequest, body)
        topics = given["topics"] if topic is None else [topic]
        end = time.monotonic() + given.get("wait_ms", 0) / 1000
        acks = [self._settled("ack", ack) for ack in given.get("acks", [])]
        while True:
            following = self._tick()
            left = end - time.monotonic()
            if not request.is_there():
                return {"messages": [], "acks": acks}
            granted = self._grant(topics, given.get("max_messages", 1), given.get("lease_ms", LEASE_MS))
            if granted or left <= 0 or self._closed:
                return {"messages": granted, "acks": acks}
            self._changed.wait(min(left, max(following, 1) / 1000))

    def _grant(self, topics: list[str], most: int, lease_ms: int) -> list[dict[str, Any]]:
        for topic in topics:
            ready = sorted((m for m in self._messages if m.topic == topic and m.state == "ready"), key=_Message.order)
            if ready:
                return [m.lease(self._now(), lease_ms, self._id()) for m in ready[:most]]
        return []

    def _settle_one(self, request: "_Request", body: Any, id: str, verb: str) -> Any:
        model = {"ack": models.AckRequest, "nack": models.NackRequest, "extend": models.ExtendRequest}[verb]
        answer = self._settle(verb, {**_checked(model, body), "id": id})
        return None if verb == "ack" else answer

    def _settle_batch(self, request: "_Request", body: Any, verb: str) -> Any:
        batches = {"ack": models.AckBatchRequest, "nack": models.NackBatchRequest, "extend": models.ExtendBatchRequest}
        return {"results": [self._settled(verb, item) for item in _checked(batches[verb], body)["messages"]]}

    def _settled(self, verb: str, item: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"status": "ok", **self._settle(verb, item)}
        except _Refusal as refusal:
            return {"id": item["id"], "status": refusal.code}

    def _settle(self, verb: str, item: dict[str, Any]) -> dict[str, Any]:
        if item.get("dead") and (item.get("release") or item.get("delay_ms") is not None):
            raise _Refusal("invalid_input", fields={"dead": "not with release or delay_ms"})
        m = self._find(item["id"])
        if m.state != "leased" or m.token != item["lease_token"]:
            raise _Refusal("lease_lost")
        now = self._now()
        if verb == "ack":
            self._messages.remove(m)
            answer: dict[str, Any] = {"id": m.id}
        elif verb == "extend":
            m.until = max(m.until, now + item["lease_ms"])
            answer = {"id": m.id, "lease_ms": m.until - now, "lease_expires_at": _instant(m.until)}
        else:
            m.nack(item, now)
            answer = {"id": m.id, "state": m.state, "attempt": m.attempts, **m.shown_due()}
        self._changed.notify_all()
        return answer

    def _find(self, id: str = "", topic: str = "", key: Optional[str] = None) -> "_Message":
        if topic and topic not in self._topics:
            raise _Refusal("topic_not_found")
        m = self._live(topic, key) if topic else next((m for m in self._messages if m.id == id), None)
        if m is None:
            raise _Refusal("message_not_found")
        return m

    def _get(self, request: "_Request", body: Any, **name: str) -> Any:
        return self._find(**name).shown()

    def _update(self, request: "_Request", body: Any, **name: str) -> Any:
        given = _checked(models.UpdateMessageRequest, body)
        m, now = self._find(**name), self._now()
        due = _due(given, now)
        if m.state == "leased":
            raise _Refusal("message_leased")
        if m.state == "dead" and due is not None:
            raise _Refusal("message_dead")
        if "payload" in given or "payload_base64" in given:
            for part in ("payload", "payload_base64", "content_type"):
                m.content.pop(part, None)
        m.content.update({part: given[part] for part in CONTENT if part in given})
        m.budget = given.get("max_attempts", m.budget)
        if due is not None:
            m.fall_due(due, now)
        self._changed.notify_all()
        return m.shown()

    def _delete(self, request: "_Request", body: Any, **name: str) -> Any:
        m = self._find(**name)
        if m.state == "leased" and request.query.get("force") != "true":
            raise _Refusal("message_leased")
        self._messages.remove(m)

    def _list(self, request: "_Request", body: Any, topic: str) -> Any:
        items = [m for m in self._in(topic) if m.state == request.query.get("state")]
        return {"items": [m.shown(request.query.get("payload") == "true") for m in sorted(items, key=_Message.order)]}

    def _in(self, topic: str) -> "list[_Message]":
        if topic not in self._topics:
            raise _Refusal("topic_not_found")
        return [m for m in self._messages if m.topic == topic]

    def _list_topics(self, request: "_Request", body: Any) -> Any:
        items = []
        for name in sorted(name for name in self._topics if name.startswith(request.query.get("prefix", ""))):
            states = [m.state for m in self._in(name)]
            counts = {state: states.count(state) for state in ("delayed", "ready", "leased", "blocked", "dead", "acked")}
            items.append({"name": name, "paused": False, "counts": counts})
        return {"items": items}

    def _redrive(self, request: "_Request", body: Any, topic: str) -> Any:
        given, now = _checked(models.RedriveRequest, body), self._now()
        dead = sorted((m for m in self._in(topic) if m.state == "dead"), key=_Message.order)
        most, redriven = min(given.get("max_messages", 10_000), len(dead)), 0
        for m in dead:
            if redriven < most and self._live(topic, m.key) is None:
                m.redrive(now + given.get("spread_ms", 0) * redriven // most, now)
                redriven += 1
        self._changed.notify_all()
        return {"redriven": redriven, "remaining": len(dead) - redriven}

    def _redrive_one(self, request: "_Request", body: Any, id: str) -> Any:
        m, now = self._find(id), self._now()
        if m.state != "dead":
            raise _Refusal("message_not_dead")
        if self._live(m.topic, m.key) is not None:
            raise _Refusal("duplicate_key")
        m.redrive(now, now)
        self._changed.notify_all()
        return m.shown()


IN, ID, KEY = "/topics/(?P<topic>[^/]+)", "/messages/(?P<id>[^/]+)", "/topics/(?P<topic>[^/]+)/keys/(?P<key>[^/]+)"
VERB = "(?P<verb>ack|nack|extend)"
ROUTES: list[tuple[str, str, Callable[..., Any]]] = [
    ("POST", f"{IN}/messages", TestServer._publish),
    ("POST", "/callbacks", TestServer._callback),
    ("POST", f"{IN}/messages/batch", TestServer._publish_batch),
    ("POST", f"{IN}/lease", TestServer._lease),
    ("POST", "/lease", TestServer._lease),
    ("POST", f"{ID}/{VERB}", TestServer._settle_one),
    ("POST", f"/messages/{VERB}", TestServer._settle_batch),
    ("POST", f"{ID}/redrive", TestServer._redrive_one),
    ("POST", f"{IN}/redrive", TestServer._redrive),
    ("GET", f"{IN}/messages", TestServer._list),
    ("GET", "/topics", TestServer._list_topics),
    *(
        (method, place, handle)
        for place in (ID, KEY)
        for method, handle in (("GET", TestServer._get), ("PATCH", TestServer._update), ("DELETE", TestServer._delete))
    ),
]


class _Message:
    """A message that is not done. Instants are milliseconds of the server's clock."""

    def __init__(self, id: str, topic: str, key: Optional[str], key_until: str, now: int) -> None:
        self.id, self.topic, self.key, self.key_until, self.published = id, topic, key, key_until, now
        self.content: dict[str, Any] = {}
        self.state, self.due, self.until, self.died = "delayed", now, 0, 0
        self.token = ""
        self.attempts = self.used = self.failed = 0
        self.budget = ATTEMPTS
        self.last_error: Optional[str] = None

    def order(self) -> Any:
        """As what is ready is granted, and what is dead was buried."""
        return self.died if self.state == "dead" else (-self.content.get("priority", 0), self.due)

    def has_key(self) -> bool:
        return self.state != "dead" and not (self.key_until == "granted" and self.attempts)

    def fall_due(self, due: int, now: int) -> None:
        self.state, self.due = "ready" if due <= now else "delayed", due

    def lease(self, now: int, lease_ms: int, token: str) -> dict[str, Any]:
        self.state, self.until, self.token = "leased", now + lease_ms, token
        self.attempts += 1
        self.used += 1
        shown = self.shown()
        attempt = {"attempt": self.attempts, "due_at": _instant(self.due), "lease_token": token, "lease_ms": lease_ms}
        return {**{name: shown[name] for name in shown if name not in ("state", "attempts", "last_error")}, **attempt}

    def come_back(self, due: int, now: int) -> None:
        """Its lease ends without an ack."""
        self.token = ""
        if self.used >= self.budget:
            self.state, self.died = "dead", now
        else:
            self.fall_due(due, now)

    def nack(self, how: dict[str, Any], now: int) -> None:
        self.last_error = how.get("reason") or self.last_error
        delay_ms = min(1000 * 2**self.failed, 3_600_000)
        if how.get("release"):
            self.used -= 1
            delay_ms = 0
        elif how.get("dead"):
            self.used = self.budget
        else:
            self.failed += 1
        given = how.get("delay_ms")
        self.come_back(now + (delay_ms if given is None else given), now)

    def redrive(self, due: int, now: int) -> None:
        self.used = self.failed = 0
        self.fall_due(due, now)

    def shown_due(self) -> dict[str, Any]:
        if self.state in ("delayed", "ready"):
            return {"due_at": _instant(self.due)}
        return {"lease_expires_at": _instant(self.until)} if self.state == "leased" else {"died_at": _instant(self.died)}

    def shown(self, payload: bool = True) -> dict[str, Any]:
        """As dueq answers it."""
        hidden = () if payload else ("payload", "payload_base64", "content_type")
        shown = {"headers": {}, "priority": 0, **self.content, **self.shown_due()}
        if "payload_base64" in shown:
            shown.setdefault("content_type", "application/octet-stream")
        shown.update(id=self.id, topic=self.topic, state=self.state, published_at=_instant(self.published))
        shown.update(attempts=self.attempts, attempts_left=self.budget - self.used, key=self.key, last_error=self.last_error)
        absent = [name for name in shown if name in hidden or shown[name] is None and name != "payload"]
        return {name: shown[name] for name in shown if name not in absent}


class _Refusal(Exception):
    """What dueq refuses: a code, and what is wrong with which field."""

    def __init__(self, code: str, detail: str = "", fields: Optional[dict[str, str]] = None) -> None:
        super().__init__(code)
        self.code = code
        self.status = STATUSES.get(code, 409)
        self.errors = [{"field": field, "reason": reason} for field, reason in (fields or {}).items()]
        self.detail = detail or "; ".join(f"{error['field']}: {error['reason']}" for error in self.errors) or code

    def problem(self) -> dict[str, Any]:
        names = {"type": f"urn:dueq:problem:{self.code}", "title": HTTPStatus(self.status).phrase, "status": self.status}
        more = {"errors": self.errors} if self.errors else {}
        return {**names, "code": self.code, "detail": self.detail, "request_id": "dueq.testing", **more}


def _checked(model: Any, body: Any, within: str = "") -> dict[str, Any]:
    """A body of this model without its nulls, which count as absent but for a payload."""
    if not isinstance(body, dict):
        raise _Refusal("invalid_input", "the body is no object")
    try:
        values = dict(model.from_dict(body))
        fields = {name: "unknown" for name, value in values.items() if isinstance(value, Enum) and value.name == "UNKNOWN"}
    except ValidationError as error:
        fields = {".".join(map(str, e["loc"])): e["msg"] for e in error.errors(include_url=False)}
    if fields:
        raise _Refusal("invalid_input", fields={within + field: reason for field, reason in fields.items()})
    return {name: value for name, value in body.items() if value is not None or name == "payload"}


def _publishable(topic: str, body: Any, within: str = "") -> dict[str, Any]:
    if topic.startswith("_"):
        raise _Refusal("topic_reserved")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", topic) or ".." in topic:
        raise _Refusal("invalid_topic_name")
    given = _checked(models.PublishRequest, body, within)
    wrong = {
        "payload": ("payload" in given) == ("payload_base64" in given) and "exactly one of payload and payload_base64",
        "content_type": "content_type" in given and "payload_base64" not in given and "only with payload_base64",
        "deliver_at": "deliver_at" in given and "delay_ms" in given and "not with delay_ms",
        "on_duplicate": "on_duplicate" in given and "key" not in given and "only with key",
        "key_until": "key_until" in given and "key" not in given and "only with key",
    }
    fields = {within + field: reason for field, reason in wrong.items() if reason}
    if fields:
        raise _Refusal("invalid_input", fields=fields)
    return given


def _check_policy(given: dict[str, Any]) -> None:
    policy = next((name for name in POLICIES if name in given), None)
    others = ("key", "idempotency_key", *POLICIES, *(() if policy == "once" else ("delay_ms", "deliver_at")))
    wrong = [name for name in others if policy and name in given and name != policy]
    if wrong:
        raise _Refusal("invalid_input", fields={name: f"not with {policy}" for name in wrong})


def _due(given: dict[str, Any], now: int) -> Optional[int]:
    if "delay_ms" in given:
        return now + int(given["delay_ms"])
    if "deliver_at" not in given:
        return None
    at = models.UpdateMessageRequest(deliver_at=given["deliver_at"]).deliver_at
    assert at is not None
    return ceil(round(at.timestamp() * 1000, 3))


def _instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Listener(ThreadingTCPServer):
    """Not HTTPServer: that one looks its own name up, which may take its time."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, server: TestServer) -> None:
        self.server = server
        self.connections: set[Any] = set()
        super().__init__(("127.0.0.1", 0), _Request)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # nobody is there to be answered
            super().handle_error(request, client_address)

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body in one packet
    server: _Listener

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.query = dict(parse_qsl(url.query))
        try:
            body = _json.loads(content) if content else None
            answer = self.server.server._answer(self, url.path, body)
        except _Refusal as refusal:
            self._reply(refusal.status, "application/problem+json", _json.dumps(refusal.problem()))
        except ValueError as error:
            self._reply(400, "application/problem+json", _json.dumps({"code": "malformed_json", "detail": str(error)}))
        else:
            self._reply(204 if answer is None else 200, "application/json", b"" if answer is None else _json.dumps(answer))

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

    def is_there(self) -> bool:
        # Whoever waits for an answer sends nothing but the end of its connection.
        return not select.select([self.connection], [], [], 0)[0]

    def _reply(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass
