//! Idle topics: what ten thousand of them cost Redis while nothing happens and
//! two instances look after them. Every other one is empty, the rest hold a
//! message that is due far in the future.

use std::time::Duration;

use serde_json::json;

use super::load::{Step, Work, drive};
use super::report::{Section, Table};
use super::targets::{Target, Verdict};
use super::wire::{payload, post, wrong};
use super::{Bench, Fallible};

const CONNECTIONS: usize = 16;

/// Housekeeping walks over the topics a few at a time, every ten seconds:
/// shorter than this one would miss it.
const LEAST_SECONDS: f64 = 10.0;

/// `--only idle-topics`.
pub async fn measure(bench: &Bench) -> Fallible<Section> {
    let first = bench.group().await?;
    let second = first.beside(&bench.args).await?;
    let redis = first.redis().await?.ok_or("idle-topics wants a Redis that is known")?;
    let topics = bench.args.topics;
    bench.say(format_args!("idle-topics: {topics} topics are made"));
    let name = bench.topic("idle");
    // By both, so that either knows some that the other has never seen.
    for (turn, server) in [&first, &second].into_iter().enumerate() {
        let works = (0..CONNECTIONS)
            .map(|connection| Make {
                name: name.clone(),
                host: server.address.clone(),
                topics: (turn + 2 * connection..topics).step_by(2 * CONNECTIONS).collect(),
            })
            .collect();
        let (made, _) = drive(&server.address, works, Duration::from_secs(120)).await?;
        if let Some(failure) = made.first_failure {
            return Err(format!("making topics: {failure}").into());
        }
    }
    // What making them has left to be done is done.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let seconds = bench.args.seconds.clamp(LEAST_SECONDS, 60.0);
    bench.say(format_args!("idle-topics: {topics} topics, 2 instances, {seconds} s"));
    let before = redis.facts().await?;
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    let after = redis.facts().await?;

    // The first look at the counters is in the difference itself.
    let commands = after.commands.saturating_sub(before.commands + 1);
    let rate = commands as f64 / seconds;
    let cpu = (after.cpu_us - before.cpu_us) / (seconds * 1e6);
    let columns = ["topics", "instances", "commands per s", "Redis CPU of a core"];
    let mut table = Table::new("Idle: topics where nothing happens", &columns);
    table.row([
        topics.to_string(),
        "2".to_owned(),
        format!("{rate:.1}"),
        format!("{:.2} %", cpu * 100.0),
    ]);
    if topics < 10_000 {
        table.note("the number to reach is for 10,000");
    }
    // The one on the other's Redis goes first.
    drop(second);
    Ok(Section {
        name: "idle_topics",
        table,
        figures: json!({
            "topics": topics,
            "instances": 2,
            "commands_per_s": rate,
            "redis_cpu_share": cpu,
        }),
        verdicts: vec![Verdict { target: Target::IdleTopics, measured: rate }],
    })
}

/// Brings topics into being, by PUT or by a message that is due in a year.
struct Make {
    name: String,
    host: String,
    topics: Vec<usize>,
}

impl Work for Make {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        let Some(topic) = self.topics.pop() else {
            return false;
        };
        let path = format!("/topics/{}-{topic}", self.name);
        // Both instances make some of either kind: their turns are odd and even.
        if topic / 2 % 2 == 0 {
            let host = &self.host;
            let head = "content-type: application/json\r\ncontent-length: 2";
            let put = format!("PUT {path} HTTP/1.1\r\nhost: {host}\r\n{head}\r\n\r\n{{}}");
            request.extend_from_slice(put.as_bytes());
        } else {
            let body = format!(r#"{{"payload":{},"delay_ms":31536000000}}"#, payload());
            request.extend(post(&format!("{path}/messages"), &self.host, body.as_bytes()));
        }
        true
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        match status {
            201 => Step::Done(1),
            _ => {
                self.topics.clear();
                wrong("making a topic", status, body)
            }
        }
    }
}
