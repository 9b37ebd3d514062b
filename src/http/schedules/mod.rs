//! Schedules as answers show them, and their routes. What `authorization` and `cookie` headers hold is never read back.

pub(crate) mod fields;

use crate::{
    access::Seal,
    callbacks::CallbackView,
    messages::{
        completion::{CompletionView, make_topics, own_completions, topics_of},
        publish::check_replace,
        view::{OptionsView, RenderedContent},
    },
    prelude::*,
    request::cursor,
};
use dueq_model::{
    CatchUp, CronTiming, DEFAULT_PAGE, MessageId, ScheduleName, Timing, TopicName, is_credential,
    masked,
};
use dueq_store::{self as store, KeyUntil, NewMessage, OnDuplicate};
use fields::{
    ITS_TOPIC, PutScheduleRequest, TimingFields, check_spec, find_schedule, with_kept_secrets,
};
use std::{collections::BTreeMap, iter::successors};

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
        /// Where the acks of its messages are published.
        on_done: Option<CompletionView<'a>>,
        /// Where the deaths of its messages are published.
        on_dead: Option<CompletionView<'a>>,
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
            on_done: body.on_done.as_deref().map(CompletionView::from),
            on_dead: body.on_dead.as_deref().map(CompletionView::from),
        }
    }
}

/// Answers with the schedule after a change.
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
    cx: Context,
    SchedulePath(name): SchedulePath,
    JsonBody(request, _): JsonBody<PutScheduleRequest>,
) -> Answer {
    if let Some(reason) = name.unfit() {
        return Err(Problem::new(Code::InvalidScheduleName, reason));
    }
    let mut spec = request.into_spec(cx.store.now(), &cx.store.zones())?;
    cx.caller.check_topic(&spec.topic)?;
    spec.maker = cx.caller.maker().cloned();
    spec.message.body.publisher = spec.topic.is_callbacks().then(|| cx.caller.owner().to_owned());
    check_replace(&cx.caller, &spec.topic, [&spec.message])?;
    own_completions(&cx.caller, [&mut spec.message])?;
    check_spec(&cx, &spec)?;
    make_topics(&cx.store, &cx.caller, topics_of(std::slice::from_ref(&spec.message))).await?;
    let pushed = cx.store.push_of(&spec.topic).await?;
    let change = |present: Option<&store::Schedule>| {
        present
            .map_or(Ok(()), |present| cx.caller.check_topic_of(ITS_TOPIC, &present.spec.topic))?;
        with_kept_secrets(spec.clone(), present, pushed.as_ref())
    };
    let created = cx.store.put_schedule(&name, change).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, answer_with_schedule(&cx, &name).await?).into_response())
}

/// Get a schedule.
///
/// Returns what it publishes and when, and how its last tick went.
#[utoipa::path(
    get, path = "/schedules/{name}", tag = "schedules", params(SchedulePath),
    responses((status = 200, description = "The schedule", body = Schedule), ScheduleProblems, RedisProblems),
)]
pub async fn get_schedule(cx: Context, SchedulePath(name): SchedulePath, _: NoQuery) -> Answer {
    let schedule = find_schedule(&cx, &cx.caller, &name).await?;
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
    cx: Context,
    JudgedSchedule(name): JudgedSchedule,
    _: NoQuery,
) -> Result<StatusCode, Problem> {
    cx.store.delete_schedule(&name).await?;
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
    cx: Context,
    JudgedSchedule(name): JudgedSchedule,
    _: NoBody,
) -> Answer {
    cx.store.pause_schedule(&name).await?;
    answer_with_schedule(&cx, &name).await
}

/// Resume a schedule.
///
/// The schedule ticks again from now on.
#[utoipa::path(
    post, path = "/schedules/{name}/resume", tag = "schedules", params(SchedulePath),
    responses((status = 200, description = "The schedule", body = Schedule), ScheduleProblems, RedisProblems),
)]
pub async fn resume_schedule(
    cx: Context,
    JudgedSchedule(name): JudgedSchedule,
    _: NoBody,
) -> Answer {
    cx.store.resume_schedule(&name).await?;
    answer_with_schedule(&cx, &name).await
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
    cx: Context,
    JudgedSchedule(name): JudgedSchedule,
    _: NoBody,
) -> Answer {
    let spec = cx.store.get_schedule(&name).await?.spec;
    let _taken = cx.caller.spend(&cx.store, &spec.topic, &[spec.message]).await?;
    cx.store.trigger_schedule(&name, cx.caller.maker()).await?;
    answer_with_schedule(&cx, &name).await
}

/// Schedules that are read at once, at least, for a key that may not read them all, and for one page.
const CHUNK: usize = 100;
const MAX_LOOKED_AT: usize = 1_000;

answer! {
    /// A page of schedules.
    pub struct ScheduleList<'a> {
        /// The schedules, by name.
        items: Vec<Schedule<'a>>,
        /// Cursor for the next page. Absent on the last page.
        next_cursor: Option<String>,
    }
}

request! {
    /// Query parameters of listSchedules.
    pub struct ListSchedulesParams {
        /// Items per page, 1 to 1000; fewer if they are large.
        pub limit: PageSize = PageSize::new(DEFAULT_PAGE),
        /// The `next_cursor` of the previous page.
        pub cursor: Option<Cursor>,
    }
}

/// List schedules.
///
/// In order of their names, those whose topic the API key may read. Pass `next_cursor` to get the next page. A page looks at
/// about 1000 schedules: for a key that may read few of them it may be empty and still have a `next_cursor`.
#[utoipa::path(
    get, path = "/schedules", tag = "schedules", params(ListSchedulesParams),
    responses((status = 200, description = "A page of schedules, by name", body = ScheduleList), RedisProblems),
)]
pub async fn list_schedules(
    cx: Context,
    Query(ListSchedulesParams { limit, cursor }): Query<ListSchedulesParams>,
) -> Answer {
    let veil = match cx.caller.may_to_all() {
        true => None,
        false => Some(Seal::of(&cx.store, "dueq cursor").ok_or(Error::RedisUnavailable)?),
    };
    let after = open_cursor(cursor, |cursor| open(veil.as_ref(), cursor))?;
    let (shown, next) = shown_schedules(&cx, after, limit.get() as usize).await?;
    let next_cursor = next.and_then(|next| seal(veil.as_ref(), &next));
    let items = shown.iter().map(Schedule::of).collect();
    Ok(json(&ScheduleList { items, next_cursor }))
}

/// The next schedules that the caller may read, and after which one others may follow. Reads on until there is one, and no more
/// than a page may cost: then it may be after one that is not shown.
async fn shown_schedules(
    cx: &Context,
    mut after: Option<ScheduleName>,
    limit: usize,
) -> Result<(Vec<store::Schedule>, Option<ScheduleName>), Error> {
    let chunk = if cx.caller.may_to_all() { limit } else { limit.max(CHUNK) };
    let mut looked_at = 0;
    loop {
        let page = cx.store.list_schedules(after.as_ref(), chunk).await?;
        let mut shown = page.items;
        looked_at += shown.len();
        shown.retain(|schedule| cx.caller.may(&schedule.spec.topic));
        after = page.next_after;
        if shown.len() > limit {
            shown.truncate(limit);
            after = shown.last().map(|last| last.name.clone());
        }
        if !shown.is_empty() || after.is_none() || looked_at >= MAX_LOOKED_AT {
            return Ok((shown, after));
        }
    }
}

/// The cursor after this schedule. The list of a key that may not read all schedules may end at one that the key must not
/// know of: then the name is encrypted.
fn seal(veil: Option<&Seal>, last: &ScheduleName) -> Option<String> {
    let place = last.to_string();
    Some(match veil {
        None => cursor::seal(&["schedules"], &place),
        Some(veil) => {
            cursor::seal(&["schedules", "some"], &veil.hide(b"schedules", place.as_bytes())?)
        }
    })
}

/// The schedule at which the cursor was given out.
fn open(veil: Option<&Seal>, cursor: &str) -> Option<ScheduleName> {
    let place: Vec<u8> = match veil {
        None => cursor::open(&["schedules"], cursor)?,
        Some(veil) => {
            veil.show(b"schedules", &cursor::open::<Vec<u8>>(&["schedules", "some"], cursor)?)?
        }
    };
    ScheduleName::parse(str::from_utf8(&place).ok()?).ok()
}

/// Ticks of a preview, at most.
const MAX_TICKS: u64 = 100;

request! {
    /// Query parameters of previewSchedule.
    pub struct PreviewScheduleParams {
        pub timing: Flat<TimingFields>,
        /// How many ticks, 1 to 100.
        #[example = 5]
        pub count: Bounded<1, MAX_TICKS> = Bounded::new(5),
    }
}

answer! {
    /// When a schedule would tick.
    pub struct SchedulePreview {
        /// The next ticks in order, RFC 3339 in UTC with ms. Fewer than asked for if there are no more.
        next: Vec<Instant>,
        /// The same in words. Absent where the expression has no short ones.
        #[example = "every day at 09:00 in Europe/Berlin"]
        description: Option<String>,
        /// In words: what in `cron` may be meant otherwise. Absent if there is nothing.
        warnings: Option<Vec<String>>,
    }
}

/// Preview a schedule's ticks.
///
/// Returns when a schedule with this timing would tick next if it were put now, and refuses what putSchedule refuses. Stores
/// nothing. Any key may ask. No schedule can be called `preview`.
#[utoipa::path(
    get, path = "/schedules/preview", tag = "schedules", params(PreviewScheduleParams),
    responses((status = 200, description = "The next ticks", body = SchedulePreview)),
)]
pub async fn preview_schedule(
    cx: Context,
    Query(PreviewScheduleParams { timing, count }): Query<PreviewScheduleParams>,
) -> Answer {
    let now = cx.store.now();
    let timing = timing.0.into_timing(now, &cx.store.zones())?;
    let ticks = successors(timing.next_after(now), |tick| timing.next_after(*tick));
    let next = ticks.take(count.get() as usize).map(Instant).collect();
    let warnings = timing.warning().map(|warning| vec![warning]);
    Ok(json(&SchedulePreview { next, description: timing.words(), warnings }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_of_a_key_that_may_not_read_all_hides_its_place() {
        let name = ScheduleName::parse(&"x".repeat(128)).unwrap();
        let veil = |secret: u8| Seal::new(&[secret; 32]);
        let hidden = seal(veil(1).as_ref(), &name).unwrap();
        assert!(hidden.len() <= cursor::MAX_CURSOR);
        assert_eq!(open(veil(1).as_ref(), &hidden), Some(name.clone()));
        assert_eq!(open(veil(2).as_ref(), &hidden).or(open(None, &hidden)), None);
        let plain = seal(None, &name).unwrap();
        assert_eq!((open(veil(1).as_ref(), &plain), open(None, &plain)), (None, Some(name)));
    }
}
