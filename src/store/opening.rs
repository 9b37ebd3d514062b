//! Partitions learn what the registry says of their topic; both may have been left behind half way.

use super::{
    batch::Lanes,
    registry::{Registry, Topic},
    reply::{CallError, word},
    rules::rules,
    scripts,
    upgrade::upgrade_partition,
};
use crate::model::{Retention, TopicName, TopicSettings};
use deadpool_redis::redis::cmd;

impl Registry {
    /// A script answered STALE: the registry is read again, and the partition told what stands there, in case whoever
    /// changed the topic died in between.
    pub async fn refresh(&self, lanes: &Lanes, stale: &Topic) -> Result<(), CallError> {
        self.forget(stale);
        self.open(lanes, &stale.name).await
    }

    /// Reads the registry, and tells the topic's partition what stands there.
    pub async fn open(&self, lanes: &Lanes, name: &TopicName) -> Result<(), CallError> {
        match self.look_up(lanes, name).await? {
            Some(topic) => self.open_partition(lanes, &topic).await.map(|_| ()),
            None => Ok(()),
        }
    }

    /// Tells a partition what the registry says of its topic; false where the topic was deleted.
    pub(super) async fn open_partition(
        &self,
        lanes: &Lanes,
        topic: &Topic,
    ) -> Result<bool, CallError> {
        let TopicSettings { max_attempts, backoff, lease_ms, dead_topic, .. } = &topic.settings;
        let mut open = cmd("EVAL");
        open.arg(scripts::OPEN_PARTITION.source).arg(2);
        open.arg(&topic.keys.meta).arg(&topic.keys.first_due);
        open.arg(&topic.word);
        open.arg(max_attempts).arg(backoff.to_script()).arg(lease_ms).arg(rules(&topic.settings));
        open.arg(dead_topic.as_ref().map_or("", TopicName::as_str));
        let most = topic.settings.retention.acked_max;
        let is_default = most == Retention::default().acked_max;
        open.arg(if is_default { String::new() } else { most.to_string() });
        let mut answer = lanes.command(open.clone()).await?;
        if word(&answer) == Some("OLDER") {
            upgrade_partition(lanes, topic).await?;
            answer = lanes.command(open).await?;
        }
        match word(&answer) {
            Some("STALE") => self.forget(topic),
            // A newer dueq has taken over: nothing can be done here any more.
            Some("NEWER") => return Err(CallError::Unavailable),
            // Whoever deleted it died before the registry knew.
            Some("DELETED") => {
                self.remove(lanes, topic).await?;
                return Ok(false);
            }
            _ => {}
        }
        Ok(true)
    }
}
