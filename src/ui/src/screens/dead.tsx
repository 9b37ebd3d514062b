// What died, over all topics, by reason: how many, since when, and how to bring it back with care.

import { useRef, useState } from "preact/hooks";
import { matches, reasonTerm, sameAs, toAll, type Limits } from "../actions";
import { refusal } from "../api";
import { ask } from "../dialog";
import { count, many, parseDuration } from "../format";
import { Button, Card, Empty, Menu, Name, Search, Skeleton, Table, Text, Time, Unable, say } from "../parts";
import { refresh, useQueries, useQuery } from "../poll";
import { setQuery, to, usePlace } from "../router";
import { useStill } from "../still";
import type { Page, Reason, TopicItem } from "../types";

/** How many topics' reasons are read. */
const TOPICS = 30;
/** How many go first. */
const FIRST = 10;

/** What died in a topic for a reason. */
interface Part {
  topic: string;
  /** Null for all dead messages of the topic, until their reasons are read. */
  reason: Reason | null;
  count: number;
}

/** What died for a reason, in one topic or several, those with the most first. */
interface Row {
  key: string;
  parts: Part[];
  count: number;
}

interface Result {
  row: Row;
  text: string;
  rest: number;
}

const termOf = ({ reason }: Part) => (reason ? reasonTerm(reason.reason ?? "") : undefined);
const hrefOf = (part: Part) => to(["topics", part.topic], { state: "dead", q: termOf(part) });
const reasonOf = ({ parts }: Row) => (parts[0]!.reason ? (parts[0]!.reason.reason ?? "") : "All reasons");
const nameOf = ({ parts }: Row) => (parts.length === 1 ? parts[0]!.topic : `${parts.length} topics`);
const refusalOf = ({ parts }: Row) => parts.map(({ topic }) => refusal("operate", topic)).find(Boolean);

function grouped(parts: Part[]): Row[] {
  const rows = new Map<string, Row>();
  for (const part of parts) {
    const key = part.reason ? `for ${part.reason.reason ?? ""}` : `in ${part.topic}`;
    const row = rows.get(key) ?? { key, parts: [], count: 0 };
    rows.set(key, { key, parts: [...row.parts, part].sort((a, b) => b.count - a.count), count: row.count + part.count });
  }
  return [...rows.values()].sort((a, b) => b.count - a.count);
}

const matchOf = (part: Part) => ({ topic: part.topic, state: "dead" as const, q: termOf(part) });
/** One row has one result, whatever else is dead for its reason. */
const idOf = ({ key, parts }: Row) => [key, ...parts.map(({ topic }) => topic).sort()].join(" ");

/**
 * Does it in one topic after the other, of each as fair a share as it has; a topic that refuses does not keep others from it. How many
 * messages it was, and what was refused.
 */
async function inAll(act: "redrive" | "delete", { parts }: Row, { max = Infinity, spread_ms }: Limits = {}): Promise<[number, string]> {
  let done = 0;
  const refused: string[] = [];
  for (const [at, part] of [...parts].reverse().entries()) {
    if (done >= max) break;
    try {
      done += await toAll(act, matchOf(part), () => {}, { max: Math.ceil((max - done) / (parts.length - at)), spread_ms });
    } catch (error) {
      if (parts.length === 1) throw error;
      refused.push(` ${part.topic}: ${(error as Error).message}.`);
    }
  }
  return [done, refused.join("")];
}

async function present({ parts }: Row): Promise<number> {
  let sum = 0;
  for (const part of parts) sum += (await matches("delete", matchOf(part))) ?? 0;
  return sum;
}

export function Dead() {
  const { query } = usePlace();
  const filter = (query.get("filter") ?? "").toLowerCase();
  const { data, problem } = useQuery<Page<TopicItem>>("listTopics", { query: { limit: 1000 } });
  const dead = (data?.items ?? []).filter(({ counts }) => counts.dead > 0).sort((a, b) => b.counts.dead - a.counts.dead);
  const reasons = useQueries<Page<Reason>>(
    dead.slice(0, TOPICS).map(({ name }) => ({ name, operation: "listDeadReasons", ask: { path: { topic: name } } })),
    5,
  );
  const [results, setResults] = useState<Result[]>([]);
  const parts = dead.flatMap(({ name, counts }): Part[] => {
    const known = reasons.get(name)?.data;
    if (!known) return [{ topic: name, reason: null, count: counts.dead }];
    return known.items.map((reason) => ({ topic: name, reason, count: reason.count }));
  });
  const matching = parts.filter(({ topic, reason }) => `${topic} ${reason?.reason ?? ""}`.toLowerCase().includes(filter));
  const loads = dead.slice(0, TOPICS).some(({ name }) => !reasons.get(name)?.data);
  const loaded = useRef(false);
  loaded.current ||= data !== undefined && !loads;
  const [shown, still] = useStill(grouped(matching), ({ key }) => key, `${filter} ${loaded.current}`);
  if (!data) return <Frame>{problem ? <Unable problem={problem} what="The dead letters" /> : <Card><Skeleton rows={6} /></Card>}</Frame>;
  if (dead.length === 0 && results.length === 0) {
    return (
      <Frame>
        <Card><Empty icon="check" title="Nothing is dead">Messages whose attempts are used up would be here, by reason.</Empty></Card>
      </Frame>
    );
  }
  const partial = [...reasons.entries()].filter(([name, { data }]) => data?.scanned !== undefined && data.scanned < (dead.find((topic) => topic.name === name)?.counts.dead ?? 0));
  const report = (row: Row, text?: string, rest = 0) =>
    setResults((before) => [...(text ? [{ row, text, rest }] : []), ...before.filter((result) => idOf(result.row) !== idOf(row))]);
  return (
    <Frame>
      {results.map(({ row, text, rest }) => (
        <div key={idOf(row)} class="result panel" role="status">
          <span>
            <b>{nameOf(row)}</b> <Text>{text}</Text>
          </span>
          {rest > 0 && (
            <Button icon="redrive" unless={refusalOf(row)} onClick={() => restOf(row, rest, report)}>
              Redrive the other {count(rest)}…
            </Button>
          )}
          <Button kind="ghost" icon="close" label="Dismiss" onClick={() => report(row)} />
        </div>
      ))}
      <Card
        flush
        title={many(dead.reduce((sum, { counts }) => sum + counts.dead, 0), "dead message")}
        actions={<Search value={query.get("filter") ?? ""} label="Filter dead letters" placeholder="Filter by topic or reason" search={(text) => setQuery({ filter: text })} />}
      >
        {shown.length === 0 ? (
          <Empty title="Nothing matches"><Button onClick={() => setQuery({ filter: undefined })}>Clear the filter</Button></Empty>
        ) : (
          <Table label="Dead messages by reason" head={["Reason", ["Messages", "num"], "Topic", ["First", "num"], ["Last", "num"], "!Actions"]} still={still}>
            {shown.map((row) => (
              <Line key={row.key} row={row} report={report} />
            ))}
          </Table>
        )}
        {partial.length > 0 && <footer class="hint">Of topics with very many dead messages, the newest are grouped.</footer>}
      </Card>
    </Frame>
  );
}

function Frame({ children }: { children: preact.ComponentChildren }) {
  return (
    <>
      <h1>Dead letters</h1>
      {children}
    </>
  );
}

type Report = (row: Row, text: string, rest: number) => void;

function Line({ row, report }: { row: Row; report: Report }) {
  const { parts } = row;
  const why = refusalOf(row);
  const times = (name: "first_at" | "last_at") => parts.flatMap(({ reason }) => reason?.[name] ?? []).sort();
  const first = times("first_at")[0];
  const last = times("last_at").at(-1);
  return (
    <tr data-row="">
      <th scope="row" class="reason-cell">
        <a data-open="" href={hrefOf(parts[0]!)}>{reasonOf(row) ? <Text>{reasonOf(row)}</Text> : <i>no reason given</i>}</a>
      </th>
      <td class="num">{count(row.count)}</td>
      <td>
        {parts.slice(0, 3).map((part) => (
          <div key={part.topic}><a href={hrefOf(part)}><Name>{part.topic}</Name></a>{parts.length > 1 && <span class="nil"> {count(part.count)}</span>}</div>
        ))}
        {parts.length > 3 && <span class="hint" title={parts.map(({ topic }) => topic).join(", ")}>and {parts.length - 3} more</span>}
      </td>
      <td class="num">{first ? <Time at={first} /> : "–"}</td>
      <td class="num">{last ? <Time at={last} /> : "–"}</td>
      <td class="end">
        <span class="row-actions">
          <Button icon="redrive" hotkey="e" unless={why} onClick={() => redriveFirst(row, report)}>Redrive</Button>
          <Menu
            label={`More for ${reasonOf(row) || nameOf(row)}`}
            actions={[
              ...(parts[0]!.reason ? [{ label: "Open a sample", icon: "search", run: () => void (location.hash = to(["messages", parts[0]!.reason!.example_id])) }] : []),
              ...parts.map((part) => ({ label: parts.length > 1 ? `Show those of ${part.topic}` : "Show the messages", icon: "topics", run: () => void (location.hash = hrefOf(part)) })),
              { label: "Delete…", icon: "trash", danger: true, unless: why, run: () => remove(row, report) },
            ]}
          />
        </span>
      </td>
    </tr>
  );
}

/** What a dialog says of a row: its reason, how many are in which topic, and what becomes of them. */
function about(row: Row, text: string) {
  return (
    <>
      <p class="reason"><Text>{reasonOf(row)}</Text></p>
      {row.parts.length > 1 && <p>{row.parts.map(({ topic, count: number }) => `${topic}: ${count(number)}`).join(", ")}</p>}
      <p>{text}</p>
    </>
  );
}

/** Some first, so that a mistake shows while it is small. */
function redriveFirst(row: Row, report: Report): void {
  const all = row.count <= FIRST;
  ask({
    title: `Redrive: ${nameOf(row)}`,
    body: about(row, all ? `${many(row.count, "message")} get fresh attempts.` : `First ${FIRST} of ${count(row.count)}, to see whether they pass. Then the rest, spread over time.`),
    action: all ? `Redrive ${many(row.count, "message")}` : `Redrive ${FIRST} first`,
    run: async () => {
      const [done, refused] = await inAll("redrive", row, { max: FIRST });
      const rest = Math.max(0, row.count - done);
      report(row, `${many(done, "message")} redriven.${refused}${rest > 0 ? " Watch whether they die again, then go on." : ""}`, rest);
      refresh();
    },
  });
}

function restOf(row: Row, rest: number, report: Report): void {
  ask({
    title: `Redrive the rest: ${nameOf(row)}`,
    body: `${many(rest, "message")} become due evenly over this time.`,
    action: `Redrive ${many(rest, "message")}`,
    fields: [{ name: "spread", label: "Spread over", value: "10m", hint: "0s for all at once", check: (value) => (parseDuration(value) === null ? "Not a duration" : null) }],
    run: async ({ spread }) => {
      const spread_ms = parseDuration(spread!) || undefined;
      const [done, refused] = await inAll("redrive", row, { spread_ms });
      report(row, `${many(done, "message")} more redriven${spread_ms ? `, due over ${spread}` : ""}.${refused}`, 0);
      refresh();
    },
  });
}

async function remove(row: Row, report: Report): Promise<void> {
  let number: number;
  try {
    number = await present(row);
  } catch (error) {
    return say((error as Error).message, true);
  }
  ask({
    title: `Delete dead messages: ${nameOf(row)}`,
    body: about(row, `${many(number, "message")} are deleted for good.`),
    action: `Delete ${many(number, "message")}`,
    danger: true,
    typed: number > 100 ? (row.parts.length === 1 ? row.parts[0]!.topic : `delete ${number}`) : undefined,
    run: async () => {
      sameAs(await present(row), number);
      const [done, refused] = await inAll("delete", row);
      report(row, `${many(done, "message")} deleted.${refused}`, 0);
      refresh();
    },
  });
}
