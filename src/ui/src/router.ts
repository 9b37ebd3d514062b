// Where the user is: a path and a query after the `#`, so that a link is a finding and the server needs no routes for it.

import { Store, useStore } from "./store";

export interface Place {
  path: string[];
  query: URLSearchParams;
}

function read(): Place {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const decoded = path.split("/").filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { path: decoded, query: new URLSearchParams(query) };
}

export const place = new Store<Place>(read());

window.addEventListener("hashchange", () => place.set(read()));

export function usePlace(): Place {
  return useStore(place);
}

/** The link to a screen. Values that are empty are left out. */
export function to(path: string[], query: Record<string, string | undefined> = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value);
  const text = search.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

export function go(path: string[], query: Record<string, string | undefined> = {}): void {
  location.hash = to(path, query);
}

/** Changes parts of the query in place: filters are not steps of the history. */
export function setQuery(changes: Record<string, string | undefined>): void {
  const { path, query } = read();
  const merged = { ...Object.fromEntries(query), ...changes };
  history.replaceState(null, "", to(path, merged));
  place.set(read());
}
