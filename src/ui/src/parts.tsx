// The small parts that screens are made of.

import type { ComponentChildren } from "preact";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { refusal, type Problem, type Verb } from "./api";
import { count, duration, exact, mark, pieces, plain, relative, zone } from "./format";
import { Icon } from "./icons";
import { refresh, ticks } from "./poll";
import type { Still } from "./still";
import { Store, useStore } from "./store";
import type { Counts, State } from "./types";

type Children = { children?: ComponentChildren };

/** Foreign text. What would not be seen, or would turn the text around it, shows as a mark. */
export function Text({ children }: { children: string }) {
  const parts = pieces(children);
  if (parts.length === 1) return <>{children}</>;
  return <>{parts.map((part, at) => (at % 2 ? <span class="mark">{mark(part)}</span> : part))}</>;
}

/** A name, cut where it is long. The tooltip has the whole. */
export function Name({ children }: { children: string }) {
  return <span class="cut" title={plain(children)}><Text>{children}</Text></span>;
}

/** An instant: relative, and exactly in its tooltip. */
export function Time({ at, short = false }: { at: string; short?: boolean }) {
  useStore(ticks);
  useStore(zone);
  return (
    <time dateTime={at} title={exact(at)}>
      {short ? relative(at).replace(" ago", "") : relative(at)}
    </time>
  );
}

export { plain as plainTitle };

export function Num({ value, dim }: { value: number | undefined; dim?: boolean }) {
  if (value === undefined) return <span class="nil">–</span>;
  return <span class={value === 0 || dim ? "nil" : undefined}>{count(value)}</span>;
}

export function Ms({ value }: { value: number | undefined }) {
  return value === undefined ? <span class="nil">–</span> : <>{duration(value)}</>;
}

const STATES: Record<State, [string, string]> = {
  delayed: ["◷", "Delayed"],
  ready: ["●", "Ready"],
  leased: ["◐", "Leased"],
  dead: ["✕", "Dead"],
  acked: ["✓", "Acked"],
  blocked: ["◫", "Blocked"],
};

export const SHOWN: State[] = ["delayed", "ready", "leased", "blocked", "dead", "acked"];

export function stateName(state: State): string {
  return STATES[state]?.[1] ?? state;
}

/** A state by sign, word and colour. */
export function StateMark({ state, quiet }: { state: State; quiet?: boolean }) {
  const [sign, name] = STATES[state] ?? ["○", state];
  return (
    <span class={`state ${quiet ? "quiet" : ""} is-${state}`}>
      <span aria-hidden="true">{sign}</span> {name}
    </span>
  );
}

/** The shares of the states. The numbers are next to it, so it is decoration. */
export function StateBar({ counts }: { counts: Counts }) {
  const states = (["delayed", "ready", "leased", "blocked", "dead"] as State[]).filter((state) => counts[state] > 0);
  const sum = states.reduce((all, state) => all + counts[state], 0);
  const title = states.map((state) => `${count(counts[state])} ${state}`).join(", ") || "empty";
  return (
    <span class="bar" title={title} aria-hidden="true">
      {states.map((state) => (
        <span key={state} class={`fill-${state}`} style={{ flexGrow: String(Math.max(counts[state] / sum, 0.04)) }} />
      ))}
    </span>
  );
}

interface ButtonProps extends Children {
  icon?: string;
  kind?: "primary" | "danger" | "ghost" | "link";
  /** What the key must have for this. */
  needs?: [Verb, string?];
  /** Why it cannot be done now. */
  unless?: string | null | false;
  label?: string;
  type?: "button" | "submit";
  busy?: boolean;
  hotkey?: string;
  onClick?: (event: MouseEvent) => void;
}

/** A button. One that cannot be used stays reachable, so that its reason can be read. */
export function Button({ icon, kind, needs, unless, label, children, type = "button", busy, hotkey, onClick }: ButtonProps) {
  const why = (needs && refusal(...needs)) || unless || null;
  const off = why !== null || busy === true;
  return (
    <button
      type={type}
      class={`button ${kind ?? ""} ${children === undefined ? "square" : ""}`}
      aria-disabled={off ? "true" : undefined}
      aria-label={label && why ? `${label}. ${why}` : label}
      title={why ?? label}
      data-key={hotkey}
      onClick={(event) => {
        if (off) event.preventDefault();
        else onClick?.(event as unknown as MouseEvent);
      }}
    >
      {icon && <Icon name={icon} />}
      {children !== undefined && <span>{children}</span>}
      {why && children !== undefined && <span class="sr">. {why}</span>}
    </button>
  );
}

export interface Action {
  label: string;
  icon?: string;
  danger?: boolean;
  needs?: [Verb, string?];
  unless?: string | null | false;
  run: () => void;
}

/** A button with more actions, in a list that floats above the page. */
export function Menu({ label, actions, icon = "dots" }: { label: string; actions: Action[]; icon?: string }) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const [open, setOpen] = useState(false);
  const moveTo = (step: number) => {
    const items = [...(list.current?.querySelectorAll("button") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLButtonElement);
    items[(at + step + items.length) % items.length]?.focus();
  };
  useLayoutEffect(() => {
    const popover = list.current;
    if (!popover) return;
    const toggled = (event: Event) => {
      const opens = (event as ToggleEvent).newState === "open";
      setOpen(opens);
      if (!opens || !button.current) return;
      const from = button.current.getBoundingClientRect();
      const size = popover.getBoundingClientRect();
      const below = from.bottom + 4 + size.height < innerHeight;
      popover.style.top = `${Math.max(8, below ? from.bottom + 4 : from.top - 4 - size.height)}px`;
      popover.style.left = `${Math.max(8, Math.min(from.right - size.width, innerWidth - size.width - 8))}px`;
      popover.querySelector("button")?.focus();
    };
    popover.addEventListener("toggle", toggled);
    return () => popover.removeEventListener("toggle", toggled);
  }, []);
  return (
    <span class="menu">
      <button
        ref={button}
        type="button"
        class="button ghost square"
        aria-label={label}
        title={label}
        aria-expanded={open ? "true" : "false"}
        aria-haspopup="true"
        popovertarget={id}
        data-menu=""
      >
        <Icon name={icon} />
      </button>
      <div
        ref={list}
        id={id}
        popover="auto"
        class="popover"
        role="group"
        aria-label={label}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown" || event.key === "j") moveTo(1);
          else if (event.key === "ArrowUp" || event.key === "k") moveTo(-1);
          else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      >
        {actions.map(({ label, icon, danger, needs, unless, run }) => (
          <Button
            key={label}
            icon={icon ?? "chevron"}
            kind={danger ? "danger" : "ghost"}
            needs={needs}
            unless={unless}
            onClick={() => {
              list.current?.hidePopover();
              run();
            }}
          >
            {label}
          </Button>
        ))}
      </div>
    </span>
  );
}

/** One line that says how something ended. Read out by screen readers, and gone after a while. */
export const notice = new Store<{ text: string; bad: boolean } | null>(null);
let noticeEnds: ReturnType<typeof setTimeout> | undefined;

export function say(text: string, bad = false): void {
  clearTimeout(noticeEnds);
  notice.set({ text, bad });
  noticeEnds = setTimeout(() => notice.set(null), bad ? 12_000 : 6000);
}

export function Notice() {
  const said = useStore(notice);
  return (
    <div class="notice" role="status" aria-live="polite">
      {said && (
        <div class={said.bad ? "bad" : "good"}>
          <Icon name={said.bad ? "warning" : "check"} />
          <span>
            <Text>{said.text}</Text>
          </span>
          <Button icon="close" kind="ghost" label="Dismiss" onClick={() => notice.set(null)} />
        </div>
      )}
    </div>
  );
}

/** What a card shows where it has nothing else. */
export function Empty({ title, children, icon }: { title: string; icon?: string } & Children) {
  return (
    <div class="empty">
      {icon && <Icon name={icon} size={28} />}
      <p class="title">{title}</p>
      {children && <div>{children}</div>}
    </div>
  );
}

/** A calm word where a part cannot be shown. */
export function Unable({ problem, what }: { problem: Problem; what: string }) {
  if (problem.status === 403) {
    return <Empty icon="lock" title={`${what} not available`}>{plain(problem.message)}</Empty>;
  }
  return <Empty icon="warning" title={`${what} could not be read`}>{plain(problem.message)}</Empty>;
}

/** Grey bars in place of rows, at the first load only. */
export function Skeleton({ rows = 4 }: { rows?: number }) {
  return (
    <div class="skeleton" aria-busy="true" aria-label="Loading">
      {Array.from({ length: rows }, (_, at) => (
        <span key={at} />
      ))}
    </div>
  );
}

export function Card({ title, actions, children, flush }: { title?: ComponentChildren; actions?: ComponentChildren; flush?: boolean } & Children) {
  return (
    <section class={`card ${flush ? "flush" : ""}`}>
      {(title || actions) && (
        <header>
          {title && <h2>{title}</h2>}
          {actions && <div class="actions">{actions}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

/** The heading of a column: its text, with `!` before one that is not seen, and its class. */
export type Column = string | [ComponentChildren, string];

/** A table that scrolls sideways by itself, and by keyboard too. On a phone each row with `data-row` is a card, whose cells have their columns' headings. */
export function Table({ label, head, still, children }: { label: string; head: Column[]; still?: Still } & Children) {
  const own = useRef<HTMLDivElement | null>(null);
  const box = still?.box ?? own;
  const columns = head.map((cell) => (typeof cell === "string" ? [cell, undefined] : cell) as [ComponentChildren, string?]);
  useLayoutEffect(() => {
    for (const row of box.current!.querySelectorAll<HTMLElement>("[data-row]")) {
      [...row.children].forEach((cell, at) => {
        const text = columns[at]?.[0];
        (cell as HTMLElement).dataset.label = typeof text === "string" && !text.startsWith("!") ? text : "";
      });
    }
  });
  return (
    <div class="list">
      {still && <div class="fresh" role="status">{still.fresh > 0 && <Button onClick={refresh}>{count(still.fresh)} new</Button>}</div>}
      <div ref={box} class="scroll" tabIndex={0} role="region" aria-label={label}>
        <table>
          <thead>
            <tr>
              {columns.map(([text, className], at) => (
                <th key={at} scope="col" class={className}>
                  {typeof text === "string" && text.startsWith("!") ? <span class="sr">{text.slice(1)}</span> : text}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>{children}</tbody>
        </table>
      </div>
    </div>
  );
}

export function Tabs({ label, tabs, current, pick }: { label: string; tabs: [string, ComponentChildren][]; current: string; pick: (tab: string) => void }) {
  return (
    <div class="tabs" role="group" aria-label={label}>
      {tabs.map(([id, content]) => (
        <button key={id} type="button" aria-pressed={id === current ? "true" : "false"} onClick={() => pick(id)}>
          {content}
        </button>
      ))}
    </div>
  );
}

export function Field({ label, hint, error, children }: { label: string; hint?: ComponentChildren; error?: string | null } & Children) {
  return (
    <label class="field">
      <span class="label">{label}</span>
      {children}
      {error ? <span class="error">{error}</span> : hint && <span class="hint">{hint}</span>}
    </label>
  );
}

/** Copies a text, also where the page has no clipboard because it came by http. */
export async function copy(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "sr";
    // In a dialog only the dialog's own elements can be selected.
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) return say("The browser does not let the page copy.", true);
  }
  say(`${what} copied`);
}

/** A small line of a series. Decoration: the numbers are in the chart's table. */
export function Spark({ values }: { values: number[] }) {
  const top = Math.max(...values, 1);
  const step = values.length > 1 ? 96 / (values.length - 1) : 0;
  const points = values.map((value, at) => `${(at * step + 2).toFixed(1)},${(22 - (value / top) * 20).toFixed(1)}`);
  return (
    <svg class="spark" width="100" height="24" viewBox="0 0 100 24" aria-hidden="true">
      {values.length > 1 && <polyline points={points.join(" ")} />}
    </svg>
  );
}

/** Keeps the current one of tabs that do not all fit in sight. */
export function useInSight(current: string, selector: string) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = box.current;
    const tab = element?.querySelector<HTMLElement>(selector);
    if (!element || !tab || element.scrollWidth <= element.clientWidth) return;
    element.scrollLeft = tab.offsetLeft - element.offsetLeft - (element.clientWidth - tab.clientWidth) / 2;
  }, [current]);
  return box;
}

/** The states as tabs, with their counts. */
export function StateTabs({ counts, states, current, pick, names = {} }: { counts: Counts; states: State[]; current: State; pick: (state: State) => void; names?: Partial<Record<State, string>> }) {
  const box = useInSight(current, "[aria-pressed=true]");
  return (
    <div ref={box} class="tabs states" role="group" aria-label="State">
      {states.map((state) => (
        <button key={state} type="button" aria-pressed={state === current ? "true" : "false"} onClick={() => pick(state)}>
          <span class="name">
            <i class={`fill-${state}`} aria-hidden="true" />
            {names[state] ?? stateName(state)}
          </span>
          <b>{count(counts[state])}</b>
        </button>
      ))}
    </div>
  );
}

/** Calls back when the user stopped typing. */
export function useSettled(value: string, settle: (value: string) => void): void {
  const first = useRef(true);
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return;
    }
    const timer = setTimeout(() => settle(value), 250);
    return () => clearTimeout(timer);
  }, [value]);
}

export function Search({ value, label, placeholder, search, hint }: { value: string; label: string; placeholder: string; search: (text: string) => void; hint?: ComponentChildren }) {
  const [text, setText] = useState(value);
  useSettled(text, (settled) => settled !== value && search(settled));
  useEffect(() => setText(value), [value]);
  return (
    <div class="search">
      <Icon name="search" size={16} />
      <input
        type="search"
        data-search=""
        value={text}
        aria-label={label}
        placeholder={placeholder}
        autocomplete="off"
        spellcheck={false}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") search(text);
          if (event.key === "Escape") event.currentTarget.blur();
        }}
      />
      {hint}
      <kbd aria-hidden="true">f</kbd>
    </div>
  );
}
