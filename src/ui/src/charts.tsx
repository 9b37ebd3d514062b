// Throughput and lateness of one topic, or of several together.

import { Chart, type Series } from "./chart";
import { Card, Empty, Skeleton, Tabs, Unable } from "./parts";
import { useQueries, type Known } from "./poll";
import { setQuery, usePlace } from "./router";
import type { History, Point } from "./types";

const RANGES: Record<string, { step_ms: number; points: number; every: number }> = {
  "1h": { step_ms: 10_000, points: 360, every: 5 },
  "24h": { step_ms: 60_000, points: 1440, every: 15 },
};

/** Follows the histories of these topics, at a minute's step and for an hour unless told otherwise. */
export function useHistories(topics: string[], step_ms = 60_000, points = 60, every = 5): Map<string, Known<History>> {
  const asks = topics.map((topic) => ({
    name: topic,
    operation: "getTopicHistory" as const,
    ask: { path: { topic }, query: { step_ms, points } },
  }));
  return useQueries<History>(asks, every);
}

/** Several histories as one: counts add up, of ages and latenesses the worst counts. */
export function together(histories: History[]): Point[] {
  const byTime = new Map<string, Point>();
  const worst = (a?: number, b?: number) => (a === undefined ? b : b === undefined ? a : Math.max(a, b));
  for (const { points } of histories) {
    for (const point of points) {
      const sum = byTime.get(point.at);
      if (!sum) {
        byTime.set(point.at, { ...point });
        continue;
      }
      for (const name of ["published", "granted", "acked", "nacked", "dead", "lease_expired"] as const) sum[name] += point[name];
      for (const name of ["oldest_ready_age_ms", "lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms"] as const) {
        sum[name] = worst(sum[name], point[name]);
      }
    }
  }
  return [...byTime.values()].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
}

export function Charts({ topics, note }: { topics: string[]; note?: string }) {
  const { query } = usePlace();
  const range = query.get("range") === "24h" ? "24h" : "1h";
  // Many topics at ten seconds would be more than anybody can see.
  const { step_ms, points, every } = topics.length > 1 && range === "1h" ? { step_ms: 60_000, points: 60, every: 5 } : RANGES[range]!;
  const known = [...useHistories(topics, step_ms, points, every).values()];
  const histories = known.flatMap(({ data }) => data ?? []);
  const problem = known.find(({ problem }) => problem)?.problem;
  const tabs = (
    <Tabs label="Range" current={range} tabs={[["1h", "1 h"], ["24h", "24 h"]]} pick={(picked) => setQuery({ range: picked === "1h" ? undefined : picked })} />
  );
  if (topics.length === 0) return null;
  if (histories.length === 0) {
    return (
      <Card title="Throughput and lateness" actions={problem ? undefined : tabs}>
        {problem ? <Unable problem={problem} what="History is" /> : <Skeleton rows={3} />}
      </Card>
    );
  }
  const all = together(histories);
  const times = all.map(({ at }) => Date.parse(at));
  const seconds = step_ms / 1000;
  const rate = (name: "published" | "granted" | "acked"): (number | null)[] => all.map((point) => point[name] / seconds);
  const late = (name: "lateness_p50_ms" | "lateness_p99_ms"): (number | null)[] => all.map((point) => point[name] ?? null);
  const throughput: Series[] = [
    { label: "published", look: "one", values: rate("published") },
    { label: "granted", look: "two", values: rate("granted") },
    { label: "acked", look: "three", values: rate("acked") },
  ];
  const lateness: Series[] = [
    { label: "p50", look: "two", values: late("lateness_p50_ms") },
    { label: "p99", look: "one", values: late("lateness_p99_ms") },
  ];
  return (
    <Card title="Throughput and lateness" actions={tabs}>
      {all.length < 2 ? (
        <Empty title="No history yet">It begins with the first minute of traffic.</Empty>
      ) : (
        <div class="charts">
          <Chart title="Messages per second" times={times} series={throughput} unit="messages per second" />
          <Chart title="Lateness" times={times} series={lateness} lateness unit="ms after the due time" />
        </div>
      )}
      {note && <p class="hint">{note}</p>}
    </Card>
  );
}
