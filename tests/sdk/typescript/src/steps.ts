/** The steps of `tests/sdk/steps.md` by the typed client. */

import { type Client, type LeasedMessage, ProblemError, type PublishedMessage } from "dueq";

type Fields = Record<string, unknown>;

/** Takes the steps one after another, each by `step`, which is told its name and gets what it has to print. */
export async function steps(
  client: Client,
  topic: string,
  step: (name: string, take: () => Promise<Fields>) => Promise<void>,
): Promise<void> {
  const { messages, leases, topics, callbacks, schedules } = client;
  const order = {
    payload: { order: 42, items: [null, false, { n: 1.5 }], note: "ü" },
    key: "order/42",
    headers: { source: "sdk" },
    priority: 7,
  };
  let first!: PublishedMessage;
  await step("publish", async () => {
    first = await messages.publishMessage({ topic, body: order });
    return pick(first, "state", "duplicate");
  });
  await step("duplicate", async () => {
    const second = await messages.publishMessage({ topic, body: order });
    return { duplicate: second.duplicate, same_id: second.id === first.id };
  });
  await step("idempotent", async () => {
    const once = { topic, body: { payload: "once", idempotency_key: "once" } };
    const original = await messages.publishMessage(once);
    const repeated = await messages.publishMessage(once);
    return { duplicate: repeated.duplicate, same_id: repeated.id === original.id };
  });
  await step("delayed", async () =>
    pick(await messages.publishMessage({ topic, body: { payload: null, delay_ms: 5000 } }), "state"),
  );
  await step("batch", async () => {
    const lines = [
      { payload: false },
      { payload: 1, key: "order/42", on_duplicate: "reject" as const },
      { payload_base64: Buffer.from([0x00, 0xff]).toString("base64"), content_type: "image/png" },
    ];
    const { results } = await messages.publishBatch({ topic, body: { messages: lines } });
    return { statuses: results.map(({ status }) => status) };
  });
  await step("get", async () => {
    const seen = await messages.getMessageByKey({ topic, key: "order/42" });
    return pick(seen, "state", "attempts", "headers", "priority", "payload");
  });

  const leaseOne = async (body: { lease_ms?: number; wait_ms?: number } = {}): Promise<LeasedMessage> => {
    const answer = await leases.leaseMessages({ topic, body: { max_messages: 1, ...body } });
    return answer.messages[0]!;
  };
  let held!: LeasedMessage;
  await step("lease", async () => {
    held = await leaseOne({ lease_ms: 30_000 });
    return pick(held, "key", "attempt", "attempts_left", "headers", "priority", "payload");
  });
  await step("extend", async () => {
    const { id, lease_token } = held;
    return pick(await leases.extendLease({ id, body: { lease_token, lease_ms: 60_000 } }), "lease_ms");
  });
  await step("nack", async () => {
    const { id, lease_token } = held;
    const body = { lease_token, delay_ms: 0, reason: "later" };
    return pick(await leases.nackMessage({ id, body }), "state", "attempt");
  });
  await step("stale", () => refused(leases.ackMessage(ackOf(held))));
  await step("again", async () => {
    held = await leaseOne();
    await leases.ackMessage(ackOf(held));
    return pick(held, "key", "attempt");
  });
  await step("gone", () => refused(leases.ackMessage(ackOf(held))));
  await step("three", async () => {
    const three = await leases.leaseMessages({ topic, body: { max_messages: 10 } });
    const acks = await leases.ackBatch({ body: { messages: three.messages.map(tokenOf) } });
    return { payloads: three.messages.map(payloadOf), acks: acks.results.map(({ status }) => status) };
  });
  await step("poll", async () => {
    const began = performance.now();
    held = await leaseOne({ wait_ms: 20_000 });
    return { ...pick(held, "payload"), waited: performance.now() - began >= 200 };
  });
  await step("ride", async () => {
    const ride = await leases.leaseMessages({ topic, body: { acks: [tokenOf(held)] } });
    return { messages: ride.messages.length, acks: ride.acks.map(({ status }) => status) };
  });

  await step("update", async () => {
    await messages.publishMessage({ topic, body: { payload: 1, key: "cart", delay_ms: 3_600_000 } });
    const moved = await messages.updateMessageByKey({ topic, key: "cart", body: { priority: 9, delay_ms: 7_200_000 } });
    const ahead = Date.parse(moved.due_at!) - Date.parse(moved.published_at);
    return { ...pick(moved, "state", "priority"), moved: ahead > 7_000_000 };
  });
  await step("delete", async () => {
    await messages.deleteMessageByKey({ topic, key: "cart" });
    return refused(messages.getMessageByKey({ topic, key: "cart" }));
  });
  await step("dead", async () => {
    await messages.publishMessage({ topic, body: { payload: "poison" } });
    held = await leaseOne();
    const { id, lease_token } = held;
    await leases.nackMessage({ id, body: { lease_token, dead: true, reason: "no such order" } });
    return pick(await messages.getMessage({ id }), "state", "last_error", "attempts");
  });
  await step("redrive", async () => {
    const redriven = await messages.redriveMessage({ id: held.id });
    await messages.deleteMessage({ id: held.id });
    return pick(redriven, "state");
  });

  const config = `${topic}-config`;
  await step("configure", async () => {
    const backoff = { kind: "schedule" as const, delays_ms: [1000, 5000] };
    const body = { lease_ms: 60_000, max_attempts: 3, backoff, retention: { acked_ms: 1000 } };
    await topics.putTopic({ topic: config, body });
    const configured = await topics.getTopic({ topic: config });
    return pick(configured.config, "lease_ms", "max_attempts", "backoff", "retention");
  });
  await step("reset", async () => {
    const reset = await topics.updateTopic({ topic: config, body: { max_attempts: null, lease_ms: 45_000 } });
    return pick(reset.config, "lease_ms", "max_attempts");
  });
  await step("pause", async () => {
    const paused = await topics.pauseTopic({ topic: config });
    const resumed = await topics.resumeTopic({ topic: config });
    return { paused: [paused.paused, resumed.paused] };
  });
  await step("list", async () => {
    const listed = await topics.listTopics({ prefix: config });
    return { names: listed.items.map(({ name }) => name.replace(topic, "T")) };
  });
  await step("drop", async () => {
    await topics.deleteTopic({ topic: config });
    return refused(topics.getTopic({ topic: config }));
  });

  await step("refused", () => {
    const contradiction = { payload: 1, delay_ms: 1, deliver_at: "2030-01-01T00:00:00Z" };
    return refused(messages.publishMessage({ topic, body: contradiction }), true);
  });
  await step("callback", async () => {
    const payload = { order: 42 };
    const body = { url: "https://example.com/hook", payload, delay_ms: 3_600_000, key: topic };
    const callback = await callbacks.scheduleCallback({ body });
    const scheduled = await messages.getMessage({ id: callback.id });
    await messages.deleteMessage({ id: callback.id });
    return { ...pick(callback, "topic", "state"), url: scheduled.callback?.url };
  });
  await step("callback_refused", () => refused(callbacks.scheduleCallback({ body: { url: "http://10.0.0.1/" } })));
  await step("schedule", async () => {
    const cron = { cron: "0 9 * * MON-FRI", timezone: "Europe/Berlin", topic: `${topic}-ticks` };
    await schedules.putSchedule({ name: topic, body: { ...cron, message: { payload: "daily" } } });
    const schedule = await schedules.getSchedule({ name: topic });
    return { ...pick(schedule, "cron", "timezone", "paused"), has_next: schedule.next_at !== undefined };
  });
  await step("trigger", async () => {
    await schedules.triggerSchedule({ name: topic });
    const { paused } = await schedules.pauseSchedule({ name: topic });
    await schedules.deleteSchedule({ name: topic });
    return { paused, ...(await refused(schedules.getSchedule({ name: topic }))) };
  });

  await step("payload", async () => {
    const payload_base64 = Buffer.from(Array.from({ length: 256 }, (_, at) => at)).toString("base64");
    const { id } = await messages.publishMessage({ topic, body: { payload_base64, delay_ms: 3_600_000 } });
    const payload: Blob = await messages.getMessagePayload({ id }).finally(() => messages.deleteMessage({ id }));
    return { base64: Buffer.from(await payload.arrayBuffer()).toString("base64") };
  });
  await ownSteps(client, topic, step);
}

/** Those by the methods of the client itself. */
async function ownSteps(
  client: Client,
  topic: string,
  step: (name: string, take: () => Promise<Fields>) => Promise<void>,
): Promise<void> {
  await step("put_schedule", async () => {
    const daily = { payload: "daily", priority: 7, headers: { source: "sdk" } };
    const cron = { cron: "0 9 * * MON-FRI", timezone: "Europe/Berlin" };
    await client.putSchedule(topic, daily, { topic: `${topic}-ticks`, ...cron });
    const schedule = (await client.getSchedule(topic))!;
    const message = pick(schedule.message, "payload", "priority", "headers");
    return { topic: schedule.topic!.replace(topic, "T"), ...pick(schedule, "cron", "timezone"), ...message };
  });
  await step("run_schedule", async () => {
    let listed = false;
    for await (const { name } of client.listSchedules()) listed ||= name === topic;
    const paused = [(await client.pauseSchedule(topic)).paused, (await client.resumeSchedule(topic)).paused];
    await client.triggerSchedule(topic);
    return { listed, paused, published: (await client.getSchedule(topic))?.last_message_id !== undefined };
  });
  await step("delete_schedule", async () => {
    const deleted = [await client.deleteSchedule(topic), await client.deleteSchedule(topic)];
    return { deleted, there: (await client.getSchedule(topic)) !== undefined };
  });

  const own = `${topic}-own`;
  await step("put_topic", async () => {
    await client.putTopic(own, { max_attempts: 3, group_order: "fair" });
    await client.updateTopic(own, { lease_ms: 45_000 });
    const paused = [(await client.pauseTopic(own)).paused, (await client.resumeTopic(own)).paused];
    const names = [];
    for await (const { name } of client.listTopics(own)) names.push(name.replace(topic, "T"));
    return { names, paused, ...pick((await client.getTopic(own))!.config, "max_attempts", "lease_ms") };
  });
  const group = "customer-7";
  await step("put_group", async () => {
    await client.putGroup(own, group, { concurrency: 5 });
    const paused = [(await client.pauseGroup(own, group)).paused, (await client.resumeGroup(own, group)).paused];
    const groups = [];
    let concurrency;
    for await (const listed of client.listGroups(own)) {
      groups.push(listed.group);
      concurrency = listed.concurrency;
    }
    await client.deleteGroup(own, group);
    return { groups, concurrency, paused, limited: (await client.getGroup(own, group)).concurrency !== undefined };
  });
  await step("delete_topic", async () => {
    const deleted = [await client.deleteTopic(own, { force: true }), await client.deleteTopic(own)];
    return { deleted, there: (await client.getTopic(own)) !== undefined };
  });
  await step("dead_letters", async () => {
    const name = `${topic}-dead`;
    for (const payload of ["first", "second", "third"]) {
      await client.publish(name, payload);
      const [poison] = (await client.leases.leaseMessages({ topic: name })).messages;
      const { id, lease_token } = poison!;
      await client.leases.nackMessage({ id, body: { lease_token, dead: true } });
    }
    const dead = [];
    for await (const message of client.dead(name)) dead.push(message);
    const redriven = await client.redrive(name, { max: 2, spreadMs: 3_600_000 });
    await client.redriveMessage(dead[2]!.id);
    const states = [];
    for (const { id } of dead) states.push((await client.messages.getMessage({ id })).state);
    return { payloads: dead.map(({ payload }) => payload), redriven, states };
  });
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

function ackOf({ id, lease_token }: LeasedMessage): { id: string; body: { lease_token: string } } {
  return { id, body: { lease_token } };
}

function payloadOf(message: LeasedMessage): unknown {
  if (message.payload_base64 === undefined) return message.payload;
  return { base64: message.payload_base64, content_type: message.content_type };
}
