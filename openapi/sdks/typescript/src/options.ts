/** What a worker can be told, checked once. */

import { known, whole } from "./checks.js";
import type { HandlerContext, Leased } from "./held.js";

/** Does the work of one message. Returning (or resolving) acks it, throwing (or rejecting) nacks it. */
export type Handler<Payload> = (message: Leased<Payload>, context: HandlerContext) => unknown;

/**
 * Runs around a handler, or around the next middleware: `next` resolves to what that returned, or rejects with what it threw.
 * What this returns or throws counts in its place. Without a call of `next` the message is not handled, and acked.
 */
export type Middleware<Payload = any> = (
  message: Leased<Payload>,
  context: HandlerContext,
  next: () => Promise<unknown>,
) => unknown;

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

/** A signal of the process that stops a worker. */
export type StopSignal = "SIGINT" | "SIGTERM" | "SIGHUP" | "SIGQUIT" | "SIGUSR2" | "SIGBREAK";

/** How a {@link Worker} is made. */
export interface WorkerOptions<Payload = any> extends Hooks<Payload> {
  /** The topic to work, or several (up to 32): a lease request gets messages of the first that has some. */
  topic: string | readonly string[];
  /** Does the work of one message. */
  handler: Handler<Payload>;
  /** Runs around every handler, the first outermost; none. */
  middleware?: readonly Middleware<Payload>[] | undefined;
  /** Handlers at once; 10. */
  concurrency?: number | undefined;
  /** Messages that may wait here for a handler, 1…1000; 1, which means none. More make short handlers faster. */
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

/** How a {@link Worker} runs. */
export interface RunOptions {
  /** Stops by itself when no message is due and no handler runs: for tests, and for jobs that a timer starts. */
  untilEmpty?: boolean | undefined;
}

export function untilEmpty(options: RunOptions): boolean {
  known(options, { untilEmpty: 1 } satisfies Record<keyof RunOptions, 1>);
  return options.untilEmpty ?? false;
}

const NAMES = {
  topic: 1,
  handler: 1,
  middleware: 1,
  concurrency: 1,
  prefetch: 1,
  leaseMs: 1,
  waitMs: 1,
  stopTimeoutMs: 1,
  signal: 1,
  stopSignals: 1,
  onLease: 1,
  onStart: 1,
  onDone: 1,
  onFailed: 1,
  onLost: 1,
  onError: 1,
  onRecovered: 1,
} satisfies Record<keyof WorkerOptions, 1>;

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
  known(options, NAMES);
  const topics: readonly unknown[] = Array.isArray(options.topic) ? options.topic : [options.topic];
  if (topics.length === 0 || topics.some((topic) => typeof topic !== "string" || topic === "")) {
    throw new TypeError("a worker needs a topic");
  }
  if (typeof options.handler !== "function") throw new TypeError("a worker needs a handler");
  // Calling it runs nothing of it, and every message would be acked.
  if (/Generator/.test(Object.prototype.toString.call(options.handler))) {
    throw new TypeError("a handler cannot be a generator");
  }
  const middleware = options.middleware ?? [];
  if (middleware.some((layer) => typeof layer !== "function")) throw new TypeError("a middleware is a function");
  return {
    topic: options.topic,
    handler: middleware.reduceRight(around, options.handler),
    concurrency: whole("concurrency", options.concurrency ?? 10, 1, 1_000_000),
    prefetch: whole("prefetch", options.prefetch ?? 1, 1, 1000),
    leaseMs: options.leaseMs === undefined ? undefined : whole("leaseMs", options.leaseMs, 1000, 43_200_000),
    waitMs: whole("waitMs", options.waitMs ?? 20_000, 0, 60_000),
    stopTimeoutMs: whole("stopTimeoutMs", options.stopTimeoutMs ?? 30_000, 0, 2_147_483_647),
    stopSignals: options.stopSignals ?? [],
  };
}

function around(next: Handler<any>, layer: Middleware): Handler<any> {
  return async (message, context) => {
    const running = new Set<Promise<unknown>>();
    const run = async (): Promise<unknown> => next(message, context);
    try {
      return await layer(message, context, () => {
        const handled = run();
        const ended = (): void => void running.delete(handled);
        running.add(handled);
        handled.then(ended, ended);
        return handled;
      });
    } finally {
      // Nothing is acked before its handler returned, though the middleware did not wait for it.
      await Promise.all(running);
    }
  };
}
