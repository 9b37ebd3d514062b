/**
 * The facade: one object that knows where the server is and holds the generated APIs. It exists so that every refusal is
 * thrown as a `ProblemError`, and so that nobody has to assemble the generated runtime.
 */

import { CallbacksApi, LeasesApi, MessagesApi, SchedulesApi, ServiceApi, TopicsApi } from "./api/apis/index.js";
import { Configuration } from "./api/runtime.js";
import { ProblemError } from "./errors.js";

export interface ClientOptions {
  /** The server's URL; by default the environment's `DUEQ_SERVER`, or `http://127.0.0.1:8080`. */
  server?: string | undefined;
  /** Sent with every request, where the server wants one; by default the environment's `DUEQ_API_KEY`. */
  apiKey?: string | undefined;
  /** In place of Node's `fetch`, for the typed APIs (a worker uses `node:http`). */
  fetch?: typeof fetch;
}

/**
 * A client of one server. Requests are sent once and not repeated; a refusal is thrown as {@link ProblemError}, a broken
 * connection as what `fetch` throws.
 */
export class Client {
  readonly server: string;
  readonly apiKey: string | undefined;
  readonly messages: MessagesApi;
  readonly leases: LeasesApi;
  readonly topics: TopicsApi;
  readonly callbacks: CallbacksApi;
  readonly schedules: SchedulesApi;
  readonly service: ServiceApi;

  constructor(options: ClientOptions = {}) {
    this.server = (options.server || process.env["DUEQ_SERVER"] || "http://127.0.0.1:8080").replace(/\/+$/, "");
    this.apiKey = options.apiKey || process.env["DUEQ_API_KEY"] || undefined;
    if (!/^https?:$/.test(new URL(this.server).protocol)) throw new TypeError(`not an http(s) URL: ${this.server}`);
    const configuration = new Configuration({
      basePath: this.server,
      fetchApi: refusing(options.fetch ?? fetch),
      // Without this the generated runtime would wrap every error in one of its own.
      middleware: [{ onError: ({ error }) => Promise.reject(error) }],
      ...(this.apiKey === undefined ? {} : { accessToken: this.apiKey }),
    });
    this.messages = new MessagesApi(configuration);
    this.leases = new LeasesApi(configuration);
    this.topics = new TopicsApi(configuration);
    this.callbacks = new CallbacksApi(configuration);
    this.schedules = new SchedulesApi(configuration);
    this.service = new ServiceApi(configuration);
  }
}

/** A fetch that throws what is not 2xx. A Blob with a media type is sent as that type (`publishRaw`). */
function refusing(inner: typeof fetch): typeof fetch {
  return async (input, init) => {
    let sent = init;
    if (init?.body instanceof Blob && init.body.type !== "") {
      sent = { ...init, headers: { ...(init.headers as Record<string, string>), "Content-Type": init.body.type } };
    }
    const response = await inner(input, sent);
    if (response.ok) return response;
    throw ProblemError.of(response.status, await response.text(), response.headers.get("retry-after"));
  };
}
