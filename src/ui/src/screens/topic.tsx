// A topic: its messages by state, what falls due when, how fast it moves, its groups and its settings.

import { askPurge, askRedriveAll, setGroupPaused, setPaused } from "../actions";
import { call, now, refusal } from "../api";
import { Charts } from "../charts";
import { ask } from "../dialog";
import { count, duration, exact, many } from "../format";
import { Button, Card, Empty, Menu, Name, Num, Search, SHOWN, Skeleton, StateTabs, Table, Tabs, Text, Time, Unable } from "../parts";
import { refresh, ticks, useQuery } from "../poll";
import { go, setQuery, to } from "../router";
import { useStill } from "../still";
import { useFirst, useStore } from "../store";
import type { Group, Page, State, Topic } from "../types";
import { Forecast } from "./forecast";
import { Messages } from "./messages";
import { Settings } from "./settings";

const VIEWS: [string, string][] = [
  ["messages", "Messages"],
  ["charts", "Charts"],
  ["groups", "Groups"],
  ["settings", "Settings"],
];

export function TopicScreen({ name, query }: { name: string; query: URLSearchParams }) {
  const { data: topic, problem } = useQuery<Topic>("getTopic", { path: { topic: name } });
  const view = query.get("view") ?? "messages";
  const first = useFirst(topic && (SHOWN.find((state) => state !== "acked" && topic.counts[state] > 0) ?? "delayed"));
  if (!topic) {
    return (
      <>
        <Head name={name} />
        {!problem ? (
          <Card><Skeleton rows={8} /></Card>
        ) : problem.code === "topic_not_found" ? (
          <Card>
            <Empty icon="topics" title="This topic does not exist">
              <p>It is made by its first message.</p>
              <p><a class="button" href={to(["publish"], { topic: name })}>Publish to it</a></p>
            </Empty>
          </Card>
        ) : (
          <Unable problem={problem} what="The topic" />
        )}
      </>
    );
  }
  const state = (query.get("state") ?? first) as State;
  return (
    <>
      <Head name={name} topic={topic} />
      <Facts topic={topic} />
      <Tabs label="View" current={view} tabs={VIEWS} pick={(picked) => setQuery({ view: picked === "messages" ? undefined : picked })} />
      {view === "messages" && (
        <>
          {topic.counts.delayed > 0 && state === "delayed" && <Forecast topic={name} query={query} />}
          <StateTabs
            counts={topic.counts}
            states={SHOWN.filter((shown) => shown !== "blocked" || topic.counts.blocked > 0 || state === "blocked")}
            current={state}
            pick={(picked) => setQuery({ state: picked })}
          />
          <Messages key={state} topic={topic} state={state} q={query.get("q") ?? ""} />
        </>
      )}
      {view === "charts" && (
        <>
          <Charts topics={[name]} />
          <Totals topic={topic} />
        </>
      )}
      {view === "groups" && <Groups topic={topic} filter={query.get("filter") ?? ""} />}
      {view === "settings" && <Settings key={String(topic.revision)} topic={topic} />}
    </>
  );
}

function Head({ name, topic }: { name: string; topic?: Topic }) {
  return (
    <header class="head">
      <div>
        <p class="crumbs"><a href={to(["topics"])}>Topics</a></p>
        <h1>
          <Text>{name}</Text>
          {topic?.paused && <span class="badge warn">paused</span>}
          {topic?.config.push && <span class="badge">pushed</span>}
          {name.startsWith("_") && <span class="badge">built in</span>}
        </h1>
      </div>
      {topic && (
        <div class="actions">
          {!name.startsWith("_") && <a class={`button ${refusal("publish", name) ? "off" : ""}`} href={to(["publish"], { topic: name })}>Publish</a>}
          <Button icon={topic.paused ? "play" : "pause"} needs={["operate", name]} onClick={() => setPaused(name, !topic.paused)}>
            {topic.paused ? "Resume" : "Pause"}
          </Button>
          <Menu
            label="More actions"
            actions={[
              { label: "Redrive…", icon: "redrive", needs: ["operate", name], unless: topic.counts.dead + topic.counts.ready === 0 && "Nothing is dead or ready", run: () => askRedriveAll(name, topic.counts.dead) },
              { label: "Purge…", icon: "trash", danger: true, needs: ["operate", name], run: () => askPurge(name, topic.counts) },
              { label: "Delete topic…", icon: "trash", danger: true, needs: ["configure", name], unless: name.startsWith("_") && "dueq's own", run: () => askDelete(topic) },
            ]}
          />
        </div>
      )}
    </header>
  );
}

function askDelete({ name, counts }: Topic): void {
  const sum = counts.delayed + counts.ready + counts.leased + counts.dead + counts.blocked;
  ask({
    title: `Delete the topic ${name}`,
    body: `Its settings, its totals and ${count(sum)} messages go with it. This cannot be undone.`,
    action: "Delete the topic",
    danger: true,
    typed: name,
    run: async () => {
      await call("deleteTopic", { path: { topic: name }, query: { force: true } });
      refresh();
      go(["topics"]);
    },
  });
}

function Facts({ topic }: { topic: Topic }) {
  return (
    <dl class="facts">
      <div><dt>Oldest ready</dt><dd>{topic.oldest_ready_age_ms === undefined ? "–" : duration(topic.oldest_ready_age_ms)}</dd></div>
      <div><dt>Next due</dt><dd>{topic.next_due_at ? <Time at={topic.next_due_at} /> : "–"}</dd></div>
      <div><dt>Published</dt><dd>{count(topic.totals.published ?? 0)}</dd></div>
      <div><dt>Acknowledged</dt><dd>{count(topic.totals.acked ?? 0)}</dd></div>
      {topic.config.push?.url && <div><dt>Pushed to</dt><dd class="mono"><Text>{topic.config.push.url}</Text></dd></div>}
      {topic.config.dead_topic && <div><dt>Dead letters to</dt><dd><a href={to(["topics", topic.config.dead_topic])}>{topic.config.dead_topic}</a></dd></div>}
    </dl>
  );
}

function Totals({ topic }: { topic: Topic }) {
  return (
    <Card title="Since the topic was made">
      <dl class="facts">
        {Object.entries(topic.totals).map(([name, value]) => (
          <div key={name}><dt>{name.replaceAll("_", " ")}</dt><dd>{count(value)}</dd></div>
        ))}
      </dl>
    </Card>
  );
}

function Groups({ topic, filter }: { topic: Topic; filter: string }) {
  const { name, config } = topic;
  const limit = filter ? 1000 : 200;
  const { data, problem } = useQuery<Page<Group>>("listGroups", { path: { topic: name }, query: { limit } });
  const { data: same } = useQuery<Group>(filter && data?.next_cursor ? "getGroup" : null, { path: { topic: name, group: filter } });
  const fair = config.group_order === "fair";
  const matching = (data?.items ?? []).filter(({ group }) => group.toLowerCase().includes(filter.toLowerCase()));
  // The list's page may end before the one whose name is known.
  if (same && !matching.some(({ group }) => group === same.group)) matching.unshift(same);
  const [found, still] = useStill(matching, keyOf, filter);
  if (!data) return <Card>{problem ? <Unable problem={problem} what="Groups are" /> : <Skeleton />}</Card>;
  if (data.items.length === 0) {
    return (
      <Card>
        <Empty title="No groups">
          {fair ? "Groups of messages take turns here." : "Messages that are published with a group are granted in the order of publishing."}
        </Empty>
      </Card>
    );
  }
  return (
    <Card flush title={many(found.length, "group")} actions={<Search value={filter} label="Filter groups" placeholder="Filter groups" search={(text) => setQuery({ filter: text })} />}>
      <Table
        label="Groups"
        still={still}
        head={["Group", ["Leased", "num"], ["Waiting", "num"], ["Blocked", "num"], ["Oldest wait", "num"], "Limits", "!Actions"]}
      >
        {found.map((item) => (
          <tr key={keyOf(item)} data-row="">
            <th scope="row" class="mono">
              <Name>{item.group}</Name>
              {item.published_by && <span class="nil"> of {item.published_by}</span>}
              {item.paused && <span class="badge warn">paused</span>}
            </th>
            <td class="num"><Num value={item.leased} /></td>
            <td class="num"><Num value={item.waiting} /></td>
            <td class="num"><Num value={item.blocked} /></td>
            <td class="num">{item.next_at ? <Wait since={item.next_at} /> : "–"}</td>
            <td>{limits(item) || <span class="nil">the topic's</span>}</td>
            <td class="end">
              <Button
                kind="ghost"
                icon={item.paused ? "play" : "pause"}
                label={`${item.paused ? "Resume" : "Pause"} ${item.group}`}
                needs={["operate", name]}
                onClick={() => setGroupPaused(name, item, !item.paused)}
              />
            </td>
          </tr>
        ))}
      </Table>
      {found.length === 0 && <Empty title="No group matches" />}
      {data.next_cursor && <footer class="hint">Of the first {count(limit)} groups.</footer>}
    </Card>
  );
}

const keyOf = ({ published_by, group }: Group) => `${published_by ?? ""}/${group}`;

/** How long the first message of a group has been ready, or when it will be. */
function Wait({ since }: { since: string }) {
  useStore(ticks);
  const ms = now() - new Date(since).getTime();
  return ms < 0 ? <Time at={since} /> : <span title={exact(since)}>{duration(ms)}</span>;
}

/** What holds for a group in place of what its topic says. */
function limits({ concurrency, rate_per_s, burst, weight }: Group): string {
  const all = [
    concurrency !== undefined && `${count(concurrency)} at a time`,
    rate_per_s !== undefined && `${rate_per_s}/s`,
    burst !== undefined && `bursts of ${count(burst)}`,
    weight !== undefined && `weight ${weight}`,
  ];
  return all.filter(Boolean).join(", ");
}
