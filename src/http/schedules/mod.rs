//! Schedules as answers show them, and their routes. What `authorization` and `cookie` headers hold is never read back.

pub(crate) mod list;
pub(crate) mod preview;

use crate::{
    callbacks::CallbackView,
    message::{OptionsView, RenderedContent},
    prelude::*,
    publish::check_replace,
    schedule_fields::{
        ITS_TOPIC, PutScheduleRequest, check_schedule, check_spec, find_schedule, with_kept_secrets,
    },
};
use dueq_model::{
    CatchUp, CronTiming, MessageId, ScheduleName, Timing, TopicName, is_credential, masked,
};
use dueq_store::{self as store, KeyUntil, NewMessage, OnDuplicate};
use std::collections::BTreeMap;

answer! {
    /// A schedule.
    pub struct Schedule<'a> {
        /// Its name.
        #[example = "daily-report"]
        name: &'a ScheduleName,
        /// The cron expression.
        cron: Option<&'a str>,
        /// The time zone of `cron`.
        timezone: Option<&'a str>,
        /// Time between ticks, ms, if it has no `cron`.
        every_ms: Option<i64>,
        /// When it ticks, in words. Absent where that takes many.
        description: Option<String>,
        /// Where its messages go.
        topic: Option<&'a TopicName>,
        /// Where dueq sends its messages, if it has no `topic`.
        callback: Option<CallbackView<'a>>,
        /// What each tick publishes.
        message: ScheduledMessage<'a>,
        /// What happens to ticks that were missed.
        catch_up: CatchUp,
        /// True while the schedule is paused: it does not tick.
        paused: bool,
        /// Its next tick, RFC 3339 in UTC with ms, like all instants. Absent while paused, or if there are no more.
        next_at: Option<Instant>,
        /// The last tick, or when it was last triggered.
        last_at: Option<Instant>,
        /// The message published last.
        last_message_id: Option<MessageId>,
        /// Why the last tick published nothing. Absent if it did.
        last_error: Option<&'a str>,
        /// The latest 10 ticks that published nothing: refused, or missed and not made up for. Absent if there are none.
        missed_ticks: Option<Vec<Instant>>,
        /// When it was created.
        created_at: Instant,
        /// In words: why it does not tick, or what in `cron` may be meant otherwise. Absent if there is nothing.
        warnings: Option<Vec<String>>,
    }
}

answer! {
    /// A message that a schedule publishes.
    pub struct ScheduledMessage<'a> {
        #[serde(flatten)]
        content: Flat<RenderedContent<'a>>,
        /// Its headers. The values of `authorization`, `cookie` and other secret headers read `***`.
        headers: BTreeMap<String, String>,
        /// Where dueq sends the message, in a pushed topic. Absent: to the topic's `push.url`.
        callback: Option<CallbackView<'a>>,
        /// Its own name in its topic.
        key: Option<&'a str>,
        /// What to do if a live message has the key.
        on_duplicate: Option<OnDuplicate>,
        /// How long the message holds its key.
        key_until: Option<KeyUntil>,
        #[serde(flatten)]
        options: Flat<OptionsView<'a>>,
    }
}

impl<'a> Schedule<'a> {
    /// What the store says, as the client sees it.
    pub fn of(schedule: &'a store::Schedule) -> Self {
        let spec = &schedule.spec;
        let mut message = ScheduledMessage::of(&spec.message);
        let (cron, every_ms) = match &spec.timing {
            Timing::Cron(cron) => (Some(cron), None),
            Timing::Every { every_ms, .. } => (None, Some(*every_ms)),
        };
        Self {
            name: &schedule.name,
            cron: cron.map(CronTiming::expr),
            timezone: cron.map(CronTiming::timezone),
            every_ms,
            description: spec.timing.words(),
            topic: Some(&spec.topic).filter(|topic| !topic.is_callbacks()),
            callback: message.callback.take_if(|_| spec.topic.is_callbacks()),
            message,
            catch_up: spec.catch_up,
            paused: schedule.paused,
            next_at: schedule.next_at.filter(|_| schedule.spec.timing.can_tick()).map(Instant),
            last_at: schedule.last_at.map(Instant),
            last_message_id: schedule.last_message_id,
            last_error: schedule.last_error.as_deref(),
            missed_ticks: (!schedule.missed_ticks.is_empty())
                .then(|| schedule.missed_ticks.iter().copied().map(Instant).collect()),
            created_at: Instant(schedule.created_at),
            warnings: spec.timing.warning().map(|warning| vec![warning]),
        }
    }
}

impl<'a> ScheduledMessage<'a> {
    fn of(message: &'a NewMessage) -> Self {
        let NewMessage { body, options, .. } = message;
        let key = options.key.as_ref();
        Self {
            content: Flat(RenderedContent::of(body)),
            headers: masked(&body.headers, |name| is_credential(name) || body.is_secret(name)),
            callback: body.callback.as_ref().map(CallbackView::from),
            key: key.map(|key| key.name.as_str()),
            on_duplicate: key.map(|key| key.on_duplicate),
            key_until: key.map(|key| key.until),
            options: Flat(options.into()),
        }
    }
}

/// Answers with the schedule as it stands after a change.
async fn answer_with_schedule(state: &AppState, name: &ScheduleName) -> Result<Response, Problem> {
    let schedule = state.store.get_schedule(name).await.map_err(Error::after_change)?;
    Ok(json(&Schedule::of(&schedule)))
}

/// Create or replace a schedule.
///
/// Every tick publishes one message, however many instances run. A PUT with the same times does not move the ticks, and
/// a paused schedule stays paused.
#[utoipa::path(
    put, path = "/schedules/{name}", tag = "schedules", params(SchedulePath),
    request_body(content = PutScheduleRequest, description = "The schedule"),
    responses(
        (status = 200, description = "The schedule is replaced", body = Schedule),
        (status = 201, description = "The schedule is created", body = Schedule),
        ScheduleConfigProblems, RedisProblems,
    ),
)]
pub async fn put_schedule(
    State(state): State<AppState>,
    SchedulePath(name): SchedulePath,
    caller: Caller,
    JsonBody(request, _): JsonBody<PutScheduleRequest>,
) -> Result<Response, Problem> {
    if let Some(reason) = name.unfit() {
        return Err(Problem::new(Code::InvalidScheduleName, reason));
    }
    let mut spec = request.into_spec(state.store.now(), &state.store.zones())?;
    caller.check_topic(&spec.topic)?;
    spec.maker = caller.maker().cloned();
    spec.message.body.publisher = spec.topic.is_callbacks().then(|| caller.owner().to_owned());
    check_replace(&caller, &spec.topic, [&spec.message])?;
    check_spec(&state, &spec)?;
    let pushed = state.store.push_of(&spec.topic).await?;
    let change = |present: Option<&store::Schedule>| {
        present.map_or(Ok(()), |present| caller.check_topic_of(ITS_TOPIC, &present.spec.topic))?;
        with_kept_secrets(spec.clone(), present, pushed.as_ref())
    };
    let created = state.store.put_schedule(&name, change).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, answer_with_schedule(&state, &name).await?).into_response())
}

/// Get a schedule.
///
/// Returns what it publishes and when, and how its last tick went.
#[utoipa::path(
    get, path = "/schedules/{name}", tag = "schedules", params(SchedulePath),
    responses((status = 200, description = "The schedule", body = Schedule), ScheduleProblems, RedisProblems),
)]
pub async fn get_schedule(
    State(state): State<AppState>,
    SchedulePath(name): SchedulePath,
    caller: Caller,
    _: NoQuery,
) -> Result<Response, Problem> {
    let schedule = find_schedule(&state, &caller, &name).await?;
    Ok(json(&Schedule::of(&schedule)))
}

/// Delete a schedule.
///
/// Messages that it has published stay.
#[utoipa::path(
    delete, path = "/schedules/{name}", tag = "schedules", params(SchedulePath),
    responses((status = 204, description = "The schedule is deleted"), ScheduleProblems, RedisProblems),
)]
pub async fn delete_schedule(
    State(state): State<AppState>,
    SchedulePath(name): SchedulePath,
    caller: Caller,
    _: NoQuery,
) -> Result<StatusCode, Problem> {
    check_schedule(&state, &caller, &name).await?;
    state.store.delete_schedule(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pause a schedule.
///
/// The schedule stops ticking. Ticks that it misses meanwhile are not made up for.
#[utoipa::path(
    post, path = "/schedules/{name}/pause", tag = "schedules", params(SchedulePath),
    responses((status = 200, description = "The schedule", body = Schedule), ScheduleProblems, RedisProblems),
)]
pub async fn pause_schedule(
    State(state): State<AppState>,
    SchedulePath(name): SchedulePath,
    caller: Caller,
    _: OptionalJsonBody<Nothing>,
) -> Result<Response, Problem> {
    check_schedule(&state, &caller, &name).await?;
    state.store.pause_schedule(&name).await?;
    answer_with_schedule(&state, &name).await
}

/// Resume a schedule.
///
/// The schedule ticks again from now on.
#[utoipa::path(
    post, path = "/schedules/{name}/resume", tag = "schedules", params(SchedulePath),
    responses((status = 200, description = "The schedule", body = Schedule), ScheduleProblems, RedisProblems),
)]
pub async fn resume_schedule(
    State(state): State<AppState>,
    SchedulePath(name): SchedulePath,
    caller: Caller,
    _: OptionalJsonBody<Nothing>,
) -> Result<Response, Problem> {
    check_schedule(&state, &caller, &name).await?;
    state.store.resume_schedule(&name).await?;
    answer_with_schedule(&state, &name).await
}

/// Publish a schedule's message now.
///
/// Works while the schedule is paused too. Its next tick does not move.
#[utoipa::path(
    post, path = "/schedules/{name}/trigger", tag = "schedules", params(SchedulePath),
    responses(
        (status = 200, description = "The schedule, with this message as its last", body = Schedule),
        ScheduleProblems, TriggerProblems, RedisProblems,
    ),
)]
pub async fn trigger_schedule(
    State(state): State<AppState>,
    SchedulePath(name): SchedulePath,
    caller: Caller,
    _: OptionalJsonBody<Nothing>,
) -> Result<Response, Problem> {
    check_schedule(&state, &caller, &name).await?;
    let spec = state.store.get_schedule(&name).await?.spec;
    let _taken = caller.spend(&state.store, &spec.topic, &[spec.message]).await?;
    state.store.trigger_schedule(&name, caller.maker()).await?;
    answer_with_schedule(&state, &name).await
}
