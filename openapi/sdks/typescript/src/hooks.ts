/** Calls the hooks of a worker; whatever they throw, or reject with, is the hook's own business. */

import type { Leased } from "./held.js";
import type { Hooks } from "./options.js";

export class Hooked {
  constructor(private readonly hooks: Hooks<any>) {}

  lease(count: number): void {
    if (this.hooks.onLease !== undefined && count > 0) guard(() => this.hooks.onLease?.(count));
  }

  start(message: Leased): void {
    if (this.hooks.onStart !== undefined) guard(() => this.hooks.onStart?.(message));
  }

  done(message: Leased, ms: number): void {
    if (this.hooks.onDone !== undefined) guard(() => this.hooks.onDone?.(message, ms));
  }

  failed(message: Leased, error: unknown): void {
    if (this.hooks.onFailed !== undefined) guard(() => this.hooks.onFailed?.(message, error));
  }

  lost(message: Leased): void {
    if (this.hooks.onLost !== undefined) guard(() => this.hooks.onLost?.(message));
  }

  /** An outage must not go unnoticed where nobody listens; `first` is its first failure. */
  error(error: unknown, first: boolean): void {
    if (this.hooks.onError !== undefined) guard(() => this.hooks.onError?.(error));
    else if (first) process.emitWarning(`dueq: a request failed and will be repeated: ${String(error)}`, "DueqWarning");
  }
}

function guard(call: () => unknown): void {
  try {
    const result = call();
    if (result instanceof Promise) result.catch(() => {});
  } catch {
    // a hook never stops the worker
  }
}
