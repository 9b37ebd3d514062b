//! Topics: looking at them, configuring, pausing, emptying and deleting them.

use super::{
    Store,
    bulk::{Close, Pause, PurgeSome, RedriveSome},
    counts::{CountTopic, Forecast, TopicSnapshot},
    failed,
    list::{ListSome, Listed},
    patience::Patience,
    registry::{Conditions, Put, Topic},
    reply::{CallError, word},
    types::{ListCursor, MessagePage, Purged, Redriven},
};
use crate::{
    error::Error,
    model::{Millis, State, TopicName, TopicSettings},
};
use deadpool_redis::redis::{Value, cmd};
use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

/// Messages of one call that purges, and of one that redrives or lists.
const PURGE_MESSAGES: u64 = 128;
const REDRIVE_MESSAGES: u64 = 64;
const LIST_MESSAGES: u64 = 256;
const FORECAST_BUCKETS: u64 = 256;
/// Bytes of bodies in one call that lists.
const LIST_BYTES: usize = 256 * 1024;
/// Bytes of bodies on a page.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// A request that works through many messages ends after this long, and says what remains.
const LONGEST: Duration = Duration::from_secs(20);
/// Looks at a topic of which time brings more than one look carries out, at most.
const LOOKS: usize = 64;
/// How long nobody takes up a deleted topic again who does not know yet that it is: 1 h in ms.
const MARK_MS: Millis = 3_600_000;

impl Store {
    /// Carries out `operation` on the topic of this name, again where it had changed meanwhile.
    pub(super) async fn of_topic<T, F>(
        &self,
        name: &TopicName,
        operation: impl Fn(Arc<Topic>) -> F,
    ) -> Result<(Arc<Topic>, T), Error>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let mut patience = Patience::new(self);
        while patience.another().await {
            let topic = self.registry.find(&self.lanes, name).await.map_err(failed)?;
            let topic = topic.ok_or(Error::TopicNotFound)?;
            match operation(topic.clone()).await {
                Ok(answer) => return Ok((topic, answer)),
                Err(CallError::Stale) => self.refresh(&topic).await?,
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(CallError::Stale))
    }

    /// The topic of this name.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn topic(&self, name: &TopicName) -> Result<(Arc<Topic>, TopicSnapshot), Error> {
        let mut looks = 0;
        loop {
            let look = async |topic| self.lanes.submit_alone(&topic, CountTopic).await;
            let (topic, snapshot) = self.of_topic(name, look).await?;
            looks += 1;
            if !snapshot.more || looks == LOOKS {
                topic.sweep_by(snapshot.more.then(|| self.now()));
                return Ok((topic, snapshot));
            }
        }
    }

    /// Names of topics in order: those that begin with `prefix` and come after `after`, at most `limit`.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn topic_names(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TopicName>, Error> {
        let from = match after {
            Some(name) if name >= prefix => format!("({name}"),
            _ => format!("[{prefix}"),
        };
        let mut range = cmd("ZRANGEBYLEX");
        range.arg(&self.lanes.backend.keys.index).arg(from);
        // Names are ASCII: 0xff comes after all that begin with the prefix.
        range.arg([b"[", prefix.as_bytes(), b"\xff"].concat()).arg("LIMIT").arg(0).arg(limit);
        match self.lanes.command(range).await.map_err(failed)? {
            Value::Array(names) => {
                Ok(names.iter().filter_map(|name| TopicName::parse(word(name)?).ok()).collect())
            }
            _ => Err(Error::Internal),
        }
    }

    /// Gives a topic this configuration, and makes it if there is none. `if_match`: revisions one of which it must have.
    /// Returns whether it was made.
    ///
    /// Errors: `RevisionMismatch`, `TopicsExhausted`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn put_topic(
        &self,
        name: &TopicName,
        settings: TopicSettings,
        if_match: Option<&[i64]>,
    ) -> Result<bool, Error> {
        let conditions = Conditions { if_match, worked_from: None };
        match self.registry.put(&self.lanes, name, &settings, conditions).await.map_err(failed)? {
            Put::Done(created) => Ok(created),
            Put::Refused(error) => Err(error),
            Put::Changed => Err(Error::Internal),
        }
    }

    /// Changes a topic's configuration; `change` makes the new one of the present one.
    ///
    /// Errors: `TopicNotFound`, `RevisionMismatch` (also where there is no topic and `if_match`), `RedisUnavailable`,
    /// `OutcomeUnknown`.
    pub async fn update_topic(
        &self,
        name: &TopicName,
        change: impl Fn(&TopicSettings) -> TopicSettings,
        if_match: Option<&[i64]>,
    ) -> Result<(), Error> {
        let mut patience = Patience::new(self);
        while patience.another().await {
            let topic = self.registry.look_up(&self.lanes, name).await.map_err(failed)?;
            let topic = topic.ok_or(match if_match {
                None => Error::TopicNotFound,
                Some(_) => Error::RevisionMismatch,
            })?;
            let conditions = Conditions { if_match, worked_from: Some(topic.revision) };
            let settings = change(&topic.settings);
            let put = self.registry.put(&self.lanes, name, &settings, conditions).await;
            match put.map_err(failed)? {
                Put::Done(_) => return Ok(()),
                Put::Refused(error) => return Err(error),
                Put::Changed => {}
            }
        }
        Err(failed(CallError::Stale))
    }

    /// Deletes a topic; with `force` together with what is in it.
    ///
    /// Errors: `TopicNotFound`, `TopicNotEmpty`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn delete_topic(&self, name: &TopicName, force: bool) -> Result<(), Error> {
        let close =
            async |topic| self.lanes.submit_alone(&topic, Close { force, mark_ms: MARK_MS }).await;
        let (topic, closed) = self.of_topic(name, close).await?;
        if !closed {
            return Err(Error::TopicNotEmpty);
        }
        self.registry.remove(&self.lanes, &topic).await.map_err(failed)
    }

    /// Stops (`paused`) or resumes granting, on every instance at once.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    async fn set_paused(&self, name: &TopicName, paused: bool) -> Result<(), Error> {
        let pause = async |topic| self.lanes.submit_alone(&topic, Pause(paused)).await;
        self.of_topic(name, pause).await.map(|_| ())
    }

    /// Stops granting, on every instance at once.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn pause_topic(&self, name: &TopicName) -> Result<(), Error> {
        self.set_paused(name, true).await
    }

    /// Grants again, on every instance at once.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn resume_topic(&self, name: &TopicName) -> Result<(), Error> {
        self.set_paused(name, false).await
    }

    /// Removes the messages of these states (delayed, ready, dead). Those that come meanwhile may stay.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn purge_topic(&self, name: &TopicName, states: &[State]) -> Result<Purged, Error> {
        let started = Instant::now();
        let (mut purged, mut most) = (0, None);
        loop {
            let purge = async |topic| {
                let some = PurgeSome { states: states.to_vec(), limit: PURGE_MESSAGES };
                self.lanes.submit_alone(&topic, some).await
            };
            let (_, some) = self.of_topic(name, purge).await?;
            purged += some.purged;
            // As many as there were: whoever publishes faster than this purges does not hold it up for ever.
            let most = *most.get_or_insert(some.purged + some.left);
            if some.left == 0 || some.purged == 0 || purged >= most || started.elapsed() > LONGEST {
                return Ok(Purged { purged, remaining: some.left });
            }
        }
    }

    /// Makes dead messages live again, longest dead first, at most `most`; at once or spread over `spread_ms`.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn redrive_topic(
        &self,
        name: &TopicName,
        most: u64,
        spread_ms: Millis,
    ) -> Result<Redriven, Error> {
        let started = Instant::now();
        let (mut redriven, mut skip) = (0, 0);
        let (mut base, mut of) = (None, None);
        loop {
            let redrive = async |topic| {
                let limit = REDRIVE_MESSAGES;
                let some = RedriveSome { limit, skip, base, index: redriven, of, spread_ms, most };
                self.lanes.submit_alone(&topic, some).await
            };
            let (_, some) = self.of_topic(name, redrive).await?;
            redriven += some.redriven;
            skip += some.skipped;
            base.get_or_insert(some.now);
            of.get_or_insert(some.of);
            let over = some.redriven + some.skipped == 0 || redriven >= some.of;
            if over || some.left <= skip || started.elapsed() > LONGEST {
                return Ok(Redriven { redriven, remaining: some.left });
            }
        }
    }

    /// A page of the messages of one state, at most `limit`; with payloads it ends before 4 MiB of them, but never
    /// without a message where there is one.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn list_messages(
        &self,
        name: &TopicName,
        state: State,
        after: Option<&ListCursor>,
        limit: u64,
        payload: bool,
    ) -> Result<(Arc<Topic>, MessagePage), Error> {
        // What time has brought is carried out before the first page, so that it stands where it belongs.
        if after.is_none() {
            for _ in 0..LOOKS {
                let swept = self.sweep_topic(name).await?.ok_or(Error::TopicNotFound)?;
                if !swept.more {
                    break;
                }
            }
        }
        let mut last = after.cloned();
        let (mut items, mut bytes) = (Vec::new(), 0);
        loop {
            let list = async |topic| {
                let some = ListSome {
                    state,
                    limit: LIST_MESSAGES.min(limit - items.len() as u64),
                    after: last.clone(),
                    body_bytes: payload.then(|| LIST_BYTES.min(PAGE_BYTES - bytes)),
                };
                self.lanes.submit_alone(&topic, some).await
            };
            let (topic, some) = self.of_topic(name, list).await?;
            let (mut more, before) = (some.more, items.len());
            for Listed { message, cursor, bytes: size } in some.items {
                if !items.is_empty() && bytes + size > PAGE_BYTES {
                    more = true;
                    break;
                }
                bytes += size;
                items.push(message);
                last = Some(cursor);
            }
            let full = items.len() as u64 >= limit || bytes >= PAGE_BYTES;
            if !more || full || items.len() == before {
                let next = last.filter(|_| more && !items.is_empty());
                return Ok((topic, MessagePage { items, next }));
            }
        }
    }

    /// How many messages fall due in each of the coming `buckets` of `bucket_ms`; and where the first begins.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn forecast_topic(
        &self,
        name: &TopicName,
        bucket_ms: Millis,
        buckets: u64,
    ) -> Result<(Millis, Vec<i64>), Error> {
        let mut counts = Vec::new();
        let mut from = None;
        loop {
            let done = counts.len() as u64;
            let forecast = async |topic| {
                let from = from.map(|from| from + bucket_ms * done as Millis);
                let buckets = FORECAST_BUCKETS.min(buckets - done);
                self.lanes.submit_alone(&topic, Forecast { from, bucket_ms, buckets }).await
            };
            let (_, (begun, some)) = self.of_topic(name, forecast).await?;
            let from = *from.get_or_insert(begun);
            counts.extend(some);
            if counts.len() as u64 >= buckets {
                return Ok((from, counts));
            }
        }
    }

    /// Does Redis answer, take writes and never evict? The reason where it does not.
    pub async fn health(&self) -> Result<(), String> {
        let unavailable = |_| "Redis does not answer".to_owned();
        // A write that changes nothing: refused by a replica, at a full disk, while Redis loads or is busy.
        let mut write = cmd("ZREM");
        write.arg(&self.lanes.backend.keys.index).arg("");
        self.lanes.command(write).await.map_err(|_| "Redis cannot be written to".to_owned())?;
        let info =
            self.lanes.command(cmd("INFO").arg("memory").to_owned()).await.map_err(unavailable)?;
        let policy = word(&info)
            .and_then(|info| info.lines().find_map(|line| line.strip_prefix("maxmemory_policy:")));
        match policy.map(str::trim) {
            Some("noeviction") | None => Ok(()),
            Some(policy) => Err(format!(
                "Redis may evict messages: its maxmemory-policy is {policy}, noeviction is needed"
            )),
        }
    }
}
