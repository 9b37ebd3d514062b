// The messages of a state: search, selection, and what can be done to those selected or to all that match.

import { useEffect, useRef, useState } from "preact/hooks";
import { attempt, delayField, matches, outcome, toAll, toSome } from "../actions";
import { call, hidesPayloads, Problem, send } from "../api";
import { ask } from "../dialog";
import { children, node } from "../exact";
import { count, many, parseDuration, plain, shortId } from "../format";
import { Button, Card, Empty, Menu, Num, Search, Skeleton, Table, Text, Time, Unable, say, stateName } from "../parts";
import { refresh, useQuery } from "../poll";
import { setQuery, to } from "../router";
import type { Message, Page, State, Topic } from "../types";

const PAGE = 50;
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
  const { data, problem } = useQuery<Page<Message>>("listMessages", { path: { topic: name }, query: { state, limit: PAGE, cursor, q } });
  const [chosen, setChosen] = useState<Set<string>>(new Set());
  const [all, setAll] = useState(false);
  const [result, setResult] = useState("");
  const last = useRef<number | null>(null);
  const items = data?.items ?? [];
  const turn = (to: (string | undefined)[]) => setPlace(start(q, to));
  const further = place.further === undefined ? 0 : place.further + (data?.scanned ?? 0);
  const next = q && data && items.length === 0 && further < FURTHER && !place.stopped ? data.next_cursor : undefined;
  const searches = next !== undefined || (place.further !== undefined && !place.stopped && !data && !problem);
  const seen = place.seen + (data?.scanned ?? 0);
  useEffect(() => {
    if (next !== undefined) setPlace({ q, pages: [...pages.slice(0, -1), next], seen, further, stopped: false });
  }, [next]);
  const listed = all ? items.map(({ id }) => id) : [...chosen];
  const clear = () => (setChosen(new Set()), setAll(false));
  const search = (text: string) => {
    turn([undefined]);
    clear();
    setQuery({ q: text || undefined, state });
  };
  const toggle = (at: number, on: boolean, range: boolean) => {
    const next = new Set(chosen);
    const from = range && last.current !== null ? Math.min(last.current, at) : at;
    const until = range && last.current !== null ? Math.max(last.current, at) : at;
    for (const { id } of items.slice(from, until + 1)) on ? next.add(id) : next.delete(id);
    last.current = at;
    setAll(false);
    setChosen(next);
  };
  const match = { topic: name, state, q };
  const whole = q ? undefined : topic.counts[state];
  const act = (what: Act, ids = listed, everything = all) => void askTo(what, ids, everything);
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
          const present = q ? await matches(what, match) : (await call<Topic>("getTopic", { path: { topic: name } })).counts[state];
          if (what === "delete" && present !== undefined && Math.abs(present - number) > Math.max(1, number) / 10) {
            throw new Problem(0, "changed", `It is ${count(present)} now, not ${count(number)}. Look again before deleting.`);
          }
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
  const reschedule = (ids = listed) =>
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
  const none = listed.length === 0 && "Select messages first";
  const columns: (string | [string, string])[] = ["!Select", "Message", "Key", [whenOf(state), "num"], ["Attempt", "num"], ["Priority", "num"]];
  const pushed = Boolean(topic.config.push);
  if (pushed) columns.splice(3, 0, "URL", ["Status", "num"]);
  const hasErrors = items.some(({ last_error }) => last_error);
  if (hasErrors) columns.push("Last error");
  if (state === "dead" || canRun) columns.push("!Actions");
  const everyone = items.length > 0 && items.every(({ id }) => all || chosen.has(id));
  return (
    <Card flush>
      <div class="toolbar">
        <Search value={q} label={`Search ${state} messages`} placeholder={'words  error:"timeout"  key:cart/*  -status:404'} search={search} />
        <Menu label="Actions on the list" icon="download" actions={[{ label: "Export NDJSON", icon: "download", needs: ["read", name], run: () => void exportAll(name, state, q, setResult) }]} />
      </div>
      {(listed.length > 0 || all) && (
        <div class="toolbar selection" role="group" aria-label="Selection">
          <b>{all ? (whole === undefined ? "All that match" : `All ${count(whole)}`) : `${count(listed.length)} selected`}</b>
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
        <Table label={`${stateName(state)} messages`} head={columns}>
          {items.map((message, at) => (
            <tr key={message.id} data-row="" class={all || chosen.has(message.id) ? "chosen" : ""}>
              <td class="check">
                <label>
                  <input type="checkbox" checked={all || chosen.has(message.id)} aria-label={`Select ${shortId(message.id)}`} onClick={(event) => toggle(at, event.currentTarget.checked, event.shiftKey)} />
                </label>
              </td>
              <th scope="row"><a data-open="" class="mono" href={to(["messages", message.id])} title={message.id}>{shortId(message.id)}</a></th>
              <td class="key">{message.key ? <Text>{message.key}</Text> : <span class="nil">–</span>}</td>
              {pushed && <td class="url" title={message.url && plain(message.url)}>{message.url && <Text>{message.url}</Text>}</td>}
              {pushed && <td class="num">{message.last_status ?? <span class="nil">–</span>}</td>}
              <td class="num">{instantOf(message) ? <Time at={instantOf(message)!} /> : "–"}</td>
              <td class="num">{message.attempts} <span class="nil">/ {message.attempts + message.attempts_left}</span></td>
              <td class="num"><Num value={message.priority} /></td>
              {hasErrors && <td class="error-text" title={message.last_error}>{message.last_error && <Text>{message.last_error}</Text>}</td>}
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

function whenOf(state: State): string {
  return { delayed: "Due", ready: "Due", leased: "Lease ends", dead: "Died", acked: "Published", blocked: "Due" }[state] ?? "Published";
}

function instantOf(message: Message): string | undefined {
  return message.due_at ?? message.lease_expires_at ?? message.died_at ?? message.published_at;
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
      const items = children(text, node(text, 0)).find(({ key }) => key === '"items"');
      // The bytes of the answer, since numbers may be more exact than JavaScript's. Outside of strings a line break is only space.
      if (items) for (const { value } of children(text, items.value)) lines.push(`${text.slice(value.start, value.end).replace(/[\r\n]+/g, " ")}\n`);
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
