//! Why messages wait: what the scripts found in their partition, and what else has to be known for it.

use super::{
    Store,
    batch::Command,
    partition::Partition,
    registry::Topic,
    reply::{CallError, Fields, int, word},
    types::MessageSnapshot,
};
use dueq_model::{
    Body, CallPlace, CallUrl, MessageId, Millis, State, WaitingFor, error::Error, last_failure,
    micros_between, put_off,
};
use futures_util::future::try_join_all;
use std::collections::{BTreeSet, HashMap};

/// What holds for all messages of a topic, or of a partition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TopicWaits {
    /// Redis's time, ms.
    now: Millis,
    paused: bool,
    /// Messages that are leased.
    leases: i64,
    /// Where the calls so far end at the topic's rate, µs.
    call_at: i64,
}

impl TopicWaits {
    /// Reads what `topic_reasons` returned.
    pub fn read(fields: &mut Fields) -> Result<Self, CallError> {
        let (now, paused) = (fields.int()?, fields.int()? == 1);
        Ok(Self { now, paused, leases: fields.int()?, call_at: fields.int()? })
    }
}

/// Why a message waits in its group.
#[derive(Clone, Debug, Default)]
pub(crate) enum GroupWaits {
    /// It does not.
    #[default]
    No,
    Paused,
    Behind {
        ahead: i64,
        first: MessageId,
    },
    /// For a turn at the group's rate.
    Rate(Millis),
    /// Its due time is that of a turn. Its own is this.
    Turn(Millis),
}

impl GroupWaits {
    /// Reads what `group_reasons` returned of the next message.
    pub fn read(fields: &mut Fields, partition: &Partition) -> Result<Self, CallError> {
        if fields.is_empty() {
            return Ok(Self::No);
        }
        let (reason, number, first) = (fields.text()?, fields.int()?, fields.bytes()?);
        Ok(match reason.as_str() {
            "group_paused" => Self::Paused,
            "group" => {
                let member = first[..].try_into().map_err(|_| CallError::Internal)?;
                let first = MessageId::from_member(&member, partition.route);
                Self::Behind { ahead: number, first }
            }
            "rate" => Self::Rate(number),
            "turn" => Self::Turn(number),
            _ => Self::No,
        })
    }
}

/// Why no calls to a host begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostWait {
    Paused,
    /// It fails until a probe is answered, the next of which may begin then (ms).
    Failing(Millis),
}

/// What is known of why a message waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    /// Its due time as scripts see it; for a leased one the end of the lease.
    at: Millis,
    /// When it is due, or would be if its call had not been put off; for a leased one the end of the lease.
    pub due: Millis,
    put_off: Option<CallPlace>,
    /// Whether it waits since it failed, and with which error.
    failure: Option<Option<String>>,
    all: TopicWaits,
    own: GroupWaits,
    /// Where its call goes, if that is known.
    host: Option<String>,
}

impl Waits {
    /// Those of a message that waits until `at`, whose events are `written`.
    pub fn new(
        topic: &Topic,
        at: Millis,
        written: &str,
        all: TopicWaits,
        own: GroupWaits,
        body: Option<&Body>,
    ) -> Self {
        let (due, put_off) = put_off(written, at).unwrap_or((at, None));
        let host = body.and_then(|body| topic.call_url(body)).map(CallUrl::host);
        Self { at, due, put_off, failure: last_failure(written), all, own, host }
    }

    /// Those of a message that is leased until then.
    pub fn of_leased(until: Millis) -> Self {
        Self { due: until, ..Self::default() }
    }

    /// When it is due by itself, whenever its group has a turn.
    fn own_due(&self) -> Millis {
        if let GroupWaits::Turn(due) = self.own { due } else { self.due }
    }

    /// The first reason that holds.
    fn reason(self, topic: &Topic, hosts: &HashMap<String, HostWait>) -> WaitingFor {
        let TopicWaits { now, paused, leases, call_at } = self.all;
        let due = self.own_due();
        if paused {
            return WaitingFor::TopicPaused;
        }
        if due > now {
            return match self.failure {
                Some(error) => WaitingFor::Backoff(due, error),
                None => WaitingFor::Due(due),
            };
        }
        let host = self.host.and_then(|host| Some((*hosts.get(&host)?, host)));
        if let Some((HostWait::Paused, host)) = host {
            return WaitingFor::HostPaused(host);
        }
        match self.own {
            GroupWaits::Paused => return WaitingFor::GroupPaused,
            GroupWaits::Behind { ahead, first } => {
                return WaitingFor::Group(first, ahead);
            }
            _ => {}
        }
        if let Some(max_leased) = topic.max_leased().filter(|most| leases >= *most) {
            return WaitingFor::Limit(max_leased);
        }
        let turn = topic.rate_per_s().map_or(0, |rate| call_at + micros_between(rate) as i64);
        match self.own {
            GroupWaits::Rate(until) => WaitingFor::Rate(until),
            GroupWaits::Turn(_) if self.at > now => WaitingFor::Rate(self.at),
            _ if turn > now * 1000 => WaitingFor::Rate((turn + 999) / 1000),
            _ if let Some((HostWait::Failing(probe_at), host)) = host => {
                WaitingFor::HostFailing(host, probe_at)
            }
            // What was put off comes at that time, unless the instance that did it sees before that a place is free.
            _ if self.at > now => match self.put_off.filter(|_| topic.settings.push.is_some()) {
                Some(place) => WaitingFor::NoPlace(place),
                None => WaitingFor::Due(self.at),
            },
            _ => WaitingFor::Consumer,
        }
    }
}

impl Topic {
    /// Where the call of a message with this body goes.
    pub(crate) fn call_url<'a>(&'a self, body: &'a Body) -> Option<&'a CallUrl> {
        let push = self.settings.push.as_ref()?;
        body.callback.as_ref().map(|callback| &callback.url).or(push.url.as_ref())
    }

    /// How many messages of it are granted or called in a second, at most.
    fn rate_per_s(&self) -> Option<f64> {
        self.settings.push.as_ref().map_or(self.settings.rate_per_s, |push| push.rate_per_s)
    }
}

impl Store {
    /// Works out why these messages of a topic are not being worked on.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`, where other partitions have to be asked.
    pub(crate) async fn explain(
        &self,
        topic: &Topic,
        found: impl IntoIterator<Item = &mut MessageSnapshot>,
    ) -> Result<(), Error> {
        let mut found: Vec<_> = found.into_iter().collect();
        let hosts = found.iter().filter_map(|found| {
            let waits = found.waits.as_ref()?;
            waits.host.as_deref().filter(|_| waits.own_due() <= waits.all.now)
        });
        let held = self.held_of(topic, hosts.collect()).await?;
        let mut whole = None;
        for found in &mut found {
            let Some(mut waits) = found.waits.take() else { continue };
            if found.state == State::Leased {
                found.waiting_for = Some(WaitingFor::Lease(found.at));
                continue;
            }
            let is_limited = topic.max_leased().is_some() || topic.rate_per_s().is_some();
            if topic.is_split() && is_limited && waits.own_due() <= waits.all.now {
                let (leases, call_at) = match whole {
                    Some(known) => known,
                    None => *whole.insert(self.count_whole(topic, waits.all.now).await?),
                };
                waits.all = TopicWaits { leases, call_at, ..waits.all };
            }
            found.waiting_for = Some(waits.reason(topic, &held));
        }
        Ok(())
    }

    /// Which of these hosts are paused or fail. An instance that calls nobody does not follow that.
    async fn held_of(
        &self,
        topic: &Topic,
        hosts: BTreeSet<&str>,
    ) -> Result<HashMap<String, HostWait>, Error> {
        let mut held = HashMap::new();
        if hosts.is_empty() {
            return Ok(held);
        }
        let keys = &self.lanes.shared.keys;
        if let Some(push) = topic.settings.push.as_ref().filter(|push| push.failing_after() > 0) {
            let failing = self.failing_of(&hosts).await?.into_iter();
            for (host, failing) in failing.filter(|(_, it)| it.holds(&topic.name, push)) {
                held.insert(host, HostWait::Failing(failing.probe_at));
            }
        }
        let of = Command::new("HMGET").arg(&keys.paused_hosts);
        let of = hosts.iter().fold(of, |of, host| of.arg(*host));
        let mut since = Fields::of(self.lanes.command(of).await?)?.words().into_iter();
        let is_paused = |_: &&str| matches!(since.next(), Some(Ok(Some(_))));
        let paused = hosts.into_iter().filter(is_paused);
        held.extend(paused.map(|host| (host.to_owned(), HostWait::Paused)));
        Ok(held)
    }

    /// The leases of all partitions, as far as they count, and where the calls so far end at the topic's rate, µs.
    async fn count_whole(&self, topic: &Topic, now: Millis) -> Result<(i64, i64), Error> {
        let Some(first) = topic.partitions.first() else { return Ok((0, 0)) };
        let call_at = Command::new("HGET").arg((&first.keys.meta, "call_at"));
        let call_at = self.lanes.command(call_at).await?;
        let call_at = word(&call_at).and_then(|at| at.parse().ok()).unwrap_or(0);
        if topic.max_leased().is_none() {
            return Ok((0, call_at));
        }
        let least = format!("({}", now * 2048 + 2047);
        let sets = topic.partitions.iter().flat_map(|it| [&it.keys.unack, &it.keys.last]);
        let counts = try_join_all(sets.map(async |set| {
            let count = Command::new("ZCOUNT").arg((set, &least, "+inf"));
            Ok::<_, Error>(int(self.lanes.command(count).await?)?)
        }));
        Ok((counts.await?.into_iter().sum(), call_at))
    }
}
