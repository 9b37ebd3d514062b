//! What operators graph of Redis: what topics hold, when schedules tick, and how much memory there is. It is asked for again
//! and again by scrapes of the metrics, so it is bounded in topics, in partitions and in time, and gives way to others:
//! few of its calls are under way at once, and topics that nobody uses stay forgotten by the cache.

use super::{
    Store,
    batch::{Command, Node},
    registry::Topic,
    reply::{CallError, Fields, word},
    server_info::line,
    topics::{TopicSnapshot, count},
};
use dueq_base::metrics::{Contents, MAX_TOPIC_LABELS, RedisMemory, ScheduleGauges, TopicGauges};
use dueq_model::{TopicName, error::Error};
use futures_util::{
    StreamExt,
    future::{join_all, ready, try_join_all},
    stream,
};
use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};

/// Schedules that are looked at: the first by name.
const MAX_SCHEDULES: usize = 100;
/// Partitions that are looked at. Each takes Redis some 50 µs.
const MAX_PARTITIONS: usize = 1024;
/// Topics that are looked at at once: what others want of Redis waits for few calls.
const LOOKS: usize = 8;
/// How long a look at all topics may take. What was not seen by then is left out.
const LOOK_TIME: Duration = Duration::from_secs(2);
/// Answers of a server that are timed.
const ANSWERS: usize = 21;
/// How long a server may take to tell its memory.
const MEMORY_TIME: Duration = Duration::from_secs(1);

impl Store {
    /// Looks at what Redis holds: the topics that have a label here, then others by name, as many as may have labels; those
    /// that cannot be counted are left out.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`, where topics and schedules cannot even be listed.
    pub async fn contents(&self) -> Result<Contents, Error> {
        let mut names = self.lanes.shared.metrics.labelled_topics();
        names.extend(self.topic_names("", None, MAX_TOPIC_LABELS).await?);
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        let schedules = self.schedule_gauges().await?;
        let mut left = MAX_PARTITIONS;
        let topics = stream::iter(names)
            .map(|name| async move { Some((self.known_or_read(&name).await?, name)) })
            .buffered(LOOKS)
            .filter_map(ready)
            .filter(|(topic, _)| {
                let fits = topic.partitions.len() <= left;
                left -= if fits { topic.partitions.len() } else { 0 };
                ready(fits)
            })
            .take(MAX_TOPIC_LABELS)
            .map(|(topic, name)| async move { Some(gauges(&name, &self.counted(topic).await?)) })
            .buffered(LOOKS)
            .filter_map(ready)
            .take_until(sleep(LOOK_TIME));
        let topics = topics.collect().await;
        let paused_hosts = self.count_paused_hosts().await?;
        let failing_hosts = self.count_failing_hosts().await?;
        Ok(Contents { topics, schedules, paused_hosts, failing_hosts })
    }

    /// The topic of this name, which is not kept any longer for having been looked at.
    async fn known_or_read(&self, name: &TopicName) -> Option<Arc<Topic>> {
        match self.registry.peek(name) {
            Some(topic) => Some(topic),
            None => self.registry.look_up(name).await.ok()?,
        }
    }

    /// What the topic holds, counted once: what time has brought beyond a sweep's bounds counts with the next look.
    async fn counted(&self, topic: Arc<Topic>) -> Option<TopicSnapshot> {
        match self.count_all(&topic).await {
            Err(CallError::Stale) => {
                let topic = self.registry.look_up(&topic.name).await.ok()??;
                self.count_all(&topic).await.ok()
            }
            counted => counted.ok(),
        }
    }

    async fn count_all(&self, topic: &Arc<Topic>) -> Result<TopicSnapshot, CallError> {
        let counts = topic.all().map(|partition| self.lanes.submit(count(&partition)));
        let counts = try_join_all(counts).await?;
        counts.into_iter().reduce(TopicSnapshot::plus).ok_or(CallError::Internal)
    }

    async fn schedule_gauges(&self) -> Result<Vec<ScheduleGauges>, Error> {
        let keys = &self.lanes.shared.keys;
        let range = Command::new("ZRANGE").arg(&keys.schedules_index);
        let names = self.lanes.command(range.arg((0, MAX_SCHEDULES - 1))).await?;
        let names: Vec<String> =
            Fields::of(names)?.words().into_iter().flatten().flatten().collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let states = Command::new("HMGET").arg(&keys.schedule_states).arg(&names);
        let states = Fields::of(self.lanes.command(states).await?)?.words();
        let pairs = names.into_iter().zip(states);
        // One that was deleted meanwhile has no state.
        Ok(pairs.filter_map(|(name, state)| ticks(name, &state.ok()??)).collect())
    }

    /// How each server is now, for people.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn look_at_servers(&self) -> Result<Vec<ServerLook>, Error> {
        let nodes = self.lanes.nodes();
        Ok(try_join_all(nodes.iter().map(|node| look_at(node))).await?)
    }

    /// The memory of Redis; that of the fullest primary of a Cluster, `None` where Redis does not tell.
    ///
    /// Errors: `RedisUnavailable` where none of its servers answers.
    pub async fn redis_memory(&self) -> Result<Option<RedisMemory>, Error> {
        let nodes = self.lanes.nodes();
        let looks = nodes.iter().map(|node| timeout(MEMORY_TIME, memory_of(node)));
        let found = join_all(looks).await.into_iter().flatten().flatten();
        let found: Vec<_> = found.collect();
        if found.is_empty() {
            return Err(Error::RedisUnavailable);
        }
        // Those without a limit come last.
        let fullness = |memory: &RedisMemory| match memory.max {
            0 => (0, memory.used),
            max => (u128::from(memory.used) * 1_000_000 / u128::from(max), memory.used),
        };
        Ok(found.into_iter().flatten().max_by_key(fullness))
    }
}

/// A server of Redis at a moment.
pub struct ServerLook {
    /// Where it is.
    pub address: String,
    /// Its version.
    pub version: String,
    /// How many replicas are connected.
    pub replicas: usize,
    /// How long an answer takes: the median of some.
    pub latency: Duration,
    /// How far this machine's clock is ahead of its own, ms.
    pub ahead_ms: i64,
    /// Its memory, where it says so.
    pub memory: Option<RedisMemory>,
    /// How it keeps its data, or what is wrong with that; `None` where it does not say so.
    pub persistence: Option<Result<&'static str, &'static str>>,
}

async fn look_at(node: &Node) -> Result<ServerLook, CallError> {
    let mut took = Vec::new();
    for _ in 0..ANSWERS {
        let sent = Instant::now();
        node.command(Command::new("TIME")).await?;
        took.push(sent.elapsed());
    }
    took.sort_unstable();
    let (backend, server) = (&node.backend, node.backend.server());
    let hides = server.as_ref().is_none_or(|server| server.refused);
    let info = match hides {
        true => None,
        false => Some(node.command(Command::new("INFO").arg("persistence")).await?),
    };
    Ok(ServerLook {
        address: backend.address(),
        version: server.map(|server| server.version.clone()).unwrap_or_default(),
        replicas: backend.connected_replicas(),
        latency: took[ANSWERS / 2],
        ahead_ms: backend.clock.machine_ahead().unwrap_or(0),
        memory: memory_of(node).await?,
        persistence: info.as_ref().and_then(word).and_then(persistence),
    })
}

/// How a server keeps its data by what it says.
fn persistence(info: &str) -> Option<Result<&'static str, &'static str>> {
    let says = |name, value| line(info, name) == Some(value);
    Some(match line(info, "aof_enabled")? {
        _ if says("aof_last_write_status", "err") || says("rdb_last_bgsave_status", "err") => {
            Err("it could not write to its disk: make room there")
        }
        "1" => Ok("append-only file"),
        _ => Err(
            "it has no append-only file, so that a crash loses what was published since its last snapshot, if it takes \
                any: set appendonly yes",
        ),
    })
}

async fn memory_of(node: &Node) -> Result<Option<RedisMemory>, CallError> {
    if node.backend.server().is_some_and(|server| server.refused) {
        return node.command(Command::new("TIME")).await.map(|_| None);
    }
    let info = node.command(Command::new("INFO").arg("memory")).await?;
    let info = word(&info).unwrap_or_default();
    let bytes = |name| line(info, name)?.parse().ok();
    let max = bytes("maxmemory").unwrap_or(0);
    Ok(bytes("used_memory").map(|used| RedisMemory { used, max }))
}

fn gauges(topic: &TopicName, counts: &TopicSnapshot) -> TopicGauges {
    let TopicSnapshot { paused, delayed, ready, leased, dead, acked, blocked, .. } = *counts;
    let messages = [
        ("delayed", delayed),
        ("ready", ready),
        ("leased", leased),
        ("dead", dead),
        ("acked", acked),
        ("blocked", blocked),
    ];
    let oldest_ready_seconds = counts.oldest_ready_age_ms.unwrap_or(0) as f64 / 1000.0;
    TopicGauges { topic: topic.to_string(), messages, oldest_ready_seconds, paused }
}

/// When a schedule with this state ticks; nothing where it cannot be read.
fn ticks(schedule: String, state: &str) -> Option<ScheduleGauges> {
    let mut words = state.splitn(7, ' ');
    let mut number = || words.next()?.parse::<i64>().ok();
    let (_revision, paused, next) = (number()?, number()? == 1, number()?);
    let (_claimed, last) = (number()?, number()?);
    let at = |ms: i64| (ms > 0).then_some(ms as f64 / 1000.0);
    let next_tick = at(next).filter(|_| !paused);
    Some(ScheduleGauges { schedule, last_tick: at(last), next_tick })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedules_ticks_are_read_from_its_state() {
        for (state, last_tick, next_tick) in [
            ("3 0 1700000060000 0 1700000000500 - ", Some(1_700_000_000.5), Some(1_700_000_060.0)),
            ("1 0 1700000060000 0 0 - topic is full", None, Some(1_700_000_060.0)),
            ("2 1 1700000060000 0 0 - ", None, None),
            ("2 0 0 0 1000 - ", Some(1.0), None),
        ] {
            let schedule = "s".to_owned();
            let expected = ScheduleGauges { schedule: schedule.clone(), last_tick, next_tick };
            assert_eq!(ticks(schedule, state), Some(expected), "{state}");
        }
        assert_eq!(ticks("s".to_owned(), "1 0 x"), None);
        assert_eq!(ticks("s".to_owned(), ""), None);
    }
}
