/** One message by the key that it was published with: no id needs to be stored. */

import type { MessagesApi } from "./api/apis/index.js";
import type { UpdateMessageRequest } from "./api/models/index.js";
import type { Typed } from "./held.js";
import { type When, wire } from "./publishing.js";
import { type CallOptions, found, isDone } from "./sender.js";

/** The live message (delayed, ready or leased) that has this key, if there is one; see {@link Client.key}. */
export class Keyed<Payload = any> {
  constructor(
    private readonly messages: MessagesApi,
    /** The topic's name. */
    readonly topic: string,
    /** The message's key. */
    readonly key: string,
  ) {}

  /** The message with its payload, state and events; undefined if there is none. */
  async get(call?: CallOptions): Promise<Typed<Payload> | undefined> {
    const message = this.messages.getMessageByKey({ topic: this.topic, key: this.key }, call);
    return found(message as Promise<Typed<Payload>>);
  }

  /** Removes the message; false if there is none. One that is leased is refused: 409 `message_leased`. */
  async cancel(call?: CallOptions): Promise<boolean> {
    return isDone(this.messages.deleteMessageByKey({ topic: this.topic, key: this.key }, call));
  }

  /** Gives the message another due time; false if there is none. One that is leased is refused: 409 `message_leased`. */
  async reschedule(when: When, call?: CallOptions): Promise<boolean> {
    const body = wire(when) as UpdateMessageRequest;
    if (Object.keys(body).length === 0) throw new TypeError("reschedule needs delayMs or at");
    const moved = this.messages.updateMessageByKey({ topic: this.topic, key: this.key, body }, call);
    return (await found(moved)) !== undefined;
  }
}
