//! What is counted for each topic. A name that a user chose is a label, and a label costs the operator: so
//! only some topics that are in use have one, and a topic that is gone gives its own back.

use super::{CallMetrics, calls::Calls};
use dueq_model::TopicName;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, counter::Counter, family::Family, histogram::Histogram},
};
use std::{
    collections::HashMap,
    fmt,
    ops::Deref,
    sync::{Arc, OnceLock, RwLock},
};

/// Topics that get a label of their own; all others share `_other`.
pub const MAX_TOPIC_LABELS: usize = 200;
const OTHER: &str = "_other";
/// Bounds of a topic's histogram of lateness, s. With the one that has no bound there are twelve: each costs every topic.
const LATENESS_BUCKETS: [f64; 11] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 60.0, 3600.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TopicLabels {
    pub topic: String,
}

macro_rules! topic_counters {
    ($($name:ident: $help:literal,)*) => {
        /// What is counted for each topic.
        #[derive(Debug)]
        pub struct TopicCounters {
            $(#[doc = $help] pub $name: Counter,)*
            lateness_seconds: Histogram,
        }

        impl Default for TopicCounters {
            fn default() -> Self {
                let lateness_seconds = Histogram::new(LATENESS_BUCKETS);
                Self { $($name: Counter::default(),)* lateness_seconds }
            }
        }

        const TOPIC_COUNTERS: &[(&str, &str, fn(&TopicCounters) -> &Counter)] =
            &[$((stringify!($name), $help, |counters| &counters.$name),)*];
    };
}

topic_counters! {
    published: "Messages stored",
    granted: "Leases given",
    acked: "Messages acknowledged",
    nacked: "Leases given back as failed",
    returned: "Grants taken back because the client was gone",
    lease_expired: "Leases that ended by themselves",
    dead: "Messages whose attempts are used up",
    released: "Leases given back unworked",
    expired: "Messages whose time was over",
    deleted: "Messages deleted",
    purged: "Messages purged",
    redriven: "Dead messages made ready again",
    replaced: "Messages replaced in place",
    refused: "Messages refused because the topic was full",
}

impl TopicCounters {
    /// Takes in how late (ms) first grants were.
    pub fn observe_lateness(&self, late_ms: &[i64]) {
        for late in late_ms {
            self.lateness_seconds.observe(*late as f64 / 1000.0);
        }
    }
}

/// A topic's counters. They take a label once something is counted: many topics are only looked at.
#[derive(Debug)]
pub struct Counters {
    topics: Arc<Topics>,
    name: TopicName,
    own: OnceLock<Arc<TopicCounters>>,
}

impl Counters {
    pub(super) fn new(topics: &Arc<Topics>, name: &TopicName) -> Self {
        Self { topics: topics.clone(), name: name.clone(), own: OnceLock::new() }
    }
}

impl Deref for Counters {
    type Target = TopicCounters;

    fn deref(&self) -> &TopicCounters {
        self.own.get_or_init(|| self.topics.get(&self.name))
    }
}

/// Those of all topics.
#[derive(Debug)]
pub(super) struct Topics {
    named: RwLock<HashMap<TopicName, Arc<TopicCounters>>>,
    other: Arc<TopicCounters>,
    calls: Calls,
}

impl Topics {
    /// None yet.
    pub fn new(calls: Calls) -> Self {
        Self { named: RwLock::default(), other: Arc::default(), calls }
    }

    fn get(&self, name: &TopicName) -> Arc<TopicCounters> {
        let Ok(mut named) = self.named.write() else { return self.other.clone() };
        if let Some(counters) = named.get(name) {
            return counters.clone();
        }
        if named.len() >= MAX_TOPIC_LABELS {
            // Nobody else keeps them: the topic has not been used for a while, and may be gone.
            named.retain(|name, counters| {
                let kept = Arc::strong_count(counters) > 1;
                if !kept {
                    self.calls.forget(name);
                }
                kept
            });
        }
        if named.len() >= MAX_TOPIC_LABELS {
            return self.other.clone();
        }
        named.entry(name.clone()).or_default().clone()
    }

    /// What is measured of a topic's calls.
    pub fn calls(&self, name: &TopicName) -> CallMetrics {
        let counters = self.get(name);
        // Those of `_other` share one set of counters.
        let own = !Arc::ptr_eq(&counters, &self.other);
        let label = if own { name.to_string() } else { OTHER.to_owned() };
        self.calls.of(label, counters)
    }

    /// Those that have a label, in the order of their names.
    pub fn labelled(&self) -> Vec<TopicName> {
        let named = self.named.read();
        let mut names: Vec<_> = named.map(|it| it.keys().cloned().collect()).unwrap_or_default();
        names.sort_unstable();
        names
    }

    /// Gives back the label of a topic.
    pub fn forget(&self, name: &TopicName) {
        let known = self.named.read().is_ok_and(|named| named.contains_key(name));
        if known && self.named.write().is_ok_and(|mut named| named.remove(name).is_some()) {
            self.calls.forget(name);
        }
    }
}

/// Renders the counters of the topics, with the topic as label.
#[derive(Debug)]
pub(super) struct TopicCollector(pub Arc<Topics>);

impl Collector for TopicCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Ok(named) = self.0.named.read() else { return Ok(()) };
        let mut topics: Vec<_> = named.iter().map(|(name, t)| (name.to_string(), t)).collect();
        topics.sort_by(|a, b| a.0.cmp(&b.0));
        topics.push((OTHER.to_owned(), &self.0.other));
        for (name, help, counter_of) in TOPIC_COUNTERS {
            let name = format!("messages_{name}");
            let family = Family::<TopicLabels, Counter>::default();
            for (topic, counters) in &topics {
                let count = counter_of(counters).get();
                family.get_or_create(&TopicLabels { topic: topic.clone() }).inc_by(count);
            }
            let metric = encoder.encode_descriptor(&name, help, None, MetricType::Counter)?;
            family.encode(metric)?;
        }
        let (name, help) = ("topic_lateness_seconds", "Grant - due of first grants, by topic");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (topic, counters) in topics {
            let labels = TopicLabels { topic };
            counters.lateness_seconds.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    fn name(i: usize) -> TopicName {
        TopicName::parse(&format!("t{i}")).unwrap()
    }

    fn has(metrics: &Metrics, line: &str) -> bool {
        metrics.render().unwrap().lines().any(|l| l == line)
    }

    #[test]
    fn topics_beyond_the_bound_share_one_label() {
        let metrics = Metrics::new();
        let all: Vec<_> = (0..MAX_TOPIC_LABELS + 50).map(|i| metrics.topic(&name(i))).collect();
        for counters in &all {
            counters.published.inc();
        }
        assert!(has(&metrics, "dueq_messages_published_total{topic=\"_other\"} 50"));
        assert!(has(&metrics, "dueq_messages_published_total{topic=\"t7\"} 1"));
        let text = metrics.render().unwrap();
        let labels = text.lines().filter(|l| l.starts_with("dueq_messages_published_total"));
        assert_eq!(labels.count(), MAX_TOPIC_LABELS + 1);
    }

    #[test]
    fn topics_that_are_only_looked_at_take_no_label() {
        let metrics = Metrics::new();
        let looked_at: Vec<_> = (0..1000).map(|i| metrics.topic(&name(i))).collect();
        metrics.topic(&name(1000)).published.inc();
        assert!(has(&metrics, "dueq_messages_published_total{topic=\"t1000\"} 1"));
        assert!(!metrics.render().unwrap().contains("t999"));
        drop(looked_at);
    }

    #[test]
    fn a_topic_that_is_gone_or_that_nobody_keeps_gives_its_label_back() {
        let metrics = Metrics::new();
        let kept: Vec<_> = (0..MAX_TOPIC_LABELS).map(|i| metrics.topic(&name(i))).collect();
        for counters in &kept {
            counters.published.inc();
        }
        metrics.calls(&name(3)).count("h:80", "delivered");
        assert!(has(&metrics, "dueq_callbacks_total{topic=\"t3\",outcome=\"delivered\"} 1"));
        metrics.forget_topic(&name(3));
        assert!(!metrics.render().unwrap().contains("\"t3\""));
        let new = metrics.topic(&name(500));
        new.acked.inc();
        assert!(has(&metrics, "dueq_messages_acked_total{topic=\"t500\"} 1"));
        let late = metrics.topic(&name(501));
        late.acked.inc();
        assert!(has(&metrics, "dueq_messages_acked_total{topic=\"_other\"} 1"));
        drop(kept);
        let later = metrics.topic(&name(502));
        later.acked.inc();
        assert!(has(&metrics, "dueq_messages_acked_total{topic=\"t502\"} 1"));
        assert!(has(&metrics, "dueq_messages_acked_total{topic=\"t500\"} 1"));
        assert!(!metrics.render().unwrap().contains("\"t7\""));
    }
}
