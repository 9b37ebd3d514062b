// A message: its state, its history, its content, and the actions on it.

import type { ComponentChildren } from "preact";
import { attempt, delayField, setGroupPaused, setPaused } from "../actions";
import { call, hidesPayloads } from "../api";
import { ask } from "../dialog";
import { duration, exact, parseDuration } from "../format";
import { Button, Card, copy, Empty, Menu, Skeleton, StateMark, Text, Time, Unable, say } from "../parts";
import { HIDDEN, Pairs, Payload, usePayload, type Content } from "../payload";
import { refresh, useQuery } from "../poll";
import { go, to } from "../router";
import { snippets, type Draft } from "../snippets";
import type { Completion, Message, MessageEvent, WaitingFor } from "../types";
import { draft } from "./publish";

export function MessageScreen({ id }: { id: string }) {
  const { data: message, problem } = useQuery<Message>("getMessage", { path: { id } });
  const version = String(message?.events?.filter(({ kind }) => kind === "updated").at(-1)?.at ?? "");
  // Bytes come with their type; without one it is JSON.
  const payload = usePayload(id, message && (message.content_type ?? "application/json"), version);
  if (!message) {
    return (
      <>
        <header class="head"><div><p class="crumbs"><a href={to(["topics"])}>Topics</a></p><h1 class="mono id">{id}</h1></div></header>
        <Card>
          {!problem ? <Skeleton rows={8} /> : problem.status === 404 ? (
            <Empty icon="check" title="This message is not there">It was acknowledged, deleted, purged or expired, or never existed.</Empty>
          ) : <Unable problem={problem} what="The message" />}
        </Card>
      </>
    );
  }
  const operate: ["operate", string] = ["operate", message.topic];
  const { state, topic } = message;
  const unreadable = hidesPayloads ? HIDDEN : !payload.content?.isJson && "Its payload is not JSON";
  const moves = state === "delayed" || state === "ready" || state === "blocked";
  return (
    <>
      <header class="head">
        <div>
          <p class="crumbs"><a href={to(["topics"])}>Topics</a> <span aria-hidden="true">/</span> <a href={to(["topics", topic], { state })}>{topic}</a></p>
          <h1 class="mono id">{id} <Button kind="ghost" icon="copy" label="Copy the id" onClick={() => void copy(id, "Id")} /></h1>
        </div>
        <div class="actions">
          {state === "dead" && (
            <Button kind="primary" icon="redrive" hotkey="e" needs={operate} onClick={() => void attempt("The message is redriven", () => call("redriveMessage", { path: { id } }))}>Redrive</Button>
          )}
          {state === "delayed" && runs(message) && (
            <Button kind="primary" icon="play" needs={operate} onClick={() => void attempt("The message is due now", () => call("updateMessage", { path: { id }, body: { delay_ms: 0 } }))}>Run now</Button>
          )}
          {moves && <Button icon="schedules" needs={operate} onClick={() => reschedule(id)}>Reschedule</Button>}
          <Menu
            label="More actions"
            actions={[
              { label: "Edit…", icon: "edit", needs: operate, unless: (state === "leased" && "A consumer has it") || (state === "acked" && "It is acknowledged") || unreadable, run: () => edit(message, payload.content!) },
              { label: "Duplicate…", icon: "copy", needs: ["publish", topic], unless: unreadable, run: () => duplicate(message, payload.content!) },
              { label: "As curl…", icon: "publish", unless: unreadable, run: () => asCurl(message, payload.content!) },
              { label: "Delete…", icon: "trash", danger: true, needs: operate, run: () => remove(message) },
            ]}
          />
        </div>
      </header>
      <Standing message={message} />
      {message.waiting_for && <Waiting message={message} waits={message.waiting_for} />}
      <div class="columns">
        <div>
          <Payload id={id} content={payload.content} problem={payload.problem} />
          <Card title="Headers"><Pairs of={message.headers ?? {}} empty="None were published with it." /></Card>
        </div>
        <div>
          <Timeline message={message} />
          <Policy message={message} />
        </div>
      </div>
    </>
  );
}

function Standing({ message }: { message: Message }) {
  const { state, attempts, attempts_left, due_at, lease_expires_at, died_at, last_error, key, group, priority } = message;
  return (
    <>
      <dl class="facts">
        <div><dt>State</dt><dd><StateMark state={state} /></dd></div>
        {due_at && <div><dt>Due</dt><dd><Time at={due_at} /></dd></div>}
        {lease_expires_at && <div><dt>Lease ends</dt><dd><Time at={lease_expires_at} /></dd></div>}
        {died_at && <div><dt>Died</dt><dd><Time at={died_at} /></dd></div>}
        <div><dt>Attempts</dt><dd>{attempts} of {attempts + attempts_left}</dd></div>
        <div><dt>Priority</dt><dd>{priority}</dd></div>
        {key && <div><dt>Key</dt><dd><Text>{key}</Text></dd></div>}
        {group && <div><dt>Group</dt><dd><Text>{group}</Text></dd></div>}
        <div><dt>Published</dt><dd><Time at={message.published_at} /></dd></div>
        {message.on_done && <div><dt>When done</dt><dd><Target of={message.on_done} /></dd></div>}
        {message.on_dead && <div><dt>When dead</dt><dd><Target of={message.on_dead} /></dd></div>}
        {message.published_by && <div><dt>Published by</dt><dd><Text>{message.published_by}</Text></dd></div>}
      </dl>
      {last_error && <p class="last-error"><b>Last error</b> <Text>{last_error}</Text></p>}
      {message.result !== undefined && (
        <details open>
          <summary>Result</summary>
          {hidesPayloads
            ? <p class="hint">{HIDDEN}.</p>
            : <pre class="raw" tabIndex={0} aria-label="The result"><Text>{JSON.stringify(message.result, null, 2)}</Text></pre>}
        </details>
      )}
    </>
  );
}

/** Where the end of a message is published. */
function Target({ of: { url, topic } }: { of: Completion }) {
  return topic ? <a href={to(["topics", topic])}><Text>{topic}</Text></a> : <Text>{url ?? ""}</Text>;
}

/** Would it be worked on if it were due? */
function runs({ waiting_for }: Message): boolean {
  return !waiting_for || ["due", "backoff"].includes(waiting_for.reason);
}

const PLACES: Record<string, string> = { host: "to its host", address: "to its address", total: "of its topic" };

/** What it waits for in words, with the button that ends that, where there is one. */
function Waiting({ message: { topic, group, published_by }, waits }: { message: Message; waits: WaitingFor }) {
  const { reason, until, error, host, message_id, ahead = 0, max_leased, place } = waits;
  const at = until && <Time at={until} />;
  const resume = (needs: ["operate", string?], run: () => void) => <Button icon="play" needs={needs} onClick={run}>Resume</Button>;
  const words: Record<string, ComponentChildren> = {
    lease: <>A consumer has it until {at} at the latest.</>,
    topic_paused: <>Its topic is paused. {resume(["operate", topic], () => setPaused(topic, false))}</>,
    backoff: <>It failed, and is tried again {at}.{error && <> <Text>{error}</Text></>}</>,
    due: <>It is due {at}.</>,
    host_paused: <>Calls to <Text>{host!}</Text> are paused. {resume(["operate"], () => void attempt(`${host} is called again`, () => call("resumeCallbackHost", { path: { host: host! } })))}</>,
    host_failing: <>Calls to <Text>{host!}</Text> fail. It is probed {at}. {resume(["operate"], () => void attempt(`${host} is called again`, () => call("resumeCallbackHost", { path: { host: host! } })))}</>,
    group_paused: <>Its group is paused. {resume(["operate", topic], () => setGroupPaused(topic, { group: group!, published_by }, false))}</>,
    group: <>{ahead === 1 ? "One message of its group comes" : `${ahead} messages of its group come`} first, before all <a class="mono" href={to(["messages", message_id!])}>{message_id}</a>.</>,
    limit: <>As many messages are leased as its topic allows: {max_leased}.</>,
    rate: <>The rate is used up until {at}.</>,
    no_place: <>As many calls {PLACES[place!] ?? place} are under way as may.</>,
    consumer: <>Nothing holds it up: it waits for a consumer.</>,
  };
  return <p class="waits"><b>Waiting for</b> {words[reason] ?? reason}</p>;
}

const KINDS: Record<string, [string, string]> = {
  published: ["○", "Published"],
  granted: ["◐", "Leased"],
  nacked: ["✕", "Failed"],
  released: ["↩", "Given back"],
  lease_expired: ["⌛", "Lease ran out"],
  updated: ["✎", "Changed"],
  dead: ["✕", "Dead"],
  redriven: ["↻", "Redriven"],
  called: ["→", "Called"],
  acked: ["✓", "Acknowledged"],
};

function Timeline({ message }: { message: Message }) {
  const events = message.events ?? [];
  const cut = events.length >= 20 && events[0]?.kind !== "published";
  return (
    <Card title="Timeline">
      <ol class="timeline">
        {cut && <li class="more"><span class="hint">Earlier events are not kept.</span></li>}
        {events.map((event, at) => (
          <Event key={`${event.at}${at}`} event={event} before={events[at - 1]} />
        ))}
        {message.due_at && message.state === "delayed" && <li class="coming"><span class="sign" aria-hidden="true">◷</span><div><b>Falls due</b> <Time at={message.due_at} /><span class="hint exact">{exact(message.due_at)}</span></div></li>}
        {message.lease_expires_at && <li class="coming"><span class="sign" aria-hidden="true">⌛</span><div><b>Lease ends</b> <Time at={message.lease_expires_at} /><span class="hint exact">{exact(message.lease_expires_at)}</span></div></li>}
        {message.expires_at && <li class="coming"><span class="sign" aria-hidden="true">◌</span><div><b>Expires</b> <Time at={message.expires_at} /></div></li>}
      </ol>
    </Card>
  );
}

function Event({ event, before }: { event: MessageEvent; before?: MessageEvent }) {
  const [sign, name] = KINDS[event.kind] ?? ["•", event.kind];
  const gap = before ? Date.parse(event.at) - Date.parse(before.at) : undefined;
  const bad = ["nacked", "dead", "lease_expired"].includes(event.kind) || event.error !== undefined || (event.status ?? 0) >= 400;
  return (
    <li class={bad ? "bad" : ""}>
      <span class="sign" aria-hidden="true">{sign}</span>
      <div>
        <b>{name}</b>
        {event.attempt !== undefined && <span class="hint"> attempt {event.attempt}</span>}
        {event.status !== undefined && <span class="badge">{event.status}</span>}
        {event.duration_ms !== undefined && <span class="hint"> in {duration(event.duration_ms)}</span>}
        <span class="hint exact">
          {exact(event.at)}
          {event.estimated && " (about)"}
          {gap !== undefined && <span class="gap">+{duration(gap)}</span>}
        </span>
        {(event.reason ?? event.error) && <p class="reason"><Text>{(event.reason ?? event.error)!}</Text></p>}
        {event.answer && (
          <details>
            <summary>Answer</summary>
            <pre class="raw" tabIndex={0} aria-label="The answer"><Text>{event.answer}</Text></pre>
          </details>
        )}
      </div>
    </li>
  );
}

function Policy({ message }: { message: Message }) {
  const { max_attempts, backoff, ttl_ms, callback } = message;
  const own: Record<string, string> = {};
  if (max_attempts !== undefined) own.max_attempts = String(max_attempts);
  if (ttl_ms !== undefined) own.ttl_ms = `${ttl_ms} (${duration(ttl_ms)})`;
  if (backoff !== undefined) own.backoff = JSON.stringify(backoff);
  if (callback) own.callback = `${callback.method ?? "POST"} ${callback.url}`;
  return <Card title="Own policy"><Pairs of={own} empty="The topic's settings apply." /></Card>;
}

function reschedule(id: string): void {
  ask({
    title: "Reschedule the message",
    action: "Reschedule",
    fields: [delayField],
    run: async ({ delay }) => {
      await call("updateMessage", { path: { id }, body: { delay_ms: parseDuration(delay!) } });
      say("The message is rescheduled");
      refresh();
    },
  });
}

function edit({ id, state }: Message, content: Content): void {
  ask({
    title: state === "dead" ? "Mend and redrive" : "Edit the message",
    wide: true,
    body: state === "dead" ? "The new payload is stored, and the message gets fresh attempts." : "The message keeps its id, key and due time.",
    action: state === "dead" ? "Save and redrive" : "Save",
    fields: [{ name: "payload", label: "Payload, JSON", type: "area", value: content.text ?? "", check: jsonProblem }],
    run: async ({ payload }) => {
      await call("updateMessage", { path: { id }, body: `{"payload": ${payload}}` });
      if (state === "dead") await call("redriveMessage", { path: { id } });
      say(state === "dead" ? "The message is mended and redriven" : "The message is changed");
      refresh();
    },
  });
}

export function jsonProblem(text: string): string | null {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return (error as Error).message.split("\n")[0]!.slice(0, 120);
  }
}

function draftOf(message: Message, content: Content): Draft {
  const { topic, key, priority, headers = {}, callback } = message;
  const isCallback = topic === "_callbacks";
  return { kind: isCallback ? "callback" : "topic", topic: isCallback ? "" : topic, url: callback?.url ?? "", payload: content.text ?? "", key, priority, headers };
}

function duplicate(message: Message, content: Content): void {
  draft.set({ ...draftOf(message, content), key: undefined });
  go(["publish"]);
}

function asCurl(message: Message, content: Content): void {
  const [, line] = snippets(draftOf(message, content))[0]!;
  ask({
    title: "Publish it again with curl",
    wide: true,
    body: <pre class="raw" tabIndex={0} aria-label="The curl line"><Text>{line}</Text></pre>,
    action: "Copy",
    run: () => copy(line, "The line"),
  });
}

function remove({ id, state, topic }: Message): void {
  const leased = state === "leased";
  ask({
    title: "Delete the message",
    body: leased ? `A consumer of ${topic} holds it. Its work will count for nothing: its ack gets 404.` : `It is removed from ${topic} for good.`,
    action: leased ? "Delete it all the same" : "Delete",
    danger: true,
    run: async () => {
      await call("deleteMessage", { path: { id }, query: { force: leased ? true : undefined } });
      say("The message is deleted");
      refresh();
    },
  });
}
