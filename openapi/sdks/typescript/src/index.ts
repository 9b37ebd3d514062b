/**
 * dueq's SDK: a client with a method for everything that one does with a queue, a worker, and under them a typed client
 * generated from the API's OpenAPI document.
 *
 * @packageDocumentation
 */

export { Client, type ClientOptions, type RedriveOptions } from "./client.js";
export {
  ConnectError,
  Dead,
  LeaseLost,
  ProblemError,
  RetryIn,
  StopTimeout,
  TimeoutError,
  UnexpectedAnswer,
} from "./errors.js";
export { payloadBytes, type HandlerContext, type Leased, type Typed } from "./held.js";
export { Keyed } from "./keyed.js";
export type { ScheduleOptions, Target, TickMessage, Ticks } from "./manage.js";
export type { Handler, Hooks, Middleware, RunOptions, StopSignal, WorkerOptions } from "./options.js";
export type { BatchMessage, CallbackOptions, Debounce, Once, PublishOptions, Throttle, When } from "./publishing.js";
export type { CallOptions } from "./sender.js";
export { traceparent } from "./trace.js";
export * as webhooks from "./webhooks.js";
export { Worker } from "./worker.js";
export * from "./api/apis/index.js";
export * from "./api/models/index.js";
