//! Every Redis key, in one place. All keys of a partition carry its hash tag, so that they live in one cluster slot;
//! no script but `complete` touches keys of two tags.

use super::layout::tag;
use deadpool_redis::redis::Cmd;
use dueq_model::{PartitionNumber, TopicName};

/// Names of the keys that belong to no topic.
#[derive(Clone, Debug)]
pub struct GlobalKeys {
    /// hash: topic name → "number revision configuration"
    pub registry: String,
    /// hash: topic number → name; the counters `next`, `revision`; where the slow walk is: `walk_at`, `walked`
    pub names: String,
    /// zset, all scores 0: topic names in order
    pub index: String,
    /// set: names of the topics that dueq sends itself
    pub pushed: String,
    /// hash: topic number → name of the key that made it; `:` and a key's name → how many it has made
    pub makers: String,
    /// zset: topic name → when it must be swept, ms
    pub sweeps: String,
    /// zset: dead-letter queue → when its move task goes on, ms; with `:` and a queue's name, a string: its tasks, JSON
    pub moves: String,
    /// string with `:`, a queue's name, `:` and the ID of an attempt to receive: what that was granted, "id token" in lines
    pub received: String,
    /// zset: partition → when something first happened there since it was last noted, ms
    pub active: String,
    /// hash: partition → how late messages were granted there since
    pub lateness: String,
    /// string with `:` and a topic's name: there while people have heard in the last hour that its messages die
    pub died: String,
    /// string: there for a minute after a notice said that Redis is back
    pub back_notice: String,
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
    /// zset: "id started_at version+schema.n" of an instance → when it was last heard of, ms
    pub alive: String,
    /// hash: host of callbacks → since when it is paused, ms
    pub paused_hosts: String,
    /// hash: host of callbacks that fails, or failed → what is known of it (`store::Failing`)
    pub failing_hosts: String,
    /// zset: id of an instance → when it last reported how its calls to hosts go, ms
    pub hosts_reported: String,
    /// hash: id of an instance → that report, JSON
    pub host_reports: String,
    /// hash, of schema version 1: run_id → its number; not there once all partitions are of the present version
    pub runs: String,
    /// string: what lease tokens are sealed with, hex
    pub secret: String,
    /// string: the newest version of the schema that anything here has
    pub schema: String,
    /// string: the oldest version whose readers may work on the data; not there: `schema`
    pub min_reader: String,
    /// Which version the data began with.
    pub began: String,
    /// hash: written by the fence of the only node; in a Cluster each node has a key of its own
    pub fence: String,
    /// channel: `- <topic>` for each wake-up of partition 0, `- <topic> <partition>` for one of another
    pub wake_channel: String,
}

impl GlobalKeys {
    /// Those that begin with this prefix.
    pub fn new(prefix: &str) -> Self {
        let key = |tag, what| format!("{prefix}{{{tag}}}:{what}");
        Self {
            registry: key("topics", "registry"),
            names: key("topics", "names"),
            index: key("topics", "index"),
            pushed: key("topics", "pushed"),
            makers: key("topics", "makers"),
            sweeps: key("sweeps", "index"),
            moves: key("sweeps", "moves"),
            received: key("sweeps", "received"),
            active: key("history", "active"),
            lateness: key("history", "lateness"),
            died: key("history", "died"),
            back_notice: key("history", "back_notice"),
            schedules: key("schedules", "entries"),
            schedule_states: key("schedules", "states"),
            schedules_due: key("schedules", "due"),
            schedules_index: key("schedules", "index"),
            instances: key("service", "instances"),
            alive: key("service", "alive"),
            paused_hosts: key("callbacks", "paused"),
            failing_hosts: key("callbacks", "failing"),
            hosts_reported: key("callbacks", "reported"),
            host_reports: key("callbacks", "reports"),
            runs: key("service", "runs"),
            secret: key("service", "secret"),
            schema: key("service", "schema"),
            min_reader: key("service", "min_reader"),
            began: key("service", "began"),
            fence: key("service", "fence"),
            wake_channel: format!("{prefix}wake"),
        }
    }
}

macro_rules! partition_keys {
    ($($name:ident),*; $($rare:ident),* $(,)?) => {
        /// Names of the keys of one partition; `migrations-lua/README.md` says what each holds.
        #[derive(Clone, Debug)]
        pub struct PartitionKeys {
            $(#[allow(missing_docs)] pub $name: String,)*
            $(#[allow(missing_docs)] pub $rare: String,)*
        }

        impl PartitionKeys {
            /// Those of this partition.
            pub fn new(prefix: &str, topic: &TopicName, partition: PartitionNumber) -> Self {
                let tag = tag(topic, partition);
                let key = |what| format!("{prefix}{{{tag}}}:{what}");
                Self { $($name: key(stringify!($name)),)* $($rare: key(stringify!($rare)),)* }
            }

            /// Those of messages, in the order in which the include `partition.lua` names them.
            pub fn all(&self) -> [&str; [$(stringify!($name)),*].len()] {
                [$(&self.$name),*]
            }

            /// The same, and those that few scripts need.
            pub fn all_with_rare(&self) -> Vec<&str> {
                let mut keys = self.all().to_vec();
                keys.extend([$(self.$rare.as_str()),*]);
                keys
            }
        }
    };
}

partition_keys! {
    unack, last, delayed, messages, meta, extra, delayed_prio, ready, dead, keys, expires, first_due, events, acked,
    dead_out, heads, queued, blocked, rates, turns, offers, idem, idem_due, held;
    history, recent,
}

impl PartitionKeys {
    /// Writes those of messages, their number first, as the first arguments of a call.
    pub fn write_all(&self, command: &mut Cmd) {
        let all = self.all();
        command.arg(all.len()).arg(&all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partitions_keys_share_one_hash_tag() {
        let topic = TopicName::parse("orders").unwrap();
        let keys = PartitionKeys::new("dueq:", &topic, PartitionNumber(0));
        assert_eq!(keys.delayed, "dueq:{orders:0}:delayed");
        assert_eq!(keys.meta, "dueq:{orders:0}:meta");
        assert!(keys.all_with_rare().iter().all(|key| key.starts_with("dueq:{orders:0}:")));
    }

    #[test]
    fn scripts_name_the_keys_in_the_order_in_which_they_get_them() {
        let keys = PartitionKeys::new("", &TopicName::parse("t").unwrap(), PartitionNumber(0));
        let include = include_str!("../../migrations-lua/includes/partition.lua");
        for (at, key) in keys.all_with_rare().iter().enumerate() {
            let name = key.rsplit(':').next().unwrap();
            assert!(include.contains(&format!("{name} = keys[{}]", at + 1)), "{name}");
        }
    }
}
