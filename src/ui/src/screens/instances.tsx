// The instances of dueq that serve this queue.

import { Card, Empty, Skeleton, Table, Text, Time, Unable } from "../parts";
import { useQuery } from "../poll";
import { duration } from "../format";
import { now } from "../api";
import type { Instance, Page } from "../types";

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
          <Table label="Instances" head={["Instance", "Version", ["Up for", "num"], ["Started", "num"], ["Seen", "num"]]}>
            {data.items.map(({ id, version, started_at, seen_at }) => (
              <tr key={id} data-row="">
                <th scope="row" class="mono"><Text>{id}</Text></th>
                <td>{version}</td>
                <td class="num">{duration(Math.max(0, now() - Date.parse(started_at)))}</td>
                <td class="num"><Time at={started_at} /></td>
                <td class="num"><Time at={seen_at} /></td>
              </tr>
            ))}
          </Table>
        </Card>
      )}
    </>
  );
}
