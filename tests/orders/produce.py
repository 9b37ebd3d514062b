#!/usr/bin/env python3
"""A producer: publishes order events one after another, and logs what it sent and what was answered.

Usage: produce.py SERVER TOPIC SEED COUNT LOG
Each line of the log is {"id", "due_at", "payload"}, the payload as the text that was sent.
"""

import http.client
import json
import sys
import urllib.parse

from orders import orders


def main(server: str, topic: str, seed: str, count: str, log: str) -> None:
    url = urllib.parse.urlsplit(server)
    connection = http.client.HTTPConnection(url.hostname, url.port or 80, timeout=30)
    path = f"{url.path.rstrip('/')}/topics/{topic}/messages"
    with open(log, "w", encoding="utf-8") as file:
        for delay_ms, payload in orders(int(seed), int(count)):
            body = b'{"delay_ms":%d,"payload":%s}' % (delay_ms, payload)
            connection.request("POST", path, body, {"content-type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
            if response.status != 201:
                sys.exit(f"publish was answered {response.status}: {answer.decode()}")
            message = json.loads(answer)
            record = {"id": message["id"], "due_at": message["due_at"], "payload": payload.decode()}
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
