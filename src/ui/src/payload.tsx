// A payload as it was published, byte for byte: as a tree, as text, or in hexadecimal.

import { useEffect, useState } from "preact/hooks";
import { hidesPayloads, Problem, send, type Problem as ProblemType } from "./api";
import { children, isJson, node, readable, type Node } from "./exact";
import { bytes as sized, many } from "./format";
import { Button, Card, copy, Empty, Skeleton, Tabs, Text, Unable } from "./parts";
import { to } from "./router";

/** How many children of a node, lines of hexadecimal and characters of text are drawn before the user asks for more. */
const CHILDREN = 200;
const ROWS = 256;
const CHARACTERS = 200_000;

/** Why what needs a payload cannot be done on this page. */
export const HIDDEN = "Payloads are hidden";

export interface Content {
  size: number;
  /** None where payloads are hidden, and no text then. */
  bytes: Uint8Array;
  type: string;
  /** The text, where the bytes are UTF-8. */
  text: string | null;
  isJson: boolean;
}

function contentOf(bytes: Uint8Array, type: string): Content {
  const size = bytes.length;
  if (hidesPayloads) return { size, bytes: new Uint8Array(), type, text: null, isJson: false };
  let text: string | null = null;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    // Not text.
  }
  return { size, bytes, type, text, isJson: text !== null && /json/.test(type) && isJson(text) };
}

export async function payloadOf(id: string, type: string): Promise<Content> {
  const answer = await send("getMessagePayload", { path: { id } });
  return contentOf(new Uint8Array(await answer.arrayBuffer()), type);
}

/** `type` is undefined until it is known; `version` changes whenever the payload may have changed. */
export function usePayload(id: string, type: string | undefined, version: string): { content?: Content; problem?: ProblemType } {
  const [known, setKnown] = useState<{ content?: Content; problem?: ProblemType }>({});
  useEffect(() => {
    let isCurrent = true;
    if (type === undefined) return;
    payloadOf(id, type).then(
      (content) => isCurrent && setKnown({ content }),
      (error) => isCurrent && setKnown({ problem: error instanceof Problem ? error : new Problem(0, "unknown", String(error)) }),
    );
    return () => {
      isCurrent = false;
    };
  }, [id, type, version]);
  return known;
}

export function Payload({ id, content, problem }: { id: string; content?: Content; problem?: ProblemType }) {
  const [picked, setPicked] = useState<string>();
  if (!content) return <Card title="Payload">{problem ? <Unable problem={problem} what="The payload" /> : <Skeleton rows={3} />}</Card>;
  const { size, bytes, text, type } = content;
  const facts = <p class="hint">{type} · {sized(size)}</p>;
  if (hidesPayloads) {
    return (
      <Card title="Payload">
        {facts}
        <Empty icon="lock" title={HIDDEN}>The server runs with --ui-hide-payloads.</Empty>
      </Card>
    );
  }
  const views: [string, string][] = [["hex", "Hex"]];
  if (text !== null) views.unshift(["raw", "Raw"]);
  if (content.isJson) views.unshift(["tree", "Tree"]);
  const view = views.some(([name]) => name === picked) ? picked! : views[0]![0];
  const download = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([bytes as BlobPart]));
    link.download = `${id}${content.isJson ? ".json" : ".bin"}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  };
  return (
    <Card
      title="Payload"
      actions={
        <>
          <Tabs label="Payload as" current={view} tabs={views} pick={setPicked} />
          <Button kind="ghost" icon="copy" label="Copy the payload" unless={text === null && "It is not text"} onClick={() => void copy(text ?? "", "Payload")} />
          <Button kind="ghost" icon="download" label="Download the payload" onClick={download} />
        </>
      }
    >
      {facts}
      {bytes.length === 0 ? (
        <Empty title="The payload is empty" />
      ) : view === "tree" ? (
        <div class="tree mono" tabIndex={0} role="region" aria-label="Payload as a tree"><Branch text={text!} at={node(text!, 0)} open /></div>
      ) : view === "raw" ? (
        <Raw text={text!} />
      ) : (
        <Hex bytes={bytes} />
      )}
    </Card>
  );
}

function Raw({ text }: { text: string }) {
  const [all, setAll] = useState(false);
  const cut = !all && text.length > CHARACTERS;
  return (
    <>
      <pre class="raw" tabIndex={0} aria-label="Payload as text"><Text>{cut ? text.slice(0, CHARACTERS) : text}</Text></pre>
      {cut && <Button onClick={() => setAll(true)}>Show all {sized(text.length)}</Button>}
    </>
  );
}

function Hex({ bytes }: { bytes: Uint8Array }) {
  const [rows, setRows] = useState(ROWS);
  const lines: string[] = [];
  for (let at = 0; at < bytes.length && lines.length < rows; at += 16) {
    const row = [...bytes.subarray(at, at + 16)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const ascii = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex}  ${ascii}`);
  }
  return (
    <>
      <pre class="raw hex" tabIndex={0} aria-label="Payload in hexadecimal">{lines.join("\n")}</pre>
      {rows * 16 < bytes.length && <Button onClick={() => setRows(rows * 8)}>Show more</Button>}
    </>
  );
}

function Branch({ text, at, name, open: first = false }: { text: string; at: Node; name?: string; open?: boolean }) {
  const [open, setOpen] = useState(first);
  const [limit, setLimit] = useState(CHILDREN);
  const label = name !== undefined && <><span class="name"><Text>{readable(name)}</Text></span>: </>;
  if (at.kind !== "object" && at.kind !== "array") {
    return (
      <div class="leaf">
        {label}
        <span class={at.kind}><Text>{at.kind === "string" ? readable(text.slice(at.start, at.end)) : text.slice(at.start, at.end)}</Text></span>
      </div>
    );
  }
  const inside = open ? children(text, at) : [];
  const brackets = at.kind === "object" ? "{}" : "[]";
  return (
    <details open={open} onToggle={(event) => setOpen((event.currentTarget as HTMLDetailsElement).open)}>
      <summary>
        {label}
        {open ? <span class="nil">{brackets[0]} {many(inside.length, at.kind === "object" ? "field" : "item")} {brackets[1]}</span> : <span class="nil">{brackets[0]}…{brackets[1]}</span>}
      </summary>
      {open && (
        <div class="branch">
          {inside.slice(0, limit).map(({ key, value }, index) => (
            <Branch key={index} text={text} at={value} name={key} open={first && inside.length <= 20} />
          ))}
          {inside.length > limit && <Button kind="link" onClick={() => setLimit(limit * 5)}>Show more of {inside.length}</Button>}
        </div>
      )}
    </details>
  );
}

/** Headers, or whatever else has names and texts. */
export function Pairs({ of, empty }: { of: Record<string, string>; empty: string }) {
  const entries = Object.entries(of);
  if (entries.length === 0) return <p class="hint">{empty}</p>;
  return (
    <dl class="pairs">
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt><Text>{name}</Text></dt>
          <dd><Text>{value}</Text></dd>
        </div>
      ))}
    </dl>
  );
}

export function MessageLink({ id, children: shown }: { id: string; children: string }) {
  return <a class="mono" href={to(["messages", id])}>{shown}</a>;
}
