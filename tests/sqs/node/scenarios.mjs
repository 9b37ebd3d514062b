// SQS's protocol as the AWS SDK for JavaScript has it, which posts to the queues' URLs, and sqs-consumer on top of it.
// Usage: node scenarios.mjs BASE_URL KEY
import assert from "node:assert/strict";
import { once } from "node:events";
import { randomUUID } from "node:crypto";
import {
  SQSClient, CreateQueueCommand, DeleteMessageCommand, GetQueueAttributesCommand, ListQueuesCommand, QueueDoesNotExist,
  ReceiveMessageCommand, SendMessageBatchCommand, SendMessageCommand,
} from "@aws-sdk/client-sqs";
import { Consumer } from "sqs-consumer";

const [base, key] = process.argv.slice(2);
const sqs = new SQSClient({
  endpoint: `${base}/sqs`, region: "eu-central-1", maxAttempts: 1,
  credentials: { accessKeyId: key, secretAccessKey: "anything" },
});
const created = async (Attributes) => {
  const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName: `node-${randomUUID().slice(0, 8)}`, Attributes }));
  return QueueUrl;
};

// The SDK itself compares the digests.
const url = await created();
const MessageAttributes = {
  s: { DataType: "String", StringValue: "ü" }, n: { DataType: "Number", StringValue: "1.5" },
  b: { DataType: "Binary", BinaryValue: new Uint8Array([0, 255]) },
};
const sent = await sqs.send(new SendMessageCommand({ QueueUrl: url, MessageBody: '{"a": "é"}', MessageAttributes }));
const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl: url, MessageAttributeNames: ["All"], WaitTimeSeconds: 5 }));
assert.equal(Messages.length, 1);
assert.equal(Messages[0].MessageId, sent.MessageId);
assert.equal(Messages[0].Body, '{"a": "é"}');
assert.deepEqual(Messages[0].MessageAttributes, MessageAttributes);
await sqs.send(new DeleteMessageCommand({ QueueUrl: url, ReceiptHandle: Messages[0].ReceiptHandle }));
const empty = await sqs.send(new ReceiveMessageCommand({ QueueUrl: url }));
assert.equal(empty.Messages, undefined);
await assert.rejects(sqs.send(new SendMessageCommand({ QueueUrl: `${url}-no`, MessageBody: "x" })), QueueDoesNotExist);
assert.ok((await sqs.send(new ListQueuesCommand({ QueueNamePrefix: "node-" }))).QueueUrls.includes(url));

// A consumer whose handler fails for some messages: they come again, and all are handled once in the end.
const work = await created({ VisibilityTimeout: "1" });
const bodies = Array.from({ length: 50 }, (_, i) => `m${i}`);
for (let at = 0; at < bodies.length; at += 10) {
  const Entries = bodies.slice(at, at + 10).map((MessageBody, i) => ({ Id: `${i}`, MessageBody }));
  assert.equal((await sqs.send(new SendMessageBatchCommand({ QueueUrl: work, Entries }))).Successful.length, 10);
}
const seen = new Map();
const consumer = Consumer.create({
  queueUrl: work, sqs, batchSize: 10, waitTimeSeconds: 1, terminateVisibilityTimeout: true,
  handleMessage: async (message) => {
    const times = (seen.get(message.Body) ?? 0) + 1;
    seen.set(message.Body, times);
    if (message.Body.endsWith("7") && times === 1) throw new Error("the first time fails");
    return message;
  },
});
const failures = [];
consumer.on("error", (error) => failures.push(error));
consumer.on("processing_error", () => {});
consumer.start();
const end = Date.now() + 20_000;
const left = async () => {
  const names = ["", "NotVisible"].map((name) => `ApproximateNumberOfMessages${name}`);
  const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl: work, AttributeNames: names }));
  return names.reduce((sum, name) => sum + Number(Attributes[name]), 0);
};
while (seen.size < bodies.length || (await left()) > 0) {
  assert.ok(Date.now() < end, `${seen.size} handled`);
  await new Promise((resolve) => setTimeout(resolve, 50));
}
const stopped = once(consumer, "stopped");
consumer.stop();
await stopped;
assert.deepEqual(failures, []);
for (const [body, times] of seen) assert.equal(times, body.endsWith("7") ? 2 : 1, body);
console.log("ok");
