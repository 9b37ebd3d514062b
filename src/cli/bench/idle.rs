//! Idle: what a thousand waiting consumers cost Redis while nothing happens.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use super::client::Connection;
use super::load::{Step, Work, drive};
use super::report::{Section, Table};
use super::targets::{Target, Verdict};
use super::wire::{Held, leases, payload, post, wrong};
use super::{Bench, Fallible};

/// Waiting long polls, each on a topic of its own.
const POLLS: usize = 1_000;

/// The longest wait that the contract allows, ms.
const WAIT_MS: u64 = 60_000;

/// `--only idle`.
pub async fn measure(bench: &Bench) -> Fallible<Section> {
    let server = bench.group().await?;
    let redis = server.redis().await?.ok_or("idle wants --redis-url")?;
    let name = bench.topic("idle");
    bench.say(format_args!("idle: {POLLS} topics are made"));
    let works = (0..16)
        .map(|first| Make {
            name: name.clone(),
            host: server.address.clone(),
            topics: (first..POLLS).step_by(16).collect(),
            held: Vec::new(),
            stage: Stage::Publish,
        })
        .collect();
    let (made, _) = drive(&server.address, works, Duration::from_secs(60)).await?;
    if let Some(failure) = made.first_failure {
        return Err(format!("making topics: {failure}").into());
    }

    let mut polls = JoinSet::new();
    for topic in 0..POLLS {
        let mut connection = Connection::open(&server.address).await?;
        let body = format!(r#"{{"wait_ms":{WAIT_MS}}}"#);
        let path = format!("/topics/{name}-{topic}/lease");
        let request = post(&path, &server.address, body.as_bytes());
        polls.spawn(async move { connection.send(&request).await.map(|answer| answer.status) });
    }
    // They come in, look, and fall asleep.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let seconds = bench.args.seconds.clamp(5.0, 40.0);
    bench.say(format_args!("idle: {POLLS} long polls, {seconds} s"));
    let before = redis.facts().await?;
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let after = redis.facts().await?;
    if let Some(ended) = polls.try_join_next() {
        return Err(format!("a long poll did not wait: {:?}", ended?).into());
    }
    drop(polls);

    // The first look at the counters is in the difference itself.
    let commands = after.commands.saturating_sub(before.commands + 1);
    let rate = commands as f64 / seconds;
    let cpu = (after.cpu_us - before.cpu_us) / (seconds * 1e6);
    let columns = ["long polls", "topics", "commands per s", "Redis CPU of a core"];
    let mut table = Table::new("Idle: waiting long polls", &columns);
    table.row([
        POLLS.to_string(),
        POLLS.to_string(),
        format!("{rate:.1}"),
        format!("{:.2} %", cpu * 100.0),
    ]);
    Ok(Section {
        name: "idle",
        table,
        figures: json!({
            "polls": POLLS,
            "topics": POLLS,
            "commands_per_s": rate,
            "redis_cpu_share": cpu,
        }),
        verdicts: vec![Verdict { target: Target::Idle, measured: rate }],
    })
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Publish,
    Lease,
    Ack,
}

/// Brings topics into being that are empty: publish, lease, ack on each.
struct Make {
    name: String,
    host: String,
    topics: Vec<usize>,
    held: Vec<Held>,
    stage: Stage,
}

impl Work for Make {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        let Some(topic) = self.topics.last() else {
            return false;
        };
        let topic = format!("/topics/{}-{topic}", self.name);
        let (path, body) = match (self.stage, self.held.pop()) {
            (Stage::Publish, _) => {
                let body = format!(r#"{{"payload":{}}}"#, payload());
                (format!("{topic}/messages"), body)
            }
            (Stage::Ack, Some(held)) => {
                let body = format!(r#"{{"lease_token":"{}"}}"#, held.token);
                (format!("/messages/{}/ack", held.id), body)
            }
            _ => (format!("{topic}/lease"), "{}".to_owned()),
        };
        request.extend(post(&path, &self.host, body.as_bytes()));
        true
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        self.stage = match (self.stage, status) {
            (Stage::Publish, 201) => Stage::Lease,
            (Stage::Lease, 200) => {
                leases(body, &mut self.held);
                Stage::Ack
            }
            (Stage::Ack, 204) => {
                self.topics.pop();
                Stage::Publish
            }
            _ => {
                self.topics.clear();
                return wrong("making a topic", status, body);
            }
        };
        Step::Done(1)
    }
}
