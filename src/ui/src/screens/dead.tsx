// What died, over all topics, by reason: how many, since when, and how to bring it back with care.

import { useState } from "preact/hooks";
import { reasonTerm, toAll } from "../actions";
import { refusal } from "../api";
import { ask } from "../dialog";
import { count, many, parseDuration } from "../format";
import { Button, Card, Empty, Menu, Search, Skeleton, Table, Text, Time, Unable } from "../parts";
import { refresh, useQueries, useQuery } from "../poll";
import { setQuery, to, usePlace } from "../router";
import type { Page, Reason, TopicItem } from "../types";

/** How many topics' reasons are read. */
const TOPICS = 30;
/** How many go first. */
const FIRST = 10;

interface Row {
  topic: string;
  /** Null for all dead messages of the topic, until their reasons are read. */
  reason: Reason | null;
  count: number;
}

interface Result {
  row: Row;
  text: string;
  rest: number;
}

const keyOf = ({ topic, reason }: Row) => `${topic} ${reason?.reason ?? ""}`;
const termOf = ({ reason }: Row) => (reason ? reasonTerm(reason.reason ?? "") : undefined);

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
  if (!data) return <Frame>{problem ? <Unable problem={problem} what="The dead letters" /> : <Card><Skeleton rows={6} /></Card>}</Frame>;
  if (dead.length === 0 && results.length === 0) {
    return (
      <Frame>
        <Card><Empty icon="check" title="Nothing is dead">Messages whose attempts are used up would be here, by reason.</Empty></Card>
      </Frame>
    );
  }
  const rows: Row[] = dead.flatMap(({ name, counts }): Row[] => {
    const known = reasons.get(name)?.data;
    if (!known) return [{ topic: name, reason: null, count: counts.dead }];
    return known.items.map((reason) => ({ topic: name, reason, count: reason.count }));
  });
  const shown = rows.filter(({ topic, reason }) => `${topic} ${reason?.reason ?? ""}`.toLowerCase().includes(filter)).sort((a, b) => b.count - a.count);
  const partial = [...reasons.entries()].filter(([name, { data }]) => data?.scanned !== undefined && data.scanned < (dead.find((topic) => topic.name === name)?.counts.dead ?? 0));
  const report = (row: Row, text: string, rest: number) => setResults((before) => [{ row, text, rest }, ...before.filter((result) => keyOf(result.row) !== keyOf(row))]);
  return (
    <Frame>
      {results.map(({ row, text, rest }) => (
        <div key={keyOf(row)} class="result panel" role="status">
          <span>
            <b>{row.topic}</b> <Text>{text}</Text>
          </span>
          {rest > 0 && (
            <Button icon="redrive" needs={["operate", row.topic]} onClick={() => restOf(row, rest, report)}>
              Redrive the other {count(rest)}…
            </Button>
          )}
          <Button kind="ghost" icon="close" label="Dismiss" onClick={() => setResults(results.filter((result) => keyOf(result.row) !== keyOf(row)))} />
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
          <Table label="Dead messages by reason" head={["Reason", ["Messages", "num"], "Topic", ["First", "num"], ["Last", "num"], "!Actions"]}>
            {shown.map((row) => (
              <Line key={keyOf(row)} row={row} report={report} />
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
  const { topic, reason } = row;
  const href = to(["topics", topic], { state: "dead", q: termOf(row) });
  const why = refusal("operate", topic);
  return (
    <tr data-row="">
      <th scope="row" class="reason-cell">
        <a data-open="" href={href}>{reason === null ? "All reasons" : reason.reason ? <Text>{reason.reason}</Text> : <i>no reason given</i>}</a>
      </th>
      <td class="num">{count(row.count)}</td>
      <td><a href={to(["topics", topic], { state: "dead" })}><Text>{topic}</Text></a></td>
      <td class="num">{reason ? <Time at={reason.first_at} /> : "–"}</td>
      <td class="num">{reason ? <Time at={reason.last_at} /> : "–"}</td>
      <td class="end">
        <span class="row-actions">
          <Button icon="redrive" hotkey="e" unless={why} onClick={() => first(row, report)}>Redrive</Button>
          <Menu
            label={`More for ${reason?.reason ?? topic}`}
            actions={[
              ...(reason ? [{ label: "Open a sample", icon: "search", run: () => void (location.hash = to(["messages", reason.example_id])) }] : []),
              { label: "Show the messages", icon: "topics", run: () => void (location.hash = href) },
              { label: "Delete…", icon: "trash", danger: true, unless: why, run: () => remove(row, report) },
            ]}
          />
        </span>
      </td>
    </tr>
  );
}

/** Some first, so that a mistake shows while it is small. */
function first(row: Row, report: Report): void {
  const all = row.count <= FIRST;
  ask({
    title: `Redrive: ${row.topic}`,
    body: (
      <>
        <p class="reason"><Text>{row.reason?.reason ?? "All reasons"}</Text></p>
        <p>{all ? `${many(row.count, "message")} get fresh attempts.` : `First ${FIRST} of ${count(row.count)}, to see whether they pass. Then the rest, spread over time.`}</p>
      </>
    ),
    action: all ? `Redrive ${many(row.count, "message")}` : `Redrive ${FIRST} first`,
    run: async () => {
      const done = await toAll("redrive", { topic: row.topic, state: "dead", q: termOf(row) }, () => {}, { max: FIRST });
      const rest = Math.max(0, row.count - done);
      report(row, `${many(done, "message")} redriven.${rest > 0 ? " Watch whether they die again, then go on." : ""}`, rest);
      refresh();
    },
  });
}

function restOf(row: Row, rest: number, report: Report): void {
  ask({
    title: `Redrive the rest: ${row.topic}`,
    body: `${many(rest, "message")} become due evenly over this time.`,
    action: `Redrive ${many(rest, "message")}`,
    fields: [{ name: "spread", label: "Spread over", value: "10m", hint: "0s for all at once", check: (value) => (parseDuration(value) === null ? "Not a duration" : null) }],
    run: async ({ spread }) => {
      const spread_ms = parseDuration(spread!) || undefined;
      const done = await toAll("redrive", { topic: row.topic, state: "dead", q: termOf(row) }, () => {}, { spread_ms });
      report(row, `${many(done, "message")} more redriven${spread_ms ? `, due over ${spread}` : ""}.`, 0);
      refresh();
    },
  });
}

function remove(row: Row, report: Report): void {
  ask({
    title: `Delete dead messages: ${row.topic}`,
    body: (
      <>
        <p class="reason"><Text>{row.reason?.reason ?? "All reasons"}</Text></p>
        <p>{many(row.count, "message")} are deleted for good.</p>
      </>
    ),
    action: `Delete ${many(row.count, "message")}`,
    danger: true,
    typed: row.count > 100 ? row.topic : undefined,
    run: async () => {
      const done = await toAll("delete", { topic: row.topic, state: "dead", q: termOf(row) }, () => {});
      report(row, `${many(done, "message")} deleted.`, 0);
      refresh();
    },
  });
}
