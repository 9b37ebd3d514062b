//! Partitions learn what the registry says of their topic; both may have been left behind half way.

use super::{
    super::{
        batch::Lanes,
        reply::{CallError, word},
        scripts,
        upgrade::upgrade_partition,
    },
    Registry, Topic,
};
use crate::model::{OnFull, Retention, TopicName, TopicSettings};
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

/// What of the configuration scripts mind, as their `parse_rules` reads it in the partition's `meta`, without its first part: empty parts for what is not so.
fn rules(settings: &TopicSettings) -> String {
    let defaults = Retention::default();
    let Retention { acked_ms, dead_ms, dead_max, .. } = settings.retention;
    let unless = |number: i64, default: i64| {
        if number == default { String::new() } else { number.to_string() }
    };
    let optional =
        |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
    let on_full = match (settings.max_messages, settings.on_full) {
        (Some(_), OnFull::DropOldest) => "drop_oldest",
        _ => "",
    };
    [
        &optional(settings.ttl_ms),
        &unless(acked_ms, 0),
        &unless(dead_ms, defaults.dead_ms),
        &unless(dead_max, defaults.dead_max),
        &optional(settings.max_messages),
        on_full,
    ]
    .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_of_defaults_has_no_rules() {
        assert_eq!(rules(&TopicSettings::default()), ",,,,,");
        let settings = TopicSettings {
            ttl_ms: Some(5),
            max_messages: Some(7),
            on_full: OnFull::DropOldest,
            retention: Retention { acked_ms: 1, acked_max: 4, dead_ms: 2, dead_max: 3 },
            ..TopicSettings::default()
        };
        assert_eq!(rules(&settings), "5,1,2,3,7,drop_oldest");
    }
}
