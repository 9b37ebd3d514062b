//! What an operator can graph. Everything is counted where it happens and rendered on demand; the only labels that a
//! user can multiply are names of topics, hosts and schedules, and those are bounded.

mod calls;
mod certificates;
mod gauges;
mod hosts;
mod process;
mod text;
mod topics;

pub use calls::CallMetrics;
pub use certificates::Certificates;
pub use gauges::{Contents, RedisGauges, RedisMemory, ScheduleGauges, TopicGauges};
pub use process::{host_name, resident_bytes};
pub use topics::{Counters, MAX_TOPIC_LABELS, TopicCounters};

use crate::background::Background;
use calls::Calls;
use dueq_model::TopicName;
use gauges::{Latest, RedisCollector};
use process::ProcessCollector;
use prometheus_client::{
    encoding::{
        EncodeLabelSet,
        text::{encode_eof, encode_registry},
    },
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use topics::{TopicCollector, Topics};

/// One label, and its value.
type Label = [(&'static str, &'static str); 1];
/// A histogram for each value of a label.
type Histograms = Family<Label, Histogram, fn() -> Histogram>;

/// Why requests are turned away.
const AUTH_FAILURES: [&str; 9] = [
    "missing",
    "malformed",
    "wrong",
    "forged",
    "ended",
    "foreign",
    "too_many",
    "not_allowed",
    "host_not_allowed",
];

/// Labels of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    /// The operationId, or `none` where no route matched.
    operation: &'static str,
    /// The HTTP status.
    status: u16,
}

/// What is counted of one operation with one status. The last ones are kept: finding them takes two locks and two hashes.
type Answered = (RequestLabels, Counter, Histogram);
/// How many, one for each remainder of where its name is and its status.
const ANSWERED: usize = 32;

/// Declares the metrics of one instance: each a field, its type, its name and what it says, and how it is made unless by
/// default.
macro_rules! metrics {
    ($($vis:vis $field:ident: $Type:ty = $name:literal $help:literal $(by $new:expr)?;)*) => {
        /// All metrics of one instance.
        pub struct Metrics {
            registry: Registry,
            /// Those whose names begin with `process`.
            process: Registry,
            redis: Latest,
            topics: Arc<Topics>,
            /// The background tasks, and whether they run.
            pub background: Background,
            /// The certificates in use, and when they end.
            pub certificates: Certificates,
            answered: [Mutex<Option<Answered>>; ANSWERED],
            $(#[doc = $help] $vis $field: $Type,)*
        }

        impl Metrics {
            /// Fresh metrics, all zero.
            pub fn new() -> Self {
                let mut registry = Registry::with_prefix("dueq");
                $(
                    let $field: $Type = metrics!(@ $($new)?);
                    registry.register($name, $help, $field.clone());
                )*
                let redis = Latest::default();
                registry.register_collector(Box::new(RedisCollector(redis.clone())));
                let mut process = Registry::default();
                process.register_collector(Box::new(ProcessCollector));
                let certificates = Certificates::new(&mut registry);
                let topics = Arc::new(Topics::new(Calls::new(&mut registry)));
                registry.register_collector(Box::new(TopicCollector(topics.clone())));
                let background = Background::default();
                let answered = Default::default();
                Self { registry, process, redis, topics, background, certificates, answered, $($field,)* }
            }
        }
    };
    (@) => { Default::default() };
    (@ $new:expr) => { $new };
}

metrics! {
    requests: Family<RequestLabels, Counter> = "http_requests" "Requests answered";
    request_seconds: Histograms = "http_request_duration_seconds" "From a request's head to its answer's"
        by Family::new_with_constructor(seconds as fn() -> Histogram);
    lateness_seconds: Histogram = "lateness_seconds" "Grant - due of first grants" by seconds();
    group_size: Histograms = "group_size" "Requests in one script call"
        by Family::new_with_constructor(sizes as fn() -> Histogram);
    pub waiters: Gauge = "waiters" "Long polls that wait";
    pub redis_seconds: Histogram = "redis_call_duration_seconds" "From sending a group to Redis to its answer" by seconds();
    redis_errors: Family<Label, Counter> = "redis_errors" "Calls to Redis without a good answer";
    auth_failures: Family<Label, Counter> = "auth_failures" "Requests that were turned away, by reason"
        by auth_failures();
    pub audit_lost: Counter = "audit_lost" "Records of the audit log that could not be written";
    pub redis_connects: Counter = "redis_connects" "Connections opened to Redis";
    redis_nodes: Family<[(&'static str, String); 1], Gauge> = "redis_node_up" "1 where a primary can be connected to, else 0";
    build: Family<[(&'static str, String); 2], Gauge> = "build_info" "1, with the version of dueq and that of the data in Redis";
    pub connections: Gauge = "http_connections" "Open connections of clients";
    pub spans_exported: Counter = "trace_spans_exported" "Spans that the OTLP endpoint took";
    pub spans_dropped: Counter = "trace_spans_dropped" "Spans that were lost on the way to the OTLP endpoint";
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Notes whether a primary can be connected to.
    pub fn redis_node(&self, address: &str, up: bool) {
        self.redis_nodes.get_or_create(&[("node", address.to_owned())]).set(up.into());
    }

    /// Forgets a node that is no primary any more.
    pub fn forget_redis_node(&self, address: &str) {
        self.redis_nodes.remove(&[("node", address.to_owned())]);
    }

    /// Forgets all primaries.
    pub fn forget_redis_nodes(&self) {
        self.redis_nodes.clear();
    }

    /// Notes the version of the data in Redis that this program writes.
    pub fn set_schema(&self, schema: i64) {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        self.build.get_or_create(&[("version", version), ("schema", schema.to_string())]).set(1);
    }

    /// Notes what was found when Redis was looked at, for the next [`Metrics::render`].
    pub fn saw_redis(&self, found: RedisGauges) {
        self.redis.set(found);
    }

    /// The topics with labels, in the order of their names.
    pub fn labelled_topics(&self) -> Vec<TopicName> {
        self.topics.labelled()
    }

    /// The counters of a topic, to be kept; those of `_other` where many topics are counted.
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

    /// Counts a request that was answered with `status` this long (s) after its head came. `operation`: its operationId, or
    /// `none` where no route matched.
    pub fn observe_request(&self, operation: &'static str, status: u16, seconds: f64) {
        let labels = RequestLabels { operation, status };
        let at = (operation.as_ptr() as usize / 8 + usize::from(status)) % ANSWERED;
        let mut kept = self.answered[at].lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|(of, ..)| *of != labels) {
            let count = self.requests.get_or_create(&labels).clone();
            let took = self.request_seconds.get_or_create(&[("operation", operation)]).clone();
            *kept = Some((labels, count, took));
        }
        if let Some((_, count, took)) = &*kept {
            count.inc();
            took.observe(seconds);
        }
    }

    /// Counts a group that went to Redis in one call of `script`.
    pub fn observe_group(&self, script: &'static str, size: usize) {
        self.group_size.get_or_create(&[("script", script)]).observe(size as f64);
    }

    /// Counts a call to Redis without a good answer.
    pub fn count_redis_error(&self, kind: &'static str) {
        self.redis_errors.get_or_create(&[("kind", kind)]).inc();
    }

    /// Counts a request that was turned away for one of the known reasons; other reasons do not count.
    pub fn count_auth_failure(&self, reason: &str) {
        if let Some(reason) = AUTH_FAILURES.into_iter().find(|known| *known == reason) {
            self.auth_failures.get_or_create(&[("reason", reason)]).inc();
        }
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
        encode_registry(&mut text, &self.registry)?;
        encode_registry(&mut text, &self.process)?;
        encode_eof(&mut text)?;
        Ok(text)
    }

    /// The same in the older text format of Prometheus, 0.0.4.
    pub fn render_classic(&self) -> Result<String, fmt::Error> {
        self.render().map(|text| text::classic(&text))
    }
}

/// All reasons at once: a rate needs the zero before the first of a kind.
fn auth_failures() -> Family<Label, Counter> {
    let failures = Family::<Label, Counter>::default();
    for reason in AUTH_FAILURES {
        drop(failures.get_or_create(&[("reason", reason)]));
    }
    failures
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
