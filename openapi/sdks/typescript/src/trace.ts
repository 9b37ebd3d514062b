/** Keeps a trace together: what a handler publishes carries the header `traceparent` of the message that it handles. */

import { AsyncLocalStorage } from "node:async_hooks";

/**
 * The W3C `traceparent` that what is published carries as its header, unless it has one of its own. In a handler it is that
 * of the message, if it has one; `traceparent.run(value, () => …)` sets it where a trace begins, and `traceparent.getStore()`
 * gives it to a tracing library.
 */
export const traceparent = new AsyncLocalStorage<string>();

/** The headers of what is published now. */
export function traced(headers: Record<string, string> | null | undefined): Record<string, string> | null | undefined {
  const trace = traceparent.getStore();
  if (trace === undefined) return headers;
  const own = Object.keys(headers ?? {}).some((name) => name.toLowerCase() === "traceparent");
  return own ? headers : { ...headers, traceparent: trace };
}
