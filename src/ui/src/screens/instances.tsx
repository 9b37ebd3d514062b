// The instances of dueq that serve this queue, and the keys that they let in.

import { now, refusal, session } from "../api";
import { bytes, count, duration } from "../format";
import { Card, Empty, Name, Num, Skeleton, Table, Text, Time, Unable, type Column } from "../parts";
import { useQuery } from "../poll";
import { useStore } from "../store";
import type { ApiKey, Instance, Page } from "../types";

const COLUMNS: Column[] = ["Instance", "Process", "Version", ["Up for", "num"], ["Lanes", "num"], ["Waiters", "num"], ["Memory", "num"], ["Clock", "num"], ["Started", "num"], ["Seen", "num"]];

export function Instances() {
  const { data, problem } = useQuery<Page<Instance>>("listInstances");
  const ready = useQuery<{ status: string; warnings?: string[] }>("getReadiness");
  return (
    <>
      <h1>Instances</h1>
      <dl class="facts">
        <div><dt>This instance</dt><dd>{ready.data && !ready.problem ? "✓ ready" : ready.problem ? "✕ not ready" : "…"}</dd></div>
        {data && <div><dt>Instances</dt><dd>{data.items.length}</dd></div>}
      </dl>
      {!data ? (
        <Card>{problem ? <Unable problem={problem} what="The list of instances is" /> : <Skeleton rows={3} />}</Card>
      ) : data.items.length === 0 ? (
        <Card><Empty title="No instance has reported yet">Each says every few seconds that it is there.</Empty></Card>
      ) : (
        <Card flush>
          <Table label="Instances" head={COLUMNS}>
            {data.items.map(({ id, version, started_at, seen_at, lanes, waiters, memory_bytes, clock_offset_ms, host, pid }) => (
              <tr key={id} data-row="">
                <th scope="row" class="mono"><Name>{id}</Name></th>
                <td>{pid === undefined ? <span class="nil">–</span> : <Name>{`${pid} on ${host ?? "?"}`}</Name>}</td>
                <td>{version}</td>
                <td class="num">{duration(Math.max(0, now() - Date.parse(started_at)))}</td>
                <td class="num"><Num value={lanes} /></td>
                <td class="num"><Num value={waiters} /></td>
                <td class="num">{memory_bytes === undefined ? <span class="nil">–</span> : bytes(memory_bytes)}</td>
                <td class="num">{clock_offset_ms === undefined ? <span class="nil">–</span> : ahead(clock_offset_ms)}</td>
                <td class="num"><Time at={started_at} /></td>
                <td class="num"><Time at={seen_at} /></td>
              </tr>
            ))}
          </Table>
          <footer class="hint">Lanes are connections to Redis, waiters are long polls. Clock: how far the machine is ahead of Redis.</footer>
        </Card>
      )}
      <Keys />
    </>
  );
}

function ahead(ms: number): string {
  return `${ms > 0 ? "+" : ms < 0 ? "−" : ""}${duration(ms)}`;
}

/** Names and scopes. Secrets are nowhere to be shown. */
function Keys() {
  const me = useStore(session);
  const lacks = refusal("admin");
  const { data, problem } = useQuery<Page<ApiKey>>(lacks ? null : "listKeys", {}, 5);
  if (lacks) return <Card title="Keys"><Empty icon="lock" title="Keys are not available"><Text>{lacks}</Text></Empty></Card>;
  if (!data) return <Card title="Keys">{problem ? <Unable problem={problem} what="Keys" /> : <Skeleton rows={3} />}</Card>;
  if (data.items.length === 0) {
    return <Card title="Keys"><Empty title="There are no keys">Everyone who reaches this server may do everything. <code>dueq keys new</code> makes a key.</Empty></Card>;
  }
  return (
    <Card flush title="Keys">
      <Table label="Keys" head={["Name", "Scopes", ["Publish rate", "num"]]}>
        {data.items.map(({ name, scopes, publish_per_s }) => (
          <tr key={name} data-row="">
            <th scope="row">
              <Name>{name}</Name>{" "}
              {name === me?.name && <span class="badge">you</span>}
            </th>
            <td class="prose scopes">{scopes.map((scope) => <code key={scope}>{scope}</code>)}</td>
            <td class="num">{publish_per_s === undefined ? <span class="nil">–</span> : `${count(publish_per_s)}/s`}</td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}
