/** What the parts of a worker share: the way to the server, when to ask it again, and whom to tell of losses. */

import type { Backoff } from "./backoff.js";
import type { Held } from "./held.js";
import type { Transport } from "./transport.js";

export interface Link {
  readonly transport: Transport;
  readonly backoff: Backoff;
  succeeded(): void;
  /** A request that was sent at `sentAt` failed: backs off, or ends the worker where that cannot help. */
  failed(error: unknown, sentAt: number): void;
  /** The lease is gone: tells the handler, if it runs, and the hook. */
  lost(held: Held): void;
}
