/** Checks the signature of what dueq, or anybody who signs by Standard Webhooks, sends to a URL. */

import { createHmac, createPublicKey, timingSafeEqual, verify as verifyBy } from "node:crypto";

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
 * a short time ago. A topic in the header `dueq-topic` is verified, too: topics that share a secret are told apart by it. It is
 * absent where the request is not from dueq.
 *
 * @param body The body as it came, before it is parsed.
 * @param headers The request's headers, names in any case.
 * @param secret `whsec_…`: what `dueq keys secret` prints, or one of the topic's `push.secrets`. Or a public key of dueq's, `whpk_…`.
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

  const signed = (name: string, given: string, ...parts: (string | Uint8Array)[]): boolean => {
    const found = given.split(" ").map((signature) => signature.split(",", 2));
    if (!keys.some((key) => found.some(([version]) => version === key.version))) {
      throw new WebhookError(`${name} has no signature of version ${keys.map((key) => key.version).join(" or ")}`);
    }
    const bytes = Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part) : part)));
    return keys.some((key) => {
      const isRight = key.verifier(bytes);
      return found.some(([version, text = ""]) => version === key.version && isRight(Buffer.from(text, "base64")));
    });
  };
  if (!signed("webhook-signature", signatures, `${id}.${timestamp}.`, body)) {
    throw new WebhookError("no signature of the request is of this body and secret");
  }
  // dueq signs the topic apart from the body.
  if (value(headers, "dueq-topic") === undefined && value(headers, "dueq-signature") === undefined) return;
  const topic = header(headers, "dueq-topic");
  if (!signed("dueq-signature", header(headers, "dueq-signature"), `${id}:${timestamp}:${topic}`)) {
    throw new WebhookError("no signature in dueq-signature is of this topic and secret");
  }
}

interface Key {
  /** That of its signatures. */
  version: string;
  /** What says whether a signature is right for these bytes. */
  verifier(signed: Buffer): (signature: Buffer) => boolean;
}

function keyOf(secret: string): Key {
  const [, kind, base64 = ""] =
    (typeof secret === "string" && /^(whsec_|whpk_)([A-Za-z0-9+/]+={0,2})$/.exec(secret)) || [];
  // Node decodes what is cut off, at worst to the empty key, by which anybody can sign.
  const key = base64.length % 4 === 0 ? Buffer.from(base64, "base64") : Buffer.alloc(0);
  if (kind === "whpk_" && key.length === 32) {
    const jwk = { kty: "OKP", crv: "Ed25519", x: key.toString("base64url") };
    const publicKey = createPublicKey({ key: jwk, format: "jwk" });
    return { version: "v1a", verifier: (signed) => (signature) => verifyBy(null, signed, publicKey, signature) };
  }
  if (kind !== "whsec_" || key.length === 0) throw new TypeError("a secret is whsec_ and base64, a public key whpk_ and 32 bytes");
  return {
    version: "v1",
    verifier: (signed) => {
      const wanted = createHmac("sha256", key).update(signed).digest();
      return (one) => one.length === wanted.length && timingSafeEqual(one, wanted);
    },
  };
}

function value(headers: WebhookHeaders, name: string): string | undefined {
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  const found = entries.find(([key]) => key.toLowerCase() === name)?.[1];
  return typeof found === "object" ? found.join(" ") : found;
}

function header(headers: WebhookHeaders, name: string): string {
  const found = value(headers, name);
  if (!found) throw new WebhookError(`the request has no ${name}: it is not signed`);
  return found;
}
