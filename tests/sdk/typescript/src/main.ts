/** The test program of the TypeScript SDK, as a user of the built package: `main.js SUBCOMMAND --option value…`. */

import { parseArgs } from "node:util";
import { Client } from "dueq";
import { benchLate, benchWork } from "./bench.js";
import { echo } from "./echo.js";
import { publish } from "./publish.js";
import { steps } from "./steps.js";
import { lose, work } from "./work.js";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    server: { type: "string" },
    topic: { type: "string", default: "" },
    to: { type: "string", default: "" },
    concurrency: { type: "string" },
    prefetch: { type: "string" },
    messages: { type: "string", default: "1000" },
  },
});

const server = values.server ?? "http://127.0.0.1:8080";
const number = (text: string | undefined): number | undefined => (text === undefined ? undefined : Number(text));
const options = {
  server,
  topic: values.topic,
  concurrency: number(values.concurrency),
  prefetch: number(values.prefetch),
  messages: Number(values.messages),
};

const commands: Record<string, () => Promise<void>> = {
  steps: () =>
    steps(new Client({ server }), values.topic, async (step, take) =>
      console.log(JSON.stringify({ step, ...(await take()) })),
    ),
  echo: () => echo(server, values.topic, values.to),
  publish: () => publish(server, Number(positionals[1]), positionals[2]!),
  work: () => work(options),
  lose: () => lose(options),
  "bench-work": () => benchWork(options),
  "bench-late": () => benchLate(options),
};

const command = commands[positionals[0] ?? ""];
if (command === undefined) {
  console.error(`usage: main.js ${Object.keys(commands).join("|")} --server URL …`);
  process.exitCode = 2;
} else {
  await command();
}
