//! Topics: looking at them, configuring, pausing, emptying and deleting them.

use super::{
    Store,
    bulk::{Close, Closed, Pause},
    counts::{CountTopic, TopicSnapshot},
    failed,
    patience::Patience,
    registry::{Conditions, Put, Topic},
    reply::{CallError, word},
};
use crate::{
    error::Error,
    model::{Millis, TopicName, TopicSettings},
};
use deadpool_redis::redis::{Value, cmd};
use std::{future::Future, sync::Arc, time::Duration};

/// Looks at a topic of which time brings more than one look carries out, at most.
pub(super) const LOOKS: usize = 128;
/// How long nobody takes up a deleted topic again who does not know yet that it is: 1 h in ms.
const MARK_MS: Millis = 3_600_000;
/// Between two looks whether deaths have been told of.
const TELLING: Duration = Duration::from_millis(20);
/// The revision of a topic that does not exist.
const NO_REVISION: i64 = 0;

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
        let mut patience = Patience::new(self.lanes.timeout);
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
                topic.sweep_by(self.now(), snapshot.more.then(|| self.now()));
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

    /// Gives a topic a configuration, and makes it if there is none. `change` makes the new one of the present one, of which
    /// it may keep secrets. `if_match`: revisions one of which it must have. Returns whether it was made.
    ///
    /// Errors: those of `change`, `RevisionMismatch`, `TopicsExhausted`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn put_topic(
        &self,
        name: &TopicName,
        change: impl Fn(Option<&TopicSettings>) -> Result<TopicSettings, Error>,
        if_match: Option<&[i64]>,
    ) -> Result<bool, Error> {
        let mut patience = Patience::new(self.lanes.timeout);
        while patience.another().await {
            let topic = self.registry.look_up(&self.lanes, name).await.map_err(failed)?;
            let worked_from = topic.as_ref().map_or(NO_REVISION, |topic| topic.revision);
            let conditions = Conditions { if_match, worked_from: Some(worked_from) };
            let before = topic.as_ref().map(|topic| &topic.settings);
            let settings = self.remembering(change(before)?, before)?;
            let put = self.registry.put(&self.lanes, name, &settings, conditions).await;
            match put.map_err(failed)? {
                Put::Done(created) => return Ok(created),
                Put::Refused(error) => return Err(error),
                Put::Changed => {}
            }
        }
        Err(failed(CallError::Stale))
    }

    fn remembering(
        &self,
        settings: TopicSettings,
        before: Option<&TopicSettings>,
    ) -> Result<TopicSettings, Error> {
        let too_many = || Error::TooManySecretHeaders("push.secret_headers".to_owned());
        settings.remembering(before, self.now()).ok_or_else(too_many)
    }

    /// Changes a topic's configuration; `change` makes the new one of the present one.
    ///
    /// Errors: those of `change`, `TopicNotFound`, `RevisionMismatch` (also where there is no topic and `if_match`), `RedisUnavailable`,
    /// `OutcomeUnknown`.
    pub async fn update_topic(
        &self,
        name: &TopicName,
        change: impl Fn(&TopicSettings) -> Result<TopicSettings, Error>,
        if_match: Option<&[i64]>,
    ) -> Result<(), Error> {
        let mut patience = Patience::new(self.lanes.timeout);
        while patience.another().await {
            let topic = self.registry.look_up(&self.lanes, name).await.map_err(failed)?;
            let topic = topic.ok_or(match if_match {
                None => Error::TopicNotFound,
                Some(_) => Error::RevisionMismatch,
            })?;
            let conditions = Conditions { if_match, worked_from: Some(topic.revision) };
            let settings = self.remembering(change(&topic.settings)?, Some(&topic.settings))?;
            let put = self.registry.put(&self.lanes, name, &settings, conditions).await;
            match put.map_err(failed)? {
                Put::Done(_) => return Ok(()),
                Put::Refused(error) => return Err(error),
                Put::Changed => {}
            }
        }
        Err(failed(CallError::Stale))
    }

    /// Deletes a topic; with `force` together with what is in it, else once deaths in it have been told of elsewhere.
    ///
    /// Errors: `TopicNotFound`, `TopicNotEmpty`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn delete_topic(&self, name: &TopicName, force: bool) -> Result<(), Error> {
        let mut patience = Patience::new(self.lanes.timeout);
        while patience.another().await {
            let close = async |topic| {
                self.lanes.submit_alone(&topic, Close { force, mark_ms: MARK_MS }).await
            };
            let (topic, closed) = self.of_topic(name, close).await?;
            match closed {
                Closed::Done => {
                    let removed = self.registry.remove(&self.lanes, &topic).await;
                    return removed.map_err(|error| failed(error).after_change());
                }
                Closed::NotEmpty => break,
                Closed::NotYet => {}
                Closed::Untold => {
                    topic.tell_deaths(self.now());
                    tokio::time::sleep(TELLING).await;
                }
            }
        }
        Err(Error::TopicNotEmpty)
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

    /// Does Redis answer, take writes and never evict? What to warn of where it does, the reason where it does not.
    pub async fn health(&self) -> Result<Vec<&'static str>, String> {
        let unavailable = |_| "Redis does not answer".to_owned();
        // A write that changes nothing: refused by a replica, at a full disk, while Redis loads or is busy.
        let mut write = cmd("ZREM");
        write.arg(&self.lanes.backend.keys.index).arg("");
        self.lanes.command(write).await.map_err(|_| "Redis cannot be written to".to_owned())?;
        let service = self.lanes.backend.service();
        let server = service.map(|service| service.server.clone());
        let warnings = server.as_ref().map(|server| server.warnings.clone()).unwrap_or_default();
        if server.is_some_and(|server| server.refused) {
            return Ok(warnings);
        }
        let info =
            self.lanes.command(cmd("INFO").arg("memory").to_owned()).await.map_err(unavailable)?;
        let policy = word(&info)
            .and_then(|info| info.lines().find_map(|line| line.strip_prefix("maxmemory_policy:")));
        match policy.map(str::trim) {
            Some("noeviction") | None => Ok(warnings),
            Some(policy) => Err(format!(
                "Redis may evict messages: its maxmemory-policy is {policy}, noeviction is needed"
            )),
        }
    }
}
