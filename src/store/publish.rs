//! publish: from a group of new messages to the script's arguments. Messages that name nothing but when they are due go
//! by a script that does no more than that needs; all others by one that takes them one after another.

use super::{
    call::{Context, Ticket, Verb},
    job::Job,
    registry::Topic,
    reply::{CallError, Fields},
    scripts::{self, Script},
    submit::Grouped,
    types::{Due, MessageOptions, OnDuplicate, Published},
};
use crate::{
    error::Error,
    model::{Backoff, Member, MessageId, Millis, State},
    seeded,
};
use bytes::Bytes;
use deadpool_redis::redis::{Cmd, Value};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// Bodies above this many bytes make leases look at sizes.
const LARGE_BODY: usize = 1024;

/// A message to store that names nothing but when it is due.
pub(crate) struct Publish {
    pub id: MessageId,
    /// The encoded body.
    pub body: Bytes,
    pub due: Due,
}

/// A message to store that names more.
pub(crate) struct PublishSpecial {
    pub id: MessageId,
    /// The encoded body.
    pub body: Bytes,
    pub due: Due,
    pub options: MessageOptions,
    /// It comes in whatever the topic's bound; it has no key.
    pub copy: bool,
    /// The topic has a bound.
    pub bounded: bool,
}

/// What one message's publish gave.
pub(crate) type Outcome = Result<Published, Error>;

impl Grouped for Publish {
    fn job(ticket: Ticket<Self>) -> Job {
        Job::Publish(ticket)
    }
}

impl Grouped for PublishSpecial {
    fn job(ticket: Ticket<Self>) -> Job {
        Job::PublishSpecial(ticket)
    }
}

fn stored(id: MessageId, due_at: Millis, now: Millis) -> Published {
    let state = if due_at > now { State::Delayed } else { State::Ready };
    Published { id, state, due_at: Some(due_at), duplicate: false }
}

impl Verb for Publish {
    type Answer = Outcome;

    fn script() -> &'static Script {
        &scripts::PUBLISH
    }

    fn bytes(&self) -> usize {
        self.body.len()
    }

    fn write(group: &[Ticket<Self>], topic: &Topic, _: &Context<'_>, command: &mut Cmd) {
        let keys = &topic.keys;
        command.arg(3).arg(&keys.messages).arg(&keys.delayed).arg(&keys.meta);
        let verbs = || group.iter().map(|ticket| &ticket.verb);
        let large = verbs().any(|verb| verb.body.len() > LARGE_BODY);
        command.arg(&topic.word).arg(group.len()).arg(u8::from(large));
        for verb in verbs() {
            match verb.due {
                Due::After(delay) if seeded::bug("local clock") => {
                    command.arg(format!("@{}", seeded::local_clock() + delay))
                }
                Due::After(delay) => command.arg(delay),
                due => command.arg(due.to_script()),
            };
            command.arg(&verb.id.member()[..]);
        }
        for verb in verbs() {
            command.arg(&verb.id.member()[..]).arg(&verb.body[..]);
        }
    }

    fn read(
        group: &[Ticket<Self>],
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Vec<Result<Outcome, CallError>>, CallError> {
        let mut fields = Fields::of(reply)?;
        let now = context.read_wake(topic, &mut fields)?;
        let up = fields.int()?;
        topic.counters.published.inc_by(group.len() as u64);
        let stored =
            |ticket: &Ticket<Self>| stored(ticket.verb.id, ticket.verb.due.from(now, up), now);
        if let Some(ttl) = topic.settings.ttl_ms {
            let due = group.iter().filter_map(|ticket| stored(ticket).due_at).min();
            topic.sweep_by(now, due.map(|due| due.saturating_add(ttl)));
        }
        Ok(group.iter().map(|ticket| Ok(Ok(stored(ticket)))).collect())
    }
}

impl MessageOptions {
    /// Does the message name nothing but when it is due?
    pub(crate) fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// What stands in `extra` for it; empty where that is nothing.
    pub(super) fn extra(&self) -> String {
        let max_attempts = self.max_attempts.map(|max| max.to_string()).unwrap_or_default();
        if self.ttl_ms.is_none() && self.backoff.is_none() && self.key.is_none() {
            return match (self.priority, max_attempts.is_empty()) {
                (0, true) => String::new(),
                _ => format!("0,0,{max_attempts},{}", self.priority),
            };
        }
        let ttl = self.ttl_ms.map(|ttl| ttl.to_string()).unwrap_or_default();
        let backoff = self.backoff.as_ref().map(|policy| policy.to_script()).unwrap_or_default();
        let (hold, key) =
            self.key.as_ref().map_or(("", ""), |key| (key.until.letter(), key.name.as_str()));
        format!("0,0,{max_attempts},{},{ttl},{backoff},{hold},{key}", self.priority)
    }
}

fn hash(kind: u8, key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (kind, key).hash(&mut hasher);
    hasher.finish()
}

impl Verb for PublishSpecial {
    type Answer = Outcome;

    fn script() -> &'static Script {
        &scripts::PUBLISH_SPECIAL
    }

    fn bytes(&self) -> usize {
        let MessageOptions { backoff, key, idempotency, .. } = &self.options;
        let policy = match backoff {
            // What a delay takes as text.
            Some(Backoff::Schedule { delays_ms }) => 16 * delays_ms.len(),
            _ => 0,
        };
        let key = key.as_ref().map_or(0, |key| key.name.len());
        self.body.len() + policy + key + idempotency.as_ref().map_or(0, |it| it.key.len())
    }

    /// Each costs Redis as much as several plain ones, more so where it may have to make room.
    fn messages(&self) -> usize {
        if self.bounded { 4 } else { 2 }
    }

    fn concerns(&self) -> [Option<u64>; 2] {
        let MessageOptions { key, idempotency, .. } = &self.options;
        if seeded::bug("keys read first") {
            return [None, None];
        }
        [
            key.as_ref().map(|key| hash(0, key.name.as_bytes())),
            idempotency.as_ref().map(|idempotency| hash(1, &idempotency.key)),
        ]
    }

    fn write(group: &[Ticket<Self>], topic: &Topic, _: &Context<'_>, command: &mut Cmd) {
        topic.keys.write_all(command);
        let large = group.iter().any(|ticket| ticket.verb.body.len() > LARGE_BODY);
        command.arg(&topic.word).arg(group.len()).arg(u8::from(large));
        for Self { id, body, due, options, copy, .. } in group.iter().map(|ticket| &ticket.verb) {
            command.arg(&id.member()[..]).arg(due.to_script()).arg(&body[..]).arg(options.priority);
            match options.ttl_ms {
                Some(ttl) => command.arg(ttl),
                None => command.arg(""),
            };
            match &options.key {
                Some(key) => command.arg(&key.name).arg(match key.on_duplicate {
                    OnDuplicate::Return => "return",
                    OnDuplicate::Reject => "reject",
                    OnDuplicate::Replace => "replace",
                }),
                None => command.arg("").arg(if *copy { "copy" } else { "" }),
            };
            command.arg(options.extra());
            match &options.idempotency {
                Some(idempotency) => command
                    .arg(&idempotency.key[..])
                    .arg(format!("{:016x}", idempotency.fingerprint))
                    .arg(idempotency.window_in(&topic.settings)),
                None => command.arg("").arg("").arg(""),
            };
        }
    }

    fn read(
        group: &[Ticket<Self>],
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Vec<Result<Outcome, CallError>>, CallError> {
        let mut fields = Fields::of(reply)?;
        let now = context.read_wake(topic, &mut fields)?;
        topic.counters.expired.inc_by(fields.int()? as u64);
        let mut outcomes = Vec::with_capacity(group.len());
        for ticket in group {
            let code = fields.int()?;
            let (member, state, at) = (fields.bytes()?, fields.text()?, fields.int()?);
            outcomes.push(Ok(match code {
                0..=2 => {
                    let member: Member = member[..].try_into().map_err(|_| CallError::Internal)?;
                    let id = MessageId::from_member(&member, topic.route);
                    let state = State::from_word(&state).ok_or(CallError::Internal)?;
                    match code {
                        0 => topic.counters.published.inc(),
                        2 => topic.counters.replaced.inc(),
                        _ => 0,
                    };
                    let options = &ticket.verb.options;
                    if code != 1 {
                        let ttl = options.ttl_ms.or(topic.settings.ttl_ms);
                        topic.sweep_by(now, ttl.map(|ttl| at.saturating_add(ttl)));
                    }
                    if let Some(idempotency) = &options.idempotency {
                        let window = idempotency.window_in(&topic.settings);
                        topic.sweep_by(now, Some(now.saturating_add(window)));
                    }
                    let due_at = (state != State::Leased).then_some(at);
                    Ok(Published { id, state, due_at, duplicate: code != 0 })
                }
                3 => Err(Error::DuplicateKey),
                4 => Err(Error::MessageLeased),
                5 => Err(Error::IdempotencyKeyReused),
                6 => Err(Error::TopicFull),
                7 => {
                    outcomes.push(Err(CallError::Again));
                    continue;
                }
                _ => return Err(CallError::Internal),
            }));
        }
        Ok(outcomes)
    }
}
