// A topic's settings. They are saved against the revision that was shown, after a look at what changes.

import { useState } from "preact/hooks";
import { call, Problem } from "../api";
import { ask } from "../dialog";
import { duration } from "../format";
import { Button, Card, Field, Text, say } from "../parts";
import { refresh } from "../poll";
import type { Topic } from "../types";

type Kind = "ms" | "number" | "text" | "json" | string[];

const FIELDS: [string, string, Kind, string][] = [
  ["lease_ms", "Lease, ms", "ms", "How long a consumer has"],
  ["max_attempts", "Attempts", "number", "Then a message is dead"],
  ["ttl_ms", "Time to live, ms", "ms", "After first falling due; empty: forever"],
  ["max_messages", "Limit of messages", "number", "Delayed, ready and leased; empty: none"],
  ["on_full", "When full", ["reject", "drop_oldest"], ""],
  ["max_payload_bytes", "Largest payload, bytes", "number", ""],
  ["idempotency_window_ms", "Idempotency window, ms", "ms", ""],
  ["dead_topic", "Dead letters to", "text", "A topic that gets what dies here"],
  ["dead_form", "What it gets", ["letter", "raw"], "A letter about the message, or the message itself"],
  ["partitions", "Partitions", "number", "Can only grow: 1, 2, 4 … 256"],
  ["durability", "Durability", ["memory", "replicated"], ""],
  ["group_order", "Groups", ["strict", "fair"], "In the order of publishing, or by turns"],
  ["group_concurrency", "Leased per group", "number", "Empty: 1, or any number if fair"],
  ["group_rate_per_s", "Rate per group, 1/s", "number", "Empty: no limit"],
  ["group_burst", "Burst per group", "number", ""],
  ["max_leased", "Leased in all", "number", "Empty: no limit"],
  ["rate_per_s", "Rate in all, 1/s", "number", "Empty: no limit"],
  ["backoff", "Backoff", "json", "exponential, fixed or schedule"],
  ["retention", "Retention", "json", "How long and how many acked and dead ones are kept"],
  ["push", "Push", "json", "Empty: the topic is pulled. *** keeps a secret"],
];

/** What PATCH takes for dueq's own topic. */
const RESERVED = ["retention", "max_attempts", "backoff", "dead_topic", "dead_form", "push"];

function shown(value: unknown, kind: Kind): string {
  if (value === undefined) return "";
  return kind === "json" ? JSON.stringify(value, null, 2) : String(value);
}

/** Why this text cannot be the value, or null. */
function wrong(text: string, kind: Kind): string | null {
  if (text.trim() === "") return null;
  if (kind === "ms" || kind === "number") return Number.isFinite(Number(text)) ? null : "Not a number";
  if (kind !== "json") return null;
  try {
    return typeof JSON.parse(text) === "object" ? null : "Not an object";
  } catch {
    return "Not valid JSON";
  }
}

function read(text: string, kind: Kind): unknown {
  if (text.trim() === "") return null;
  if (kind === "json") return JSON.parse(text);
  return kind === "ms" || kind === "number" ? Number(text) : text;
}

export function Settings({ topic }: { topic: Topic }) {
  const fields = FIELDS.filter(([name]) => !topic.name.startsWith("_") || RESERVED.includes(name));
  // What was there when the form was opened; later answers do not touch what is being typed.
  const [before] = useState(() => Object.fromEntries(fields.map(([name, , kind]) => [name, shown(topic.config[name], kind)])));
  const [values, setValues] = useState(before);
  const changed = fields.filter(([name]) => values[name] !== before[name]);
  const broken = fields.some(([name, , kind]) => wrong(values[name] ?? "", kind));
  const save = () =>
    ask({
      title: `Change ${topic.name}`,
      wide: true,
      body: (
        <table class="diff">
          <thead>
            <tr><th scope="col">Setting</th><th scope="col">Now</th><th scope="col">Then</th></tr>
          </thead>
          <tbody>
            {changed.map(([name]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="mono was"><Text>{before[name] || "default"}</Text></td>
                <td class="mono is"><Text>{values[name] || "default"}</Text></td>
              </tr>
            ))}
          </tbody>
        </table>
      ),
      action: `Save ${changed.length === 1 ? "1 change" : `${changed.length} changes`}`,
      run: async () => {
        const body = Object.fromEntries(changed.map(([name, , kind]) => [name, read(values[name] ?? "", kind)]));
        try {
          await call("updateTopic", { path: { topic: topic.name }, body, headers: { "if-match": `"${topic.revision}"` } });
        } catch (error) {
          if (error instanceof Problem && error.status === 412) throw new Problem(412, error.code, "The settings were changed meanwhile. Close this and look again.");
          throw error;
        }
        say(`The settings of ${topic.name} are saved`);
        refresh();
      },
    });
  return (
    <Card
      title="Settings"
      actions={<span class="hint">revision {String(topic.revision)}</span>}
    >
      <div class="form">
        {fields.map(([name, label, kind, hint]) => (
          <div key={name} class={kind === "json" ? "span" : ""}>
            <Field
              label={label}
              error={wrong(values[name] ?? "", kind)}
              hint={
                <>
                  {kind === "ms" && Number(values[name]) > 0 && <b>{duration(Number(values[name]))} </b>}
                  {hint}
                </>
              }
            >
              {Array.isArray(kind) ? (
                <select value={values[name]} onChange={(event) => setValues({ ...values, [name]: event.currentTarget.value })}>
                  {kind.map((option) => <option key={option}>{option}</option>)}
                </select>
              ) : kind === "json" ? (
                <textarea class="mono" rows={Math.min(12, Math.max(2, (values[name] ?? "").split("\n").length))} spellcheck={false} value={values[name]} onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value })} />
              ) : (
                <input class={kind === "text" ? "" : "num"} inputMode={kind === "text" ? "text" : "decimal"} value={values[name]} onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value })} />
              )}
            </Field>
          </div>
        ))}
      </div>
      <footer>
        <Button unless={changed.length === 0 && "Nothing is changed"} onClick={() => setValues(before)}>Undo</Button>
        <Button kind="primary" needs={["configure", topic.name]} unless={(changed.length === 0 && "Nothing is changed") || (broken && "A value is not valid")} onClick={save}>
          Review {changed.length > 0 ? `${changed.length === 1 ? "1 change" : `${changed.length} changes`}` : "changes"}
        </Button>
      </footer>
    </Card>
  );
}
