//! Checked paths: what handlers take from the variable segments. What cannot be taken, or is not for the caller, leaves as
//! a [`Problem`].

use crate::{
    AppState,
    access::Caller,
    input::*,
    openapi::describe::{formatted, parameters, string},
    problem::{Code, FieldError, Problem},
    request::extract::Query,
    schedules::fields::check_schedule,
};
use axum::{extract::FromRequestParts, http::request::Parts};
use dueq_model::{CallHost, MAX_HOST_CHARS, MAX_KEY_CHARS, MessageId, ScheduleName, TopicName};
use dueq_store::{MessageRef, callback_group};
use percent_encoding::percent_decode;
use std::borrow::Cow;
use utoipa::openapi::{KnownFormat, ObjectBuilder};

/// Extractors of the one variable segment of a path: at this place, of which the first is 1.
macro_rules! paths {
    ($($(#[doc = $about:expr])* $Extractor:ident($Type:ty) at $at:literal or $Code:ident
        $(, $judge:ident)? $(, unless $is_reserved:expr)?;)*) => {$(
        $(#[doc = $about])*
        pub struct $Extractor(pub $Type);

        impl FromRequestParts<AppState> for $Extractor {
            type Rejection = Problem;

            #[allow(unused_variables, reason = "not all need the state")]
            async fn from_request_parts(
                parts: &mut Parts,
                state: &AppState,
            ) -> Result<Self, Problem> {
                let text = segment(parts, $at)?;
                let value = <$Type>::parse(&text)
                    .map_err(|error| Problem::new(Code::$Code, error.to_string()))?;
                $($judge(parts, state, &value).await?;)?
                $(
                    let is_reserved: fn(&$Type) -> bool = $is_reserved;
                    if is_reserved(&value) {
                        return Err(Problem::topic_reserved(OWN));
                    }
                )?
                Ok(Self(value))
            }
        }
    )*};
}

paths! {
    /// The `{topic}` of the path.
    TopicPath(TopicName) at 2 or InvalidTopicName, judge_topic;
    /// The `{topic}` of the path, one that users may publish to and configure.
    PublicTopic(TopicName) at 2 or InvalidTopicName, judge_topic, unless TopicName::is_reserved;
    /// The `{topic}` of the path, one whose configuration users may change.
    ChangeableTopic(TopicName) at 2 or InvalidTopicName, judge_topic,
        unless |topic| topic.is_reserved() && !topic.is_callbacks();
    /// The `{name}` of a schedule in the path, which the handler judges by its topic.
    SchedulePath(ScheduleName) at 2 or InvalidScheduleName;
    /// The same, of a schedule that the caller may do this to.
    JudgedSchedule(ScheduleName) at 2 or InvalidScheduleName, judge_schedule;
    /// The `{host}` of the path, whom callbacks are for.
    HostPath(CallHost) at 3 or InvalidHost, count_change;
    /// The `{id}` of the path.
    IdPath(MessageId) at 2 or InvalidMessageId, judge_message;
}

/// May the caller do this to the topic? Errors: as for [`Caller::check_topic`].
async fn judge_topic(parts: &Parts, _: &AppState, topic: &TopicName) -> Result<(), Problem> {
    Ok(Caller::of(parts)?.check_topic(topic)?)
}

/// May the caller do this to the schedule? Errors: as for [`check_schedule`].
async fn judge_schedule(
    parts: &Parts,
    state: &AppState,
    name: &ScheduleName,
) -> Result<(), Problem> {
    Ok(check_schedule(state, Caller::of(parts)?, name).await?)
}

/// Counts for the audit log what the request changes.
async fn count_change(parts: &Parts, _: &AppState, _: &CallHost) -> Result<(), Problem> {
    Caller::of(parts)?.changed(1);
    Ok(())
}

/// May the caller do this to the message? Errors: as for [`Caller::check_message`].
async fn judge_message(parts: &Parts, state: &AppState, id: &MessageId) -> Result<(), Problem> {
    let caller = Caller::of(parts)?;
    caller.changed(1);
    Ok(caller.check_message(&state.store, id).await?)
}

/// The live message that has the `{key}` of the path in its `{topic}`.
pub struct KeyPath(pub MessageRef);

/// The `{topic}` of the path, and what its `{group}` is stored as: in `_callbacks` that of the key that asks or, if that may do
/// everything, of the key that `published_by` in the query names. Takes the whole query.
pub struct GroupPath(pub TopicName, pub String);

request! {
    /// Whose group is meant.
    pub struct GroupParams {
        /// For `_callbacks`: the name of the API key whose group is meant, empty for keys without a name. Another key's needs the
        /// scope `admin`. Default: the key that asks.
        #[example = "billing"]
        pub published_by: Option<Text<0, MAX_KEY_CHARS>>,
    }
}

/// A name in a path, where only a topic's may begin with `_`.
fn name(first: &str) -> ObjectBuilder {
    let pattern = format!(r"^[{first}][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\.?$");
    string().max_length(Some(128)).pattern(Some(pattern))
}

parameters! {
    TopicPath: Path "topic" = "orders" name("A-Za-z0-9_"),
        "Name of the topic: letters, digits, `.`, `_` and `-`, without `..`, 1 to 128 characters";
    SchedulePath: Path "name" = "daily-report" name("A-Za-z0-9"),
        "Name of the schedule: letters, digits, `.`, `_` and `-`, without `..`, 1 to 128 characters";
    IdPath: Path "id" formatted(KnownFormat::Uuid), "Id of the message, a UUID";
    HostPath: Path "host" = "example.com:443" string().min_length(Some(1)).max_length(Some(MAX_HOST_CHARS)),
        "Host and port of callbacks, such as `example.com:443`; an IPv6 address is in brackets";
    KeyPath: Path "topic" = "orders" name("A-Za-z0-9_"),
        "Name of the topic: letters, digits, `.`, `_` and `-`, without `..`, 1 to 128 characters";
        "key" = "order-42" string().min_length(Some(1)).max_length(Some(MAX_KEY_CHARS)),
        "Key of the message, 1 to 255 characters, percent-encoded; generated clients encode it themselves";
    GroupPath: Path "topic" = "orders" name("A-Za-z0-9_"),
        "Name of the topic: letters, digits, `.`, `_` and `-`, without `..`, 1 to 128 characters";
        "group" = "customer-7" string().min_length(Some(1)).max_length(Some(MAX_KEY_CHARS)),
        "Name of the group, 1 to 255 characters, percent-encoded; generated clients encode it themselves";
}

/// Why they are not for users.
const OWN: &str = "topics whose names begin with _ are dueq's own";

impl Problem {
    /// 403 for what is dueq's own to do.
    pub(crate) fn topic_reserved(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Code::TopicReserved, detail)
    }
}

impl FromRequestParts<AppState> for KeyPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let (topic, mut key) = named(parts, state, "a key").await?;
        let caller = Caller::of(parts)?;
        caller.changed(1);
        if topic.is_callbacks() {
            key = state.store.callback_key(caller.owner(), key).await?;
        }
        Ok(Self(MessageRef::Key(topic, key)))
    }
}

impl FromRequestParts<AppState> for GroupPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let (topic, group) = named(parts, state, "a group").await?;
        let Query(GroupParams { published_by }) = Query::from_request_parts(parts, state).await?;
        let caller = Caller::of(parts)?;
        let owner = published_by.as_deref().unwrap_or(caller.owner());
        if topic.is_callbacks() {
            caller.check_owner(owner)?;
            let stored = callback_group(owner, group);
            return Ok(Self(topic, stored));
        }
        match published_by {
            None => Ok(Self(topic, group)),
            Some(_) => {
                let reason = "is for groups of _callbacks".into();
                let field = "published_by".to_owned();
                Err(Problem::invalid(vec![FieldError { field, reason }]))
            }
        }
    }
}

/// The topic of a path, and what it names there.
async fn named(
    parts: &mut Parts,
    state: &AppState,
    what: &str,
) -> Result<(TopicName, String), Problem> {
    let (topic, name) = (segment(parts, 2)?, segment(parts, 4)?.into_owned());
    let topic = TopicName::parse(&topic)
        .map_err(|error| Problem::new(Code::InvalidTopicName, error.to_string()))?;
    if !(1..=MAX_KEY_CHARS).contains(&name.chars().count()) {
        let detail = format!("{what} has 1 to {MAX_KEY_CHARS} characters");
        return Err(Problem::new(Code::InvalidKey, detail));
    }
    judge_topic(parts, state, &topic).await?;
    Ok((topic, name))
}

/// A segment of the path, decoded; the first is 1.
fn segment(parts: &Parts, at: usize) -> Result<Cow<'_, str>, Problem> {
    let path = parts.uri.path().as_bytes();
    let text = path.split(|byte| *byte == b'/').nth(at).unwrap_or_default();
    let malformed = |_| Problem::new(Code::MalformedPath, "the decoded path is not valid UTF-8");
    percent_decode(text).decode_utf8().map_err(malformed)
}
