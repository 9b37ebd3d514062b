//! What an operator can graph. Everything is counted where it happens and rendered on demand; the only labels that a
//! user can multiply are topic names, and those are bounded.

mod calls;

pub use calls::CallMetrics;

use crate::model::TopicName;
use calls::Calls;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, RwLock},
};

/// Topics that get a label of their own; all later ones share `_other`.
const MAX_TOPIC_LABELS: usize = 200;
const OTHER: &str = "_other";

/// Labels of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// The operationId, or `none` where no route matched.
    pub operation: &'static str,
    /// The HTTP status.
    pub status: u16,
}

/// Labels of what concerns one route or script.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OperationLabels {
    /// The operationId.
    pub operation: &'static str,
}

/// Labels of a call to Redis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ScriptLabels {
    /// The script's file name without its ending.
    pub script: &'static str,
}

/// Labels of a failed call to Redis.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ErrorLabels {
    /// `unavailable`, `unknown` or `internal`.
    pub kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TopicLabels {
    topic: String,
}

/// What is counted for each topic.
#[derive(Debug, Default)]
pub struct TopicCounters {
    /// Messages stored.
    pub published: Counter,
    /// Leases given.
    pub granted: Counter,
    /// Messages acknowledged.
    pub acked: Counter,
    /// Leases given back by their holder as failed.
    pub nacked: Counter,
    /// Grants taken back because the client was gone.
    pub returned: Counter,
    /// Leases that ended by themselves.
    pub lease_expired: Counter,
    /// Messages whose attempts are used up.
    pub dead: Counter,
    /// Leases given back unworked.
    pub released: Counter,
    /// Messages whose time was over.
    pub expired: Counter,
    /// Messages deleted.
    pub deleted: Counter,
    /// Messages purged.
    pub purged: Counter,
    /// Dead messages made ready again.
    pub redriven: Counter,
    /// Messages replaced in place.
    pub replaced: Counter,
}

type CounterOf = fn(&TopicCounters) -> &Counter;
const TOPIC_COUNTERS: [(&str, &str, CounterOf); 13] = [
    ("published", "Messages stored", |t| &t.published),
    ("granted", "Leases given", |t| &t.granted),
    ("acked", "Messages acknowledged", |t| &t.acked),
    ("nacked", "Leases given back as failed", |t| &t.nacked),
    ("returned", "Grants taken back because the client was gone", |t| &t.returned),
    ("lease_expired", "Leases that ended by themselves", |t| &t.lease_expired),
    ("dead", "Messages whose attempts are used up", |t| &t.dead),
    ("released", "Leases given back unworked", |t| &t.released),
    ("expired", "Messages whose time was over", |t| &t.expired),
    ("deleted", "Messages deleted", |t| &t.deleted),
    ("purged", "Messages purged", |t| &t.purged),
    ("redriven", "Dead messages made ready again", |t| &t.redriven),
    ("replaced", "Messages replaced in place", |t| &t.replaced),
];

/// All metrics of one instance.
pub struct Metrics {
    registry: Registry,
    topics: Arc<Topics>,
    /// Requests answered.
    pub requests: Family<RequestLabels, Counter>,
    /// Time from a request's head to its answer's, s.
    pub request_seconds: Family<OperationLabels, Histogram, fn() -> Histogram>,
    /// Grant − due of first grants, s.
    pub lateness_seconds: Histogram,
    /// Requests that went to Redis in one script call.
    pub group_size: Family<ScriptLabels, Histogram, fn() -> Histogram>,
    /// Long polls that wait.
    pub waiters: Gauge,
    /// Time from sending a group's calls to Redis until the answer was read, s.
    pub redis_seconds: Histogram,
    /// Calls to Redis without a good answer.
    pub redis_errors: Family<ErrorLabels, Counter>,
    /// Connections to Redis that were opened.
    pub redis_connects: Counter,
    calls: Calls,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Fresh metrics, all zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("dueq");
        let topics = Arc::new(Topics::default());
        let requests = Family::default();
        registry.register("http_requests", "Requests answered", requests.clone());
        let request_seconds = Family::new_with_constructor(seconds as fn() -> Histogram);
        let name = "http_request_duration_seconds";
        registry.register(name, "From a request's head to its answer's", request_seconds.clone());
        let lateness_seconds = seconds();
        let help = "Grant - due of first grants";
        registry.register("lateness_seconds", help, lateness_seconds.clone());
        let group_size = Family::new_with_constructor(sizes as fn() -> Histogram);
        registry.register("group_size", "Requests in one script call", group_size.clone());
        let waiters = Gauge::default();
        registry.register("waiters", "Long polls that wait", waiters.clone());
        let redis_seconds = seconds();
        let name = "redis_call_duration_seconds";
        registry.register(
            name,
            "From sending a group to Redis to its answer",
            redis_seconds.clone(),
        );
        let redis_errors = Family::default();
        registry.register(
            "redis_errors",
            "Calls to Redis without a good answer",
            redis_errors.clone(),
        );
        let redis_connects = Counter::default();
        registry.register("redis_connects", "Connections opened to Redis", redis_connects.clone());
        let calls = Calls::new(&mut registry);
        registry.register_collector(Box::new(TopicCollector(topics.clone())));
        Self {
            registry,
            topics,
            requests,
            request_seconds,
            lateness_seconds,
            group_size,
            waiters,
            redis_seconds,
            redis_errors,
            redis_connects,
            calls,
        }
    }

    /// The counters of a topic, to be kept by whoever counts often; those of `_other` once there are many topics.
    pub fn topic(&self, name: &TopicName) -> Arc<TopicCounters> {
        self.topics.get(name)
    }

    /// What is measured of a topic's calls; of `_other` once there are many topics.
    pub fn calls(&self, name: &TopicName) -> CallMetrics {
        self.calls.of(self.topics.label(name))
    }

    /// Counts a group that went to Redis in one call of `script`.
    pub fn observe_group(&self, script: &'static str, size: usize) {
        self.group_size.get_or_create(&ScriptLabels { script }).observe(size as f64);
    }

    /// Counts a call to Redis without a good answer.
    pub fn count_redis_error(&self, kind: &'static str) {
        self.redis_errors.get_or_create(&ErrorLabels { kind }).inc();
    }

    /// Takes in how late (ms) first grants were.
    pub fn observe_lateness(&self, late_ms: &[i64]) {
        for late in late_ms {
            self.lateness_seconds.observe(*late as f64 / 1000.0);
        }
    }

    /// The OpenMetrics text that Prometheus scrapes.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// 50 µs … 27 min: from a call to Redis to a lateness after an outage.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_05, 2.0, 25))
}

fn sizes() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 9))
}

#[derive(Debug, Default)]
struct Topics {
    named: RwLock<HashMap<TopicName, Arc<TopicCounters>>>,
    other: Arc<TopicCounters>,
}

impl Topics {
    /// The label of a topic.
    fn label(&self, name: &TopicName) -> String {
        // Those of `_other` share one set of counters.
        let own = !Arc::ptr_eq(&self.get(name), &self.other);
        if own { name.to_string() } else { OTHER.to_owned() }
    }

    fn get(&self, name: &TopicName) -> Arc<TopicCounters> {
        let Ok(mut named) = self.named.write() else { return self.other.clone() };
        if let Some(counters) = named.get(name) {
            return counters.clone();
        }
        if named.len() >= MAX_TOPIC_LABELS {
            return self.other.clone();
        }
        named.entry(name.clone()).or_default().clone()
    }
}

/// Renders the counters of the topics, with the topic as label.
#[derive(Debug)]
struct TopicCollector(Arc<Topics>);

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
            let metric = encoder.encode_descriptor(
                &name,
                help,
                None,
                prometheus_client::metrics::MetricType::Counter,
            )?;
            prometheus_client::encoding::EncodeMetric::encode(&family, metric)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_beyond_the_bound_share_one_label() {
        let metrics = Metrics::new();
        for i in 0..MAX_TOPIC_LABELS + 50 {
            let name = TopicName::parse(&format!("t{i}")).unwrap();
            metrics.topic(&name).published.inc();
        }
        let text = metrics.render().unwrap();
        let line = "dueq_messages_published_total{topic=\"_other\"} 50";
        assert!(text.lines().any(|l| l == line), "{text}");
        assert!(text.contains("dueq_messages_published_total{topic=\"t7\"} 1"));
        let labels = text.lines().filter(|l| l.starts_with("dueq_messages_published_total"));
        assert_eq!(labels.count(), MAX_TOPIC_LABELS + 1);
    }
}
