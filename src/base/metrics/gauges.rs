//! What Redis holds, as it was last looked at: the same on every instance, so that one of them suffices for an alert.
//! A scrape looks first, and shows what was found here; what could not be seen is left out, since an old
//! number would pass for a new one.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder},
    metrics::MetricType,
};
use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

/// What a topic holds.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicGauges {
    /// Its name.
    pub topic: String,
    /// Messages in each state: the state's name and how many.
    pub messages: [(&'static str, i64); 6],
    /// How long the oldest ready message has been due, s; 0 where none is ready.
    pub oldest_ready_seconds: f64,
    /// Nothing is leased.
    pub paused: bool,
}

/// When a schedule ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleGauges {
    /// Its name.
    pub schedule: String,
    /// Its last tick, s since 1970; `None` before the first.
    pub last_tick: Option<f64>,
    /// Its next tick, s since 1970; `None` while it is paused.
    pub next_tick: Option<f64>,
}

/// What topics and schedules are at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// At most as many as have labels.
    pub topics: Vec<TopicGauges>,
    /// Some, in the order of their names.
    pub schedules: Vec<ScheduleGauges>,
    /// Hosts of callbacks that are paused.
    pub paused_hosts: i64,
    /// Hosts of callbacks that fail.
    pub failing_hosts: i64,
}

/// Memory of a Redis, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisMemory {
    /// What it uses.
    pub used: u64,
    /// Its limit; 0 where it has none.
    pub max: u64,
}

/// What was found when Redis was last looked at.
#[derive(Clone, Debug, Default)]
pub struct RedisGauges {
    /// dueq is ready, as `/readyz` says.
    pub ready: bool,
    /// Redis answers.
    pub up: bool,
    /// Its memory; that of the fullest primary of a Cluster.
    pub memory: Option<RedisMemory>,
    /// What it holds; `None` where it could not be seen.
    pub contents: Option<Arc<Contents>>,
}

/// Where what was found is kept until it is rendered. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Latest(Arc<RwLock<RedisGauges>>);

impl Latest {
    /// Replaces what was found before.
    pub fn set(&self, found: RedisGauges) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = found;
    }
}

/// Renders what was found.
#[derive(Debug)]
pub(super) struct RedisCollector(pub Latest);

impl Collector for RedisCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let found = self.0.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        let RedisGauges { ready, up, memory, contents } = found;
        let mut gauge = |name: &str, help: &str, samples: &mut dyn Iterator<Item = Sample>| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, value) in samples {
                match labels.is_empty() {
                    true => encode(value, &mut family)?,
                    false => encode(value, &mut family.encode_family(&labels)?)?,
                }
            }
            Ok(())
        };
        let one = |value: bool| [(vec![], f64::from(u8::from(value)))].into_iter();
        gauge("ready", "1 while /readyz answers 200, else 0", &mut one(ready))?;
        gauge("redis_up", "1 while Redis answers, else 0", &mut one(up))?;
        let kinds = memory.map(|RedisMemory { used, max }| [("used", used), ("max", max)]);
        let kinds = kinds.into_iter().flatten();
        let mut kinds = kinds.map(|(kind, bytes)| (vec![("kind", kind.to_owned())], bytes as f64));
        gauge("redis_memory_bytes", "Memory that Redis uses and may use", &mut kinds)?;
        let Some(contents) = contents else { return Ok(()) };
        let topics = || contents.topics.iter();
        let of = |topic: &TopicGauges| ("topic", topic.topic.clone());
        let mut messages = topics().flat_map(|topic| {
            let state = |(state, count): (&str, i64)| {
                (vec![of(topic), ("state", state.to_owned())], count as f64)
            };
            topic.messages.map(state)
        });
        gauge("topic_messages", "Messages by state", &mut messages)?;
        let mut oldest = topics().map(|topic| (vec![of(topic)], topic.oldest_ready_seconds));
        let help = "How long the oldest ready message has been due";
        gauge("topic_oldest_ready_seconds", help, &mut oldest)?;
        let mut paused = topics().map(|it| (vec![of(it)], f64::from(u8::from(it.paused))));
        gauge("topic_paused", "1 while nothing is leased, else 0", &mut paused)?;
        let mut hosts = [(vec![], contents.paused_hosts as f64)].into_iter();
        gauge("callback_hosts_paused", "Hosts of callbacks that are paused", &mut hosts)?;
        let mut hosts = [(vec![], contents.failing_hosts as f64)].into_iter();
        gauge("callback_hosts_failing", "Hosts of callbacks that fail", &mut hosts)?;
        let ticks = |tick: fn(&ScheduleGauges) -> Option<f64>| {
            contents.schedules.iter().filter_map(move |schedule| {
                Some((vec![("schedule", schedule.schedule.clone())], tick(schedule)?))
            })
        };
        let name = "schedule_last_tick_timestamp_seconds";
        gauge(name, "The last tick, s since 1970", &mut ticks(|it| it.last_tick))?;
        let name = "schedule_next_tick_timestamp_seconds";
        gauge(name, "The next tick, s since 1970", &mut ticks(|it| it.next_tick))
    }
}

/// Whole numbers without a point, as the other gauges have them.
fn encode(value: f64, metric: &mut MetricEncoder<'_>) -> Result<(), fmt::Error> {
    match value as i64 {
        whole if whole as f64 == value => metric.encode_gauge(&whole),
        _ => metric.encode_gauge(&value),
    }
}

/// Labels and value.
type Sample = (Vec<(&'static str, String)>, f64);
