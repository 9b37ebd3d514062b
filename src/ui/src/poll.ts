// What the server says, kept up to date: every 2 seconds while the tab is visible, and not at all in a hidden tab. What was
// last known stays on the screen while the next answer is on its way, and if it is the same, nothing is drawn again.

import { useEffect, useState } from "preact/hooks";
import { now, Problem, seen, send, session, trouble, urlOf, type Ask } from "./api";
import type { Operation } from "./operations";
import { Store } from "./store";

const INTERVAL_MS = 2000;
/** How many answers that nobody looks at are kept, for the way back. */
const KEPT = 40;

/** Whether the user stopped the polling. */
export const paused = new Store(false);

/** Grows with every round. Relative times are drawn by it. */
export const ticks = new Store(0);

/** Grows when the user asked for what is new, or acted, and the answers are there. */
export const refreshed = new Store(0);

interface Entry {
  operation: Operation;
  ask: Ask;
  /** Whom to tell, and in which rounds it asks for each. */
  lookers: Map<() => void, number>;
  text?: string;
  tag?: string;
  data?: unknown;
  problem?: Problem;
  /** Under way. */
  flight?: AbortController;
}

const entries = new Map<string, Entry>();

/** `glance`: an answer of the last second will do. */
async function load(entry: Entry, glance = true): Promise<void> {
  if (entry.flight) return;
  const flight = new AbortController();
  entry.flight = flight;
  let changed = false;
  try {
    const answer = await send(entry.operation, { ...entry.ask, signal: flight.signal, known: entry.tag, glance });
    const text = answer.status === 304 ? entry.text : await answer.text();
    entry.tag = answer.headers.get("etag") ?? undefined;
    changed = text !== entry.text || entry.problem !== undefined;
    if (text !== entry.text) {
      entry.data = text ? JSON.parse(text) : undefined;
      entry.text = text;
    }
    entry.problem = undefined;
    seen.set(now());
  } catch (error) {
    if (flight.signal.aborted) return;
    const problem = error instanceof Problem ? error : new Problem(0, "unknown", String(error));
    changed = entry.problem?.message !== problem.message;
    entry.problem = problem;
    // Without a text the next good answer counts as new.
    if (problem.status === 404) {
      entry.data = undefined;
      entry.text = undefined;
      entry.tag = undefined;
    }
  } finally {
    if (entry.flight === flight) entry.flight = undefined;
  }
  if (changed) for (const looker of [...entry.lookers.keys()]) looker();
}

/** Asks again for all that is on the screen. */
export function refresh(): void {
  const loads: Promise<void>[] = [];
  for (const entry of entries.values()) {
    if (entry.lookers.size === 0) continue;
    // An answer that is under way may be older than what the user just did.
    entry.flight?.abort();
    entry.flight = undefined;
    loads.push(load(entry, false));
  }
  void Promise.all(loads).then(() => refreshed.set(refreshed.value + 1));
}

function tick(): void {
  if (document.hidden || paused.value || session.value === null) return;
  const count = ticks.value + 1;
  ticks.set(count);
  for (const entry of entries.values()) {
    if (entry.lookers.size > 0 && (count % Math.min(...entry.lookers.values()) === 0 || entry.problem?.status === 503 || entry.problem?.status === 0)) {
      void load(entry);
    }
  }
}

export function startPolling(): void {
  setInterval(tick, INTERVAL_MS);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !paused.value) refresh();
  });
}

/** Throws away everything that is known, for another user. */
export function forget(): void {
  for (const [key, entry] of entries) {
    entry.flight?.abort();
    if (entry.lookers.size === 0) entries.delete(key);
    else Object.assign(entry, { text: undefined, tag: undefined, data: undefined, problem: undefined, flight: undefined });
  }
  trouble.set(null);
}

export interface Known<Answer> {
  data: Answer | undefined;
  /** The answer as it is spelled. */
  text?: string;
  problem: Problem | undefined;
}

/** Follows what an operation answers, in every `every`th round. Null: nothing is asked. */
export function useQuery<Answer>(operation: Operation | null, ask: Ask = {}, every = 1): Known<Answer> {
  const key = operation === null ? "" : `${operation} ${urlOf(operation, ask)}`;
  const [, render] = useState(0);
  useEffect(() => {
    if (operation === null) return;
    let entry = entries.get(key);
    if (!entry) {
      entry = { operation, ask, lookers: new Map() };
      entries.set(key, entry);
    }
    const looker = () => render((count) => count + 1);
    entry.lookers.set(looker, every);
    const mine = entry;
    void load(mine);
    looker();
    return () => {
      mine.lookers.delete(looker);
      if (mine.lookers.size > 0) return;
      mine.flight?.abort();
      mine.flight = undefined;
      for (const [old, { lookers }] of entries) {
        if (entries.size <= KEPT) break;
        if (lookers.size === 0) entries.delete(old);
      }
    };
  }, [key]);
  const entry = entries.get(key);
  return { data: entry?.data as Answer | undefined, text: entry?.text, problem: entry?.problem };
}

/** The same for several requests at once; answers by name. */
export function useQueries<Answer>(asks: { name: string; operation: Operation; ask: Ask }[], every: number): Map<string, Known<Answer>> {
  const keys = asks.map(({ operation, ask }) => `${operation} ${urlOf(operation, ask)}`);
  const [, render] = useState(0);
  useEffect(() => {
    const looker = () => render((count) => count + 1);
    const mine = asks.map(({ operation, ask }, at) => {
      let entry = entries.get(keys[at]!);
      if (!entry) {
        entry = { operation, ask, lookers: new Map() };
        entries.set(keys[at]!, entry);
      }
      entry.lookers.set(looker, every);
      void load(entry);
      return entry;
    });
    return () => {
      for (const entry of mine) entry.lookers.delete(looker);
    };
  }, [keys.join("\n")]);
  return new Map(
    asks.map(({ name }, at) => {
      const entry = entries.get(keys[at]!);
      return [name, { data: entry?.data as Answer | undefined, problem: entry?.problem }];
    }),
  );
}
