//! A schedule as answers show it. What `authorization` and `cookie` headers hold is never read back.

use super::{
    backoff::BackoffPolicy, callback_fields::CallbackView, instant::Instant,
    message::RenderedContent, problem::Problem,
};
use crate::{
    model::{Backoff, CatchUp, MessageId, ScheduleName, Timing, TopicName, is_credential, masked},
    store::{self, KeyUntil, NewMessage, OnDuplicate},
};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A schedule.
#[derive(Serialize, ToSchema)]
pub struct Schedule<'a> {
    /// Its name.
    #[schema(value_type = String, example = "daily-report")]
    name: &'a ScheduleName,
    /// The cron expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cron: Option<&'a str>,
    /// The time zone of `cron`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    timezone: Option<&'a str>,
    /// Time between ticks, ms, if it has no `cron`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    every_ms: Option<i64>,
    /// Where its messages go.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    topic: Option<&'a TopicName>,
    /// Where dueq sends its messages, if it has no `topic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = CallbackView, required = false)]
    callback: Option<CallbackView<'a>>,
    /// What each tick publishes.
    message: ScheduledMessage<'a>,
    /// What happens to ticks that were missed.
    catch_up: CatchUp,
    /// True while the schedule is paused: it does not tick.
    paused: bool,
    /// Its next tick, RFC 3339 in UTC with ms, like all instants. Absent while paused, or if there are no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    next_at: Option<Instant>,
    /// The last tick, or when it was last triggered.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    last_at: Option<Instant>,
    /// The message published last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = Uuid, required = false)]
    last_message_id: Option<MessageId>,
    /// Why the last tick published nothing. Absent if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    last_error: Option<&'a str>,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    created_at: Instant,
}

/// A message that a schedule publishes.
#[derive(Serialize, ToSchema)]
pub struct ScheduledMessage<'a> {
    /// The payload, byte for byte: any JSON value, including null. Absent if the payload is bytes.
    #[schema(value_type = super::openapi::AnyJson, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    /// The payload in standard base64 with padding, if the payload is bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, content_encoding = "base64")]
    payload_base64: Option<String>,
    /// Media type of the bytes; only with `payload_base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    content_type: Option<&'a str>,
    /// Its headers. The values of `authorization`, `cookie` and other secret headers read `***`.
    headers: BTreeMap<String, String>,
    /// Where dueq sends the message, in a pushed topic. Absent: to the topic's `push.url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = CallbackView, required = false)]
    callback: Option<CallbackView<'a>>,
    /// Its own name in its topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    key: Option<&'a str>,
    /// What to do if a live message has the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = OnDuplicate, required = false)]
    on_duplicate: Option<OnDuplicate>,
    /// How long the message holds its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = KeyUntil, required = false)]
    key_until: Option<KeyUntil>,
    /// 0 to 255. Among ready messages, higher goes first.
    #[schema(value_type = i64, minimum = 0, maximum = 255)]
    priority: u8,
    /// Its own limit of attempts. Absent: the topic's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, minimum = 1, maximum = 1000, required = false)]
    max_attempts: Option<u16>,
    /// Its own backoff. Absent: the topic's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BackoffPolicy, required = false)]
    backoff: Option<&'a Backoff>,
    /// Its own time to live, ms. Absent: the topic's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    ttl_ms: Option<i64>,
}

impl<'a> Schedule<'a> {
    /// What the store says, as the client sees it. Errors: as for [`RenderedContent::of`].
    pub(super) fn of(schedule: &'a store::Schedule) -> Result<Self, Problem> {
        let spec = &schedule.spec;
        let mut message = ScheduledMessage::of(&spec.message)?;
        let called = spec.topic.is_callbacks();
        let (cron, timezone, every_ms) = match &spec.timing {
            Timing::Cron(cron) => (Some(cron.expr()), Some(cron.timezone()), None),
            Timing::Every { every_ms, .. } => (None, None, Some(*every_ms)),
        };
        Ok(Self {
            name: &schedule.name,
            cron,
            timezone,
            every_ms,
            topic: (!called).then_some(&spec.topic),
            callback: message.callback.take_if(|_| called),
            message,
            catch_up: spec.catch_up,
            paused: schedule.paused,
            next_at: schedule.next_at.map(Instant),
            last_at: schedule.last_at.map(Instant),
            last_message_id: schedule.last_message_id,
            last_error: schedule.last_error.as_deref(),
            created_at: Instant(schedule.created_at),
        })
    }
}

impl<'a> ScheduledMessage<'a> {
    fn of(message: &'a NewMessage) -> Result<Self, Problem> {
        let NewMessage { body, options, .. } = message;
        let content = RenderedContent::of(&body.content)?;
        let key = options.key.as_ref();
        Ok(Self {
            payload: content.payload,
            payload_base64: content.payload_base64,
            content_type: content.content_type,
            headers: masked(&body.headers, |name| is_credential(name) || body.is_secret(name)),
            callback: body.callback.as_ref().map(CallbackView::from),
            key: key.map(|key| key.name.as_str()),
            on_duplicate: key.map(|key| key.on_duplicate),
            key_until: key.map(|key| key.until),
            priority: options.priority,
            max_attempts: options.max_attempts,
            backoff: options.backoff.as_ref(),
            ttl_ms: options.ttl_ms,
        })
    }
}
