//! Looking at topics, and at the health of Redis.

use super::{
    Store, failed,
    inspect::{CountTopic, TopicSnapshot},
    registry::Topic,
    reply::{CallError, word},
};
use crate::{error::Error, model::TopicName};
use deadpool_redis::redis::{Value, cmd};
use std::sync::Arc;

impl Store {
    /// The topic of this name.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn topic(&self, name: &TopicName) -> Result<(Arc<Topic>, TopicSnapshot), Error> {
        for _ in 0..2 {
            let topic = self.registry.find(&self.lanes, name).await.map_err(failed)?;
            let topic = topic.ok_or(Error::TopicNotFound)?;
            match self.lanes.submit_alone(&topic, CountTopic).await {
                Ok(snapshot) => return Ok((topic, snapshot)),
                Err(CallError::Stale) => self.refresh(&topic).await?,
                Err(error) => return Err(failed(error)),
            }
        }
        Err(Error::TopicNotFound)
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
