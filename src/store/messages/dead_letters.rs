//! take_dead, claim_dead, finish_dead, and the publishing in between: dead messages are published in another topic, as copies or moved,
//! and completions of messages that have ended are published where these say; complete publishes those of acks and removes their notes
//! in one step where one script may.
//!
//! The script that sees such an end notes it in the same partition, in the same step. An instance takes the notes with the
//! present messages, publishes a copy of each, and removes the notes of those it published. If it is killed in between, it or
//! another instance repeats all of that; an idempotency key makes the second copy find the first. A message that moves is claimed
//! before: if it is dead and there at that moment, it leaves, and comes back only if its copy is not stored.

use crate::{
    Store,
    batch::{Command, GROUP_BYTES, GROUP_MESSAGES, Request},
    cluster::slot_of,
    extra::Extra,
    keys::PartitionKeys,
    layout,
    message::read_snapshot,
    partition::{Partition, PartitionName},
    publish::{Kind, LARGE_BODY_BYTES},
    registry::Topic,
    reply::{CallError, Fields, Reply, malformed, word},
    scripts,
    types::{Due, Idempotency, MessageOptions, MessageSnapshot, NewMessage},
};
use bytes::Bytes;
use deadpool_redis::redis::Value;
use dueq_model::{Body, Member, MessageId, Millis, TopicName, error::Error};
use std::sync::Arc;

/// Deaths of one call.
const CALL_DEATHS: usize = GROUP_MESSAGES;
/// Bytes of bodies of one call; a larger one comes alone.
const CALL_BYTES: u32 = 256 * 1024;
/// For how long a copy is found by its repetition: 10 minutes in ms.
const IDEMPOTENCY_WINDOW_MS: Millis = 600_000;

/// What is published of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The death, to the topic's dead topic.
    Letter,
    /// The completion of an ack.
    Done,
    /// The completion of a death.
    Dead,
}

impl Report {
    const ALL: [(&str, Self); 3] = [("", Self::Letter), ("a", Self::Done), ("d", Self::Dead)];

    /// How the end of this message is noted.
    fn entry(self, id: MessageId) -> Vec<u8> {
        [&id.member()[..], Self::ALL[self as usize].0.as_bytes()].concat()
    }
}

/// An end that is not yet published.
#[derive(Debug)]
pub struct Death {
    /// Whose.
    pub id: MessageId,
    /// What is to be published.
    pub report: Report,
    /// When.
    pub died_at: Millis,
    /// What is noted of it: `died_at`, with a sign if it is claimed.
    pub mark: String,
    /// The message as it is now; `None` if it cannot be read.
    pub message: Option<MessageSnapshot>,
}

impl Death {
    /// Has the message left, to move?
    pub fn is_claimed(&self) -> bool {
        self.mark.starts_with('-')
    }
}

/// What became of a death.
#[derive(Clone, Copy, Debug)]
pub enum DeathEnd {
    /// It is published.
    Done,
    /// It is not published. What this caller claimed is dead again.
    Failed,
    /// It is not to be published. What anybody claimed is dead again.
    Kept,
}

impl DeathEnd {
    fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Kept => "kept",
        }
    }
}

/// The message that reports an end, or the dead message itself.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Whose.
    pub id: MessageId,
    /// When.
    pub died_at: Millis,
    /// What it is.
    pub report: Report,
    /// Content and headers.
    pub body: Body,
    /// 0…255.
    pub priority: u8,
    /// The group of the message, and of its dead letter.
    pub group: Option<String>,
}

impl DeadLetter {
    /// The message that is published. Its idempotency key finds it again.
    fn copy(&self) -> NewMessage {
        let occasion = match self.report {
            Report::Letter => format!("dead {} {}", self.id, self.died_at),
            Report::Done => format!("completes {} done", self.id),
            Report::Dead => format!("completes {} {}", self.id, self.died_at),
        };
        let options = MessageOptions {
            idempotency: Some(Idempotency::of_dueq(&occasion, IDEMPOTENCY_WINDOW_MS)),
            group: self.group.clone(),
            priority: self.priority,
            ..MessageOptions::default()
        };
        NewMessage { body: self.body.clone(), due: Due::After(0), options }
    }
}

impl Store {
    /// Some ends in a partition that are not yet published, the longest ago first, apart from so many of the first.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn take_dead(
        &self,
        name: &PartitionName,
        offset: usize,
    ) -> Result<(Arc<Topic>, Vec<Death>), Error> {
        let take = |partition: &Partition| {
            let take = Command::on(&scripts::TAKE_DEAD, partition);
            take.arg((CALL_DEATHS, CALL_BYTES, offset)).read(partition, read_deaths)
        };
        let (Partition { topic, .. }, deaths) = self.on(name, take).await?;
        Ok((topic, deaths))
    }

    /// Takes these out of the topic, to move them. Returns those that are claimed; others were redriven, deleted or changed since
    /// they were read.
    ///
    /// Errors: `UpgradePending` while an instance runs that knows nothing of claims, `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn claim_dead(
        &self,
        name: &PartitionName,
        mut deaths: Vec<Death>,
    ) -> Result<Vec<Death>, Error> {
        if deaths.is_empty() {
            return Ok(deaths);
        }
        self.check_claims().await?;
        let claim = |partition: &Partition| {
            let mut claim = Command::on(&scripts::CLAIM_DEAD, partition);
            for Death { id, mark, message, .. } in &deaths {
                let events = message.as_ref().map_or("", |message| &message.written);
                claim = claim.arg((&id.member()[..], mark, events));
            }
            claim.read(partition, |reply| {
                (0..reply.len()).map(|_| reply.text()).collect::<Result<Vec<_>, _>>()
            })
        };
        let (_, marks) = self.on(name, claim).await?;
        deaths.iter_mut().zip(marks).for_each(|(death, mark)| death.mark = mark);
        deaths.retain(|death| !death.mark.is_empty());
        Ok(deaths)
    }

    /// Publishes dead letters, whatever the size and the bound of this topic, which comes into being if need be.
    /// What was published before is not again.
    ///
    /// Errors, for each: `OutcomeUnknown`; `TopicsExhausted` or `RedisUnavailable` where it is not stored.
    pub async fn publish_dead_letters(
        &self,
        name: &TopicName,
        letters: &[DeadLetter],
    ) -> Vec<Result<(), Error>> {
        // The topic of completions was named by who published the message, and counts for nobody.
        let letter = letters.first().filter(|letter| letter.report == Report::Letter);
        let died_in = letter.and_then(|letter| letter.id.route()).map(|route| route.topic);
        let copies: Vec<_> = letters.iter().map(DeadLetter::copy).collect();
        let outcomes = self.store_all(name, Kind::Letter(died_in), &copies).await.into_iter();
        let outcomes = outcomes.map(|outcome| match outcome {
            Ok(_) => Ok(()),
            Err(error @ (Error::TopicsExhausted | Error::OutcomeUnknown)) => Err(error),
            Err(_) => Err(Error::RedisUnavailable),
        });
        outcomes.collect()
    }

    /// Publishes completions of acks and forgets those, in one step, if one script may reach both partitions; so no repetition can find
    /// one that was published. Returns how many of the first are done with, and whether a script may. What is left is still noted.
    ///
    /// Errors: `TopicNotFound`, `TopicsExhausted`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn complete(
        &self,
        name: &PartitionName,
        to: &TopicName,
        letters: &[DeadLetter],
    ) -> (usize, Result<bool, Error>) {
        let mut left = letters;
        let may = self.complete_in_groups(name, to, &mut left).await;
        (letters.len() - left.len(), may)
    }

    async fn complete_in_groups(
        &self,
        name: &PartitionName,
        to: &TopicName,
        left: &mut &[DeadLetter],
    ) -> Result<bool, Error> {
        let mut retry = self.stale_retry();
        while !left.is_empty() {
            if !retry.next().await {
                return Err(Error::RedisUnavailable);
            }
            let Some(topic) = self.topic_of(to, Kind::Letter(None), &[]).await? else { continue };
            if topic.settings.closing {
                self.await_change(&topic, &retry).await;
                continue;
            }
            let there = self.lanes.place(topic, &MessageOptions::default(), None);
            let here = slot_of(layout::tag(&name.topic, name.number).as_bytes());
            // Where a topic has several partitions, the next try might go to one in another slot, and by another way.
            if self.lanes.cluster().is_some() && (there.topic.is_split() || there.slot != here) {
                return Ok(false);
            }
            let (mut bytes, mut bodies) = (0, Vec::new());
            for letter in *left {
                let body = there.topic.encode(&letter.body);
                bytes += body.len();
                if bytes > GROUP_BYTES && !bodies.is_empty() {
                    break;
                }
                bodies.push((letter, self.next_id(&there).member(), body));
            }
            let complete = |here: &Partition| complete(here, &there, &bodies);
            if self.on(name, complete).await?.1 {
                (*left, retry) = (&left[bodies.len()..], self.stale_retry());
            } else {
                self.registry.refresh(&there).await?;
            }
        }
        Ok(true)
    }

    /// Notes what became of these, each by what was noted of it.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn finish_dead(
        &self,
        name: &PartitionName,
        ends: &[(MessageId, Report, String, DeathEnd)],
    ) -> Result<(), Error> {
        if ends.is_empty() {
            return Ok(());
        }
        let finish = |partition: &Partition| {
            let mut finish = Command::on(&scripts::FINISH_DEAD, partition);
            for (id, report, mark, end) in ends {
                finish = finish.arg((report.entry(*id), mark, end.word()));
            }
            finish.read(partition, |reply| match reply.whole {
                Value::Int(_) => Ok(()),
                _ => Err(malformed(&reply.whole)),
            })
        };
        self.on(name, finish).await.map(|_| ())
    }
}

/// A call that publishes completions, with the members and bodies of what is published `there`; false if that topic has changed.
fn complete(
    here: &Partition,
    there: &Partition,
    bodies: &[(&DeadLetter, Member, Bytes)],
) -> Request<bool> {
    let PartitionKeys { dead_out, messages, extra, events, acked, meta, .. } = &here.keys;
    let to = &there.keys;
    let keys =
        [dead_out, messages, extra, events, acked, meta, &to.messages, &to.delayed, &to.meta];
    let large = bodies.iter().any(|(.., body)| body.len() > LARGE_BODY_BYTES);
    let call = Command::script(&scripts::COMPLETE, &keys.map(String::as_str));
    let call = call.arg((&here.topic.version_tag, &there.topic.version_tag));
    let mut call = call.arg((u8::from(large), bodies.len()));
    for (letter, ..) in bodies {
        call = call.arg(letter.report.entry(letter.id));
    }
    for (_, member, body) in bodies {
        call = call.arg((&member[..], &body[..]));
    }
    let there = there.clone();
    call.read(here, move |reply| {
        if reply.word() == Some("OTHER") {
            return Ok(false);
        }
        let (now, wakes, count) = (reply.now()?, reply.int()? == 1, reply.int()?);
        if wakes {
            reply.backend.shared.wake(&there.topic.name, Some(there.route.partition));
        }
        there.topic.counters.published.inc_by(count as u64);
        there.happened(count > 0);
        there.sweep_by(now, there.topic.settings.ttl_ms.map(|ttl| now.saturating_add(ttl)));
        Ok(true)
    })
}

pub(crate) fn read_deaths(reply: &mut Reply<'_>) -> Result<Vec<Death>, CallError> {
    reply.now()?;
    let partition = reply.partition;
    if reply.is_empty() {
        return Ok(Vec::new());
    }
    let (mut list, mut messages) = (reply.fields()?, reply.fields()?);
    let (mut bodies, mut events) = (reply.fields()?, reply.fields()?);
    let mut deaths = Vec::with_capacity(bodies.len());
    while !bodies.is_empty() {
        let (entry, mark) = (list.bytes()?, list.text()?);
        let (member, what) = entry.split_first_chunk().ok_or(CallError::Internal)?;
        let known = Report::ALL.into_iter().find(|(letter, _)| letter.as_bytes() == what);
        let (_, report) = known.ok_or(CallError::Internal)?;
        let died_at = mark.trim_start_matches('-').split('.').next().unwrap_or_default();
        let died_at = died_at.parse().map_err(|_| CallError::Internal)?;
        let (shown, written) = (messages.value()?, events.value()?);
        // One that cannot be read is logged, and must not hold up the others.
        let message = match bodies.value()? {
            Value::BulkString(body) => {
                let shown = match report {
                    Report::Done => acked(partition, member, died_at, &shown, written),
                    _ => shown,
                };
                read_snapshot(partition, &mut Fields::of(shown)?, Some(&body.into())).ok()
            }
            _ => None,
        };
        let id = MessageId::from_member(member, partition.route);
        deaths.push(Death { id, report, died_at, mark, message });
    }
    Ok(deaths)
}

/// What the scripts' `snapshot` would say of an acked message of this `extra`, without its body.
fn acked(
    partition: &Partition,
    member: &Member,
    at: Millis,
    extra: &Value,
    events: Value,
) -> Value {
    let text = |text: &[u8]| Value::BulkString(text.to_vec());
    let written = word(extra).unwrap_or_default();
    let Extra { attempts, counted, options, .. } = Extra::parse(written);
    let most = options.max_attempts.map_or(partition.topic.settings.max_attempts, i64::from);
    let left = most.saturating_sub(counted).saturating_sub(1).max(0);
    let events = if events == Value::Nil { text(b"") } else { events };
    let numbers = [at, attempts.saturating_add(1), left].map(Value::Int);
    let rest = [text(written.as_bytes()), Value::Int(0), events, text(b"")];
    Value::Array([text(member), text(b"acked")].into_iter().chain(numbers).chain(rest).collect())
}
