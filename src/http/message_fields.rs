//! What a message says, read once for all routes that take one: publishing alone, in batches, as a bare body, and
//! changing a message.

use super::{
    backoff::read_backoff,
    callback_fields::{read_callback, refuse_own_headers},
    fields::Fields,
    fingerprint::fingerprint,
};
use crate::model::{
    Body, Content, MAX_ATTEMPTS_LIMIT, MAX_DELAY_MS, MAX_HEADERS_BYTES, MAX_KEY_CHARS, Millis,
    OCTETS, parse_instant,
};
use crate::store::{
    Due, Idempotency, KeyUntil, MessageKey, MessageOptions, NewMessage, OnDuplicate,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use std::{borrow::Cow, collections::BTreeMap};

const MAX_HEADERS: usize = 32;
const MAX_CONTENT_TYPE: usize = 255;

const IDEMPOTENCY_KEY: &str = "idempotency_key";
const IDEMPOTENCY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// How the document describes the idempotency key's header.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code, reason = "describes the header; it is read by `read_idempotency_header`")]
pub struct IdempotencyParams {
    /// The same as `idempotency_key` in the body; only one of the two, or both alike.
    #[param(rename = "Idempotency-Key", nullable = false, min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
}

/// Reads a whole message from a JSON object within `body`.
pub(super) fn read_message(
    fields: &mut Fields<'_>,
    body: &Bytes,
    header: Option<String>,
) -> NewMessage {
    let bytes = fields.has("payload_base64");
    let content = read_content(fields, body);
    if content.is_none() && !bytes {
        fields.refuse("payload", "is required, or payload_base64 in its place");
    }
    // Where there is none that was noted, and the message goes nowhere.
    let content = content.unwrap_or(Content::Json(Bytes::from_static(b"null")));
    let callback = read_callback(fields, "callback");
    let message = read_said(fields, Body { callback, ..Body::new(content, BTreeMap::new()) });
    with_idempotency(message, fields, header)
}

/// Reads what a message of this content says beside it, its headers included and its idempotency key apart.
pub(super) fn read_said(fields: &mut Fields<'_>, body: Body) -> NewMessage {
    let due = read_due(fields).unwrap_or(NOW);
    let mut options = read_scalars(fields);
    options.backoff = read_backoff(fields, "backoff");
    let headers = read_headers(fields).unwrap_or_default();
    if body.callback.is_some() {
        refuse_own_headers(fields, &headers);
    }
    NewMessage { body: Body { headers, ..body }, due, options }
}

/// Due unless told otherwise.
const NOW: Due = Due::After(0);

/// Reads what a bare body cannot say from the query.
pub(super) fn read_raw_message(
    fields: &mut Fields<'_>,
    content: Content,
    header: Option<String>,
) -> NewMessage {
    let due = read_due(fields).unwrap_or(NOW);
    let options = read_scalars(fields);
    let body = Body::new(content, BTreeMap::new());
    with_idempotency(NewMessage { body, due, options }, fields, header)
}

/// The `Idempotency-Key` header.
pub(super) fn read_idempotency_header(
    fields: &mut Fields<'_>,
    headers: &HeaderMap,
) -> Option<String> {
    let mut values = headers.get_all(IDEMPOTENCY_HEADER).iter();
    let value = values.next()?;
    if values.next().is_some() {
        fields.refuse(IDEMPOTENCY_KEY, "the header Idempotency-Key is given more than once");
        return None;
    }
    let text = std::str::from_utf8(value.as_bytes()).ok();
    let key = text.filter(|text| (1..=MAX_KEY_CHARS).contains(&text.chars().count()));
    if key.is_none() {
        let reason =
            format!("the header Idempotency-Key must have 1 to {MAX_KEY_CHARS} characters");
        fields.refuse(IDEMPOTENCY_KEY, reason);
    }
    key.map(str::to_owned)
}

/// For a batch, whose messages have keys of their own.
pub(super) fn refuse_idempotency_header(fields: &mut Fields<'_>, headers: &HeaderMap) {
    if headers.contains_key(IDEMPOTENCY_HEADER) {
        let reason = "the header Idempotency-Key cannot be given with a batch, but each message can have its own key";
        fields.refuse(IDEMPOTENCY_KEY, reason);
    }
}

/// Reads the idempotency key, `header` being the other place where it may stand. To come last: it stands for all else
/// that the message says.
pub(super) fn with_idempotency(
    mut message: NewMessage,
    fields: &mut Fields<'_>,
    header: Option<String>,
) -> NewMessage {
    let field = fields.string(IDEMPOTENCY_KEY, 1..=MAX_KEY_CHARS).map(Cow::into_owned);
    if let (Some(field), Some(header)) = (&field, &header)
        && field != header
    {
        fields.refuse(IDEMPOTENCY_KEY, "differs from the header Idempotency-Key");
    }
    if let Some(key) = field.or(header) {
        let fingerprint = fingerprint(&message);
        let key = key.into_bytes().into();
        message.options.idempotency = Some(Idempotency { key, fingerprint, window_ms: None });
    }
    message
}

/// Reads `delay_ms` or `deliver_at`.
pub(super) fn read_due(fields: &mut Fields<'_>) -> Option<Due> {
    let both = fields.has("delay_ms") && fields.has("deliver_at");
    let delay = fields.integer("delay_ms", 0..=MAX_DELAY_MS);
    let mut due = delay.map(|delay| Due::After(delay as Millis));
    if let Some(text) = fields.string("deliver_at", 0..=64) {
        match parse_instant(&text) {
            Ok(instant) => due = Some(Due::At(instant)),
            Err(error) => fields.refuse("deliver_at", error.to_string()),
        }
    }
    if both {
        fields.refuse("deliver_at", "cannot be given together with delay_ms");
    }
    due
}

/// Reads `priority`.
pub(super) fn read_priority(fields: &mut Fields<'_>) -> Option<u8> {
    fields.integer("priority", 0..=255).map(|priority| priority as u8)
}

/// Reads `max_attempts`, or whatever it is called.
pub(super) fn read_max_attempts(fields: &mut Fields<'_>, name: &str) -> Option<u16> {
    fields.integer(name, 1..=MAX_ATTEMPTS_LIMIT).map(|attempts| attempts as u16)
}

/// Reads `ttl_ms`, or whatever it is called.
pub(super) fn read_ttl(fields: &mut Fields<'_>, name: &str) -> Option<Millis> {
    fields.integer(name, 1..=MAX_DELAY_MS).map(|ttl| ttl as Millis)
}

/// The options that are single values, the idempotency key apart.
fn read_scalars(fields: &mut Fields<'_>) -> MessageOptions {
    MessageOptions {
        priority: read_priority(fields).unwrap_or(0),
        max_attempts: read_max_attempts(fields, "max_attempts"),
        ttl_ms: read_ttl(fields, "ttl_ms"),
        backoff: None,
        key: read_key(fields),
        idempotency: None,
    }
}

fn read_key(fields: &mut Fields<'_>) -> Option<MessageKey> {
    if !fields.has("key") {
        for dependent in ["on_duplicate", "key_until"] {
            if fields.has(dependent) {
                fields.refuse(dependent, "can only be given with key");
            }
        }
    }
    let on_duplicate = fields.choice(
        "on_duplicate",
        &[
            ("return", OnDuplicate::Return),
            ("reject", OnDuplicate::Reject),
            ("replace", OnDuplicate::Replace),
        ],
    );
    let until =
        fields.choice("key_until", &[("done", KeyUntil::Done), ("granted", KeyUntil::Granted)]);
    let name = fields.string("key", 1..=MAX_KEY_CHARS)?.into_owned();
    let (on_duplicate, until) = (on_duplicate.unwrap_or_default(), until.unwrap_or_default());
    Some(MessageKey { name, on_duplicate, until })
}

/// Reads `headers`.
pub(super) fn read_headers(fields: &mut Fields<'_>) -> Option<BTreeMap<String, String>> {
    let headers = fields.string_map("headers")?;
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > MAX_HEADERS || bytes > MAX_HEADERS_BYTES {
        fields.refuse("headers", "must be at most 32 headers of 8192 bytes together");
    }
    for (name, value) in headers.iter().take(MAX_HEADERS) {
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            fields.refuse(&format!("headers.{name}"), "is no HTTP header name");
        } else if HeaderValue::from_bytes(value.as_bytes()).is_err() {
            fields.refuse(&format!("headers.{name}"), "is no value for an HTTP header");
        }
    }
    Some(headers)
}

/// Reads `payload`, as a slice of the request's body so that it is not copied, or `payload_base64`. None where there is
/// neither, or it was refused.
pub(super) fn read_content(fields: &mut Fields<'_>, body: &Bytes) -> Option<Content> {
    let bytes = fields.has("payload_base64");
    let content_type = fields.string("content_type", 1..=MAX_CONTENT_TYPE);
    let base64 = fields.string("payload_base64", 0..=usize::MAX);
    if let Some(content_type) = &content_type
        && !is_media_type(content_type)
    {
        fields.refuse("content_type", "must be a media type such as image/png");
    }
    if content_type.is_some() && !bytes {
        fields.refuse("content_type", "can only be given with payload_base64");
    }
    let json = fields.raw("payload");
    match (json, base64) {
        (Some(json), None) if !bytes => Some(Content::Json(body.slice_ref(json.get().as_bytes()))),
        (None, Some(base64)) => match STANDARD.decode(base64.as_bytes()) {
            Ok(data) => {
                let content_type = content_type.unwrap_or(Cow::Borrowed(OCTETS)).into_owned();
                Some(Content::Bytes { data: data.into(), content_type })
            }
            Err(_) => {
                fields.refuse("payload_base64", "must be standard base64 with padding");
                None
            }
        },
        (Some(_), _) => {
            fields.refuse("payload_base64", "cannot be given together with payload");
            None
        }
        (None, None) => None,
    }
}

/// `type/subtype`, maybe with parameters, in visible ASCII.
pub(super) fn is_media_type(text: &str) -> bool {
    let (essence, _) = text.split_once(';').unwrap_or((text, ""));
    let is_token = |token: &str| HeaderName::from_bytes(token.as_bytes()).is_ok();
    text.len() <= MAX_CONTENT_TYPE
        && HeaderValue::from_str(text).is_ok()
        && essence
            .trim()
            .split_once('/')
            .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message that a body and its header say, or the names of what is wrong.
    fn read(text: &'static str, headers: &[&'static str]) -> Result<NewMessage, Vec<String>> {
        let body = Bytes::from_static(text.as_bytes());
        let value = |value: &&'static str| (IDEMPOTENCY_HEADER, HeaderValue::from_static(value));
        let headers: HeaderMap = headers.iter().map(value).collect();
        let mut fields = Fields::of_json(&body).unwrap();
        let header = read_idempotency_header(&mut fields, &headers);
        let message = read_message(&mut fields, &body, header);
        match fields.finish() {
            Ok(()) => Ok(message),
            Err(problem) => Err(problem.body("").errors.into_iter().map(|e| e.field).collect()),
        }
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
}
