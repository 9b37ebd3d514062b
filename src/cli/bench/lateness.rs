//! Lateness: how long after its due time a message is granted, while consumers
//! wait in long polls. Both instants are Redis's and come with the answer: the
//! grant is `lease_expires_at` less the lease, so no clock of the bench's is
//! part of the figure. Their resolution is a millisecond.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::load::{Measured, Step, Work, drive};
use super::report::{Section, Table};
use super::stats::{Samples, thousands};
use super::targets::{Target, Verdict};
use super::wire::{payload, post, wrong};
use super::work::xorshift;
use super::{Bench, Fallible, servers::Server};

const RATES: [u64; 2] = [1_000, 5_000];
const LEASE_MS: i64 = 60_000;
const CONSUMERS: usize = 64;
const MAX_MESSAGES: usize = 10;

/// `--only lateness`.
pub async fn measure(bench: &Bench) -> Fallible<Section> {
    let server = bench.group().await?;
    let columns =
        ["due per s", "messages", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "early", "missing"];
    let mut table = Table::new("Lateness (grant - due, Redis's time)", &columns);
    let (mut figures, mut verdicts) = (Vec::new(), Vec::new());
    let mut early = 0;
    for rate in RATES {
        bench.say(format_args!("lateness at {rate} due a second"));
        let mut seen = at_rate(bench, &server, rate).await?;
        let shares = [0.5, 0.99, 0.999, 1.0].map(|share| seen.late_ms.percentile(share));
        let mut cells = vec![thousands(rate as f64), thousands(seen.late_ms.len() as f64)];
        cells.extend(shares.map(|ms| ms.to_string()));
        cells.extend([seen.early.to_string(), seen.missing.to_string()]);
        table.row(cells);
        figures.push(json!({
            "due_per_s": rate,
            "messages": seen.late_ms.len(),
            "p50_ms": shares[0],
            "p99_ms": shares[1],
            "p999_ms": shares[2],
            "max_ms": shares[3],
            "early": seen.early,
            "missing": seen.missing,
        }));
        if rate == 1_000 {
            verdicts.push(Verdict { target: Target::Lateness, measured: f64::from(shares[1]) });
        }
        early += seen.early;
    }
    verdicts.push(Verdict { target: Target::Early, measured: early as f64 });
    table.note(format!(
        "{CONSUMERS} consumers in long polls, up to {MAX_MESSAGES} messages a grant, \
         published ahead at random due times"
    ));
    Ok(Section { name: "lateness", table, figures: Value::Array(figures), verdicts })
}

/// What the consumers of one run saw.
#[derive(Debug, Default)]
struct Seen {
    late_ms: Samples,
    early: u64,
    missing: i64,
}

async fn at_rate(bench: &Bench, server: &Server, rate: u64) -> Fallible<Seen> {
    let topic = bench.topic("lateness");
    // Falling due for at least five seconds: the tail wants thousands.
    let window_ms = (bench.args.seconds.max(5.0) * 1000.0) as u64;
    let count = rate * window_ms / 1000;
    let ahead = Duration::from_millis(1500 + count / 5);
    let begun = Instant::now();
    let left = Arc::new(AtomicI64::new(count as i64));
    let publishers = (1..=16)
        .map(|seed: u64| Ahead {
            path: format!("/topics/{topic}/messages"),
            host: server.address.clone(),
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            left: Arc::clone(&left),
            first_due: begun + ahead,
            window_ms,
        })
        .collect();
    let (published, _): (Measured, Vec<Ahead>) =
        drive(&server.address, publishers, Duration::from_secs(60)).await?;
    if let Some(failure) = published.first_failure {
        return Err(format!("publishing ahead: {failure}").into());
    }
    if begun.elapsed() > ahead {
        bench.say("publishing ahead took too long: the first ones fell due unseen");
    }
    let left = Arc::new(AtomicI64::new(count as i64));
    let consumers = (0..CONSUMERS)
        .map(|_| Consumer {
            path: format!("/topics/{topic}/lease"),
            host: server.address.clone(),
            acks: Vec::new(),
            seen: Seen::default(),
            left: Arc::clone(&left),
        })
        .collect();
    let limit = ahead + Duration::from_millis(window_ms + 5_000);
    let (consumed, consumers) = drive(&server.address, consumers, limit).await?;
    if let Some(failure) = consumed.first_failure {
        return Err(format!("consuming: {failure}").into());
    }
    let mut all = Seen::default();
    for consumer in consumers {
        all.late_ms.merge(consumer.seen.late_ms);
        all.early += consumer.seen.early;
    }
    all.missing = left.load(Ordering::Relaxed);
    Ok(all)
}

/// Publishes messages that fall due at random instants of a window ahead.
struct Ahead {
    path: String,
    host: String,
    random: u64,
    left: Arc<AtomicI64>,
    first_due: Instant,
    window_ms: u64,
}

impl Work for Ahead {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        if self.left.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return false;
        }
        let until = self.first_due.saturating_duration_since(Instant::now());
        let delay = until.as_millis() as u64 + xorshift(&mut self.random) % self.window_ms;
        let body = format!(r#"{{"payload":{},"delay_ms":{delay}}}"#, payload());
        request.extend(post(&self.path, &self.host, body.as_bytes()));
        true
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        match status {
            201 => Step::Done(1),
            _ => wrong("publish", status, body),
        }
    }
}

/// The part of a lease's answer that matters here.
#[derive(Debug, Deserialize)]
struct Answer {
    messages: Vec<Granted>,
}

#[derive(Debug, Deserialize)]
struct Granted {
    id: String,
    lease_token: String,
    due_at: String,
    lease_expires_at: String,
}

impl Granted {
    /// Milliseconds from the due time to the grant; negative: early. None
    /// where an instant is none.
    fn late_ms(&self) -> Option<i64> {
        let millis = |text: &str| {
            let instant = chrono::DateTime::parse_from_rfc3339(text).ok()?;
            Some(instant.timestamp_millis())
        };
        Some(millis(&self.lease_expires_at)? - LEASE_MS - millis(&self.due_at)?)
    }
}

/// A consumer's loop with long polls.
struct Consumer {
    path: String,
    host: String,
    acks: Vec<Value>,
    seen: Seen,
    left: Arc<AtomicI64>,
}

impl Work for Consumer {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        if self.left.load(Ordering::Relaxed) <= 0 && self.acks.is_empty() {
            return false;
        }
        let body = json!({
            "max_messages": MAX_MESSAGES,
            "lease_ms": LEASE_MS,
            "wait_ms": 1_000,
            "acks": std::mem::take(&mut self.acks),
        });
        request.extend(post(&self.path, &self.host, body.to_string().as_bytes()));
        true
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        let answer = match serde_json::from_slice::<Answer>(body) {
            Ok(answer) if status == 200 => answer,
            _ => return wrong("lease", status, body),
        };
        for granted in &answer.messages {
            let Some(late) = granted.late_ms() else {
                return wrong("lease, with an instant that is none,", status, body);
            };
            self.seen.early += u64::from(late < 0);
            self.seen.late_ms.push(u32::try_from(late.max(0)).unwrap_or(u32::MAX));
            let (id, token) = (&granted.id, &granted.lease_token);
            self.acks.push(json!({"id": id, "lease_token": token}));
        }
        let taken = answer.messages.len();
        self.left.fetch_sub(taken as i64, Ordering::Relaxed);
        Step::Done(taken as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_the_grant_less_the_due_time() {
        let granted = |due: &str| -> Granted {
            serde_json::from_value(json!({
                "id": "a",
                "lease_token": "t",
                "due_at": due,
                "lease_expires_at": "2026-11-20T18:16:00.123Z",
            }))
            .unwrap()
        };
        assert_eq!(granted("2026-11-20T18:15:00.120Z").late_ms(), Some(3));
        assert_eq!(granted("2026-11-20T18:15:00.125Z").late_ms(), Some(-2));
        assert_eq!(granted("soon").late_ms(), None);
    }
}
