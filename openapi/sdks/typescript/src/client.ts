/** What a program does with a queue, in a method each; and under them the typed APIs, one a resource. */

import { randomUUID } from "node:crypto";
import { CallbacksApi, LeasesApi, MessagesApi, SchedulesApi, ServiceApi, TopicsApi } from "./api/apis/index.js";
import type { Message, PublishedMessage, PublishRequest, PublishResult } from "./api/models/index.js";
import { Configuration } from "./api/runtime.js";
import { known, milliseconds } from "./checks.js";
import { UnexpectedAnswer } from "./errors.js";
import type { Typed } from "./held.js";
import { Keyed } from "./keyed.js";
import { type At, Manage, pages } from "./manage.js";
import { type BatchMessage, type CallbackOptions, payloadFields, type PublishOptions, renamed, repeats, wire } from "./publishing.js";
import { type CallOptions, Retries, Sender } from "./sender.js";
import { traced } from "./trace.js";
import { FetchTransport, HttpTransport, type Transport } from "./transport.js";

/** How a {@link Client} is made. */
export interface ClientOptions {
  /** The server's URL; by default the environment's `DUEQ_SERVER`, or `http://127.0.0.1:8080`. */
  server?: string | undefined;
  /** Sent with every request, where the server wants one; by default the environment's `DUEQ_API_KEY`. */
  apiKey?: string | undefined;
  /** How long a request may take, ms; 30000. A lease request's `wait_ms` is added. */
  timeoutMs?: number | undefined;
  /** Whether failed calls that are safe to repeat are repeated; true. */
  retries?: boolean | undefined;
  /** How long after its beginning a call may be repeated, ms; 30000. */
  deadlineMs?: number | undefined;
  /** In place of Node's `fetch`, for this client and its workers (which use `node:http` without it). */
  fetch?: typeof fetch | undefined;
}

/** How many dead messages {@link Client.redrive} takes, and when they are due. */
export interface RedriveOptions {
  /** So many at most; 10000. */
  max?: number | undefined;
  /** Their due times are spread over so many ms; unless given, all are due at once. */
  spreadMs?: number | undefined;
}

const NAMES = {
  server: 1,
  apiKey: 1,
  timeoutMs: 1,
  retries: 1,
  deadlineMs: 1,
  fetch: 1,
} satisfies Record<keyof ClientOptions, 1>;

/**
 * A client of one server. A refusal is thrown as {@link ProblemError}, a server that cannot be reached as
 * {@link ConnectError}, one that does not answer in time as {@link TimeoutError}.
 *
 * Calls that are safe to repeat are repeated until `deadlineMs` is over, where the connection broke, nobody answered, or the
 * server says that it cannot now: what publishes (with an idempotency key or a policy for duplicates), reads, changes or deletes a message by id or key,
 * acks, nacks and extends.
 */
export class Client extends Manage {
  /** The server's URL. */
  readonly server: string;
  /** The API key, if there is one; not enumerable, so that a client that is logged does not show it. */
  readonly apiKey: string | undefined;
  /** Messages, as the HTTP API has them. */
  readonly messages: MessagesApi;
  /** Leasing by hand, as the HTTP API has it; a {@link Worker} does it for you. */
  readonly leases: LeasesApi;
  /** Topics and their configuration, as the HTTP API has them. */
  readonly topics: TopicsApi;
  /** Callbacks, as the HTTP API has them. */
  readonly callbacks: CallbacksApi;
  /** Schedules, as the HTTP API has them. */
  readonly schedules: SchedulesApi;
  /** Health, metrics and the API's document. */
  readonly service: ServiceApi;
  private readonly sender: Sender;

  /** Throws a TypeError or RangeError for options that make no sense. Nothing is sent. */
  constructor(options: ClientOptions = {}) {
    super();
    known(options, NAMES);
    this.server = (options.server || process.env["DUEQ_SERVER"] || "http://127.0.0.1:8080").replace(/\/+$/, "");
    const apiKey = options.apiKey || process.env["DUEQ_API_KEY"] || undefined;
    Object.defineProperty(this, "apiKey", { value: apiKey, enumerable: false });
    const isHttp = URL.canParse(this.server) && /^https?:$/.test(new URL(this.server).protocol);
    if (!isHttp) throw new TypeError(`not an http(s) URL: ${this.server}`);
    if (apiKey !== undefined && !/^[\x21-\x7e]+$/.test(apiKey)) {
      throw new TypeError("an API key is visible ASCII characters, without spaces and line ends");
    }
    const timeoutMs = milliseconds("timeoutMs", options.timeoutMs ?? 30_000, 1);
    const deadlineMs = milliseconds("deadlineMs", options.deadlineMs ?? 30_000, 0);
    this.sender = new Sender(this.server, options.fetch, timeoutMs, (options.retries ?? true) ? deadlineMs : 0);
    const configuration = new Configuration({
      basePath: this.server,
      fetchApi: this.sender.fetch,
      // Without this the generated runtime would wrap every error in one of its own.
      middleware: [{ onError: ({ error }) => Promise.reject(error) }],
      ...(apiKey === undefined ? {} : { accessToken: () => apiKey }),
    });
    this.messages = new MessagesApi(configuration);
    this.leases = new LeasesApi(configuration);
    this.topics = new TopicsApi(configuration);
    this.callbacks = new CallbacksApi(configuration);
    this.schedules = new SchedulesApi(configuration);
    this.service = new ServiceApi(configuration);
  }

  /** The typed APIs, by the name that the other languages have for them: `client.api.topics` is `client.topics`. */
  get api(): Pick<Client, "messages" | "leases" | "topics" | "callbacks" | "schedules" | "service"> {
    return this;
  }

  /**
   * Publishes a message: any JSON value, or bytes (a Uint8Array).
   *
   * @example
   * await client.publish("orders", { order: 42 }, { delayMs: 60_000, key: "order/42" });
   */
  async publish(
    topic: string,
    payload: unknown,
    options: PublishOptions = {},
    call?: CallOptions,
  ): Promise<PublishedMessage> {
    const body = this.complete({ ...wire(options), ...payloadFields(payload) }, call);
    return published(await this.messages.publishMessage({ topic, body }, call));
  }

  /**
   * Publishes 1 to 1000 messages in one request. The results are in the same order: `status` is `ok`, with the `message`, or
   * the code that publishing it alone would have been refused with.
   */
  async publishBatch(
    topic: string,
    messages: readonly BatchMessage[],
    call: CallOptions = {},
  ): Promise<PublishResult[]> {
    const bodies = messages.map(({ payload, ...options }) =>
      this.complete({ ...wire(options), ...payloadFields(payload) }, call),
    );
    const retries = new Retries(call.deadlineMs ?? this.sender.deadlineMs, call.signal);
    const publish = async (lines: typeof bodies, deadlineMs?: number): Promise<PublishResult[]> => {
      const answer = await this.messages.publishBatch({ topic, body: { messages: lines } }, { ...call, deadlineMs });
      if (answer?.results?.length === lines.length) return answer.results;
      throw new UnexpectedAnswer("the answer to a batch has not one result a message");
    };
    const results = await publish(bodies, call.deadlineMs);
    for (;;) {
      const open = [...results.keys()].filter(
        (at) =>
          repeats(bodies[at]!) && /^(redis_unavailable|outcome_unknown)$/.test(results[at]!.status),
      );
      if (open.length === 0 || !(await retries.again())) return results;
      try {
        const again = await publish(
          open.map((at) => bodies[at]!),
          retries.leftMs,
        );
        for (const [line, at] of open.entries()) results[at] = again[line]!;
      } catch (error) {
        call.signal?.throwIfAborted();
        // What is known of the others is worth more than why nothing more is known of these.
        return results;
      }
    }
  }

  /**
   * Calls a URL when the message is due, with the payload as body (none: an empty one), signed: see {@link webhooks.verify}.
   * The answer is the message: it can be looked at, changed and deleted by its id.
   */
  async callback(
    url: string,
    payload?: unknown,
    options: CallbackOptions = {},
    call?: CallOptions,
  ): Promise<PublishedMessage> {
    const body = payload === undefined ? wire(options) : { ...wire(options), ...payloadFields(payload) };
    return published(await this.callbacks.scheduleCallback({ body: this.complete({ ...body, url }, call) }, call));
  }

  /** The message that was published with this key: to look at it, cancel it, or give it another due time. */
  key<Payload = any>(topic: string, key: string): Keyed<Payload> {
    return new Keyed(this.messages, topic, key);
  }

  /** The dead messages of a topic with their payloads, those dead longest first, over all pages. */
  async *dead<Payload = any>(topic: string, call?: CallOptions): AsyncGenerator<Typed<Payload>, void, undefined> {
    const page = (at: At) => this.messages.listMessages({ topic, state: "dead", payload: true, ...at }, call);
    yield* pages(page) as AsyncGenerator<Typed<Payload>, void, undefined>;
  }

  /**
   * Makes up to `max` (10000) dead messages of a topic ready again, those dead longest first; resolves to how many it were.
   * With `spreadMs` their due times are spread over so long.
   */
  async redrive(topic: string, max?: number | RedriveOptions, call?: CallOptions): Promise<number> {
    const options = typeof max === "number" ? { max } : max;
    const body = options && renamed(options, { max: "max_messages", spreadMs: "spread_ms" });
    return (await this.topics.redriveTopic({ topic, ...(body && { body }) }, call)).redriven;
  }

  /** Makes one dead message ready again. */
  async redriveMessage(id: string, call?: CallOptions): Promise<Message> {
    return this.messages.redriveMessage({ id }, call);
  }

  /** @internal A worker's way to the server. */
  transport(): Transport {
    return this.sender.own === undefined
      ? new HttpTransport(this.server, this.apiKey)
      : new FetchTransport(this.sender, this.apiKey);
  }

  /** With the trace that it belongs to, and an idempotency key, by which it may be sent twice. */
  private complete<T extends PublishRequest>(body: T, call?: CallOptions): T {
    const headers = traced(body.headers);
    if (headers !== undefined) body.headers = headers;
    const retries = (call?.deadlineMs ?? this.sender.deadlineMs) > 0;
    if (retries && !repeats(body)) body.idempotency_key = randomUUID();
    return body;
  }
}

/** The answer, if it is one: something else may answer at that address, and nothing was published. */
function published(answer: PublishedMessage | null): PublishedMessage {
  if (typeof answer?.id === "string") return answer;
  throw new UnexpectedAnswer("the answer to a publish has no message");
}
