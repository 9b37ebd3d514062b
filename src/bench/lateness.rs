//! Measures how long after their due time messages are leased, while consumers wait in long polls.

use crate::{
    BATCH, Fallible,
    load::{self, drive},
    report::{Lateness, Row},
    server::Server,
    work::{Lease, Requests, message},
};
use chrono::{SecondsFormat, TimeDelta, Utc};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const CONSUMERS: usize = 64;

/// Measures messages that fall due at scattered instants, `due_per_s` a second for `window`.
pub async fn measure(
    server: &Server,
    topic: &str,
    due_per_s: usize,
    window: Duration,
) -> Fallible<Row> {
    let batches = (due_per_s as f64 * window.as_secs_f64() / BATCH as f64) as usize;
    let ahead = Duration::from_secs(2);
    let first = Utc::now() + TimeDelta::from_std(ahead)?;
    let path = format!("/topics/{topic}/messages/batch");
    // Multiplication by an odd number scatters the messages over the window.
    let window_ms = window.as_millis() as u64;
    let after =
        |number: usize| ((number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16) % window_ms;
    let due = |number| {
        let at = first + TimeDelta::milliseconds(after(number) as i64);
        format!(r#","deliver_at":"{}""#, at.to_rfc3339_opts(SecondsFormat::Millis, true))
    };
    let batch = |first: usize| {
        let messages: Vec<_> = (first..first + BATCH).map(|number| message(&due(number))).collect();
        server.target.request("POST", &path, &format!(r#"{{"messages":[{}]}}"#, messages.join(",")))
    };
    let requests = (0..batches).map(|number| batch(number * BATCH)).collect();
    let publish = Requests::new(requests, batches, 200, BATCH as u64);
    let (published, _) = drive(&server.address, vec![publish; 4], Duration::from_secs(60)).await?;
    if let Some(failure) = published.first_failure {
        return Err(format!("publishing ahead: {failure}").into());
    }
    if Utc::now() > first {
        eprintln!("bench: publishing ahead took too long: the first messages fell due unseen");
    }
    let left = Arc::new(AtomicUsize::new(batches * BATCH));
    let lease = Lease { wait_ms: 1_000, left: Some(Arc::clone(&left)), ..server.lease(topic, 10) };
    let limit = ahead + window + Duration::from_secs(5);
    let (consumed, consumers) = drive(&server.address, vec![lease; CONSUMERS], limit).await?;
    let late: Vec<i64> = consumers.into_iter().flat_map(|work| work.late_ms).collect();
    let mut late_ms: Vec<u32> = late.iter().map(|&late| late.max(0) as u32).collect();
    let mut at = |share| load::percentile(&mut late_ms, share);
    let (p50, p99, p999_ms, max_ms) = (at(0.5), at(0.99), at(0.999), at(1.0));
    let early = late.iter().filter(|&&late| late < 0).count();
    let missing = left.load(Ordering::Relaxed);
    Ok(Row {
        operation: format!("lateness at {due_per_s}/s"),
        connections: CONSUMERS,
        messages: late.len() as u64,
        per_s: late.len() as f64 / window.as_secs_f64(),
        p50_ms: p50.into(),
        p99_ms: p99.into(),
        failed: consumed.failed,
        lateness: Some(Lateness { p999_ms, max_ms, early, missing }),
        ..Row::default()
    })
}
