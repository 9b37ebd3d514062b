//! What one node of a Cluster says of all of them.

use super::slots::{SLOTS, Slot};
use crate::reply::{Fields, word};
use deadpool_redis::redis::Value;
use std::{collections::BTreeMap, ops::RangeInclusive};

/// Host and port.
pub type Address = (String, u16);

/// Who serves what, by one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// The slots of each primary that has some.
    pub primaries: BTreeMap<Address, Vec<RangeInclusive<Slot>>>,
    /// The most replicas that some slots of a primary have.
    pub replicas: BTreeMap<Address, usize>,
    /// Whether the node is one of a majority that can serve.
    pub ok: bool,
    /// Grows with every failover.
    pub epoch: u64,
    /// The ids of all nodes that it knows to serve slots, replicas too.
    pub ids: Vec<String>,
}

impl View {
    /// Reads the answers to CLUSTER SLOTS and CLUSTER INFO of the node at `asked`; nothing where they make no sense.
    pub fn read(slots: Value, info: &Value, asked: &str) -> Option<Self> {
        let info = word(info)?;
        let line = |name: &str| {
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let mut this = Self {
            ok: line("cluster_state") == Some("ok"),
            epoch: line("cluster_current_epoch").and_then(|epoch| epoch.parse().ok())?,
            ..Self::default()
        };
        let mut ranges = Fields::of(slots).ok()?;
        while !ranges.is_empty() {
            let mut range = ranges.fields().ok()?;
            let (first, last) = (range.int().ok()?, range.int().ok()?);
            let (first, last) = (Slot::try_from(first).ok()?, Slot::try_from(last).ok()?);
            if first > last || last >= SLOTS {
                return None;
            }
            let mut primary = range.fields().ok()?;
            // A node that does not know its address is where it was asked.
            let host = match primary.value().ok()? {
                Value::Nil => asked.to_owned(),
                host => match word(&host)? {
                    "" | "?" => asked.to_owned(),
                    host => host.to_owned(),
                },
            };
            let port = u16::try_from(primary.int().ok()?).ok()?;
            this.ids.extend(primary.text().ok());
            let replicas = this.replicas.entry((host.clone(), port)).or_default();
            *replicas = range.len().max(*replicas);
            this.primaries.entry((host, port)).or_default().push(first..=last);
            while !range.is_empty() {
                let mut replica = range.fields().ok()?;
                let _ = (replica.value(), replica.value());
                this.ids.extend(replica.text().ok());
            }
        }
        Some(this)
    }

    /// How many slots nobody serves.
    pub fn holes(&self) -> usize {
        let served: usize = self.primaries.values().flatten().map(ExactSizeIterator::len).sum();
        usize::from(SLOTS) - served.min(usize::from(SLOTS))
    }

    /// Whether the slots of a primary include this one.
    pub fn serves(&self, address: &Address, slot: Slot) -> bool {
        self.primaries.get(address).is_some_and(|all| all.iter().any(|some| some.contains(&slot)))
    }
}

/// What a node answers for a key that it does not serve: `MOVED 3999 127.0.0.1:6381`. A node that does not know its address
/// leaves the host out.
pub(crate) fn target(details: &str, asked: &str) -> Option<(Slot, Address)> {
    let (slot, address) = details.split_once(' ')?;
    let (host, port) = address.trim().rsplit_once(':')?;
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        "" | "?" => asked,
        host => host,
    };
    Some((slot.parse().ok().filter(|slot| *slot < SLOTS)?, (host.to_owned(), port.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn node(host: Value, port: i64, id: &str) -> Value {
        Value::Array(vec![host, Value::Int(port), text(id), Value::Array(vec![])])
    }

    fn info() -> Value {
        text("cluster_enabled:1\r\ncluster_state:ok\r\ncluster_current_epoch:6\r\n")
    }

    #[test]
    fn a_node_says_who_serves_what() {
        let slots = Value::Array(vec![
            Value::Array(vec![
                Value::Int(0),
                Value::Int(99),
                node(text("10.0.0.1"), 7000, "a"),
                node(text("10.0.0.2"), 7001, "b"),
            ]),
            Value::Array(vec![Value::Int(100), Value::Int(16_383), node(Value::Nil, 7002, "c")]),
        ]);
        let view = View::read(slots, &info(), "asked").unwrap();
        assert!(view.ok && view.epoch == 6 && view.holes() == 0);
        assert_eq!(view.ids, ["a", "b", "c"]);
        assert_eq!(view.replicas.values().collect::<Vec<_>>(), [&1, &0]);
        let here = ("asked".to_owned(), 7002);
        assert!(view.serves(&here, 100) && !view.serves(&here, 99));
        assert!(view.serves(&("10.0.0.1".to_owned(), 7000), 99));
    }

    #[test]
    fn what_makes_no_sense_is_no_view() {
        for slots in [
            Value::Nil,
            Value::Array(vec![Value::Array(vec![Value::Int(5), Value::Int(4)])]),
            Value::Array(vec![Value::Array(vec![
                Value::Int(0),
                Value::Int(16_384),
                node(text("h"), 1, "a"),
            ])]),
        ] {
            assert_eq!(View::read(slots, &info(), "asked"), None);
        }
        assert_eq!(View::read(Value::Array(vec![]), &text(""), "asked"), None);
        assert_eq!(View::read(Value::Array(vec![]), &info(), "asked").unwrap().holes(), 16_384);
    }

    #[test]
    fn a_redirection_names_slot_and_address() {
        let at = |host: &str, port| Some((3_999, (host.to_owned(), port)));
        assert_eq!(target("3999 127.0.0.1:6381", "h"), at("127.0.0.1", 6381));
        assert_eq!(target("3999 :6381", "h"), at("h", 6381));
        assert_eq!(target("3999 [::1]:6381", "h"), at("::1", 6381));
        for wrong in ["", "3999", "x 127.0.0.1:1", "16384 h:1", "1 h", "1 h:x"] {
            assert_eq!(target(wrong, "h"), None, "{wrong}");
        }
    }
}
