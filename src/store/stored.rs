//! How much lies in topics, and what would be stored there again, for the quotas of API keys.

use super::{
    Store,
    batch::Command,
    partition::Partition,
    reply::{Fields, int},
    scripts,
    types::{MessageRef, NewMessage, OnDuplicate},
};
use deadpool_redis::redis::Value;
use dueq_model::{MessageId, Millis, TopicName, error::Error};
use futures_util::{StreamExt, TryStreamExt, future::try_join_all, stream};

/// Names of topics that are read at once.
const PAGE: usize = 1_000;
/// Topics that are looked at together, at most.
const LOOKS: usize = 32;

/// What lies in some topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Messages that are not acknowledged.
    pub messages: i64,
    /// Bytes of payloads and headers, those of retained acknowledged messages too; 0 where they are not counted.
    pub bytes: i64,
    /// Partitions that were looked at.
    pub partitions: i64,
    /// Instances of dueq that run.
    pub instances: i64,
}

impl Store {
    /// How much lies in the topics whose names begin with one of these texts, or are it where that is so; dueq's own are left
    /// out. `with_bytes`: bytes are counted from now on.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn stored(
        &self,
        ranges: &[(String, bool)],
        with_bytes: bool,
    ) -> Result<Stored, Error> {
        let alive = Command::new("ZCARD").arg(&self.lanes.shared.keys.alive);
        let mut stored =
            Stored { instances: int(self.lanes.command(alive).await?)?, ..Stored::default() };
        for (text, is_whole) in ranges {
            let mut after: Option<String> = None;
            loop {
                let page = if *is_whole { 1 } else { PAGE };
                let names = self.topic_names(text, after.as_deref(), page).await?;
                after = names.last().filter(|_| names.len() == PAGE).map(ToString::to_string);
                let is_meant =
                    |name: &TopicName| !name.is_callbacks() && (!is_whole || name.as_str() == text);
                let looks = names.into_iter().filter(is_meant);
                let looks = looks.map(|name| async move { self.weigh(&name, with_bytes).await });
                let mut looks = stream::iter(looks).buffer_unordered(LOOKS);
                while let Some(found) = looks.try_next().await? {
                    for (messages, bytes) in found {
                        stored.messages += messages;
                        stored.bytes += bytes;
                        stored.partitions += 1;
                    }
                }
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(stored)
    }

    /// Messages and bytes of each partition.
    async fn weigh(&self, name: &TopicName, with_bytes: bool) -> Result<Vec<(i64, i64)>, Error> {
        let Some(topic) = self.registry.find(name).await? else { return Ok(Vec::new()) };
        let look = async |partition: Partition| {
            let keys = &partition.keys;
            let keys = [keys.messages.as_str(), &keys.acked, &keys.meta];
            let look = Command::script(&scripts::WEIGH_PARTITION, &keys);
            let look = look.arg((&partition.topic.version_tag, with_bytes));
            let mut found = Fields::of(self.lanes.command(look).await?)?;
            Ok::<_, Error>((found.int()?, found.int()?.max(0)))
        };
        try_join_all(topic.all().map(look)).await
    }

    /// Does what is there answer for this message, so that it is not stored?
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn is_answered(&self, name: &TopicName, message: &NewMessage) -> Result<bool, Error> {
        let options = &message.options;
        if let Some(idempotency) = options.idempotency.as_ref().filter(|it| !it.is_throttle())
            && let Some(topic) = self.registry.find(name).await?
        {
            let partition = Partition::for_new(topic, options);
            let first = self.first_answer(&partition, &idempotency.key).await?;
            if first.is_some_and(|(until, ..)| until > self.now()) {
                return Ok(true);
            }
        }
        let key = options.key.as_ref().filter(|key| key.on_duplicate != OnDuplicate::Replace);
        let Some(key) = key else { return Ok(false) };
        match self.get(&MessageRef::Key(name.clone(), key.name.clone())).await {
            Ok(_) => Ok(true),
            Err(Error::MessageNotFound | Error::TopicNotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What an idempotency key of this partition came to: until when it answers, for which request, with which message.
    pub(super) async fn first_answer(
        &self,
        partition: &Partition,
        key: &[u8],
    ) -> Result<Option<(Millis, u64, MessageId)>, Error> {
        let look = Command::new("HGET").arg(&partition.keys.idem).arg(key);
        let Value::BulkString(found) = self.lanes.command(look).await? else { return Ok(None) };
        // `until,fingerprint,state,due,member`, whose member may have any bytes.
        let parts: Vec<_> = found.splitn(5, |byte| *byte == b',').collect();
        let [until, asked, .., member] = parts[..] else { return Ok(None) };
        let text = |part| str::from_utf8(part).unwrap_or_default();
        let asked = u64::from_str_radix(text(asked), 16).ok();
        let answer = text(until).parse().ok().zip(asked).zip(member.try_into().ok());
        Ok(answer.map(|((until, asked), member)| {
            (until, asked, MessageId::from_member(&member, partition.route))
        }))
    }

    /// How many topics each of these keys has made that are there.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn topics_made(&self, keys: &[&str]) -> Result<Vec<i64>, Error> {
        let mut counts = Vec::with_capacity(keys.len());
        for some in keys.chunks(PAGE) {
            let fields: Vec<_> = some.iter().map(|key| format!(":{key}")).collect();
            let get = Command::new("HMGET").arg(&self.lanes.shared.keys.makers).arg(fields);
            let mut found = Fields::of(self.lanes.command(get).await?)?;
            while !found.is_empty() {
                counts.push(match found.value()? {
                    Value::Nil => 0,
                    count => int(count)?,
                });
            }
        }
        Ok(counts)
    }
}
