// Callbacks: the hosts that dueq calls, with a brake by hand for each, and every delivery.

import { call } from "../api";
import { attempt } from "../actions";
import { count } from "../format";
import { Button, Card, Empty, Ms, Num, SHOWN, Skeleton, StateTabs, Table, Text, Unable } from "../parts";
import { useQuery } from "../poll";
import { setQuery, to } from "../router";
import type { Host, Page, State, Topic } from "../types";
import { Messages } from "./messages";

const CALLBACKS = "_callbacks";

export function Callbacks({ query }: { query: URLSearchParams }) {
  return (
    <>
      <header class="head">
        <h1>Callbacks</h1>
        <div class="actions">
          <a class="button" href={to(["topics", CALLBACKS], { view: "settings" })}>Settings</a>
          <a class="button" href={to(["publish"], { kind: "callback" })}>Schedule a callback</a>
        </div>
      </header>
      <Hosts />
      <Deliveries query={query} />
    </>
  );
}

/** Outcomes however they come: numbers by name, perhaps by span. */
function outcomes(value: unknown): string {
  if (typeof value === "number") return count(value);
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.map(outcomes).join(" · ");
  if (value === null || typeof value !== "object") return "–";
  return Object.entries(value)
    .filter(([, number]) => number !== 0)
    .map(([name, inner]) => (typeof inner === "object" ? `${name}: ${outcomes(inner)}` : `${outcomes(inner)} ${name}`))
    .join(" · ") || "–";
}

function Hosts() {
  const { data, problem } = useQuery<Page<Host>>("listCallbackHosts", {}, 2);
  if (!data) return <Card title="Hosts">{problem ? <Unable problem={problem} what="The health of hosts is" /> : <Skeleton rows={3} />}</Card>;
  if (data.items.length === 0) {
    return <Card title="Hosts"><Empty title="No host was called lately">Hosts appear here with their first call.</Empty></Card>;
  }
  return (
    <Card flush title="Hosts">
      <Table label="Hosts" head={["Host", ["In flight", "num"], ["Waiting", "num"], "Outcomes", ["p99", "num"], "Last error", "!Actions"]}>
        {data.items.map(({ host, paused, in_flight, waiting, outcomes: ended, p99_ms, last_error }) => (
          <tr key={host} data-row="">
            <th scope="row" class="mono"><Text>{host}</Text>{paused && <span class="badge warn">paused</span>}</th>
            <td class="num"><Num value={in_flight} /></td>
            <td class="num"><Num value={waiting} /></td>
            <td><Text>{outcomes(ended)}</Text></td>
            <td class="num"><Ms value={p99_ms} /></td>
            <td class="error-text">{last_error ? <Text>{outcomes(last_error)}</Text> : <span class="nil">–</span>}</td>
            <td class="end">
              <Button
                icon={paused ? "play" : "pause"}
                needs={["operate", CALLBACKS]}
                onClick={() => void attempt(paused ? `${host} is called again` : `${host} is paused; waiting costs no attempt`, () => call(paused ? "resumeCallbackHost" : "pauseCallbackHost", { path: { host } }))}
              >
                {paused ? "Resume" : "Pause"}
              </Button>
            </td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}

function Deliveries({ query }: { query: URLSearchParams }) {
  const { data: topic, problem } = useQuery<Topic>("getTopic", { path: { topic: CALLBACKS } });
  if (!topic) {
    return (
      <Card title="Deliveries">
        {!problem ? <Skeleton rows={5} /> : problem.code === "topic_not_found" ? (
          <Empty icon="callbacks" title="No callbacks yet">
            <p>dueq can call a URL at a given time, and retries until it answers 2xx.</p>
            <p><a class="button primary" href={to(["publish"], { kind: "callback" })}>Schedule a callback</a></p>
          </Empty>
        ) : <Unable problem={problem} what="Deliveries" />}
      </Card>
    );
  }
  const first = SHOWN.find((state) => topic.counts[state] > 0) ?? "delayed";
  const state = (query.get("state") ?? first) as State;
  return (
    <>
      <h2 class="section">Deliveries</h2>
      <StateTabs counts={topic.counts} states={SHOWN.filter((shown) => shown !== "blocked")} current={state} names={{ acked: "Delivered" }} pick={(picked) => setQuery({ state: picked })} />
      <Messages key={state} topic={topic} state={state} q={query.get("q") ?? ""} />
    </>
  );
}
