/** A server that answers as a test wants: what a real dueq does only when it is killed at the right instant. */

import http from "node:http";
import type { AddressInfo } from "node:net";

export interface Asked {
  method: string;
  path: string;
  body: any;
  at: number;
  headers: http.IncomingHttpHeaders;
}

/** What to answer: a JSON body, a status, a broken connection, or nothing at all. */
export type Reply =
  | { json: unknown }
  | { status: number; text: string; location?: string; type?: string }
  | { status: number; code: string; retryAfter?: number; detail?: string; errors?: unknown[] }
  | "break"
  | "hang";

export class Fake {
  readonly asked: Asked[] = [];
  private readonly ready: { id: string; payload?: unknown }[] = [];
  private readonly server = http.createServer((request, response) => this.serve(request, response));
  private readonly waiters = new Set<() => void>();
  private count = 0;
  leaseMs = 30_000;
  attemptsLeft = 9;

  /** Overrides answers; undefined: as dueq would. */
  reply: (asked: Asked) => Reply | undefined | Promise<Reply | undefined> = () => undefined;

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.server.closeAllConnections();
    this.server.close();
  }

  publish(...payloads: unknown[]): void {
    for (const payload of payloads) this.ready.push({ id: `m${(this.count += 1)}`, payload });
    for (const wake of this.waiters) wake();
  }

  /** Every line of the requests to a path that ends so. */
  lines(end: string): any[] {
    return this.asked.filter(({ path }) => path.endsWith(end)).flatMap(({ body }) => body.messages ?? body.acks ?? []);
  }

  private async serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const asked = {
      method: request.method!,
      path: request.url!,
      body: text === "" ? undefined : JSON.parse(text),
      at: performance.now(),
      headers: request.headers,
    };
    this.asked.push(asked);
    const reply = (await this.reply(asked)) ?? { json: await this.answer(asked, response) };
    if (reply === "hang") return;
    if (reply === "break") {
      request.socket.destroy();
    } else if ("json" in reply) {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify(reply.json));
    } else if ("text" in reply) {
      if (reply.location !== undefined) response.setHeader("location", reply.location);
      response.writeHead(reply.status, { "content-type": reply.type ?? "text/html" });
      response.end(reply.text);
    } else {
      response.statusCode = reply.status;
      response.setHeader("content-type", "application/problem+json");
      if (reply.retryAfter !== undefined) response.setHeader("retry-after", String(reply.retryAfter));
      const { status, code, errors, detail = "as the test wants" } = reply;
      response.end(JSON.stringify({ status, code, errors, detail }));
    }
  }

  private async answer({ path, body }: Asked, response: http.ServerResponse): Promise<unknown> {
    const results = (lines: any[] = []) => lines.map(({ id }) => ({ id, status: "ok", lease_ms: this.leaseMs }));
    if (!path.endsWith("/lease")) return { id: "m1", results: results(body.messages) };
    if (this.ready.length === 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, body.wait_ms);
        this.waiters.add(resolve);
        response.once("close", () => clearTimeout(timer));
      }).finally(() => this.waiters.clear());
    }
    const messages = this.ready.splice(0, body.max_messages).map((message) => ({
      ...message,
      topic: "t",
      headers: { traceparent: `trace of ${message.id}` },
      attempt: 1,
      attempts_left: this.attemptsLeft,
      lease_ms: this.leaseMs,
      lease_token: `token of ${message.id}`,
      newer_than_this_package: true,
    }));
    return { messages, acks: results(body.acks) };
  }
}
