//! Moves of messages that came to a topic as dead letters in their own form, back to where they died or elsewhere: by a redrive of the
//! topic, or by a task, as SQS has them.
//!
//! Messages are leased, published where they go, each under an idempotency key of its own, and deleted. If an instance dies in
//! between, they come back after their lease, and the next move finds their copies by these keys.
//!
//! The tasks of a queue are one text in Redis, which every change replaces as it was read. A sorted set says which queue has a task,
//! and when its next step is; whichever instance comes first claims it.

use crate::{
    Store,
    batch::Command,
    callback_names::parts,
    change::Change,
    grants::{Granted, Grants, LeaseOptions},
    lease::LeaseMode,
    registry::Topic,
    reply::{CallError, word},
    scripts,
    sweeps::Claim,
    topics::{Listing, Worked},
    turns::Round,
    types::{Due, Idempotency, IfAbsent, MessageOptions, NewMessage},
};
use deadpool_redis::redis::Value;
use dueq_model::{Backoff, MAX_MAX_BYTES, Millis, State, TopicName, TopicPattern, error::Error};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Tasks of a queue that are remembered, and for how long after the last change (ms): two weeks.
const MAX_TASKS: usize = 10;
const KEPT_MS: Millis = 1_209_600_000;
/// Messages that are moved together.
const TOGETHER: u64 = 500;
/// Lots of which nothing can be moved that are passed over to get to others.
const PASSED: usize = 8;
/// Payload bytes that are moved together, at most.
const STEP_BYTES: u64 = 1024 * 1024;
/// Ready messages that a redrive looks at to know whether any is to be moved.
const LOOKED_AT: u64 = 100;
/// Queues whose tasks an instance takes a step of at once.
const MAX_CLAIMS: usize = 32;
/// How long a step has (ms). The leases of an instance that died are over by then.
const CLAIM_MS: Millis = 15_000;
const LEASE_MS: u64 = 10_000;
/// From one step of a task with a rate, or that cannot go on, to the next, ms.
const PAUSE_MS: Millis = 1_000;
/// For how long a copy is found by its repetition: an hour in ms.
const IDEMPOTENCY_WINDOW_MS: Millis = 3_600_000;

/// How far a task is, as SQS says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum MoveState {
    /// Messages are being moved.
    Running,
    /// None is left.
    Completed,
    /// It ends with the step under way.
    Cancelling,
    /// It was ended.
    Cancelled,
    /// It cannot go on.
    Failed,
}

/// A task that moves the messages of a dead-letter queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MoveTask {
    /// Tells it apart: 32 hex digits.
    pub id: String,
    /// Where to; `None`: back to where each died.
    pub to: Option<TopicName>,
    /// Where messages may go back to; `None`: anywhere.
    #[serde(default)]
    pub only: Option<Vec<TopicPattern>>,
    /// Messages per second, at most.
    pub rate: Option<u64>,
    /// When it began, ms.
    pub started_at: Millis,
    /// How far it is.
    pub state: MoveState,
    /// Messages moved.
    pub moved: i64,
    /// Messages that were ready at the beginning.
    pub of: i64,
    /// Why it failed.
    pub failure: Option<String>,
}

impl MoveTask {
    /// Is it not over yet?
    pub fn is_active(&self) -> bool {
        matches!(self.state, MoveState::Running | MoveState::Cancelling)
    }
}

/// Why no more is moved.
enum Stop {
    /// Nothing is ready.
    Empty,
    /// The topic is paused, a target is full, or what is ready is not granted now.
    Later,
    /// As SQS says it.
    Failed(String),
}

/// What is to be moved: where to, or back; how many; and when they are due there, by how many were moved before.
struct Moving<'a> {
    to: Option<&'a TopicName>,
    most: u64,
    due: &'a (dyn Fn(i64) -> Due + Sync),
    may: &'a (dyn Fn(&TopicName) -> bool + Sync),
}

impl Store {
    /// Begins a task, unless one is active already. Returns whether it did.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn start_move(&self, name: &TopicName, task: MoveTask) -> Result<bool, Error> {
        let add = |tasks: &mut Vec<MoveTask>| {
            let is_free = !tasks.iter().any(MoveTask::is_active);
            if is_free {
                tasks.insert(0, task.clone());
                tasks.truncate(MAX_TASKS);
            }
            is_free
        };
        self.change_moves(name, true, add).await
    }

    /// Ends the task of this ID, if it runs. Returns it, as it was before.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn cancel_move(&self, name: &TopicName, id: &str) -> Result<Option<MoveTask>, Error> {
        let mut found = None;
        let cancel = |tasks: &mut Vec<MoveTask>| {
            let task = tasks.iter_mut().find(|task| task.id == id);
            found = task.as_ref().map(|task| (**task).clone());
            let running = task.filter(|task| task.state == MoveState::Running);
            running.map(|task| task.state = MoveState::Cancelling).is_some()
        };
        self.change_moves(name, true, cancel).await?;
        Ok(found)
    }

    /// The tasks of a queue, the latest first.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn moves(&self, name: &TopicName) -> Result<Vec<MoveTask>, Error> {
        Ok(self.read_moves(name).await?.1)
    }

    async fn read_moves(&self, name: &TopicName) -> Result<(String, Vec<MoveTask>), Error> {
        let read = Command::new("GET").arg(self.tasks_key(name));
        match self.lanes.command(read).await? {
            Value::Nil => Ok((String::new(), Vec::new())),
            found => {
                let text = word(&found).ok_or(CallError::Internal)?;
                let tasks = serde_json::from_str(text).map_err(|_| CallError::Internal)?;
                Ok((text.to_owned(), tasks))
            }
        }
    }

    fn tasks_key(&self, name: &TopicName) -> String {
        format!("{}:{name}", self.lanes.shared.keys.moves)
    }

    /// Changes the tasks of a queue, as often as others do meanwhile. Returns whether there was anything to change. `at_once`: has an
    /// instance look at them.
    async fn change_moves(
        &self,
        name: &TopicName,
        at_once: bool,
        mut change: impl FnMut(&mut Vec<MoveTask>) -> bool,
    ) -> Result<bool, Error> {
        loop {
            let (text, mut tasks) = self.read_moves(name).await?;
            if !change(&mut tasks) {
                return Ok(false);
            }
            let changed = serde_json::to_string(&tasks).map_err(|_| Error::Internal)?;
            let (tasks, moves) = (self.tasks_key(name), &self.lanes.shared.keys.moves);
            let swap = Command::eval(&scripts::SWAP_MOVES, &[&tasks, moves]);
            let at_once = if at_once { name.as_str() } else { "" };
            let swap = swap.arg((text, changed, KEPT_MS, at_once));
            if word(&self.lanes.command(swap).await?) == Some("OK") {
                return Ok(true);
            }
        }
    }

    /// Claims queues with a task whose next step has come. Also says when to ask again, at the latest.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn claim_moves(&self) -> Result<(Vec<Claim>, Option<Millis>), Error> {
        self.claim_partitions(&self.lanes.shared.keys.moves, MAX_CLAIMS, CLAIM_MS).await
    }

    /// Takes the next step of a queue's task, and says when the one after that is.
    ///
    /// Errors: any that a lease or a publish has; then the claim ends by itself, and an instance tries again.
    pub async fn take_move_step(&self, claim: &Claim) -> Result<(), Error> {
        let (name, now) = (&claim.name.topic, self.now());
        let tasks = self.moves(name).await?;
        let Some(task) = tasks.into_iter().find(MoveTask::is_active) else {
            return self.finish_partition(&self.lanes.shared.keys.moves, claim, None).await;
        };
        let (mut moved, mut stop) = (0, None);
        if task.state == MoveState::Running {
            let due = |_| Due::After(0);
            let may = |to: &TopicName| {
                let has = |only: &Vec<TopicPattern>| only.iter().any(|it| it.has(to.as_str()));
                task.only.as_ref().is_none_or(has)
            };
            let most = task.rate.unwrap_or(TOGETHER);
            let moving = Moving { to: task.to.as_ref(), most, due: &due, may: &may };
            let left;
            (moved, left, stop) = match self.move_past(name, &moving, 0).await {
                Err(Error::TopicIsPushed | Error::TopicNotFound) => {
                    let reason = "AWS.SimpleQueueService.UnsupportedOperation".to_owned();
                    (0, Vec::new(), Some(Stop::Failed(reason)))
                }
                done => done?,
            };
            if matches!(stop, None | Some(Stop::Empty)) && many(&left) > 0 {
                stop = Some(Stop::Failed("CouldNotDetermineMessageSource".to_owned()));
            }
            // They go back before the step is noted: the next one looks at them, too.
            drop(left);
        }
        let (mut is_over, is_slow) =
            (false, task.rate.is_some() || matches!(stop, Some(Stop::Later)));
        let note = |tasks: &mut Vec<MoveTask>| {
            let Some(task) = tasks.iter_mut().find(|it| it.id == task.id) else { return false };
            task.moved += moved;
            // Another instance may have ended it during this step.
            if !task.is_active() {
                is_over = true;
                return true;
            }
            task.state = match &stop {
                _ if task.state == MoveState::Cancelling => MoveState::Cancelled,
                // What cannot be moved holds up nothing else.
                _ if moved > 0 => MoveState::Running,
                Some(Stop::Empty) => MoveState::Completed,
                Some(Stop::Failed(_)) => MoveState::Failed,
                _ => MoveState::Running,
            };
            if let (MoveState::Failed, Some(Stop::Failed(reason))) = (task.state, &stop) {
                task.failure = Some(reason.clone());
            }
            is_over = !task.is_active();
            true
        };
        self.change_moves(name, false, note).await?;
        let next = now + if is_slow { PAUSE_MS } else { 0 };
        let next = (!is_over).then_some(next);
        self.finish_partition(&self.lanes.shared.keys.moves, claim, next).await
    }

    /// Moves what came to a topic as it was when it died, and is ready, back where it died: up to `most` messages with those that `sum` has
    /// already, and spread over `spread_ms`. Those from topics that the caller may not publish to stay.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub(crate) async fn move_back(
        &self,
        round: &Round,
        name: &TopicName,
        (most, spread_ms): (u64, Millis),
        may: &(dyn Fn(&TopicName) -> bool + Sync),
        sum: &mut Worked,
    ) -> Result<(), Error> {
        let started = Instant::now();
        let listing = Listing {
            state: State::Ready,
            after: None,
            limit: LOOKED_AT.min(most),
            bodies: true,
            urls: false,
            most_bytes: MAX_MAX_BYTES as usize,
            query: None,
            round,
        };
        let (topic, page) = self.list_messages(name, listing).await?;
        let mut bodies = page.items.iter().filter_map(|it| it.body.as_ref());
        if topic.settings.push.is_some() || !bodies.any(|body| body.origin.is_some()) {
            return Ok(());
        }
        let ready = self.topic(name).await?.1.ready;
        let (from, of) = (sum.done, ready.min(most as i64 - sum.done).max(1));
        let due = |n: i64| {
            Due::After((i128::from(spread_ms) * i128::from(n.min(of)) / i128::from(of)) as Millis)
        };
        // What stays would be granted again at once if it went back now.
        let mut kept = Vec::new();
        while sum.done < most as i64 && started.elapsed() < Duration::from_millis(LEASE_MS / 2) {
            let most = TOGETHER.min(most - sum.done as u64);
            let moving = Moving { to: None, most, due: &due, may };
            let _turn = round.turn().await;
            let (moved, left, stop) = self.move_past(name, &moving, sum.done - from).await?;
            sum.done += moved;
            if moved == 0 {
                if matches!(stop, Some(Stop::Later | Stop::Failed(_))) {
                    let ready = self.topic(name).await?.1.ready;
                    sum.remaining += ready + many(&left);
                }
                return Ok(());
            }
            kept.extend(left);
        }
        sum.remaining += self.topic(name).await?.1.ready;
        Ok(())
    }

    /// Moves some ready messages as [`Self::move_some`] does, past those that cannot be moved.
    async fn move_past(
        &self,
        name: &TopicName,
        moving: &Moving<'_>,
        before: i64,
    ) -> Result<(i64, Vec<Grants>, Option<Stop>), Error> {
        let (started, mut lots, mut failed) = (Instant::now(), Vec::new(), None);
        loop {
            let (moved, left, stop) = self.move_some(name, moving, before).await?;
            lots.push(left);
            let is_last =
                lots.len() == PASSED || started.elapsed() > Duration::from_millis(LEASE_MS / 4);
            match stop {
                Some(Stop::Empty) => return Ok((moved, lots, failed.or(stop))),
                Some(Stop::Later) => return Ok((moved, lots, stop)),
                _ if moved > 0 || is_last => return Ok((moved, lots, failed.or(stop))),
                _ => failed = failed.or(stop),
            }
        }
    }

    /// Moves some ready messages, behind so many of the same move. Returns how many, those that stay, which go back when they are dropped, and
    /// why no more is moved, where that is known.
    ///
    /// Errors: `TopicIsPushed`, `RedisUnavailable`, `OutcomeUnknown`.
    async fn move_some(
        &self,
        name: &TopicName,
        moving: &Moving<'_>,
        before: i64,
    ) -> Result<(i64, Grants, Option<Stop>), Error> {
        let Some(from) = self.known_topic(name).await? else {
            return Err(Error::TopicNotFound);
        };
        let want = LeaseOptions {
            push: false,
            several: false,
            max_messages: moving.most,
            max_bytes: STEP_BYTES,
            lease_ms: Some(LEASE_MS),
        };
        let mode = LeaseMode::Now(Instant::now() + Duration::from_secs(1));
        let mut outcomes = self.lease(name, &[want], mode).await?;
        let outcome = outcomes.pop().ok_or(Error::Internal)??;
        let (mut left, failed) = (outcome.grants, outcome.failed);
        self.bury_damaged(&mut left).await;
        if left.messages.is_empty() {
            // No grant does not say that none is left: limits, or a busy machine, may keep some for later.
            let waits =
                failed.is_some() || from.settings.paused || self.topic(name).await?.1.ready > 0;
            return Ok((0, left, Some(if waits { Stop::Later } else { Stop::Empty })));
        }
        let mut groups: BTreeMap<TopicName, Vec<Granted>> = BTreeMap::new();
        for granted in std::mem::take(&mut left.messages) {
            let origin = granted.body.origin.as_ref().map(|origin| &origin.topic);
            match moving.to.or(origin).filter(|to| (moving.may)(to)) {
                Some(to) => groups.entry(to.clone()).or_default().push(granted),
                None => left.messages.push(granted),
            }
        }
        // A task waits where a target may take more later, though others refuse theirs for good.
        let (mut moved, mut waits, mut failed) = (0, None, None);
        for (to, granted) in groups {
            let target = self.known_topic(&to).await?;
            let copies = || {
                let numbered = granted.iter().zip(before + moved..);
                numbered.map(|(it, n)| copy(&from, target.as_deref(), it, (moving.due)(n)))
            };
            let published = self.publish_batch(&to, copies().collect(), IfAbsent::Refuse).await;
            let is_refused =
                |it: &Error| matches!(it, Error::PayloadTooLarge(_) | Error::OfMessage(..));
            let one_by_one = match &published {
                Ok(all) => all.iter().any(|it| it.as_ref().is_err_and(is_refused)),
                Err(error) => is_refused(error),
            };
            let published = match published {
                // One of them was refused, and others with it. Those that were not are found.
                _ if one_by_one => {
                    let mut each = Vec::new();
                    for copy in copies() {
                        each.push(self.publish(&to, copy, IfAbsent::Refuse).await);
                    }
                    each
                }
                Ok(published) => published,
                Err(error @ (Error::RedisUnavailable | Error::OutcomeUnknown)) => {
                    return Err(error);
                }
                Err(error) => vec![Err(error); granted.len()],
            };
            let mut gone = Vec::new();
            for (granted, published) in granted.into_iter().zip(published) {
                match published {
                    Ok(_) => {
                        gone.push((granted.id, Due::After(0)));
                        continue;
                    }
                    Err(Error::TopicFull | Error::RedisUnavailable | Error::OutcomeUnknown) => {
                        waits = Some(Stop::Later);
                    }
                    Err(Error::TopicNotFound) => {
                        let reason = "AWS.SimpleQueueService.NonExistentQueue";
                        failed = Some(Stop::Failed(reason.to_owned()));
                    }
                    Err(error) => failed = Some(Stop::Failed(error.to_string())),
                }
                left.messages.push(granted);
            }
            moved += gone.len() as i64;
            // Their work is not done: they are deleted. What is not comes back after its lease, and its copy is found.
            self.change_messages(None, Change::ForceDelete, &[State::Leased], &gone).await;
        }
        Ok((moved, left, waits.or(failed)))
    }
}

/// Messages of lots.
fn many(lots: &[Grants]) -> i64 {
    lots.iter().map(|lot| lot.messages().len() as i64).sum()
}

/// The message as it is published again. Back where it died, it says for itself what it said there.
fn copy(from: &Topic, to: Option<&Topic>, granted: &Granted, due: Due) -> NewMessage {
    let mut body = granted.body.clone();
    let (origin, own) = (body.origin.take(), body.own.take().unwrap_or_default());
    let mut options = MessageOptions { priority: granted.priority, ..MessageOptions::default() };
    let mut group = granted.group.clone();
    if let Some(origin) = origin {
        // What it has of them now is what the topic of dead letters says.
        (body.on_done, body.on_dead) = (None, None);
        if to.is_some_and(|to| to.name == origin.topic) {
            // One that it was given meanwhile is the later word.
            body.callback = body.callback.or(own.callback);
            (body.on_done, body.on_dead) = (own.on_done, own.on_dead);
            (options.max_attempts, options.ttl_ms) = (own.max_attempts, own.ttl_ms);
            options.backoff = own.backoff.as_deref().and_then(Backoff::from_script);
        }
    }
    if to.is_some_and(|to| to.name.is_callbacks()) {
        // Its publisher's name goes before it once more.
        group = group.map(|group| parts(&group).1.to_owned());
    }
    // A tenant of a queue of SQS is a group where groups take turns.
    let (is_tenant, takes_turns) = (
        from.settings.sqs.is_some() && from.settings.is_fair(),
        to.is_some_and(|to| to.settings.is_fair()),
    );
    if takes_turns && let Some(parts) = &mut body.sqs {
        group = group.or(parts.group.take());
    } else if is_tenant && !takes_turns && group.is_some() {
        body.sqs.get_or_insert_default().group = group.take();
    }
    let occasion = format!("moved {}", granted.id);
    options.idempotency = Some(Idempotency::of_dueq(&occasion, IDEMPOTENCY_WINDOW_MS));
    NewMessage { body, due, options: MessageOptions { group, ..options } }
}
