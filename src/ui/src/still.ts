// Lists that do not move while the user is at work in them: a row must not slip away from under a pointer.

import type { RefObject } from "preact";
import { useRef } from "preact/hooks";
import { refreshed, ticks } from "./poll";
import { useStore } from "./store";

export interface Still {
  box: RefObject<HTMLDivElement | null>;
  /** How many rows would come in. */
  fresh: number;
}

/**
 * The rows of a list. While the pointer, the focus or a selection is in it, those that are there stay, each with its newest values,
 * until the user acts or refreshes. `scope`: what the list shows, such as its page. `held`: rows are selected.
 */
export function useStill<Item>(items: Item[], keyOf: (item: Item) => string, scope = "", held = false): [Item[], Still] {
  const box = useRef<HTMLDivElement | null>(null);
  const before = useRef<{ rows: Item[]; of: string } | undefined>(undefined);
  const of = `${useStore(refreshed)} ${scope}`;
  // The pointer may have left since.
  useStore(ticks);
  const list = box.current;
  const selection = getSelection()!;
  const isBusy = held || list?.matches(":hover, :focus-within") || (!selection.isCollapsed && list?.contains(selection.anchorNode));
  const newest = new Map(items.map((item) => [keyOf(item), item]));
  const rows = list && isBusy && before.current?.of === of ? before.current.rows.map((item) => newest.get(keyOf(item)) ?? item) : items;
  before.current = { rows, of };
  for (const row of rows) newest.delete(keyOf(row));
  return [rows, { box, fresh: newest.size }];
}
