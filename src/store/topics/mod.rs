//! Topics: their configuration here, and one file for each operation on a whole topic.

mod count;
mod delete;
mod forecast;
mod list;
mod pause;
mod purge;
mod redrive;

pub use count::{TOTALS, TopicSnapshot};
#[cfg(test)]
pub(super) use {
    count::CountTopic, delete::Close, forecast::Forecast, list::ListSome, pause::Pause,
    purge::PurgeSome, redrive::RedriveSome,
};

use super::{
    Store, failed,
    registry::{Conditions, Put},
    reply::{CallError, word},
};
use crate::{
    error::Error,
    model::{TopicName, TopicSettings},
};
use deadpool_redis::redis::{Value, cmd};
use std::time::Duration;

/// Looks at a topic of which time brings more than one look carries out, at most.
const MAX_LOOKS: usize = 128;
/// A request that works through many messages ends after this long, and says what remains.
const MAX_OPERATION_TIME: Duration = Duration::from_secs(20);
/// The revision of a topic that does not exist.
const NO_REVISION: i64 = 0;

impl Store {
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
        let mut retry = self.stale_retry();
        while retry.next().await {
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
        let mut retry = self.stale_retry();
        while retry.next().await {
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
}
