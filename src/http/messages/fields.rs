//! What requests say of a message, declared once for all that take one: publishing alone, in batches, as a bare body,
//! as a callback, by a schedule, and changing a message.

use super::{
    completion::{CompletionRequest, EndFields},
    fingerprint::fingerprint,
};
use crate::prelude::*;
use axum::http::{HeaderMap, HeaderName};
use bytes::Bytes;
use dueq_model::{
    Body, Callback, Content, Ends, MAX_ATTEMPTS_LIMIT, OCTETS, TraceContext, is_own_header,
};
use dueq_store::{Due, Idempotency, KeyUntil, MessageKey, MessageOptions, NewMessage, OnDuplicate};

const IDEMPOTENCY_KEY: &str = "idempotency_key";
const IDEMPOTENCY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// Grants that count before a message is dead.
pub type MaxAttempts = Bounded<1, MAX_ATTEMPTS_LIMIT>;

request! {
    /// When a message falls due.
    pub struct DueFields {
        /// Delay before the message is due, ms, up to ten years. 0 means now. Not with `deliver_at`.
        pub delay_ms: Option<DelayMs>,
        /// When the message is due: RFC 3339 with any offset, up to the year 9999. A time in the past means now.
        pub deliver_at: Option<Instant>,
    }
    check(fields) {
        if given(&delay_ms) && given(&deliver_at) {
            fields.refuse("deliver_at", "cannot be given together with delay_ms");
        }
    }
}

request! {
    /// A message's key and its group.
    pub struct KeyFields {
        /// The message's own name in its topic, 1 to 255 characters. At most one live message (delayed, ready or
        /// leased) has it.
        #[example = "order-42"]
        pub key: Option<Key>,
        /// What to do if a live message has the key. Default: `return`. Only with `key`.
        pub on_duplicate: Option<OnDuplicate>,
        /// How long the message holds its key. Default: `done`. Only with `key`.
        pub key_until: Option<KeyUntil>,
        /// A group, 1 to 255 characters. Messages of a group are leased in the order in which they were published, as
        /// many at a time as the topic's `group_concurrency`; or in turn with other groups, if its `group_order` is `fair`. In a
        /// topic of several partitions not with `key` or a policy for duplicates.
        #[example = "customer-7"]
        pub group: Option<Key>,
    }
    check(fields) {
        for (name, is_given) in
            [("on_duplicate", given(&on_duplicate)), ("key_until", given(&key_until))]
        {
            if is_given && !given(&key) {
                fields.refuse(name, "can only be given with key");
            }
        }
    }
}

request! {
    /// One message in place of many: each publish of a key moves it and replaces its content, until it is granted.
    #[example = json!({"key": "article/7", "delay_ms": 10_000, "max_wait_ms": 60_000})]
    pub struct DebounceRequest {
        /// The message's key in its topic, 1 to 255 characters.
        #[example = "article/7"]
        pub key: Key,
        /// Delay before the message is due, from its latest publish on, ms.
        pub delay_ms: DurationMs,
        /// The message is due no later than this long after its first publish, ms.
        pub max_wait_ms: Option<DurationMs>,
    }
}

request! {
    /// At most one message for each interval: the first at once, and the latest content of the others at the end of the
    /// interval, where the next one begins.
    #[example = json!({"key": "user/42", "every_ms": 60_000})]
    pub struct ThrottleRequest {
        /// Names what is throttled in its topic, 1 to 255 characters.
        #[example = "user/42"]
        pub key: Key,
        /// The interval, ms.
        pub every_ms: DurationMs,
    }
}

request! {
    /// One message for a time: a repeat gets the first answer, whatever its content.
    #[example = json!({"key": "welcome/42", "for_ms": 86_400_000})]
    pub struct OnceRequest {
        /// Names what is published once in its topic, 1 to 255 characters.
        #[example = "welcome/42"]
        pub key: Key,
        /// How long the first publish answers, ms.
        pub for_ms: DurationMs,
    }
}

request! {
    /// When a new message falls due, and what becomes of a repeat.
    pub struct PublishFields {
        pub due: Flat<DueFields>,
        /// Publish when it has been quiet for a while. At most one of `debounce`, `throttle` and `once`, and not with `key`,
        /// `on_duplicate`, `key_until`, `idempotency_key`, `delay_ms` or `deliver_at`.
        pub debounce: Option<DebounceRequest>,
        /// Publish at most once per interval. Not with the fields that `debounce` excludes.
        pub throttle: Option<ThrottleRequest>,
        /// Publish once within a time. Not with the fields that `debounce` excludes, except `delay_ms` and `deliver_at`.
        pub once: Option<OnceRequest>,
        /// Makes the request safe to repeat: during the topic's `idempotency_window_ms`, a repeat gets the first
        /// answer. The header `Idempotency-Key` does the same.
        pub idempotency_key: Option<Key>,
        /// The trace that the message is published in, as a W3C `traceparent`. It is kept if the trace is recorded, and
        /// is no part of what an idempotency key stands for. Default: the header of this name, if the server traces.
        #[example = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]
        pub traceparent: Option<TraceContext>,
    }
}

/// Refuses what a named policy says itself: another policy, a key, an idempotency key, and a due time if it has one.
pub fn check_policies(
    fields: &mut Fields<'_>,
    key: Option<&Flat<KeyFields>>,
    publish: Option<&Flat<PublishFields>>,
) {
    let (Some(key), Some(publish)) = (key, publish) else { return };
    let policies = [
        ("debounce", publish.debounce.is_some()),
        ("throttle", publish.throttle.is_some()),
        ("once", publish.once.is_some()),
    ];
    let mut policies = policies.into_iter().filter_map(|(name, given)| given.then_some(name));
    let Some(policy) = policies.next() else { return };
    let others = [
        ("key", key.key.is_some()),
        ("on_duplicate", key.on_duplicate.is_some()),
        ("key_until", key.key_until.is_some()),
        (IDEMPOTENCY_KEY, publish.idempotency_key.is_some()),
        ("delay_ms", publish.due.delay_ms.is_some() && policy != "once"),
        ("deliver_at", publish.due.deliver_at.is_some() && policy != "once"),
    ];
    let others = others.into_iter().filter_map(|(name, given)| given.then_some(name));
    for name in policies.chain(others) {
        fields.refuse(name, format!("cannot be given together with {policy}"));
    }
}

/// Among ready messages, higher goes first.
pub type Priority = Bounded<0, 255>;

request! {
    /// How long and how often a message is tried.
    pub struct LifeFields {
        /// Time to live, counted from when the message first fell due, ms. Default: the topic's.
        pub ttl_ms: Resettable<DurationMs>,
        /// Attempts before the message is dead. Default: the topic's.
        pub max_attempts: Resettable<MaxAttempts>,
    }
}

request! {
    /// How a message is treated.
    pub struct PolicyFields {
        /// 0 to 255. Among ready messages, higher goes first. Default for a new message: 0.
        pub priority: Option<Priority>,
        pub life: Flat<LifeFields>,
    }
}

request! {
    /// What a message holds, and what else only a JSON body can say of it.
    pub struct ContentFields {
        /// Any JSON value, including null. It is stored and delivered byte for byte. Its size is limited by the topic's
        /// `max_payload_bytes` (default 262144).
        pub payload: AnyValue,
        /// Bytes in place of `payload`, in standard base64 with padding.
        #[example = "aGVsbG8="]
        pub payload_base64: Option<Base64>,
        /// Media type of the bytes. Default: `application/octet-stream`. Only with `payload_base64`.
        pub content_type: Option<MediaType>,
        /// Up to 32 headers, 8 KiB together. Names are HTTP tokens, and values are legal in HTTP. They are returned
        /// with the lease, or sent with the callback; then `host`, `content-length`, `content-type`, hop-by-hop
        /// headers, `webhook-*` and `dueq-*` are refused. When a message or a schedule is replaced or changed, `***`
        /// keeps the stored value of a secret header while the message goes to the same origin.
        pub headers: Option<Headers>,
        /// How long the message waits after a failure. Default: the topic's.
        pub backoff: Resettable<BackoffRequest>,
    }
    check(fields) {
        let is_bytes = given(&payload_base64);
        if is_bytes && matches!(payload, Some(AnyValue(Some(_)))) {
            fields.refuse("payload_base64", "cannot be given together with payload");
        }
        if given(&content_type) && !is_bytes {
            fields.refuse("content_type", "can only be given with payload_base64");
        }
    }
}

/// What every new message may say. Not a request itself, so that what is wrong with one part hides nothing of the others.
pub struct MessageFields {
    pub content: Flat<ContentFields>,
    pub key: Flat<KeyFields>,
    pub policy: Flat<PolicyFields>,
    pub ends: EndFields,
}

impl DueFields {
    /// When the message falls due, where it is said.
    pub fn due(&self) -> Option<Due> {
        let delay = self.delay_ms.map(|delay| Due::After(delay.millis()));
        delay.or(self.deliver_at.map(|instant| Due::At(instant.0)))
    }
}

impl KeyFields {
    /// The group, where there is one.
    pub fn take_group(&mut self) -> Option<String> {
        self.group.take().map(Key::into_string)
    }

    /// The key, where there is one.
    pub fn key(self) -> Option<MessageKey> {
        Some(MessageKey {
            name: self.key?.into_string(),
            on_duplicate: self.on_duplicate.unwrap_or_default(),
            until: self.key_until.unwrap_or_default(),
            max_wait_ms: None,
        })
    }
}

impl ContentFields {
    /// Is there a payload or bytes?
    pub fn has_content(&self) -> bool {
        self.payload.0.is_some() || self.payload_base64.is_some()
    }

    /// Bytes of this media type.
    pub fn bytes(data: Bytes, media_type: MediaType) -> Self {
        Self {
            payload: AnyValue(None),
            payload_base64: Some(Base64(data)),
            content_type: Some(media_type),
            headers: None,
            backoff: Resettable(None),
        }
    }

    /// The payload or the bytes, where there are any.
    pub fn take_content(&mut self) -> Option<Content> {
        let json = self.payload.0.take().map(Content::Json);
        json.or_else(|| {
            let media_type = self.content_type.take().map(|media_type| media_type.0);
            let content_type = media_type.unwrap_or_else(|| OCTETS.to_owned());
            self.payload_base64.take().map(|data| Content::Bytes { data: data.0, content_type })
        })
    }
}

/// The message that a request says, with its idempotency key, whose fingerprint covers all else.
pub fn new_message(
    message: MessageFields,
    publish: Option<PublishFields>,
    callback: Option<Callback>,
) -> NewMessage {
    let (mut content, mut key, policy) = (message.content.0, message.key.0, message.policy.0);
    let data = content.take_content().unwrap_or_else(Content::nothing);
    let headers = content.headers.unwrap_or_default().0;
    let trace = publish.as_ref().and_then(|publish| publish.traceparent);
    let completion = |request: Option<CompletionRequest>| request.map(|it| Box::new(it.into()));
    let (on_done, on_dead) = (completion(message.ends.on_done), completion(message.ends.on_dead));
    let body = Body { callback, trace, on_done, on_dead, ..Body::new(data, headers) };
    let options = MessageOptions {
        priority: policy.priority.map_or(0, Into::into),
        max_attempts: policy.life.0.max_attempts.value().map(Into::into),
        ttl_ms: policy.life.0.ttl_ms.value().map(Into::into),
        backoff: content.backoff.value().map(Into::into),
        group: key.take_group(),
        ends: Ends::default(),
        key: key.key(),
        idempotency: None,
    };
    let due = publish.as_ref().and_then(|publish| publish.due.due()).unwrap_or(Due::After(0));
    let mut message = NewMessage { body, due, options };
    let Some(publish) = publish else { return message };
    if let Some(DebounceRequest { key, delay_ms, max_wait_ms }) = publish.debounce {
        let max_wait_ms = max_wait_ms.map(Bounded::millis);
        message.due = Due::After(delay_ms.millis());
        message.options.key = Some(MessageKey::debounced(key.into_string(), max_wait_ms));
    }
    let throttle = publish.throttle.map(|it| Idempotency::throttle(&it.key, it.every_ms.millis()));
    let once = publish.once.map(|it| Idempotency::once(&it.key, it.for_ms.millis()));
    let request = publish.idempotency_key.map(|key| Idempotency {
        fingerprint: fingerprint(&message),
        key: key.into_string().into_bytes().into(),
        window_ms: None,
    });
    message.options.idempotency = throttle.or(once).or(request);
    message
}

/// For a message that must have a content.
pub fn require_content(fields: &mut Fields<'_>, content: &ContentFields) {
    if !content.has_content() {
        fields.refuse("payload", "is required, or payload_base64 in its place");
    }
}

/// Refuses, among the headers of what is called, those that users cannot set. `place` is the path to them.
pub fn refuse_own_headers(fields: &mut Fields<'_>, headers: Option<&Headers>, place: &str) {
    for name in headers.iter().flat_map(|headers| headers.0.keys()) {
        if is_own_header(name) {
            let FieldError { field, reason } = own_header(format!("{place}headers.{name}"));
            fields.refuse(&field, reason);
        }
    }
}

/// Takes the `Idempotency-Key` header for the field that means the same.
pub fn take_idempotency_header<'a>(fields: &mut Fields<'a>, headers: &'a HeaderMap) {
    let mut values = headers.get_all(IDEMPOTENCY_HEADER).iter();
    let Some(value) = values.next() else { return };
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) if values.next().is_none() => {
            fields.also(IDEMPOTENCY_KEY, text, "the header Idempotency-Key");
        }
        Ok(_) => fields.refuse(IDEMPOTENCY_KEY, "the header Idempotency-Key is given twice"),
        Err(_) => fields.refuse(IDEMPOTENCY_KEY, "the header Idempotency-Key is not UTF-8"),
    }
}

/// For a batch, whose messages have keys of their own.
pub fn refuse_idempotency_header(fields: &mut Fields<'_>, headers: &HeaderMap) {
    if headers.contains_key(IDEMPOTENCY_HEADER) {
        let reason = "the header Idempotency-Key cannot be given with a batch, but each message can have its own key";
        fields.refuse(IDEMPOTENCY_KEY, reason);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::publish::PublishRequest, *};
    use axum::http::HeaderValue;

    /// The message that a body and its header say, or the names of what is wrong.
    fn read(text: &'static str, headers: &[&'static str]) -> Result<NewMessage, Vec<String>> {
        let body = Bytes::from_static(text.as_bytes());
        let value = |value: &&'static str| (IDEMPOTENCY_HEADER, HeaderValue::from_static(value));
        let headers: HeaderMap = headers.iter().map(value).collect();
        let mut fields = Fields::of_json(&body).unwrap();
        take_idempotency_header(&mut fields, &headers);
        let named = |problem: crate::problem::Problem| {
            problem.body("").errors.into_iter().map(|e| e.field).collect()
        };
        fields.read().map(PublishRequest::into_message).map_err(named)
    }

    #[test]
    fn what_is_said_explicitly_is_the_same_as_the_default() {
        let short = read(r#"{"payload":1,"key":"k","idempotency_key":"a"}"#, &[]).unwrap();
        let long = r#"{"payload":1.0,"key":"k","on_duplicate":"return","key_until":"done","delay_ms":0,
            "priority":0,"headers":{},"ttl_ms":null,"deliver_at":null}"#;
        let long = read(long, &["a"]).unwrap();
        assert_eq!((&short.options, short.due), (&long.options, long.due));
        assert!(short.options.idempotency.is_some());
        assert!(read(r#"{"payload":1}"#, &[]).unwrap().options.idempotency.is_none());
    }

    #[test]
    fn contradictions_are_refused_by_name() {
        for (text, headers, field) in [
            (r#"{"payload":1,"idempotency_key":"a"}"#, &["b"][..], "idempotency_key"),
            (r#"{"payload":1}"#, &["a", "a"], "idempotency_key"),
            (r#"{"payload":1}"#, &[""], "idempotency_key"),
            (r#"{"payload":1,"on_duplicate":"replace"}"#, &[], "on_duplicate"),
            (r#"{"payload":1,"key":null,"key_until":"granted"}"#, &[], "key_until"),
            (r#"{"payload":1,"key":""}"#, &[], "key"),
            (r#"{"payload":1,"key":"k","on_duplicate":"maybe"}"#, &[], "on_duplicate"),
            (r#"{"payload":1,"ttl_ms":0}"#, &[], "ttl_ms"),
            (r#"{"payload":1,"backoff":{"kind":"fixed"}}"#, &[], "backoff.base_ms"),
            ("{}", &[], "payload"),
            (r#"{"payload_base64":"?"}"#, &[], "payload_base64"),
            (r#"{"payload":1,"headers":{"a b":"c"}}"#, &[], "headers.a b"),
        ] {
            let names = read(text, headers).map(drop);
            assert_eq!(names, Err(vec![field.to_owned()]), "{text}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let text = r#"{"payload":1,"payload_base64":"AA==","delay_ms":-1,"deliver_at":"2100-01-01T00:00:00Z",
            "priority":256,"nope":1,"key_until":"done","headers":{"te":"x"},"callback":{"url":7}}"#;
        let mut names = read(text, &[]).map(drop).unwrap_err();
        names.sort();
        let all = ["callback.url", "delay_ms", "deliver_at", "headers.te", "key_until", "nope"];
        assert_eq!(names, [&all[..], &["payload_base64", "priority"]].concat());
    }

    #[test]
    fn headers_of_the_request_itself_are_not_the_users() {
        for (name, refused) in [
            ("Host", true),
            ("CONTENT-type", true),
            ("Proxy-Anything", true),
            ("webhook-id", true),
            ("Dueq-Attempt", true),
            ("transfer-encoding", true),
            ("x-host", false),
            ("webhooks", false),
            ("authorization", false),
            ("user-agent", false),
        ] {
            assert_eq!(is_own_header(name), refused, "{name}");
        }
    }
}
