//! The burst: very many messages that fall due in the same millisecond, and
//! what draining them does to everybody else. Whether any single call holds
//! Redis is in its slow log; what others notice is the latency of a light,
//! steady publisher on another topic, while the burst is drained and before.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::batches::{BATCH, Batches};
use super::client::find;
use super::load::{Step, Work, drive};
use super::million::rewritten;
use super::report::{Section, Table};
use super::servers::{Mode, Server};
use super::site::Site;
use super::stats::{Samples, median, millis, thousands};
use super::steady::{self, Steady};
use super::targets::{Target, Verdict};
use super::wire::{Held, LONG_LEASE_MS, leases, write_post, wrong};
use super::{Bench, Fallible, ROUNDS};
use crate::store::lab::{Lab, SlowCall};

/// Calls above this hold up everybody else, µs.
const SLOW_US: u64 = 3_000;
const PUBLISHERS: usize = 8;
/// Few enough that they are not the queue themselves in which others wait.
const CONSUMERS: usize = 4;
/// Slow enough for any machine that is worth measuring: messages a second
/// that are published ahead.
const AHEAD_PER_S: u64 = 20_000;

/// What one burst gave.
struct Burst {
    /// Seconds from the due time to the last ack.
    seconds: f64,
    usual: Samples,
    during: Samples,
    /// What was slow while it was published, while only the others were there, and while it was drained.
    published: Vec<SlowCall>,
    waited: Vec<SlowCall>,
    drained: Vec<SlowCall>,
}

/// `--only burst`.
pub async fn measure(bench: &Bench) -> Fallible<Section> {
    let server = bench.group().await?;
    let redis = server.redis().await?.ok_or("burst wants a Redis that is known")?;
    let count = bench.args.burst / BATCH as u64 * BATCH as u64;
    let columns = [
        "round",
        "drained per s",
        "calls above 3 ms",
        "others p50 ms",
        "p99 ms",
        "usual p50 ms",
        "usual p99 ms",
        "p99 of usual",
    ];
    let title = format!("A burst: {} messages due in one millisecond", thousands(count as f64));
    let mut table = Table::new(&title, &columns);
    let (mut figures, mut ratios) = (Vec::new(), Vec::new());
    let (mut published, mut waited, mut drained) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        bench.say(format_args!("burst: round {round} of {ROUNDS}"));
        let mut burst = one(bench, &server, &redis, count).await?;
        let p99s = [&mut burst.during, &mut burst.usual].map(|samples| samples.percentile(0.99));
        let ratio = f64::from(p99s[0]) / f64::from(p99s[1].max(1));
        let rate = count as f64 / burst.seconds;
        table.row([
            round.to_string(),
            thousands(rate),
            burst.drained.len().to_string(),
            millis(burst.during.percentile(0.5)),
            millis(p99s[0]),
            millis(burst.usual.percentile(0.5)),
            millis(p99s[1]),
            format!("{ratio:.2} x"),
        ]);
        figures.push(json!({
            "drained_per_s": rate,
            "others_p50_us": burst.during.percentile(0.5),
            "others_p99_us": p99s[0],
            "usual_p50_us": burst.usual.percentile(0.5),
            "usual_p99_us": p99s[1],
            "of_usual": ratio,
            "slow": slow_json(&burst.drained),
            "slow_publishing": slow_json(&burst.published),
            "slow_usual": slow_json(&burst.waited),
        }));
        ratios.push(ratio);
        published.append(&mut burst.published);
        waited.append(&mut burst.waited);
        drained.append(&mut burst.drained);
    }
    table.note(format!(
        "{CONSUMERS} consumers by {BATCH}; others: {} messages a second on another topic",
        steady::PER_S
    ));
    for (when, calls) in [
        ("it was drained", &drained),
        ("only the others were there", &waited),
        ("it was published", &published),
    ] {
        table.note(format!("calls above 3 ms while {when}: {}", told(calls)));
    }
    let verdicts = vec![
        Verdict { target: Target::BurstSlow, measured: drained.len() as f64 },
        Verdict { target: Target::BurstOthers, measured: median(&ratios) },
    ];
    Ok(Section {
        name: "burst",
        table,
        figures: json!({"messages": count, "rounds": figures}),
        verdicts,
    })
}

fn slow_json(calls: &[SlowCall]) -> Value {
    let one = |call: &SlowCall| json!({"call": call.name, "us": call.micros});
    calls.iter().map(one).collect()
}

/// How many, the worst, and which they were.
fn told(calls: &[SlowCall]) -> String {
    let Some(worst) = calls.iter().max_by_key(|call| call.micros) else {
        return "none".to_owned();
    };
    let mut names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let (ms, name) = (worst.micros as f64 / 1000.0, &worst.name);
    format!("{} ({}), the worst {ms:.1} ms ({name})", calls.len(), names.join(", "))
}

async fn one(bench: &Bench, server: &Server, redis: &Lab, count: u64) -> Fallible<Burst> {
    let mut site = Site::new(server, Mode::Group, bench.topic("burst"));
    let usual = bench.whole();
    rewritten(bench, server).await?;
    let bound = redis.watch_slow(SLOW_US).await?;

    // Whole milliseconds from now on this machine, which is Redis's, too.
    let ahead = Duration::from_millis(2_000 + count * 1_000 / AHEAD_PER_S) + usual;
    let at = chrono::Utc::now() + ahead;
    let due = Instant::now() + ahead;
    let at = at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    let left = Arc::new(AtomicUsize::new(usize::try_from(count)?));
    let work = |_| Batches::new(&server.address, site.topic(), Some(&at), &left);
    let works = (0..PUBLISHERS).map(work).collect();
    let (sent, _) = drive(&server.address, works, ahead).await?;
    if sent.done != count {
        let why = sent.first_failure.unwrap_or_else(|| "it took too long".to_owned());
        return Err(format!("publishing the burst: {} of {count}: {why}", sent.done).into());
    }
    rewritten(bench, server).await?;
    if Instant::now() + usual / 2 > due {
        return Err("publishing the burst left no time for what is usual".into());
    }
    let published = redis.slow_calls().await?;

    let left = Arc::new(AtomicI64::new(count as i64));
    let consumers = (0..CONSUMERS)
        .map(|_| Drain {
            path: format!("/topics/{}/lease", site.topic()),
            host: server.address.clone(),
            body: Vec::new(),
            held: Vec::new(),
            left: Arc::clone(&left),
            last: None,
        })
        .collect();
    // Their first ones warm the connections; what is usual begins after that.
    let begin = Instant::now() + Duration::from_millis(300);
    let others = Steady::start(server, &bench.topic("others"))?;
    let until_due = async {
        tokio::time::sleep_until((due - Duration::from_millis(20)).into()).await;
        redis.slow_calls().await
    };
    let drained = drive(&server.address, consumers, ahead + Duration::from_secs(120));
    let (waited, drained) = tokio::join!(until_due, drained);
    let (waited, (consumed, consumers)) = (waited?, drained?);
    let others = others.stop()?;
    let drained = redis.slow_calls().await?;
    redis.watch_slow(bound).await?;
    if let Some(failure) = consumed.first_failure {
        return Err(format!("draining: {failure}").into());
    }
    if consumed.done != count {
        return Err(format!("{} of {count} were drained", consumed.done).into());
    }
    let last = consumers.iter().filter_map(|consumer| consumer.last).max().unwrap_or(due);

    let (mut before, mut during) = (Samples::default(), Samples::default());
    for (sent, micros) in others {
        if sent >= due && sent <= last {
            during.push(micros);
        } else if sent >= begin && sent + Duration::from_millis(100) < due {
            before.push(micros);
        }
    }
    site.clear().await?;
    let seconds = last.saturating_duration_since(due).as_secs_f64();
    Ok(Burst { seconds, usual: before, during, published, waited, drained })
}

/// A consumer's loop with long polls that ends when nothing is left.
struct Drain {
    path: String,
    host: String,
    body: Vec<u8>,
    held: Vec<Held>,
    /// Messages that nobody has leased yet.
    left: Arc<AtomicI64>,
    /// When its last message was acked.
    last: Option<Instant>,
}

impl Work for Drain {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        let nothing_left = self.left.load(Ordering::Relaxed) <= 0;
        if nothing_left && self.held.is_empty() {
            return false;
        }
        let wait_ms = if nothing_left { 0 } else { 1_000 };
        self.body.clear();
        let _ = write!(
            self.body,
            r#"{{"max_messages":{BATCH},"lease_ms":{LONG_LEASE_MS},"wait_ms":{wait_ms},"acks":["#
        );
        for (index, Held { id, token }) in self.held.drain(..).enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(self.body, r#"{comma}{{"id":"{id}","lease_token":"{token}"}}"#);
        }
        self.body.extend_from_slice(b"]}");
        write_post(request, &self.path, &self.host, &self.body);
        true
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        if status != 200 || find(body, br#""status":"lease_lost""#).is_some() {
            return wrong("lease", status, body);
        }
        leases(body, &mut self.held);
        let taken = self.held.len();
        self.left.fetch_sub(taken as i64, Ordering::Relaxed);
        if taken > 0 || find(body, br#""status":"ok""#).is_some() {
            self.last = Some(Instant::now());
        }
        Step::Done(taken as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_calls_are_told_by_name() {
        let call = SlowCall::script;
        assert_eq!(told(&[]), "none");
        let calls = [call("lease", 3_100), call("ack", 4_250), call("lease", 3_500)];
        assert_eq!(told(&calls), "3 (ack, lease), the worst 4.2 ms (ack)");
    }

    #[test]
    fn a_drain_ends_when_its_last_ones_are_acked() {
        let left = Arc::new(AtomicI64::new(1));
        let mut work = Drain {
            path: "/p".to_owned(),
            host: "h".to_owned(),
            body: Vec::new(),
            held: Vec::new(),
            left,
            last: None,
        };
        let mut request = Vec::new();
        assert!(work.next(&mut request));
        let answer = br#"{"messages":[{"id":"a","lease_token":"1"}],"acks":[]}"#;
        assert!(matches!(work.answer(200, answer), Step::Done(1)));
        request.clear();
        assert!(work.next(&mut request));
        assert!(find(&request, br#""wait_ms":0,"acks":[{"id":"a""#).is_some());
        work.answer(200, br#"{"messages":[],"acks":[{"id":"a","status":"ok"}]}"#);
        assert!(!work.next(&mut request));
    }
}
