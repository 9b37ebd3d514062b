/** The worker where it is hard, against a server that misbehaves on purpose; run by `node --test`. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { afterEach, beforeEach, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import {
  Client,
  Dead,
  LeaseLost,
  type Middleware,
  ProblemError,
  RetryIn,
  StopTimeout,
  Worker,
  type WorkerOptions,
} from "dueq";
import { Fake } from "./fake.js";

let fake: Fake;
let client: Client;

beforeEach(async () => {
  fake = new Fake();
  client = new Client({ server: await fake.start(), apiKey: "secret" });
});
afterEach(() => fake.stop());

/** Runs a worker with a handler that does nothing, unless told otherwise, while `during` runs. */
async function working(options: Partial<WorkerOptions>, during: (worker: Worker) => Promise<void>): Promise<void> {
  const worker = new Worker(client, { topic: "t", handler: () => {}, onError: () => {}, ...options });
  const run = worker.run();
  try {
    await during(worker);
  } finally {
    await worker.stop();
    await run;
  }
}

async function until(condition: () => boolean, what: string): Promise<void> {
  const began = performance.now();
  while (!condition()) {
    assert.ok(performance.now() - began < 8000, `never: ${what}`);
    await sleep(2);
  }
}

const notFound = ({ id }: { id: string }): object => ({ id, status: "message_not_found" });

test("payloads, and fields that nobody knows, come as they are", async () => {
  const payloads = [null, false, 0, "", { a: [null, { b: 1.5 }] }];
  const seen: unknown[] = [];
  fake.publish(...payloads);
  await working({ handler: (message) => void seen.push(message) }, () =>
    until(() => seen.length === payloads.length, "all handled"),
  );
  assert.deepEqual(
    seen.map((message: any) => message.payload),
    payloads,
  );
  assert.ok(seen.every((message: any) => message.newer_than_this_package && "payload" in message));
  assert.equal(fake.asked[0]!.headers.authorization, "Bearer secret");
});

test("idle there is one long poll, and an ack does not wait for it", async () => {
  await working({ concurrency: 64 }, async () => {
    await until(() => fake.asked.length === 1, "a lease request");
    await sleep(100);
    assert.equal(fake.asked.length, 1);
    fake.publish(1);
    await until(() => fake.lines("/ack").length === 1 || fake.lines("/lease").length === 1, "the ack");
  });
});

test("an ack whose answer was lost is sent again, and not found means done", async () => {
  const lost: string[] = [];
  let acks = 0;
  fake.publish(1);
  fake.reply = ({ path, body }) => {
    const sent = path.endsWith("/ack") ? body.messages : body.acks;
    if (!sent?.length) return undefined;
    acks += 1;
    if (acks === 1) return "break";
    return { json: { messages: [], acks: sent.map(notFound), results: sent.map(notFound) } };
  };
  await working({ onLost: ({ id }) => lost.push(id) }, () => until(() => acks === 2, "a second ack"));
  assert.deepEqual(lost, []);
});

test("a nack whose answer was lost is sent again, and a lost lease means done", async () => {
  const lost: string[] = [];
  fake.publish(1);
  fake.reply = ({ path, body }) => {
    if (!path.endsWith("/nack")) return undefined;
    if (fake.lines("/nack").length === 1) return "break";
    return { json: { results: body.messages.map(({ id }: any) => ({ id, status: "lease_lost" })) } };
  };
  const handler: WorkerOptions["handler"] = () => {
    throw new Error("boom");
  };
  await working({ handler, onFailed: () => {}, onLost: ({ id }) => lost.push(id) }, () =>
    until(() => fake.lines("/nack").length === 2, "a second nack"),
  );
  assert.deepEqual(lost, []);
});

test("a nack that is refused is a loss", async () => {
  const lost: string[] = [];
  fake.publish(1);
  fake.reply = ({ path }) =>
    path.endsWith("/nack") ? { json: { results: [{ id: "m1", status: "lease_lost" }] } } : undefined;
  const handler: WorkerOptions["handler"] = () => {
    throw new Error("boom");
  };
  await working({ handler, onFailed: () => {}, onLost: ({ id }) => lost.push(id) }, () =>
    until(() => lost.length === 1, "a loss"),
  );
});

test("an ack that Redis did not take goes again; one that is refused is a loss", async () => {
  const lost: string[] = [];
  const statuses = ["redis_unavailable", "outcome_unknown", "lease_lost"];
  let acks = 0;
  fake.publish(1);
  fake.reply = ({ path, body }) => {
    const sent = path.endsWith("/ack") ? body.messages : body.acks;
    if (!sent?.length) return undefined;
    const results = [{ id: sent[0].id, status: statuses[acks] }];
    acks += 1;
    return { json: { messages: [], acks: results, results } };
  };
  await working({ onLost: ({ id }) => lost.push(id) }, () => until(() => lost.length > 0, "a loss"));
  assert.equal(acks, 3);
  assert.deepEqual(lost, ["m1"]);
});

test("what a handler throws decides", async () => {
  const errors = [
    new Error("boom"),
    new RetryIn(1500, "busy"),
    new Dead("never"),
    "text",
    new Error("ü😀".repeat(2000)),
  ];
  fake.publish(...errors.keys());
  await working(
    {
      handler: async ({ payload }) => {
        throw errors[payload];
      },
      onFailed: () => {
        throw new Error("a hook that throws");
      },
    },
    () => until(() => fake.lines("/nack").length === errors.length, "all nacked"),
  );
  const nacks = new Map(fake.lines("/nack").map(({ id, lease_token, ...rest }) => [id, rest]));
  assert.deepEqual(nacks.get("m1"), { reason: "boom" });
  assert.deepEqual(nacks.get("m2"), { reason: "busy", delay_ms: 1500 });
  assert.deepEqual(nacks.get("m3"), { reason: "never", dead: true });
  assert.deepEqual(nacks.get("m4"), { reason: "text" });
  assert.equal(nacks.get("m5").reason, "ü😀".repeat(512));
  assert.equal(fake.lines("/ack").length + fake.lines("/lease").length, 0);
});

test("a refusal that cannot get better is thrown by run", async () => {
  fake.reply = () => ({ status: 401, code: "unauthorized" });
  const worker = new Worker(client, { topic: "t", handler: () => {} });
  await assert.rejects(worker.run(), (error) => error instanceof ProblemError && error.code === "unauthorized");
});

test("an outage is waited out, and Retry-After is the least", async () => {
  const errors: unknown[] = [];
  fake.publish(1);
  fake.reply = () => {
    if (fake.asked.length === 1) return { status: 503, code: "redis_unavailable", retryAfter: 1 };
    return fake.asked.length < 4 ? "break" : undefined;
  };
  let handled = false;
  await working({ handler: () => void (handled = true), onError: (error) => errors.push(error) }, () =>
    until(() => handled, "handled"),
  );
  assert.ok(fake.asked[1]!.at - fake.asked[0]!.at >= 990);
  assert.equal(errors.length, 3);
});

test("a refusal whose errors are none ends no worker", async () => {
  let handled = false;
  fake.publish(1);
  fake.reply = () => (fake.asked.length === 1 ? { status: 503, code: "overloaded", errors: [null] } : undefined);
  await working({ handler: () => void (handled = true) }, () => until(() => handled, "handled"));
});

test("an answer that is not dueq's ends no worker", async () => {
  const errors: string[] = [];
  let handled = false;
  fake.publish(1);
  const odd = [null, {}, { messages: [null] }, { messages: [{ id: "m1", lease_token: "x" }], acks: null }];
  fake.reply = () => (odd.length > 0 ? { json: odd.shift() } : undefined);
  const onError = (error: unknown): void => void errors.push((error as Error).name);
  await working({ handler: () => void (handled = true), onError }, () => until(() => handled, "handled"));
  assert.deepEqual(errors, Array(4).fill("UnexpectedAnswer"));
});

test("a long Retry-After silences a worker for a minute at most", async (t) => {
  const timers = t.mock.method(globalThis, "setTimeout").mock;
  fake.reply = () => ({ status: 503, code: "overloaded", retryAfter: 3600 });
  // A request's own time-out is 30 s.
  const waits = (): number[] => timers.calls.map(({ arguments: [, ms] }) => ms ?? 0).filter((ms) => ms > 31_000);
  await working({}, () => until(() => waits().length > 0, "a long wait"));
  assert.ok(
    waits().every((ms) => ms <= 60_000),
    String(waits()),
  );
  assert.equal(fake.asked.length, 1);
});

test("a second signal kills, unless it comes with the first", async () => {
  fake.publish({});
  const words = [fileURLToPath(new URL("main.js", import.meta.url)), "lose", "--server", client.server, "--topic", "t"];
  const child = spawn(process.execPath, words, { stdio: "ignore" });
  try {
    await until(() => fake.asked.length >= 2, "a message is there, and the next asked for");
    child.kill("SIGINT");
    await sleep(10);
    child.kill("SIGINT");
    await sleep(200);
    assert.equal(child.signalCode, null);
    await until(() => child.signalCode !== null || (child.kill("SIGINT"), false), "the end");
    assert.equal(child.signalCode, "SIGINT");
  } finally {
    child.kill("SIGKILL");
  }
});

test("a lease is extended, and its loss is told; a waiting message of a lost lease never begins", async () => {
  fake.leaseMs = 1000;
  fake.publish("runs", "waits");
  const begun: unknown[] = [];
  const lost: string[] = [];
  let reason: unknown;
  fake.reply = ({ path, body }) => {
    if (!path.endsWith("/extend") || fake.lines("/extend").length < 6) return undefined;
    return { json: { results: body.messages.map(({ id }: any) => ({ id, status: "lease_lost" })) } };
  };
  const handler: WorkerOptions["handler"] = async ({ payload }, { signal }) => {
    begun.push(payload);
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    reason = signal.reason;
  };
  await working({ handler, concurrency: 1, prefetch: 2, onLost: ({ id }) => lost.push(id) }, async () => {
    await sleep(800);
    assert.deepEqual(lost, []);
    await until(() => lost.length === 2, "both lost");
    await sleep(20);
  });
  assert.ok(reason instanceof LeaseLost);
  assert.deepEqual(begun, ["runs"]);
  assert.equal(fake.lines("/ack").length + fake.lines("/nack").length, 0);
});

test("without an answer a lease ends when it ends", async () => {
  fake.leaseMs = 1000;
  fake.publish(1);
  fake.reply = ({ path }) => (path.endsWith("/extend") ? "hang" : undefined);
  let context: { lost: boolean } | undefined;
  let aborted = 0;
  const handler: WorkerOptions["handler"] = async (_, given) => {
    context = given;
    const began = performance.now();
    await new Promise((resolve) => given.signal.addEventListener("abort", resolve));
    aborted = performance.now() - began;
  };
  await working({ handler }, () => until(() => aborted > 0, "aborted"));
  assert.ok(aborted > 900 && aborted < 1500, `after ${aborted} ms`);
  assert.ok(context?.lost);
});

test("stopping gives back what has not begun, lets the rest finish, and cancels what takes too long", async () => {
  fake.publish(1, 2, 3, 4);
  const begun: unknown[] = [];
  let reason: unknown;
  const handler: WorkerOptions["handler"] = async ({ payload }, { signal }) => {
    begun.push(payload);
    if (payload === 1) return sleep(100);
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    reason = signal.reason;
    return undefined;
  };
  await working({ handler, concurrency: 2, prefetch: 4, stopTimeoutMs: 300 }, async () => {
    await until(() => begun.length === 2, "two begun");
    await until(() => fake.asked.length >= 1, "asked");
  });
  assert.deepEqual(begun, [1, 2]);
  assert.ok(reason instanceof StopTimeout);
  assert.deepEqual(
    fake.lines("/ack").map(({ id }) => id),
    ["m1"],
  );
  const released = fake.lines("/nack").filter(({ release }) => release);
  assert.deepEqual(released.map(({ id }) => id).sort(), ["m2", "m3", "m4"]);
});

test("a worker that is aborted before it runs leases nothing", async () => {
  const worker = new Worker(client, { topic: "t", handler: () => {}, signal: AbortSignal.abort() });
  await worker.run();
  assert.equal(fake.asked.length, 0);
});

test("without hooks, failed handlers and the two ends of an outage are written to the console", async (t) => {
  const errors = t.mock.method(console, "error", () => {}).mock;
  const warnings = t.mock.method(console, "warn", () => {}).mock;
  const lines = (of: typeof errors): string[] => of.calls.map((call) => call.arguments.join(" "));
  const mistake = new TypeError("x is not a function");
  const thrown = [mistake, new Error("boom"), new RetryIn(5, "busy"), new Dead("never")];
  fake.publish(...thrown.keys());
  let awayAt = 0;
  fake.reply = ({ at }) => {
    if (fake.asked.length === 1) return undefined;
    awayAt ||= at;
    return at < awayAt + 400 ? "break" : undefined;
  };
  const handler: WorkerOptions["handler"] = ({ payload }) => {
    throw thrown[payload];
  };
  await working({ handler, concurrency: 1, onError: undefined }, async () => {
    await until(() => errors.callCount() === thrown.length - 1 && warnings.callCount() === 2, "all is written");
    thrown.push(new RetryIn(5, "busy"));
    fake.attemptsLeft = 0;
    fake.publish(thrown.length - 1);
    await until(() => errors.callCount() === thrown.length - 1, "the last attempt is written of");
  });
  assert.deepEqual(errors.calls[0]!.arguments, ["dueq: handler failed: topic t, message m1, attempt 1:", mistake]);
  assert.deepEqual(lines(errors).slice(1), [
    "dueq: handler failed: topic t, message m2, attempt 1: boom",
    "dueq: handler gave it up: topic t, message m4, attempt 1: never",
    "dueq: handler failed: topic t, message m5, attempt 1: busy",
  ]);
  const [away, back] = lines(warnings);
  assert.match(away!, /^dueq: cannot reach http:\S+, retrying: (read ECONNRESET|socket hang up)$/);
  assert.equal(back, `dueq: ${client.server} answers again`);
});

test("hooks take the place of the console, and are told the end of an outage", async (t) => {
  const written = [t.mock.method(console, "error", () => {}), t.mock.method(console, "warn", () => {})];
  const told: string[] = [];
  fake.publish(1);
  fake.reply = () => (fake.asked.length <= 2 ? "break" : undefined);
  const hooks: Partial<WorkerOptions> = {
    onError: (error) => told.push((error as Error).name),
    onRecovered: () => told.push("recovered"),
    onFailed: (_, error) => told.push(error instanceof Dead ? "dead" : "other"),
    handler: () => {
      throw new Dead();
    },
  };
  await working(hooks, () => until(() => told.length === 4, "all told"));
  assert.deepEqual(told, ["ConnectError", "ConnectError", "recovered", "dead"]);
  assert.equal(written[0]!.mock.callCount() + written[1]!.mock.callCount(), 0);
});

test("several topics are leased from with one request", async () => {
  const seen: unknown[] = [];
  fake.publish("urgent");
  await working({ topic: ["urgent", "bulk"], handler: ({ payload }) => void seen.push(payload) }, () =>
    until(() => seen.length === 1 && fake.asked.length > 1, "handled"),
  );
  const [first] = fake.asked;
  assert.equal(first!.path, "/lease");
  assert.deepEqual(first!.body.topics, ["urgent", "bulk"]);
  assert.throws(() => new Worker(client, { topic: [], handler: () => {} }), TypeError);
});

const leases = (): any[] => fake.asked.filter(({ path }) => path.endsWith("/lease")).map(({ body }) => body);

const PAIRS = ["1 1", "2 1", "3 1", "5 1", "10 1", "40 1", "1 3", "4 3", "10 50"];
for (const [concurrency, prefetch] of PAIRS.map((pair) => pair.split(" ").map(Number) as [number, number])) {
  for (const untilEmpty of [false, true]) {
    test(`none of ${concurrency} handlers is idle, prefetch ${prefetch}, untilEmpty ${untilEmpty}`, async () => {
      const running: (() => void)[] = [];
      let asked = 0;
      let most = 0;
      const own: typeof fetch = async (url, init) => {
        const count = JSON.parse(String(init!.body)).max_messages ?? 0;
        asked += count;
        most = Math.max(most, asked + running.length);
        return fetch(url, init).finally(() => (asked -= count));
      };
      const handler = (): Promise<void> => new Promise((resolve) => running.push(resolve));
      client = new Client({ server: client.server, fetch: own });
      const worker = new Worker(client, { topic: "t", handler, concurrency, prefetch });
      const total = 4 * concurrency + prefetch;
      fake.publish(...Array(total).keys());
      const run = worker.run({ untilEmpty });
      for (let round = 0; round < 2; round++) {
        for (let left = total; left > 0; ) {
          await until(() => running.length === Math.min(concurrency, left), `all busy, ${left} left`);
          const ended = running.splice(0, 1 + (left % 7));
          left -= ended.length;
          // In the second round of a worker that ends by itself there is nothing to come after the last.
          if (left === 0 && round === 0) fake.publish(...Array(total).keys());
          for (const end of ended) end();
        }
      }
      if (!untilEmpty) await worker.stop();
      await run;
      // Acks that rode on a request that the stop cut off are sent again.
      const acked = new Set([...fake.lines("/ack"), ...fake.lines("/lease")].map(({ id }) => id));
      assert.equal(acked.size, 2 * total);
      if (prefetch === 1) assert.ok(most <= concurrency, `${most} at once`);
    });
  }
}

test("a lease request asks for the handlers that are free, a quarter of all at most", async () => {
  const running: (() => void)[] = [];
  const sizes = (from: number): number[] => leases().slice(from).map(({ max_messages }) => max_messages);
  fake.publish(...Array(40).keys());
  const handler = (): Promise<void> => new Promise((resolve) => running.push(resolve));
  await working({ handler, concurrency: 40 }, async () => {
    await until(() => running.length === 40, "all busy");
    await sleep(20);
    assert.deepEqual(sizes(0), [10, 10, 10, 10]);
    for (const end of running.splice(0, 7)) end();
    await until(() => leases().length > 4, "a request for what is free");
    await sleep(20);
    assert.deepEqual(sizes(4), [7]);
    fake.publish(...Array(7).keys());
    await until(() => running.length === 40, "all busy again");
    for (const end of running) end();
  });
});

test("a worker does not end before it knows that nothing became ready while it asked", async () => {
  const tries: unknown[] = [];
  let retried: (() => void) | undefined;
  fake.publish("retried");
  fake.reply = async ({ path, body }) => {
    if (path.endsWith("/nack")) {
      fake.publish("retried");
      setTimeout(() => retried?.(), 50);
    } else if (path.endsWith("/lease") && leases().length === 2) {
      // It finds nothing, and its answer comes only after that of the nack.
      await new Promise<void>((resolve) => (retried = resolve));
      return { json: { messages: [], acks: [] } };
    }
    return undefined;
  };
  const handler: WorkerOptions["handler"] = async ({ payload }) => {
    tries.push(payload);
    await until(() => leases().length >= 2, "a request while it runs");
    if (tries.length === 1) throw new RetryIn(0, "busy");
  };
  await new Worker(client, { topic: "t", handler, concurrency: 2, onFailed: () => {} }).run({ untilEmpty: true });
  assert.deepEqual(tries, ["retried", "retried"]);
});

test("a worker that ends by itself throws what it is refused with, and waits out what passes", async () => {
  const worker = (): Worker => new Worker(client, { topic: "t", handler: () => {}, onError: () => {} });
  fake.reply = () => (fake.asked.length < 3 ? { status: 503, code: "redis_unavailable" } : undefined);
  await worker().run({ untilEmpty: true });
  assert.equal(fake.asked.length, 3);
  fake.reply = () => ({ status: 401, code: "unauthorized" });
  await assert.rejects(worker().run({ untilEmpty: true }), ProblemError);
  await assert.rejects(worker().run({ untilempty: true } as object), /no option is called untilempty/);
});

test("what a handler publishes keeps the trace of its message", async () => {
  fake.publish(1, 2);
  const handler: WorkerOptions["handler"] = async ({ payload }) => {
    await sleep(5);
    if (payload === 1) await client.publish("next", payload);
    else await client.publishBatch("next", [{ payload, headers: { a: "b", TraceParent: "own" } }]);
  };
  const sent = (): any[] => fake.asked.filter(({ path }) => path.startsWith("/topics/next/"));
  await working({ handler, concurrency: 1 }, () => until(() => sent().length === 2, "both published"));
  await client.publish("next", 3);
  const headers = sent().map(({ body }) => (body.messages?.[0] ?? body).headers);
  assert.deepEqual(headers, [{ traceparent: "trace of m1" }, { a: "b", TraceParent: "own" }, undefined]);
});

test("middleware runs around every handler, the first outermost, and sees what it returned or threw", async () => {
  fake.publish(1, 2);
  const seen: unknown[] = [];
  const layer =
    (name: string): Middleware =>
    async ({ payload }, { lost }, next) => {
      seen.push(`${name} ${payload} ${lost}`);
      const result = await next().catch((error: Error) => {
        seen.push(`${name} ${error.message}`);
        throw error;
      });
      seen.push(`${name} ${result}`);
      return result;
    };
  const handler: WorkerOptions["handler"] = ({ payload }) => {
    if (payload === 2) throw new Error("boom");
    return "done";
  };
  await working({ middleware: [layer("a"), layer("b")], handler, concurrency: 1, onFailed: () => {} }, () =>
    until(() => fake.lines("/nack").length === 1 && fake.asked.length > 2, "both settled"),
  );
  const [first, second] = [seen.slice(0, 4), seen.slice(4)];
  assert.deepEqual(first, ["a 1 false", "b 1 false", "b done", "a done"]);
  assert.deepEqual(second, ["a 2 false", "b 2 false", "b boom", "a boom"]);
  assert.equal(fake.lines("/nack")[0].reason, "boom");
});

test("middleware decides: it may skip the handler, throw in its place, and hide what it threw", async () => {
  fake.publish("skip", "dead", "hide", "later");
  const handled: unknown[] = [];
  const middleware: Middleware[] = [
    async ({ payload }, _, next) => {
      if (payload === "skip") return;
      if (payload === "dead") throw new Dead("no such order");
      if (payload === "hide") await next().catch(() => {});
      else await next();
      if (payload === "later") throw new RetryIn(5, "later");
    },
  ];
  const handler: WorkerOptions["handler"] = ({ payload }) => {
    handled.push(payload);
    if (payload === "hide") throw new Error("boom");
  };
  const done: unknown[] = [];
  const hooks: Partial<WorkerOptions> = { onDone: ({ payload }) => done.push(payload), onFailed: () => {} };
  await working({ middleware, handler, concurrency: 1, ...hooks }, () =>
    until(() => fake.lines("/nack").length === 2 && done.length === 2, "all settled"),
  );
  assert.deepEqual(handled, ["hide", "later"]);
  assert.deepEqual(done, ["skip", "hide"]);
  const nacks = fake.lines("/nack").map(({ id, lease_token, ...rest }) => rest);
  assert.deepEqual(nacks, [
    { reason: "no such order", dead: true },
    { reason: "later", delay_ms: 5 },
  ]);
  assert.throws(
    () => new Worker(client, { topic: "t", handler, middleware: [1 as any] }),
    /a middleware is a function/,
  );
});

test("a message is not acked before its handler returned, though its middleware did not wait for it", async () => {
  fake.publish("slow", "fails");
  let returned = 0;
  const acked = (): number => fake.lines("/ack").length + fake.lines("/lease").length;
  const handler: WorkerOptions["handler"] = async ({ payload }) => {
    await sleep(50);
    if (payload === "fails") throw new Error("boom");
    assert.equal(acked(), 0);
    returned = performance.now();
  };
  const middleware: Middleware[] = [(_message, _context, next) => void next()];
  await working({ middleware, handler, onFailed: () => {} }, () =>
    until(() => acked() === 1 && fake.lines("/nack").length === 1, "both settled"),
  );
  assert.ok(returned > 0);
  assert.equal(fake.lines("/nack")[0].reason, "boom");
});

test("a worker goes by its client's own fetch, and bears its failures", async () => {
  const seen: string[] = [];
  const own: typeof fetch = async (url, init) => {
    seen.push(String(url));
    return fetch(url, init);
  };
  client = new Client({ server: client.server, apiKey: "secret", fetch: own });
  fake.publish(1);
  const errors: string[] = [];
  const texts = ["", "<html>"];
  fake.reply = () =>
    texts.length > 0 ? { status: 200, text: texts.pop()! } : fake.asked.length === 3 ? "break" : undefined;
  let handled = false;
  const options: Partial<WorkerOptions> = {
    handler: () => void (handled = true),
    onError: (error) => errors.push((error as Error).name),
  };
  await working(options, () => until(() => handled, "handled"));
  assert.deepEqual(errors, ["UnexpectedAnswer", "UnexpectedAnswer", "ConnectError"]);
  assert.ok(seen.length >= 4 && seen.every((url) => url.startsWith(client.server)));
  assert.equal(fake.asked.at(-1)!.headers.authorization, "Bearer secret");

  fake.reply = () => ({ status: 401, code: "unauthorized" });
  await assert.rejects(new Worker(client, { topic: "t", handler: () => {} }).run(), ProblemError);
});
