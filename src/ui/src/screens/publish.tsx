// Publish by hand: a message to a topic, or a callback. Next to the form is the same as a shell command and in three languages.

import { useEffect, useState } from "preact/hooks";
import { call, Problem } from "../api";
import { bytes, here, parseDuration } from "../format";
import { Button, Card, copy, Field, Tabs, Text } from "../parts";
import { MessageLink } from "../payload";
import { refresh, useQuery } from "../poll";
import { usePlace } from "../router";
import { bodyOf, snippets, type Draft } from "../snippets";
import { Store } from "../store";
import type { Page, TopicItem } from "../types";
import { jsonProblem } from "./message";

/** What another screen wants published: a duplicate. */
export const draft = new Store<Draft | null>(null);

interface Published {
  id: string;
  state: string;
  topic: string;
  duplicate: boolean;
}

function headersOf(text: string): Record<string, string> | null {
  const pairs: Record<string, string> = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf(":");
    if (at < 1) return null;
    pairs[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return pairs;
}

export function Publish() {
  const { query } = usePlace();
  const [from] = useState(() => draft.value);
  useEffect(() => draft.set(null), []);
  const [kind, setKind] = useState<Draft["kind"]>(from?.kind ?? (query.get("kind") === "callback" ? "callback" : "topic"));
  const [topic, setTopic] = useState(from?.topic ?? query.get("topic") ?? "");
  const [url, setUrl] = useState(from?.url ?? "");
  const [payload, setPayload] = useState(from?.payload ?? '{"order": 42}');
  const [when, setWhen] = useState("delay");
  const [delay, setDelay] = useState("");
  const [at, setAt] = useState("");
  const [key, setKey] = useState(from?.key ?? "");
  const [priority, setPriority] = useState(String(from?.priority ?? 0));
  const [headers, setHeaders] = useState(Object.entries(from?.headers ?? {}).map(([name, value]) => `${name}: ${value}`).join("\n"));
  const [language, setLanguage] = useState("curl");
  const [result, setResult] = useState<Published | null>(null);
  const [refused, setRefused] = useState("");
  const [busy, setBusy] = useState(false);
  const topics = useQuery<Page<TopicItem>>("listTopics", { query: { limit: 1000 } }, 15);
  const wrongPayload = kind === "callback" && payload.trim() === "" ? null : jsonProblem(payload);
  const wrongDelay = when === "delay" && delay && parseDuration(delay) === null ? "Not a duration: 90s, 10m, 2h 30m, 1d" : null;
  const pairs = headersOf(headers);
  const wrongHeaders = pairs === null ? "A line is Name: value" : null;
  const now: Draft = {
    kind,
    topic,
    url,
    payload,
    delay_ms: when === "delay" && delay ? (parseDuration(delay) ?? undefined) : undefined,
    deliver_at: when === "at" && at ? new Date(at).toISOString() : undefined,
    key: key || undefined,
    priority: Number(priority) || undefined,
    headers: pairs ?? {},
  };
  const to = kind === "topic" ? topic : url;
  const unready = (!to && (kind === "topic" ? "Name a topic" : "Name a URL")) || wrongPayload || wrongDelay || wrongHeaders;
  const lines = snippets({ ...now, topic: topic || "orders", url: url || "https://example.com/hook" });
  const line = lines.find(([name]) => name === language)![1];
  const submit = async (event: Event) => {
    event.preventDefault();
    if (unready || busy) return;
    setBusy(true);
    setRefused("");
    setResult(null);
    try {
      const body = bodyOf(now);
      setResult(kind === "topic" ? await call<Published>("publishMessage", { path: { topic }, body }) : await call<Published>("scheduleCallback", { body }));
      refresh();
    } catch (error) {
      setRefused(error instanceof Problem ? [error.message, ...error.errors.map(({ field, reason }) => `${field} ${reason}`)].slice(0, 3).join(" · ") : String(error));
    }
    setBusy(false);
  };
  return (
    <>
      <h1>Publish</h1>
      <form class="columns" onSubmit={submit}>
        <div>
          <Card actions={<Tabs label="Kind" current={kind} tabs={[["topic", "To a topic"], ["callback", "Call a URL"]]} pick={(picked) => setKind(picked as Draft["kind"])} />} title="Message">
            <div class="form">
              <div class="span">
                {kind === "topic" ? (
                  <Field label="Topic">
                    <input value={topic} list="topics" autocomplete="off" spellcheck={false} onInput={(event) => setTopic(event.currentTarget.value)} />
                    <datalist id="topics">{topics.data?.items.filter(({ name }) => !name.startsWith("_")).map(({ name }) => <option key={name} value={name} />)}</datalist>
                  </Field>
                ) : (
                  <Field label="URL"><input type="url" value={url} placeholder="https://example.com/hook" autocomplete="off" onInput={(event) => setUrl(event.currentTarget.value)} /></Field>
                )}
              </div>
              <div class="span">
                <Field label="Payload, JSON" error={wrongPayload} hint={`Valid · ${bytes(new TextEncoder().encode(payload.trim()).length)}`}>
                  <textarea class="mono" rows={8} spellcheck={false} value={payload} onInput={(event) => setPayload(event.currentTarget.value)} />
                </Field>
              </div>
              <Field label="When">
                <select value={when} onChange={(event) => setWhen(event.currentTarget.value)}>
                  <option value="delay">After a delay</option>
                  <option value="at">At an instant</option>
                </select>
              </Field>
              {when === "delay" ? (
                <Field label="Delay" hint="Empty: now. 90s, 10m, 2h 30m, 1d" error={wrongDelay}><input value={delay} autocomplete="off" onInput={(event) => setDelay(event.currentTarget.value)} /></Field>
              ) : (
                <Field label="Instant" hint={`Your local time, ${here}`}><input type="datetime-local" step="1" value={at} onInput={(event) => setAt(event.currentTarget.value)} /></Field>
              )}
              <Field label="Key" hint="The message's own name in its topic"><input value={key} autocomplete="off" onInput={(event) => setKey(event.currentTarget.value)} /></Field>
              <Field label="Priority" hint="0 to 255, higher goes first"><input class="num" type="number" min={0} max={255} value={priority} onInput={(event) => setPriority(event.currentTarget.value)} /></Field>
              <div class="span"><Field label="Headers" hint="One a line, Name: value" error={wrongHeaders}><textarea class="mono" rows={2} spellcheck={false} value={headers} onInput={(event) => setHeaders(event.currentTarget.value)} /></Field></div>
            </div>
            {refused && <p class="error" role="alert"><Text>{refused}</Text></p>}
            {result && (
              <p class="result" role="status">
                {result.duplicate ? "The message was there already: " : "Published: "} <MessageLink id={result.id}>{result.id}</MessageLink> is {result.state}
              </p>
            )}
            <footer><Button type="submit" kind="primary" needs={["publish", kind === "topic" ? topic || undefined : "_callbacks"]} unless={unready} busy={busy}>{kind === "topic" ? "Publish" : "Schedule the call"}</Button></footer>
          </Card>
        </div>
        <div>
          <Card
            title="The same as code"
            actions={
              <>
                <Tabs label="Language" current={language} tabs={lines.map(([name]) => [name, name])} pick={setLanguage} />
                <Button kind="ghost" icon="copy" label="Copy the line" onClick={() => void copy(line, "The line")} />
              </>
            }
          >
            <pre class="raw" tabIndex={0} aria-label={`The same in ${language}`}><Text>{line}</Text></pre>
          </Card>
        </div>
      </form>
    </>
  );
}
