// Charts by uPlot. Each has its numbers in a table, which is made when somebody opens it.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { clock, count, duration, zone } from "./format";
import { Table } from "./parts";
import { Store, useStore } from "./store";

/** Grows when the colours change. */
export const themed = new Store(0);

export interface Series {
  label: string;
  /** The custom property of its colour. */
  color: string;
  dash?: number[];
  values: (number | null)[];
}

interface Props {
  title: string;
  times: number[];
  series: Series[];
  /** Values are milliseconds on a logarithmic axis. */
  lateness?: boolean;
  unit: string;
}

function color(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const HEIGHT = 168;

function options({ lateness, series }: Props, width: number): uPlot.Options {
  const shown = (value: number) => (lateness ? duration(value) : value >= 1000 ? `${Number((value / 1000).toFixed(1))}k` : count(Number(value.toFixed(1))));
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: color("--muted"), font, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: {
      x: { time: true },
      y: lateness ? { distr: 3, range: (_, low, high) => [Math.max(0.5, (low ?? 1) / 2), Math.max(100, (high ?? 1) * 2)] } : { range: (_, __, high) => [0, Math.max(1, (high ?? 0) * 1.1)] },
    },
    axes: [
      { ...axis, size: 26, grid: { show: false }, space: 72, values: (_, splits) => splits.map((at) => clock(at * 1000).slice(0, 5)) },
      {
        ...axis,
        size: 52,
        grid: { stroke: color("--line"), width: 1 },
        // Of a logarithmic axis only the decades.
        filter: (_, splits) => (lateness ? splits.map((value) => (Number.isInteger(Math.log10(value)) ? value : null)) : splits) as number[],
        values: (_, splits) => splits.map((value) => (value === null ? "" : shown(value))),
      },
    ],
    series: [
      {},
      ...series.map(({ label, color: name, dash }) => ({
        label,
        stroke: color(name),
        width: 1.5,
        dash,
        points: { show: false },
        spanGaps: false,
      })),
    ],
  };
}

export function Chart(props: Props) {
  const { title, times, series, lateness, unit } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useStore(themed);
  const inZone = useStore(zone);
  const [at, setAt] = useState<number | null>(null);
  const [open, setOpen] = useState(false);
  const data: uPlot.AlignedData = [times.map((time) => time / 1000), ...series.map(({ values }) => values.map((value) => (lateness && value !== null ? Math.max(value, 0.5) : value)))];
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot({ ...options(props, element.clientWidth), hooks: { setCursor: [(u) => setAt(u.cursor.idx ?? null)] } }, data, element);
    plot.current = made;
    const watcher = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      made.destroy();
    };
  }, [theme, inZone, series.map(({ label }) => label).join()]);
  useEffect(() => plot.current?.setData(data), [times, JSON.stringify(data)]);
  const last = times.length - 1;
  const shown = at ?? last;
  const said = (value: number | null | undefined) => (value === null || value === undefined ? "–" : lateness ? duration(value) : count(Number(value.toFixed(1))));
  return (
    <figure class="chart">
      <figcaption>
        <span class="title">{title}</span>
        <span class="legend">
          {series.map(({ label, color: name, dash, values }) => (
            <span key={label}>
              <i class={dash ? "dashed" : ""} style={{ borderTopColor: `var(${name})` }} aria-hidden="true" />
              {label} <b>{said(values[shown])}</b>
            </span>
          ))}
          <span class="when">{times[shown] === undefined ? "" : clock(times[shown]!)}{shown === last ? " · partial" : ""}</span>
        </span>
      </figcaption>
      <div ref={box} class="plot" aria-hidden="true" />
      <details onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
        <summary>Numbers</summary>
        {open && (
          <Table label={`${title}, ${unit}`} head={["At", ...series.map(({ label }): [string, string] => [label, "num"])]}>
            {times.map((_, at) => last - at).slice(0, 120).map((at) => (
              <tr key={times[at]}>
                <td>{clock(times[at]!)}</td>
                {series.map(({ label, values }) => (
                  <td key={label} class="num">{said(values[at])}</td>
                ))}
              </tr>
            ))}
          </Table>
        )}
      </details>
    </figure>
  );
}
