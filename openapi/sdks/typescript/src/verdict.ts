/** What becomes of a message whose handler threw. */

import { Dead, RetryIn } from "./errors.js";
import type { Leased } from "./held.js";
import type { Item } from "./outbox.js";

/** The longest reason that the server takes, in characters. */
const REASON = 1024;

export function verdict({ id, lease_token }: Leased, error: unknown): Item {
  const item: Item = { id, lease_token };
  const reason = textOf(error);
  if (reason !== "") item.reason = reason;
  if (error instanceof RetryIn) item.delay_ms = error.delayMs;
  else if (error instanceof Dead) item.dead = true;
  return item;
}

/** An error in words, as long as the server takes them. */
export function textOf(error: unknown): string {
  let text: string;
  try {
    text = error instanceof Error ? error.message : String(error);
    if (text === "" && error instanceof Error && !(error instanceof RetryIn || error instanceof Dead))
      text = error.name;
    // Characters are code points; a half of a surrogate pair is no text that JSON could carry.
    text = text.toWellFormed();
  } catch {
    return "an error without text";
  }
  // A code point is two units at most, so that a long text need not be walked to its end.
  return text.length <= REASON ? text : [...text.slice(0, 2 * REASON)].slice(0, REASON).join("");
}
