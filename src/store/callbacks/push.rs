//! What pushing needs of the store beyond lease, ack and nack: which topics are pushed, who may publish to them and lease
//! from them, how many calls a topic with a rate may make now, and whether a call may begin at all.

use crate::{
    Store,
    batch::Command,
    grants::LeaseOptions,
    partition::Partition,
    registry::{Topic, parse_entry},
    reply::{CallError, Fields, word},
    scripts,
    stale::Target,
    types::NewMessage,
};
use bytes::Bytes;
use deadpool_redis::redis::Value;
use dueq_model::{
    Body, Completion, Ends, GroupOrder, MessageId, Millis, Push, TopicName, TopicSettings,
    error::Error, is_own_header, masked, unmasked,
};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// How many calls a topic with a rate may make now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// So many at once.
    pub calls: u64,
    /// When one more may be made, ms from now.
    pub next_ms: Millis,
}

/// Messages that one call fetches.
const CALL_MESSAGES: usize = 128;

/// A topic as Redis has it now, and whether it is paused.
#[derive(Clone, Debug)]
pub struct InForce {
    /// The topic.
    pub topic: Arc<Topic>,
    /// Nothing is granted.
    pub paused: bool,
}

impl Topic {
    /// May this message be published here? Errors: those of [`Self::takes`], `BadSetting` for names that are at home in
    /// different partitions.
    pub(crate) fn takes_new(&self, message: &NewMessage) -> Result<(), Error> {
        message.options.check_names(self.is_split())?;
        self.takes(&message.body)
    }

    /// May a message with this body be published here? Errors: `CallbackUrlMissing`, `TopicNotPushed`, `HeaderReserved`,
    /// `BadSetting` for a callback where calls carry many messages, `NothingMasked` for a secret that was not read back.
    pub(crate) fn takes(&self, body: &Body) -> Result<(), Error> {
        if let Some(name) = body.clashes_with_auth() {
            return Err(Error::HeaderReserved(format!("headers.{name}")));
        }
        if let Some(push) = &self.settings.push
            && !body.headers.is_empty()
        {
            if let Some(name) = body.headers.keys().find(|name| is_own_header(name)) {
                return Err(Error::HeaderReserved(format!("headers.{name}")));
            }
            let is_secret = |name: &str| body.masks(name, Some(push));
            let masked = unmasked(&body.headers, &BTreeMap::new(), is_secret, false);
            masked.map_err(|unkept| Error::of_unkept(unkept, "headers"))?;
        }
        match &self.settings.push {
            Some(push) if push.url.is_none() && body.callback.is_none() => {
                Err(Error::CallbackUrlMissing)
            }
            None if body.callback.is_some() => Err(Error::TopicNotPushed),
            Some(push) if push.batch.is_some() && body.callback.is_some() => {
                let why = "is refused by a topic with push.batch, which sends all to one URL";
                Err(Error::BadSetting("callback", why))
            }
            _ => Ok(()),
        }
    }

    /// Does a call with this body carry headers that are secrets, as far as the present settings say?
    pub fn sends_secrets(&self, body: &Body) -> bool {
        let push = self.settings.push.as_ref();
        body.secrets.is_some() || push.is_some_and(Push::has_secret_headers)
    }

    /// Does it say itself where the ends of its messages are published?
    pub(crate) fn reports_ends(&self) -> bool {
        self.settings.on_done.is_some() || self.settings.on_dead.is_some()
    }

    /// Which ends of a message with this body are published: those that it names, or else the topic. Of a completion none.
    pub(crate) fn ends_of(&self, body: &Body) -> Ends {
        let own = Ends::of(body);
        if body.completes.is_some() {
            return Ends::default();
        }
        let TopicSettings { on_done, on_dead, .. } = &self.settings;
        Ends { done: own.done || on_done.is_some(), dead: own.dead || on_dead.is_some() }
    }

    /// A body as it is stored here: a pushed topic marks which headers are secrets, and the topic says where ends are published that
    /// the body does not name.
    pub(crate) fn encode(&self, body: &Body) -> Bytes {
        let mut stored = Cow::Borrowed(body);
        if let Some(push) = self.settings.push.as_ref().filter(|_| !body.headers.is_empty()) {
            stored.to_mut().mark_secrets(push);
        }
        if self.reports_ends() && body.completes.is_none() {
            let TopicSettings { on_done, on_dead, .. } = &self.settings;
            let or = |own: &Option<Box<Completion>>, topic: &Option<Completion>| {
                own.clone().or_else(|| topic.clone().map(Box::new))
            };
            let (done, dead) = (or(&body.on_done, on_done), or(&body.on_dead, on_dead));
            (stored.to_mut().on_done, stored.to_mut().on_dead) = (done, dead);
        }
        stored.encode()
    }

    /// `body` takes the place of `seen`, with these headers or those that it had. Keeps the secrets that `***` stands for; a body
    /// of another key keeps none.
    ///
    /// Errors: `NothingMasked`, `SecretRequired`, `HeadersTooLarge`.
    pub(crate) fn keep_secrets(
        &self,
        body: &mut Body,
        seen: &Body,
        headers: Option<&BTreeMap<String, String>>,
    ) -> Result<(), Error> {
        let push = self.settings.push.as_ref();
        let is_secret = |name: &str| push.is_some_and(|push| push.is_secret(name));
        let was_secret = |name: &str| is_secret(name) || seen.is_secret(name);
        // Headers that stay are kept as those that are put back.
        let stay = || {
            let mut stay = masked(&seen.headers, was_secret);
            stay.retain(|name, _| !was_secret(name) || body.is_by_publisher_of(seen));
            stay
        };
        body.headers = headers.cloned().unwrap_or_else(stay);
        let kept = body.keep_secret_of(seen, false);
        kept.map_err(|unkept| Error::of_unkept(unkept, "callback"))?;
        let kept = body.keep_headers_of(seen, push, is_secret, false);
        kept.map_err(|unkept| Error::of_unkept(unkept, "headers"))
    }

    /// Why this request gets nothing here: what is pushed is dueq's own to lease, and only that.
    pub(crate) fn refuses(&self, options: &LeaseOptions) -> Option<Error> {
        match (self.settings.push.is_some(), options.push) {
            (true, false) => Some(Error::TopicIsPushed),
            (false, true) => Some(Error::TopicNotPushed),
            _ => None,
        }
    }
}

impl Store {
    /// May messages that name a callback be published to this topic, which may not exist yet? Where not, it is not made.
    pub(crate) async fn check_callable(&self, name: &TopicName) -> Result<(), Error> {
        if name.is_callbacks() || self.registry.find(name).await?.is_some() {
            return Ok(());
        }
        Err(Error::TopicNotPushed)
    }

    /// The topics that dueq sends itself, its own among them.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn pushed_topics(&self) -> Result<Vec<TopicName>, Error> {
        let all = Command::new("SMEMBERS").arg(&self.lanes.shared.keys.pushed);
        let names = match self.lanes.command(all).await? {
            Value::Array(names) | Value::Set(names) => names,
            _ => return Err(Error::Internal),
        };
        let named = names.iter().filter_map(|name| TopicName::parse(word(name)?).ok());
        Ok([TopicName::callbacks()].into_iter().chain(named).collect())
    }

    /// May consumers lease from all of these topics? Errors: `TopicIsPushed`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn check_pulled(&self, names: &[TopicName]) -> Result<(), Error> {
        for name in names {
            let is_pushed = |topic: &Arc<Topic>| topic.settings.push.is_some();
            if self.registry.find(name).await?.as_ref().is_some_and(is_pushed)
                && self.fresh_topic(name).await?.as_ref().is_some_and(is_pushed)
            {
                return Err(Error::TopicIsPushed);
            }
        }
        Ok(())
    }

    /// Writes down the configuration of dueq's own topic where older versions made it without one: what it retains is its
    /// partition's to know. Has its groups take turns if nobody has chosen their order, once no older dueq comes back.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn upgrade_callbacks(&self) -> Result<(), Error> {
        let name = TopicName::callbacks();
        let registry = &self.lanes.shared.keys.registry;
        let get = Command::new("HGET").arg((registry, name.as_str()));
        let entry = self.lanes.command(get).await?;
        let Some((_, _, settings)) = word(&entry).and_then(parse_entry) else { return Ok(()) };
        let is_fair = self.fair_by_default();
        if settings.as_ref().is_some_and(|settings| settings.ordered || !is_fair) {
            return Ok(());
        }
        let order = |stored: &TopicSettings| match stored.ordered || !is_fair {
            true => Ok(stored.clone()),
            false => {
                Ok(TopicSettings { group_order: GroupOrder::Fair, ordered: true, ..stored.clone() })
            }
        };
        match self.update_topic(&name, order, None).await {
            Err(Error::UpgradePending(_)) if settings.is_none() => {
                self.update_topic(&name, |stored| Ok(stored.clone()), None).await
            }
            Err(Error::UpgradePending(_)) => Ok(()),
            done => done,
        }
    }

    /// Makes dueq's own topic with its defaults if there is none, unless an older dueq runs or may come back, which does not know how
    /// groups take turns: then it is made as by that, and upgraded later.
    pub(crate) async fn make_callbacks(&self) -> Result<(), Error> {
        let name = TopicName::callbacks();
        if !self.fair_by_default() || self.registry.find(&name).await?.is_some() {
            return Ok(());
        }
        let default = |stored: Option<&TopicSettings>| {
            Ok(stored.cloned().unwrap_or_else(|| TopicSettings::default_of(&name)))
        };
        match self.put_topic(&name, default, None, None).await {
            Err(Error::UpgradePending(_)) => Ok(()),
            done => done.map(drop),
        }
    }

    /// How the topic of this name is pushed, if it is.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn push_of(&self, name: &TopicName) -> Result<Option<Push>, Error> {
        Ok(match self.fresh_topic(name).await? {
            Some(topic) => topic.settings.push.clone(),
            // dueq's own comes into being with its first message.
            None => name.is_callbacks().then(Push::of_callbacks),
        })
    }

    /// The topic of this name as this instance knows it, if there is one.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn known_topic(&self, name: &TopicName) -> Result<Option<Arc<Topic>>, Error> {
        Ok(self.registry.find(name).await?)
    }

    /// The cached topic refused a request. Reads the topic again: returns the refusal if its revision is still the same,
    /// otherwise `Ok`, and the caller tries again.
    pub(crate) async fn confirm(&self, topic: &Topic, refusal: Error) -> Result<(), Error> {
        let fresh = self.fresh_topic(&topic.name).await?;
        match fresh {
            Some(fresh) if fresh.revision != topic.revision => Ok(()),
            _ => Err(refusal),
        }
    }

    /// The topic of this name as Redis has it now, if there is one.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn fresh_topic(&self, name: &TopicName) -> Result<Option<Arc<Topic>>, Error> {
        Ok(self.registry.look_up(name).await?)
    }

    /// Takes up to `most` calls out of what a topic of this rate may make, all instances together; gives back as many
    /// where `most` is negative.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn take_calls(
        &self,
        name: &TopicName,
        rate_per_s: f64,
        most: i64,
    ) -> Result<Allowance, Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let topic = self.registry.find(name).await?.ok_or(Error::TopicNotFound)?;
            let partition = Partition::first(topic);
            let take = Command::eval(&scripts::TAKE_CALLS, &[&partition.keys.meta]);
            let take = take.arg((&partition.topic.version_tag, most, (1e6 / rate_per_s).round()));
            let answer = self.lanes.command(take).await?;
            if word(&answer) == Some("STALE") {
                self.registry.refresh(&partition).await?;
                continue;
            }
            let mut fields = Fields::of(answer)?;
            return Ok(Allowance { calls: fields.int()?.unsigned_abs(), next_ms: fields.int()? });
        }
        Err(CallError::Stale.into())
    }

    /// A topic as Redis has it now.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn topic_in_force(&self, name: &TopicName) -> Result<InForce, Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let topic = self.registry.find(name).await?.ok_or(Error::TopicNotFound)?;
            let partition = Partition::first(topic);
            let look = Command::new("HMGET").arg((&partition.keys.meta, "topic", "rules"));
            let mut found = Fields::of(self.lanes.command(look).await?)?;
            let (owner, rules) = (found.value()?, found.value()?);
            if word(&owner) == Some(partition.topic.version_tag.as_str()) {
                let paused = word(&rules).is_some_and(|rules| rules.starts_with('1'));
                return Ok(InForce { topic: partition.topic, paused });
            }
            self.registry.refresh(&partition).await?;
        }
        Err(CallError::Stale.into())
    }

    /// The call of a leased message begins: a key that it holds until then is free.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn start_call(&self, name: &TopicName, id: MessageId) -> Result<(), Error> {
        let start = |partition: &Partition| {
            let start = Command::on(&scripts::START_CALL, partition).arg(&id.member()[..]);
            start.read(partition, |reply| reply.expect("OK"))
        };
        let number = id.route().map(|route| route.partition).unwrap_or_default();
        self.on(Target::Partition(name, number), start).await.map(|_| ())
    }

    /// Makes messages due as they were before they were parked: for each until when it was, and when it had been due.
    /// What has become of one meanwhile stays.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn fetch_parked(
        &self,
        name: &TopicName,
        parked: &[(MessageId, Millis, Millis)],
    ) -> Result<(), Error> {
        let number = |(id, ..): &(MessageId, Millis, Millis)| id.route().map(|it| it.partition);
        let mut parked = parked.to_vec();
        parked.sort_by_key(number);
        let same = parked.chunk_by(|a, b| number(a) == number(b));
        for some in same.flat_map(|same| same.chunks(CALL_MESSAGES)) {
            let partition = some.first().and_then(number).unwrap_or_default();
            let fetch = |partition: &Partition| {
                let mut fetch = Command::on(&scripts::FETCH_PARKED, partition);
                for (id, until, due_at) in some {
                    fetch = fetch.arg((&id.member()[..], until, due_at));
                }
                fetch.read(partition, |reply| reply.now_and_wake().map(|_| ()))
            };
            self.on(Target::Partition(name, partition), fetch).await?;
        }
        Ok(())
    }
}
