// Lines over time, as SVG: it is stretched to its box by the browser and coloured by the style sheet, so that nothing is drawn
// again when the window or the theme changes. Labels are HTML, which does not stretch. Each chart has its numbers in a table, which
// is made when a user opens it.

import { useMemo, useState } from "preact/hooks";
import { count, duration, minute, zone, zonedClock } from "./format";
import { Table } from "./parts";
import { useStore } from "./store";

export interface Series {
  label: string;
  /** Its colour and its dashes. */
  look: "one" | "two" | "three";
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

/** The inner size of the drawing, before it is stretched. */
const WIDTH = 1000;
const HEIGHT = 100;
const MINUTE = 60_000;
const DAY = 1440 * MINUTE;

/** Round values from 0 to the top, which is at least the highest. */
export function linear(high: number): number[] {
  const rough = Math.max(high, 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => step >= rough)!;
  return [0, 1, 2, 3, 4].map((at) => at * step);
}

/** Powers of ten around the values, of milliseconds. */
function decades(values: number[]): number[] {
  const low = Math.floor(Math.log10(Math.max(1, Math.min(...values, 10))));
  const high = Math.max(low + 2, Math.ceil(Math.log10(Math.max(1, ...values))));
  return Array.from({ length: high - low + 1 }, (_, at) => 10 ** (low + at));
}

/** Instants at round minutes or days, few enough to be labelled. */
function instants(from: number, until: number): number[] {
  const step = [1, 2, 5, 10, 15, 30, 60, 120, 240, 360].map((minutes) => minutes * MINUTE).find((step) => (until - from) / step <= 7) ?? 5 * DAY;
  // By the wall clock that is shown.
  const offset = zone.value === "utc" ? 0 : new Date(until).getTimezoneOffset() * MINUTE;
  const first = Math.ceil((from - offset) / step) * step + offset;
  return Array.from({ length: Math.max(0, Math.floor((until - first) / step) + 1) }, (_, at) => first + at * step);
}

export function short(value: number): string {
  return value >= 1000 ? `${Number((value / 1000).toFixed(1))}k` : count(Number(value.toFixed(2)));
}

/** Lines at these values, which are `up` as a share of the height, with their names, and instants below. */
export function Axes({ marks, name, up, from, until }: { marks: number[]; name: (value: number) => string; up: (value: number) => number; from: number; until: number }) {
  useStore(zone);
  return (
    <>
      {marks.map((mark) => (
        <span key={mark} class="mark-y" style={{ bottom: `${up(mark) * 100}%` }}>
          <span>{name(mark)}</span>
        </span>
      ))}
      {instants(from, until).map((time) => (
        <span key={time} class="mark-x" style={{ left: `${((time - from) / (until - from)) * 100}%` }}>{minute(time).slice(...(until - from > DAY ? [5, 10] : [11, 16]))}</span>
      ))}
    </>
  );
}

export function Chart({ title, times, series, lateness, unit }: Props) {
  useStore(zone);
  const [over, setOver] = useState<number | null>(null);
  const [open, setOpen] = useState(false);
  const last = times.length - 1;
  const from = times[0]!;
  const span = times[last]! - from || 1;
  const all = series.flatMap(({ values }) => values.filter((value) => value !== null));
  const marks = lateness ? decades(all) : linear(Math.max(0, ...all));
  const [bottom, top] = [marks[0]!, marks.at(-1)!];
  const left = (time: number) => (time - from) / span;
  const up = (value: number) => (lateness ? Math.log10(Math.max(value, bottom) / bottom) / Math.log10(top / bottom) : value / top);
  const paths = useMemo(
    () =>
      series.map(({ values }) => {
        let line = "";
        let dots = "";
        let newest = "";
        values.forEach((value, at) => {
          if (value === null) return;
          const point = `${(left(times[at]!) * WIDTH).toFixed(1)} ${((1 - up(value)) * HEIGHT).toFixed(1)}`;
          const [before = null, after = null] = [values[at - 1], values[at + 1]];
          // A point without neighbours is a line of no length with round ends.
          if (before === null && after === null) dots += `M${point}h0`;
          else if (at < last) line += `${before === null ? "M" : "L"}${point}`;
          if (at >= last - 1) newest += `${newest ? "L" : "M"}${point}`;
        });
        return [line, dots, newest] as const;
      }),
    [times, series],
  );
  const shown = over ?? last;
  const said = (value: number | null | undefined) => (value === null || value === undefined ? "–" : lateness ? duration(value) : count(Number(value.toFixed(1))));
  const pointed = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const time = from + ((event.clientX - box.left) / box.width) * span;
    const next = times.findIndex((at) => at >= time);
    const near = next === -1 ? last : next > 0 && time - times[next - 1]! < times[next]! - time ? next - 1 : next;
    setOver(near);
  };
  return (
    <figure class="chart">
      <figcaption>
        <span class="title">{title}</span>
        <span class="when">{zonedClock(times[shown]!)}{shown === last ? " · partial" : ""}</span>
        <span class="legend">
          {series.map(({ label, look, values }) => (
            <span key={label}>
              <i class={look} aria-hidden="true" />
              {label} <b>{said(values[shown])}</b>
            </span>
          ))}
        </span>
      </figcaption>
      <div class="plot" aria-hidden="true">
        <Axes marks={marks} name={lateness ? duration : short} up={up} from={from} until={from + span} />
        <div class="field-of" onMouseMove={pointed} onMouseLeave={() => setOver(null)}>
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none">
            {paths.map(([line, dots, newest], at) => (
              <g key={at} class={series[at]!.look}>
                <path d={line} />
                <path class="newest" d={newest} />
                <path class="dots" d={dots} />
              </g>
            ))}
          </svg>
          {over !== null && <i class="cursor" style={{ left: `${left(times[over]!) * 100}%` }} />}
        </div>
      </div>
      <details onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
        <summary>Numbers</summary>
        {open && (
          <Table label={`${title}, ${unit}`} head={["At", ...series.map(({ label }): [string, string] => [label, "num"])]}>
            {times.map((_, at) => last - at).slice(0, 120).map((at) => (
              <tr key={times[at]}>
                <td>{zonedClock(times[at]!)}</td>
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
