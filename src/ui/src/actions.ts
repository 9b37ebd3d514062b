// What can be done to topics and messages: one at a time, some, or all that match a search, in portions.

import { call, Problem } from "./api";
import { ask } from "./dialog";
import { count, many, parseDuration } from "./format";
import { say } from "./parts";
import { refresh } from "./poll";
import type { Operation } from "./operations";
import type { Bulk, Counts, Group, State, Topic } from "./types";

/** How many messages a request of a bulk action takes on. */
const PORTION = 1000;

export async function attempt(what: string, act: () => Promise<unknown>): Promise<boolean> {
  try {
    await act();
    say(what);
    return true;
  } catch (error) {
    say(error instanceof Problem ? error.message : String(error), true);
    return false;
  } finally {
    refresh();
  }
}

export function setPaused(topic: string, pause: boolean): void {
  void attempt(pause ? `${topic} is paused` : `${topic} goes on`, () =>
    call(pause ? "pauseTopic" : "resumeTopic", { path: { topic } }),
  );
}

/** `published_by`: the API key whose group it is, in `_callbacks`. */
export function setGroupPaused(topic: string, { group, published_by }: Pick<Group, "group" | "published_by">, pause: boolean): void {
  const query = topic === "_callbacks" ? { published_by: published_by ?? "" } : {};
  void attempt(pause ? `${group} is paused` : `${group} goes on`, () =>
    call(pause ? "pauseGroup" : "resumeGroup", { path: { topic, group }, query }),
  );
}

export interface Match {
  topic: string;
  state: State;
  q?: string;
}

/** The search for messages that failed for exactly this reason; empty: those for which none was given. */
export function reasonTerm(reason: string): string {
  return `reason:"${reason.replace(/(["\\])/g, "\\$1")}"`;
}

/** How many messages match. Without a search that is the topic's count. */
export async function matches(act: "redrive" | "delete" | "run", { topic, state, q }: Match): Promise<number | undefined> {
  if (!q) return (await call<Topic>("getTopic", { path: { topic } })).counts[state];
  let sum = 0;
  let cursor: string | undefined;
  const [operation, states] = routeOf(act, state);
  do {
    const body = { ...states, q, dry_run: true, cursor };
    const answer = await call<Bulk>(operation, { path: { topic }, body });
    sum += answer.matched ?? 0;
    cursor = answer.next_cursor;
  } while (cursor && sum < 1_000_000);
  return sum;
}

/** What is deleted must be what was shown. Throws if it is not. */
export function sameAs(present: number, shown: number): void {
  if (Math.abs(present - shown) > Math.max(1, shown) / 10) throw new Problem(0, "changed", `It is ${count(present)} now, not ${count(shown)}. Look again before deleting.`);
}

function routeOf(act: "redrive" | "delete" | "run", state: State): [Operation, object] {
  if (act === "redrive") return ["redriveTopic", {}];
  if (act === "delete") return ["purgeTopic", { states: [state] }];
  return ["runTopic", { states: [state] }];
}

export interface Limits {
  max?: number;
  spread_ms?: number;
}

/** Does it to all that match, portion by portion; `report` hears how many it was so far. */
export async function toAll(act: "redrive" | "delete" | "run", { topic, state, q }: Match, report: (done: number) => void, { max, spread_ms }: Limits = {}): Promise<number> {
  const [operation, states] = routeOf(act, state);
  const search = q || undefined;
  let done = 0;
  let cursor: string | undefined;
  for (;;) {
    const body: Record<string, unknown> = { ...states, q: search, cursor };
    // A purge knows no limit.
    if (act !== "delete") body.max_messages = Math.min(max === undefined ? Infinity : max - done, spread_ms ? 1_000_000 : PORTION * 10);
    if (act !== "delete" && spread_ms) body.spread_ms = spread_ms;
    const answer = await call<Bulk & Record<string, number>>(operation, { path: { topic }, body });
    const part = answer.redriven ?? answer.purged ?? answer.run ?? 0;
    done += part;
    report(done);
    cursor = answer.next_cursor;
    const isOver = search ? !cursor : part === 0 || !answer.remaining || spread_ms !== undefined;
    if (isOver || (max !== undefined && done >= max)) return done;
  }
}

/** Does it to these messages; how many it was, and why the others were not. */
export async function toSome(act: "redrive" | "delete" | "run", ids: string[]): Promise<{ done: number; refused: Map<string, number> }> {
  const operation = ({ redrive: "redriveBatch", delete: "deleteBatch", run: "runBatch" } as const)[act];
  const refused = new Map<string, number>();
  let done = 0;
  const note = (status: string) => (status === "ok" ? done++ : refused.set(status, (refused.get(status) ?? 0) + 1));
  for (let at = 0; at < ids.length; at += PORTION) {
    const portion = ids.slice(at, at + PORTION);
    const { results } = await call<{ results: { status: string }[] }>(operation, { body: { ids: portion } });
    for (const { status } of results) note(status);
  }
  return { done, refused };
}

export function outcome(verb: string, { done, refused }: { done: number; refused: Map<string, number> }): string {
  const others = [...refused].map(([code, number]) => `${count(number)} not: ${code.replaceAll("_", " ")}`);
  return [`${many(done, "message")} ${verb}`, ...others].join("; ");
}

/** Asks for a time span and says when that is. */
export const delayField = {
  name: "delay",
  label: "Due in",
  value: "10m",
  hint: "90s, 10m, 2h 30m, 1d",
  check: (value: string) => (parseDuration(value) === null ? "Not a duration: 90s, 10m, 2h 30m, 1d" : null),
};

/** Those that are delayed go with those that are blocked, as the API has it. */
export function askPurge(topic: string, counts: Counts): void {
  const { ready, delayed, blocked, dead } = counts;
  const options: [string, string, number][] = [
    ["ready", "Ready", ready],
    ["delayed", blocked ? "Delayed, and blocked" : "Delayed", delayed && delayed + blocked],
    ["blocked", "Blocked", blocked],
    ["dead", "Dead", dead],
  ];
  const present = options.filter(([, , number]) => number > 0);
  const picked = (states = "") => options.filter(([state]) => states.includes(`${state},`) && !(state === "blocked" && states.includes("delayed,")));
  ask({
    title: `Purge ${topic}`,
    body: present.length > 0 ? "Leased messages stay. This cannot be undone." : "There is nothing to purge. Leased messages stay.",
    action: ({ states }) => `Purge ${many(picked(states).reduce((sum, [, , number]) => sum + number, 0), "message")}`,
    danger: true,
    typed: topic,
    fields: [{
      name: "states",
      label: "Messages to delete",
      type: "picks",
      options: present.map(([state, name, number]) => [state, `${name}: ${count(number)}`]),
      value: present.length === 1 ? `${present[0]![0]},` : "",
      check: (states) => (states ? null : "Choose the states"),
    }],
    run: async ({ states }) => {
      const { purged } = await call<Bulk>("purgeTopic", { path: { topic }, body: { states: picked(states).map(([state]) => state) } });
      say(`${many(purged ?? 0, "message")} of ${topic} deleted`);
      refresh();
    },
  });
}

export function askRedriveAll(topic: string, dead: number): void {
  ask({
    title: `Redrive messages of ${topic}`,
    body: `${many(dead, "dead message")} get fresh attempts. Ready messages that moved here when they died go back to where that was.`,
    action: dead > 0 ? `Redrive ${many(dead, "message")}` : "Move back",
    fields: [{ name: "spread", label: "Spread over (optional)", hint: "10m makes them due evenly over ten minutes", check: (value) => (value && parseDuration(value) === null ? "Not a duration" : null) }],
    run: async ({ spread }) => {
      const done = await toAll("redrive", { topic, state: "dead" }, () => {}, { spread_ms: spread ? parseDuration(spread)! : undefined });
      say(`${many(done, "message")} of ${topic} redriven`);
      refresh();
    },
  });
}
