// The dashboard: shell, banners, login, and which screen is shown.

import { render, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { base, logIn, logOut, meet, Problem, seen, session, trouble } from "./api";
import { Dialog } from "./dialog";
import { here as local, zone, zonedClock } from "./format";
import { Icon } from "./icons";
import { jump, Jump } from "./jump";
import { KEYS, startKeys } from "./keys";
import { Button, Empty, Field, Notice, plainTitle, Text, useInSight } from "./parts";
import { forget, paused, refresh, startPolling, useQuery } from "./poll";
import { place, to, usePlace } from "./router";
import { Callbacks } from "./screens/callbacks";
import { Dead } from "./screens/dead";
import { Instances } from "./screens/instances";
import { MessageScreen } from "./screens/message";
import { Overview, Topics } from "./screens/overview";
import { Publish } from "./screens/publish";
import { ScheduleScreen, Schedules } from "./screens/schedules";
import { TopicScreen } from "./screens/topic";
import { Store, useStore } from "./store";
import "./style.css";
import { isDark, startTheme, switchTheme, theme } from "./theme";
import type { Instance, Page } from "./types";

const NAV: [string, string, string][] = [
  ["", "Overview", "overview"],
  ["topics", "Topics", "topics"],
  ["dead", "Dead letters", "dead"],
  ["callbacks", "Callbacks", "callbacks"],
  ["schedules", "Schedules", "schedules"],
  ["publish", "Publish", "publish"],
  ["instances", "Instances", "instances"],
];

const helping = new Store(false);

function Screen() {
  const { path, query } = usePlace();
  const [first = "", second] = path;
  if (first === "") return <Overview />;
  if (first === "topics") return second === undefined ? <Topics /> : <TopicScreen key={second} name={second} query={query} />;
  if (first === "messages" && second) return <MessageScreen key={second} id={second} />;
  if (first === "dead") return <Dead />;
  if (first === "callbacks") return <Callbacks query={query} />;
  if (first === "schedules") return second === undefined ? <Schedules /> : <ScheduleScreen key={second} name={second} />;
  if (first === "publish") return <Publish />;
  if (first === "instances") return <Instances />;
  return (
    <Empty title="There is no such page">
      <a href={to([])}>To the overview</a>
    </Empty>
  );
}

function Banner({ kind, children }: { kind: string; children: ComponentChildren }) {
  return (
    <div class={`banner ${kind}`} role={kind === "bad" ? "alert" : undefined}>
      <Icon name={kind === "info" ? "lock" : "warning"} />
      <span>{children}</span>
    </div>
  );
}

function Banners() {
  const wrong = useStore(trouble);
  const me = useStore(session);
  const { data, problem } = useQuery<{ warnings?: string[] }>("getReadiness");
  const instances = useQuery<Page<Instance>>("listInstances", {}, 10);
  useEffect(() => {
    if (data && !problem) trouble.set(null);
  }, [data, problem]);
  const scopes = me?.scopes ?? [];
  const isReader = scopes.length > 0 && scopes.every((scope) => scope.startsWith("read"));
  const versions = new Set(instances.data?.items.map(({ version }) => version));
  // It has the cause.
  const bad = problem?.status === 503 ? `dueq is not ready: ${problem.message}.` : wrong;
  return (
    <>
      {bad && (
        <Banner kind="bad">
          {bad} {wrong && seen.value !== null && `The numbers are as of ${zonedClock(seen.value)}.`}
        </Banner>
      )}
      {data?.warnings?.map((warning) => (
        <Banner key={warning} kind="warn">
          <Text>{warning}</Text>
        </Banner>
      ))}
      {versions.size > 1 && <Banner kind="warn">Instances run different versions: {[...versions].sort().join(", ")}</Banner>}
      {isReader && <Banner kind="info">This key may only read. Actions are switched off.</Banner>}
    </>
  );
}

function Shell() {
  const me = useStore(session);
  const isPaused = useStore(paused);
  const times = useStore(zone);
  useStore(theme);
  const { path } = usePlace();
  const here = path[0] === "messages" ? "topics" : (path[0] ?? "");
  const main = useRef<HTMLElement>(null);
  const nav = useInSight(here, "[aria-current]");
  const at = path.join("/");
  const before = useRef(at);
  useEffect(() => {
    document.title = `${path[1] ? `${plainTitle(path[1])} · ` : ""}${NAV.find(([id]) => id === here)?.[1] ?? "dueq"} · dueq`;
    if (before.current === at) return;
    before.current = at;
    // A new page begins at its top, for eyes and for screen readers.
    main.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [at]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        Skip to content
      </a>
      <aside>
        <a class="brand" href={to([])} aria-label="dueq, overview">
          <svg width="24" height="24" viewBox="0 0 32 32" aria-hidden="true">
            <rect width="32" height="32" rx="8" class="brand-back" />
            <path d="M16 7a9 9 0 1 0 9 9M16 11v5.5l3.5 2.5" class="brand-line" />
            <circle cx="23" cy="9" r="2.2" class="brand-dot" />
          </svg>
          <span>dueq</span>
        </a>
        <button type="button" class="button open-jump" aria-label="Jump to" aria-keyshortcuts="/ Control+K" onClick={jump}>
          <Icon name="search" size={16} />
          <span>Jump to…</span>
          <kbd>/</kbd>
        </button>
        <nav ref={nav} aria-label="Screens">
          {NAV.map(([id, name, icon]) => (
            <a key={id} href={to(id ? [id] : [])} aria-current={here === id ? "page" : undefined}>
              <Icon name={icon} />
              <span>{name}</span>
            </a>
          ))}
        </nav>
        <div class="tools">
          <Button kind="ghost" icon={isPaused ? "play" : "pause"} label={isPaused ? "Continue refreshing" : "Stop refreshing"} onClick={() => (paused.set(!isPaused), isPaused && refresh())} />
          <Button kind="ghost" icon={isDark() ? "sun" : "moon"} label={isDark() ? "Light theme" : "Dark theme"} onClick={switchTheme} />
          <Button kind="ghost" icon="help" label="Keyboard and help" onClick={() => helping.set(true)} />
          <button type="button" class="button ghost small" title={times === "utc" ? "UTC" : local} aria-label={`Times are ${times === "utc" ? "UTC" : `local, ${local}`}; switch`} onClick={() => zone.set(times === "utc" ? "local" : "utc")}>
            {times === "utc" ? "UTC" : "Local"}
          </button>
          {me && me.name !== "anonymous" && (
            <span class="who">
              <span title={me.scopes.join(" ")}>
                <Text>{me.name}</Text>
              </span>
              <Button kind="ghost" icon="logout" label="Log out" onClick={() => void logOut().then(forget)} />
            </span>
          )}
        </div>
      </aside>
      <main id="main" ref={main} tabIndex={-1}>
        <Banners />
        {isPaused && (
          <div class="banner quiet">
            <Icon name="pause" />
            <span>
              Refreshing is stopped. Press <kbd>R</kbd> to continue.
            </span>
          </div>
        )}
        <Screen />
      </main>
      <Dialog />
      <Jump />
      <Help />
      <Notice />
    </>
  );
}

function Help() {
  const open = useStore(helping);
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open) dialog.current?.showModal();
  }, [open]);
  if (!open) return null;
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={() => helping.set(false)}>
      <h2 id="help-title">Keyboard</h2>
      <dl class="keys">
        {KEYS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              {keys.split(/\s+/).map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p>
        <a href={`${base}/guide`}>Guide</a> · <a href={`${base}/docs/`}>API</a> · <a href={`${base}/metrics`}>Metrics</a>
      </p>
      <footer>
        <Button onClick={() => dialog.current?.close()}>Close</Button>
      </footer>
    </dialog>
  );
}

function Login() {
  const [key, setKey] = useState("");
  const [refused, setRefused] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!key || busy) return;
    setBusy(true);
    setRefused("");
    try {
      await logIn(key);
      refresh();
    } catch (error) {
      setRefused(error instanceof Problem ? error.message : String(error));
    }
    setBusy(false);
  };
  return (
    <main class="login">
      <form id="log-in" onSubmit={submit}>
        <svg width="40" height="40" viewBox="0 0 32 32" aria-hidden="true">
          <rect width="32" height="32" rx="8" class="brand-back" />
          <path d="M16 7a9 9 0 1 0 9 9M16 11v5.5l3.5 2.5" class="brand-line" />
          <circle cx="23" cy="9" r="2.2" class="brand-dot" />
        </svg>
        <h1>Log in to dueq</h1>
        <Field label="API key" hint="It is exchanged for a session of 12 hours and kept nowhere.">
          <input type="password" value={key} autocomplete="off" required autofocus onInput={(event) => setKey(event.currentTarget.value)} />
        </Field>
        {refused && (
          <p class="error" role="alert">
            {refused}
          </p>
        )}
        <Button type="submit" kind="primary" busy={busy}>
          Log in
        </Button>
      </form>
    </main>
  );
}

function App() {
  const me = useStore(session);
  const wrong = useStore(trouble);
  useEffect(() => {
    if (me !== undefined) return;
    const timer = setInterval(() => void meet(), 2000);
    return () => clearInterval(timer);
  }, [me]);
  if (me === null) return <Login />;
  if (me === undefined) return wrong ? <main class="login"><p class="banner bad" role="alert">{wrong}</p></main> : null;
  return <Shell />;
}

startTheme();
startPolling();
startKeys({ theme: switchTheme, help: () => helping.set(true), jump });
void meet();
place.follow(() => document.querySelectorAll<HTMLElement>("[popover]:popover-open").forEach((open) => open.hidePopover()));
render(<App />, document.getElementById("app")!);
