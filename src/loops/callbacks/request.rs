//! Builds the request that carries a message, signed per Standard Webhooks (<https://www.standardwebhooks.com>).

use super::tokens::secret;
use bytes::Bytes;
use dueq_base::seeded;
use dueq_model::{
    Auth, AuthKind, Body, COMPLETES_HEADER, CallMethod, CallUrl, Content, Millis, Push, Retry,
    SIGNATURE, SignedParts, SigningKey, SigningSecret, TOPIC_SIGNATURE, TopicName, is_own_header,
    is_shared,
};
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{self, AUTHORIZATION},
};
use std::{collections::BTreeMap, time::Duration};

/// The request of a call.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// The receiver's URL.
    pub url: CallUrl,
    /// The HTTP method.
    pub method: CallMethod,
    /// Time limit for the whole call, from the name lookup to the end of the answer.
    pub timeout: Duration,
    /// Time limit for the name lookup, the connection and the TLS handshake, in place of the defaults.
    pub connect_timeout: Option<Duration>,
    /// Which failures are retried, in place of the rules of the API.
    pub retry: Option<Retry>,
    /// How it proves who is calling. The headers have it, except for a token.
    pub auth: Option<Auth>,
    /// The name of its client certificate.
    pub client_cert: Option<String>,
    /// Bytes of the answer's body that are kept, at most.
    pub keep_answer: usize,
    /// It carries many messages, and the answer may name those that failed.
    pub names_failed: bool,
    /// All headers except those that the HTTP client sets itself.
    pub headers: HeaderMap,
    /// The payload.
    pub body: Bytes,
    /// When the request was built, on Redis's clock (ms).
    pub now: Millis,
}

impl CallRequest {
    /// Adds the signatures by these keys.
    pub fn sign_by(&mut self, topic: &TopicName, keys: &[SigningKey]) {
        let header = |name| self.headers.get(name).map(HeaderValue::as_bytes).unwrap_or_default();
        let (id, timestamp) = (header("webhook-id"), header("webhook-timestamp"));
        let parts = SignedParts { id, timestamp, payload: &self.body };
        for (name, by_keys) in
            [(SIGNATURE, parts.sign_by(keys)), (TOPIC_SIGNATURE, parts.sign_topic_by(topic, keys))]
        {
            let by_secrets = self.headers.get(name).and_then(|value| value.to_str().ok());
            let all: Vec<&str> = by_secrets.into_iter().chain([by_keys.as_str()]).collect();
            if let Some(value) =
                HeaderValue::from_str(&all.join(" ")).ok().filter(|_| !keys.is_empty())
            {
                self.headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
}

/// Neither the message nor its topic has a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("callback_url_missing: neither the message nor its topic has a url")]
pub struct NoUrl;

/// Builds the request of a message's attempt, or that of a call for many messages, which is no attempt of its own. Stored secrets, whether they are sent or sign the request, are used only for
/// the origin that they were stored for. `instance_secrets`, derived for this scope, sign if neither the message nor the topic has secrets for this
/// origin. Without any secrets, the request is not signed.
pub fn build(
    id: &str,
    topic: &TopicName,
    attempt: Option<u32>,
    body: &Body,
    push: &Push,
    instance_secrets: &[SigningSecret],
    now: Millis,
) -> Result<CallRequest, NoUrl> {
    let callback = body.callback.as_ref();
    let url = callback.map(|callback| &callback.url).or(push.url.as_ref()).ok_or(NoUrl)?.clone();
    let method = callback.and_then(|callback| callback.method).unwrap_or(push.method);
    let timeout_ms = callback.and_then(|callback| callback.timeout_ms).unwrap_or(push.timeout_ms);
    let connect_ms = callback.and_then(|callback| callback.connect_timeout_ms);
    let connect_ms = connect_ms.or(push.connect_timeout_ms);
    let retry = callback.and_then(|callback| callback.retry.as_ref()).or(push.retry.as_ref());
    let (origin, belongs_to) = (url.origin(), push.origin());
    let of_push =
        belongs_to.is_some() && belongs_to == origin || seeded::bug("secrets for strangers");
    let of_body = body.secrets.as_ref().is_none_or(|secrets| secrets.origin == origin);
    let mut headers = HeaderMap::with_capacity(16);
    add(&mut headers, &push.headers, |name| push.is_secret(name), of_push);
    add(&mut headers, &body.headers, |name| body.masks(name, Some(push)), of_body);
    // A message's own header goes before what the topic says.
    let of_topic =
        || push.auth.as_ref().filter(|_| of_push && !headers.contains_key(AUTHORIZATION));
    let auth = callback.and_then(|callback| callback.auth.as_deref()).or_else(of_topic);
    if let Some(basic) = auth.filter(|auth| auth.kind == AuthKind::Basic)
        && let Ok(value) = secret(&basic.basic())
    {
        headers.insert(AUTHORIZATION, value);
    }
    let of_topic = || push.client_cert.as_ref().filter(|_| of_push);
    let own = callback.and_then(|callback| callback.client_cert.as_ref());
    let client_cert = own.or_else(of_topic).cloned();
    let payload = body.content.payload();
    let content_type = match &body.content {
        Content::Json(_) => Some(HeaderValue::from_static("application/json")),
        content => content.content_type().and_then(|text| HeaderValue::from_str(text).ok()),
    };
    if let Some(content_type) = content_type {
        headers.insert(header::CONTENT_TYPE, content_type);
    }
    if payload.is_empty()
        && matches!(method, CallMethod::Post | CallMethod::Put | CallMethod::Patch)
    {
        // Receivers expect a length with methods that define a body (RFC 9110, 8.6).
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    let agent = HeaderValue::from_static(concat!("dueq/", env!("CARGO_PKG_VERSION")));
    // A user's own `User-Agent` is kept.
    headers.entry(header::USER_AGENT).or_insert(agent);
    let timestamp = (now / 1_000).to_string();
    let own = callback.and_then(|callback| callback.secret.as_ref()).map(std::slice::from_ref);
    // A topic without a URL signs its messages for any origin.
    let shared = is_shared(topic, body.publisher.as_deref().unwrap_or_default());
    let signs = !push.secrets.is_empty() && !shared && (belongs_to.is_none() || of_push);
    let secrets = own.unwrap_or(if signs { &push.secrets } else { instance_secrets });
    let parts = SignedParts { id: id.as_bytes(), timestamp: timestamp.as_bytes(), payload };
    let signature = parts.sign(secrets);
    let of_topic = parts.sign_topic(topic, secrets);
    let attempt = attempt.map(|attempt| attempt.to_string()).unwrap_or_default();
    let completes = body.completes.map(|id| id.to_string()).unwrap_or_default();
    for (name, value) in [
        ("webhook-id", id),
        ("webhook-timestamp", &timestamp),
        (SIGNATURE, &signature),
        (TOPIC_SIGNATURE, &of_topic),
        ("dueq-topic", topic.as_str()),
        ("dueq-attempt", &attempt),
        (COMPLETES_HEADER, &completes),
    ] {
        // All values are ASCII. Those that do not apply are empty.
        if let Some(value) = HeaderValue::from_str(value).ok().filter(|value| !value.is_empty()) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    let time = |ms: Millis| Duration::from_millis(ms.max(0).unsigned_abs());
    let (timeout, connect_timeout) = (time(timeout_ms), connect_ms.map(time));
    let (retry, auth, body) = (retry.cloned(), auth.cloned(), payload.clone());
    let keep_answer = push.keep_answer_bytes as usize;
    Ok(CallRequest {
        url,
        method,
        timeout,
        connect_timeout,
        retry,
        auth,
        client_cert,
        keep_answer,
        names_failed: false,
        headers,
        body,
        now,
    })
}

/// Adds a user's headers and replaces those of the same name. Secret ones are added only if they are `for_this` origin.
fn add(
    headers: &mut HeaderMap,
    more: &BTreeMap<String, String>,
    is_secret: impl Fn(&str) -> bool,
    for_this: bool,
) {
    for (name, value) in more {
        let secret = is_secret(name);
        if secret && !for_this {
            continue;
        }
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        let Ok(mut value) = HeaderValue::from_bytes(value.as_bytes()) else { continue };
        if is_own_header(name.as_str()) {
            continue;
        }
        value.set_sensitive(secret);
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests;
