/**
 * Lease requests. One loop of long polls while there is little to do; each answer that comes back full starts another, up
 * to a few, so that under load each asks for all handlers that have become free meanwhile; an empty answer ends its loop
 * unless it is the last. Acks that are pending when a request is sent ride on it.
 *
 * Where it works until the topic is empty no request waits, and the last loop sees to the end: it ends the worker when it got
 * nothing and nothing could have become ready since it asked.
 */

import type { LeaseFromTopicsRequest, LeaseRequest } from "./api/models/index.js";
import { UnexpectedAnswer } from "./errors.js";
import { now, type Leased } from "./held.js";
import type { Link } from "./link.js";
import type { Settings } from "./options.js";
import type { Outbox } from "./outbox.js";
import type { Call } from "./transport.js";

/** Beyond `wait_ms`, the answer is late by so much at most, ms. */
const LATE_MS = 10_000;
/** When the worker stops, requests under way may be answered for so long, ms. */
const GRACE_MS = 500;
/** Lease requests under way at once, at most. */
const MOST_LOOPS = 4;
/** Until the topic is empty: while handlers run it is looked again so often, ms, as they may wait for what they publish. */
const LOOK_MS = 1000;

export interface Holder {
  /** Messages that run or wait. */
  held(): number;
  /** Nothing is held, and all outcomes are told. */
  idle(): boolean;
  /** Nothing is left to do; asked for by `untilEmpty`. */
  emptied(): void;
  arrived(messages: Leased[], at: number): void;
}

export class Leaser {
  private readonly path: string;
  private readonly limit: number;
  /** Messages that a request asks for, at most. */
  private readonly batch: number;
  private readonly mostLoops: number;
  private readonly calls = new Set<Call>();
  private loops = 0;
  private asked = 0;
  private stopping = false;
  private parked: (() => void)[] = [];
  private sleepers = new Set<() => void>();
  private ended: (() => void) | undefined;

  constructor(
    private readonly settings: Settings,
    private readonly link: Link,
    private readonly acks: Outbox,
    private readonly holder: Holder,
    private readonly untilEmpty: boolean,
  ) {
    const { topic, concurrency, prefetch } = settings;
    this.path = typeof topic === "string" ? `/topics/${encodeURIComponent(topic)}/lease` : "/lease";
    this.limit = prefetch === 1 ? concurrency : concurrency + prefetch;
    this.batch = Math.max(prefetch, Math.min(Math.ceil(concurrency / MOST_LOOPS), 1000));
    this.mostLoops = Math.min(MOST_LOOPS, Math.ceil(this.limit / this.batch));
  }

  start(): void {
    this.loops += 1;
    void this.loop();
  }

  /** Room was made: a loop that waited for it goes on. */
  room(): void {
    if (this.untilEmpty) this.wake();
    if (this.parked.length > 0 && (this.stopping || this.hasRoom())) this.parked.pop()!();
  }

  /** Has what sleeps look again. */
  wake(): void {
    for (const wake of this.sleepers) wake();
  }

  /** Sends no more; resolves when no request is under way. */
  async stop(): Promise<void> {
    this.stopping = true;
    for (const go of this.parked.splice(0)) go();
    this.wake();
    if (this.loops === 0) return;
    const timer = setTimeout(() => {
      for (const call of this.calls) call.abort();
    }, GRACE_MS);
    await new Promise<void>((resolve) => (this.ended = resolve));
    clearTimeout(timer);
  }

  private free(): number {
    return this.limit - this.asked - this.holder.held();
  }

  /**
   * Whether a request is worth making. A busy worker does not ask for messages one by one: it waits for half of what is
   * prefetched (the other half waits here meanwhile, so that no handler does), and beside another request for half a batch.
   */
  private hasRoom(): boolean {
    return this.free() >= Math.ceil((this.asked > 0 ? this.batch : this.settings.prefetch) / 2);
  }

  private async loop(): Promise<void> {
    while (!this.stopping) {
      const blocked = this.link.backoff.remaining();
      if (blocked > 0) {
        await this.sleep(blocked);
        continue;
      }
      if (!this.hasRoom()) {
        await new Promise<void>((resolve) => this.parked.push(resolve));
        continue;
      }
      const count = Math.min(this.batch, this.free());
      const came = await this.lease(count);
      if (came === count) {
        if (this.loops < this.mostLoops && this.hasRoom() && !this.stopping) this.start();
      } else if (came <= 0 && this.loops > 1) {
        break;
      } else if (came === 0 && this.untilEmpty && !this.holder.idle() && !this.stopping) {
        await this.sleep(LOOK_MS);
      }
    }
    this.loops -= 1;
    if (this.loops === 0) this.ended?.();
  }

  /** One request; how many messages came, -1 where it failed. */
  private async lease(count: number): Promise<number> {
    const { topic, leaseMs, waitMs } = this.settings;
    const riding = this.acks.take();
    // No other loop, handler or outcome under way can make a message ready behind this request's back.
    const last = this.untilEmpty && this.loops === 1 && this.holder.idle();
    this.asked += count;
    // There may be room for another loop that waits.
    this.room();
    const body: LeaseRequest & Partial<LeaseFromTopicsRequest> = { max_messages: count, wait_ms: this.untilEmpty ? 0 : waitMs };
    if (typeof topic !== "string") body.topics = [...topic];
    if (leaseMs !== undefined) body.lease_ms = leaseMs;
    if (riding.length > 0) body.acks = riding.map((outcome) => outcome.item);
    const sentAt = now();
    const call = this.link.transport.post(this.path, body, waitMs + LATE_MS);
    this.calls.add(call);
    let messages: Leased[];
    try {
      const answer = await call.answer;
      if (!Array.isArray(answer?.messages) || !answer.messages.every(isLeased)) {
        throw new UnexpectedAnswer(`POST ${this.path}: no messages in the answer`);
      }
      messages = answer.messages;
      this.asked -= count;
      this.acks.answered(riding, answer.acks, sentAt);
    } catch (error) {
      this.asked -= count;
      this.acks.putBack(riding);
      if (!this.stopping) this.link.failed(error, sentAt);
      this.room();
      return -1;
    } finally {
      this.calls.delete(call);
    }
    this.holder.arrived(messages, now());
    if (last && messages.length === 0 && this.holder.idle()) this.holder.emptied();
    this.room();
    return messages.length;
  }

  private async sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.sleepers.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      this.sleepers.add(wake);
    });
  }
}

/** Whether it has what a lease is kept by. */
function isLeased(message: Partial<Leased> | null): boolean {
  return typeof message?.id === "string" && typeof message.lease_token === "string" && message.lease_ms! > 0;
}
