/** The client where it is hard: no answers, broken connections, refusals, forged webhooks; run by `node --test`. */

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { afterEach, beforeEach, test } from "node:test";
import { inspect } from "node:util";
import { Client, ConnectError, ProblemError, TimeoutError, UnexpectedAnswer, webhooks, Worker } from "dueq";
import { type Asked, Fake, type Reply } from "./fake.js";

let fake: Fake;
let server: string;
let client: Client;

beforeEach(async () => {
  fake = new Fake();
  server = await fake.start();
  client = new Client({ server });
});
afterEach(() => fake.stop());

const published = { id: "m1", topic: "t", state: "ready", published_at: "2026-01-01T00:00:00.000Z", duplicate: false };

/** Answers in this order; the last again and again. */
function replies(...list: Reply[]): void {
  fake.reply = () => (list.length > 1 ? list.shift() : list[0]);
}

const unavailable: Reply = { status: 503, code: "redis_unavailable" };
const unknown: Reply = { status: 503, code: "outcome_unknown" };
const notFound: Reply = { status: 404, code: "message_not_found" };

test("a server that never answers is a time-out that names URL and operation", async () => {
  replies("hang");
  const impatient = new Client({ server, timeoutMs: 400, retries: false });
  await assert.rejects(impatient.publish("t", 1), (error) => {
    assert.ok(error instanceof TimeoutError);
    assert.equal(error.url, server);
    assert.equal(error.operation, "POST /topics/t/messages");
    assert.match(error.message, /400 ms/);
    return true;
  });
  await assert.rejects(client.topics.pauseTopic({ topic: "t" }, { timeoutMs: 400 }), TimeoutError);
  assert.equal(fake.asked.length, 2);
});

test("a lease request that waits has its wait on top of the time-out", async () => {
  const impatient = new Client({ server, timeoutMs: 1000 });
  const { messages } = await impatient.leases.leaseMessages({ topic: "t", body: { wait_ms: 1200 } });
  assert.deepEqual(messages, []);
});

test("a call that is aborted ends with its signal's reason, also between repeats", async () => {
  const reason = new Error("enough");
  for (const reply of ["hang", unavailable] as const) {
    replies(reply);
    const controller = new AbortController();
    setTimeout(() => controller.abort(reason), 50);
    await assert.rejects(client.publish("t", 1, {}, { signal: controller.signal }), (error) => error === reason);
  }
});

test("a publish is repeated with the same key until it is answered", async () => {
  replies(
    "break",
    unavailable,
    unknown,
    { status: 429, code: "rate_limited" },
    { status: 502, text: "<html>" },
    {
      json: published,
    },
  );
  assert.deepEqual(await client.publish("t", { n: 1 }), published);
  const keys = new Set(fake.asked.map(({ body }) => body.idempotency_key));
  assert.equal(fake.asked.length, 6);
  assert.equal(keys.size, 1);
  assert.match([...keys][0], /^[0-9a-f-]{36}$/);
  await client.publish("t", { n: 1 });
  assert.ok(!keys.has(fake.asked.at(-1)!.body.idempotency_key));
});

test("Retry-After is the least; one beyond the deadline, and a refusal, are thrown at once", async () => {
  replies({ ...unavailable, retryAfter: 1 }, { json: published });
  await client.publish("t", 1);
  assert.ok(fake.asked[1]!.at - fake.asked[0]!.at >= 990);
  replies({ ...unavailable, retryAfter: 60 });
  await assert.rejects(client.publish("t", 1), ProblemError);
  assert.equal(fake.asked.length, 3);
  replies({ status: 409, code: "duplicate_key" });
  await assert.rejects(client.publish("t", 1, { key: "k" }), ProblemError);
  assert.equal(fake.asked.length, 4);
});

test("the deadline ends the repeats, with the last error", async () => {
  replies("break");
  const began = performance.now();
  await assert.rejects(client.publish("t", 1, {}, { deadlineMs: 500 }), ConnectError);
  assert.ok(performance.now() - began < 2000);
  assert.ok(fake.asked.length > 1);
});

test("without retries nothing is repeated, and no key is made up", async () => {
  replies("break");
  await assert.rejects(new Client({ server, retries: false }).publish("t", 1), ConnectError);
  assert.equal(fake.asked.length, 1);
  assert.ok(!("idempotency_key" in fake.asked[0]!.body));
  replies(unknown, { json: published });
  await new Client({ server, retries: false }).publish("t", 1, {}, { deadlineMs: 5000 });
  assert.equal(fake.asked[1]!.body.idempotency_key, fake.asked[2]!.body.idempotency_key);
  assert.ok("idempotency_key" in fake.asked[1]!.body);
});

test("a message of a group is repeated with its key too", async () => {
  replies(unknown, { json: published });
  await client.publish("t", 1, { group: "g" });
  assert.equal(fake.asked.length, 2);
  assert.equal(fake.asked[0]!.body.idempotency_key, fake.asked[1]!.body.idempotency_key);
  assert.ok(fake.asked.every(({ body }) => body.group === "g" && "idempotency_key" in body));
  replies({ json: { results: [{ status: "outcome_unknown" }, { status: "ok" }] } }, { json: { results: [{ status: "ok" }] } });
  fake.asked.length = 0;
  const results = await client.publishBatch("t", [{ payload: 1, group: "g" }, { payload: 2 }]);
  assert.deepEqual(results.map(({ status }) => status), ["ok", "ok"]);
  assert.deepEqual(fake.asked.map(({ body }) => body.messages.map((line: any) => line.payload)), [[1, 2], [1]]);
});

test("a call's deadline decides over keys and repeats of a batch and a callback too", async () => {
  const batch = { json: { results: [{ status: "outcome_unknown" }] } };
  const lines = (): any[] => fake.asked.flatMap(({ body }) => body.messages ?? [body]);
  const off = new Client({ server, retries: false });
  replies(batch, { json: { results: [{ status: "ok" }] } });
  const [result] = await off.publishBatch("t", [{ payload: 1 }], { deadlineMs: 5000 });
  assert.equal(result!.status, "ok");
  replies(unknown, { json: published });
  await off.callback("https://example.com/", 1, {}, { deadlineMs: 5000 });
  const keys = lines().map(({ idempotency_key }) => idempotency_key);
  assert.equal(keys.length, 4);
  assert.ok(keys.every((key) => typeof key === "string"));
  assert.ok(keys[0] === keys[1] && keys[2] === keys[3]);

  fake.asked.length = 0;
  replies(batch);
  await client.publishBatch("t", [{ payload: 1 }], { deadlineMs: 0 });
  replies(unknown);
  await assert.rejects(client.callback("https://example.com/", 1, {}, { deadlineMs: 0 }), ProblemError);
  assert.equal(lines().length, 2);
  assert.ok(lines().every((line) => !("idempotency_key" in line)));
});

test("a call may have all the time of the world, and no time that is none", async () => {
  for (const timeoutMs of [Infinity, 1e12]) {
    assert.deepEqual(await client.leases.leaseMessages({ topic: "t", body: { wait_ms: 50 } }, { timeoutMs }), {
      messages: [],
      acks: [],
    });
  }
  fake.asked.length = 0;
  replies("break");
  for (const call of [{ timeoutMs: NaN }, { timeoutMs: 0 }, { deadlineMs: NaN }, { deadlineMs: -1 }]) {
    await assert.rejects(client.publish("t", 1, {}, call), /(timeout|deadline)Ms is a number of milliseconds from/);
    await assert.rejects(client.messages.getMessage({ id: "m1" }, call), RangeError);
  }
  assert.equal(fake.asked.length, 0);
});

test("a long Retry-After is waited for, with a deadline without end", async () => {
  const reason = new Error("enough");
  const controller = new AbortController();
  fake.reply = () => {
    setTimeout(() => controller.abort(reason), 100);
    return { status: 503, code: "redis_unavailable", retryAfter: 3_000_000 };
  };
  const call = { deadlineMs: Infinity, signal: controller.signal };
  await assert.rejects(client.publish("t", 1, {}, call), (error) => error === reason);
  assert.equal(fake.asked.length, 1);
});

test("what is not safe to repeat is sent once", async () => {
  replies("break");
  for (const call of [
    () => client.leases.leaseMessages({ topic: "t" }),
    () => client.redrive("t"),
    () => client.redriveMessage("m1"),
    () => client.messages.publishMessage({ topic: "t", body: { payload: 1 } }),
    () => client.topics.putTopic({ topic: "t", body: {} }),
    () => client.topics.deleteTopic({ topic: "t" }),
    () => client.service.getReadiness(),
  ]) {
    await assert.rejects(call(), ConnectError);
  }
  assert.equal(fake.asked.length, 7);
});

test("what is safe to repeat is repeated", async () => {
  const answers: Reply[] = [];
  fake.reply = ({ method }: Asked) => {
    if (answers.length === 0)
      answers.push("break", { json: method === "GET" ? { items: [] } : { id: "m1", results: [] } });
    return answers.shift();
  };
  const body = { lease_token: "x" };
  await client.messages.getMessage({ id: "m1" });
  await client.topics.listTopics({ prefix: "a" });
  await client.service.getOpenapi();
  await client.messages.updateMessage({ id: "m1", body: { priority: 1 } });
  await client.key("t", "a/b ü").reschedule({ delayMs: 1.5 });
  await client.leases.ackMessage({ id: "m1", body });
  await client.leases.nackMessage({ id: "m1", body });
  await client.leases.extendLease({ id: "m1", body: { ...body, lease_ms: 1000 } });
  await client.leases.ackBatch({ body: { messages: [{ id: "m1", ...body }] } });
  await client.messages.publishMessage({ topic: "t", body: { payload: 1, idempotency_key: "own" } });
  await client.messages.publishMessage({ topic: "t", body: { payload: 1 }, idempotency_key_header: "own" });
  await client.callback("https://example.com/");
  assert.equal(fake.asked.length, 24);
  const moved = fake.asked.find(({ path }) => path.includes("/keys/"))!;
  assert.equal(moved.path, "/topics/t/keys/a%2Fb%20%C3%BC");
  assert.deepEqual(moved.body, { delay_ms: 2 });
  assert.deepEqual(Object.keys(fake.asked.at(-1)!.body).sort(), ["idempotency_key", "url"]);
});

test("a cancel whose answer was lost is done when the message is gone; one that nobody heard is not", async () => {
  for (const lost of ["break", unknown] as const) {
    replies(lost, notFound);
    assert.equal(await client.key("t", "k").cancel(), true);
  }
  replies(unavailable, notFound);
  assert.equal(await client.key("t", "k").cancel(), false);
  replies("break", notFound);
  await client.leases.ackMessage({ id: "m1", body: { lease_token: "x" } });
  replies(notFound);
  assert.equal(await client.key("t", "k").reschedule({ at: new Date(0) }), false);
  assert.equal(await client.key("t", "k").get(), undefined);
  await assert.rejects(client.leases.ackMessage({ id: "m1", body: { lease_token: "x" } }), ProblemError);
  replies({ status: 404, text: "no such page" });
  await assert.rejects(client.key("t", "k").cancel(), /http_404: Not Found/);
});

test("the lines of a batch that Redis did not take are repeated with their keys, and results keep their order", async () => {
  const statuses = [["ok", "redis_unavailable", "duplicate_key", "outcome_unknown"], ["outcome_unknown", "ok"], ["ok"]];
  fake.reply = () => ({ json: { results: statuses[fake.asked.length - 1]!.map((status) => ({ status })) } });
  const results = await client.publishBatch(
    "t",
    [0, 1, 2, 3].map((payload) => (payload === 1 ? { payload, idempotencyKey: "own" } : { payload, delayMs: 5 })),
  );
  assert.deepEqual(
    results.map(({ status }) => status),
    ["ok", "ok", "duplicate_key", "ok"],
  );
  const lines = fake.asked.map(({ body }) => body.messages);
  assert.deepEqual(lines[1], [lines[0][1], lines[0][3]]);
  assert.deepEqual(lines[2], [lines[0][1]]);
  assert.equal(lines[0][1].idempotency_key, "own");
  assert.equal(new Set(lines[0].map((line: any) => line.idempotency_key)).size, 4);
});

test("a batch that breaks off for good says what is known", async () => {
  fake.reply = () =>
    fake.asked.length === 1 ? { json: { results: [{ status: "ok" }, { status: "redis_unavailable" }] } } : "break";
  const results = await client.publishBatch("t", [{ payload: 1 }, { payload: 2 }], { deadlineMs: 800 });
  assert.deepEqual(
    results.map(({ status }) => status),
    ["ok", "redis_unavailable"],
  );
});

test("options go by their names in the HTTP API", async () => {
  replies({ json: published });
  const at = new Date("2030-01-01T00:00:00Z");
  await client.publish("a topic", new Uint8Array([0, 255]), {
    at,
    key: "k",
    keyUntil: "granted",
    onDuplicate: "replace",
    idempotencyKey: "i",
    priority: 7,
    ttlMs: 1000,
    maxAttempts: 3,
    backoff: { kind: "fixed", base_ms: 5 },
    headers: { a: "b" },
    contentType: "image/png",
  });
  assert.equal(fake.asked[0]!.path, "/topics/a%20topic/messages");
  assert.deepEqual(fake.asked[0]!.body, {
    payload_base64: "AP8=",
    deliver_at: at.toISOString(),
    key: "k",
    key_until: "granted",
    on_duplicate: "replace",
    idempotency_key: "i",
    priority: 7,
    ttl_ms: 1000,
    max_attempts: 3,
    backoff: { kind: "fixed", base_ms: 5 },
    headers: { a: "b" },
    content_type: "image/png",
  });
  await client.callback("https://example.com/", null, { method: "PUT", timeoutMs: 500, delayMs: undefined });
  const { idempotency_key, ...rest } = fake.asked[1]!.body;
  assert.deepEqual(rest, { url: "https://example.com/", payload: null, method: "PUT", timeout_ms: 500 });
});

test("mistakes are refused in words before anything is sent", async () => {
  const any = client as any;
  const wrong: [() => Promise<unknown>, RegExp][] = [
    [() => any.publish("t"), /a payload is a JSON value/],
    [() => any.publish("t", 1, { delay_ms: 5 }), /no option is called delay_ms/],
    [() => any.publish("t", 1, { constructor: 5 }), /no option is called constructor/],
    [() => client.publish("t", 1, { delayMs: NaN }), /delayMs is a number of milliseconds, not NaN/],
    [() => any.publish("t", 1, { at: "tomorrow" }), /at is a valid Date, not tomorrow/],
    [() => client.publish("t", 1, { at: new Date("tomorrow") }), /at is a valid Date/],
    [() => client.publish("", 1), /can be ""/],
    [() => client.key("t", "..").cancel(), /can be "\.\."/],
    [() => client.key("t", "k").reschedule({}), /needs delayMs or at/],
    [async () => new Client({ server: "ftp://example.com" }), /not an http/],
    [async () => new Client({ server: "example.com/dueq" }), /not an http.*example/],
    [() => any.publish(undefined, 1), /Required parameter "topic"/],
    [async () => new Client({ apiKey: "a key\n" }), /an API key is/],
    [async () => new Client({ timeoutMs: 0 }), /timeoutMs is a number/],
    [async () => new Client({ baseUrl: server } as any), /no option is called baseUrl/],
    [async () => new Client(server as any), /options are an object, not http/],
    [() => any.publish("t", 1, 5000), /options are an object, not 5000/],
    [async () => new Worker(client, { topic: "t", handler: () => {}, concurency: 5 } as any), /called concurency/],
    [async () => new Worker(client, { topic: 5, handler: () => {} } as any), /needs a topic/],
    [async () => new Worker(client, undefined as any), /options are an object, not undefined/],
    [async () => new Worker(undefined as any, { topic: "t", handler: () => {} }), /needs a client/],
    [async () => new Worker(client, { topic: "t" } as any), /needs a handler/],
    [async () => new Worker(client, { topic: "t", handler: function* () {} }), /cannot be a generator/],
    [async () => new Worker(client, { topic: "t", handler: async function* () {} }), /cannot be a generator/],
  ];
  for (const [call, message] of wrong) {
    await assert.rejects(call, (error: Error) => {
      assert.ok(error instanceof TypeError || error instanceof RangeError, String(error));
      assert.match(error.message, message);
      return true;
    });
  }
  assert.equal(fake.asked.length, 0);
});

test("errors say what was wrong, where", async () => {
  const errors = [{ field: "on_duplicate", reason: "can only be given with key" }];
  const detail = "on_duplicate: can only be given with key";
  replies({ status: 422, code: "invalid_input", detail, errors });
  await assert.rejects(client.publish("t", 1), { message: `422 invalid_input: ${detail}`, detail, errors });
  const more = { field: "priority", reason: "must be 0 to 255" };
  replies({ status: 422, code: "invalid_input", detail, errors: [...errors, more] });
  await assert.rejects(client.publish("t", 1), {
    message: `422 invalid_input: ${detail}; priority: must be 0 to 255`,
  });
  replies({ status: 422, code: "invalid_input", errors: [null, "text", {}, { field: 1 }] });
  await assert.rejects(client.publish("t", 1), { message: "422 invalid_input: as the test wants", errors: [] });
  replies({ status: 500, text: "" });
  await assert.rejects(client.publish("t", 1), { message: "500 http_500: Internal Server Error" });
  replies({ status: 200, text: "<html>" });
  await assert.rejects(client.topics.getTopic({ topic: "t" }), UnexpectedAnswer);
  const away = new Fake();
  const url = await away.start();
  away.stop();
  await assert.rejects(new Client({ server: `${url}/`, retries: false }).publish("t", 1), (error) => {
    assert.ok(error instanceof ConnectError);
    assert.equal(error.url, url);
    assert.match(error.message, /^no connection to http:.*: POST \/topics\/t\/messages: connect ECONNREFUSED/);
    return true;
  });
});

test("a redirect is not followed, whatever is asked", async () => {
  const elsewhere = new Fake();
  elsewhere.reply = () => ({ json: published });
  const location = await elsewhere.start();
  try {
    for (const status of [301, 302, 303, 307, 308]) {
      replies({ status, text: "", location });
      const refused = { name: "ProblemError", status, code: `http_${status}` };
      await assert.rejects(client.publish("t", 1), refused);
      await assert.rejects(client.key("t", "k").cancel(), refused);
      await assert.rejects(client.key("t", "k").get(), refused);
    }
    assert.equal(elsewhere.asked.length, 0);
    assert.equal(fake.asked.length, 15);
  } finally {
    elsewhere.stop();
  }
});

test("a logged client or worker does not show its key", () => {
  const own = new Client({ server, apiKey: "hidden" });
  assert.equal(own.apiKey, "hidden");
  const worker = new Worker(own, { topic: "t", handler: () => {}, signal: AbortSignal.abort() });
  const run = worker.run();
  for (const logged of [own, own.messages, worker]) {
    assert.doesNotMatch(inspect(logged, { depth: 8 }) + inspect({ logged }), /hidden/);
  }
  assert.doesNotMatch(JSON.stringify([own, own.messages]), /hidden/);
  return run;
});

test("lists go over all pages", async () => {
  fake.reply = ({ path }) => {
    const next = path.includes("cursor=c%2F2") ? {} : { next_cursor: "c/2" };
    return { json: { items: [{ name: path, payload: fake.asked.length }], ...next } };
  };
  const payloads: number[] = [];
  for await (const { payload } of client.dead<number>("t")) payloads.push(payload);
  assert.deepEqual(payloads, [1, 2]);
  const names: string[] = [];
  for await (const { name } of client.listTopics("or")) names.push(name);
  assert.deepEqual(names, ["/topics?prefix=or", "/topics?prefix=or&cursor=c%2F2"]);
});

test("optional bodies may be left out", async () => {
  replies({ json: { redriven: 3, remaining: 0 } });
  assert.equal(await client.redrive("t"), 3);
  assert.equal(fake.asked[0]!.body, undefined);
  await client.redrive("t", 5);
  assert.deepEqual(fake.asked[1]!.body, { max_messages: 5 });
  await client.topics.redriveTopic({ topic: "t" });
  await client.topics.pauseTopic({ topic: "t" });
  await client.leases.leaseMessages({ topic: "t" });
  assert.deepEqual(
    fake.asked.slice(2).map(({ body }) => body),
    [undefined, undefined, undefined],
  );
});

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const other = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;

function sign(body: string | Uint8Array, by: string, at = Date.now(), id = "msg_1"): Record<string, string> {
  const timestamp = String(Math.floor(at / 1000));
  const signature = createHmac("sha256", Buffer.from(by.slice(6), "base64"))
    .update(`${id}.${timestamp}.`)
    .update(body)
    .digest("base64");
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": `v1,${signature}` };
}

test("a webhook that was signed with the secret is taken", () => {
  const body = JSON.stringify({ order: 10, note: "ü" });
  const signed = sign(body, secret);
  webhooks.verify(body, signed, secret);
  webhooks.verify(Buffer.from(body), signed, secret);
  webhooks.verify(body, new Headers(signed), [other, secret]);
  webhooks.verify(body, Object.fromEntries(Object.entries(signed).map(([k, v]) => [k.toUpperCase(), [v]])), secret);
  const several = `v1,AAAA v1a,zzzz ${signed["webhook-signature"]}`;
  webhooks.verify(body, { ...signed, "webhook-signature": several }, secret);
  webhooks.verify(body, sign(body, secret, Date.now() - 290_000), secret);
  webhooks.verify(body, sign(body, secret, 0), secret, { toleranceMs: Infinity });
  // The example of Standard Webhooks.
  webhooks.verify(
    '{"test": 2432232314}',
    {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    },
    secret,
    { toleranceMs: Infinity },
  );
});

test("a topic is verified with the body", () => {
  const body = "{}";
  const given = sign(body, secret);
  const tag = (topic: string, by = secret): string => {
    const mac = createHmac("sha256", Buffer.from(by.slice(6), "base64"));
    return `v1,${mac.update(`msg_1:${given["webhook-timestamp"]}:${topic}`).digest("base64")}`;
  };
  const verify = (topic: string | undefined, signature: string | undefined, as = body) =>
    webhooks.verify(as, { ...given, "Dueq-Topic": topic, "dueq-signature": signature }, secret);
  verify("orders", tag("orders"));
  verify("orders", `${tag("orders", other)} ${tag("orders")}`);
  verify(undefined, undefined);
  const refused: [() => void, RegExp][] = [
    [() => verify("orders", tag("hooks")), /this topic/],
    [() => verify("orders", tag("orders", other)), /this topic/],
    [() => verify("orders", "v2,AAAA"), /dueq-signature has no signature of version v1/],
    [() => verify("orders", undefined), /no dueq-signature/],
    [() => verify("orders", ""), /no dueq-signature/],
    [() => verify(undefined, tag("orders")), /no dueq-topic/],
    [() => verify("orders", tag("orders"), "{ }"), /this body/],
  ];
  for (const [call, message] of refused)
    assert.throws(call, (e) => e instanceof webhooks.WebhookError && message.test(e.message));
});

test("public keys verify what dueq signs with its key pairs", () => {
  // As dueq's own tests have them.
  const key = "whpk_XL9MzUGxc2s/gozEjuXB1blGuxvZRLLYCHL8skSJPaQ=";
  const good: Record<string, string> = {
    "webhook-id": "msg_1",
    "webhook-timestamp": "1763700000",
    "webhook-signature": "v1,AAAA v1a,NlkuXO2v0fFGNf9nJ+WLerVrsJD/MOd31wd28H6XBkiDTh9/z+ADuVpRq6KqXIi4zQxAINKVgt272/ZxtD4mCA==",
    "dueq-topic": "orders",
    "dueq-signature": "v1a,fRPka8NyhfacLz4J5uvT51S1xG7Gt4v23/+bpTkpEQM4tq2dHeUPczdKYSuH5+pNW+fKkVmBdGS1VeV6X/ZnBw==",
  };
  const verify = (changed: Record<string, string> = {}, by: string | string[] = key, body = "{}") =>
    webhooks.verify(body, { ...good, ...changed }, by, { toleranceMs: Infinity });
  verify();
  verify({}, [secret, key]);
  const signature = good["webhook-signature"]!;
  const refused: (() => void)[] = [
    () => verify({}, key, "{ }"),
    () => verify({}, secret),
    () => verify({}, "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="),
    () => verify({ "webhook-id": "msg_2" }),
    () => verify({ "dueq-topic": "hooks" }),
    () => verify({ "webhook-signature": signature.replace("v1a,", "v1,") }),
    () => verify({ "webhook-signature": "v1a, v1a,AAAA v1a" }),
  ];
  for (const call of refused)
    assert.throws(call, (e) => e instanceof webhooks.WebhookError && /no signature/.test(e.message));
  for (const bad of ["whpk_", "whpk_AAAA", "whpk_?", "whpk_" + key]) {
    assert.throws(() => verify({}, bad), /whpk_ and 32 bytes/);
  }
});

test("any other webhook is refused in words", () => {
  const body = "{}";
  const signed = sign(body, secret);
  const refused: [() => void, RegExp][] = [
    [() => webhooks.verify("{ }", signed, secret), /no signature/],
    [() => webhooks.verify(body, signed, other), /no signature/],
    [() => webhooks.verify(body, { ...signed, "webhook-id": "msg_2" }, secret), /no signature/],
    [() => webhooks.verify(body, { ...signed, "webhook-signature": "v1," }, secret), /no signature/],
    [() => webhooks.verify(body, { ...signed, "webhook-signature": "v2,AAAA" }, secret), /version v1/],
    [() => webhooks.verify(body, { ...signed, "webhook-signature": undefined }, secret), /no webhook-signature/],
    [() => webhooks.verify(body, {}, secret), /no webhook-id/],
    [() => webhooks.verify(body, { ...signed, "webhook-timestamp": "now" }, secret), /no number of seconds/],
    [() => webhooks.verify(body, sign(body, secret, Date.now() - 310_000), secret), /31\d s old/],
    [() => webhooks.verify(body, sign(body, secret, Date.now() + 310_000), secret), /ahead/],
  ];
  for (const [call, message] of refused)
    assert.throws(call, (e) => e instanceof webhooks.WebhookError && message.test(e.message));
  for (const bad of ["", "secret", [], undefined as any, "whsec_", "whsec_?", "whsec_A", "whsec_A=", "whsec_AAAA=="]) {
    assert.throws(() => webhooks.verify(body, signed, bad), TypeError);
    // Nor by the empty key, to which Node decodes some of them.
    assert.throws(() => webhooks.verify(body, sign(body, "whsec_"), bad), TypeError);
  }
  assert.throws(() => webhooks.verify({} as any, signed, secret), /parse it after/);
});

test("a payload that JSON would lose is refused, and an ArrayBuffer is bytes", async () => {
  replies({ json: published });
  const lost = [Promise.resolve(1), new Map([[1, 2]]), new Set([1]), new Blob(["a"]), new Error("boom")];
  for (const payload of lost) await assert.rejects(client.publish("t", payload), /a payload is a JSON value/);
  assert.equal(fake.asked.length, 0);
  await client.publish("t", new Uint8Array([0, 255]).buffer);
  assert.equal(fake.asked[0]!.body.payload_base64, "AP8=");
});

test("an answer that is no JSON, or has nothing of what was asked for, is not dueq's", async () => {
  for (const json of [{}, null, { results: [] }]) {
    replies({ json });
    await assert.rejects(client.publish("t", 1), UnexpectedAnswer);
    await assert.rejects(client.publishBatch("t", [{ payload: 1 }]), UnexpectedAnswer);
    await assert.rejects(client.callback("https://example.com/"), UnexpectedAnswer);
  }
  fake.reply = () => ({ status: 200, text: "OK", type: "text/plain" });
  await assert.rejects(client.publish("t", 1), UnexpectedAnswer);
  await assert.rejects(client.topics.getTopic({ topic: "t" }), /GET \/topics\/t: the answer is no JSON/);
});
