/**
 * Errors that the server answers with, that a connection ends with, that a handler throws to say what becomes of its
 * message, and that a handler is cancelled with.
 */

import { STATUS_CODES } from "node:http";
import type { FieldError, Problem } from "./api/models/index.js";

/** The server refused a request. `code` is stable and made for programs; `detail`, and the message, are for people. */
export class ProblemError extends Error {
  override readonly name = "ProblemError";
  /** The HTTP status. */
  readonly status: number;
  /** What happened, such as `lease_lost`; `http_502` and the like where the answer was not dueq's. */
  readonly code: string;
  /** What happened, for people. */
  readonly detail: string;
  /** What is wrong with which field, for bad input; otherwise empty. */
  readonly errors: readonly FieldError[];
  /** The request's id, as in the server's log. */
  readonly request_id: string | undefined;
  /** Seconds to wait before the request is repeated, where the server named them. */
  readonly retry_after: number | undefined;

  constructor(status: number, problem: Partial<Problem>, retryAfter?: number) {
    const code = typeof problem.code === "string" ? problem.code : `http_${status}`;
    const detail = typeof problem.detail === "string" ? problem.detail : (STATUS_CODES[status] ?? "refused");
    const given: readonly unknown[] = Array.isArray(problem.errors) ? problem.errors : [];
    const errors = given.filter(isFieldError);
    // The detail of bad input is its first field.
    const what = errors.length > 0 ? errors.map(({ field, reason }) => `${field}: ${reason}`).join("; ") : detail;
    super(`${status} ${code}: ${what}`);
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.errors = errors;
    this.request_id = problem.request_id;
    this.retry_after = retryAfter;
  }

  /** The error of an answer. What is no problem+json (a proxy's page, nothing at all) still gives one. */
  static of(status: number, body: string, retryAfter: string | null | undefined): ProblemError {
    let problem: Partial<Problem> = {};
    try {
      const parsed: unknown = JSON.parse(body);
      if (typeof parsed === "object" && parsed !== null) problem = parsed;
    } catch {
      // not JSON: the status says it all
    }
    return new ProblemError(status, problem, seconds(retryAfter));
  }
}

/** The server could not be reached, or the connection broke before its answer was there; `cause` says how. */
export class ConnectError extends Error {
  override readonly name = "ConnectError";

  constructor(
    /** The server's URL. */
    readonly url: string,
    /** What was asked, such as `POST /topics/orders/messages`. */
    readonly operation: string,
    cause: unknown,
  ) {
    super(`no connection to ${url}: ${operation}: ${reasonOf(cause)}`, { cause });
  }
}

/** The server did not answer in time. The request may have been done all the same. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";

  constructor(
    /** The server's URL. */
    readonly url: string,
    /** What was asked, such as `POST /topics/orders/messages`. */
    readonly operation: string,
    timeoutMs: number,
  ) {
    super(`no answer from ${url} within ${Math.round(timeoutMs)} ms: ${operation}`);
  }
}

/** An answer of status 2xx that is not what dueq would say: something else answers at that address. */
export class UnexpectedAnswer extends Error {
  override readonly name = "UnexpectedAnswer";
}

/** Thrown by a handler: try this message again after `delayMs` (0…315360000000 ms), not by its backoff policy. */
export class RetryIn extends Error {
  override readonly name = "RetryIn";
  /** When to try again, ms from now. */
  readonly delayMs: number;

  constructor(delayMs: number, reason = "") {
    super(reason);
    if (!(delayMs >= 0)) throw new RangeError(`a delay of ${delayMs} ms`);
    this.delayMs = Math.min(Math.ceil(delayMs), 315_360_000_000);
  }
}

/** Thrown by a handler: this message will never work; it is dead at once, whatever attempts it has left. */
export class Dead extends Error {
  override readonly name = "Dead";

  constructor(reason = "") {
    super(reason);
  }
}

/** Why a handler's signal was aborted: the lease is over or the message was deleted; another worker may have it. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
}

/** Why a handler's signal was aborted: the worker stops, and the handler took longer than `stopTimeoutMs`. */
export class StopTimeout extends Error {
  override readonly name = "StopTimeout";
}

/** Whether a worker's request that failed so may succeed later. */
export function mayPass(error: unknown): boolean {
  if (!(error instanceof ProblemError)) return true;
  return error.status === 408 || error.status === 429 || error.status >= 500;
}

/** What Node says of a connection: `fetch failed` is in the outer error, and the reason in its cause. */
export function reasonOf(error: unknown): string {
  const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (!(inner instanceof Error)) return String(inner);
  // The error of several addresses has a code and no message.
  return inner.message || codeOf(inner) || inner.name;
}

/** Node's code of a connection's error, such as `ECONNREFUSED`. */
export function codeOf(error: unknown): string | undefined {
  for (let at: any = error; at instanceof Error; at = at.cause) {
    if ("code" in at && typeof at.code === "string") return at.code;
  }
  return undefined;
}

function isFieldError(error: unknown): error is FieldError {
  const { field, reason } = (error ?? {}) as Partial<FieldError>;
  return typeof field === "string" && typeof reason === "string";
}

/** A `Retry-After`, in seconds or as a date, in seconds. */
function seconds(retryAfter: string | null | undefined): number | undefined {
  if (!retryAfter) return undefined;
  const number = Number(retryAfter);
  const parsed = Number.isNaN(number) ? (Date.parse(retryAfter) - Date.now()) / 1000 : number;
  return Number.isFinite(parsed) ? Math.max(0, parsed) : undefined;
}
