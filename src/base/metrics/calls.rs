//! What is measured of the calls that dueq makes itself, by topic.

use super::{
    hosts::Hosts,
    seconds,
    topics::{TopicCounters, TopicLabels},
};
use dueq_model::TopicName;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use std::{sync::Arc, time::Instant};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    topic: String,
    outcome: &'static str,
}

/// How calls end.
pub(super) const OUTCOMES: [&str; 3] = ["delivered", "failed", "dead"];

/// The calls of all topics.
#[derive(Debug)]
pub(super) struct Calls {
    ended: Family<CallLabels, Counter>,
    seconds: Family<TopicLabels, Histogram, fn() -> Histogram>,
    lateness_seconds: Family<TopicLabels, Histogram, fn() -> Histogram>,
    in_flight: Family<TopicLabels, Gauge>,
    hosts: Hosts,
}

/// The metrics of one topic's calls, kept by their sender.
pub struct CallMetrics {
    topic: String,
    ended: Family<CallLabels, Counter>,
    hosts: Hosts,
    /// From the first step of a call to its end, s.
    pub seconds: Histogram,
    /// From due to the first step of the call, s.
    pub lateness_seconds: Histogram,
    /// Calls under way.
    pub in_flight: Gauge,
    /// Keeps the topic's label.
    _counters: Arc<TopicCounters>,
}

impl Calls {
    /// Fresh ones, registered.
    pub fn new(registry: &mut Registry) -> Self {
        let ended = Family::default();
        registry.register("callbacks", "Calls by how they ended", ended.clone());
        let durations = Family::new_with_constructor(seconds as fn() -> Histogram);
        let name = "callback_duration_seconds";
        registry.register(name, "From the first step of a call to its end", durations.clone());
        let lateness_seconds = Family::new_with_constructor(seconds as fn() -> Histogram);
        let name = "callback_lateness_seconds";
        registry.register(name, "Begin of a call - due", lateness_seconds.clone());
        let in_flight = Family::default();
        registry.register("callbacks_in_flight", "Calls under way", in_flight.clone());
        let hosts = Hosts::new(registry);
        Self { ended, seconds: durations, lateness_seconds, in_flight, hosts }
    }

    /// Those of the topic with this label and these counters.
    pub fn of(&self, topic: String, counters: Arc<TopicCounters>) -> CallMetrics {
        let labels = TopicLabels { topic: topic.clone() };
        CallMetrics {
            topic,
            ended: self.ended.clone(),
            hosts: self.hosts.clone(),
            seconds: self.seconds.get_or_create(&labels).clone(),
            lateness_seconds: self.lateness_seconds.get_or_create(&labels).clone(),
            in_flight: self.in_flight.get_or_create(&labels).clone(),
            _counters: counters,
        }
    }

    /// Gives back the labels of this topic.
    pub fn forget(&self, topic: &TopicName) {
        let labels = TopicLabels { topic: topic.to_string() };
        for outcome in OUTCOMES {
            self.ended.remove(&CallLabels { topic: topic.to_string(), outcome });
        }
        self.seconds.remove(&labels);
        self.lateness_seconds.remove(&labels);
        self.in_flight.remove(&labels);
    }
}

impl CallMetrics {
    /// Counts a call of `host` that ended like this: `delivered`, `failed` or `dead`.
    pub fn count(&self, host: &str, outcome: &'static str) {
        let topic = self.topic.clone();
        self.ended.get_or_create(&CallLabels { topic, outcome }).inc();
        self.hosts.count(host, outcome, Instant::now());
    }
}
