//! Every Redis key, in one place. All keys of a partition carry its hash tag, so that they live in one cluster slot;
//! no script touches keys of two tags.

use crate::model::{Partition, TopicName};
use deadpool_redis::redis::Cmd;

/// Names of the keys that belong to no topic.
#[derive(Clone, Debug)]
pub(crate) struct GlobalKeys {
    /// hash: topic name → "number revision configuration"
    pub registry: String,
    /// hash: topic number → name; the counters `next`, `revision`; where the slow walk is: `walk_at`, `walked`
    pub names: String,
    /// zset, all scores 0: topic names in order
    pub index: String,
    /// set: names of the topics that dueq sends itself
    pub pushed: String,
    /// zset: topic name → when it must be swept, ms
    pub sweeps: String,
    /// hash: schedule's name → its definition, JSON
    pub schedules: String,
    /// hash: schedule's name → its state; and the counter `:revision`
    pub schedule_states: String,
    /// zset: schedule's name → when to look at it next, ms
    pub schedules_due: String,
    /// zset, all scores 0: schedules' names in order
    pub schedules_index: String,
    /// string: the number that was drawn last for an instance
    pub instances: String,
    /// hash, of schema version 1: run_id → its number; not there once all partitions are of the present version
    pub runs: String,
    /// string: what lease tokens are sealed with, hex
    pub secret: String,
    /// string: version of this schema
    pub schema: String,
    /// channel: `- <topic>` for each wake-up
    pub wake_channel: String,
}

impl GlobalKeys {
    pub fn new(prefix: &str) -> Self {
        Self {
            registry: format!("{prefix}{{topics}}:registry"),
            names: format!("{prefix}{{topics}}:names"),
            index: format!("{prefix}{{topics}}:index"),
            pushed: format!("{prefix}{{topics}}:pushed"),
            sweeps: format!("{prefix}{{sweeps}}:index"),
            schedules: format!("{prefix}{{schedules}}:entries"),
            schedule_states: format!("{prefix}{{schedules}}:states"),
            schedules_due: format!("{prefix}{{schedules}}:due"),
            schedules_index: format!("{prefix}{{schedules}}:index"),
            instances: format!("{prefix}{{service}}:instances"),
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
    pub unack: String,
    pub last: String,
    pub delayed: String,
    pub messages: String,
    pub meta: String,
    pub extra: String,
    pub delayed_prio: String,
    pub ready: String,
    pub dead: String,
    pub keys: String,
    pub expires: String,
    pub first_due: String,
    pub events: String,
    pub acked: String,
    pub dead_out: String,
    pub idem: String,
    pub idem_due: String,
}

impl PartitionKeys {
    pub fn new(prefix: &str, topic: &TopicName, partition: Partition) -> Self {
        let key = |what: &str| format!("{prefix}{{{topic}:{}}}:{what}", partition.0);
        Self {
            unack: key("unack"),
            last: key("last"),
            delayed: key("delayed"),
            messages: key("messages"),
            meta: key("meta"),
            extra: key("extra"),
            delayed_prio: key("delayed_prio"),
            ready: key("ready"),
            dead: key("dead"),
            keys: key("keys"),
            expires: key("expires"),
            first_due: key("first_due"),
            events: key("events"),
            acked: key("acked"),
            dead_out: key("dead_out"),
            idem: key("idem"),
            idem_due: key("idem_due"),
        }
    }

    /// Writes all of them, their number first, as the first arguments of a call.
    pub fn write_all(&self, command: &mut Cmd) {
        let all = self.all();
        command.arg(all.len());
        for key in all {
            command.arg(key);
        }
    }

    /// All of them, in the order in which the include `partition.lua` names them.
    pub fn all(&self) -> [&str; 17] {
        [
            &self.unack,
            &self.last,
            &self.delayed,
            &self.messages,
            &self.meta,
            &self.extra,
            &self.delayed_prio,
            &self.ready,
            &self.dead,
            &self.keys,
            &self.expires,
            &self.first_due,
            &self.events,
            &self.acked,
            &self.dead_out,
            &self.idem,
            &self.idem_due,
        ]
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
        assert!(keys.all().iter().all(|key| key.starts_with("dueq:{orders:0}:")));
    }

    #[test]
    fn scripts_name_the_keys_in_the_order_in_which_they_get_them() {
        let keys = PartitionKeys::new("", &TopicName::parse("t").unwrap(), Partition(0));
        let include = include_str!("../../migrations-lua/includes/partition.lua");
        for (at, key) in keys.all().iter().enumerate() {
            let name = key.rsplit(':').next().unwrap();
            assert!(include.contains(&format!("{name} = keys[{}]", at + 1)), "{name}");
        }
    }
}
