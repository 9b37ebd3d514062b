// What falls due when: bars for the next hour, day or month. A bar leads to its messages.

import { useState } from "preact/hooks";
import { Axes, linear, short } from "../chart";
import { count, minute } from "../format";
import { Card, Skeleton, Table, Tabs, Unable } from "../parts";
import { useQuery } from "../poll";
import { setQuery } from "../router";

const SPANS: Record<string, [number, number, string]> = {
  hour: [120_000, 30, "two minutes"],
  day: [3_600_000, 24, "an hour"],
  month: [86_400_000, 30, "a day"],
};

interface Bucket {
  from_at: string;
  count: number;
}

export function Forecast({ topic, query }: { topic: string; query: URLSearchParams }) {
  const span = SPANS[query.get("span") ?? ""] ? query.get("span")! : "day";
  const [bucket_ms, buckets, width] = SPANS[span]!;
  const [over, setOver] = useState<number | null>(null);
  const [open, setOpen] = useState(false);
  const { data, problem } = useQuery<{ buckets: Bucket[] }>("forecastTopic", { path: { topic }, query: { bucket_ms, buckets } }, 3);
  const scale = query.get("scale") === "log" ? "log" : "linear";
  const tabs = (
    <>
      <Tabs label="Scale" current={scale} tabs={[["linear", "Linear"], ["log", "Log"]]} pick={(picked) => setQuery({ scale: picked === "log" ? picked : undefined })} />
      <Tabs label="Forecast for the next" current={span} tabs={[["hour", "Hour"], ["day", "Day"], ["month", "Month"]]} pick={(picked) => setQuery({ span: picked === "day" ? undefined : picked })} />
    </>
  );
  if (!data) return <Card title="Falls due" actions={tabs}>{problem ? <Unable problem={problem} what="The forecast is" /> : <Skeleton rows={2} />}</Card>;
  const top = Math.max(1, ...data.buckets.map(({ count }) => count));
  const sum = data.buckets.reduce((all, { count }) => all + count, 0);
  const peak = data.buckets.findIndex(({ count }) => count === top);
  // Messages are whole. The logarithm is of one more, so that none is at the bottom.
  const marks = scale === "log" ? Array.from({ length: Math.ceil(Math.log10(top)) + 1 }, (_, at) => 10 ** at) : linear(Math.max(4, top)).filter(Number.isInteger);
  const height = (value: number) => (scale === "log" ? Math.log(value + 1) / Math.log(marks.at(-1)! + 1) : value / marks.at(-1)!);
  const began = Date.parse(data.buckets[0]!.from_at);
  const show = (at: number) => {
    const from = new Date(data.buckets[at]!.from_at);
    const until = new Date(from.getTime() + bucket_ms);
    setQuery({ state: "delayed", q: `at:>${from.toISOString()} at:<${until.toISOString()}` });
  };
  const told = data.buckets[over ?? peak];
  const at = (x: number, element: HTMLElement) => {
    const box = element.getBoundingClientRect();
    return Math.min(buckets - 1, Math.max(0, Math.floor(((x - box.left) / box.width) * buckets)));
  };
  return (
    <Card title="Falls due" actions={tabs}>
      <p class="hint told">
        {count(sum)} in the next {span}
        {told && sum > 0 && <> · {over === null ? "peak" : ""} <b>{count(told.count)}</b> from {minute(told.from_at)}</>} · messages in {width}
      </p>
      <div class="plot" aria-hidden="true">
        <Axes marks={marks} name={short} up={height} from={began} until={began + buckets * bucket_ms} />
        <div
          class="bars field-of"
          onMouseMove={(event) => setOver(at(event.clientX, event.currentTarget))}
          onMouseLeave={() => setOver(null)}
          onClick={(event) => show(at(event.clientX, event.currentTarget))}
        >
          {data.buckets.map((bucket, at) => (
            <span key={at} class={over === at ? "over" : ""}>
              <i style={{ height: `${bucket.count === 0 ? 0 : Math.max(3, height(bucket.count) * 100)}%` }} />
            </span>
          ))}
        </div>
      </div>
      <details onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
        <summary>Numbers</summary>
        {open && (
          <Table label={`What falls due, by ${width}`} head={["From", ["Messages", "num"]]}>
            {data.buckets.map((bucket, at) => (
              <tr key={at}>
                <td><button type="button" class="button link" onClick={() => show(at)}>{minute(bucket.from_at)}</button></td>
                <td class="num">{count(bucket.count)}</td>
              </tr>
            ))}
          </Table>
        )}
      </details>
    </Card>
  );
}
