/** The dueq in memory that users' tests run against; run by `node --test`. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Dead, type Handler, ProblemError, RetryIn, Worker, type WorkerOptions } from "dueq";
import { TestServer } from "dueq/testing";
import { steps } from "./steps.js";

/** What a real dueq is held to; `DIFFERENT` is what the one in memory does not have. */
const STEPS = process.env["STEPS"]!;
const DIFFERENT: Record<string, object> = {
  configure: { error: "PUT /topics/T-config" },
  reset: { error: "PATCH /topics/T-config" },
  pause: { error: "POST /topics/T-config/pause" },
  list: { names: [] },
  drop: { error: "DELETE /topics/T-config" },
  callback_refused: { error: "the request was not refused" },
  schedule: { error: "PUT /schedules/T" },
  trigger: { error: "POST /schedules/T/trigger" },
  payload: { error: "GET /messages/ID/payload" },
  put_schedule: { error: "PUT /schedules/T" },
  run_schedule: { error: "GET /schedules" },
  delete_schedule: { error: "DELETE /schedules/T" },
  put_topic: { error: "PUT /topics/T-own" },
  put_group: { error: "PUT /topics/T-own/groups/customer-7" },
  delete_topic: { error: "DELETE /topics/T-own" },
};

const hour = 3_600_000;

async function working(
  server: TestServer,
  handler: Handler<any>,
  during: () => Promise<void>,
  options: Partial<WorkerOptions> = {},
): Promise<void> {
  const worker = new Worker(server.client(), { topic: "t", handler, waitMs: 50, ...options });
  const run = worker.run();
  try {
    await during();
  } finally {
    await worker.stop();
    await run;
  }
}

async function until(what: string, condition: () => boolean): Promise<void> {
  for (const began = performance.now(); !condition(); await sleep(2)) {
    assert.ok(performance.now() - began < 8000, `never: ${what}`);
  }
}

test("repeats become one message, as their policy says", async () => {
  const server = new TestServer();
  const client = server.client();
  for (const n of [0, 1, 2]) {
    await client.publish("t", n, { debounce: { key: "d", delayMs: hour, maxWaitMs: 2 * hour } });
    await client.publish("t", `throttled ${n}`, { throttle: { key: "k", everyMs: hour } });
    await client.publish("t", `once ${n}`, { once: { key: "o", forMs: hour } });
  }
  const payloads = server.messages("t").map(({ payload }) => payload);
  assert.deepEqual(payloads, [2, "throttled 0", "once 0", "throttled 2"]);
  server.advance(hour);
  const last = await client.publish("t", 3, { debounce: { key: "d", delayMs: 5 * hour, maxWaitMs: 2 * hour } });
  assert.equal(Date.parse(last.due_at!) - Date.parse(last.published_at), 2 * hour);
  assert.equal((await client.publish("t", "once more", { once: { key: "o", forMs: hour } })).duplicate, false);
  assert.equal((await client.publish("t", "next", { throttle: { key: "k", everyMs: hour } })).duplicate, false);
  await assert.rejects(client.publish("t", 1, { once: { key: "o", lasting: 1 } as never }), TypeError);
  await assert.rejects(client.publish("t", 1, { key: "a", once: { key: "o", forMs: 1 } }), ProblemError);
});

test("it takes the steps that a real one takes, but for what it says that it does not have", async () => {
  const wanted = readFileSync(STEPS, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  const taken: object[] = [];
  await steps(new TestServer().client(), "T", async (step, take) => {
    const missing = ({ message }: Error) => ({ error: message.replace(/^501 not_supported: .* has no /, "").replace(/[0-9a-f-]{36}/, "ID") });
    taken.push({ step, ...(await take().catch(missing)) });
  });
  assert.deepEqual(
    taken,
    wanted.map(({ step, ...fields }) => ({ step, ...(DIFFERENT[step] ?? fields) })),
  );
});

test("a message is due when the clock says so", async () => {
  const server = new TestServer();
  const client = server.client();
  await client.publish("t", 1, { delayMs: hour / 2, key: "1" });
  await client.publish("t", 2, { delayMs: hour, key: "2" });
  const handled: unknown[] = [];
  const handler = ({ payload }: { payload: unknown }): void => void handled.push(payload);
  await working(server, handler, async () => {
    server.advance(hour / 2 - 1000);
    assert.deepEqual(
      server.messages("t").map(({ state }) => state),
      ["delayed", "delayed"],
    );
    server.advance(1000);
    await until("the first", () => handled.length === 1);
    assert.equal(await client.key("t", "2").reschedule({ delayMs: 0 }), true);
    await until("both gone", () => server.messages("t").length === 0);
  });
  assert.deepEqual(handled, [1, 2]);
  assert.equal(await client.key("t", "2").cancel(), false);
});

test("handlers fail as they do with dueq", async () => {
  const server = new TestServer();
  const client = server.client();
  const results = await client.publishBatch("t", [
    { payload: "later" },
    { payload: "dead" },
    { payload: "poor", maxAttempts: 1 },
    { payload: "fixed", backoff: { kind: "fixed", base_ms: hour } },
    { payload: "first", priority: 9 },
  ]);
  assert.ok(results.every(({ status }) => status === "ok"));
  const tries: string[] = [];
  const handler: Handler<any> = async ({ payload, attempt }) => {
    tries.push(`${payload} ${attempt}`);
    if (payload === "later" && attempt === 1) throw new RetryIn(hour, "busy");
    if (payload === "dead") throw new Dead("no such order");
    if (payload === "poor" || (payload === "fixed" && attempt === 1)) throw new Error("failed");
  };
  const states = (): string[] =>
    server.messages("t").map(({ payload, state, last_error }) => `${payload} ${state} ${last_error}`);
  const failed = ["later delayed busy", "dead dead no such order", "poor dead failed", "fixed delayed failed"];
  const quiet = { concurrency: 1, onFailed: () => {} };
  await working(
    server,
    handler,
    async () => {
      await until("all tried", () => states().join() === failed.join());
      server.advance(hour);
      await until("tried again", () => states().length === 2);
    },
    quiet,
  );
  assert.deepEqual(tries, ["first 1", "later 1", "dead 1", "poor 1", "fixed 1", "later 2", "fixed 2"]);

  const dead: unknown[] = [];
  for await (const { payload } of client.dead("t")) dead.push(payload);
  assert.deepEqual(dead, ["dead", "poor"]);
  assert.equal(await client.redrive("t", 1), 1);
  assert.deepEqual(states(), ["dead ready no such order", "poor dead failed"]);
});

test("untilEmpty takes in what handlers publish and what is retried at once, and leaves nothing unsaid", async () => {
  const server = new TestServer();
  const client = server.client();
  await client.publishBatch("t", [...Array(100).keys()].map((payload) => ({ payload })));
  const handled: number[] = [];
  const handler: Handler<number> = async ({ payload, attempt }) => {
    if (payload % 10 === 0 && attempt === 1) throw new RetryIn(0, "busy");
    handled.push(payload);
    if (payload >= 103) throw new Dead("enough");
    if (payload >= 97) await client.publish("t", payload + 3);
  };
  const options = { topic: "t", handler, concurrency: 3, onFailed: () => {} };
  await new Worker(client, options).run({ untilEmpty: true });
  assert.deepEqual(handled.sort((a, b) => a - b), [...Array(106).keys()]);
  assert.deepEqual(server.messages("t").map(({ state }) => state), ["dead", "dead", "dead"]);
});

test("untilEmpty ends at once where there is nothing, and works what a handler waits for", async () => {
  const client = new TestServer().client();
  const began = performance.now();
  await new Worker(client, { topic: "none", handler: () => {} }).run({ untilEmpty: true });
  assert.ok(performance.now() - began < 1000);
  const answers: unknown[] = [];
  const handler: Handler<string> = async ({ payload }) => {
    if (payload === "question") {
      // Published when the worker has found nothing already.
      await sleep(100);
      await client.publish("t", "answer");
      await until("the answer", () => answers.length > 0);
    }
    answers.push(payload);
  };
  await client.publish("t", "question");
  await new Worker(client, { topic: "t", handler }).run({ untilEmpty: true });
  assert.deepEqual(answers, ["answer", "question"]);
});

test("keys, and leases, are kept", async () => {
  const server = new TestServer();
  const client = server.client({ retries: false });
  const refused = (code: string) => (error: unknown) => error instanceof ProblemError && error.code === code;
  const once = { key: "k", idempotencyKey: "i" };
  const { id } = await client.publish("t", 1, once);
  assert.equal((await client.publish("t", 1, once)).id, id);
  await assert.rejects(client.publish("t", 2, once), refused("idempotency_key_reused"));
  assert.equal((await client.publish("t", 2, { key: "k" })).id, id);
  await assert.rejects(client.publish("t", 2, { key: "k", onDuplicate: "reject" }), refused("duplicate_key"));
  await assert.rejects(client.publish("t", 2, { onDuplicate: "reject" }), refused("invalid_input"));
  assert.equal((await client.publish("t", 3, { key: "k", onDuplicate: "replace" })).id, id);
  assert.equal(server.messages("t")[0]!.payload, 3);

  const { messages } = await client.leases.leaseFromTopics({ body: { topics: ["none", "t"] } });
  await assert.rejects(client.key("t", "k").cancel(), refused("message_leased"));
  await assert.rejects(client.publish("t", 4, { key: "k", onDuplicate: "replace" }), refused("message_leased"));
  server.advance(31_000);
  const { lease_token } = messages[0]!;
  await assert.rejects(client.leases.ackMessage({ id, body: { lease_token } }), refused("lease_lost"));
  assert.equal(server.messages("t")[0]!.state, "ready");
  server.advance(600_000);
  assert.equal((await client.publish("t", 5, once)).duplicate, true);

  await client.callback("http://example.com/");
  assert.equal(server.messages("_callbacks")[0]!.callback!.url, "http://example.com/");
  const names: string[] = [];
  for await (const { name } of client.listTopics()) names.push(name);
  assert.deepEqual(names, ["_callbacks", "t"]);
  await assert.rejects(client.redrive("none"), refused("topic_not_found"));
  await assert.rejects(client.publish("a/b", 1), refused("invalid_topic_name"));
  await assert.rejects(client.schedules.listSchedules({}), refused("not_supported"));
});

test("nobody waits for a message that a request given up would take", async () => {
  const server = new TestServer();
  const client = server.client();
  const controller = new AbortController();
  const waits = client.leases.leaseMessages({ topic: "t", body: { wait_ms: 60_000 } }, { signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(waits, /enough/);
  await client.publish("t", 1);
  assert.equal(server.messages("t")[0]!.state, "ready");
});
