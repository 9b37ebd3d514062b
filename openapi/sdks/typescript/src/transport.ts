/**
 * The worker's way to the server: JSON over `node:http` with connections kept alive. It goes around the generated client
 * because `fetch` costs several times as much a request; a client with a `fetch` of its own has its workers use that.
 */

import http from "node:http";
import https from "node:https";
import { ConnectError, ProblemError, TimeoutError, UnexpectedAnswer } from "./errors.js";
import { parsed, type Sender } from "./sender.js";

/** A request under way. */
export interface Call {
  /** The answer's JSON; a `ProblemError` where the server refused, otherwise a `ConnectError` or `TimeoutError`. */
  readonly answer: Promise<any>;
  /** Gives it up; the answer is an error then, unless it is there. */
  abort(): void;
}

/** How a worker's requests are sent. */
export interface Transport {
  /** Sends `body` as JSON; an answer that takes longer than `timeoutMs` is an error. */
  post(path: string, body: unknown, timeoutMs: number): Call;
  close(): void;
}

export class HttpTransport implements Transport {
  private readonly request: typeof http.request;
  private readonly agent: http.Agent;
  private readonly host: string;
  private readonly port: number;
  private readonly base: string;
  /** With the API key, which a worker that is logged must not show. */
  readonly #headers: string[];

  constructor(
    private readonly server: string,
    apiKey: string | undefined,
  ) {
    const url = new URL(server);
    const secure = url.protocol === "https:";
    this.request = secure ? https.request : http.request;
    // As many sockets as requests: the worker bounds those itself. No timeout here: it would cost listeners a request.
    this.agent = new (secure ? https : http).Agent({ keepAlive: true, noDelay: true });
    this.host = url.hostname.replace(/^\[|\]$/g, "");
    this.port = url.port === "" ? (secure ? 443 : 80) : Number(url.port);
    this.base = url.pathname.replace(/\/+$/, "");
    // A flat list is written as it is, which is the cheapest that Node has.
    this.#headers = ["host", url.host, "content-type", "application/json", "accept", "application/json"];
    if (apiKey !== undefined) this.#headers.push("authorization", `Bearer ${apiKey}`);
    this.#headers.push("content-length", "");
  }

  post(path: string, body: unknown, timeoutMs: number): Call {
    const text = JSON.stringify(body);
    // Node has written the list out when `request` returns, so that one list does for all.
    const { agent, host, port } = this;
    const headers = this.#headers;
    headers[headers.length - 1] = String(Buffer.byteLength(text));
    const request = this.request({ agent, host, port, method: "POST", path: this.base + path, headers });
    const answer = new Promise<unknown>((resolve, reject) => {
      const timer = setTimeout(() => {
        request.destroy(new TimeoutError(this.server, `POST ${path}`, timeoutMs));
      }, timeoutMs);
      const done = (error: unknown, value?: unknown): void => {
        clearTimeout(timer);
        if (error === undefined) resolve(value);
        else if (error instanceof ProblemError || error instanceof TimeoutError || error instanceof UnexpectedAnswer) {
          reject(error);
        } else reject(new ConnectError(this.server, `POST ${path}`, error));
      };
      request.on("response", (response) => read(response, path, done));
      request.on("error", done);
    });
    request.end(text);
    return { answer, abort: () => request.destroy(new Error(`POST ${path}: given up`)) };
  }

  close(): void {
    this.agent.destroy();
  }
}

/** By the `fetch` of the client. */
export class FetchTransport implements Transport {
  readonly #headers: Record<string, string> = { "Content-Type": "application/json" };

  constructor(
    private readonly sender: Sender,
    apiKey: string | undefined,
  ) {
    if (apiKey !== undefined) this.#headers["Authorization"] = `Bearer ${apiKey}`;
  }

  post(path: string, body: unknown, timeoutMs: number): Call {
    const controller = new AbortController();
    const init = { method: "POST", headers: this.#headers, body: JSON.stringify(body), signal: controller.signal };
    const response = this.sender.once(`POST ${path}`, this.sender.server + path, init, timeoutMs);
    const answer = response.then((whole) => whole.json());
    return { answer, abort: () => controller.abort(new Error(`POST ${path}: given up`)) };
  }

  close(): void {}
}

function read(response: http.IncomingMessage, path: string, done: (error: unknown, value?: unknown) => void): void {
  let first: Buffer | undefined;
  let more: Buffer[] | undefined;
  response.on("data", (chunk: Buffer) => {
    if (first === undefined) first = chunk;
    else (more ??= [first]).push(chunk);
  });
  response.on("error", done);
  response.on("end", () => {
    const body = more ? Buffer.concat(more).toString() : (first?.toString() ?? "");
    const status = response.statusCode ?? 0;
    if (status < 200 || status >= 300) {
      done(ProblemError.of(status, body, response.headers["retry-after"]));
      return;
    }
    try {
      done(undefined, parsed(`POST ${path}`, body));
    } catch (error) {
      done(error);
    }
  });
}
