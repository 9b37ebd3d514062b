"""Fills a dueq with what a shop would have in it: topics in every state, dead letters with several reasons, callbacks to
a receiver that fails in several ways, and schedules. The same every time, apart from the clock."""

import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Api:
    def __init__(self, server, key=None):
        self.server = server
        self.key = key

    def __call__(self, method, path, body=None, headers=None, raw=None):
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data=data, method=method)
        request.add_header("content-type", "application/json")
        if self.key:
            request.add_header("authorization", f"Bearer {self.key}")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None

    def lease(self, topic, number):
        return self("POST", f"/topics/{topic}/lease", {"max_messages": number, "lease_ms": 3_600_000})["messages"]

    def kill(self, topic, reasons):
        """Makes ready messages of the topic die, one for each reason."""
        leased = self.lease(topic, len(reasons))
        nacks = [
            {"id": message["id"], "lease_token": message["lease_token"], "reason": reason, "dead": True}
            for message, reason in zip(leased, reasons)
        ]
        self("POST", "/messages/nack", {"messages": nacks})
        return [message["id"] for message in leased]


class Receiver(BaseHTTPRequestHandler):
    """/ok answers 200, /broken 500 with a text, /gone 410, and /say/… 500 with what the path says, in hexadecimal."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        status = {"/ok": 200, "/gone": 410}.get(self.path, 500)
        body = b"" if status == 200 else b'{"error": "the card was declined"}'
        if self.path.startswith("/say/"):
            body = bytes.fromhex(self.path.removeprefix("/say/").split("?")[0])
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def receiver():
    """The URL of a receiver that runs as long as this process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def batch(api, topic, messages):
    for at in range(0, len(messages), 1000):
        api("POST", f"/topics/{topic}/messages/batch", {"messages": messages[at : at + 1000]})


def seed(api, target):
    """Returns ids of messages that screens are looked at with."""
    ids = {}
    minute, hour, day = 60_000, 3_600_000, 86_400_000
    # Delayed: a day's curve with a peak in the evening.
    reminders = []
    for number in range(1200):
        delay = (number * number * 97) % day if number % 3 else 9 * hour + (number * 7919) % (2 * hour)
        reminders.append({"payload": {"cart": number, "mail": f"user{number}@example.com"}, "delay_ms": delay + minute, "key": f"cart/{number}"})
    batch(api, "reminders", reminders)
    orders = [
        {"payload": {"order": 1000 + number, "total": 19.9, "items": [{"sku": "A-1", "n": 2}]}, "priority": number % 3, "headers": {"tenant": str(number % 5)}}
        for number in range(160)
    ]
    batch(api, "orders", orders)
    reasons = ["timeout after 5000 ms calling payments"] * 34 + ["card declined: insufficient funds"] * 21
    reasons += [f"order {number} not found" for number in range(12)] + ["KeyError: 'tenant'"] * 3
    ids["dead"] = api.kill("orders", reasons)[0]
    ids["leased"] = api.lease("orders", 18)[0]["id"]
    batch(api, "orders", [{"payload": {"order": 5000 + number}, "delay_ms": (number + 1) * 90_000} for number in range(40)])
    exact = b'{"payload": {"order": 42, "big": 9007199254740993, "huge": 1E400, "twice": 1, "twice": 2, "note": "a \\u0000 b", "when": "2026-11-20", "tags": ["new", "vip"], "ok": true, "none": null}, "delay_ms": 86400000, "key": "order/42", "headers": {"tenant": "42", "source": "shop"}}'
    ids["exact"] = api("POST", "/topics/orders/messages", raw=exact)["id"]
    batch(api, "emails", [{"payload": {"to": f"user{number}@example.com", "template": "welcome"}} for number in range(48)])
    api.kill("emails", ["smtp: 421 try again later"] * 7)
    for message in api.lease("emails", 20):
        api("POST", f"/messages/{message['id']}/ack", {"lease_token": message["lease_token"]})
    batch(api, "images", [{"payload": {"file": f"{number}.png"}, "delay_ms": 0} for number in range(6)])
    api("POST", "/topics/images/pause")
    api("PUT", "/topics/webhooks", {"push": {"url": f"{target}/ok", "headers": {"authorization": "secret"}}, "retention": {"acked_ms": day}})
    batch(api, "webhooks", [{"payload": {"event": number}, "delay_ms": number * minute} for number in range(12)])
    api("PUT", "/topics/payments", {"max_attempts": 3, "dead_topic": "payments-dead", "group_concurrency": 1})
    batch(api, "payments", [{"payload": {"amount": number}, "group": f"customer-{number % 4}"} for number in range(16)])
    api.lease("payments", 3)
    once = {"kind": "fixed", "base_ms": 300_000}
    for path in ["/ok", "/ok", "/broken", "/gone"]:
        made = api("POST", "/callbacks", {"url": target + path, "payload": {"order": 42}, "backoff": once})
        ids[path] = made["id"]
    api("POST", "/callbacks", {"url": f"{target}/ok", "payload": {"order": 43}, "delay_ms": hour, "key": "remind/43"})
    daily = {"payload": {"report": "sales"}}
    api("PUT", "/schedules/daily-report", {"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "topic": "reports", "message": daily})
    api("PUT", "/schedules/heartbeat", {"every_ms": 600_000, "topic": "heartbeats", "message": {"payload": None}})
    api("PUT", "/schedules/month-end", {"cron": "30 22 28 * *", "callback": {"url": f"{target}/ok"}, "message": {"payload": {"close": True}}})
    api("PUT", "/schedules/nightly-cleanup", {"cron": "15 3 * * *", "topic": "maintenance", "message": {"payload": {"days": 30}}})
    api("POST", "/schedules/nightly-cleanup/pause")
    api("POST", "/schedules/daily-report/trigger")
    return ids


if __name__ == "__main__":
    import sys
    import time

    print(json.dumps(seed(Api(sys.argv[1]), receiver())))
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 3)
