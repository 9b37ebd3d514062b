// The keyboard. Rows and actions are found by their data attributes, so that every list has the same keys.

import { paused, refresh } from "./poll";
import { go } from "./router";

export const KEYS: [string, string][] = [
  ["g o", "Overview"],
  ["g t", "Topics"],
  ["g d", "Dead letters"],
  ["g c", "Callbacks"],
  ["g s", "Schedules"],
  ["g p", "Publish"],
  ["g i", "Instances"],
  ["/", "Jump to anything, as ctrl-K"],
  ["f", "Filter or search the list"],
  ["j  k", "Next, previous row"],
  ["Enter", "Open the row"],
  ["x", "Select the row"],
  ["e", "Redrive"],
  [".", "More actions"],
  ["r", "Refresh now"],
  ["R", "Stop or continue refreshing"],
  ["t", "Light or dark"],
  ["?", "This help"],
];

const SCREENS: Record<string, string[]> = {
  o: [],
  t: ["topics"],
  d: ["dead"],
  c: ["callbacks"],
  s: ["schedules"],
  p: ["publish"],
  i: ["instances"],
};

function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement;
  return element.matches?.("textarea, select, input:not([type=checkbox]):not([type=radio])") ?? false;
}

function move(step: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main [data-row] [data-open]")];
  const here = document.activeElement?.closest("[data-row]")?.querySelector<HTMLElement>("[data-open]");
  const at = here ? rows.indexOf(here) : -1;
  const next = rows[at === -1 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

function inRow(selector: string): HTMLElement | null {
  const row = document.activeElement?.closest("[data-row]");
  return row?.querySelector<HTMLElement>(selector) ?? document.querySelector<HTMLElement>(`main :not([data-row] *)${selector}`);
}

export function startKeys(actions: { theme: () => void; help: () => void; jump: () => void }): void {
  let prefix = -Infinity;
  document.addEventListener("keydown", (event) => {
    const { key } = event;
    if (document.querySelector("dialog[open]")) return;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && key.toLowerCase() === "k") {
      event.preventDefault();
      return actions.jump();
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (event.timeStamp - prefix < 1500 && SCREENS[key]) {
      prefix = -Infinity;
      go(SCREENS[key]);
      event.preventDefault();
      return;
    }
    prefix = -Infinity;
    const does: Record<string, () => void> = {
      g: () => (prefix = event.timeStamp),
      "/": actions.jump,
      f: () => document.querySelector<HTMLElement>("[data-search]")?.focus(),
      j: () => move(1),
      k: () => move(-1),
      x: () => document.activeElement?.closest("[data-row]")?.querySelector<HTMLElement>("input[type=checkbox]")?.click(),
      e: () => inRow("[data-key=e]")?.click(),
      ".": () => inRow("[data-menu]")?.click(),
      r: refresh,
      R: () => {
        paused.set(!paused.value);
        if (!paused.value) refresh();
      },
      t: actions.theme,
      "?": actions.help,
    };
    if (!does[key]) return;
    event.preventDefault();
    does[key]();
  });
}
