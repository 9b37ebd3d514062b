/** What can be said of a message when it is published, and how the HTTP API spells it. */

import { inspect } from "node:util";
import type {
  AuthRequest,
  BackoffRequest,
  CallbackRequest,
  CallMethod,
  CompletionRequest,
  KeyUntil,
  OnDuplicate,
  PublishRequest,
  RetryRequest,
  ScheduleCallbackRequest,
} from "./api/models/index.js";
import { known } from "./checks.js";

/** A due time: so long from now, or then. */
export interface When {
  /** Due after so many ms, up to ten years; 0: now. Not with `at`. */
  delayMs?: number | undefined;
  /** Due then; in the past: now. Not with `delayMs`. */
  at?: Date | undefined;
}

/** A key, and how long each of its publishes puts its message off. */
export interface Debounce {
  /** The message's key in its topic. */
  key: string;
  /** Due so many ms after its latest publish. */
  delayMs: number;
  /** Due no later than so many ms after its first publish. */
  maxWaitMs?: number | undefined;
}

/** A key, and its interval: the first message of an interval at once, the latest content of the others at its end. */
export interface Throttle {
  /** What is throttled. */
  key: string;
  /** The interval, ms. */
  everyMs: number;
}

/** A key, and how long its first publish answers for all others. */
export interface Once {
  /** What is published once. */
  key: string;
  /** How long, ms. */
  forMs: number;
}

/** The options of {@link Client.publish}. What is left out is as the topic's configuration says. */
export interface PublishOptions extends When {
  /** Publish when it has been quiet for a while. Only one of these three, and not with the keys below. */
  debounce?: Debounce | undefined;
  /** Publish at most once per interval. */
  throttle?: Throttle | undefined;
  /** Publish once within a time. */
  once?: Once | undefined;
  /** The message's own name in its topic, 1 to 255 characters. One live message (delayed, ready or leased) has it at a time. */
  key?: string | undefined;
  /** What if a live message has the key: `return` it (the default), `reject` this one, or `replace` that one's content. */
  onDuplicate?: OnDuplicate | undefined;
  /** When the key is free again: when the message is `done` (the default), or as soon as it is `granted` to a worker. */
  keyUntil?: KeyUntil | undefined;
  /** Messages of a group are leased in the order in which they were published. */
  group?: string | undefined;
  /** Publishing again with the same key gives the first answer and stores nothing. By default a random one for every call. */
  idempotencyKey?: string | undefined;
  /** 0 to 255; among ready messages higher goes first. 0. */
  priority?: number | undefined;
  /** The message expires so long after it fell due, ms. */
  ttlMs?: number | undefined;
  /** Attempts before the message is dead, 1 to 1000. */
  maxAttempts?: number | undefined;
  /** How long it waits after a failure, as in the HTTP API: `{ kind: "fixed", base_ms: 1000 }`. */
  backoff?: BackoffRequest | undefined;
  /** The handler, or the callback's receiver, gets them: at most 32, 8 KiB together. */
  headers?: Record<string, string> | undefined;
  /** The media type of a payload of bytes; `application/octet-stream`. */
  contentType?: string | undefined;
  /** Where to publish what came of it: `{ url: "https://…" }` or `{ topic: "…" }`. */
  onDone?: CompletionRequest | undefined;
  /** Where to publish that it died. */
  onDead?: CompletionRequest | undefined;
  /** In a pushed topic: where to send this message, as in the HTTP API: `{ url: "https://…" }`. */
  callback?: CallbackRequest | undefined;
}

/** One message of {@link Client.publishBatch}. */
export interface BatchMessage extends PublishOptions {
  /** Any JSON value, or bytes (a Uint8Array). */
  payload: unknown;
}

/** The options of {@link Client.callback}. */
export interface CallbackOptions extends Omit<PublishOptions, "callback"> {
  /** The HTTP method; POST. */
  method?: CallMethod | undefined;
  /** How long the URL has to answer, ms, 100 to 1800000; 15000. */
  timeoutMs?: number | undefined;
  /** How much of that connecting may take, TLS included, ms; 5000, and 10000 with TLS. */
  connectTimeoutMs?: number | undefined;
  /** Which failed calls are retried, as in the HTTP API: `{ on: ["5xx", "429"] }`. */
  retry?: RetryRequest | undefined;
  /** How the call proves who is calling, as in the HTTP API: `{ kind: "basic", username, password }`. */
  auth?: AuthRequest | undefined;
  /** The name of the server's client certificate to call with. */
  clientCert?: string | undefined;
}

type Fields = PublishRequest & Partial<ScheduleCallbackRequest>;

const NAMES: Record<string, string> = {
  delayMs: "delay_ms",
  at: "deliver_at",
  debounce: "debounce",
  throttle: "throttle",
  once: "once",
  key: "key",
  onDuplicate: "on_duplicate",
  keyUntil: "key_until",
  group: "group",
  idempotencyKey: "idempotency_key",
  priority: "priority",
  ttlMs: "ttl_ms",
  maxAttempts: "max_attempts",
  backoff: "backoff",
  headers: "headers",
  contentType: "content_type",
  onDone: "on_done",
  onDead: "on_dead",
  callback: "callback",
  method: "method",
  timeoutMs: "timeout_ms",
  connectTimeoutMs: "connect_timeout_ms",
  retry: "retry",
  auth: "auth",
  clientCert: "client_cert",
} satisfies Record<keyof (PublishOptions & CallbackOptions), keyof Fields>;

/** The named policies for duplicates: the names of their parts. */
const POLICIES: Record<string, Record<string, string>> = {
  debounce: { key: "key", delayMs: "delay_ms", maxWaitMs: "max_wait_ms" },
  throttle: { key: "key", everyMs: "every_ms" },
  once: { key: "key", forMs: "for_ms" },
};

/** Whether a publish may be sent again: it says what becomes of a repeat. */
export function repeats(message: object): boolean {
  const sent = message as Record<string, unknown>;
  return ["idempotency_key", ...Object.keys(POLICIES)].some((name) => sent[name] != null);
}

/** The options by their names in the HTTP API. */
export function wire(options: PublishOptions & CallbackOptions): Fields {
  return renamed(options, NAMES);
}

/** Options by the names that a table gives them; an option that it does not have is a TypeError. */
export function renamed(options: object, names: Record<string, string>): object {
  known(options, names);
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([option, value]) => [names[option], checked(option, value)]));
}

function checked(option: string, value: unknown): unknown {
  if (option === "at") {
    if (value instanceof Date && !Number.isNaN(value.getTime())) return value.toISOString();
    throw new TypeError(`at is a valid Date, not ${String(value)}`);
  }
  const policy = POLICIES[option];
  if (policy !== undefined) return renamed(value as object, policy);
  if (!option.endsWith("Ms")) return value;
  // JSON has no NaN: it would be null there, and null is no delay at all.
  if (typeof value === "number" && Number.isFinite(value)) return Math.ceil(value);
  throw new TypeError(`${option} is a number of milliseconds, not ${String(value)}`);
}

/** A payload's fields: JSON, or bytes. */
export function payloadFields(payload: unknown): PublishRequest {
  if (payload instanceof Uint8Array) {
    const { buffer, byteOffset, byteLength } = payload;
    return { payload_base64: Buffer.from(buffer, byteOffset, byteLength).toString("base64") };
  }
  if (payload instanceof ArrayBuffer) return payloadFields(new Uint8Array(payload));
  if (payload === undefined || ["function", "symbol"].includes(typeof payload) || isLost(payload)) {
    throw new TypeError(
      `a payload is a JSON value or a Uint8Array, not ${inspect(payload, { depth: 0 })}; null is one`,
    );
  }
  return { payload };
}

/** Whether JSON makes `{}` of it, whatever it holds. A Promise was meant to be awaited. */
function isLost(payload: unknown): boolean {
  return [Promise, Map, Set, Blob, DataView, Error].some((kind) => payload instanceof kind && !("toJSON" in payload));
}
