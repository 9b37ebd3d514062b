// Callbacks: the hosts that dueq calls, with a brake by hand for each, and every delivery.

import { call } from "../api";
import { attempt } from "../actions";
import { count, many, plain } from "../format";
import { Button, Card, Empty, Ms, Name, Num, SHOWN, Skeleton, StateTabs, Table, Text, Time, Unable } from "../parts";
import { useQuery } from "../poll";
import { setQuery, to } from "../router";
import { useStill } from "../still";
import { useFirst } from "../store";
import type { Host, Outcomes, Page, State, Topic } from "../types";
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

/** How the calls of the last five minutes ended: the share that was delivered, and how many. */
function Ended({ of: { delivered, failed, dead } }: { of: Outcomes }) {
  const sum = delivered + failed + dead;
  if (sum === 0) return <span class="nil">–</span>;
  const title = `${count(delivered)} delivered, ${count(failed)} failed, ${count(dead)} dead`;
  return (
    <span class="ended" title={title}>
      <span class="bar" aria-hidden="true">
        {delivered > 0 && <span class="fill-acked" style={{ flexGrow: String(delivered / sum) }} />}
        {failed + dead > 0 && <span class="fill-dead" style={{ flexGrow: String((failed + dead) / sum) }} />}
      </span>
      {Math.floor((delivered / sum) * 100)}% <span class="nil">of {count(sum)}</span>
    </span>
  );
}

function Hosts() {
  const { data, problem } = useQuery<Page<Host>>("listCallbackHosts", { query: { limit: 1000 } }, 2);
  // The ill ones first; those alike by name, so that rows keep their places.
  const ill = ({ failing, consecutive_failures, outcomes: { failed, dead } }: Host) => (failing ? 4 : 0) + (consecutive_failures > 0 ? 2 : 0) + (failed + dead > 0 ? 1 : 0);
  const [hosts, still] = useStill([...(data?.items ?? [])].sort((a, b) => ill(b) - ill(a) || (a.host < b.host ? -1 : 1)), ({ host }) => host);
  if (!data) return <Card title="Hosts">{problem ? <Unable problem={problem} what="The health of hosts is" /> : <Skeleton rows={3} />}</Card>;
  if (data.items.length === 0) {
    return <Card title="Hosts"><Empty title="No host was called lately">Hosts appear here with their first call.</Empty></Card>;
  }
  return (
    <Card flush title={many(hosts.length, "host")}>
      <Table label="Hosts" head={["Host", ["In flight", "num"], ["Waiting", "num"], "Delivered, 5 min", ["p99", "num"], ["Last error", "wide"], "!Actions"]} still={still}>
        {hosts.map(({ host, paused, failing, next_probe_at, in_flight, waiting, outcomes, p99_ms, consecutive_failures, last_error, last_error_at }) => (
          <tr key={host} data-row="">
            <th scope="row" class="mono"><Name>{host}</Name>{paused && <span class="badge warn">paused</span>}{failing && <span class="badge bad">failing</span>}</th>
            <td class="num"><Num value={in_flight} /></td>
            <td class="num"><Num value={waiting} /></td>
            <td><Ended of={outcomes} /></td>
            <td class="num"><Ms value={p99_ms} /></td>
            <td class="wide error-text" title={last_error && plain(last_error)}>
              {last_error ? <Text>{last_error}</Text> : <span class="nil">–</span>}
              {last_error_at && <span class="hint block">{consecutive_failures > 1 && `${count(consecutive_failures)} in a row, `}<Time at={last_error_at} /></span>}
              {next_probe_at && <span class="hint block">next probe <Time at={next_probe_at} /></span>}
            </td>
            <td class="end">
              <Button
                icon={paused || failing ? "play" : "pause"}
                needs={["operate", CALLBACKS]}
                onClick={() => void attempt(paused || failing ? `${host} is called again` : `${host} is paused; waiting costs no attempt`, () => call(paused || failing ? "resumeCallbackHost" : "pauseCallbackHost", { path: { host } }))}
              >
                {paused || failing ? "Resume" : "Pause"}
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
  const first = useFirst(topic && (SHOWN.find((state) => topic.counts[state] > 0) ?? "delayed"));
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
  const state = (query.get("state") ?? first) as State;
  return (
    <>
      <h2 class="section">Deliveries</h2>
      <StateTabs counts={topic.counts} states={SHOWN.filter((shown) => shown !== "blocked")} current={state} names={{ acked: "Delivered" }} pick={(picked) => setQuery({ state: picked })} />
      <Messages key={state} topic={topic} state={state} q={query.get("q") ?? ""} />
    </>
  );
}
