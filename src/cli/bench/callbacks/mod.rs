//! Callbacks: how many a second dueq makes, how late, what one under way costs in memory, and what a host that never
//! answers does to the others. The receivers (`receiver`) run inside the bench, on the same cores as everything else;
//! `plan` publishes what they are called with.

mod crowd;
mod plan;
mod receiver;
mod speed;

use serde_json::{Value, json};

use super::report::Section;
use super::servers::Server;
use super::stats::Samples;
use super::{Bench, Fallible};
use plan::Come;
use receiver::Arrival;

/// `--only callbacks`.
pub async fn measure(bench: &Bench) -> Fallible<Vec<Section>> {
    if bench.args.server.is_some() {
        return Err("callbacks wants servers of its own, which may call this machine".into());
    }
    let server = bench.group().await?;
    let mut sections =
        vec![speed::rates(bench, &server).await?, speed::lateness(bench, &server).await?];
    sections.push(crowd::fairness(bench, &server).await?);
    sections.push(speed::held_rate(bench, &server).await?);
    drop(server);
    sections.extend(crowd::memory(bench).await?);
    Ok(sections)
}

/// Sends one request to the server, which must do it.
async fn ask(server: &Server, method: &str, path: &str, body: &Value) -> Fallible<()> {
    let body = body.to_string();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        server.address,
        body.len()
    );
    match server.once(request.as_bytes()).await? {
        (200..=299, _) => Ok(()),
        (status, said) => Err(format!("{method} {path} was answered {status}: {said}").into()),
    }
}

/// Makes a topic that is pushed so.
async fn push(server: &Server, topic: &str, push: Value) -> Fallible<()> {
    ask(server, "PUT", &format!("/topics/{topic}"), &json!({"push": push})).await
}

/// Pauses a topic, or makes it go on (`resume`).
async fn steer(server: &Server, topic: &str, verb: &str) -> Fallible<()> {
    ask(server, "POST", &format!("/topics/{topic}/{verb}"), &json!({})).await
}

/// Deletes a topic with all that is in it.
async fn forget(server: &Server, topic: &str) -> Fallible<()> {
    ask(server, "DELETE", &format!("/topics/{topic}?force=true"), &json!({})).await
}

/// How late calls came.
#[derive(Debug, Default)]
struct Lateness {
    late_us: Samples,
    early: u64,
    missing: u64,
    again: u64,
}

impl Lateness {
    /// Takes in the calls of a plan of `count` messages.
    fn add(&mut self, arrivals: &[Arrival], count: u64) {
        for arrival in arrivals {
            let late = arrival.late_us();
            self.early += u64::from(late < 0);
            self.late_us.push(u32::try_from(late.max(0)).unwrap_or(u32::MAX));
        }
        let come = Come::of(arrivals.iter().map(|arrival| arrival.number), count);
        self.missing += come.missing;
        self.again += come.again;
    }

    /// p50, p99, p99.9 and the longest, µs.
    fn shares(&mut self) -> [u32; 4] {
        [0.5, 0.99, 0.999, 1.0].map(|share| self.late_us.percentile(share))
    }

    /// The same for machines.
    fn figures(&mut self) -> Value {
        let [p50, p99, p999, max] = self.shares();
        json!({
            "calls": self.late_us.len(),
            "p50_us": p50,
            "p99_us": p99,
            "p999_us": p999,
            "max_us": max,
            "early": self.early,
            "missing": self.missing,
            "again": self.again,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_tells_late_early_missing_and_repeated_calls() {
        let call = |number, at_us| Arrival { at_us, number, due_ms: 1_000 };
        let mut seen = Lateness::default();
        seen.add(&[call(0, 1_002_500), call(2, 999_999), call(2, 1_000_100)], 3);
        assert_eq!((seen.early, seen.missing, seen.again), (1, 1, 1));
        assert_eq!(seen.shares(), [100, 2_500, 2_500, 2_500]);
    }
}
