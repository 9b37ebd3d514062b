//! lease: grants messages, for one consumer or for all who wait for a topic.

use super::{
    Store,
    batch::{Answers, Command, GROUP_MESSAGES, Op, Request},
    grants::{Granted, Grants, LeaseOptions},
    message::decode,
    registry::{Registry, Topic},
    reply::{CallError, Fields, Reply, bytes, int},
    scripts::{self, Script},
};
use crate::{
    error::Error,
    model::{Epoch, LeaseClaims, MessageId, Millis, TopicName},
    seeded,
};
use deadpool_redis::redis::{Cmd, Value};
use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Instant,
};

/// Below this, the max_bytes of a lease makes the script look at every size; above, the bound of a reply is smaller anyway.
const SIZED_BELOW: u64 = 256 * 1024;
/// What `lease.lua` writes when consumers sleep for whatever comes.
const FOREVER: Millis = 1 << 53;

/// What a lease got.
#[derive(Default)]
pub struct LeaseOutcome {
    /// The messages, none where nothing was ready.
    pub grants: Grants,
    /// When something next happens in the topic by itself; only told to a caller who waits.
    pub next_at: Option<Millis>,
    /// Less was granted than asked for only because the call reached its bounds: ask again at once.
    pub more: bool,
    /// The call removed what had expired, which may go on for long.
    cleared: bool,
}

impl Store {
    /// Grants what is ready, as much as asked for. With `waits`, publishers will wake this instance when there is
    /// something new before `next_at`. A topic that does not exist has nothing. What takes many calls, since much has
    /// expired, ends at `until` with what there is by then.
    ///
    /// Errors: `TopicIsPushed`, and where dueq itself asks `TopicNotPushed`; `RedisUnavailable`; `OutcomeUnknown` when
    /// messages may have been granted, which come back after their lease.
    pub async fn lease(
        &self,
        name: &TopicName,
        options: LeaseOptions,
        waits: bool,
        until: Instant,
    ) -> Result<LeaseOutcome, Error> {
        let mut outcome = LeaseOutcome::default();
        let mut left = options;
        let mut retry = self.stale_retry();
        loop {
            let Some(topic) = self.registry.find(name).await? else { return Ok(outcome) };
            // What was granted before a refusal or a failure is the consumer's all the same.
            let begun = !outcome.grants.messages().is_empty();
            if let Some(refusal) = topic.refuses(&options) {
                if begun {
                    return Ok(outcome);
                }
                self.confirm(&topic, refusal).await?;
                continue;
            }
            let registry = Arc::downgrade(&self.registry);
            let lease = Lease { options: left, begun, waits, registry };
            let got = match self.lanes.submit(Request::new(&topic, lease, Instant::now())).await {
                Ok(got) => got,
                Err(CallError::Stale) if retry.next().await => {
                    self.registry.refresh(&topic).await?;
                    continue;
                }
                Err(_) if begun => return Ok(outcome),
                Err(error) => return Err(error.into()),
            };
            let messages = got.grants.messages().len() as u64;
            let bytes: u64 = got.grants.messages().iter().map(|m| m.payload_bytes).sum();
            outcome.grants.append(got.grants);
            outcome.next_at = got.next_at;
            left.max_messages -= messages;
            left.max_bytes = left.max_bytes.saturating_sub(bytes);
            outcome.more = got.more && left.max_messages > 0;
            // A call is bounded, so a request may take several. One that has nothing yet was crowded out by those before
            // it in the same call; one that has something, and got no more, leaves the rest to others.
            let met = left.max_messages == 0 || left.max_bytes == 0;
            let late = (messages == 0 || got.cleared) && Instant::now() >= until;
            if !got.more || met || (begun && messages == 0) || late {
                return Ok(outcome);
            }
        }
    }

    /// Asks for consumers who wait, oldest first: one outcome for each of `all`. Each gets what one call grants.
    ///
    /// Errors: as for [`Store::lease`]; what some were granted is delivered even where others' answers were lost.
    pub async fn lease_waiting(
        &self,
        name: &TopicName,
        all: &[LeaseOptions],
    ) -> Result<Vec<Result<LeaseOutcome, Error>>, Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let Some(topic) = self.registry.find(name).await? else {
                return Ok(all.iter().map(|_| Ok(LeaseOutcome::default())).collect());
            };
            let lease = |options: &LeaseOptions| {
                let (options, registry) = (*options, Arc::downgrade(&self.registry));
                (topic.clone(), Lease { options, begun: false, waits: true, registry })
            };
            // The topic may have become pushed, or no longer be so, while they waited: then there is nothing for them.
            let fits = |options: &&LeaseOptions| topic.refuses(options).is_none();
            let fitting = all.iter().filter(fits).map(lease);
            let answers = self.lanes.submit_many(fitting).await;
            if answers.iter().any(|answer| matches!(answer, Err(CallError::Stale))) {
                self.registry.refresh(&topic).await?;
                continue;
            }
            let mut answers = answers.into_iter();
            let mut outcome = |options: &LeaseOptions| match fits(&options) {
                true => answers.next().unwrap_or(Ok(LeaseOutcome::default())).map_err(Error::from),
                false => Ok(LeaseOutcome::default()),
            };
            return Ok(all.iter().map(&mut outcome).collect());
        }
        // It changes all the time.
        Err(CallError::Stale.into())
    }

    /// Did something happen in the topic that consumers who sleep until `next` should have been woken for?
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn has_news(&self, name: &TopicName, next: Option<Millis>) -> Result<bool, Error> {
        let Some(topic) = self.registry.find(name).await? else { return Ok(false) };
        let mark = Command::new("HGET").arg((&topic.keys.meta, "sleep"));
        let mark = match self.lanes.command(mark).await? {
            // The topic came into being after they were asked for.
            Value::Nil => 0,
            mark => int(mark)?,
        };
        Ok(mark < next.unwrap_or(Millis::MAX).min(FOREVER))
    }
}

/// A request for messages.
pub(crate) struct Lease {
    pub options: LeaseOptions,
    /// The consumer has messages for it from an earlier call.
    pub begun: bool,
    /// The consumer will sleep for them.
    pub waits: bool,
    /// Where grants go back to whose consumer is gone.
    pub registry: Weak<Registry>,
}

impl Op for Lease {
    type Output = LeaseOutcome;

    fn script() -> &'static Script {
        &scripts::LEASE
    }

    /// A batch consumer asks for many more than it mostly gets, and must not keep others out of its call for that. Where
    /// it gets them all, those who came after it are better left for the next call.
    fn share(&self, topic: &Topic) -> usize {
        let plenty = topic.plenty.load(Ordering::Relaxed);
        if plenty { (self.options.max_messages as usize).min(GROUP_MESSAGES) } else { 1 }
    }

    fn write(group: &[Self], topic: &Topic, epoch: Epoch, command: &mut Cmd) {
        // All but those of the idempotency keys, which a lease never needs.
        let keys = &topic.keys.all()[..15];
        command.arg(keys.len()).arg(keys);
        let waits = group.iter().any(|lease| lease.waits);
        let sized = is_sized(group);
        command.arg(&topic.word).arg(epoch.to_string());
        let push = topic.settings.push.is_some();
        command.arg(u8::from(waits) + 2 * u8::from(push)).arg(u8::from(sized));
        if sized {
            for Lease { options, begun, .. } in group {
                command.arg(options.max_messages).arg(topic.lease_ms(options));
                command.arg(options.max_bytes).arg(u8::from(*begun));
            }
        } else {
            let lease_ms = |lease: &Self| topic.lease_ms(&lease.options);
            for leases in group.chunk_by(|a, b| lease_ms(a) == lease_ms(b)) {
                let messages: u64 = leases.iter().map(|lease| lease.options.max_messages).sum();
                command.arg(messages).arg(lease_ms(&leases[0]));
            }
        }
    }

    fn read(group: &[Self], reply: &mut Reply<'_>) -> Answers<LeaseOutcome> {
        let topic = reply.topic;
        let (now, up, next_at) = (reply.now()?, reply.int()?, reply.instant()?);
        let more = reply.int()? == 1;
        topic.counters.lease_expired.inc_by(reply.int()? as u64);
        topic.saw_deaths(reply.int()?, now);
        let expired = reply.int()? as u64;
        topic.counters.expired.inc_by(expired);
        let mut found = Found::read(now, up, reply)?;
        // Without counts what was found belongs to the requests in order, each as much as it asked for.
        let sized = is_sized(group) && !found.counts.is_empty();
        let mut left = found.places.len() / 2;
        let mut answers = Vec::with_capacity(group.len());
        let (mut first_end, mut plenty, mut granted) = (None, true, 0);
        for Lease { options, registry, .. } in group {
            let lease_ends = up.saturating_add(topic.lease_ms(options));
            let count = match sized {
                true => found.counts.int()? as usize,
                false => left.min(options.max_messages as usize),
            };
            left -= count.min(left);
            plenty &= more || count as u64 == options.max_messages;
            let mut messages = Vec::with_capacity(count.min(found.places.len()));
            for _ in 0..count {
                messages.extend(found.next(topic, lease_ends)?);
            }
            if !messages.is_empty() {
                first_end = first_end.into_iter().chain([lease_ends]).min();
            }
            if seeded::bug("pop before record") {
                record_late(&messages, registry, topic);
            }
            granted += messages.len() as u64;
            let origin = (!messages.is_empty()).then(|| (registry.clone(), topic.clone()));
            let grants = Grants { messages, origin };
            answers.push(Ok(LeaseOutcome { grants, next_at, more, cleared: expired > 0 }));
        }
        topic.plenty.store(plenty, Ordering::Relaxed);
        topic.sweep_by(now, first_end);
        reply.backend.shared.metrics.observe_lateness(&found.lateness);
        topic.counters.granted.inc_by(granted);
        Ok(answers)
    }
}

fn is_sized(group: &[Lease]) -> bool {
    group.iter().any(|lease| lease.options.max_bytes < SIZED_BELOW)
}

/// The messages of a reply.
struct Found {
    now: Millis,
    /// `now`, rounded up to the ms.
    up: Millis,
    /// Counted grants that a message of the topic has.
    max_attempts: i64,
    epoch: Epoch,
    /// Member and due time of each.
    places: Fields,
    bodies: Fields,
    /// Not all of them are plain: there are `facts`.
    special: bool,
    /// Attempt, counted grants left, priority and key of each.
    facts: Fields,
    /// How many are whose; may be empty.
    counts: Fields,
    /// How late (ms) those are that were never granted before.
    lateness: Vec<Millis>,
}

impl Found {
    fn read(now: Millis, up: Millis, reply: &mut Reply<'_>) -> Result<Self, CallError> {
        let max_attempts = reply.int()?;
        let epoch = Epoch::parse(&reply.text()?).unwrap_or_default();
        let (places, bodies) = (reply.fields()?, reply.fields()?);
        let mut rest = || if reply.is_empty() { Ok(Fields::none()) } else { reply.fields() };
        let (facts, counts) = (rest()?, rest()?);
        let (special, lateness) = (!facts.is_empty(), Vec::new());
        Ok(Self { now, up, max_attempts, epoch, places, bodies, special, facts, counts, lateness })
    }

    /// The next message. `None` for a place without a body, which `dueq audit` finds.
    fn next(&mut self, topic: &Topic, lease_ends: Millis) -> Result<Option<Granted>, CallError> {
        let member = self.places.member()?;
        let due_at = self.places.int()?;
        let (attempt, attempts_left, priority, key) = match self.special {
            true => {
                let facts = &mut self.facts;
                (facts.int()?, facts.int()?, facts.int()?, facts.text()?)
            }
            false => (1, self.max_attempts.saturating_sub(1).max(0), 0, String::new()),
        };
        if attempt == 1 {
            self.lateness.push(self.now.saturating_sub(due_at));
        }
        let id = MessageId::from_member(&member, topic.route);
        let (attempt, last) = (attempt as u32, attempts_left == 0);
        let claims = LeaseClaims { attempt, epoch: self.epoch, granted_at: self.up, last };
        let body = bytes(self.bodies.value()?).and_then(|body| decode(body, &id, topic));
        Ok(body.ok().map(|body| Granted {
            id,
            due_at,
            claims,
            attempts_left,
            payload_bytes: body.content.payload().len() as u64,
            body,
            priority: priority as u8,
            key: (!key.is_empty()).then_some(key),
            lease_expires_at: lease_ends,
        }))
    }
}

/// A seeded bug: what the script took is noted as leased by a command of its own.
fn record_late(messages: &[Granted], registry: &Weak<Registry>, topic: &Topic) {
    let (Some(registry), Some(first)) = (registry.upgrade(), messages.first()) else { return };
    let script = "local number = redis.call('HGET', KEYS[2], ARGV[1]) % 2048
        for i = 2, #ARGV, 2 do redis.call('ZADD', KEYS[1], ARGV[i] * 2048 + number, ARGV[i + 1]) end";
    let epoch = format!("epoch:{}", first.claims.epoch);
    let add = Command::new("EVAL").arg((script, 2, &topic.keys.unack, &topic.keys.meta));
    let mut add = add.arg(epoch);
    for message in messages {
        add = add.arg((message.lease_expires_at, &message.id.member()[..]));
    }
    tokio::spawn(async move { registry.lanes.command(add).await });
}

impl Topic {
    /// How long a lease lasts that is asked for so, ms.
    fn lease_ms(&self, options: &LeaseOptions) -> Millis {
        options.lease_ms.map_or(self.settings.lease_ms, |lease_ms| lease_ms as Millis)
    }
}
