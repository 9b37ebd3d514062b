/** Publishes again what the typed client leased: payloads must come through it as they were. */

import { Client } from "dueq";

export async function echo(server: string, topic: string, to: string): Promise<void> {
  const { messages, leases } = new Client({ server });
  for (;;) {
    const leased = await leases.leaseMessages({ topic, body: { max_messages: 100 } });
    if (leased.messages.length === 0) return;
    for (const message of leased.messages) {
      await messages.publishMessage({ topic: to, body: { payload: message.payload, headers: message.headers } });
      await leases.ackMessage({ id: message.id, body: { lease_token: message.lease_token } });
    }
  }
}
