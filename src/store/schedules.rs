//! Schedules: what is published again and again, and when. No instance leads. The first to come claims a schedule whose
//! time has come, works out which ticks are to be made, publishes them, and writes when it ticks next. A claimer that dies
//! is followed after a moment by another, which makes the same ticks: each has an idempotency key of its own, so none is
//! published twice.

#[cfg(test)]
#[path = "../../tests/fuzz/store/schedules.rs"]
mod fuzz;
mod revise;
mod stored;
mod ticks;

pub(super) use revise::ZonesInUse;
pub use ticks::Ticked;

use super::{
    IfAbsent, Maker, NewMessage, Store,
    backend::ENDS_VERSION,
    batch::{Command, Confirm},
    reply::{CallError, Fields, malformed, word},
    scripts,
};
use dueq_model::{
    CatchUp, Ends, MessageId, Millis, ScheduleName, Timing, TopicName, Unknown, error::Error,
};
use std::{collections::HashMap, time::Duration};
use stored::Definition;

/// Calls for a page.
const MAX_PAGE_CALLS: usize = 4;
/// Between two looks whether a schedule's ticks have been made.
const CLAIM_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// What a schedule publishes, and when.
#[derive(Clone, Debug)]
pub struct ScheduleSpec {
    /// When it ticks. The anchor of even distances is the store's to set.
    pub timing: Timing,
    /// Where it publishes.
    pub topic: TopicName,
    /// What.
    pub message: NewMessage,
    /// What becomes of missed ticks.
    pub catch_up: CatchUp,
    /// The key that its topic is made by, if there is none.
    pub maker: Option<Maker>,
}

/// A schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Its name.
    pub name: ScheduleName,
    /// What it publishes, and when.
    pub spec: ScheduleSpec,
    /// When it was created.
    pub created_at: Millis,
    /// It does not tick.
    pub paused: bool,
    /// Its next tick; `None` while paused, and where no more comes.
    pub next_at: Option<Millis>,
    /// The last tick, or when it was last triggered.
    pub last_at: Option<Millis>,
    /// The message published last.
    pub last_message_id: Option<MessageId>,
    /// Why the last tick published nothing.
    pub last_error: Option<String>,
    /// The latest ticks that published nothing, oldest first.
    pub missed_ticks: Vec<Millis>,
    /// Changes with every put, pause and resume.
    revision: i64,
    /// When its present tick was first claimed; 0: not yet.
    claimed_at: Millis,
    /// When this instance claimed it; 0: it has not.
    held_at: Millis,
    generation: String,
    /// What a later version says of it.
    unknown: Unknown,
}

/// A page of schedules.
#[derive(Clone, Debug)]
pub struct SchedulePage {
    /// They, by name.
    pub items: Vec<Schedule>,
    /// The next page begins after this one; `None` on the last.
    pub next_after: Option<ScheduleName>,
}

impl Schedule {
    /// One that is created at `now` and has not ticked.
    pub fn new(name: ScheduleName, spec: ScheduleSpec, now: Millis) -> Self {
        Self {
            name,
            spec,
            created_at: now,
            paused: false,
            next_at: None,
            last_at: None,
            last_message_id: None,
            last_error: None,
            missed_ticks: Vec::new(),
            revision: 0,
            claimed_at: 0,
            held_at: 0,
            generation: String::new(),
            unknown: Unknown::default(),
        }
    }
}

impl Store {
    /// Makes a schedule, or replaces one; `change` makes the new one of the present one, of which it may keep secrets. One
    /// that ticks when it did before goes on as if nothing had happened. Returns whether it was made.
    ///
    /// Errors: those of `change`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn put_schedule(
        &self,
        name: &ScheduleName,
        change: impl Fn(Option<&Schedule>) -> Result<ScheduleSpec, Error>,
    ) -> Result<bool, Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let present = match self.get_schedule(name).await {
                Ok(schedule) => Some(schedule),
                Err(Error::ScheduleNotFound) => None,
                Err(error) => return Err(error),
            };
            let now = self.time_up().await?;
            let mut spec = change(present.as_ref())?;
            let topic = self.registry.find(&spec.topic).await?;
            let is_split = topic.is_some_and(|topic| topic.is_split());
            spec.message.options.check_names(is_split).map_err(|error| match error {
                Error::BadSetting(_, reason) => Error::BadSetting("message.group", reason),
                error => error,
            })?;
            if Ends::of(&spec.message.body).any() {
                self.adopt_version(ENDS_VERSION).await?;
            }
            let before = present.as_ref().map(|present| &present.spec.timing);
            spec.timing = anchored(spec.timing, before, now);
            let next = match &present {
                // It stays, unless the present clock would put it elsewhere.
                Some(present) if present.spec.timing == spec.timing => {
                    let revised =
                        self.revised(present, now, false).filter(|_| present.is_free(now));
                    revised.map_or_else(String::new, |next| next.to_string())
                }
                _ => spec.timing.next_after(now).unwrap_or(0).to_string(),
            };
            let definition = Definition::of(&spec, present.as_ref(), now);
            let revision = present.as_ref().map(|seen| seen.revision.to_string());
            let definition = serde_json::to_vec(&definition).map_err(|_| Error::Internal)?;
            let moved = present.as_ref().is_some_and(|seen| seen.spec.topic != spec.topic);
            let put = Command::eval(&scripts::PUT_SCHEDULE, &self.schedule_keys());
            let put = put.arg((name.as_str(), revision.unwrap_or_default()));
            let claimed_at = present.as_ref().map_or(0, |seen| seen.claimed_at);
            let put = put.arg((definition, next, moved, claimed_at));
            let (answer, confirmed) = self.lanes.change(put, Confirm::Attempt).await?;
            match word(&answer) {
                Some("OK") => {
                    self.schedules_changed.notify_one();
                    confirmed.wait().await?;
                    return Ok(present.is_none());
                }
                // The instance that makes its ticks will be done in a moment, or is followed by another.
                Some("CLAIMED") => tokio::time::sleep(CLAIM_POLL_INTERVAL).await,
                Some("CHANGED") => {}
                _ => return Err(malformed(&answer).into()),
            }
        }
        Err(CallError::Stale.into())
    }

    /// Redis's time, rounded up to the ms: what is counted from it is not cut short.
    async fn time_up(&self) -> Result<Millis, Error> {
        let node = self.lanes.node_of(&self.lanes.shared.keys.schedules);
        let mut time = Fields::of(node.command(Command::new("TIME")).await?)?;
        let (seconds, micros) = (time.int()?, time.int()?);
        Ok(seconds * 1000 + (micros + 999) / 1000)
    }

    /// The keys of all schedules, in the order in which scripts get them.
    pub(super) fn schedule_keys(&self) -> [&str; 4] {
        let keys = &self.lanes.shared.keys;
        [&keys.schedules, &keys.schedule_states, &keys.schedules_due, &keys.schedules_index]
    }

    /// A schedule.
    ///
    /// Errors: `ScheduleNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn get_schedule(&self, name: &ScheduleName) -> Result<Schedule, Error> {
        let get = Command::eval(&scripts::GET_SCHEDULE, &self.schedule_keys()[..2]);
        let answer = self.lanes.command(get.arg(name.as_str())).await?;
        if word(&answer) == Some("NONE") {
            return Err(Error::ScheduleNotFound);
        }
        let mut fields = Fields::of(answer)?;
        let (state, definition) = (fields.text()?, fields.bytes()?);
        let mut schedule = stored::read(name.clone(), &state, &definition, &self.zones())?;
        schedule.recall_missed(&fields.text()?);
        self.mark_schedules(std::slice::from_mut(&mut schedule)).await?;
        Ok(schedule)
    }

    /// Marks which headers of what these publish are secrets by now, and whose: as their topic is pushed, or once was.
    /// Not as it is known here: with an older configuration nothing might be marked, and published as it is.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    async fn mark_schedules(&self, schedules: &mut [Schedule]) -> Result<(), Error> {
        let mut topics = HashMap::new();
        for ScheduleSpec { topic: name, message, .. } in schedules.iter_mut().map(|s| &mut s.spec) {
            if message.body.headers.is_empty() {
                continue;
            }
            if !topics.contains_key(name) {
                topics.insert(name.clone(), self.fresh_topic(name).await?);
            }
            if let Some(Some(topic)) = topics.get(name) {
                message.body.recall(Millis::MIN, &topic.settings.once_secret);
                topic.settings.push.iter().for_each(|push| message.body.mark_secrets(push));
            }
        }
        Ok(())
    }

    /// Schedules by name that come after `after`, at most `limit`, fewer where they are large.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn list_schedules(
        &self,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<SchedulePage, Error> {
        let (mut items, mut more) = (Vec::new(), true);
        for _ in 0..MAX_PAGE_CALLS {
            let last = items.last().map(|last: &Schedule| &last.name).or(after);
            let (read, has_more, _) = self.read_schedules(last, limit - items.len()).await?;
            more = has_more;
            items.extend(read);
            if !more || items.len() >= limit {
                break;
            }
        }
        self.mark_schedules(&mut items).await?;
        let next_after = items.last().map(|last| last.name.clone()).filter(|_| more);
        Ok(SchedulePage { items, next_after })
    }

    /// Deletes a schedule; what it has published stays.
    ///
    /// Errors: `ScheduleNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn delete_schedule(&self, name: &ScheduleName) -> Result<(), Error> {
        let delete = Command::eval(&scripts::DELETE_SCHEDULE, &self.schedule_keys());
        let delete = delete.arg(name.as_str()).confirmed();
        if self.answers_ok(delete).await? { Ok(()) } else { Err(Error::ScheduleNotFound) }
    }

    /// Stops a schedule's ticks.
    ///
    /// Errors: `ScheduleNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn pause_schedule(&self, name: &ScheduleName) -> Result<(), Error> {
        self.set_schedule_paused(name, true).await
    }

    /// Lets a schedule tick again; what it missed while it was paused is not made up for.
    ///
    /// Errors: `ScheduleNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn resume_schedule(&self, name: &ScheduleName) -> Result<(), Error> {
        self.set_schedule_paused(name, false).await
    }

    async fn set_schedule_paused(&self, name: &ScheduleName, paused: bool) -> Result<(), Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let schedule = self.get_schedule(name).await?;
            if schedule.paused == paused {
                return Ok(());
            }
            let next = schedule.spec.timing.next_after(self.now()).filter(|_| !paused);
            let pause = Command::eval(&scripts::PAUSE_SCHEDULE, &self.schedule_keys()[1..3]);
            let pause = pause.arg((name.as_str(), schedule.revision, paused, next.unwrap_or(0)));
            if self.answers_ok(pause.confirmed()).await? {
                self.schedules_changed.notify_one();
                return Ok(());
            }
        }
        Err(CallError::Stale.into())
    }

    /// Publishes a schedule's message now, whether it is paused or not; when it ticks does not change. If there is no topic,
    /// it is made by this key.
    ///
    /// Errors: `ScheduleNotFound`, those of [`Store::publish`].
    pub async fn trigger_schedule(
        &self,
        name: &ScheduleName,
        maker: Option<&Maker>,
    ) -> Result<(), Error> {
        let ScheduleSpec { topic, message, .. } = self.get_schedule(name).await?.spec;
        let published = self.publish(&topic, message, IfAbsent::Create(maker)).await?;
        let note = Command::eval(&scripts::TRIGGER_SCHEDULE, &self.schedule_keys()[1..2]);
        let note = note.arg((name.as_str(), self.now(), published.id.to_string()));
        // The message is published by now.
        let noted = self.answers_ok(note).await.map_err(Error::after_change)?;
        if noted { Ok(()) } else { Err(Error::ScheduleNotFound) }
    }

    /// Comes back once this instance has changed when a schedule ticks.
    pub async fn schedules_changed(&self) {
        self.schedules_changed.notified().await;
    }

    async fn answers_ok(&self, command: Command) -> Result<bool, Error> {
        let answer = self.lanes.command(command).await?;
        Ok(word(&answer).ok_or_else(|| malformed(&answer))? == "OK")
    }
}

/// Even distances are counted from when they were first put.
fn anchored(timing: Timing, before: Option<&Timing>, now: Millis) -> Timing {
    match (timing, before) {
        (Timing::Every { every_ms, .. }, Some(Timing::Every { every_ms: same, anchor_ms }))
            if every_ms == *same =>
        {
            Timing::Every { every_ms, anchor_ms: *anchor_ms }
        }
        (Timing::Every { every_ms, .. }, _) => Timing::Every { every_ms, anchor_ms: now },
        (timing, _) => timing,
    }
}
