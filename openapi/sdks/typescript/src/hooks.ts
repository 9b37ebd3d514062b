/** Calls the hooks of a worker, and says on the console what nobody asked to be told: failed handlers and outages. */

import { ConnectError, Dead, reasonOf, RetryIn, TimeoutError } from "./errors.js";
import type { Leased } from "./held.js";
import type { Hooks } from "./options.js";
import { textOf } from "./verdict.js";

export class Hooked {
  constructor(
    private readonly hooks: Hooks<any>,
    private readonly server: string,
  ) {}

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
    else guard(() => logFailure(message, error));
  }

  lost(message: Leased): void {
    if (this.hooks.onLost !== undefined) guard(() => this.hooks.onLost?.(message));
  }

  /** `first` is the first failure of an outage. */
  error(error: unknown, first: boolean): void {
    if (this.hooks.onError !== undefined) guard(() => this.hooks.onError?.(error));
    else if (first) {
      const away = error instanceof ConnectError || error instanceof TimeoutError;
      const what = away ? `cannot reach ${this.server}` : `${this.server} answers with errors`;
      console.warn(`dueq: ${what}, retrying: ${error instanceof ConnectError ? reasonOf(error.cause) : textOf(error)}`);
    }
  }

  /** The outage is over. */
  recovered(): void {
    if (this.hooks.onRecovered !== undefined) guard(() => this.hooks.onRecovered?.());
    else if (this.hooks.onError === undefined) console.warn(`dueq: ${this.server} answers again`);
  }
}

/** A mistake in the program is shown with its stack. */
function logFailure({ topic, id, attempt, attempts_left }: Leased, error: unknown): void {
  // Asking for another try is no failure while one is left; and what is less than a warning, the console writes among the
  // program's own output.
  if (error instanceof RetryIn && attempts_left > 0) return;
  const what = error instanceof Dead ? "gave it up" : "failed";
  const mistake = [TypeError, ReferenceError, RangeError, SyntaxError].some((kind) => error instanceof kind);
  console.error(
    `dueq: handler ${what}: topic ${topic}, message ${id}, attempt ${attempt}:`,
    mistake ? error : textOf(error),
  );
}

function guard(call: () => unknown): void {
  try {
    const result = call();
    if (result instanceof Promise) result.catch(() => {});
  } catch {
    // a hook never stops the worker
  }
}
