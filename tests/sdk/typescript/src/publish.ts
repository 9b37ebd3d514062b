/** Publishes so many messages while a test cuts connections and kills the server: the client repeats what failed. */

import { Client } from "dueq";

const CONCURRENCY = 16;

export async function publish(server: string, count: number, topic: string): Promise<void> {
  const client = new Client({ server, deadlineMs: 120_000 });
  let next = 0;
  let published = 0;
  const loop = async (): Promise<void> => {
    while (next < count) {
      const { id } = await client.publish(topic, { n: next++ });
      if (id) published += 1;
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, loop));
  console.log(`published ${published}`);
}
