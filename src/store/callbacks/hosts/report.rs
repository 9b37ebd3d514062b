//! What is known of hosts, as instances write it down for each other, and how it adds up.

use crate::history::Lateness;
use dueq_model::Millis;
use serde::{Deserialize, Serialize};

/// Calls by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallCounts {
    /// Those that the receiver took.
    pub delivered: i64,
    /// Those that are made again.
    pub failed: i64,
    /// Those after which the message was dead.
    pub dead: i64,
}

impl CallCounts {
    pub(super) fn add(&mut self, other: Self) {
        self.delivered += other.delivered;
        self.failed += other.failed;
        self.dead += other.dead;
    }

    fn all(self) -> i64 {
        self.delivered + self.failed + self.dead
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub struct CallEnd<'a> {
    /// One in the count that it belongs to.
    pub counts: CallCounts,
    /// How long it took, ms.
    pub took_ms: Millis,
    /// How it failed, if it did.
    pub error: Option<&'a str>,
}

/// The calls to a host that are under way, and the messages that wait for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Calls under way.
    pub in_flight: i64,
    /// Messages that wait.
    pub waiting: i64,
}

/// What is known of a host, by one instance or by all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostReport {
    /// Name or address, and port.
    pub host: String,
    /// The topic whose calls these are, in what an instance writes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub topic: String,
    /// Since when it is paused (ms), if it is: the same for all instances.
    #[serde(skip)]
    pub paused_at: Option<Millis>,
    /// Since when it fails, and when the next probe may begin (ms), if it does.
    #[serde(skip)]
    pub failing: Option<(Millis, Millis)>,
    /// Calls under way.
    pub in_flight: i64,
    /// Messages that wait for a place, or until it is resumed.
    pub waiting: i64,
    /// Calls of the last five minutes.
    pub short: CallCounts,
    /// Calls of the last hour.
    pub hour: CallCounts,
    /// How long the calls of the last five minutes took.
    #[serde(with = "text")]
    pub(crate) took: Lateness,
    /// Calls that failed since the last one that did not.
    pub failures: i64,
    /// How the last call failed that did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error_at: Option<Millis>,
    /// When a call last did not fail, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success_at: Option<Millis>,
}

impl HostReport {
    /// Of a host of which nothing is known.
    pub fn of(host: &str) -> Self {
        Self { host: host.to_owned(), ..Self::default() }
    }

    /// How long calls of the last five minutes took that were not slower than this share of them, ms.
    pub fn quantile(&self, share: f64) -> Option<Millis> {
        self.took.quantile(share)
    }

    /// What hosts are ranked by.
    pub(super) fn calls(&self) -> i64 {
        self.hour.all() + self.in_flight + self.waiting
    }

    /// Adds what another instance knows of the same host.
    pub(super) fn add(&mut self, other: Self) {
        self.in_flight += other.in_flight;
        self.waiting += other.waiting;
        self.short.add(other.short);
        self.hour.add(other.hour);
        self.took.merge(&other.took);
        // Failures count that came after the last success anywhere.
        let success = self.last_success_at.max(other.last_success_at);
        let since = |report: &Self| {
            let so = report.last_error_at > success;
            if so { report.failures } else { 0 }
        };
        self.failures = since(self) + since(&other);
        self.last_success_at = success;
        if other.last_error_at > self.last_error_at {
            (self.last_error, self.last_error_at) = (other.last_error, other.last_error_at);
        }
    }
}

/// A report as it is stored, without the last of its hosts if it is larger than `most` bytes. Empty where there are none.
pub(super) fn as_json(report: &[HostReport], most: usize) -> String {
    let mut json = String::new();
    for host in report {
        let Ok(host) = serde_json::to_string(host) else { continue };
        if json.len() + host.len() + 2 > most {
            break;
        }
        json.push(if json.is_empty() { '[' } else { ',' });
        json.push_str(&host);
    }
    if !json.is_empty() {
        json.push(']');
    }
    json
}

/// Durations as they are stored.
mod text {
    use super::Lateness;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(took: &Lateness, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(took)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Lateness, D::Error> {
        let text = String::deserialize(deserializer)?;
        Lateness::parse(&text).ok_or_else(|| D::Error::custom("no durations"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_bounded_in_bytes() {
        let hosts: Vec<_> = (0..100).map(|n| HostReport::of(&format!("h{n}:80"))).collect();
        let json = as_json(&hosts, 5_000);
        assert!(json.len() <= 5_000);
        let read: Vec<HostReport> = serde_json::from_str(&json).unwrap();
        assert!(read.len() > 10 && read.len() < 100 && read[..] == hosts[..read.len()]);
        assert_eq!(as_json(&[], 5_000), "");
    }
}
