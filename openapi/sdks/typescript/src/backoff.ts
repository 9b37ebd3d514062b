/** When to ask again after a failure: full jitter, 100 ms doubling to 5 s, shared by all requests of a worker. */

import { ProblemError } from "./errors.js";
import { now } from "./held.js";

const FIRST_MS = 100;
const LONGEST_MS = 5000;
/** Leases end while nothing is asked: a Retry-After counts for so long at most. */
const MOST_MS = 60_000;

export class Backoff {
  private failures = 0;
  private failedAt = -Infinity;
  private until = 0;

  /** Whether the last request succeeded. */
  get calm(): boolean {
    return this.failures === 0;
  }

  succeeded(): void {
    this.failures = 0;
    this.until = 0;
  }

  /** A request that was sent at `sentAt` failed. Those that were under way together count as one failure. */
  failed(sentAt: number, error?: unknown): void {
    const at = now();
    if (sentAt > this.failedAt) {
      this.failedAt = at;
      const most = Math.min(LONGEST_MS, FIRST_MS * 2 ** this.failures);
      this.failures += 1;
      this.until = Math.max(this.until, at + Math.random() * most);
    }
    if (error instanceof ProblemError && error.retry_after !== undefined) {
      this.until = Math.max(this.until, at + Math.min(MOST_MS, error.retry_after * 1000));
    }
  }

  /** How long to wait before asking again, ms. */
  remaining(): number {
    return this.until === 0 ? 0 : Math.max(0, this.until - now());
  }
}
