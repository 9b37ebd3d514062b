// Schedules: when they tick, in words and instants, and what each tick publishes.

import { useEffect, useState } from "preact/hooks";
import { attempt } from "../actions";
import { call, hidesPayloads, now, refusal, send } from "../api";
import { ask } from "../dialog";
import { member } from "../exact";
import { bytes, exact, here, inZone, relative } from "../format";
import { Button, Card, Empty, Field, Menu, Name, Search, Skeleton, Table, Text, Time, Unable, say } from "../parts";
import { HIDDEN } from "../payload";
import { refresh, useQuery } from "../poll";
import { go, setQuery, to, usePlace } from "../router";
import type { Page, Preview, Schedule } from "../types";
import { jsonProblem } from "./message";

function rhythm({ description, cron = "" }: Pick<Schedule, "description" | "cron">): string {
  return description ? description[0]!.toUpperCase() + description.slice(1) : cron;
}

/** How long a form rests before dueq is asked about it, ms. */
const REST_MS = 250;
/** In how many rounds a preview is asked for once. */
const ROUNDS = 15;

/** How many ticks were missed since yesterday. */
function missedLately({ missed_ticks = [] }: Schedule): number {
  return missed_ticks.filter((at) => now() - Date.parse(at) < 86_400_000).length;
}

/** The message as it is shown: where payloads are hidden, with the size in its place. */
function shownMessage({ payload, payload_base64, ...rest }: Record<string, unknown>): Record<string, unknown> {
  if (!hidesPayloads) return payload_base64 === undefined ? { payload, ...rest } : { payload_base64, ...rest };
  const size = typeof payload_base64 === "string" ? atob(payload_base64).length : new TextEncoder().encode(JSON.stringify(payload)).length;
  return { payload: `hidden, about ${bytes(size)}`, ...rest };
}

const changes = (name: string, pause: boolean) =>
  void attempt(pause ? `${name} is paused` : `${name} goes on`, () => call(pause ? "pauseSchedule" : "resumeSchedule", { path: { name } }));
const trigger = (name: string) => void attempt(`${name} published its message`, () => call("triggerSchedule", { path: { name } }));

export function Schedules() {
  const { query } = usePlace();
  const { data, problem } = useQuery<Page<Schedule>>("listSchedules", { query: { limit: 1000 } });
  const filter = (query.get("filter") ?? "").toLowerCase();
  const shown = (data?.items ?? []).filter(({ name, topic, callback }) => `${name} ${topic ?? ""} ${callback?.url ?? ""}`.toLowerCase().includes(filter));
  const create = <a class={`button primary ${refusal("configure") ? "off" : ""}`} href={to(["schedules", "+"])}>New schedule</a>;
  return (
    <>
      <header class="head">
        <h1>Schedules</h1>
        <div class="actions">{create}</div>
      </header>
      {!data ? (
        <Card>{problem ? <Unable problem={problem} what="Schedules" /> : <Skeleton rows={5} />}</Card>
      ) : data.items.length === 0 ? (
        <Card>
          <Empty icon="schedules" title="No schedules yet"><p>A schedule publishes a message at every tick of a cron expression, once, however many instances run.</p></Empty>
        </Card>
      ) : (
        <Card flush title={`${data.items.length} ${data.items.length === 1 ? "schedule" : "schedules"}`} actions={<Search value={query.get("filter") ?? ""} label="Filter schedules" placeholder="Filter schedules" search={(text) => setQuery({ filter: text })} />}>
          <Table label="Schedules" head={["Name", "Ticks", "To", ["Next", "num"], ["Last", "num"], "!Actions"]}>
            {shown.map((schedule) => (
              <tr key={schedule.name} data-row="">
                <th scope="row">
                  <a data-open="" href={to(["schedules", schedule.name])}><Name>{schedule.name}</Name></a>
                  {schedule.paused && <span class="badge warn">paused</span>}
                  {schedule.last_error && <span class="badge bad" title={schedule.last_error}>failed</span>}
                  {missedLately(schedule) > 0 && <span class="badge warn">{missedLately(schedule)} missed</span>}
                </th>
                <td class="prose">
                  {rhythm(schedule)}
                  {schedule.cron && <span class="hint block"><code>{schedule.cron}</code> {schedule.timezone}</span>}
                </td>
                <td>{schedule.topic ? <a href={to(["topics", schedule.topic])}><Name>{schedule.topic}</Name></a> : <Name>{schedule.callback?.url ?? "–"}</Name>}</td>
                <td class="num">{schedule.next_at ? <Time at={schedule.next_at} /> : "–"}</td>
                <td class="num">{schedule.last_at ? schedule.last_message_id ? <a href={to(["messages", schedule.last_message_id])}><Time at={schedule.last_at} /></a> : <Time at={schedule.last_at} /> : "–"}</td>
                <td class="end"><Actions schedule={schedule} /></td>
              </tr>
            ))}
          </Table>
          {shown.length === 0 && <Empty title="No schedule matches" />}
        </Card>
      )}
    </>
  );
}

function Actions({ schedule: { name, paused } }: { schedule: Schedule }) {
  return (
    <Menu
      label={`Actions for ${name}`}
      actions={[
        { label: "Run now", icon: "play", needs: ["configure", name], run: () => trigger(name) },
        paused
          ? { label: "Resume", icon: "play", needs: ["configure", name], run: () => changes(name, false) }
          : { label: "Pause", icon: "pause", needs: ["configure", name], run: () => changes(name, true) },
        { label: "Delete…", icon: "trash", danger: true, needs: ["configure", name], run: () => remove(name) },
      ]}
    />
  );
}

function remove(name: string): void {
  ask({
    title: `Delete the schedule ${name}`,
    body: "It ticks no more. Messages that it published stay.",
    action: "Delete the schedule",
    danger: true,
    typed: name,
    run: async () => {
      await call("deleteSchedule", { path: { name } });
      refresh();
      go(["schedules"]);
    },
  });
}

export function ScheduleScreen({ name }: { name: string }) {
  const isNew = name === "+";
  const { data: schedule, problem } = useQuery<Schedule>(isNew ? null : "getSchedule", { path: { name } });
  const { cron, timezone, every_ms } = schedule ?? {};
  const { data: preview } = useQuery<Preview>(schedule ? "previewSchedule" : null, { query: { cron, timezone, every_ms } }, ROUNDS);
  const [form, setForm] = useState<Values | null>(isNew ? FRESH : null);
  const crumbs = <p class="crumbs"><a href={to(["schedules"])}>Schedules</a></p>;
  if (form) {
    return (
      <>
        <header class="head"><div>{crumbs}<h1>{isNew ? "New schedule" : <Text>{name}</Text>}</h1></div></header>
        <Form name={isNew ? null : name} first={form} close={() => (isNew ? go(["schedules"]) : setForm(null))} />
      </>
    );
  }
  if (!schedule) {
    return (
      <>
        <header class="head"><div>{crumbs}<h1><Text>{name}</Text></h1></div></header>
        <Card>{!problem ? <Skeleton rows={5} /> : problem.code === "schedule_not_found" ? <Empty icon="schedules" title="This schedule does not exist" /> : <Unable problem={problem} what="The schedule" />}</Card>
      </>
    );
  }
  const edit = async () => setForm(valuesOf(await (await send("getSchedule", { path: { name } })).text()));
  const { message, ...rest } = schedule;
  return (
    <>
      <header class="head">
        <div>
          {crumbs}
          <h1><Text>{name}</Text>{schedule.paused && <span class="badge warn">paused</span>}</h1>
        </div>
        <div class="actions">
          <Button icon="play" needs={["configure", name]} onClick={() => trigger(name)}>Run now</Button>
          <Button icon={schedule.paused ? "play" : "pause"} needs={["configure", name]} onClick={() => changes(name, !schedule.paused)}>{schedule.paused ? "Resume" : "Pause"}</Button>
          <Button icon="edit" needs={["configure", name]} unless={hidesPayloads && HIDDEN} onClick={() => void edit()}>Edit</Button>
          <Button icon="trash" kind="danger" label="Delete the schedule" needs={["configure", name]} onClick={() => remove(name)} />
        </div>
      </header>
      <dl class="facts">
        <div><dt>Ticks</dt><dd>{rhythm(schedule)}</dd></div>
        {schedule.cron && <div><dt>Cron</dt><dd class="mono">{schedule.cron}</dd></div>}
        {schedule.timezone && <div><dt>Time zone</dt><dd>{schedule.timezone}</dd></div>}
        <div><dt>To</dt><dd>{schedule.topic ? <a href={to(["topics", schedule.topic])}>{schedule.topic}</a> : <Text>{schedule.callback?.url ?? "–"}</Text>}</dd></div>
        <div><dt>Missed ticks</dt><dd>{{ one: "the latest is made up for", none: "are left out", all: "are all made up for" }[schedule.catch_up] ?? schedule.catch_up}</dd></div>
        <div><dt>Last tick</dt><dd>{schedule.last_at ? <Time at={schedule.last_at} /> : "never"}{schedule.last_message_id && <> · <a href={to(["messages", schedule.last_message_id])}>its message</a></>}</dd></div>
      </dl>
      {schedule.last_error && <p class="last-error"><b>The last tick published nothing</b> <Text>{schedule.last_error}</Text></p>}
      <div class="columns">
        <div>
          <Card title="Next ticks"><Ticks {...rest} preview={preview?.next ?? []} /></Card>
          <Card title="Ticks that published nothing"><Missed {...rest} /></Card>
        </div>
        <div><Card title="Each tick publishes"><pre class="raw" tabIndex={0} aria-label="The message"><Text>{JSON.stringify(shownMessage(message), null, 2)}</Text></pre></Card></div>
      </div>
    </>
  );
}

/** Those of a cron expression are where the preview has them; an interval counts from the next tick. */
function Ticks({ every_ms, timezone = "UTC", next_at, paused, preview }: Pick<Schedule, "every_ms" | "timezone" | "next_at" | "paused"> & { preview: string[] }) {
  if (paused) return <p class="hint">None while it is paused.</p>;
  if (!next_at) return <p class="hint">There are no more.</p>;
  const first = Date.parse(next_at);
  const later = every_ms !== undefined ? [1, 2, 3, 4].map((step) => first + step * every_ms) : preview.map((at) => Date.parse(at)).filter((at) => at > first);
  return <TickList at={[first, ...later].slice(0, 5)} timezone={timezone} />;
}

function Missed({ missed_ticks = [], timezone = "UTC" }: Pick<Schedule, "missed_ticks" | "timezone">) {
  if (missed_ticks.length === 0) return <p class="hint">None of late.</p>;
  return (
    <>
      <TickList at={missed_ticks.map((at) => Date.parse(at)).reverse()} timezone={timezone} />
      <p class="hint">Refused, or missed and not made up for: the latest, ten at most.</p>
    </>
  );
}

function TickList({ at, timezone }: { at: number[]; timezone: string }) {
  return (
    <ol class="ticks">
      {at.map((tick) => (
        <li key={tick}>
          <b>{zoned(tick, timezone)}</b> <span class="hint">{timezone}{here !== timezone && ` · ${zoned(tick, here)} here, ${here}`} · {relative(tick)}</span>
        </li>
      ))}
    </ol>
  );
}

function zoned(tick: number, timezone: string): string {
  try {
    return inZone(tick, timezone);
  } catch {
    return exact(tick);
  }
}

interface Values {
  name: string;
  kind: "cron" | "every";
  cron: string;
  timezone: string;
  every: string;
  target: "topic" | "callback";
  topic: string;
  callback: string;
  catch_up: string;
  message: string;
}

const FRESH: Values = { name: "", kind: "cron", cron: "0 9 * * MON-FRI", timezone: "UTC", every: "60", target: "topic", topic: "", callback: '{"url": "https://"}', catch_up: "one", message: '{"payload": {}}' };

/** From the answer's text, so that the payload keeps its spelling. */
function valuesOf(text: string): Values {
  const { name, cron = "", timezone = "UTC", every_ms, topic = "", callback, catch_up } = JSON.parse(text) as Schedule;
  return {
    name,
    kind: every_ms === undefined ? "cron" : "every",
    cron,
    timezone,
    every: every_ms === undefined ? "60" : String(every_ms / 1000),
    target: callback ? "callback" : "topic",
    topic,
    callback: callback ? (member(text, "callback") ?? "") : FRESH.callback,
    catch_up,
    message: member(text, "message") ?? "{}",
  };
}

/** The text as it was when it last rested. */
function useRested(text: string): string {
  const [rested, setRested] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setRested(text), REST_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return rested;
}

function Form({ name, first, close }: { name: string | null; first: Values; close: () => void }) {
  const [values, setValues] = useState(first);
  const [refused, setRefused] = useState("");
  const set = (changes: Partial<Values>) => setValues({ ...values, ...changes });
  const every = Math.round(Number(values.every) * 1000);
  const timing: Record<string, string | number> = values.kind === "cron" ? { cron: values.cron, timezone: values.timezone } : { every_ms: every };
  const asked = useRested(JSON.stringify(timing));
  const { data: preview, problem } = useQuery<Preview>("previewSchedule", { query: JSON.parse(asked) as typeof timing }, ROUNDS);
  const wrong = (field: string) => problem?.errors.find((error) => error.field === field)?.reason;
  const broken = jsonProblem(values.message) ?? (values.target === "callback" ? jsonProblem(values.callback) : null);
  const save = async (event: Event) => {
    event.preventDefault();
    const parts = [
      ...Object.entries(timing).map(([field, value]) => `${JSON.stringify(field)}: ${JSON.stringify(value === "" ? null : value)}`),
      values.target === "topic" ? `"topic": ${JSON.stringify(values.topic)}` : `"callback": ${values.callback}`,
      `"catch_up": ${JSON.stringify(values.catch_up)}`,
      `"message": ${values.message}`,
    ];
    const saved = name ?? values.name;
    try {
      await call("putSchedule", { path: { name: saved }, body: `{${parts.join(", ")}}` });
      say(`${saved} is saved`);
      refresh();
      if (name === null) go(["schedules", saved]);
      else close();
    } catch (error) {
      setRefused((error as Error).message);
    }
  };
  return (
    <form class="columns" onSubmit={save}>
      <div>
        <Card title="When">
          <div class="form">
            {name === null && <div class="span"><Field label="Name"><input value={values.name} required autocomplete="off" onInput={(event) => set({ name: event.currentTarget.value })} /></Field></div>}
            <Field label="Rhythm">
              <select value={values.kind} onChange={(event) => set({ kind: event.currentTarget.value as Values["kind"] })}>
                <option value="cron">Cron expression</option>
                <option value="every">Fixed interval</option>
              </select>
            </Field>
            {values.kind === "cron" ? (
              <>
                <Field label="Time zone" error={wrong("timezone")}><input value={values.timezone} onInput={(event) => set({ timezone: event.currentTarget.value })} /></Field>
                <div class="span"><Field label="Cron" hint={preview?.description ? rhythm(preview) : "Minute, hour, day, month, weekday"} error={wrong("cron")}><input class="mono" value={values.cron} onInput={(event) => set({ cron: event.currentTarget.value })} /></Field></div>
              </>
            ) : (
              <Field label="Every, seconds" error={wrong("every_ms")}><input class="num" inputMode="decimal" value={values.every} onInput={(event) => set({ every: event.currentTarget.value })} /></Field>
            )}
            <Field label="Missed ticks">
              <select value={values.catch_up} onChange={(event) => set({ catch_up: event.currentTarget.value })}>
                <option value="one">Make up for the latest</option>
                <option value="none">Leave them out</option>
                <option value="all">Make up for all</option>
              </select>
            </Field>
          </div>
        </Card>
        <Card title="Next ticks">
          {preview ? <TickList at={preview.next.map((at) => Date.parse(at))} timezone={(values.kind === "cron" && values.timezone) || "UTC"} /> : <p class="hint"><Text>{problem?.message ?? "…"}</Text></p>}
        </Card>
      </div>
      <div>
        <Card title="What">
          <div class="form">
            <Field label="Goes to">
              <select value={values.target} onChange={(event) => set({ target: event.currentTarget.value as Values["target"] })}>
                <option value="topic">A topic</option>
                <option value="callback">A URL</option>
              </select>
            </Field>
            {values.target === "topic" ? (
              <Field label="Topic"><input value={values.topic} required onInput={(event) => set({ topic: event.currentTarget.value })} /></Field>
            ) : (
              <div class="span"><Field label="Callback, JSON" error={jsonProblem(values.callback)}><textarea class="mono" rows={3} spellcheck={false} value={values.callback} onInput={(event) => set({ callback: event.currentTarget.value })} /></Field></div>
            )}
            <div class="span"><Field label="Message, JSON" hint="The fields of a publish, without a delay" error={jsonProblem(values.message)}><textarea class="mono" rows={8} spellcheck={false} value={values.message} onInput={(event) => set({ message: event.currentTarget.value })} /></Field></div>
          </div>
          {refused && <p class="error" role="alert"><Text>{refused}</Text></p>}
          <footer>
            <Button onClick={close}>Cancel</Button>
            <Button type="submit" kind="primary" needs={["configure", name ?? undefined]} unless={broken && "Not valid JSON"}>Save</Button>
          </footer>
        </Card>
      </div>
    </form>
  );
}
