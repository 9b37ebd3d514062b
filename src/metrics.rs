//! What an operator can graph. Everything is counted where it happens and rendered on demand; the only labels that a
//! user can multiply are topic names, and those are bounded.

mod calls;
mod topics;

pub use calls::CallMetrics;
pub use topics::{Counters, TopicCounters};

use crate::{background::Background, model::TopicName};
use calls::Calls;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use std::{fmt, sync::Arc};
use topics::{TopicCollector, Topics};

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

/// All metrics of one instance.
pub struct Metrics {
    registry: Registry,
    topics: Arc<Topics>,
    /// What runs by itself, and whether it does.
    pub background: Background,
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
        let topics = Arc::new(Topics::new(Calls::new(&mut registry)));
        registry.register_collector(Box::new(TopicCollector(topics.clone())));
        Self {
            registry,
            topics,
            background: Background::default(),
            requests,
            request_seconds,
            lateness_seconds,
            group_size,
            waiters,
            redis_seconds,
            redis_errors,
            redis_connects,
        }
    }

    /// The counters of a topic, to be kept by whoever counts often; those of `_other` where many topics are counted.
    pub fn topic(&self, name: &TopicName) -> Counters {
        Counters::new(&self.topics, name)
    }

    /// What is measured of a topic's calls; of `_other` where many topics are counted.
    pub fn calls(&self, name: &TopicName) -> CallMetrics {
        self.topics.calls(name)
    }

    /// There is no topic of this name any more: its label is another's to have.
    ///
    /// `_callbacks` keeps its own: its sender takes it before the first message creates the topic.
    pub fn forget_topic(&self, name: &TopicName) {
        if !name.is_callbacks() {
            self.topics.forget(name);
        }
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

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
