// A value that components follow.

import { useEffect, useRef, useState } from "preact/hooks";

export class Store<Value> {
  private readonly followers = new Set<() => void>();

  constructor(private current: Value) {}

  get value(): Value {
    return this.current;
  }

  set(value: Value): void {
    if (Object.is(value, this.current)) return;
    this.current = value;
    for (const follower of [...this.followers]) follower();
  }

  follow(follower: () => void): () => void {
    this.followers.add(follower);
    return () => this.followers.delete(follower);
  }
}

export function useStore<Value>(store: Store<Value>): Value {
  const [, render] = useState(0);
  const drawn = store.value;
  useEffect(() => {
    const again = () => render((count) => count + 1);
    // Between drawing and following it may have changed: a quick server answers before.
    if (!Object.is(store.value, drawn)) again();
    return store.follow(again);
  }, [store]);
  return drawn;
}

/** The first value there is. What comes later changes nothing, so that a page does not move under its reader. */
export function useFirst<Value>(value: Value | undefined): Value | undefined {
  const first = useRef<Value | undefined>(undefined);
  first.current ??= value;
  return first.current;
}

/** A choice that the browser remembers. Where it may not, the choice lasts as long as the page. */
export function remembered(name: string, fallback: string): Store<string> {
  let first = fallback;
  try {
    first = localStorage.getItem(`dueq.${name}`) ?? fallback;
  } catch {
    // Storage is switched off.
  }
  const store = new Store(first);
  store.follow(() => {
    try {
      localStorage.setItem(`dueq.${name}`, store.value);
    } catch {
      // As above.
    }
  });
  return store;
}
