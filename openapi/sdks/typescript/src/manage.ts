/** The methods for schedules, topics and groups; `client.ts` has those for messages. */

import type { SchedulesApi, TopicsApi } from "./api/apis/index.js";
import type {
  CallbackRequest,
  CatchUp,
  Group,
  PutGroupRequest,
  PutScheduleRequest,
  PutTopicRequest,
  Schedule,
  Topic,
  TopicItem,
  UpdateTopicRequest,
} from "./api/models/index.js";
import { type BatchMessage, payloadFields, renamed, wire } from "./publishing.js";
import { type CallOptions, found, isDone } from "./sender.js";

/** The message of {@link Client.putSchedule}: its payload, and its options other than when it is due. */
export type TickMessage = Omit<BatchMessage, "delayMs" | "at" | "debounce" | "throttle" | "once" | "idempotencyKey">;

/** When a schedule publishes: by `cron` in a time zone (UTC by default), or every so many ms. */
export type Ticks =
  | { cron: string; timezone?: string | undefined; everyMs?: undefined }
  | { everyMs: number; cron?: undefined; timezone?: undefined };

/** Where a schedule's messages go: to a topic, or to a URL, as in the HTTP API: `{ url: "https://…" }`. */
export type Target = { topic: string; callback?: undefined } | { callback: CallbackRequest; topic?: undefined };

/** When and where {@link Client.putSchedule} publishes; `catchUp` says which missed ticks are made up for, `one` by default. */
export type ScheduleOptions = Ticks & Target & { catchUp?: CatchUp | undefined };

const NAMES: Record<string, keyof PutScheduleRequest> = {
  cron: "cron",
  timezone: "timezone",
  everyMs: "every_ms",
  topic: "topic",
  callback: "callback",
  catchUp: "catch_up",
} satisfies Record<keyof Ticks | keyof Target | "catchUp", keyof PutScheduleRequest>;

/** The methods of a client for schedules, topics and groups. */
export abstract class Manage {
  /** Topics and their configuration, as the HTTP API has them. */
  abstract readonly topics: TopicsApi;
  /** Schedules, as the HTTP API has them. */
  abstract readonly schedules: SchedulesApi;

  /**
   * Publishes a message again and again: creates the schedule of this name, or replaces it.
   *
   * @example
   * const daily = { topic: "reports", cron: "0 9 * * MON-FRI", timezone: "Europe/Berlin" };
   * await client.putSchedule("report", { payload: "daily" }, daily);
   */
  async putSchedule(name: string, message: TickMessage, options: ScheduleOptions, call?: CallOptions): Promise<Schedule> {
    const { payload, ...rest } = message;
    const body = { ...renamed(options, NAMES), message: { ...wire(rest), ...payloadFields(payload) } };
    return this.schedules.putSchedule({ name, body }, call);
  }

  /** The schedule: what it publishes, its next tick, how the last one went; undefined if there is none. */
  async getSchedule(name: string, call?: CallOptions): Promise<Schedule | undefined> {
    return found(this.schedules.getSchedule({ name }, call));
  }

  /** The schedules, by name, over all pages. */
  async *listSchedules(call?: CallOptions): AsyncGenerator<Schedule, void, undefined> {
    yield* pages((page) => this.schedules.listSchedules(page, call));
  }

  /** Stops its ticks until {@link resumeSchedule}. */
  async pauseSchedule(name: string, call?: CallOptions): Promise<Schedule> {
    return this.schedules.pauseSchedule({ name }, call);
  }

  /** Has a paused schedule tick again. */
  async resumeSchedule(name: string, call?: CallOptions): Promise<Schedule> {
    return this.schedules.resumeSchedule({ name }, call);
  }

  /** Publishes its message now, in addition to its ticks. */
  async triggerSchedule(name: string, call?: CallOptions): Promise<Schedule> {
    return this.schedules.triggerSchedule({ name }, call);
  }

  /** Deletes it; false if there is none. What it has published stays. */
  async deleteSchedule(name: string, call?: CallOptions): Promise<boolean> {
    return isDone(this.schedules.deleteSchedule({ name }, call));
  }

  /** The topics whose names begin with `prefix`, all without one, by name, over all pages. */
  async *listTopics(prefix = "", call?: CallOptions): AsyncGenerator<TopicItem, void, undefined> {
    yield* pages((page) => this.topics.listTopics({ ...(prefix === "" ? {} : { prefix }), ...page }, call));
  }

  /** Creates a topic, or replaces its settings as a whole: `{ max_attempts: 3 }`, named as in the HTTP API. */
  async putTopic(topic: string, settings: PutTopicRequest, call?: CallOptions): Promise<Topic> {
    return this.topics.putTopic({ topic, body: settings }, call);
  }

  /** Changes the settings that are named, and leaves the others; null resets one to its default. */
  async updateTopic(topic: string, settings: UpdateTopicRequest, call?: CallOptions): Promise<Topic> {
    return this.topics.updateTopic({ topic, body: settings }, call);
  }

  /** Its settings and counts; undefined if there is none. */
  async getTopic(topic: string, call?: CallOptions): Promise<Topic | undefined> {
    return found(this.topics.getTopic({ topic }, call));
  }

  /** Has nothing leased from it, and nothing sent, until {@link resumeTopic}. Publishing goes on. */
  async pauseTopic(topic: string, call?: CallOptions): Promise<Topic> {
    return this.topics.pauseTopic({ topic }, call);
  }

  /** Ends its pause. */
  async resumeTopic(topic: string, call?: CallOptions): Promise<Topic> {
    return this.topics.resumeTopic({ topic }, call);
  }

  /** Deletes an empty topic, or with `force` one with its messages; false if there is none. */
  async deleteTopic(topic: string, options: { force?: boolean } = {}, call?: CallOptions): Promise<boolean> {
    return isDone(this.topics.deleteTopic({ topic, ...options }, call));
  }

  /** Gives one group limits of its own, in place of the topic's: `{ concurrency: 5 }`. */
  async putGroup(topic: string, group: string, limits: PutGroupRequest, call?: CallOptions): Promise<Group> {
    return this.topics.putGroup({ topic, group, body: limits }, call);
  }

  /** Its limits, and how many of its messages wait; zeros if there are none. */
  async getGroup(topic: string, group: string, call?: CallOptions): Promise<Group> {
    return this.topics.getGroup({ topic, group }, call);
  }

  /** The groups of the topic that have messages or limits of their own, over all pages. */
  async *listGroups(topic: string, call?: CallOptions): AsyncGenerator<Group, void, undefined> {
    yield* pages((page) => this.topics.listGroups({ topic, ...page }, call));
  }

  /** Has nothing of the group leased, until {@link resumeGroup}. */
  async pauseGroup(topic: string, group: string, call?: CallOptions): Promise<Group> {
    return this.topics.pauseGroup({ topic, group }, call);
  }

  /** Ends its pause. */
  async resumeGroup(topic: string, group: string, call?: CallOptions): Promise<Group> {
    return this.topics.resumeGroup({ topic, group }, call);
  }

  /** Gives the group the topic's limits again. Its messages stay. */
  async deleteGroup(topic: string, group: string, call?: CallOptions): Promise<void> {
    await this.topics.deleteGroup({ topic, group }, call);
  }
}

/** Where a page begins. */
export type At = { cursor?: string };

/** The items of all pages. */
export async function* pages<T>(
  page: (at: At) => Promise<{ items: T[]; next_cursor?: string }>,
): AsyncGenerator<T, void, undefined> {
  let cursor: string | undefined;
  do {
    const { items, next_cursor } = await page(cursor === undefined ? {} : { cursor });
    yield* items;
    cursor = next_cursor;
  } while (cursor !== undefined);
}
