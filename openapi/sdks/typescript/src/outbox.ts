/**
 * Outcomes on their way to the server: acks in one outbox, nacks in another. What a failed or unanswered request carried
 * comes back and is sent again with the same token, which is safe, until the server has said what became of it.
 */

import { mayPass } from "./errors.js";
import { now, type Held } from "./held.js";
import type { Link } from "./link.js";

/** Outcomes wait so long for company, or for a lease request to ride on, ms. */
const GATHER_MS = 5;
const MOST = 1000;
const TIMEOUT_MS = 10_000;

/** A line of `POST /messages/ack` or `/messages/nack`. */
export interface Item {
  id: string;
  lease_token: string;
  delay_ms?: number;
  reason?: string;
  dead?: boolean;
  release?: boolean;
}

export interface Outcome {
  readonly held: Held;
  readonly item: Item;
  /** It was sent before, and may have been done although nobody heard of it. */
  repeated: boolean;
}

export class Outbox {
  private pending: Outcome[] = [];
  private firstAt = 0;
  private timer: NodeJS.Timeout | undefined;
  private sending = false;
  private closed = false;
  /** While the worker ends: when to give up, and whom to tell that all is sent. */
  private ending: { until: number; done: () => void } | undefined;

  /** What was nacked is there without its lease. */
  private readonly nacks: boolean;

  constructor(
    private readonly path: string,
    private readonly link: Link,
  ) {
    this.nacks = path === "/messages/nack";
  }

  /** The server knows all that it was to be told. */
  get idle(): boolean {
    return this.pending.length === 0 && !this.sending;
  }

  add(outcome: Outcome): void {
    if (this.pending.push(outcome) === 1) this.firstAt = now();
    this.arm();
  }

  /** Takes what a lease request can carry. Whoever takes it gives it to `putBack` or `answered`. */
  take(): Outcome[] {
    if (this.pending.length <= MOST) {
      const all = this.pending;
      this.pending = [];
      return all;
    }
    return this.pending.splice(0, MOST);
  }

  putBack(outcomes: Outcome[]): void {
    if (outcomes.length === 0) return;
    for (const outcome of outcomes) outcome.repeated = true;
    if (this.pending.length === 0) this.firstAt = now();
    this.pending = outcomes.concat(this.pending);
    this.arm();
  }

  /** A request succeeded: what the server said of each outcome that it carried, in order. */
  answered(outcomes: Outcome[], results: readonly { status: string }[] | undefined, sentAt: number): void {
    let again: Outcome[] | undefined;
    for (let i = 0; i < outcomes.length; i++) {
      const outcome = outcomes[i]!;
      const status = results?.[i]?.status;
      if (status === "ok") continue;
      if (status === undefined || status === "redis_unavailable" || status === "outcome_unknown") {
        (again ??= []).push(outcome);
      } else if (outcome.repeated && (status === "message_not_found" || (status === "lease_lost" && this.nacks))) {
        // The first time was done; only its answer was lost.
      } else {
        this.link.lost(outcome.held);
      }
    }
    if (again === undefined) {
      this.link.succeeded();
    } else {
      this.link.failed(new Error(`POST ${this.path}: outcomes unknown or Redis unavailable`), sentAt);
      this.putBack(again);
    }
  }

  /** Resolves when all is sent, at the latest after `ms`. */
  async drain(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.ending = { until: now() + ms, done: resolve };
      timer = setTimeout(resolve, ms);
      void this.send();
    });
    clearTimeout(timer);
    clearTimeout(this.timer);
    this.closed = true;
  }

  private arm(): void {
    if (this.timer === undefined && !this.sending && !this.closed) this.wait(GATHER_MS);
  }

  private wait(ms: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (this.pending.length === 0) return;
      // A lease request took what was there when the clock was set: what came after it has its own five milliseconds.
      const early = this.firstAt + GATHER_MS - now();
      if (early > 0.5 && this.ending === undefined) this.wait(early);
      else void this.send();
    }, ms);
  }

  private async send(): Promise<void> {
    if (this.sending || this.closed) return;
    if (this.pending.length === 0) {
      this.ending?.done();
      return;
    }
    const blocked = this.link.backoff.remaining();
    if (blocked > 0) {
      this.wait(blocked);
      return;
    }
    this.sending = true;
    const sent = this.take();
    const sentAt = now();
    const timeout = this.ending ? Math.max(1, this.ending.until - sentAt) : TIMEOUT_MS;
    try {
      const call = this.link.transport.post(this.path, { messages: sent.map((outcome) => outcome.item) }, timeout);
      const answer = await call.answer;
      this.answered(sent, answer.results, sentAt);
    } catch (error) {
      this.link.failed(error, sentAt);
      // A refusal that cannot get better ends the worker; while it ends there is nothing left to try.
      if (this.ending === undefined || mayPass(error)) this.putBack(sent);
    }
    this.sending = false;
    if (this.ending !== undefined) void this.send();
    else if (this.pending.length > 0) this.arm();
  }
}
