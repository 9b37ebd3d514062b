//! How long after its due time a message is leased, while consumers wait in long polls. Both instants are Redis's and come
//! with the answer: the lease began at `lease_expires_at` less its duration, so no clock of the bench is part of the
//! figure. Their resolution is a millisecond.

use super::{
    Fallible,
    load::{self, Step, Work, drive},
    report::{Lateness, Row},
    server::Server,
    work::{Target, payload, wrong},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

const LEASE_MS: i64 = 60_000;
const CONSUMERS: usize = 64;
const MAX_MESSAGES: usize = 10;

/// Messages that fall due at random instants, so many a second for `window_ms`.
pub async fn measure(
    server: &Server,
    topic: &str,
    due_per_s: u64,
    window_ms: u64,
) -> Fallible<Row> {
    let count = due_per_s * window_ms / 1000;
    let ahead = Duration::from_millis(1500 + count / 5);
    let begun = Instant::now();
    let left = Arc::new(AtomicI64::new(count as i64));
    let publisher = Publisher {
        target: server.target().clone(),
        path: format!("/topics/{topic}/messages"),
        left: Arc::clone(&left),
        first_due: begun + ahead,
        window_ms,
    };
    let works = vec![publisher; 16];
    let (published, _) = drive(server.address(), works, Duration::from_secs(60)).await?;
    if let Some(failure) = published.first_failure {
        return Err(format!("publishing ahead: {failure}").into());
    }
    if begun.elapsed() > ahead {
        eprintln!("bench: publishing ahead took too long: the first messages fell due unseen");
    }
    left.store(count as i64, Ordering::Relaxed);
    let consumer = Consumer {
        target: server.target().clone(),
        path: format!("/topics/{topic}/lease"),
        acks: Vec::new(),
        late_ms: Vec::new(),
        early: 0,
        left: Arc::clone(&left),
    };
    let limit = ahead + Duration::from_millis(window_ms + 5_000);
    let (consumed, consumers) = drive(server.address(), vec![consumer; CONSUMERS], limit).await?;
    let early = consumers.iter().map(|consumer| consumer.early).sum();
    let mut late_ms: Vec<u32> = consumers.into_iter().flat_map(|work| work.late_ms).collect();
    let mut at = |share| load::percentile(&mut late_ms, share);
    let (p50, p99, max_ms) = (at(0.5), at(0.99), at(1.0));
    Ok(Row {
        operation: format!("lateness at {due_per_s}/s"),
        connections: CONSUMERS,
        messages: consumed.messages,
        per_s: consumed.messages as f64 * 1000.0 / window_ms as f64,
        p50_ms: p50.into(),
        p99_ms: p99.into(),
        failed: consumed.failed,
        lateness: Some(Lateness { max_ms, early, missing: left.load(Ordering::Relaxed) }),
        ..Row::default()
    })
}

/// Publishes messages that fall due at random instants of a window ahead.
#[derive(Clone)]
struct Publisher {
    target: Target,
    path: String,
    left: Arc<AtomicI64>,
    first_due: Instant,
    window_ms: u64,
}

impl Work for Publisher {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        let left = self.left.fetch_sub(1, Ordering::Relaxed);
        // Multiplying by an odd number scatters the numbers of the messages over the window, each at its own instant.
        let scattered = left.unsigned_abs().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
        let until = self.first_due.saturating_duration_since(Instant::now());
        let delay = until.as_millis() as u64 + scattered % self.window_ms;
        let body = format!(r#"{{"payload":{},"delay_ms":{delay}}}"#, payload());
        self.target.post(request, &self.path, body.as_bytes());
        left > 0
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        match status {
            201 => Step::Done(1),
            _ => wrong(status, body),
        }
    }
}

/// The part of a lease's answer that matters here.
#[derive(Debug, Deserialize)]
struct Answer {
    messages: Vec<Leased>,
}

#[derive(Debug, Deserialize)]
struct Leased {
    id: String,
    lease_token: String,
    due_at: String,
    lease_expires_at: String,
}

impl Leased {
    /// Milliseconds from the due time to the lease; negative: early. `None` where an instant cannot be read.
    fn late_ms(&self) -> Option<i64> {
        let millis =
            |text| Some(chrono::DateTime::parse_from_rfc3339(text).ok()?.timestamp_millis());
        Some(millis(&self.lease_expires_at)? - LEASE_MS - millis(&self.due_at)?)
    }
}

/// A consumer's loop with long polls.
#[derive(Clone)]
struct Consumer {
    target: Target,
    path: String,
    acks: Vec<Value>,
    late_ms: Vec<u32>,
    early: u64,
    /// How many messages nobody has leased yet.
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
        self.target.post(request, &self.path, body.to_string().as_bytes());
        true
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        let answer = match serde_json::from_slice::<Answer>(body) {
            Ok(answer) if status == 200 => answer,
            _ => return wrong(status, body),
        };
        for leased in &answer.messages {
            let Some(late) = leased.late_ms() else {
                return wrong(status, body);
            };
            self.early += u64::from(late < 0);
            self.late_ms.push(u32::try_from(late.max(0)).unwrap_or(u32::MAX));
            self.acks.push(json!({"id": leased.id, "lease_token": leased.lease_token}));
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
    fn lateness_is_the_lease_less_the_due_time() {
        let late_ms = |due: &str| {
            let leased = json!({
                "id": "a", "lease_token": "t", "due_at": due, "lease_expires_at": "2026-11-20T18:16:00.123Z",
            });
            serde_json::from_value::<Leased>(leased).unwrap().late_ms()
        };
        assert_eq!(late_ms("2026-11-20T18:15:00.120Z"), Some(3));
        assert_eq!(late_ms("2026-11-20T18:15:00.125Z"), Some(-2));
        assert_eq!(late_ms("soon"), None);
    }
}
