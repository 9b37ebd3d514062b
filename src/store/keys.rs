//! Every Redis key, in one place. All keys of a partition carry its hash tag, so that they live in one cluster slot;
//! no script touches keys of two tags.

use crate::model::{Partition, TopicName};

/// Names of the keys that belong to no topic.
#[derive(Clone, Debug)]
pub(crate) struct GlobalKeys {
    /// hash: topic name → "number revision"
    pub registry: String,
    /// hash: topic number → name; and the counters `next`, `revision`
    pub names: String,
    /// zset, all scores 0: topic names in order
    pub index: String,
    /// hash: run_id → its number; and the counters `:next`, `:instances`
    pub runs: String,
    /// string: what lease tokens are sealed with, hex
    pub secret: String,
    /// string: version of this schema
    pub schema: String,
    /// channel: `<instance> <topic>` for each wake-up
    pub wake_channel: String,
}

impl GlobalKeys {
    pub fn new(prefix: &str) -> Self {
        Self {
            registry: format!("{prefix}{{topics}}:registry"),
            names: format!("{prefix}{{topics}}:names"),
            index: format!("{prefix}{{topics}}:index"),
            runs: format!("{prefix}{{service}}:runs"),
            secret: format!("{prefix}{{service}}:secret"),
            schema: format!("{prefix}{{service}}:schema"),
            wake_channel: format!("{prefix}wake"),
        }
    }
}

/// Names of the keys of one partition; `migrations-lua/README.md` says what each holds.
#[derive(Clone, Debug)]
pub(crate) struct PartitionKeys {
    pub delayed: String,
    pub delayed_prio: String,
    pub ready: String,
    pub unack: String,
    pub last: String,
    pub dead: String,
    pub messages: String,
    pub extra: String,
    pub meta: String,
}

impl PartitionKeys {
    pub fn new(prefix: &str, topic: &TopicName, partition: Partition) -> Self {
        let key = |what: &str| format!("{prefix}{{{topic}:{}}}:{what}", partition.0);
        Self {
            delayed: key("delayed"),
            delayed_prio: key("delayed_prio"),
            ready: key("ready"),
            unack: key("unack"),
            last: key("last"),
            dead: key("dead"),
            messages: key("messages"),
            extra: key("extra"),
            meta: key("meta"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partitions_keys_share_one_hash_tag() {
        let topic = TopicName::parse("orders").unwrap();
        let keys = PartitionKeys::new("dueq:", &topic, Partition(0));
        assert_eq!(keys.delayed, "dueq:{orders:0}:delayed");
        assert_eq!(keys.meta, "dueq:{orders:0}:meta");
    }
}
