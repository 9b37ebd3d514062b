// A publish as a program would do it: the line for curl, Python, TypeScript and Go.

import { base } from "./api";

export interface Draft {
  kind: "topic" | "callback";
  topic: string;
  url: string;
  /** JSON, as it is spelled. */
  payload: string;
  delay_ms?: number;
  deliver_at?: string;
  key?: string;
  priority?: number;
  headers: Record<string, string>;
}

export const server = `${location.origin}${base}`;

export const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

/** The body of the request, with the payload spelled as it is. */
export function bodyOf(draft: Draft): string {
  const { kind, url, payload, delay_ms, deliver_at, key, priority, headers } = draft;
  const parts: string[] = [];
  if (kind === "callback") parts.push(`"url": ${JSON.stringify(url)}`);
  if (payload.trim() !== "") parts.push(`"payload": ${payload.trim()}`);
  if (delay_ms) parts.push(`"delay_ms": ${delay_ms}`);
  if (deliver_at) parts.push(`"deliver_at": ${JSON.stringify(deliver_at)}`);
  if (key) parts.push(`"key": ${JSON.stringify(key)}`);
  if (priority) parts.push(`"priority": ${priority}`);
  if (Object.keys(headers).length > 0) parts.push(`"headers": ${JSON.stringify(headers)}`);
  return `{${parts.join(", ")}}`;
}

export function pathOf({ kind, topic }: Draft): string {
  return kind === "callback" ? "/callbacks" : `/topics/${encodeURIComponent(topic)}/messages`;
}

const text = (value: string) => JSON.stringify(value);

/** JSON's words as Python spells them. */
function python(json: string): string {
  const words: Record<string, string> = { true: "True", false: "False", null: "None" };
  return json.trim().replace(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g, (token) => words[token] ?? token.replaceAll("\\/", "/"));
}

export function snippets(draft: Draft): [string, string][] {
  const { kind, topic, url, payload, delay_ms, deliver_at, key, priority, headers } = draft;
  const json = payload.trim() || "null";
  const names = Object.entries(headers);
  const to = kind === "callback" ? url : topic;
  const py = [text(to), python(json)];
  if (delay_ms) py.push(`delay=${delay_ms / 1000}`);
  if (deliver_at) py.push(`at=datetime.fromisoformat(${text(deliver_at.replace("Z", "+00:00"))})`);
  if (key) py.push(`key=${text(key)}`);
  if (priority) py.push(`priority=${priority}`);
  if (names.length > 0) py.push(`headers=${text("") && JSON.stringify(headers)}`);
  const options: string[] = [];
  if (delay_ms) options.push(`delayMs: ${delay_ms}`);
  if (deliver_at) options.push(`at: new Date(${text(deliver_at)})`);
  if (key) options.push(`key: ${text(key)}`);
  if (priority) options.push(`priority: ${priority}`);
  if (names.length > 0) options.push(`headers: ${JSON.stringify(headers)}`);
  const ts = [text(to), json];
  if (options.length > 0) ts.push(`{ ${options.join(", ")} }`);
  const raw = json.includes("`") ? text(json) : `\`${json}\``;
  const go = ["ctx", text(to), `json.RawMessage(${raw})`];
  if (delay_ms) go.push(`dueq.Delay(${delay_ms} * time.Millisecond)`);
  if (deliver_at) go.push(`dueq.At(time.UnixMilli(${Date.parse(deliver_at)}))`);
  if (key) go.push(`dueq.Key(${text(key)})`);
  if (priority) go.push(`dueq.Priority(${priority})`);
  for (const [name, value] of names) go.push(`dueq.Header(${text(name)}, ${text(value)})`);
  const name = kind === "callback" ? "callback" : "publish";
  return [
    ["curl", `curl ${server}${pathOf(draft)} --json ${quoted(bodyOf(draft))}`],
    ["Python", `client.${name}(${py.join(", ")})`],
    ["TypeScript", `await client.${name}(${ts.join(", ")});`],
    ["Go", `client.${kind === "callback" ? "Callback" : "Publish"}(${go.join(", ")})`],
  ];
}
