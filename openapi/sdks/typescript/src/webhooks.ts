/** Checks the signature of what dueq, or anybody who signs by Standard Webhooks, sends to a URL. */

import { createHmac, timingSafeEqual } from "node:crypto";

/** A request is not from who it says, or too old; `message` says what was wrong with it. */
export class WebhookError extends Error {
  override readonly name = "WebhookError";
}

/** A request's headers: of `node:http`, of `fetch`, or by name. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/** The options of {@link verify}. */
export interface VerifyOptions {
  /** How far the request's time may be from this machine's, either way, ms; 300000, which is five minutes. */
  toleranceMs?: number | undefined;
}

/**
 * Throws a {@link WebhookError} unless the request was signed with the secret, or with one of several while they are rotated,
 * a short time ago.
 *
 * @param body The body as it came, before it is parsed.
 * @param headers The request's headers, names in any case.
 * @param secret `whsec_…`: what `dueq keys secret` prints, or one of the topic's `push.secrets`.
 */
export function verify(
  body: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  options: VerifyOptions = {},
): void {
  if (typeof body !== "string" && !(body instanceof Uint8Array)) {
    throw new TypeError("the body is a string or a Uint8Array, as it came: parse it after it was verified");
  }
  const keys = (typeof secret === "object" ? secret : [secret]).map(keyOf);
  if (keys.length === 0) throw new TypeError("verify needs a secret");
  const id = header(headers, "webhook-id");
  const timestamp = header(headers, "webhook-timestamp");
  const signatures = header(headers, "webhook-signature");

  if (!/^\d{1,12}$/.test(timestamp)) throw new WebhookError(`webhook-timestamp is no number of seconds: ${timestamp}`);
  const { toleranceMs = 300_000 } = options;
  const ageMs = Date.now() - Number(timestamp) * 1000;
  if (!(Math.abs(ageMs) <= toleranceMs)) {
    const when = ageMs > 0 ? "old" : "ahead of this machine's clock";
    throw new WebhookError(
      `the request is ${Math.round(Math.abs(ageMs) / 1000)} s ${when}, more than ${toleranceMs} ms`,
    );
  }

  const given = signatures.split(" ").filter((signature) => signature.startsWith("v1,"));
  if (given.length === 0) throw new WebhookError("webhook-signature has no signature of version v1");
  const bytes = given.map((signature) => Buffer.from(signature.slice(3), "base64"));
  for (const key of keys) {
    const wanted = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
    if (bytes.some((found) => found.length === wanted.length && timingSafeEqual(found, wanted))) return;
  }
  throw new WebhookError("no signature of the request is of this body and secret");
}

function keyOf(secret: string): Buffer {
  const base64 = typeof secret === "string" ? /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret)?.[1] : undefined;
  // Node decodes what is cut off, at worst to the empty key, by which anybody can sign.
  if (base64 === undefined || base64.length % 4 !== 0) throw new TypeError("a secret is whsec_ and base64");
  return Buffer.from(base64, "base64");
}

function header(headers: WebhookHeaders, name: string): string {
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  const found = entries.find(([key]) => key.toLowerCase() === name)?.[1];
  const value = typeof found === "object" ? found.join(" ") : found;
  if (!value) throw new WebhookError(`the request has no ${name}: it is not signed`);
  return value;
}
