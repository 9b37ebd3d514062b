// The overview: what there is, how fast it moves, and every topic.

import { useState } from "preact/hooks";
import { askPurge, askRedriveAll, setPaused } from "../actions";
import { Charts, together, useHistories } from "../charts";
import { count, duration, many } from "../format";
import { Button, Card, Empty, Menu, Name, Num, Search, Skeleton, Spark, StateBar, Table, Unable, type Column } from "../parts";
import { useQuery, type Known } from "../poll";
import { setQuery, to, usePlace } from "../router";
import { useStill } from "../still";
import type { Counts, History, Page, State, TopicItem } from "../types";

/** How many topics have their history shown. */
const CHARTED = 20;
/** How many rows are drawn before the user asks for all. */
const ROWS = 100;

function live({ counts }: TopicItem): number {
  return counts.delayed + counts.ready + counts.leased + counts.blocked + counts.dead;
}

export function useTopics(): Known<Page<TopicItem>> {
  return useQuery<Page<TopicItem>>("listTopics", { query: { limit: 1000 } });
}

/** The topics with the most messages. */
export function busiest(topics: TopicItem[]): string[] {
  const sorted = [...topics].sort((a, b) => live(b) - live(a)).slice(0, CHARTED);
  return sorted.map(({ name }) => name).sort();
}

export function Overview() {
  const { data, problem } = useTopics();
  const topics = data?.items ?? [];
  const charted = busiest(topics);
  const histories = useHistories(charted);
  if (!data) return <Loading problem={problem} />;
  const sum = (state: State) => topics.reduce((all, { counts }) => all + counts[state], 0);
  const points = together([...histories.values()].flatMap(({ data }) => data ?? []));
  const last = points.slice(-3).reverse();
  const oldest = last.find((point) => point.oldest_ready_age_ms !== undefined)?.oldest_ready_age_ms;
  const late = last.find((point) => point.lateness_p99_ms !== undefined)?.lateness_p99_ms;
  if (topics.length === 0) return <Welcome />;
  return (
    <>
      <h1>Overview</h1>
      <div class="tiles">
        <Tile name="Delayed" state="delayed" value={count(sum("delayed"))} />
        <Tile name="Ready" state="ready" value={count(sum("ready"))} />
        <Tile name="Leased" state="leased" value={count(sum("leased"))} />
        <Tile name="Dead" state="dead" value={count(sum("dead"))} href={to(["dead"])} warn={sum("dead") > 0} />
        <Tile name="Oldest ready" value={oldest === undefined ? "–" : duration(oldest)} />
        <Tile name="Late, p99" value={late === undefined ? "–" : duration(late)} />
      </div>
      <Charts topics={charted} note={topics.length > CHARTED ? `The ${CHARTED} topics with the most messages.` : undefined} />
      <TopicTable topics={topics} histories={histories} />
    </>
  );
}

export function Topics() {
  const { data, problem } = useTopics();
  const histories = useHistories(busiest(data?.items ?? []));
  if (!data) return <Loading problem={problem} />;
  return (
    <>
      <h1>Topics</h1>
      {data.items.length === 0 ? <NoTopics /> : <TopicTable topics={data.items} histories={histories} />}
    </>
  );
}

function Loading({ problem }: { problem: Known<unknown>["problem"] }) {
  return (
    <>
      <h1>Overview</h1>
      {problem ? <Unable problem={problem} what="The topics" /> : <Card><Skeleton rows={8} /></Card>}
    </>
  );
}

function Welcome() {
  return (
    <>
      <h1>Overview</h1>
      <NoTopics />
    </>
  );
}

function NoTopics() {
  return (
    <Card>
      <Empty icon="topics" title="No topics yet">
        <p>A topic is made by its first message.</p>
        <p>
          <a class="button primary" href={to(["publish"])}>Publish a message</a>
        </p>
      </Empty>
    </Card>
  );
}

function Tile({ name, value, state, href, warn }: { name: string; value: string; state?: State; href?: string; warn?: boolean }) {
  const inside = (
    <>
      <span class="name">
        {state && <i class={`fill-${state}`} aria-hidden="true" />}
        {name}
      </span>
      <span class={`value ${warn ? "warn" : ""}`}>{value}</span>
    </>
  );
  return href ? <a class="tile" href={href}>{inside}</a> : <div class="tile">{inside}</div>;
}

type Sort = "name" | "delayed" | "ready" | "leased" | "dead";

function TopicTable({ topics, histories }: { topics: TopicItem[]; histories: Map<string, Known<History>> }) {
  const { query } = usePlace();
  const filter = query.get("filter") ?? "";
  const sort = (query.get("sort") ?? "name") as Sort;
  const [all, setAll] = useState(false);
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = topics.filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)));
  if (sort !== "name") found.sort((a, b) => b.counts[sort as keyof Counts] - a.counts[sort as keyof Counts]);
  const [shown, still] = useStill(all ? found : found.slice(0, ROWS), ({ name }) => name, `${filter} ${sort} ${all}`);
  const hasHistory = [...histories.values()].some(({ data }) => data);
  const head: Column[] = ["Topic", ["!Shares", "shares"], ["Delayed", "num"], ["Ready", "num"], ["Leased", "num"]];
  const hasBlocked = topics.some(({ counts }) => counts.blocked > 0);
  if (hasBlocked) head.push(["Blocked", "num"]);
  head.push(["Dead", "num"]);
  if (hasHistory) head.push(["Rate/s", "num"], "!Last hour", ["Oldest", "num"]);
  return (
    <Card
      flush
      title={`${count(found.length)} ${found.length === 1 ? "topic" : "topics"}`}
      actions={
        <>
          <label class="inline">
            <span>Sort</span>
            <select value={sort} onChange={(event) => setQuery({ sort: event.currentTarget.value === "name" ? undefined : event.currentTarget.value })}>
              {["name", "delayed", "ready", "leased", "dead"].map((by) => (
                <option key={by} value={by}>{by}</option>
              ))}
            </select>
          </label>
          <Search value={filter} label="Filter topics" placeholder="Filter topics" search={(text) => setQuery({ filter: text })} />
        </>
      }
    >
      {found.length === 0 ? (
        <Empty title="No topic matches">
          <Button onClick={() => setQuery({ filter: undefined })}>Clear the filter</Button>
        </Empty>
      ) : (
        <Table label="Topics" head={[...head, "!Actions"]} still={still}>
          {shown.map((topic) => (
            <Row key={topic.name} topic={topic} hasBlocked={hasBlocked} history={hasHistory ? histories.get(topic.name)?.data ?? null : undefined} />
          ))}
        </Table>
      )}
      {shown.length < found.length && (
        <footer>
          <Button onClick={() => setAll(true)}>Show all {count(found.length)}</Button>
        </footer>
      )}
    </Card>
  );
}

/** `history`: null where this topic has none, undefined where the column is absent. */
function Row({ topic, hasBlocked, history }: { topic: TopicItem; hasBlocked: boolean; history: History | null | undefined }) {
  const { name, paused, counts } = topic;
  const points = history?.points ?? [];
  const whole = points.slice(-6, -1);
  const rate = whole.length > 0 ? whole.reduce((sum, point) => sum + point.granted, 0) / whole.length / (history!.step_ms / 1000) : undefined;
  const oldest = points.at(-1)?.oldest_ready_age_ms ?? points.at(-2)?.oldest_ready_age_ms;
  const link = (state: State) => (
    <td class="num">
      {counts[state] > 0 ? <a class="count" href={to(["topics", name], { state })}>{count(counts[state])}</a> : <Num value={0} />}
    </td>
  );
  return (
    <tr data-row="">
      <th scope="row">
        <a data-open="" href={to(["topics", name])}><Name>{name}</Name></a>
        {paused && <span class="badge warn">paused</span>}
        {name.startsWith("_") && <span class="badge">built in</span>}
      </th>
      <td class="shares"><StateBar counts={counts} /></td>
      {link("delayed")}
      {link("ready")}
      {link("leased")}
      {hasBlocked && link("blocked")}
      {link("dead")}
      {history !== undefined && (
        <>
          <td class="num">{rate === undefined ? <Num value={undefined} /> : rate < 10 ? Number(rate.toFixed(1)) : count(Math.round(rate))}</td>
          <td><Spark values={points.map((point) => point.granted + point.published)} /></td>
          <td class="num">{oldest === undefined ? <Num value={undefined} /> : duration(oldest)}</td>
        </>
      )}
      <td class="end">
        <Menu
          label={`Actions for ${name}`}
          actions={[
            paused
              ? { label: "Resume", icon: "play", needs: ["operate", name], run: () => setPaused(name, false) }
              : { label: "Pause", icon: "pause", needs: ["operate", name], run: () => setPaused(name, true) },
            { label: counts.dead > 0 ? `Redrive ${many(counts.dead, "dead message")}` : "Redrive", icon: "redrive", needs: ["operate", name], unless: counts.dead + counts.ready === 0 && "Nothing is dead or ready", run: () => askRedriveAll(name, counts.dead) },
            { label: "Purge…", icon: "trash", danger: true, needs: ["operate", name], run: () => askPurge(name, counts) },
          ]}
        />
      </td>
    </tr>
  );
}
