//! What a body says of a schedule.

use super::{
    AppState,
    backoff::BackoffRequest,
    callback_fields::{CallbackRequest, read_new_callback},
    fields::Fields,
    message_fields::{read_content, read_said},
    problem::Problem,
    publish::{KeyUntil, OnDuplicate},
};
use crate::{
    error::Error,
    model::{
        Body, CatchUp, Content, CronTiming, DEFAULT_PAYLOAD_BYTES, MAX_CRON_CHARS, MAX_DELAY_MS,
        MAX_PAYLOAD_BYTES, MAX_TIMEZONE_CHARS, MIN_EVERY_MS, Millis, Push, Timing, TopicName,
        is_credential, parse_timezone,
    },
    store::{NewMessage, Schedule, ScheduleSpec},
};
use bytes::Bytes;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What is published again and again, and when. Exactly one of `cron` and `every_ms`, and of `topic` and `callback`.
#[derive(ToSchema)]
#[schema(example = json!({"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "topic": "reports",
    "message": {"payload": {"report": "daily"}}}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct PutScheduleRequest {
    /// Minute, hour, day of the month, month, day of the week; with a sixth field before them also seconds. Names (`JAN`,
    /// `MON`), ranges, lists, steps, `L`, `W` and `#` are understood; where both days are given, one of them is enough.
    #[schema(min_length = 9, max_length = 256, example = "0 9 * * MON-FRI")]
    cron: Option<String>,
    /// The IANA name of the time zone in which `cron` is meant, `UTC` unless given. A time of day that the change to
    /// summer time leaves out comes once, right after the gap; one that comes twice counts once.
    #[schema(max_length = 64, example = "Europe/Berlin")]
    timezone: Option<String>,
    /// Ticks so far apart, ms, the first one as long after now. Put again unchanged, they go on as they were.
    #[schema(minimum = 1_000, maximum = 315_360_000_000_i64)]
    every_ms: Option<i64>,
    /// Where the messages go.
    #[schema(max_length = 128, example = "reports")]
    topic: Option<String>,
    /// In place of a topic: dueq itself sends the messages there.
    #[schema(value_type = Option<CallbackRequest>)]
    callback: Option<()>,
    /// What each tick publishes; may be left out with `callback`: the body is empty then.
    #[schema(value_type = Option<ScheduledMessageRequest>)]
    message: Option<()>,
    /// What becomes of ticks that nobody could make in time: the latest is made up for, or none (but for one that is no
    /// more than 2 s late), or all of them, the latest 1000.
    #[schema(default = "one")]
    catch_up: Option<CatchUp>,
}

/// A message that a schedule publishes. Exactly one of `payload` and `payload_base64`; with the schedule's `callback` both
/// may be left out.
#[derive(ToSchema)]
#[schema(example = json!({"payload": {"report": "daily"}, "priority": 5}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct ScheduledMessageRequest {
    /// Any JSON value; it is published byte for byte as sent. At most the topic's `max_payload_bytes`.
    #[schema(value_type = super::openapi::AnyJson, required = false)]
    payload: Option<()>,
    /// Bytes in place of `payload`, in standard base64 with padding.
    #[schema(content_encoding = "base64", example = "aGVsbG8=")]
    payload_base64: Option<String>,
    /// Media type of the bytes, `application/octet-stream` unless given; only with `payload_base64`.
    #[schema(max_length = 255)]
    content_type: Option<String>,
    /// 0…255: among ready messages higher goes first.
    #[schema(minimum = 0, maximum = 255, default = 0)]
    priority: Option<i64>,
    /// The messages' own name in their topic: a tick that comes while the message of an earlier one lives is a duplicate.
    #[schema(min_length = 1, max_length = 255)]
    key: Option<String>,
    /// What happens then: the living message answers for the tick, the tick publishes nothing, or the message gets the
    /// schedule's content, options and due time in place. Only with `key`.
    on_duplicate: Option<OnDuplicate>,
    /// How long the key is held; `done` unless given. Only with `key`.
    key_until: Option<KeyUntil>,
    /// Never granted later than this after it first fell due, ms; the topic's otherwise.
    #[schema(minimum = 1, maximum = 315_360_000_000_i64)]
    ttl_ms: Option<i64>,
    /// Grants that count before the message is dead; the topic's otherwise.
    #[schema(minimum = 1, maximum = 1000)]
    max_attempts: Option<i64>,
    /// How long it waits after a failure; the topic's otherwise.
    #[schema(value_type = Option<BackoffRequest>)]
    backoff: Option<()>,
    /// Up to 32 headers of 8 KiB together: names are HTTP tokens, values legal in HTTP. `***` as the value of a secret one
    /// keeps what is stored, as long as the schedule publishes to the same topic and origin.
    headers: Option<BTreeMap<String, String>>,
    /// Where dueq sends it; the topic's `push.url` otherwise. Only in a pushed topic.
    #[schema(value_type = Option<CallbackRequest>)]
    callback: Option<()>,
}

/// Reads a schedule from the JSON object within `body`; nothing where something is wrong with it. `now` is Redis's time.
pub(super) fn read_schedule(
    fields: &mut Fields<'_>,
    body: &Bytes,
    now: Millis,
) -> Option<ScheduleSpec> {
    let timing = read_timing(fields, now);
    let choices = [("one", CatchUp::One), ("none", CatchUp::None), ("all", CatchUp::All)];
    let catch_up = fields.choice("catch_up", &choices).unwrap_or_default();
    let (topic, message) = read_target(fields, body)?;
    Some(ScheduleSpec { timing: timing?, topic, message, catch_up })
}

fn read_timing(fields: &mut Fields<'_>, now: Millis) -> Option<Timing> {
    let (by_cron, by_distance) = (fields.has("cron"), fields.has("every_ms"));
    match (by_cron, by_distance) {
        (true, true) => fields.refuse("every_ms", "cannot be given together with cron"),
        (false, false) => fields.refuse("cron", "is required, or every_ms in its place"),
        (false, true) if fields.has("timezone") => {
            fields.refuse("timezone", "can only be given with cron");
        }
        _ => {}
    }
    let expr = fields.string("cron", 1..=MAX_CRON_CHARS);
    let name = fields.string("timezone", 1..=MAX_TIMEZONE_CHARS);
    let timezone = match parse_timezone(name.as_deref().unwrap_or("UTC")) {
        Ok(timezone) => Some(timezone),
        Err(error) => {
            fields.refuse("timezone", error.to_string());
            None
        }
    };
    let range = MIN_EVERY_MS..=MAX_DELAY_MS;
    if let Some(every_ms) = fields.integer("every_ms", range) {
        return Some(Timing::Every { every_ms: every_ms as Millis, anchor_ms: now });
    }
    match CronTiming::parse(&expr?, timezone?, now) {
        Ok(cron) => Some(Timing::Cron(cron)),
        Err(error) => {
            fields.refuse("cron", error.to_string());
            None
        }
    }
}

/// Reads where the messages go, and what they are.
fn read_target(fields: &mut Fields<'_>, body: &Bytes) -> Option<(TopicName, NewMessage)> {
    let called = fields.has("callback");
    match (called, fields.has("topic")) {
        (true, true) => fields.refuse("callback", "cannot be given together with topic"),
        (false, false) => fields.refuse("topic", "is required, or callback in its place"),
        _ => {}
    }
    let topic = fields.string("topic", 0..=usize::MAX).and_then(|name| {
        let refusal = match TopicName::parse(&name) {
            Ok(topic) if !topic.is_reserved() => return Some(topic),
            Ok(_) => "topics whose names begin with _ are dueq's own".to_owned(),
            Err(error) => error.to_string(),
        };
        fields.refuse("topic", refusal);
        None
    });
    if !called {
        // null is as good as nothing.
        fields.take("callback");
        let message = fields.object("message", |fields| {
            let bytes = fields.has("payload_base64");
            let content = read_content(fields, body);
            if content.is_none() && !bytes {
                fields.refuse("payload", "is required, or payload_base64 in its place");
            }
            let callback = read_new_callback(fields, "callback");
            read_told(fields, content.unwrap_or_else(Content::nothing), callback)
        });
        return Some((topic?, fields.required("message", message)?));
    }
    let callback = read_new_callback(fields, "callback");
    let message = fields.object("message", |fields| {
        let content = read_content(fields, body).unwrap_or_else(Content::nothing);
        read_told(fields, content, callback.clone())
    });
    let silent = || {
        let body = Body { callback, ..Body::new(Content::nothing(), BTreeMap::new()) };
        read_said(&mut Fields::none(), body)
    };
    Some((TopicName::callbacks(), message.unwrap_or_else(silent)))
}

/// Reads what a message says beside its content; it has no say in when it is due, or how often it is published.
fn read_told(
    fields: &mut Fields<'_>,
    content: Content,
    callback: Option<crate::model::Callback>,
) -> NewMessage {
    for name in ["delay_ms", "deliver_at"] {
        if fields.take(name).is_some() {
            fields.refuse(name, "is not known here");
        }
    }
    read_said(fields, Body { callback, ..Body::new(content, BTreeMap::new()) })
}

/// The schedule as it is put in place of the present one, whose secrets `***` stands for. They are kept as long as it
/// publishes to the same topic, and that sends it to the same origin; `push` says how its topic is pushed now.
///
/// Errors: `NothingMasked`, `SecretRequired`, `HeadersTooLarge`.
pub(super) fn with_kept_secrets(
    mut spec: ScheduleSpec,
    present: Option<&Schedule>,
    push: Option<&Push>,
) -> Result<ScheduleSpec, Error> {
    let nothing = Body::new(Content::nothing(), BTreeMap::new());
    let stored = present.map_or(&nothing, |present| &present.spec.message.body);
    let moved = present.is_some_and(|present| present.spec.topic != spec.topic);
    let place = if spec.topic.is_callbacks() { "callback" } else { "message.callback" };
    let is_secret =
        |name: &str| is_credential(name) || push.is_some_and(|push| push.is_secret(name));
    let body = &mut spec.message.body;
    let kept = body.keep_secret_of(stored, moved);
    kept.map_err(|unkept| Error::of_unkept(unkept, place))?;
    let kept = body.keep_headers_of(stored, push, is_secret, moved);
    kept.map_err(|unkept| Error::of_unkept(unkept, "message.headers"))?;
    Ok(spec)
}

/// May what this schedule publishes ever be published, and be sent to where it says?
///
/// Errors: 413 `payload_too_large`, 422 `callback_address_refused`.
pub(super) fn check_spec(state: &AppState, spec: &ScheduleSpec) -> Result<(), Problem> {
    // Other topics can be told to take more than they do now, up to the ceiling.
    let called = spec.topic.is_callbacks();
    let limit = if called { DEFAULT_PAYLOAD_BYTES } else { MAX_PAYLOAD_BYTES };
    if spec.message.body.content.payload().len() as u64 > limit {
        return Err(Error::PayloadTooLarge(limit as i64).into());
    }
    let url = spec.message.body.callback.as_ref().map(|callback| &callback.url);
    let place = if spec.topic.is_callbacks() { "callback.url" } else { "message.callback.url" };
    state.check_url(url, || place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ScheduleSpec, Vec<String>> {
        let body = Bytes::copy_from_slice(text.as_bytes());
        let mut fields = Fields::of_json(&body).unwrap();
        let spec = read_schedule(&mut fields, &body, 1_800_000_000_000);
        match fields.finish().err().map(|problem| problem.body("").errors) {
            None => Ok(spec.unwrap()),
            Some(errors) => Err(errors.into_iter().map(|error| error.field).collect()),
        }
    }

    #[test]
    fn a_callback_needs_no_message_and_has_an_empty_body_then() {
        let callback = r#""callback":{"url":"http://example.com/","method":"GET"}"#;
        for message in ["", r#","message":{}"#, r#","message":null"#] {
            let spec = read(&format!("{{\"every_ms\":1000,{callback}{message}}}")).unwrap();
            assert!(spec.topic.is_callbacks());
            assert_eq!(spec.message.body.content, Content::nothing());
            assert_eq!(spec.message.body.callback.unwrap().url.as_str(), "http://example.com/");
        }
    }

    #[test]
    fn null_is_as_good_as_nothing() {
        let text =
            r#"{"cron":null,"every_ms":1000,"topic":"t","callback":null,"message":{"payload":1}}"#;
        assert!(!read(text).unwrap().topic.is_callbacks());
    }

    #[test]
    fn what_a_schedule_cannot_be_is_refused_by_name() {
        let message = r#""topic":"t","message":{"payload":1}"#;
        let with = |rest: &str| format!(r#"{{"every_ms":1000,"topic":"t","message":{rest}}}"#);
        let when = |rest: &str| format!("{{{rest},{message}}}");
        let where_to =
            |rest: &str| format!(r#"{{"every_ms":1000,"message":{{"payload":1}},{rest}}}"#);
        for (text, field) in [
            (format!("{{{message}}}"), "cron"),
            (when(r#""cron":"* * * * *","every_ms":1000"#), "every_ms"),
            (when(r#""every_ms":1000,"timezone":"UTC""#), "timezone"),
            (when(r#""cron":"* * * * *","timezone":"Berlin""#), "timezone"),
            (when(r#""cron":"* * * *""#), "cron"),
            (when(r#""cron":"0 0 30 2 *""#), "cron"),
            (when(r#""cron":7"#), "cron"),
            (when(r#""every_ms":999"#), "every_ms"),
            (when(r#""every_ms":1000,"catch_up":"some""#), "catch_up"),
            (when(r#""every_ms":1000,"paused":true"#), "paused"),
            (where_to(r#""topic":null"#), "topic"),
            (where_to(r#""topic":null,"callback":null"#), "topic"),
            (where_to(r#""topic":"_callbacks""#), "topic"),
            (where_to(r#""topic":"a b""#), "topic"),
            (where_to(r#""topic":"t","callback":{"url":"http://a/"}"#), "callback"),
            (where_to(r#""callback":{"url":"a"}"#), "callback.url"),
            (where_to(r#""callback":{"url":"http://a/","headers":{}}"#), "callback.headers"),
            (r#"{"every_ms":1000,"topic":"t"}"#.to_owned(), "message"),
            (with("{}"), "message.payload"),
            (with(r#"{"payload":1,"payload_base64":""}"#), "message.payload_base64"),
            (with(r#"{"payload":1,"delay_ms":0}"#), "message.delay_ms"),
            (with(r#"{"payload":1,"deliver_at":null}"#), "message.deliver_at"),
            (with(r#"{"payload":1,"idempotency_key":"a"}"#), "message.idempotency_key"),
            (with(r#"{"payload":1,"on_duplicate":"return"}"#), "message.on_duplicate"),
            (with(r#"{"payload":1,"headers":{"a b":""}}"#), "message.headers.a b"),
        ] {
            assert_eq!(read(&text).map(drop), Err(vec![field.to_owned()]), "{text}");
        }
    }
}
