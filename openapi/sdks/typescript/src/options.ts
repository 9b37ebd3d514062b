/** What a worker can be told, checked once. */

import type { HandlerContext, Leased } from "./held.js";

/** Does the work of one message. Returning (or resolving) acks it, throwing (or rejecting) nacks it. */
export type Handler<Payload> = (message: Leased<Payload>, context: HandlerContext) => unknown;

/** Called as things happen, for logs and metrics. What a hook throws is ignored. */
export interface Hooks<Payload> {
  /** Messages came with one lease request. */
  onLease?: (count: number) => void;
  /** A handler begins. */
  onStart?: (message: Leased<Payload>) => void;
  /** A handler returned after `ms`; its ack is on the way. */
  onDone?: (message: Leased<Payload>, ms: number) => void;
  /**
   * A handler threw; its nack is on the way. The error is a {@link RetryIn}, a {@link Dead}, or what went wrong. Without this
   * hook it is written to the console.
   */
  onFailed?: (message: Leased<Payload>, error: unknown) => void;
  /** The lease was lost before the message was acked: it was, or will be, handled again unless it was deleted. */
  onLost?: (message: Leased<Payload>) => void;
  /** A request failed and will be repeated. Without this hook the first failure of an outage is written to the console. */
  onError?: (error: unknown) => void;
  /** The server answers again after such failures. Without this hook and `onError` it is written to the console. */
  onRecovered?: () => void;
}

export type StopSignal = "SIGINT" | "SIGTERM" | "SIGHUP" | "SIGQUIT" | "SIGUSR2" | "SIGBREAK";

export interface WorkerOptions<Payload = any> extends Hooks<Payload> {
  /** The topic to work, or several (up to 32): a lease request gets messages of the first that has some. */
  topic: string | readonly string[];
  /** Does the work of one message. */
  handler: Handler<Payload>;
  /** Handlers at once; 10. */
  concurrency?: number | undefined;
  /** Messages a lease request at most, 1…1000; 1. More of them wait in this process, and cost fewer requests. */
  prefetch?: number | undefined;
  /** How long a lease lasts before it is extended, 1000…43200000 ms; the topic's. A killed worker's messages wait so long. */
  leaseMs?: number | undefined;
  /** How long a lease request waits for messages, 0…60000 ms; 20000. */
  waitMs?: number | undefined;
  /** How long handlers may go on after `stop()`, ms; 30000. */
  stopTimeoutMs?: number | undefined;
  /** Stops the worker when it is aborted. */
  signal?: AbortSignal | undefined;
  /** Signals of the process that stop the worker while it runs, such as `["SIGINT", "SIGTERM"]`; none. A second one kills. */
  stopSignals?: readonly StopSignal[] | undefined;
}

export interface Settings {
  topic: string | readonly string[];
  handler: Handler<any>;
  concurrency: number;
  prefetch: number;
  leaseMs: number | undefined;
  waitMs: number;
  stopTimeoutMs: number;
  stopSignals: readonly StopSignal[];
}

export function settings(options: WorkerOptions<any>): Settings {
  const topics = typeof options.topic === "string" ? [options.topic] : (options.topic ?? []);
  if (topics.length === 0 || topics.includes("")) throw new TypeError("a worker needs a topic");
  if (typeof options.handler !== "function") throw new TypeError("a worker needs a handler");
  // Calling it runs nothing of it, and every message would be acked.
  if (/Generator/.test(Object.prototype.toString.call(options.handler))) {
    throw new TypeError("a handler cannot be a generator");
  }
  return {
    topic: options.topic,
    handler: options.handler,
    concurrency: whole("concurrency", options.concurrency ?? 10, 1, 1_000_000),
    prefetch: whole("prefetch", options.prefetch ?? 1, 1, 1000),
    leaseMs: options.leaseMs === undefined ? undefined : whole("leaseMs", options.leaseMs, 1000, 43_200_000),
    waitMs: whole("waitMs", options.waitMs ?? 20_000, 0, 60_000),
    stopTimeoutMs: whole("stopTimeoutMs", options.stopTimeoutMs ?? 30_000, 0, 2_147_483_647),
    stopSignals: options.stopSignals ?? [],
  };
}

function whole(name: string, value: number, least: number, most: number): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new RangeError(`${name} is a whole number from ${least} to ${most}, not ${value}`);
}
