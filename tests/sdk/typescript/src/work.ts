/** Workers that say on stdout what they do, for tests that kill and restart the server, and them. */

import { writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, type Hooks, Worker } from "dueq";

export interface WorkOptions {
  server: string;
  topic: string;
  concurrency: number | undefined;
  prefetch: number | undefined;
}

// Written before the handler goes on, so that a killed process has said what it did.
const say = (line: string): void => void writeSync(1, `${line}\n`);
const log = (...words: unknown[]): void => console.error(new Date().toISOString(), ...words);

const hooks: Hooks<any> = {
  onFailed: (message, error) => log("failed", message.id, String(error)),
  onLost: (message) => log("lost", message.id),
  onError: (error) => log("error", String(error)),
};

export async function work({ server, topic, concurrency, prefetch }: WorkOptions): Promise<void> {
  const worker = new Worker<{ n: number }>(new Client({ server }), {
    topic,
    concurrency,
    prefetch,
    stopSignals: ["SIGTERM", "SIGINT"],
    ...hooks,
    handler: async ({ id, payload: { n }, attempt }) => {
      if (n % 20 === 0 && attempt === 1) {
        say(`failed ${id}`);
        throw new Error("fails once");
      }
      await sleep(n % 7);
      say(`handled ${id}`);
    },
  });
  const run = worker.run();
  say("ready");
  await run;
  say("stopped");
}

export async function lose({ server, topic }: WorkOptions): Promise<void> {
  const worker = new Worker<{ long?: boolean }>(new Client({ server }), {
    topic,
    leaseMs: 1000,
    stopSignals: ["SIGTERM", "SIGINT"],
    ...hooks,
    handler: async ({ id, payload }, { signal }) => {
      try {
        await sleep(payload?.long ? 3500 : 20_000, undefined, { signal });
      } catch {
        say(`cancelled ${id}`);
        return;
      }
      if (payload?.long) say(`long ${id}`);
    },
  });
  const run = worker.run();
  say("ready");
  await run;
  say("stopped");
}
