/**
 * A dueq in memory, for the tests of programs that use it: no Redis, no port, and a clock that the test moves.
 *
 * It publishes, leases, settles, finds, changes, deletes, lists and redrives messages as dueq does. Callbacks it does not
 * make: they are messages in the topic `_callbacks`. Topics have no configuration (a lease lasts 30 s, a message has 10
 * attempts, the backoff is 1 s doubled each time), a time to live is ignored, a list is one page, and there are no schedules.
 * Requests for anything else are refused: 501 `not_supported`.
 *
 * @packageDocumentation
 */

import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type * as api from "./api/models/index.js";
import { Client, type ClientOptions } from "./client.js";

const LEASE_MS = 30_000;
const ATTEMPTS = 10;
const BACKOFF: api.BackoffRequest = { kind: "exponential" };
const IDEMPOTENCY_MS = 600_000;
const TOPIC = /^\w(?!.*\.\.)[\w.-]{0,127}$/;

/** A message that is not done, with what nobody is shown. */
interface Stored {
  readonly message: api.Message;
  /** When it is due, its lease ends, or it died: whichever its state is about. */
  at: number;
  token: string;
  /** Of attempts, since it was published or redriven. */
  budget: number;
  failures: number;
  keyUntil: api.KeyUntil;
}

/** A request: what its path names, its body and query, and whether its client is still there. */
interface Asked {
  topic: string;
  id: string;
  key: string;
  verb: string;
  body: any;
  query: URLSearchParams;
  signal: AbortSignal;
}

/** What becomes of a lease: a line of a batch's answer. */
type Settled = Partial<api.NackResult & api.ExtendResult> & { id: string; status: string };

const STATUSES: Record<string, number> = {
  invalid_topic_name: 400,
  message_not_found: 404,
  topic_not_found: 404,
  invalid_input: 422,
  idempotency_key_reused: 422,
  not_supported: 501,
};

class Refusal extends Error {
  constructor(
    readonly code: string,
    detail = code.replaceAll("_", " "),
    readonly errors?: api.FieldError[],
  ) {
    super(detail);
  }

  static field(field: string, reason: string): Refusal {
    return new Refusal("invalid_input", `${field}: ${reason}`, [{ field, reason }]);
  }

  answer(): Response {
    const { code, errors, message: detail } = this;
    const status = STATUSES[code] ?? 409;
    const problem = { type: "about:blank", title: code, status, code, detail, errors, request_id: randomUUID() };
    return Response.json(problem, { status, headers: { "content-type": "application/problem+json" } });
  }
}

/**
 * A dueq in memory.
 *
 * @example
 * const server = new TestServer();
 * const client = server.client();
 * await client.publish("orders", { order: 42 }, { delayMs: 1_800_000 });
 * server.advance(1_800_000);
 * // a worker handles it now
 */
export class TestServer {
  private readonly all = new Map<string, Stored>();
  private readonly topics = new Set<string>();
  private readonly answered = new Map<string, { until: number; asked: unknown; answer: api.PublishedMessage }>();
  /** The end of the latest interval, its beginning, and its message. */
  private readonly throttled = new Map<string, { until: number; at: number; stored: Stored }>();
  private readonly waiting = new Set<() => void>();
  /** How far its clock is ahead of this machine's, ms. */
  private ahead = 0;

  private readonly routes = Object.entries<(asked: Asked) => unknown>({
    "POST /topics/:topic/messages": ({ topic, body }) => this.publish(topic, body),
    "POST /topics/:topic/messages/batch": ({ topic, body }) => this.publishBatch(topic, body.messages),
    "POST /callbacks": ({ body: { url, method, timeout_ms, connect_timeout_ms, retry, auth, client_cert, ...rest } }) =>
      this.publish("_callbacks", { payload: null, ...rest, callback: { url, method, timeout_ms, connect_timeout_ms, retry, auth, client_cert } }),
    "POST /topics/:topic/lease": ({ topic, body, signal }) => this.lease([topic], body, signal),
    "POST /lease": ({ body, signal }) => this.lease(body.topics, body, signal),
    "POST /messages/:verb(ack|nack|extend)": ({ verb, body }) => ({
      results: body.messages.map((item: api.NackBatchItem) => this.settle(verb, item)),
    }),
    "POST /messages/:id/:verb(ack|nack|extend)": ({ id, verb, body }) => this.settleOne(verb, { ...body, id }),
    "POST /messages/:id/redrive": (asked) => this.redriveOne(this.find(asked)),
    "POST /topics/:topic/redrive": ({ topic, body }) => this.redrive(topic, body),
    "GET /messages/:id": (asked) => this.find(asked).message,
    "GET /topics/:topic/keys/:key": (asked) => this.find(asked).message,
    "PATCH /messages/:id": (asked) => this.update(this.find(asked), asked.body),
    "PATCH /topics/:topic/keys/:key": (asked) => this.update(this.find(asked), asked.body),
    "DELETE /messages/:id": (asked) => this.remove(this.find(asked), asked.query),
    "DELETE /topics/:topic/keys/:key": (asked) => this.remove(this.find(asked), asked.query),
    "GET /topics/:topic/messages": ({ topic, query }) => this.list(topic, query),
    "GET /topics": ({ query }) => this.listTopics(query.get("prefix") ?? ""),
  }).map(([route, handle]) => {
    const path = route.replace(/:(\w+)(\(.*?\))?/g, (_, name, only = "([^/]+)") => `(?<${name}>${only})`);
    return [new RegExp(`^${path}$`), handle] as const;
  });

  /** A client of this server; a worker of that client works here too. */
  client(options: ClientOptions = {}): Client {
    return new Client({ server: "http://dueq.test", ...options, fetch: this.fetch });
  }

  /** Moves the server's clock: what falls due in the meantime is due, and leases that end in the meantime are over. */
  advance(ms: number): void {
    this.ahead += ms;
    this.wake();
  }

  /** The messages of a topic but for those that are done, in the order in which they were published. */
  messages(topic: string): api.Message[] {
    return this.in(topic).map(({ message }) => JSON.parse(JSON.stringify(message)));
  }

  /** Answers a request, as its clients have it. */
  readonly fetch: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    const url = new URL(request.url);
    const text = await request.text();
    const body = text === "" ? {} : (JSON.parse(text) ?? {});
    const once = request.headers.get("idempotency-key");
    if (once !== null) body.idempotency_key = once;
    const operation = `${request.method} ${url.pathname}`;
    try {
      for (const [route, handle] of this.routes) {
        const named = route.exec(operation);
        if (named === null) continue;
        const parts = Object.entries(named.groups ?? {});
        const path = Object.fromEntries(parts.map(([name, part]) => [name, decodeURIComponent(part)]));
        this.tick();
        if (!TOPIC.test(path["topic"] ?? "t")) throw new Refusal("invalid_topic_name");
        const asked = { ...path, body, query: url.searchParams, signal: request.signal } as Asked;
        const answer = await handle(asked);
        return answer === undefined ? new Response(null, { status: 204 }) : Response.json(answer);
      }
      throw new Refusal("not_supported", `the server in memory has no ${operation}`);
    } catch (error) {
      if (error instanceof Refusal) return error.answer();
      throw error;
    }
  };

  private now(): number {
    return Date.now() + this.ahead;
  }

  /** Lease requests that wait look again. */
  private wake(): void {
    for (const look of [...this.waiting]) look();
  }

  /** Does what time does. */
  private tick(): void {
    const now = this.now();
    for (const stored of this.all.values()) {
      const { message, at } = stored;
      if (message.state === "leased" && at <= now) this.comeBack(stored, at);
      if (message.state === "delayed" && at <= now) message.state = "ready";
    }
  }

  /** A lease is over without an ack. */
  private comeBack(stored: Stored, dueAt: number): void {
    if (stored.message.attempts_left > 0) this.enter(stored, "delayed", dueAt);
    else this.enter(stored, "dead", Math.min(dueAt, this.now()));
  }

  /** Gives a message a state, and the instant that the state is about. */
  private enter(stored: Stored, state: "delayed" | "leased" | "dead", at: number): void {
    const instant = { delayed: "due_at", leased: "lease_expires_at", dead: "died_at" }[state];
    const others = { due_at: undefined, lease_expires_at: undefined, died_at: undefined };
    Object.assign(stored.message, others, { state, [instant]: iso(at) });
    stored.at = at;
    this.tick();
    this.wake();
  }

  private in(topic: string, state?: string): Stored[] {
    this.tick();
    const here = (message: api.Message): boolean =>
      message.topic === topic && (state ?? message.state) === message.state;
    return [...this.all.values()].filter(({ message }) => here(message));
  }

  /** The live message that has a key. */
  private live(topic: string, key: string | undefined): Stored | undefined {
    const holds = ({ message, keyUntil }: Stored): boolean =>
      message.key === key && message.state !== "dead" && (keyUntil === "done" || message.attempts === 0);
    return key === undefined ? undefined : this.in(topic).find(holds);
  }

  private publish(topic: string, body: api.PublishRequest): api.PublishedMessage {
    const { idempotency_key: request, debounce, throttle, once, ...asked } = body;
    const policies = [debounce, throttle, once].filter((policy) => policy != null).length;
    const due = once == null && (body.delay_ms ?? body.deliver_at) != null;
    if (policies > 1 || (policies === 1 && (due || (body.key ?? request) != null))) {
      throw Refusal.field("debounce", "one policy for duplicates, without keys and a due time of its own");
    }
    if (debounce != null) {
      const { key, delay_ms } = debounce;
      Object.assign(asked, { key, delay_ms, on_duplicate: "replace", key_until: "granted" });
    }
    const { on_duplicate: onDuplicate, key_until: keyUntil } = asked;
    const key = asked.key ?? undefined;
    let dueAt = this.due(asked) ?? this.now();
    if (!("payload" in body) && body.payload_base64 == null) {
      throw Refusal.field("payload", "is required, or payload_base64 in its place");
    }
    if (onDuplicate != null && key === undefined) throw Refusal.field("on_duplicate", "can only be given with key");
    const name = once != null ? `${topic} once ${once.key}` : `${topic} request ${request}`;
    const before = this.answered.get(name);
    if (before !== undefined && before.until > this.now()) {
      if (once == null && !isDeepStrictEqual(before.asked, asked)) throw new Refusal("idempotency_key_reused");
      return { ...before.answer, duplicate: true };
    }

    let taken = this.live(topic, key);
    if (debounce?.max_wait_ms != null) {
      const first = taken === undefined ? this.now() : Date.parse(taken.message.published_at);
      dueAt = Math.min(dueAt, first + debounce.max_wait_ms);
    }
    if (throttle != null) {
      const last = this.throttled.get(`${topic} ${throttle.key}`);
      const isAhead = last !== undefined && last.at > this.now();
      dueAt = isAhead ? last.at : Math.max(this.now(), last?.until ?? 0);
      const waits = isAhead && this.all.has(last.stored.message.id) && ["delayed", "ready"].includes(last.stored.message.state);
      taken = waits ? last.stored : undefined;
    }
    if (taken !== undefined && onDuplicate === "reject") throw new Refusal("duplicate_key");
    if (taken?.message.state === "leased" && onDuplicate === "replace") throw new Refusal("message_leased");
    const stored = taken ?? this.made(topic, key);
    const { message } = stored;
    if (taken === undefined || throttle != null || onDuplicate === "replace") {
      const { payload, payload_base64, content_type, callback, backoff, priority, headers } = body;
      Object.assign(message, { payload, payload_base64, content_type, callback, backoff });
      Object.assign(message, { priority: priority ?? 0, headers: headers ?? {} });
      stored.keyUntil = keyUntil ?? "done";
      stored.budget = body.max_attempts ?? ATTEMPTS;
      message.attempts_left = stored.budget - message.attempts;
      this.enter(stored, "delayed", dueAt);
    }
    const { id, state, due_at, published_at } = message;
    const answer = { id, topic, state, due_at, published_at, duplicate: taken !== undefined } as api.PublishedMessage;
    if (throttle != null) {
      this.throttled.set(`${topic} ${throttle.key}`, { until: dueAt + throttle.every_ms, at: dueAt, stored });
    }
    const windowMs = once?.for_ms ?? IDEMPOTENCY_MS;
    if ((once ?? request) != null) this.answered.set(name, { until: this.now() + windowMs, asked, answer });
    return answer;
  }

  private made(topic: string, key: string | undefined): Stored {
    const counts = { attempts: 0, attempts_left: 0, priority: 0 };
    const message = { id: randomUUID(), topic, key, published_at: iso(this.now()), state: "delayed", ...counts };
    const stored: Stored = {
      message: message as api.Message,
      at: Infinity,
      token: "",
      budget: 0,
      failures: 0,
      keyUntil: "done",
    };
    this.topics.add(topic);
    this.all.set(message.id, stored);
    return stored;
  }

  /** When a message is due, where the request says so. */
  private due({ delay_ms, deliver_at }: api.PublishRequest): number | undefined {
    if (deliver_at == null) return delay_ms == null ? undefined : this.now() + delay_ms;
    if (delay_ms != null) throw Refusal.field("deliver_at", "cannot be given together with delay_ms");
    return Math.max(this.now(), Date.parse(deliver_at));
  }

  private publishBatch(topic: string, messages: api.PublishRequest[]): { results: object[] } {
    const results = messages.map((body) => {
      try {
        return { status: "ok", message: this.publish(topic, body) };
      } catch (error) {
        if (error instanceof Refusal && error.code !== "invalid_input") return { status: error.code };
        throw error;
      }
    });
    return { results };
  }

  private async lease(topics: string[], body: api.LeaseRequest, signal: AbortSignal): Promise<object> {
    const acks = (body.acks ?? []).map((ack) => this.settle("ack", ack));
    const until = Date.now() + (body.wait_ms ?? 0);
    for (;;) {
      signal.throwIfAborted();
      const messages = this.grant(topics, body.max_messages ?? 1, body.lease_ms ?? LEASE_MS);
      const leftMs = until - Date.now();
      if (messages.length > 0 || leftMs <= 0) return { messages, acks };
      await this.change(leftMs, signal);
    }
  }

  /** Resolves when there may be something new to lease, at the latest after so many ms. */
  private async change(mostMs: number, signal: AbortSignal): Promise<void> {
    const changes = [...this.all.values()].filter(
      ({ message: { state } }) => state === "delayed" || state === "leased",
    );
    const nextMs = Math.min(...changes.map(({ at }) => at)) - this.now();
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.waiting.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, Math.min(mostMs, Math.max(1, nextMs)));
      this.waiting.add(done);
      signal.addEventListener("abort", done);
    });
  }

  /** Leases what is ready, of the first topic that has something. */
  private grant(topics: string[], most: number, leaseMs: number): object[] {
    const ready = topics.map((topic) => this.in(topic, "ready").sort(order)).find(({ length }) => length > 0) ?? [];
    return ready.slice(0, most).map((stored) => {
      const { message, at } = stored;
      message.attempts += 1;
      message.attempts_left -= 1;
      stored.token = randomUUID();
      this.enter(stored, "leased", this.now() + leaseMs);
      const { state, attempts: attempt, last_error, callback, backoff, ...rest } = message;
      return { ...rest, attempt, due_at: iso(at), lease_token: stored.token, lease_ms: leaseMs };
    });
  }

  private settle(verb: string, item: api.NackBatchItem & { lease_ms?: number }): Settled {
    const { id } = item;
    this.tick();
    const stored = this.all.get(id);
    if (stored === undefined) return { id, status: "message_not_found" };
    const { message } = stored;
    if (message.state !== "leased" || stored.token !== item.lease_token) return { id, status: "lease_lost" };
    if (verb === "ack") {
      this.all.delete(id);
      return { id, status: "ok" };
    }
    if (verb === "extend") {
      const now = this.now();
      this.enter(stored, "leased", Math.max(stored.at, now + item.lease_ms!));
      const { lease_expires_at } = message;
      return { id, status: "ok", lease_ms: stored.at - now, ...(lease_expires_at && { lease_expires_at }) };
    }
    if (item.reason != null) message.last_error = item.reason;
    if (item.release) message.attempts_left += 1;
    else stored.failures += 1;
    if (item.dead) message.attempts_left = 0;
    this.comeBack(stored, this.now() + (item.delay_ms ?? (item.release ? 0 : backoffMs(stored))));
    const { state, attempts: attempt, due_at } = message;
    return { id, status: "ok", state, attempt, ...(due_at && { due_at }) };
  }

  private settleOne(verb: string, item: api.NackBatchItem): object | undefined {
    const { status, ...answer } = this.settle(verb, item);
    if (status !== "ok") throw new Refusal(status);
    return verb === "ack" ? undefined : answer;
  }

  /** The message that a path names, by id or by topic and key. */
  private find({ topic, id, key }: Asked): Stored {
    if (topic !== undefined) this.known(topic);
    const found = topic === undefined ? this.all.get(id) : this.live(topic, key);
    if (found === undefined) throw new Refusal("message_not_found");
    return found;
  }

  private known(topic: string): void {
    if (!this.topics.has(topic)) throw new Refusal("topic_not_found");
  }

  private update(stored: Stored, body: api.UpdateMessageRequest): api.Message {
    const { message } = stored;
    const dueAt = this.due(body);
    if (message.state === "leased") throw new Refusal("message_leased");
    if (message.state === "dead" && dueAt !== undefined) throw new Refusal("message_dead");
    const { delay_ms, deliver_at, max_attempts, ...changes } = body;
    const content = { payload: undefined, payload_base64: undefined, content_type: undefined };
    const replaced = "payload" in body || body.payload_base64 !== undefined;
    Object.assign(message, replaced && content, changes);
    if (max_attempts !== undefined) {
      message.attempts_left += (max_attempts ?? ATTEMPTS) - stored.budget;
      stored.budget = max_attempts ?? ATTEMPTS;
    }
    if (dueAt !== undefined) this.enter(stored, "delayed", dueAt);
    return message;
  }

  private remove({ message }: Stored, query: URLSearchParams): void {
    if (message.state === "leased" && query.get("force") !== "true") throw new Refusal("message_leased");
    this.all.delete(message.id);
  }

  private list(topic: string, query: URLSearchParams): api.MessageList {
    this.known(topic);
    const found = this.in(topic, query.get("state") ?? "").sort(order);
    return {
      items: found.map(({ message }) => {
        const { payload, payload_base64, content_type, headers, ...rest } = message;
        return query.get("payload") === "true" ? message : rest;
      }),
    };
  }

  private listTopics(prefix: string): api.TopicList {
    const names = [...this.topics].filter((name) => name.startsWith(prefix)).sort();
    const count = (name: string, state: string): number => this.in(name, state).length;
    return {
      items: names.map((name) => {
        const [delayed, ready] = [count(name, "delayed"), count(name, "ready")];
        const [leased, dead] = [count(name, "leased"), count(name, "dead")];
        return { name, paused: false, counts: { delayed, ready, leased, blocked: 0, dead, acked: 0 } };
      }),
    };
  }

  private redrive(topic: string, { max_messages, spread_ms, ...others }: api.RedriveRequest): api.RedriveResponse {
    this.known(topic);
    const [other] = Object.keys(others);
    if (other !== undefined) throw new Refusal("not_supported", `the server in memory cannot redrive with ${other}`);
    const dead = this.in(topic, "dead").sort(order);
    const most = Math.min(max_messages ?? 10_000, dead.length);
    let redriven = 0;
    for (const stored of dead) {
      if (redriven === most || this.live(topic, stored.message.key) !== undefined) continue;
      this.redriveOne(stored, this.now() + Math.floor(((spread_ms ?? 0) * redriven) / most));
      redriven += 1;
    }
    return { redriven, remaining: dead.length - redriven };
  }

  private redriveOne(stored: Stored, due = this.now()): api.Message {
    const { message } = stored;
    if (message.state !== "dead") throw new Refusal("message_not_dead");
    if (this.live(message.topic, message.key) !== undefined) throw new Refusal("duplicate_key");
    message.attempts_left = stored.budget;
    stored.failures = 0;
    this.enter(stored, "delayed", due);
    return message;
  }
}

const iso = (at: number): string => new Date(at).toISOString();

/** Ready messages as they are granted; others by the instant that their state is about. */
function order(a: Stored, b: Stored): number {
  return (a.message.state === "ready" ? b.message.priority - a.message.priority : 0) || a.at - b.at;
}

/** How long a message that failed waits. */
function backoffMs({ message, failures }: Stored): number {
  const policy: api.BackoffRequest = (message.backoff as api.BackoffRequest | undefined) ?? BACKOFF;
  const { kind, base_ms, factor, max_ms, delays_ms } = policy;
  if (kind === "schedule") return delays_ms![Math.min(failures, delays_ms!.length) - 1]!;
  if (kind === "fixed") return base_ms!;
  return Math.min(max_ms ?? 3_600_000, (base_ms ?? 1000) * (factor ?? 2) ** (failures - 1));
}
