//! What a body says of a schedule.

use crate::{callbacks::CallbackRequest, messages::completion::EndFields, prelude::*};
use dueq_model::{
    Body, Callback, CatchUp, Content, Cron, CronTiming, MAX_CRON_CHARS, MAX_DELAY_MS,
    MAX_PAYLOAD_BYTES, MAX_TIMEZONE_CHARS, MIN_EVERY_MS, Millis, Push, ScheduleName, Timing,
    TopicName, Zones, is_credential,
};
use dueq_store::{Due, MessageOptions, NewMessage, Schedule, ScheduleSpec};
use std::collections::BTreeMap;

/// A cron expression, as it was given.
type CronText = Text<1, MAX_CRON_CHARS>;
/// The name of a time zone.
type ZoneName = Text<1, MAX_TIMEZONE_CHARS>;

request! {
    /// When a schedule ticks. Exactly one of `cron` and `every_ms`.
    pub struct TimingFields {
        /// Minute, hour, day of the month, month, day of the week; a sixth field in front gives seconds. Names (`JAN`,
        /// `MON`), ranges, lists, steps, `L`, `W` and `#` are allowed, and `@daily` and the like in place of fields. If both
        /// days are given, either matches.
        #[example = "0 9 * * MON-FRI"]
        pub cron: Option<CronText>,
        /// The IANA time zone of `cron`, in any case. Default: `UTC`. A time of day that the change to summer time skips
        /// ticks once, right after the gap. A time that occurs twice ticks once.
        #[example = "Europe/Berlin"]
        pub timezone: Option<ZoneName>,
        /// Time between ticks, ms. The first tick comes after the same time. A PUT with the same value does not move
        /// the ticks.
        pub every_ms: Option<Bounded<MIN_EVERY_MS, MAX_DELAY_MS>>,
    }
    check(fields) {
        match (given(&cron), given(&every_ms)) {
            (true, true) => fields.refuse("every_ms", "cannot be given together with cron"),
            (false, false) => fields.refuse("cron", "is required, or every_ms in its place"),
            (false, true) if given(&timezone) => {
                fields.refuse("timezone", "can only be given with cron");
            }
            _ => {}
        }
        if let Some(Some(cron)) = &cron
            && let Err(error) = Cron::parse(cron)
        {
            fields.refuse("cron", error.to_string());
        }
    }
}

impl TimingFields {
    /// When a schedule ticks that is put at `now`. Errors: 422 where there is no such time zone.
    pub(crate) fn into_timing(self, now: Millis, zones: &Zones) -> Result<Timing, Problem> {
        let Some(cron) = self.cron else {
            let every_ms = self.every_ms.map_or(MIN_EVERY_MS as Millis, Bounded::millis);
            return Ok(Timing::Every { every_ms, anchor_ms: now });
        };
        cron_timing(&cron, self.timezone.as_deref(), zones)
    }
}

request! {
    /// What to publish, and when. Exactly one of `cron` and `every_ms`, and exactly one of `topic` and `callback`.
    #[example = json!({"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "topic": "reports",
        "message": {"payload": {"report": "daily"}}})]
    pub struct PutScheduleRequest {
        pub timing: Flat<TimingFields>,
        /// Where the messages go.
        #[example = "reports"]
        pub topic: Option<TopicName>,
        /// The URL to which dueq sends the messages, in place of a topic.
        pub callback: Option<CallbackRequest>,
        /// What each tick publishes. Optional with `callback`: the body is then empty.
        pub message: Option<ScheduledMessageRequest>,
        /// What happens to ticks that were missed. `none` still makes up for a tick that is at most 2 s late.
        pub catch_up: CatchUp = CatchUp::One,
    }
    check(fields) {
        match (given(&callback), given(&topic)) {
            (true, true) => fields.refuse("callback", "cannot be given together with topic"),
            (false, false) => fields.refuse("topic", "is required, or callback in its place"),
            _ => {}
        }
        if topic.as_ref().is_some_and(|topic| topic.as_ref().is_some_and(TopicName::is_reserved)) {
            fields.refuse("topic", "topics whose names begin with _ are dueq's own");
        }
        match &message {
            Some(Some(message)) => message.check(given(&callback), fields),
            Some(None) if !given(&callback) => fields.refuse("message", "is required"),
            _ => {}
        }
    }
}

request! {
    /// A message that a schedule publishes. Exactly one of `payload` and `payload_base64`; both are optional if the
    /// schedule has a `callback`. A tick is a duplicate while the message of an earlier tick has its `key`.
    #[example = json!({"payload": {"report": "daily"}, "priority": 5})]
    pub struct ScheduledMessageRequest {
        pub content: Flat<ContentFields>,
        pub key: Flat<KeyFields>,
        pub policy: Flat<PolicyFields>,
        /// Where dueq sends the message. Default: the topic's `push.url`. Only in a pushed topic.
        pub callback: Option<CallbackRequest>,
        pub ends: Flat<EndFields>,
    }
    check(fields) {
        if let Some(content) = &content
            && given(&callback)
        {
            refuse_own_headers(fields, content.headers.as_ref(), "");
        }
    }
}

impl ScheduledMessageRequest {
    /// Refuses what does not go with the schedule: `called`, one that has a callback itself.
    fn check(&self, called: bool, fields: &mut Fields<'_>) {
        if !called && !self.content.has_content() {
            fields.refuse("message.payload", "is required, or payload_base64 in its place");
        }
        if called {
            if self.callback.is_some() {
                fields.refuse("message.callback", "the schedule has a callback itself");
            }
            refuse_own_headers(fields, self.content.headers.as_ref(), "message.");
        }
    }
}

impl PutScheduleRequest {
    /// The schedule that is put at `now`. Errors: 422 where there is no such time zone.
    pub(crate) fn into_spec(self, now: Millis, zones: &Zones) -> Result<ScheduleSpec, Problem> {
        let timing = self.timing.0.into_timing(now, zones)?;
        let callback = self.callback.map(Callback::from);
        let message = match self.message {
            Some(ScheduledMessageRequest { content, key, policy, callback: own, ends }) => {
                let message = MessageFields { content, key, policy, ends: ends.0 };
                new_message(message, None, callback.or(own.map(Callback::from)))
            }
            None => {
                let body = Body::new(Content::nothing(), BTreeMap::new());
                let body = Body { callback, ..body };
                NewMessage { body, due: Due::After(0), options: MessageOptions::default() }
            }
        };
        let topic = self.topic.unwrap_or_else(TopicName::callbacks);
        Ok(ScheduleSpec { timing, topic, message, catch_up: self.catch_up, maker: None })
    }
}

/// When an expression ticks, in UTC where no time zone is named. Errors: 422 for `cron` or `timezone`.
pub(crate) fn cron_timing(
    cron: &str,
    timezone: Option<&str>,
    zones: &Zones,
) -> Result<Timing, Problem> {
    let invalid = |field: &str, reason: String| {
        Problem::invalid(vec![FieldError { field: field.to_owned(), reason: reason.into() }])
    };
    let zone = zones.get(timezone.unwrap_or("UTC"));
    let zone = zone.map_err(|error| invalid("timezone", error.to_string()))?;
    let cron = CronTiming::parse(cron, zone);
    Ok(Timing::Cron(cron.map_err(|error| invalid("cron", error.to_string()))?))
}

/// The schedule as it is put in place of the present one, which keeps its secrets where it says `***`. They are kept as long as it
/// publishes to the same topic, and that sends it to the same origin; `push` says how its topic is pushed now.
///
/// Errors: `NothingMasked`, `SecretRequired`, `HeadersTooLarge`.
pub(crate) fn with_kept_secrets(
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
pub(crate) fn check_spec(state: &AppState, spec: &ScheduleSpec) -> Result<(), Problem> {
    // Topics can be configured to take as much.
    if spec.message.body.content.payload().len() as u64 > MAX_PAYLOAD_BYTES {
        return Err(Error::PayloadTooLarge(MAX_PAYLOAD_BYTES as i64).into());
    }
    state.check_completions(&spec.message.body, || "message.".to_owned())?;
    if let Some(name) = spec.message.body.clashes_with_auth() {
        return Err(Error::HeaderReserved(format!("message.headers.{name}")).into());
    }
    let place = if spec.topic.is_callbacks() { "callback" } else { "message.callback" };
    state.check_callback(spec.message.body.callback.as_ref(), place)
}

/// What a refusal calls the topic of the path's schedule.
pub const ITS_TOPIC: &str = "the topic of this schedule";

/// May the caller do to this schedule's topic what the request does to the schedule? Errors: as for
/// [`Caller::check_topic`], `ScheduleNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
pub async fn check_schedule(
    state: &AppState,
    caller: &Caller,
    name: &ScheduleName,
) -> Result<(), Error> {
    if !caller.must_know_topic() {
        return Ok(());
    }
    find_schedule(state, caller, name).await.map(|_| ())
}

/// The schedule, if the caller may do to its topic what the request does to the schedule. Errors: as for [`check_schedule`].
pub async fn find_schedule(
    state: &AppState,
    caller: &Caller,
    name: &ScheduleName,
) -> Result<Schedule, Error> {
    match state.store.get_schedule(name).await {
        Ok(schedule) => {
            caller.check_topic_of(ITS_TOPIC, &schedule.spec.topic)?;
            Ok(schedule)
        }
        Err(error @ Error::ScheduleNotFound) => Err(caller.not_found(ITS_TOPIC, error)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn read(text: &str) -> Result<ScheduleSpec, Vec<String>> {
        let body = Bytes::copy_from_slice(text.as_bytes());
        let request = Fields::of_json(&body).unwrap().read::<PutScheduleRequest>();
        let named = |problem: Problem| problem.body("").errors.into_iter().map(|e| e.field);
        let spec =
            request.and_then(|request| request.into_spec(1_800_000_000_000, &Zones::bundled()));
        spec.map_err(|problem| named(problem).collect())
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
