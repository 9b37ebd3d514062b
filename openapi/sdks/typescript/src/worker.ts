/**
 * The worker: leases messages of a topic, runs a handler for each, and sees to it that every message is acked after its
 * handler returned, and only then; that leases last as long as their handlers; and that nothing stays leased behind.
 */

import { Backoff } from "./backoff.js";
import type { Client } from "./client.js";
import { LeaseLost, mayPass, StopTimeout } from "./errors.js";
import { Held, now, type Leased } from "./held.js";
import { Hooked } from "./hooks.js";
import { Keeper } from "./keeper.js";
import { type Holder, Leaser } from "./leaser.js";
import type { Link } from "./link.js";
import { type RunOptions, type Settings, settings, untilEmpty, type WorkerOptions } from "./options.js";
import { Outbox } from "./outbox.js";
import { traceparent } from "./trace.js";
import { verdict } from "./verdict.js";
import type { Transport } from "./transport.js";

/** Acks and nacks that are left when the worker ends are tried for so long, ms. */
const DRAIN_MS = 5000;
/** A second signal ends the process, ms after the first. Sooner it is the same Ctrl-C, which npm sends on to its child. */
const PATIENCE_MS = 500;

/**
 * Works a topic from {@link run} to {@link stop}. Handlers run in this thread, up to `concurrency` of them at once; one
 * that computes for long without awaiting keeps leases from being extended.
 */
export class Worker<Payload = any> {
  private readonly settings: Settings;
  private readonly client: Client;
  private readonly hooks: Hooked;
  private readonly signal: AbortSignal | undefined;
  private readonly running = new Set<Held>();
  private readonly waiting: Held[] = [];
  private readonly backoff = new Backoff();
  private transport!: Transport;
  private acks!: Outbox;
  private nacks!: Outbox;
  private keeper!: Keeper;
  private leaser!: Leaser;
  private filling = false;
  private ran = false;
  private stopping = false;
  private leasing: Promise<void> | undefined;
  private closed = false;
  private fatal: unknown;
  private handlersEnded: (() => void) | undefined;
  private readonly stopped: Promise<void>;
  private askStop!: () => void;
  private readonly ended: Promise<void>;
  private end!: () => void;

  /** Throws a TypeError or RangeError for options that make no sense. Nothing is sent before {@link run}. */
  constructor(client: Client, options: WorkerOptions<Payload>) {
    if (typeof client?.server !== "string") throw new TypeError("a worker needs a client");
    this.client = client;
    this.settings = settings(options);
    this.hooks = new Hooked(options, client.server);
    this.signal = options.signal;
    this.stopped = new Promise((resolve) => (this.askStop = resolve));
    this.ended = new Promise((resolve) => (this.end = resolve));
  }

  /**
   * Works until {@link stop}, or as `options` say; returns when everything is given back. Outages of the server are waited out. Throws the
   * `ProblemError` of a refusal that cannot get better, such as a wrong key (401) or a pushed topic (409), after having
   * stopped as ever. A worker runs once.
   */
  async run(options: RunOptions = {}): Promise<void> {
    const ends = untilEmpty(options);
    if (this.ran) throw new Error("a worker runs once");
    this.ran = true;
    this.transport = this.client.transport();
    const link: Link = {
      transport: this.transport,
      backoff: this.backoff,
      succeeded: () => this.succeeded(),
      failed: (error, sentAt) => this.failed(error, sentAt),
      lost: (held) => this.lost(held),
    };
    this.acks = new Outbox("/messages/ack", link);
    this.nacks = new Outbox("/messages/nack", link);
    this.keeper = new Keeper(link);
    const held = (): number => this.running.size + this.waiting.length;
    const holder: Holder = {
      held,
      idle: () => held() === 0 && this.acks.idle && this.nacks.idle,
      emptied: () => void this.stop(),
      arrived: (messages, at) => this.arrived(messages, at),
    };
    this.leaser = new Leaser(this.settings, link, this.acks, holder, ends);
    const stop = (): void => void this.stop();
    const deafen = (): void => {
      for (const name of this.settings.stopSignals) process.off(name, signalled);
    };
    const signalled = (): void => {
      stop();
      setTimeout(deafen, PATIENCE_MS).unref();
    };
    for (const name of this.settings.stopSignals) process.on(name, signalled);
    this.signal?.addEventListener("abort", stop, { once: true });
    if (this.signal?.aborted) stop();
    try {
      if (!this.stopping) this.leaser.start();
      await this.stopped;
      await this.shutDown();
    } finally {
      deafen();
      this.signal?.removeEventListener("abort", stop);
      this.closed = true;
      this.transport.close();
      this.end();
    }
    if (this.fatal !== undefined) throw this.fatal;
  }

  /**
   * Leases no more, gives back what has not begun, lets handlers finish for `stopTimeoutMs`, and sends what is to be sent.
   * Resolves when all that is done, and so does {@link run}; may be called more than once.
   */
  async stop(): Promise<void> {
    if (!this.stopping) {
      this.stopping = true;
      this.leasing = this.ran ? this.leaser.stop() : undefined;
      this.askStop();
    }
    if (this.ran) await this.ended;
  }

  private async shutDown(): Promise<void> {
    for (const held of this.waiting.splice(0)) this.release(held);
    if (this.running.size > 0) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.handlersEnded = resolve;
        timer = setTimeout(resolve, this.settings.stopTimeoutMs);
      });
      clearTimeout(timer);
    }
    for (const held of [...this.running]) {
      this.running.delete(held);
      if (held.cancelled) continue;
      held.cancel(new StopTimeout("the worker stops"));
      this.release(held);
    }
    await this.leasing;
    await Promise.all([this.acks.drain(DRAIN_MS), this.nacks.drain(DRAIN_MS)]);
    this.keeper.close();
  }

  private arrived(messages: Leased[], at: number): void {
    this.hooks.lease(messages.length);
    for (const message of messages) {
      // A lease that was granted for less than a second, or has been under way, can be extended to a second at least.
      const held = new Held(message, this.settings.leaseMs ?? Math.max(1000, message.lease_ms), at);
      if (this.stopping) {
        this.release(held);
        continue;
      }
      this.keeper.add(held);
      this.waiting.push(held);
    }
    this.fill();
  }

  /** Begins what waits, as far as there is room. A handler that returns at once must not nest another in it. */
  private fill(): void {
    if (this.filling) return;
    this.filling = true;
    while (this.waiting.length > 0 && this.running.size < this.settings.concurrency) this.begin(this.waiting.shift()!);
    this.filling = false;
  }

  private begin(held: Held): void {
    held.startedAt = now();
    if (held.startedAt >= held.deadline) {
      this.lost(held);
      return;
    }
    this.running.add(held);
    this.hooks.start(held.message);
    let result: unknown;
    try {
      const { message } = held;
      const trace = message.traceparent ?? message.headers?.["traceparent"];
      const handle = (): unknown => this.settings.handler(message, held);
      result = trace === undefined ? handle() : traceparent.run(trace, handle);
    } catch (error) {
      this.threw(held, error);
      return;
    }
    if (isThenable(result)) {
      result.then(
        () => this.handled(held),
        (error: unknown) => this.threw(held, error),
      );
    } else {
      this.handled(held);
    }
  }

  private handled(held: Held): void {
    if (this.finish(held)) {
      const { id, lease_token } = held.message;
      this.acks.add({ held, item: { id, lease_token }, repeated: false });
      this.hooks.done(held.message, now() - held.startedAt);
    }
    this.next();
  }

  private threw(held: Held, error: unknown): void {
    if (this.finish(held)) {
      this.nacks.add({ held, item: verdict(held.message, error), repeated: false });
      this.hooks.failed(held.message, error);
    }
    this.next();
  }

  /** The handler is over; whether its outcome counts. */
  private finish(held: Held): boolean {
    this.running.delete(held);
    this.keeper.drop(held);
    return !held.cancelled;
  }

  private next(): void {
    if (this.running.size === 0) this.handlersEnded?.();
    this.fill();
    this.leaser.room();
  }

  private release(held: Held): void {
    this.keeper.drop(held);
    const { id, lease_token } = held.message;
    this.nacks.add({ held, item: { id, lease_token, release: true }, repeated: false });
  }

  private lost(held: Held): void {
    this.keeper.drop(held);
    held.lost = true;
    held.cancel(new LeaseLost(`the lease of message ${held.message.id} is lost`));
    const waits = this.waiting.indexOf(held);
    if (waits >= 0) {
      this.waiting.splice(waits, 1);
      this.leaser.room();
    }
    this.hooks.lost(held.message);
  }

  private succeeded(): void {
    const first = !this.backoff.calm;
    this.backoff.succeeded();
    this.leaser.wake();
    if (first) this.hooks.recovered();
  }

  private failed(error: unknown, sentAt: number): void {
    if (this.closed) return;
    if (mayPass(error)) {
      const first = this.backoff.calm;
      this.backoff.failed(sentAt, error);
      this.hooks.error(error, first);
    } else if (this.fatal === undefined) {
      this.fatal = error;
      void this.stop();
    }
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value && typeof value.then === "function";
}
