/** The steps of `tests/sdk/steps.md` by the typed client. */

import { Client, type LeasedMessage, ProblemError } from "dueq";

type Fields = Record<string, unknown>;

export async function steps(server: string, topic: string): Promise<void> {
  const client = new Client({ server });
  const { messages, leases, topics, callbacks, schedules } = client;
  const print = (step: string, fields: Fields): void => console.log(JSON.stringify({ step, ...fields }));

  const order = {
    payload: { order: 42, items: [null, false, { n: 1.5 }], note: "ü" },
    key: "order/42",
    headers: { source: "sdk" },
    priority: 7,
  };
  const first = await messages.publishMessage({ topic, body: order });
  print("publish", pick(first, "state", "duplicate"));
  const second = await messages.publishMessage({ topic, body: order });
  print("duplicate", { duplicate: second.duplicate, same_id: second.id === first.id });

  const once = { topic, body: { payload: "once", idempotency_key: "once" } };
  const original = await messages.publishMessage(once);
  const repeated = await messages.publishMessage(once);
  print("idempotent", { duplicate: repeated.duplicate, same_id: repeated.id === original.id });

  print("delayed", pick(await messages.publishMessage({ topic, body: { payload: null, delay_ms: 1500 } }), "state"));

  const batch = await messages.publishBatch({
    topic,
    body: {
      messages: [
        { payload: false },
        { payload: 1, key: "order/42", on_duplicate: "reject" },
        { payload_base64: Buffer.from([0x00, 0xff]).toString("base64"), content_type: "image/png" },
      ],
    },
  });
  print("batch", { statuses: batch.results.map((result) => result.status) });

  const seen = await messages.getMessageByKey({ topic, key: "order/42" });
  print("get", pick(seen, "state", "attempts", "headers", "priority", "payload"));

  const leaseOne = async (body: { lease_ms?: number; wait_ms?: number } = {}): Promise<LeasedMessage> => {
    const answer = await leases.leaseMessages({ topic, body: { max_messages: 1, ...body } });
    return answer.messages[0]!;
  };
  const held = await leaseOne({ lease_ms: 30_000 });
  print("lease", pick(held, "key", "attempt", "attempts_left", "headers", "priority", "payload"));
  const extended = await leases.extendLease({
    id: held.id,
    body: { lease_token: held.lease_token, lease_ms: 60_000 },
  });
  print("extend", pick(extended, "lease_ms"));
  const nacked = await leases.nackMessage({
    id: held.id,
    body: { lease_token: held.lease_token, delay_ms: 0, reason: "later" },
  });
  print("nack", pick(nacked, "state", "attempt"));
  print("stale", await refused(leases.ackMessage({ id: held.id, body: { lease_token: held.lease_token } })));

  const again = await leaseOne();
  const ack = { id: again.id, body: { lease_token: again.lease_token } };
  await leases.ackMessage(ack);
  print("again", pick(again, "key", "attempt"));
  print("gone", await refused(leases.ackMessage(ack)));

  const three = await leases.leaseMessages({ topic, body: { max_messages: 10 } });
  const acks = await leases.ackBatch({ body: { messages: three.messages.map(tokenOf) } });
  print("three", { payloads: three.messages.map(payloadOf), acks: acks.results.map((result) => result.status) });

  const began = performance.now();
  const polled = await leaseOne({ wait_ms: 5000 });
  print("poll", { ...pick(polled, "payload"), waited: performance.now() - began >= 200 });
  const ride = await leases.leaseMessages({ topic, body: { acks: [tokenOf(polled)] } });
  print("ride", { messages: ride.messages.length, acks: ride.acks.map((ack) => ack.status) });

  await messages.publishMessage({ topic, body: { payload: 1, key: "cart", delay_ms: 3_600_000 } });
  const moved = await messages.updateMessageByKey({ topic, key: "cart", body: { priority: 9, delay_ms: 7_200_000 } });
  const ahead = Date.parse(moved.due_at!) - Date.parse(moved.published_at);
  print("update", { ...pick(moved, "state", "priority"), moved: ahead > 7_000_000 });
  await messages.deleteMessageByKey({ topic, key: "cart" });
  print("delete", await refused(messages.getMessageByKey({ topic, key: "cart" })));

  await messages.publishMessage({ topic, body: { payload: "poison" } });
  const poison = await leaseOne();
  await leases.nackMessage({
    id: poison.id,
    body: { lease_token: poison.lease_token, dead: true, reason: "no such order" },
  });
  print("dead", pick(await messages.getMessage({ id: poison.id }), "state", "last_error", "attempts"));
  print("redrive", pick(await messages.redriveMessage({ id: poison.id }), "state"));
  await messages.deleteMessage({ id: poison.id });

  const config = `${topic}-config`;
  await topics.putTopic({
    topic: config,
    body: {
      lease_ms: 60_000,
      max_attempts: 3,
      backoff: { kind: "schedule", delays_ms: [1000, 5000] },
      retention: { acked_ms: 1000 },
    },
  });
  const configured = await topics.getTopic({ topic: config });
  print("configure", pick(configured.config, "lease_ms", "max_attempts", "backoff", "retention"));
  const reset = await topics.updateTopic({ topic: config, body: { max_attempts: null, lease_ms: 45_000 } });
  print("reset", pick(reset.config, "lease_ms", "max_attempts"));
  const paused = await topics.pauseTopic({ topic: config });
  const resumed = await topics.resumeTopic({ topic: config });
  print("pause", { paused: [paused.paused, resumed.paused] });
  const listed = await topics.listTopics({ prefix: config });
  print("list", { names: listed.items.map((item) => item.name.replace(topic, "T")) });
  await topics.deleteTopic({ topic: config });
  print("drop", await refused(topics.getTopic({ topic: config })));

  const contradiction = { payload: 1, delay_ms: 1, deliver_at: "2030-01-01T00:00:00Z" };
  print("refused", await refused(messages.publishMessage({ topic, body: contradiction }), true));

  const callback = await callbacks.scheduleCallback({
    body: { url: "https://example.com/hook", payload: { order: 42 }, delay_ms: 3_600_000, key: topic },
  });
  const scheduled = await messages.getMessage({ id: callback.id });
  print("callback", { ...pick(callback, "topic", "state"), url: scheduled.callback?.url });
  await messages.deleteMessage({ id: callback.id });
  print("callback_refused", await refused(callbacks.scheduleCallback({ body: { url: "http://10.0.0.1/" } })));

  const cron = { cron: "0 9 * * MON-FRI", timezone: "Europe/Berlin", topic: `${topic}-ticks` };
  await schedules.putSchedule({ name: topic, body: { ...cron, message: { payload: "daily" } } });
  const schedule = await schedules.getSchedule({ name: topic });
  const has_next = schedule.next_at !== undefined;
  print("schedule", { ...pick(schedule, "cron", "timezone", "paused"), has_next });
  await schedules.triggerSchedule({ name: topic });
  const stopped = await schedules.pauseSchedule({ name: topic });
  await schedules.deleteSchedule({ name: topic });
  print("trigger", { paused: stopped.paused, ...(await refused(schedules.getSchedule({ name: topic }))) });
}

/** What a refused request says. */
async function refused(request: Promise<unknown>, fields = false): Promise<Fields> {
  try {
    await request;
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    const { status, code, errors } = error;
    return fields ? { status, code, fields: errors.map((e) => e.field) } : { status, code };
  }
  throw new Error("the request was not refused");
}

function pick<T extends object, K extends keyof T & string>(from: T, ...names: K[]): Fields {
  return Object.fromEntries(names.filter((name) => name in from).map((name) => [name, from[name]]));
}

function tokenOf({ id, lease_token }: LeasedMessage): { id: string; lease_token: string } {
  return { id, lease_token };
}

function payloadOf(message: LeasedMessage): unknown {
  if (message.payload_base64 === undefined) return message.payload;
  return { base64: message.payload_base64, content_type: message.content_type };
}
