#!/usr/bin/env python3
"""Proves from the logs of producers and consumers what dueq promises of these orders.

Usage: check.py LEASE_MS KILLED_CONSUMERS_LOG DIRECTORY
Reads produced-*.log and consumed-*.log in the directory. Every message must be acknowledged, granted with the very
bytes that were published, never before it was due, and never to a second holder before the first one's lease was
over. All instants are Redis's own: a grant happened `lease_ms` before its `lease_expires_at`.
"""

import collections
import datetime
import json
import pathlib
import sys

DECODER = json.JSONDecoder()
SPACE = " \t\r\n"


def fields(text: str, at: int):
    """Name, value and exact text of each field of the object that begins at `at`."""
    at += 1
    while True:
        while text[at] in SPACE + ",":
            at += 1
        if text[at] == "}":
            return
        name, at = DECODER.raw_decode(text, at)
        while text[at] in SPACE + ":":
            at += 1
        value, end = DECODER.raw_decode(text, at)
        yield name, value, text[at:end], at
        at = end


def payload_texts(answer: str):
    """The exact text of each leased payload, in order."""
    for name, value, _, at in fields(answer, answer.index("{")):
        if name != "messages":
            continue
        for _ in value:
            at = answer.index("{", at)
            yield next(raw for key, _, raw, _ in fields(answer, at) if key == "payload")
            _, at = DECODER.raw_decode(answer, at)


def ms(instant: str) -> int:
    """Milliseconds since 1970, exactly."""
    since = datetime.datetime.fromisoformat(instant.replace("Z", "+00:00")) - datetime.datetime.fromtimestamp(0, datetime.UTC)
    return since // datetime.timedelta(milliseconds=1)


Grant = collections.namedtuple("Grant", "at until attempt due payload consumer")


def read(directory: pathlib.Path, lease_ms: int):
    """What was published, granted and acknowledged, by id."""
    published, grants, acks = {}, collections.defaultdict(list), collections.defaultdict(collections.Counter)
    for log in sorted(directory.glob("produced-*.log")):
        for line in log.open(encoding="utf-8"):
            record = json.loads(line)
            assert record["id"] not in published, f"{record['id']} was given out twice"
            published[record["id"]] = record
    for log in sorted(directory.glob("consumed-*.log")):
        for answer in filter(None, log.read_bytes().decode().split("\x1e")):
            parsed = json.loads(answer)
            for message, payload in zip(parsed["messages"], payload_texts(answer), strict=True):
                until = ms(message["lease_expires_at"])
                grant = Grant(until - lease_ms, until, message["attempt"], ms(message["due_at"]), payload, log.name)
                grants[message["id"]].append(grant)
            for ack in parsed["acks"]:
                acks[ack["id"]][ack["status"]] += 1
    for given in grants.values():
        given.sort(key=lambda grant: grant.attempt)
    return published, grants, acks


def faults(published, grants, acks, killed: str):
    """Each broken promise, a line each."""
    for id in grants.keys() - published.keys():
        yield f"{id} was granted and never published"
    for id, message in published.items():
        due, before = ms(message["due_at"]), None
        for grant in grants[id]:
            if grant.payload != message["payload"]:
                yield f"{id} came back with another payload: {grant.payload!r} for {message['payload']!r}"
            if before is None and grant.attempt == 1 and grant.due != due:
                yield f"{id} was published for {due} and granted as due at {grant.due}"
            if grant.at < due:
                yield f"{id} was granted {due - grant.at} ms early"
            if before and grant.at < before.until:
                yield f"{id} was granted to {grant.consumer} {before.until - grant.at} ms before {before.consumer}'s lease was over"
            if grant.attempt != (before.attempt + 1 if before else 1):
                yield f"{id} was granted as attempt {grant.attempt} after {before.attempt if before else 0}"
            before = grant
        done = acks[id]["ok"]
        if done == 0 and before and before.consumer == killed:
            yield f"{id} was last held by the consumer that was killed, and nobody else got it"
        elif done != 1:
            yield f"{id} was acknowledged {done} times ({len(grants[id])} grants, acks {dict(acks[id])})"


def main(lease_ms: str, killed: str, directory: str) -> int:
    published, grants, acks = read(pathlib.Path(directory), int(lease_ms))
    broken = list(faults(published, grants, acks, killed))
    again = sum(len(given) > 1 for given in grants.values())
    rescued = sum(len(given) > 1 and any(grant.consumer == killed for grant in given) for given in grants.values())
    sizes = sorted(len(message["payload"].encode()) for message in published.values())
    late = sorted(given[0].at - ms(published[id]["due_at"]) for id, given in grants.items() if id in published)
    if not published or not late:
        broken.append("nothing was published, or nothing granted")
    else:
        print(f"{len(published)} published, payloads of {sizes[0]} to {sizes[-1]} bytes ({sum(sizes)} in all)")
        print(f"{sum(map(len, grants.values()))} grants, {sum(count['ok'] for count in acks.values())} acknowledged")
        print(f"{again} granted more than once, {rescued} of them held by the consumer that was killed")
        print(f"lateness of first grants, the consumers' own pace included: p50 {late[len(late) // 2]} ms, p99 {late[len(late) * 99 // 100]} ms, max {late[-1]} ms, min {late[0]} ms")
        if rescued == 0:
            broken.append("the killed consumer held nothing: the run shows nothing of leases")
    for line in broken[:20]:
        print(f"BROKEN: {line}")
    print(f"{len(broken)} promises broken" if broken else "ok: every one acknowledged once, byte for byte, none early, none taken from its holder")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
