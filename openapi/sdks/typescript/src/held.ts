/**
 * A message that a worker holds: what its handler sees of it, and until when it is its own. The clock is the monotonic
 * one, so that a corrected wall clock neither loses nor prolongs a lease.
 */

import type { LeasedMessage, Message } from "./api/models/index.js";

/** A leased message, its payload decoded. */
export type Leased<Payload = any> = Omit<LeasedMessage, "payload"> & {
  /** Any JSON value; absent where the message was published as bytes: see {@link payloadBytes}. */
  payload: Payload;
};

/** A message as the client reads it, its payload typed. */
export type Typed<Payload = any> = Omit<Message, "payload"> & {
  /** Any JSON value; absent where the message was published as bytes: see {@link payloadBytes}. */
  payload: Payload;
};

/** What a handler can ask while it works. */
export interface HandlerContext {
  /**
   * Aborted when the lease is lost (reason {@link LeaseLost}), or when the worker stops and the handler took longer than
   * `stopTimeoutMs` (reason {@link StopTimeout}). What the handler does after that counts for nothing.
   */
  readonly signal: AbortSignal;
  /** The lease is lost: another worker may have the message. */
  readonly lost: boolean;
}

/** The bytes of a message that was published as bytes; otherwise undefined. */
export function payloadBytes(message: { payload_base64?: string }): Uint8Array | undefined {
  return message.payload_base64 === undefined ? undefined : Buffer.from(message.payload_base64, "base64");
}

export const now = (): number => performance.now();

export class Held implements HandlerContext {
  /** By the monotonic clock, ms: when the lease is over, and when it is to be extended. */
  deadline = 0;
  extendAt = 0;
  extending = false;
  startedAt = 0;
  lost = false;
  /** Its handler's outcome counts for nothing: the lease is lost, or was given back when the worker stopped. */
  cancelled = false;
  // Made when it is asked for: most handlers never do, and it costs more than the rest of a message.
  private controller: AbortController | undefined;

  constructor(
    readonly message: Leased,
    readonly leaseMs: number,
    arrivedAt: number,
  ) {
    this.granted(arrivedAt, message.lease_ms);
  }

  /** The lease lasts `leaseMs` from `at`. */
  granted(at: number, leaseMs: number): void {
    this.deadline = at + leaseMs;
    this.extendAt = at + leaseMs / 3;
  }

  get signal(): AbortSignal {
    this.controller ??= new AbortController();
    if (this.cancelled && !this.controller.signal.aborted) this.controller.abort(this.reason);
    return this.controller.signal;
  }

  cancel(reason: Error): void {
    this.cancelled = true;
    this.reason = reason;
    this.controller?.abort(reason);
  }

  private reason: Error | undefined;
}
