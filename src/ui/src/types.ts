// What answers of the API hold, as far as the dashboard reads it.

export type State = "delayed" | "ready" | "leased" | "dead" | "acked" | "blocked";

export type Counts = Record<State, number>;

export interface TopicItem {
  name: string;
  paused: boolean;
  counts: Counts;
}

export interface Push {
  url?: string;
  method?: string;
  [field: string]: unknown;
}

export interface TopicConfig {
  push?: Push;
  dead_topic?: string;
  [field: string]: unknown;
}

export interface Topic extends TopicItem {
  revision: string | number;
  config: TopicConfig;
  totals: Record<string, number>;
  oldest_ready_age_ms?: number;
  next_due_at?: string;
}

export interface MessageEvent {
  at: string;
  kind: string;
  attempt?: number;
  reason?: string;
  status?: number;
  error?: string;
  duration_ms?: number;
  answer?: string;
  estimated?: boolean;
}

export interface Callback {
  url: string;
  method?: string;
  timeout_ms?: number;
}

export interface Completion {
  url?: string;
  topic?: string;
}

export interface WaitingFor {
  reason: string;
  until?: string;
  error?: string;
  host?: string;
  message_id?: string;
  ahead?: number;
  max_leased?: number;
  place?: string;
}

export interface Message {
  id: string;
  topic: string;
  state: State;
  headers?: Record<string, string>;
  callback?: Callback;
  key?: string;
  group?: string;
  priority: number;
  attempts: number;
  attempts_left: number;
  max_attempts?: number;
  backoff?: unknown;
  ttl_ms?: number;
  content_type?: string;
  payload_base64?: string;
  expires_at?: string;
  published_at: string;
  published_by?: string;
  due_at?: string;
  lease_expires_at?: string;
  waiting_for?: WaitingFor;
  died_at?: string;
  url?: string;
  last_status?: number;
  last_error?: string;
  on_done?: Completion;
  on_dead?: Completion;
  result?: unknown;
  events?: MessageEvent[];
}

export interface Page<Item> {
  items: Item[];
  next_cursor?: string;
  scanned?: number;
}

export interface Point {
  at: string;
  published: number;
  granted: number;
  acked: number;
  nacked: number;
  dead: number;
  lease_expired: number;
  oldest_ready_age_ms?: number;
  lateness_p50_ms?: number;
  lateness_p99_ms?: number;
  lateness_max_ms?: number;
}

export interface History {
  step_ms: number;
  points: Point[];
}

export interface Reason {
  reason?: string;
  example_id: string;
  count: number;
  first_at: string;
  last_at: string;
}

export interface Schedule {
  name: string;
  cron?: string;
  timezone?: string;
  every_ms?: number;
  /** When it ticks, where that takes few words. */
  description?: string;
  topic?: string;
  callback?: Callback;
  message: Record<string, unknown>;
  catch_up: string;
  paused: boolean;
  next_at?: string;
  last_at?: string;
  last_message_id?: string;
  last_error?: string;
  /** The latest that published nothing, oldest first. */
  missed_ticks?: string[];
  created_at: string;
}

/** When a schedule would tick. */
export interface Preview {
  next: string[];
  description?: string;
}

export interface Group {
  group: string;
  published_by?: string;
  leased: number;
  waiting: number;
  blocked: number;
  next_at?: string;
  paused: boolean;
  concurrency?: number;
  rate_per_s?: number;
  burst?: number;
  weight?: number;
}

export interface Outcomes {
  delivered: number;
  failed: number;
  dead: number;
}

export interface Host {
  host: string;
  paused: boolean;
  failing: boolean;
  next_probe_at?: string;
  in_flight: number;
  waiting: number;
  /** Of the last five minutes. */
  outcomes: Outcomes;
  consecutive_failures: number;
  p99_ms?: number;
  last_error?: string;
  last_error_at?: string;
}

export interface Instance {
  id: string;
  version: string;
  started_at: string;
  seen_at: string;
  /** An older instance says none of these. */
  lanes?: number;
  waiters?: number;
  memory_bytes?: number;
  clock_offset_ms?: number;
  host?: string;
  pid?: number;
}

export interface ApiKey {
  name: string;
  scopes: string[];
  publish_per_s?: number;
}

export interface Session {
  name: string;
  scopes: string[];
}

/** What bulk operations answer. */
export interface Bulk {
  matched?: number;
  scanned?: number;
  redriven?: number;
  purged?: number;
  run?: number;
  remaining?: number;
  next_cursor?: string;
}
