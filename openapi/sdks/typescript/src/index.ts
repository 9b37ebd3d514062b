/**
 * dueq's SDK: a typed client generated from the API's OpenAPI document, and a worker written by hand.
 *
 * @packageDocumentation
 */

export { Client, type ClientOptions } from "./client.js";
export { Dead, LeaseLost, ProblemError, RetryIn, StopTimeout, UnexpectedAnswer } from "./errors.js";
export { payloadBytes, type HandlerContext, type Leased } from "./held.js";
export type { Handler, Hooks, StopSignal, WorkerOptions } from "./options.js";
export { Worker } from "./worker.js";
export * from "./api/apis/index.js";
export * from "./api/models/index.js";
