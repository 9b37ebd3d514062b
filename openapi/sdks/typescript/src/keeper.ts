/**
 * Extends leases while their messages are held, and notices when one is over. One timer for all: a message costs nothing
 * here unless it is held for a third of its lease.
 */

import { now, type Held } from "./held.js";
import type { Link } from "./link.js";

/** Leases that fall due within this are extended together, ms. */
const TOGETHER_MS = 50;
const MOST = 1000;
const TIMEOUT_MS = 10_000;

export class Keeper {
  readonly held = new Set<Held>();
  private timer: NodeJS.Timeout | undefined;
  private timerAt = Infinity;

  constructor(private readonly link: Link) {}

  add(held: Held): void {
    this.held.add(held);
    if (held.extendAt < this.timerAt) this.wakeAt(held.extendAt);
  }

  drop(held: Held): void {
    this.held.delete(held);
  }

  close(): void {
    this.held.clear();
    clearTimeout(this.timer);
  }

  private wakeAt(at: number): void {
    clearTimeout(this.timer);
    this.timerAt = at;
    this.timer = setTimeout(() => this.tick(), Math.max(1, Math.ceil(at - now())));
  }

  private tick(): void {
    this.timerAt = Infinity;
    const at = now();
    const due: Held[] = [];
    // After a failure leases are extended when the backoff allows it, and end when they end.
    const open = at + this.link.backoff.remaining();
    let next = Infinity;
    for (const held of this.held) {
      if (at >= held.deadline) {
        this.held.delete(held);
        this.link.lost(held);
      } else if (!held.extending && held.extendAt <= at + TOGETHER_MS && open <= at) {
        held.extending = true;
        due.push(held);
        next = Math.min(next, held.deadline);
      } else {
        const extendAt = held.extending ? held.deadline : Math.max(held.extendAt, open);
        next = Math.min(next, extendAt, held.deadline);
      }
    }
    for (let i = 0; i < due.length; i += MOST) void this.extend(due.slice(i, i + MOST));
    if (next < Infinity) this.wakeAt(next);
  }

  private async extend(due: Held[]): Promise<void> {
    const sentAt = now();
    const messages = due.map(({ message: { id, lease_token }, leaseMs }) => ({ id, lease_token, lease_ms: leaseMs }));
    // A request that hangs must leave time for another.
    const timeout = due.reduce((least, held) => Math.min(least, held.leaseMs / 3), TIMEOUT_MS);
    let results: readonly { status: string; lease_ms?: number }[] = [];
    try {
      results = (await this.link.transport.post("/messages/extend", { messages }, timeout).answer).results ?? [];
      if (results.every(({ status }) => status !== "redis_unavailable")) this.link.succeeded();
    } catch (error) {
      this.link.failed(error, sentAt);
    }
    const at = now();
    for (let i = 0; i < due.length; i++) {
      const held = due[i]!;
      const result = results[i];
      held.extending = false;
      if (!this.held.has(held)) continue;
      if (result?.status === "ok") {
        // From when it was asked for: the server counted from then at the earliest.
        held.granted(sentAt, result.lease_ms ?? held.leaseMs);
      } else if (result?.status === "lease_lost" || result?.status === "message_not_found") {
        this.held.delete(held);
        this.link.lost(held);
        continue;
      } else {
        held.extendAt = at + held.leaseMs / 20;
      }
      if (held.extendAt < this.timerAt) this.wakeAt(held.extendAt);
    }
  }
}
