/** What can be said of a message when it is published, and how the HTTP API spells it. */

import { inspect } from "node:util";
import type {
  BackoffRequest,
  CallbackRequest,
  CallMethod,
  KeyUntil,
  OnDuplicate,
  PublishRequest,
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

/** The options of {@link Client.publish}. What is left out is as the topic's configuration says. */
export interface PublishOptions extends When {
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
}

type Fields = PublishRequest & Partial<ScheduleCallbackRequest>;

const NAMES: Record<string, string> = {
  delayMs: "delay_ms",
  at: "deliver_at",
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
  callback: "callback",
  method: "method",
  timeoutMs: "timeout_ms",
} satisfies Record<keyof (PublishOptions & CallbackOptions), keyof Fields>;

/** The options by their names in the HTTP API. */
export function wire(options: PublishOptions & CallbackOptions): Fields {
  known(options, NAMES);
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([option, value]) => [NAMES[option], checked(option, value)]));
}

function checked(option: string, value: unknown): unknown {
  if (option === "at") {
    if (value instanceof Date && !Number.isNaN(value.getTime())) return value.toISOString();
    throw new TypeError(`at is a valid Date, not ${String(value)}`);
  }
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
