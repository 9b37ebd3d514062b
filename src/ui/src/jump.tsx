// The jump box: from a message's id, or from what is known of a name, to its screen.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { call, Problem, type Ask } from "./api";
import { Icon } from "./icons";
import type { Operation } from "./operations";
import { plainTitle, Text } from "./parts";
import { useQuery } from "./poll";
import { place, to } from "./router";
import { busiest, useTopics } from "./screens/overview";
import { Store, useStore } from "./store";
import type { Group, Host, Message, Page, Schedule } from "./types";

/** How many names of a kind are shown. */
const SHOWN = 6;
/** How long the typing rests before dueq is asked about it, ms. */
const REST_MS = 200;
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

interface Hit {
  kind: string;
  name: string;
  /** The topic that it is in. */
  topic?: string;
  href: string;
}

interface Found {
  text: string;
  hits: Hit[];
  problem?: string;
}

const jumping = new Store(false);

export const jump = () => jumping.set(true);

export function Jump() {
  return useStore(jumping) ? <Box /> : null;
}

/** Names that contain the text: the same first, then those that begin with it. */
function like(names: string[], text: string): string[] {
  const small = text.toLowerCase();
  const rank = (name: string) => (name === text ? 0 : name.toLowerCase().startsWith(small) ? 1 : 2);
  return names.filter((name) => name.toLowerCase().includes(small)).sort((a, b) => rank(a) - rank(b)).slice(0, SHOWN);
}

/** Keys and groups by name, and what a first page of a list does not have. `topic/` names where to look; else it is the topic
    on the screen and those with the most messages. */
async function look(text: string, near: string[], more: { topics: boolean; schedules: boolean }, signal: AbortSignal): Promise<Found> {
  const [first, second = ""] = place.value.path;
  const here = first === "topics" ? second : first === "callbacks" ? "_callbacks" : "";
  const [, named = "", rest = ""] = /^([\w.-]+)\/(.+)$/s.exec(text) ?? [];
  let problem: string | undefined;
  // What is not there, or not for this key to see, is no match.
  const read = async <Answer,>(operation: Operation, ask: Ask): Promise<Answer | undefined> => {
    try {
      return await call<Answer>(operation, { ...ask, signal });
    } catch (error) {
      if (error instanceof Problem && (error.status === 0 || error.status >= 500 || error.status === 429)) problem = error.message;
      return undefined;
    }
  };
  const within = async (topic: string, name: string): Promise<Hit[]> => {
    const listed = topic === named || topic === here;
    const [message, groups] = await Promise.all([
      read<Message>("getMessageByKey", { path: { topic, key: name } }),
      listed
        ? read<Page<Group>>("listGroups", { path: { topic }, query: { limit: 1000 } }).then((page) => page?.items ?? [])
        : read<Group>("getGroup", { path: { topic, group: name } }).then((group) => (group && group.leased + group.waiting + group.blocked > 0 ? [group] : [])),
    ]);
    return [
      ...(message ? [{ kind: "Key", name, topic, href: to(["messages", message.id]) }] : []),
      ...like(groups.map(({ group }) => group), name).map((group) => ({ kind: "Group", name: group, topic, href: to(["topics", topic], { view: "groups", filter: group }) })),
    ];
  };
  const places = new Set([here, ...near].filter(Boolean));
  const [topics, schedule, ...inside] = await Promise.all([
    more.topics ? read<Page<{ name: string }>>("listTopics", { query: { prefix: text, limit: SHOWN } }) : undefined,
    more.schedules ? read<Schedule>("getSchedule", { path: { name: text } }) : undefined,
    ...(named ? [within(named, rest)] : []),
    ...[...places].map((topic) => within(topic, text)),
  ]);
  return {
    text,
    hits: [...(topics?.items ?? []).map(({ name }) => topicHit(name)), ...(schedule ? [scheduleHit(schedule.name)] : []), ...inside.flat()],
    problem,
  };
}

const topicHit = (name: string): Hit => ({ kind: "Topic", name, href: to(["topics", name]) });
const scheduleHit = (name: string): Hit => ({ kind: "Schedule", name, href: to(["schedules", name]) });

function Box() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState("");
  const [found, setFound] = useState<Found>({ text: "", hits: [] });
  const [active, setActive] = useState(0);
  const [eager, setEager] = useState(false);
  const topics = useTopics().data;
  const schedules = useQuery<Page<Schedule>>("listSchedules", { query: { limit: 1000 } }).data;
  const hosts = useQuery<Page<Host>>("listCallbackHosts", { query: { limit: 1000 } }, 2).data;
  const text = typed.trim();
  const isId = ID.test(text);
  // Before the next key is read.
  useLayoutEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    if (!text || isId) return;
    const stop = new AbortController();
    const more = { topics: topics?.next_cursor !== undefined, schedules: schedules?.next_cursor !== undefined };
    const timer = setTimeout(() => {
      void look(text, busiest(topics?.items ?? []), more, stop.signal).then((now) => stop.signal.aborted || setFound(now));
    }, REST_MS);
    return () => (clearTimeout(timer), stop.abort());
  }, [text, topics === undefined]);
  const all: Hit[] = isId
    ? [{ kind: "Message", name: text, href: to(["messages", text.toLowerCase()]) }]
    : !text
      ? []
      : [
          ...like((topics?.items ?? []).map(({ name }) => name), text).map(topicHit),
          ...like((schedules?.items ?? []).map(({ name }) => name), text).map(scheduleHit),
          ...like((hosts?.items ?? []).map(({ host }) => host), text).map((name) => ({ kind: "Host", name, href: to(["callbacks"], { q: `host:"${name}"` }) })),
          ...(found.text === text ? found.hits : []),
        ];
  const hits = [...new Map(all.map((hit) => [hit.kind + hit.href, hit])).values()];
  const looks = text !== "" && !isId && found.text !== text;
  const go = ({ href }: Hit) => {
    dialog.current?.close();
    location.hash = href;
  };
  useEffect(() => {
    // Enter was pressed before there was an answer.
    if (!eager || looks) return;
    setEager(false);
    if (hits[0]) go(hits[0]);
  }, [eager, looks]);
  useEffect(() => document.getElementById(`jump-${active}`)?.scrollIntoView({ block: "nearest" }), [active]);
  const step = (by: number) => hits.length > 0 && setActive((active + by + hits.length) % hits.length);
  return (
    <dialog ref={dialog} class="jump" aria-label="Jump to" onClose={() => jumping.set(false)} onClick={(event) => event.target === dialog.current && dialog.current?.close()}>
      <div class="search">
        <Icon name="search" size={16} />
        <input
          type="text"
          role="combobox"
          aria-label="Jump to"
          aria-autocomplete="list"
          aria-expanded={hits.length > 0 ? "true" : "false"}
          aria-controls={hits.length > 0 ? "jump-list" : undefined}
          aria-activedescendant={hits.length > 0 ? `jump-${active}` : undefined}
          placeholder="Message id, key, topic, schedule, host, group"
          value={typed}
          autocomplete="off"
          spellcheck={false}
          onInput={(event) => (setTyped(event.currentTarget.value), setActive(0), setEager(false))}
          onKeyDown={(event) => {
            if (event.key === "ArrowDown") step(1);
            else if (event.key === "ArrowUp") step(-1);
            else if (event.key === "Enter" && !event.isComposing) hits[active] ? go(hits[active]) : setEager(looks);
            else return;
            event.preventDefault();
          }}
        />
      </div>
      {hits.length > 0 && (
        <ul id="jump-list" role="listbox" aria-label="Matches">
          {hits.map((hit, at) => (
            <li key={hit.kind + hit.href} id={`jump-${at}`} role="option" aria-selected={at === active ? "true" : "false"} onClick={() => go(hit)}>
              <span class="nil">{hit.kind}</span>
              <span class="mono" title={plainTitle(hit.name)}><Text>{hit.name}</Text></span>
              {hit.topic && <span class="nil">in {hit.topic}</span>}
            </li>
          ))}
        </ul>
      )}
      <p class="hint" role="status">
        {looks ? "Looking…" : found.text === text && found.problem ? <Text>{found.problem}</Text> : text && hits.length === 0 ? "Nothing found. A key has to be whole; topic/key looks in that topic." : hits.length > 0 ? `${hits.length} found` : "Parts of names will do, but a key has to be whole; topic/key looks in that topic."}
      </p>
    </dialog>
  );
}
