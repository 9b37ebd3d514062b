/**
 * The typed client's way to the server, and the generated APIs' `fetch`: with a time-out, errors that say what was wrong,
 * and repeats of what is safe to repeat. Whether it is safe is looked at only when a request has failed.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { milliseconds } from "./checks.js";
import { codeOf, ConnectError, ProblemError, TimeoutError, UnexpectedAnswer } from "./errors.js";
import { now } from "./held.js";
import { repeats } from "./publishing.js";

/** How one call is made: the last argument of every method of the client and of its typed APIs; goes on to `fetch`. */
export interface CallOptions extends RequestInit {
  /** How long a request may take, ms; the client's. A lease request's `wait_ms` is added. */
  timeoutMs?: number | undefined;
  /** How long after its beginning a call that is safe to repeat may be repeated, ms; the client's. 0: it is not. */
  deadlineMs?: number | undefined;
}

const FIRST_MS = 100;
const LONGEST_MS = 5000;
/** The longest that a timer counts. */
const MOST_MS = 2_147_483_647;
/** Nothing went over a connection that failed so. */
const UNSENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"];

/** When a call is made again: full jitter, 100 ms doubling to 5 s, the server's Retry-After at least, until a deadline. */
export class Retries {
  private readonly until: number;
  private most = FIRST_MS;

  constructor(
    deadlineMs: number,
    private readonly signal?: AbortSignal | null,
  ) {
    this.until = now() + deadlineMs;
  }

  get leftMs(): number {
    return Math.max(0, this.until - now());
  }

  /** Waits until the next try, or says at once that there is none; throws when the call is aborted. */
  async again(error?: unknown): Promise<boolean> {
    const least = error instanceof ProblemError ? (error.retry_after ?? 0) * 1000 : 0;
    const wait = Math.max(least, Math.random() * this.most);
    this.most = Math.min(LONGEST_MS, this.most * 2);
    if (now() + wait >= this.until) return false;
    await sleep(Math.min(wait, MOST_MS), undefined, this.signal ? { signal: this.signal } : {}).catch(() => {});
    this.signal?.throwIfAborted();
    return true;
  }
}

export class Sender {
  constructor(
    readonly server: string,
    /** In place of Node's `fetch`. */
    readonly own: typeof fetch | undefined,
    readonly timeoutMs: number,
    readonly deadlineMs: number,
  ) {}

  readonly fetch = async (url: string, options: CallOptions): Promise<Response> => {
    const { timeoutMs = this.timeoutMs, deadlineMs = this.deadlineMs, ...init } = options;
    milliseconds("timeoutMs", timeoutMs, 1);
    milliseconds("deadlineMs", deadlineMs, 0);
    const path = url.slice(this.server.length).replace(/\?.*/, "");
    // A URL cannot have these: `DELETE /topics/orders/keys/..` would go to `/topics/orders/`.
    const odd = path.split("/").find((part, at) => at > 0 && /^(\.\.?)?$/.test(part));
    if (odd !== undefined) throw new TypeError(`no topic, key, id or name in a URL can be "${odd}"`);
    const operation = `${init.method} ${path}`;
    const mostMs = timeoutMs + waitMs(path, init.body);
    const retries = new Retries(deadlineMs, init.signal);
    let limit = mostMs;
    for (let maybeDone = false; ; limit = Math.min(mostMs, retries.leftMs)) {
      try {
        return await this.once(operation, url, init, limit);
      } catch (error) {
        // What is gone after a request whose end nobody heard of was removed by that one.
        if (maybeDone && isGone(error) && /^DELETE |\/ack$/.test(operation)) return new Response(null, { status: 204 });
        if (!passes(error) || !isSafe(operation, url, init) || !(await retries.again(error))) throw error;
        maybeDone ||= mayBeDone(error);
      }
    }
  };

  /** One request, its answer read to the end, so that the time-out covers that too. */
  async once(operation: string, url: string, init: RequestInit, timeoutMs: number): Promise<Response> {
    const { signal } = init;
    signal?.throwIfAborted();
    // AbortSignal.any would hold on to a signal that outlives many calls.
    const controller = new AbortController();
    const abort = (): void => controller.abort(signal?.reason);
    signal?.addEventListener("abort", abort);
    const timer = setTimeout(() => controller.abort(), Math.min(timeoutMs, MOST_MS));
    let response: Response;
    let body: ArrayBuffer;
    try {
      // A redirected POST would become a GET, and a DELETE too: nothing would be done, and nobody would hear of it.
      const how: RequestInit = { ...init, redirect: "manual", headers: headersOf(init), signal: controller.signal };
      response = await (this.own ?? fetch)(url, how);
      body = await response.arrayBuffer();
    } catch (error) {
      signal?.throwIfAborted();
      if (controller.signal.aborted) throw new TimeoutError(this.server, operation, timeoutMs);
      // What a connection ends with has a cause; the others are mistakes in the arguments.
      if (error instanceof TypeError && error.cause === undefined) throw error;
      throw new ConnectError(this.server, operation, error);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
    const { status, headers } = response;
    if (!response.ok) throw ProblemError.of(status, new TextDecoder().decode(body), headers.get("retry-after"));
    if (headers.get("content-type")?.includes("html")) {
      throw new UnexpectedAnswer(`${operation}: the answer is a web page; is ${this.server} dueq's address?`);
    }
    const whole = new Response(body.byteLength > 0 ? body : null, { status, headers });
    return Object.assign(whole, { json: async () => parsed(operation, await whole.text()) });
  }
}

/** An answer's JSON. */
export function parsed(operation: string, body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw new UnexpectedAnswer(`${operation}: the answer is no JSON`);
  }
}

/** A Blob with a media type is sent as that type (`publishRaw`). */
function headersOf({ body, headers }: RequestInit): Record<string, string> {
  const given = headers as Record<string, string>;
  return body instanceof Blob && body.type !== "" ? { ...given, "Content-Type": body.type } : given;
}

/** How long the server may hold a lease request back. */
function waitMs(path: string, body: unknown): number {
  return path.endsWith("/lease") && typeof body === "string" ? (JSON.parse(body)?.wait_ms ?? 0) : 0;
}

/** Whether the request may succeed later. */
function passes(error: unknown): boolean {
  if (!(error instanceof ProblemError)) return error instanceof ConnectError || error instanceof TimeoutError;
  return (
    error.status === 429 || /^(redis_unavailable|outcome_unknown|overloaded|http_(408|502|503|504))$/.test(error.code)
  );
}

/** Whether a request that failed so may have been done. */
function mayBeDone(error: unknown): boolean {
  if (error instanceof ProblemError) return /^(outcome_unknown|http_)/.test(error.code);
  return !(error instanceof ConnectError && UNSENT.includes(codeOf(error) ?? ""));
}

export function isGone(error: unknown): boolean {
  return error instanceof ProblemError && /^(message|topic|schedule)_not_found$/.test(error.code);
}

/** The answer; undefined where there is no such thing. */
export async function found<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

/** Whether there was something to delete. */
export async function isDone(deletion: Promise<void>): Promise<boolean> {
  return (await found(deletion.then(() => true))) ?? false;
}

/** Whether doing it twice is the same as doing it once. */
function isSafe(operation: string, url: string, { headers, body }: RequestInit): boolean {
  // That the server is not ready is an answer.
  if (/^GET \/(?!healthz|readyz)/.test(operation)) return true;
  if (/^(DELETE|PATCH) (\/messages\/[^/]+|\/topics\/[^/]+\/keys\/[^/]+)$/.test(operation)) return true;
  if (/^POST \/messages\/([^/]+\/)?(ack|nack|extend)$/.test(operation)) return true;
  if (!/^POST (\/callbacks|\/topics\/[^/]+\/messages(\/batch|\/raw)?)$/.test(operation)) return false;
  if (new Headers(headers).has("idempotency-key")) return true;
  if (operation.endsWith("/raw")) return new URL(url).searchParams.has("idempotency_key");
  const sent = JSON.parse(String(body));
  const messages: object[] = operation.endsWith("/batch") ? sent.messages : [sent];
  return messages.every(repeats);
}
