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
pub use process::resident_bytes;
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
    registry::{Metric, Registry},
};

use std::{fmt, sync::Arc};
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

/// All metrics of one instance.
pub struct Metrics {
    registry: Registry,
    /// Those whose names begin with `process`.
    process: Registry,
    redis: Latest,
    topics: Arc<Topics>,
    /// What runs by itself, and whether it does.
    pub background: Background,
    /// The certificates in use, and when they end.
    pub certificates: Certificates,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Histograms,
    lateness_seconds: Histogram,
    group_size: Histograms,
    /// Long polls that wait.
    pub waiters: Gauge,
    /// Time from sending a group's calls to Redis until the answer was read, s.
    pub redis_seconds: Histogram,
    redis_errors: Family<Label, Counter>,
    auth_failures: Family<Label, Counter>,
    /// Records that the audit log does not have.
    pub audit_lost: Counter,
    /// Connections to Redis that were opened.
    pub redis_connects: Counter,
    redis_nodes: Family<[(&'static str, String); 1], Gauge>,
    build: Family<[(&'static str, String); 2], Gauge>,
    /// Open connections of clients.
    pub connections: Gauge,
    /// Spans that the OTLP endpoint took.
    pub spans_exported: Counter,
    /// Spans that it did not take, or that the queue before it had no room for.
    pub spans_dropped: Counter,
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

    /// Fresh metrics, all zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("dueq");
        let requests = registered(&mut registry, "http_requests", "Requests answered");
        let request_seconds = Family::new_with_constructor(seconds as fn() -> Histogram);
        let name = "http_request_duration_seconds";
        registry.register(name, "From a request's head to its answer's", request_seconds.clone());
        let lateness_seconds = seconds();
        let help = "Grant - due of first grants";
        registry.register("lateness_seconds", help, lateness_seconds.clone());
        let group_size = Family::new_with_constructor(sizes as fn() -> Histogram);
        registry.register("group_size", "Requests in one script call", group_size.clone());
        let waiters = registered(&mut registry, "waiters", "Long polls that wait");
        let redis_seconds = seconds();
        let help = "From sending a group to Redis to its answer";
        registry.register("redis_call_duration_seconds", help, redis_seconds.clone());
        let help = "Calls to Redis without a good answer";
        let redis_errors = registered(&mut registry, "redis_errors", help);
        let help = "Requests that were turned away, by reason";
        let auth_failures: Family<Label, Counter> =
            registered(&mut registry, "auth_failures", help);
        for reason in AUTH_FAILURES {
            let _ = auth_failures.get_or_create(&[("reason", reason)]);
        }
        let help = "Records of the audit log that could not be written";
        let audit_lost = registered(&mut registry, "audit_lost", help);
        let help = "Connections opened to Redis";
        let redis_connects = registered(&mut registry, "redis_connects", help);
        let help = "1 where a primary can be connected to, else 0";
        let redis_nodes = registered(&mut registry, "redis_node_up", help);
        let help = "1, with the version of dueq and that of the data in Redis";
        let build = registered(&mut registry, "build_info", help);
        let help = "Open connections of clients";
        let connections = registered(&mut registry, "http_connections", help);
        let help = "Spans that the OTLP endpoint took";
        let spans_exported = registered(&mut registry, "trace_spans_exported", help);
        let help = "Spans that were lost on the way to the OTLP endpoint";
        let spans_dropped = registered(&mut registry, "trace_spans_dropped", help);
        let redis = Latest::default();
        registry.register_collector(Box::new(RedisCollector(redis.clone())));
        let mut process = Registry::default();
        process.register_collector(Box::new(ProcessCollector));
        let certificates = Certificates::new(&mut registry);
        let topics = Arc::new(Topics::new(Calls::new(&mut registry)));
        registry.register_collector(Box::new(TopicCollector(topics.clone())));
        Self {
            registry,
            process,
            redis,
            topics,
            background: Background::default(),
            certificates,
            requests,
            request_seconds,
            lateness_seconds,
            group_size,
            waiters,
            redis_seconds,
            redis_errors,
            auth_failures,
            audit_lost,
            redis_connects,
            redis_nodes,
            build,
            connections,
            spans_exported,
            spans_dropped,
        }
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

    /// Counts a request that was answered with `status` this long (s) after its head came. `operation`: its operationId, or
    /// `none` where no route matched.
    pub fn observe_request(&self, operation: &'static str, status: u16, seconds: f64) {
        self.requests.get_or_create(&RequestLabels { operation, status }).inc();
        self.request_seconds.get_or_create(&[("operation", operation)]).observe(seconds);
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

/// A fresh metric, which `registry` shows.
fn registered<M>(registry: &mut Registry, name: &str, help: &str) -> M
where
    M: Metric + Clone + Default,
{
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
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
