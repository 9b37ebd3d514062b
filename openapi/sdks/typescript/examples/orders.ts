/** An order service: a reminder by key, safe repeats, a batch, a worker, dead letters, a signed callback, an outage. */

import { once } from "node:events";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { Client, type ConnectError, Dead, type ProblemError, RetryIn, webhooks, Worker } from "dueq";

const client = new Client(); // DUEQ_SERVER, or http://127.0.0.1:8080
const reminder = client.key("orders", "order/1");
await client.publish("orders", { order: 1 }, { delayMs: 30 * 60_000, key: reminder.key });
console.log("published", reminder.key);
console.log("moved", await reminder.reschedule({ delayMs: 60 * 60_000 }));
console.log("cancelled", await reminder.cancel(), "then", await reminder.cancel());

await client.publish("orders", { order: 2 }, { key: "order/2" });
const twice = client.publish("orders", { order: 2 }, { key: "order/2", onDuplicate: "reject" });
await twice.catch((error: ProblemError) => console.log("refused", error.code));
const pay = () => client.publish("payments", { order: 2 }, { idempotencyKey: "payment/2" });
if ((await pay()).id === (await pay()).id) console.log("repeated the same message");

const jobs = [10, 11, 12].map((order) => ({ payload: { order } }));
const results = await client.publishBatch("work", jobs);
console.log("batch", results.filter(({ status }) => status === "ok").length);
const done: number[] = [];
const worker = new Worker<{ order: number }>(client, {
  topic: "work",
  stopSignals: ["SIGINT", "SIGTERM"],
  handler: async ({ payload: { order }, attempt }) => {
    if (order === 11 && attempt === 1) throw new RetryIn(0, "the shop is busy");
    if (order === 12) throw new Dead("no such order");
    done.push(order);
  },
});
await worker.run({ untilEmpty: true });
console.log("worked", ...done.sort());
for await (const { payload } of client.dead("work")) console.log("dead", payload.order);
console.log("redriven", await client.redrive("work"));

const shop = createServer(async (request, response) => {
  const body = await text(request);
  try {
    webhooks.verify(body, request.headers, process.env["WEBHOOK_SECRET"]!);
  } catch (error) {
    return response.writeHead(401).end(String(error));
  }
  console.log("callback", body);
  return response.end(() => shop.close());
}).listen(0, "127.0.0.1");
await once(shop, "listening");
await client.callback(`http://127.0.0.1:${(shop.address() as { port: number }).port}/`, { order: 10 });
await once(shop, "close");

const nobody = new Client({ server: "http://127.0.0.1:1", retries: false });
await nobody.publish("orders", { order: 3 }).catch((error: ConnectError) => console.log("unreachable", error.url));
