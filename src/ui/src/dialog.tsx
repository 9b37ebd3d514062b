// The one dialog: it says what will happen to how many messages of which topic, and may ask for values, or for the
// topic's name in full.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./api";
import { Button, Field, Text } from "./parts";
import { Store, useStore } from "./store";

export interface Question {
  title: string;
  body?: ComponentChildren;
  /** What the button says. */
  action: string | ((values: Record<string, string>) => string);
  danger?: boolean;
  /** What has to be typed before the button works. */
  typed?: string;
  /** The value of `picks` is the options' names, each with a comma. */
  fields?: { name: string; label: string; value?: string; hint?: string; type?: "text" | "area" | "picks"; options?: [string, string][]; check?: (value: string) => string | null }[];
  /** Does it. The dialog stays open with the reason if that throws. */
  run: (values: Record<string, string>) => Promise<void>;
  wide?: boolean;
}

const open = new Store<Question | null>(null);

export function ask(question: Question): void {
  open.set(question);
}

export function Dialog() {
  const question = useStore(open);
  return question && <Shown key={question.title} question={question} />;
}

function Shown({ question }: { question: Question }) {
  const { title, body, action, danger, typed, fields = [], run, wide } = question;
  const dialog = useRef<HTMLDialogElement>(null);
  const [values, setValues] = useState<Record<string, string>>(Object.fromEntries(fields.map(({ name, value }) => [name, value ?? ""])));
  const [word, setWord] = useState("");
  const [refused, setRefused] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const back = document.activeElement;
    dialog.current?.showModal();
    return () => (back as HTMLElement | null)?.focus?.();
  }, []);
  const wrong = Object.fromEntries(fields.map(({ name, check }) => [name, check?.(values[name] ?? "") ?? null]));
  const unready = typed !== undefined && word !== typed ? `Type ${typed} first` : Object.values(wrong).some(Boolean) ? "A value is missing" : null;
  const submit = async (event: Event) => {
    event.preventDefault();
    if (unready || busy) return;
    setBusy(true);
    try {
      await run(values);
      open.set(null);
    } catch (error) {
      setRefused(error instanceof Problem ? error.message : String(error));
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} class={wide ? "wide" : ""} aria-labelledby="dialog-title" onClose={() => open.set(null)}>
      <form onSubmit={submit}>
        <h2 id="dialog-title">{title}</h2>
        {body && <div class="body">{body}</div>}
        {fields.map(({ name, label, hint, type = "text", options = [] }) => type === "picks" ? (
          <fieldset key={name} class="field">
            <legend class="label">{label}</legend>
            {options.map(([option, text]) => (
              <label key={option} class="inline">
                <input
                  type="checkbox"
                  checked={values[name]!.includes(`${option},`)}
                  onChange={(event) => setValues({ ...values, [name]: values[name]!.replace(`${option},`, "") + (event.currentTarget.checked ? `${option},` : "") })}
                />
                {text}
              </label>
            ))}
          </fieldset>
        ) : (
          <Field key={name} label={label} hint={hint} error={values[name] ? wrong[name] : null}>
            {type === "area" ? (
              <textarea
                rows={10}
                spellcheck={false}
                value={values[name]}
                onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value })}
              />
            ) : (
              <input
                type={type}
                value={values[name]}
                autocomplete="off"
                spellcheck={false}
                onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value })}
              />
            )}
          </Field>
        ))}
        {typed !== undefined && (
          <Field label={`Type ${typed} to confirm`}>
            <input class="mono" value={word} autocomplete="off" spellcheck={false} onInput={(event) => setWord(event.currentTarget.value)} />
          </Field>
        )}
        {refused && (
          <p class="error" role="alert">
            <Text>{refused}</Text>
          </p>
        )}
        <footer>
          <Button onClick={() => dialog.current?.close()}>Cancel</Button>
          <Button type="submit" kind={danger ? "danger" : "primary"} unless={unready} busy={busy}>
            {busy ? "Working…" : typeof action === "string" ? action : action(values)}
          </Button>
        </footer>
      </form>
    </dialog>
  );
}
