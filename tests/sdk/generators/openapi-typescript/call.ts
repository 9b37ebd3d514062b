// Calls a dueq through what openapi-typescript made of its document, by openapi-fetch: what a user of the two would
// write first.
import { deepStrictEqual, equal, ok } from 'node:assert/strict';
import createClient from 'openapi-fetch';
import type { components, paths } from './dueq.js';

const [server, topic] = process.argv.slice(2) as [string, string];
const client = createClient<paths>({ baseUrl: server });
const params = { path: { topic } };

const payload = { nested: [null, false, { a: 1.5 }], none: null };
const published = await client.POST('/topics/{topic}/messages', {
  params,
  body: {
    payload,
    key: 'order-42',
    headers: { trace: '1' },
    priority: 3,
    backoff: { kind: 'fixed', base_ms: 10 },
  },
});
ok(published.data, JSON.stringify(published.error));
equal(published.response.status, 201);
const state: components['schemas']['State'] = published.data.state;
equal(state, 'ready');

const leased = await client.POST('/topics/{topic}/lease', { params, body: { wait_ms: 5000 } });
const message = leased.data?.messages[0];
ok(message, 'a message is leased');
equal(message.id, published.data.id);
deepStrictEqual(message.payload, payload);
equal(message.headers['trace'], '1');

const ack = { params: { path: { id: message.id } }, body: { lease_token: message.lease_token } };
const acked = await client.POST('/messages/{id}/ack', ack);
equal(acked.response.status, 204);
const again = await client.POST('/messages/{id}/ack', ack);
equal(again.error?.code, 'message_not_found');

const wrong = await client.POST('/topics/{topic}/messages', { params, body: { payload: 1, priority: 256 } });
equal(wrong.error?.code, 'invalid_input');
equal(wrong.error?.errors?.[0]?.field, 'priority');

const nothing = await client.POST('/topics/{topic}/messages', { params, body: { payload: null } });
equal(nothing.response.status, 201);
const metrics = await client.GET('/metrics', { parseAs: 'text' });
ok(metrics.data?.includes('# EOF'), 'metrics are text');
console.log('ok');
