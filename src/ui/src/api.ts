// Requests to dueq. They carry the session's cookie, which no script can read, and the header without which it counts
// for nothing.

import { operations, type Operation } from "./operations";
import { Store } from "./store";
import type { Session } from "./types";

/** The path before all routes. */
export const base = document.documentElement.dataset.base ?? "";

/** Whether the page shows sizes in place of payloads. */
export const hidesPayloads = document.documentElement.dataset.hidePayloads !== undefined;

/** Who is logged in: undefined until it is known, null for nobody. */
export const session = new Store<Session | null | undefined>(undefined);

/** Why the server cannot be used at present, in words. */
export const trouble = new Store<string | null>(null);

/** When the server last answered with what is shown. */
export const seen = new Store<number | null>(null);

/** How far the server's clock is ahead of this one, ms. */
let skew = 0;

export function now(): number {
  return Date.now() + skew;
}

interface FieldError {
  field: string;
  reason: string;
}

/** A refusal by the server, or no answer at all (status 0). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly errors: FieldError[] = [],
  ) {
    super(detail);
  }
}

export interface Ask {
  /** Values for the path's parameters. */
  path?: Record<string, string>;
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** The tag of the answer that is known; the same again is a 304 without a text. */
  known?: string;
  /** An answer that another tab got within the last second will do. */
  glance?: boolean;
}

export function urlOf(operation: Operation, { path = {}, query = {} }: Ask = {}): string {
  const template = operations[operation].split(" ")[1]!;
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path[name] ?? ""));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    // Keys without a name have the empty one.
    if (value !== undefined && (value !== "" || name === "published_by")) search.set(name, String(value));
  }
  const text = search.toString();
  return `${base}${filled}${text && `?${text}`}`;
}

/** Sends a request; the answer as it came. Throws a Problem unless it is a success. */
export async function send(operation: Operation, ask: Ask = {}): Promise<Response> {
  const method = operations[operation].split(" ")[0]!;
  const headers: Record<string, string> = { "dueq-ui": "1", ...ask.headers };
  headers["cache-control"] = ask.glance ? "max-age=1" : "no-cache";
  if (ask.known !== undefined) headers["if-none-match"] = ask.known;
  if (ask.body !== undefined) headers["content-type"] = "application/json";
  let answer: Response;
  try {
    answer = await fetch(urlOf(operation, ask), {
      method,
      headers,
      body: ask.body === undefined ? undefined : typeof ask.body === "string" ? ask.body : JSON.stringify(ask.body),
      signal: ask.signal,
      cache: "no-store",
    });
  } catch (error) {
    if (ask.signal?.aborted) throw error;
    trouble.set("dueq does not answer.");
    throw new Problem(0, "unreachable", "The server does not answer.");
  }
  const date = Date.parse(answer.headers.get("date") ?? "");
  const ahead = date + 500 - Date.now();
  if (Number.isFinite(ahead)) skew = Math.abs(ahead) > 2000 ? ahead : 0;
  if (answer.ok || answer.status === 304) return answer;
  const problem = await problemOf(answer);
  if (answer.status === 401 && operation !== "createSession") session.set(null);
  if (problem.code === "redis_unavailable") {
    trouble.set("Redis cannot be used. dueq goes on by itself as soon as it can.");
  }
  throw problem;
}

async function problemOf(answer: Response): Promise<Problem> {
  try {
    const { code, detail, errors } = await answer.json();
    return new Problem(answer.status, String(code), String(detail), errors);
  } catch {
    return new Problem(answer.status, "unknown", `The server answered ${answer.status}.`);
  }
}

/** Sends a request; the answer's JSON. */
export async function call<Answer = unknown>(operation: Operation, ask: Ask = {}): Promise<Answer> {
  const answer = await send(operation, ask);
  const text = await answer.text();
  return (text ? JSON.parse(text) : undefined) as Answer;
}

/** Asks who is logged in. */
export async function meet(): Promise<void> {
  try {
    session.set(await call<Session>("getSession"));
  } catch (error) {
    if (!(error instanceof Problem) || error.status === 401) session.set(null);
  }
}

export async function logIn(key: string): Promise<void> {
  await call("createSession", { body: { api_key: key } });
  await meet();
}

export async function logOut(): Promise<void> {
  await call("deleteSession");
  session.set(null);
}

export type Verb = "read" | "publish" | "consume" | "operate" | "configure" | "admin";

/** Why the key that is logged in may not do this, or null if it may. The server decides; this only says so beforehand. */
export function refusal(verb: Verb, topic?: string): string | null {
  const scopes = session.value?.scopes ?? [];
  const may = scopes.some((scope) => {
    if (scope === "admin") return true;
    const [has, pattern = "*"] = scope.split(":");
    if (has !== verb) return false;
    if (topic === undefined || pattern === "*") return true;
    return pattern.endsWith("*") ? topic.startsWith(pattern.slice(0, -1)) : topic === pattern;
  });
  if (may) return null;
  return `The key “${session.value?.name ?? ""}” lacks ${topic === undefined ? verb : `${verb}:${topic}`}`;
}
