/** A program of a user's that calls every method: compiled strictly as an ES module and as CommonJS, and run by `node --test`. */

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { test } from "node:test";
import {
  Client,
  type ClientOptions,
  ConnectError,
  Dead,
  type HandlerContext,
  type Leased,
  LeaseLost,
  type Middleware,
  payloadBytes,
  ProblemError,
  RetryIn,
  traceparent,
  webhooks,
  Worker,
} from "dueq";
import { TestServer } from "dueq/testing";

interface Order {
  order: number;
}

test("the package has a build for this kind of module", () => {
  const build = process.argv[1]!.endsWith(".cjs") ? /dist.cjs.client\.js/ : /dist.esm.client\.js/;
  assert.throws(
    () => new Client({ server: "ftp://example.com" }),
    (error) => error instanceof TypeError && build.test(error.stack!),
  );
});

test("a program calls every method of the client", async () => {
  const server = new TestServer();
  const options: ClientOptions = { timeoutMs: 5000, retries: false, apiKey: "key" };
  const client: Client = server.client(options);
  const { id, due_at } = await client.publish("orders", { order: 1 }, { delayMs: 60_000, key: "order/1" });
  assert.ok(Date.parse(due_at!) > Date.now());
  const results = await client.publishBatch("orders", [{ payload: { order: 2 } }, { payload: new Uint8Array([7]) }]);
  assert.deepEqual(
    results.map(({ status, message }) => [status, message?.state]),
    [
      ["ok", "ready"],
      ["ok", "ready"],
    ],
  );
  const { topic } = await client.callback("https://example.com/", { order: 1 }, { method: "PUT", timeoutMs: 500 });
  assert.equal(topic, "_callbacks");

  const reminder = client.key<Order>("orders", "order/1");
  const order: number | undefined = (await reminder.get())?.payload.order;
  assert.equal(order, 1);
  assert.equal(await reminder.reschedule({ at: new Date(Date.now() + 1000) }), true);
  assert.equal(await reminder.cancel({ signal: new AbortController().signal }), true);
  await assert.rejects(client.messages.getMessage({ id }), (error) => {
    return error instanceof ProblemError && error.code === "message_not_found" && error.status === 404;
  });
  assert.equal(client.api.topics, client.topics);
  for await (const item of client.listTopics("or")) assert.equal(item.counts.ready, 2);
  await assert.rejects(new Client({ server: "http://127.0.0.1:1", retries: false }).redrive("orders"), ConnectError);
});

test("what a schedule must have is asked for by its types", async () => {
  const client = new Client({ server: "http://127.0.0.1:1", retries: false });
  // @ts-expect-error: a schedule has a message
  await assert.rejects(client.putSchedule("s", { topic: "t", cron: "@daily" }));
  // @ts-expect-error: it publishes to a topic or calls a URL
  await assert.rejects(client.putSchedule("s", { payload: 1 }, { cron: "@daily" }));
  // @ts-expect-error: it is due when the schedule says so
  await assert.rejects(client.putSchedule("s", { payload: 1, delayMs: 5 }, { topic: "t", everyMs: 60_000 }));
  await assert.rejects(client.putSchedule("s", { payload: 1 }, { topic: "t", everyMs: 60_000 }), ConnectError);
});

test("a program works a topic", async () => {
  const server = new TestServer();
  const client = server.client();
  await traceparent.run("00-1-1-01", () => client.publish("work", { order: 10 }));
  await client.publishBatch("work", [{ payload: { order: 11 } }, { payload: { order: 12 } }]);
  const seen: unknown[] = [];
  const outer: Middleware<Order> = async ({ payload }, context, next) => {
    assert.equal(context.lost, false);
    await next();
    seen.push(payload.order);
  };
  const worker: Worker<Order> = new Worker<Order>(client, {
    topic: ["work"],
    waitMs: 50,
    middleware: [outer],
    onFailed: ({ payload }, error) => seen.push([payload.order, error instanceof RetryIn, error instanceof Dead]),
    handler: async (message: Leased<Order>, { signal }: HandlerContext) => {
      assert.ok(!(signal.reason instanceof LeaseLost));
      assert.equal(payloadBytes(message), undefined);
      if (message.payload.order === 11) throw new RetryIn(1000, "busy");
      if (message.payload.order === 12) throw new Dead("no such order");
      assert.equal(traceparent.getStore(), "00-1-1-01");
    },
  });
  const run = worker.run();
  const end = Date.now() + 10_000;
  while (seen.length < 3 && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 2));
  await worker.stop();
  await run;
  assert.deepEqual(seen.sort(), [10, [11, true, false], [12, false, true]]);
  for await (const dead of client.dead<Order>("work")) {
    assert.equal(dead.payload.order, 12);
    assert.equal((await client.redriveMessage(dead.id)).state, "ready");
  }
  server.advance(1000);
  assert.deepEqual(
    server.messages("work").map(({ state }) => state),
    ["ready", "ready"],
  );
});

test("a program checks a webhook", () => {
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const timestamp = String(Math.floor(Date.now() / 1000));
  const mac = createHmac("sha256", Buffer.from(secret.slice(6), "base64")).update(`id.${timestamp}.{}`);
  const signature = `v1,${mac.digest("base64")}`;
  const headers = { "webhook-id": "id", "webhook-timestamp": timestamp, "webhook-signature": signature };
  webhooks.verify("{}", headers, [secret], { toleranceMs: 1000 });
  assert.throws(() => webhooks.verify("[]", headers, secret), webhooks.WebhookError);
});
