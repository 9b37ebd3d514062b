//! putTopic and updateTopic: a topic's configuration, guarded by its revision.

use super::{
    prelude::*,
    push_settings::PushView,
    topic_settings::{TopicFields, refuse_own_dead_topic},
    topics::{Topic, answer_with_topic},
};
use dueq_model::{Backoff, DeadForm, Durability, OnFull, Retention, TopicName, TopicSettings};

request! {
    /// A topic's whole configuration. Absent fields take their defaults.
    #[example = json!({"lease_ms": 60_000, "max_attempts": 5, "max_messages": 1_000_000, "on_full": "reject"})]
    pub struct PutTopicRequest {
        pub settings: Flat<TopicFields>,
    }
}

request! {
    /// The changes to a topic's configuration. Absent fields stay, null resets a field to its default, and nested
    /// objects are replaced as a whole.
    #[example = json!({"max_attempts": 5, "ttl_ms": null})]
    pub struct UpdateTopicRequest {
        pub settings: Flat<TopicFields>,
    }
}

answer! {
    /// How long acknowledged and dead messages are kept.
    #[name = "Retention"]
    pub struct RetentionPolicy {
        /// How long acknowledged messages are kept, ms; 0: not at all.
        acked_ms: i64,
        /// How many acknowledged messages are kept.
        acked_max: i64,
        /// How long dead messages are kept, ms.
        dead_ms: i64,
        /// How many dead messages are kept.
        dead_max: i64,
    }
}

answer! {
    /// A topic's configuration, for messages that do not override it.
    pub struct TopicConfig<'a> {
        /// How long a lease lasts, ms.
        lease_ms: i64,
        /// Attempts before a message is dead.
        max_attempts: i64,
        /// How long a failed message waits before its next attempt.
        backoff: &'a Backoff,
        /// Time to live, counted from when a message first fell due, ms. Absent: none.
        ttl_ms: Option<i64>,
        /// The largest payload accepted, bytes.
        max_payload_bytes: i64,
        /// Into how many partitions the topic is split.
        partitions: i64,
        /// Bound on delayed, ready and leased messages together. Absent: none.
        max_messages: Option<i64>,
        /// What to do at that bound.
        on_full: OnFull,
        /// How many messages may be leased at once. Absent: any number.
        max_leased: Option<i64>,
        /// Messages granted per second, at most. Absent: any number.
        rate_per_s: Option<f64>,
        /// How long an idempotency key is remembered, ms.
        idempotency_window_ms: i64,
        /// How long acknowledged and dead messages are kept.
        retention: RetentionPolicy,
        /// When an answer about the topic is given.
        durability: Durability,
        /// How dueq sends the messages itself. Absent: consumers lease them.
        push: Option<PushView<'a>>,
        /// The topic to which messages that die here are also published. Absent: none.
        dead_topic: Option<&'a TopicName>,
        /// What that topic gets.
        dead_form: DeadForm,
        /// How many messages of a group may be leased at a time.
        group_concurrency: i64,
        /// How many messages of a group may be granted per second. Absent: any number.
        group_rate_per_s: Option<f64>,
        /// How many of them may be granted at once.
        group_burst: i64,
    }
}

impl<'a> From<&'a TopicSettings> for TopicConfig<'a> {
    fn from(settings: &'a TopicSettings) -> Self {
        let Retention { acked_ms, acked_max, dead_ms, dead_max, .. } = settings.retention;
        Self {
            lease_ms: settings.lease_ms,
            max_attempts: settings.max_attempts,
            backoff: &settings.backoff,
            ttl_ms: settings.ttl_ms,
            max_payload_bytes: settings.max_payload_bytes,
            partitions: settings.partitions,
            max_messages: settings.max_messages,
            on_full: settings.on_full,
            max_leased: settings.max_leased,
            rate_per_s: settings.rate_per_s,
            idempotency_window_ms: settings.idempotency_window_ms,
            retention: RetentionPolicy { acked_ms, acked_max, dead_ms, dead_max },
            durability: settings.durability,
            push: settings.push.as_ref().map(PushView::from),
            dead_topic: settings.dead_topic.as_ref(),
            dead_form: settings.dead_form,
            group_concurrency: settings.group_concurrency,
            group_rate_per_s: settings.group_rate_per_s,
            group_burst: settings.group_burst,
        }
    }
}

/// Configure a topic.
///
/// Replaces the whole configuration. Absent fields take their defaults. Creates the topic if it does not exist.
#[utoipa::path(
    put, path = "/topics/{topic}", tag = "topics", params(TopicPath, IfMatch),
    request_body(content = PutTopicRequest, description = "The configuration"),
    responses(
        (status = 200, description = "The configuration is replaced", body = Topic,
            headers(("ETag" = String, description = "The revision of its configuration"))),
        (status = 201, description = "The topic is created", body = Topic,
            headers(("ETag" = String, description = "The revision of its configuration"))),
        ConfigProblems, NewTopicProblems, RedisProblems,
    ),
)]
pub async fn put_topic(
    State(state): State<AppState>,
    PublicTopic(name): PublicTopic,
    caller: Caller,
    _: NoQuery,
    payload: Payload,
) -> Result<Response, Problem> {
    let PutTopicRequest { settings: changes } =
        payload.read(|fields, _| refuse_own_dead_topic(fields, &name))?;
    changes.dead_topic().map_or(Ok(()), |topic| caller.check_verb(Verb::Configure, topic))?;
    state.check_url(changes.push_url(), || "push.url".to_owned())?;
    let default = TopicSettings::default();
    let whole = |stored: Option<&TopicSettings>| changes.onto(&default, stored, &default);
    let created = match IfMatch::of(&payload.headers) {
        // Only what exists can match, so nothing comes into being.
        IfMatch::Any => {
            let replaced = state.store.update_topic(&name, |stored| whole(Some(stored)), None);
            replaced.await.map_err(no_match)?;
            false
        }
        IfMatch::None => state.store.put_topic(&name, whole, None, caller.maker()).await?,
        IfMatch::OneOf(revisions) => {
            state.store.put_topic(&name, whole, Some(&revisions), None).await?
        }
    };
    let mut answer = answer_with_topic(&state, &name, Error::after_change).await?;
    if created {
        *answer.status_mut() = StatusCode::CREATED;
    }
    Ok(answer)
}

/// Change a topic's configuration.
///
/// Absent fields stay, null resets a field to its default, and nested objects are replaced as a whole. In dueq's own
/// topic `_callbacks` you can change `max_attempts`, `backoff`, `retention`, `dead_topic`, and `push` without
/// `url`.
#[utoipa::path(
    patch, path = "/topics/{topic}", tag = "topics", params(TopicPath, IfMatch),
    request_body(content = UpdateTopicRequest, description = "The changes"),
    responses(
        (status = 200, description = "The topic", body = Topic,
            headers(("ETag" = String, description = "The revision of its configuration"))),
        TopicProblems, ConfigProblems, RedisProblems,
    ),
)]
pub async fn update_topic(
    State(state): State<AppState>,
    ChangeableTopic(name): ChangeableTopic,
    caller: Caller,
    _: NoQuery,
    payload: Payload,
) -> Result<Response, Problem> {
    let UpdateTopicRequest { settings: changes } =
        payload.read(|fields, _| refuse_own_dead_topic(fields, &name))?;
    changes.dead_topic().map_or(Ok(()), |topic| caller.check_verb(Verb::Configure, topic))?;
    state.check_url(changes.push_url(), || "push.url".to_owned())?;
    if name.is_callbacks()
        && let Some(setting) = changes.reserved()
    {
        let detail = format!("{setting} of _callbacks cannot be changed");
        return Err(Problem::topic_reserved(detail));
    }
    let default = TopicSettings::default_of(&name);
    let change = |stored: &TopicSettings| changes.onto(stored, Some(stored), &default);
    match IfMatch::of(&payload.headers) {
        // dueq's own comes into being with its first message, and can be told before.
        IfMatch::None if name.is_callbacks() => {
            let change = |stored: Option<&TopicSettings>| change(stored.unwrap_or(&default));
            state.store.put_topic(&name, change, None, None).await?;
        }
        IfMatch::None => state.store.update_topic(&name, change, None).await?,
        IfMatch::Any => state.store.update_topic(&name, change, None).await.map_err(no_match)?,
        IfMatch::OneOf(revisions) => {
            let updated = state.store.update_topic(&name, change, Some(&revisions)).await;
            updated.map_err(no_match)?
        }
    }
    answer_with_topic(&state, &name, Error::after_change).await
}

/// A topic that does not exist matches nothing.
fn no_match(error: Error) -> Error {
    match error {
        Error::TopicNotFound => Error::RevisionMismatch,
        error => error,
    }
}
