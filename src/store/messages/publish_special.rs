//! publish_special: stores messages that name more than when they are due, one after another.

use crate::{
    batch::{Answers, Op},
    partition::Partition,
    publish::{LARGE_BODY_BYTES, Outcome},
    reply::{CallError, Reply},
    scripts::{self, Script},
    types::{Due, MessageOptions, OnDuplicate, Published},
};
use bytes::Bytes;
use deadpool_redis::redis::Cmd;
use dueq_model::{Backoff, Epoch, MessageId, Millis, State, error::Error};
use std::hash::{DefaultHasher, Hash, Hasher};

/// How long after a group's rate has no effect any more a sweep forgets it, as the scripts' `next_sweep` says, ms.
const RATES_KEPT_MS: Millis = 60_000;

/// A message to store that names more than when it is due.
pub struct PublishSpecial {
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

fn hash(kind: u8, key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (kind, key).hash(&mut hasher);
    hasher.finish()
}

impl Op for PublishSpecial {
    type Output = Outcome;

    fn script() -> &'static Script {
        &scripts::PUBLISH_SPECIAL
    }

    fn bytes(&self) -> usize {
        let MessageOptions { backoff, key, idempotency, group, .. } = &self.options;
        let policy = match backoff {
            // What a delay takes as text.
            Some(Backoff::Schedule { delays_ms }) => 16 * delays_ms.len(),
            _ => 0,
        };
        let key = key.as_ref().map_or(0, |key| key.name.len());
        let names = key + group.as_ref().map_or(0, String::len);
        let names = names + idempotency.as_ref().map_or(0, |it| it.key.len());
        // Redis reads and writes these several times.
        self.body.len() + 4 * (policy + names)
    }

    /// Each costs Redis as much as several plain ones, more so where it may have to make room.
    fn messages(&self) -> usize {
        if self.bounded { 4 } else { 2 }
    }

    fn conflicts(&self) -> [Option<u64>; 2] {
        let MessageOptions { key, idempotency, .. } = &self.options;
        [
            key.as_ref().map(|key| hash(0, key.name.as_bytes())),
            idempotency.as_ref().map(|idempotency| hash(1, &idempotency.key)),
        ]
    }

    fn write(group: &[Self], partition: &Partition, _: Epoch, command: &mut Cmd) {
        partition.keys.write_all(command);
        let large = group.iter().any(|publish| publish.body.len() > LARGE_BODY_BYTES);
        command.arg(&partition.topic.version_tag).arg(group.len()).arg(u8::from(large));
        for Self { id, body, due, options, copy, .. } in group {
            command.arg(&id.member()[..]).arg(due.to_script()).arg(&body[..]).arg(options.priority);
            match options.ttl_ms {
                Some(ttl) => command.arg(ttl),
                None => command.arg(""),
            };
            match &options.key {
                Some(key) => match (key.max_wait_ms, key.on_duplicate) {
                    (Some(max_wait_ms), _) => command.arg(&key.name).arg(max_wait_ms),
                    (None, OnDuplicate::Return) => command.arg(&key.name).arg("return"),
                    (None, OnDuplicate::Reject) => command.arg(&key.name).arg("reject"),
                    (None, OnDuplicate::Replace) => command.arg(&key.name).arg("replace"),
                },
                None if *copy => command.arg("").arg("copy"),
                None if options.may_replace() => command.arg("").arg("throttle"),
                None => command.arg("").arg(""),
            };
            command.arg(options.extra());
            match &options.idempotency {
                Some(idempotency) => command
                    .arg(&idempotency.key[..])
                    .arg(format!("{:016x}", idempotency.fingerprint))
                    .arg(idempotency.window_in(&partition.topic.settings)),
                None => command.arg("").arg("").arg(""),
            };
            command.arg(options.group.as_deref().unwrap_or_default());
        }
    }

    fn read(group: &[Self], reply: &mut Reply<'_>) -> Answers<Outcome> {
        let (partition, now) = (reply.partition, reply.now_and_wake()?);
        let topic = &partition.topic;
        topic.counters.expired.inc_by(reply.int()? as u64);
        let mut outcomes = Vec::with_capacity(group.len());
        for Self { options, .. } in group {
            let code = reply.int()?;
            let (member, state, at) = (reply.bytes()?, reply.text()?, reply.int()?);
            outcomes.push(Ok(match code {
                0..=2 | 9 => {
                    let member = member[..].try_into().map_err(|_| CallError::Internal)?;
                    let id = MessageId::from_member(&member, partition.route);
                    let state = State::from_word(&state).ok_or(CallError::Internal)?;
                    match code {
                        0 => topic.counters.published.inc(),
                        2 => topic.counters.replaced.inc(),
                        _ => 0,
                    };
                    partition.happened(code == 0);
                    if matches!(code, 0 | 2) {
                        let ttl = options.ttl_ms.or(topic.settings.ttl_ms);
                        partition.sweep_by(now, ttl.map(|ttl| at.saturating_add(ttl)));
                        let rate = topic.settings.group_rate_per_s.and(options.group.as_ref());
                        partition.sweep_by(now, rate.map(|_| at.saturating_add(RATES_KEPT_MS)));
                    }
                    if let Some(idempotency) = &options.idempotency {
                        let window = idempotency.window_in(&topic.settings);
                        partition.sweep_by(now, Some(now.saturating_add(window)));
                    }
                    let has_due = if code == 9 { at != 0 } else { state != State::Leased };
                    let due_at = has_due.then_some(at);
                    Ok(Published { id, state, due_at, duplicate: code != 0, replaced: code == 2 })
                }
                3 => Err(Error::DuplicateKey),
                4 => Err(Error::MessageLeased),
                5 => Err(Error::IdempotencyKeyReused),
                6 => Err(Error::TopicFull),
                7 => {
                    outcomes.push(Err(CallError::Again));
                    continue;
                }
                8 => Err(Error::GroupChanged),
                _ => return Err(CallError::Internal),
            }));
        }
        Ok(outcomes)
    }
}
