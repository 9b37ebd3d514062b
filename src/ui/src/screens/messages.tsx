// The messages of a state: search, selection, and what can be done to those selected or to all that match.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { attempt, delayField, matches, outcome, sameAs, toAll, toSome } from "../actions";
import { call, hidesPayloads, Problem, send } from "../api";
import { ask } from "../dialog";
import { children, member, node } from "../exact";
import { bytes, count, many, parseDuration, plain, shortId } from "../format";
import { Button, Card, Empty, Menu, Name, Num, Search, Skeleton, Table, Text, Time, Unable, say, stateName, type Column } from "../parts";
import { refresh, useQuery } from "../poll";
import { setQuery, to } from "../router";
import { useStill } from "../still";
import type { Message, Page, State, Topic } from "../types";

const PAGE = 50;
/** Characters of a payload in the list. */
const PREVIEW = 80;
/** Characters of an answer with payloads beyond which the list goes on without them. */
const MOST = 500_000;
/** Messages that a search looks at by itself after a page on which it found nothing. */
const FURTHER = 5000;
type Act = "redrive" | "delete" | "run";
const DONE: Record<Act, string> = { redrive: "redriven", delete: "deleted", run: "due now" };
const VERB: Record<Act, string> = { redrive: "Redrive", delete: "Delete", run: "Run now" };

/** The user's place in the results of a search. */
interface Place {
  q: string;
  /** The cursors of the pages up to this one. */
  pages: (string | undefined)[];
  /** Messages on pages without a hit that were passed over on the way to this one. */
  seen: number;
  /** Those of them after the first such page, once there is one. */
  further?: number;
  stopped: boolean;
}

function start(q: string, pages: (string | undefined)[] = [undefined]): Place {
  return { q, pages, seen: 0, stopped: false };
}

export function Messages({ topic, state, q, only }: { topic: Topic; state: State; q: string; only?: boolean }) {
  const { name } = topic;
  const [known, setPlace] = useState(() => start(q));
  const place = known.q === q ? known : start(q);
  const { pages } = place;
  const cursor = pages.at(-1);
  const [previews, setPreviews] = useState(!hidesPayloads);
  const { data, text, problem } = useQuery<Page<Message>>("listMessages", { path: { topic: name }, query: { state, limit: PAGE, cursor, q, payload: previews || undefined } });
  useEffect(() => {
    if (text && text.length > MOST) setPreviews(false);
  }, [text]);
  const [chosen, setChosen] = useState<Set<string>>(new Set());
  const [all, setAll] = useState(false);
  const [result, setResult] = useState("");
  const last = useRef("");
  const listed = useMemo(() => previewed(data?.items ?? [], previews ? text : undefined), [text]);
  const [items, still] = useStill(listed, ({ id }) => id, `${cursor} ${q}`, all || chosen.size > 0);
  const turn = (to: (string | undefined)[]) => setPlace(start(q, to));
  const further = place.further === undefined ? 0 : place.further + (data?.scanned ?? 0);
  const next = q && data && items.length === 0 && further < FURTHER && !place.stopped ? data.next_cursor : undefined;
  const searches = next !== undefined || (place.further !== undefined && !place.stopped && !data && !problem);
  const seen = place.seen + (data?.scanned ?? 0);
  useEffect(() => {
    if (next !== undefined) setPlace({ q, pages: [...pages.slice(0, -1), next], seen, further, stopped: false });
  }, [next]);
  const picked = all ? items.map(({ id }) => id) : [...chosen];
  const clear = () => (setChosen(new Set()), setAll(false));
  // What is selected is on the list.
  useEffect(clear, [state, q]);
  const search = (text: string) => {
    turn([undefined]);
    clear();
    setQuery({ q: text || undefined, state });
  };
  const select = (some: Message[], on: boolean) => {
    const next = new Set(chosen);
    for (const { id } of some) on ? next.add(id) : next.delete(id);
    setAll(false);
    setChosen(next);
  };
  const toggle = (at: number, on: boolean, range: boolean) => {
    const before = range ? items.findIndex(({ id }) => id === last.current) : -1;
    const from = before < 0 ? at : before;
    select(items.slice(Math.min(from, at), Math.max(from, at) + 1), on);
    last.current = items[at]!.id;
  };
  const match = { topic: name, state, q };
  const whole = q ? undefined : topic.counts[state];
  const act = (what: Act, ids = picked, everything = all) => void askTo(what, ids, everything);
  const askTo = async (what: Act, ids: string[], everything: boolean) => {
    let expected = everything ? whole : ids.length;
    if (everything && expected === undefined) {
      try {
        expected = await matches(what, match);
      } catch (error) {
        return say((error as Error).message, true);
      }
    }
    const number = expected ?? 0;
    ask({
      title: `${VERB[what]}: ${many(number, "message")} of ${name}`,
      body: what === "delete" ? "Deleted messages are gone for good." : what === "redrive" ? "They become ready with fresh attempts." : "They become ready at once.",
      action: `${VERB[what]} ${many(number, "message")}`,
      danger: what === "delete",
      fields: everything && what !== "delete" ? [{ name: "spread", label: "Spread over (optional)", hint: "10m makes them due evenly over ten minutes", check: (value) => (value && parseDuration(value) === null ? "Not a duration" : null) }] : [],
      run: async ({ spread }) => {
        if (everything) {
          // What is done must be what was shown.
          const present = await matches(what, match);
          if (what === "delete" && present !== undefined) sameAs(present, number);
          const done = await toAll(what, match, (so) => setResult(`${count(so)} of ${count(number)} ${DONE[what]}…`), { spread_ms: spread ? parseDuration(spread)! : undefined });
          setResult(`${many(done, "message")} ${DONE[what]}`);
        } else {
          setResult(outcome(DONE[what], await toSome(what, ids)));
        }
        clear();
        refresh();
      },
    });
  };
  const reschedule = (ids = picked) =>
    ask({
      title: `Reschedule ${many(ids.length, "message")} of ${name}`,
      action: "Reschedule",
      fields: [delayField],
      run: async ({ delay }) => {
        const refused = new Map<string, number>();
        let done = 0;
        for (const id of ids) {
          try {
            await call("updateMessage", { path: { id }, body: { delay_ms: parseDuration(delay!) } });
            done++;
          } catch (error) {
            if (!(error instanceof Problem) || error.status === 0) throw error;
            refused.set(error.code, (refused.get(error.code) ?? 0) + 1);
          }
        }
        setResult(outcome("rescheduled", { done, refused }));
        clear();
        refresh();
      },
    });
  const canRun = state === "delayed" || state === "blocked";
  const canMove = state === "delayed" || state === "ready";
  const operate: ["operate", string] = ["operate", name];
  const none = picked.length === 0 && "Select messages first";
  const everyone = items.every(({ id }) => all || chosen.has(id));
  const pushed = Boolean(topic.config.push);
  const hasErrors = items.some(({ last_error }) => last_error);
  const hasPriorities = items.some(({ priority }) => priority !== items[0]!.priority);
  // Where there is little room, a URL is worth more.
  const preview = pushed ? "wide extra" : "wide";
  const columns: Column[] = [
    [<Check label="Select all that are shown" checked={everyone} indeterminate={!everyone && items.some(({ id }) => chosen.has(id))} toggle={(on) => select(items, on)} />, "check"],
    "Message",
    "Key",
    ...(pushed ? [["URL", "wide"] as Column, ["Status", "num"] as Column] : []),
    [whenOf(state, pushed), "num"],
    ["Attempt", "num"],
    ...(hasPriorities ? [["Priority", "num"] as Column] : []),
    ...(previews ? [["Payload", preview] as Column] : []),
    ...(hasErrors ? [["Last error", "wide"] as Column] : []),
    ...(state === "dead" || canRun ? ["!Actions"] : []),
  ];
  return (
    <Card flush>
      <div class="toolbar">
        <Search value={q} label={`Search ${state} messages`} placeholder={'words  error:"timeout"  key:cart/*  -status:404'} search={search} />
        <Menu label="Actions on the list" icon="download" actions={[{ label: "Export NDJSON", icon: "download", needs: ["read", name], run: () => void exportAll(name, state, q, setResult) }]} />
      </div>
      {(picked.length > 0 || all) && (
        <div class="toolbar selection" role="group" aria-label="Selection">
          <b>{all ? (whole === undefined ? "All that match" : `All ${count(whole)}`) : `${count(picked.length)} selected`}</b>
          {!all && everyone && (data?.next_cursor || pages.length > 1) && !only && (
            <Button kind="link" onClick={() => setAll(true)}>{whole === undefined ? "Select all that match" : `Select all ${count(whole)}`}</Button>
          )}
          {canRun && <Button icon="play" needs={operate} unless={none} onClick={() => act("run")}>Run now</Button>}
          {canMove && <Button icon="schedules" needs={operate} unless={none || (all && "Select rows to reschedule")} onClick={() => reschedule()}>Reschedule</Button>}
          {state === "dead" && <Button icon="redrive" needs={operate} unless={none} onClick={() => act("redrive")}>Redrive</Button>}
          <Button icon="trash" kind="danger" needs={operate} unless={none || (state === "leased" && "Leased messages stay until their lease is over") || (all && state === "acked" && "Retention removes them")} onClick={() => act("delete")}>Delete</Button>
          <Button kind="ghost" onClick={clear}>Clear</Button>
        </div>
      )}
      {result && (
        <p class="result" role="status">
          <Text>{result}</Text> <Button kind="ghost" icon="close" label="Dismiss the result" onClick={() => setResult("")} />
        </p>
      )}
      {problem && q && problem.status === 422 ? (
        <Empty icon="search" title="That search cannot be read">
          <p><Text>{problem.message}</Text></p>
          <p>Terms are words, <code>error:"…"</code> <code>key:cart/*</code> <code>host:example.com</code> <code>status:5xx</code> <code>header.name:value</code> <code>payload:text</code> <code>attempts:&gt;3</code> <code>at:&gt;2026-11-20</code>, and <code>-term</code> and <code>OR</code></p>
        </Empty>
      ) : searches ? (
        <Empty icon="search" title="Searching…">
          <p>Searched {many(seen, "message")} so far.</p>
          <Button onClick={() => setPlace({ ...place, stopped: true })}>Stop</Button>
        </Empty>
      ) : !data ? (
        problem ? <Unable problem={problem} what="The messages" /> : <Skeleton rows={6} />
      ) : items.length === 0 ? (
        <Nothing state={state} q={q} seen={seen} more={data.next_cursor === undefined ? undefined : () => turn([...pages.slice(0, -1), data.next_cursor])} search={search} />
      ) : (
        <Table label={`${stateName(state)} messages`} head={columns} still={still}>
          {items.map((message, at) => (
            <tr key={message.id} data-row="" class={all || chosen.has(message.id) ? "chosen" : ""}>
              <td class="check"><Check label={`Select ${shortId(message.id)}`} checked={all || chosen.has(message.id)} toggle={(on, range) => toggle(at, on, range)} /></td>
              <th scope="row"><a data-open="" class="mono" href={to(["messages", message.id])} title={message.id}>{shortId(message.id)}</a></th>
              <td>{message.key ? <Name>{message.key}</Name> : <span class="nil">–</span>}</td>
              {pushed && <td class="wide">{message.url && <Name>{message.url}</Name>}</td>}
              {pushed && <td class="num">{message.last_status ?? <span class="nil">–</span>}</td>}
              <td class="num">{instantOf(message) ? <Time at={instantOf(message)!} /> : "–"}</td>
              <td class="num">{message.attempts} <span class="nil">/ {message.attempts + message.attempts_left}</span></td>
              {hasPriorities && <td class="num"><Num value={message.priority} /></td>}
              {previews && <td class={`${preview} mono`}>{message.preview && <Name>{message.preview}</Name>}</td>}
              {hasErrors && <td class="wide error-text" title={message.last_error && plain(message.last_error)}>{message.last_error && <Text>{message.last_error}</Text>}</td>}
              {state === "dead" && (
                <td class="end"><Button kind="ghost" icon="redrive" label="Redrive" hotkey="e" needs={operate} onClick={() => void attempt("1 message redriven", () => call("redriveMessage", { path: { id: message.id } }))} /></td>
              )}
              {canRun && (
                <td class="end"><Button kind="ghost" icon="play" label="Run now" needs={operate} onClick={() => void attempt("The message is due now", () => call("updateMessage", { path: { id: message.id }, body: { delay_ms: 0 } }))} /></td>
              )}
            </tr>
          ))}
        </Table>
      )}
      {!searches && (pages.length > 1 || data?.next_cursor || data?.scanned !== undefined) && (
        <footer>
          <Button unless={pages.length === 1 && "This is the first page"} onClick={() => turn(pages.slice(0, -1))}>Back</Button>
          <Button unless={!data?.next_cursor && "This is the last page"} onClick={() => turn([...pages, data!.next_cursor])}>Next</Button>
          <span class="hint">
            Page {pages.length}
            {data?.scanned !== undefined && ` · ${many(seen, "message")} looked at`}
          </span>
        </footer>
      )}
    </Card>
  );
}

/** `more` searches on. */
function Nothing({ state, q, seen, more, search }: { state: State; q: string; seen: number; more?: () => void; search: (text: string) => void }) {
  if (q) {
    return (
      <Empty icon="search" title={more ? "Nothing found so far" : "Nothing matches"}>
        <p>Searched {many(seen, "message")}{more && " so far"}.</p>
        {more ? <Button onClick={more}>Search on</Button> : <Button onClick={() => search("")}>Clear the search</Button>}
      </Empty>
    );
  }
  const words: Record<State, [string, string]> = {
    delayed: ["Nothing waits", "Messages that are published with a delay wait here."],
    ready: ["Nothing is ready", "Consumers keep up, or nothing has fallen due."],
    leased: ["Nothing is leased", "No consumer holds a message at present."],
    blocked: ["Nothing is blocked", "Messages of a group wait here for those before them."],
    dead: ["Nothing is dead", "Messages whose attempts are used up would be here."],
    acked: ["Nothing is kept", "Acknowledged messages stay for retention.acked_ms, which is 0 by default."],
  };
  const [title, text] = words[state] ?? [`Nothing is ${state}`, ""];
  return <Empty icon={state === "dead" ? "check" : undefined} title={title}>{text}</Empty>;
}

function Check({ label, checked, indeterminate, toggle }: { label: string; checked: boolean; indeterminate?: boolean; toggle: (on: boolean, range: boolean) => void }) {
  return (
    <label>
      <input type="checkbox" checked={checked} indeterminate={indeterminate} aria-label={label} onClick={(event) => toggle(event.currentTarget.checked, event.shiftKey)} />
    </label>
  );
}

function whenOf(state: State, pushed: boolean): string {
  return { delayed: pushed ? "Next try" : "Due", ready: "Due", leased: "Lease ends", dead: "Died", acked: "Published", blocked: "Due" }[state] ?? "Published";
}

function instantOf(message: Message): string | undefined {
  return message.due_at ?? message.lease_expires_at ?? message.died_at ?? message.published_at;
}

/** The items of an answer as they are spelled, since numbers may be more exact than JavaScript's. */
function itemsOf(text: string): string[] {
  const items = children(text, node(text, 0)).find(({ key }) => key === '"items"');
  return items ? children(text, items.value).map(({ value }) => text.slice(value.start, value.end)) : [];
}

type Listed = Message & { preview?: string };

/** Messages with the beginnings of their payloads, of bytes what they are. `text`: the answer, if it has payloads. */
function previewed(items: Message[], text?: string): Listed[] {
  if (text === undefined) return items;
  const spelled = itemsOf(text);
  return items.map((message, at) => {
    const { payload_base64, content_type } = message;
    const whole = payload_base64 === undefined ? member(spelled[at]!, "payload") : `${content_type}, ${bytes(atob(payload_base64).length)}`;
    const preview = whole?.replace(/\s+/g, " ");
    return { ...message, preview: preview && preview.length > PREVIEW ? `${preview.slice(0, PREVIEW)}…` : preview };
  });
}

/** All messages of the list, a line each, with their payloads as they were published unless those are hidden. */
async function exportAll(topic: string, state: State, q: string, report: (text: string) => void): Promise<void> {
  const lines: string[] = [];
  let cursor: string | undefined;
  try {
    do {
      const answer = await send("listMessages", { path: { topic }, query: { state, q, payload: !hidesPayloads, limit: 200, cursor } });
      const text = await answer.text();
      const page = JSON.parse(text) as Page<Message>;
      // Outside of strings a line break is only space.
      for (const item of itemsOf(text)) lines.push(`${item.replace(/[\r\n]+/g, " ")}\n`);
      cursor = page.next_cursor;
      report(`${many(lines.length, "message")} read…`);
    } while (cursor && lines.length < 100_000);
  } catch (error) {
    return say((error as Error).message, true);
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(lines, { type: "application/x-ndjson" }));
  link.download = `${topic}-${state}.ndjson`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  report(`${many(lines.length, "message")} exported${cursor ? ", the first 100,000" : ""}`);
}
