/** Measures: the worker with nothing to do, and how late a handler begins. */

import { Client, Worker } from "dueq";

export interface BenchOptions {
  server: string;
  topic: string;
  concurrency: number | undefined;
  prefetch: number | undefined;
  messages: number;
}

const print = (result: Record<string, number>): void =>
  console.log(
    JSON.stringify(result, (_, value) => (typeof value === "number" ? Math.round(value * 100) / 100 : value)),
  );

/** Messages a second from the first handler's beginning until `stop` has sent every ack. */
export async function benchWork({ server, topic, concurrency, prefetch, messages }: BenchOptions): Promise<void> {
  let began = 0;
  let handled = 0;
  const worker: Worker = new Worker(new Client({ server }), {
    topic,
    concurrency,
    prefetch,
    // A worker that stops waits for its long polls, half a second at most: that is not what is measured here.
    waitMs: 20,
    stopSignals: ["SIGTERM", "SIGINT"],
    handler: () => {
      if (began === 0) began = performance.now();
      handled += 1;
      if (handled === messages) ended();
    },
  });
  let ended!: () => void;
  const all = new Promise<void>((resolve) => (ended = resolve));
  const run = worker.run();
  await all;
  await worker.stop();
  print({ per_s: (handled * 1000) / (performance.now() - began) });
  await run;
}

/** From due to the handler's first statement, one message at a time; the server is on this machine. */
export async function benchLate({ server, topic, messages }: BenchOptions): Promise<void> {
  const late: number[] = [];
  let ended!: () => void;
  const all = new Promise<void>((resolve) => (ended = resolve));
  const worker = new Worker(new Client({ server }), {
    topic,
    concurrency: 1,
    stopSignals: ["SIGTERM", "SIGINT"],
    handler: async (message) => {
      const at = Date.now();
      late.push(at - Date.parse(message.due_at));
      if (late.length === messages) ended();
    },
  });
  const run = worker.run();
  await all;
  await worker.stop();
  await run;
  late.sort((a, b) => a - b);
  const share = (part: number): number => late[Math.min(late.length - 1, Math.floor(late.length * part))]!;
  print({ p50_ms: share(0.5), p99_ms: share(0.99), max_ms: late.at(-1)! });
}
