//! How many calls a second, how late they are, and whether a topic's own rate is held.

use std::time::Duration;

use serde_json::{Value, json};

use super::plan::{Come, Due, Plan, Way};
use super::receiver::{Arrival, Receiver};
use super::{Lateness, forget, push, steer};
use crate::cli::bench::report::{Section, Table};
use crate::cli::bench::servers::Server;
use crate::cli::bench::stats::{millis, thousands};
use crate::cli::bench::targets::{Target, Verdict};
use crate::cli::bench::{Bench, Fallible};

/// Messages that wait for each measurement of the rate.
const MESSAGES: u64 = 50_000;
/// Calls under way that the wide topic allows for its one host.
const WIDE: u64 = 64;
/// dueq's own topic of callbacks.
const OWN: &str = "_callbacks";

const DUE_PER_S: u64 = 1_000;
const WINDOW_MS: u64 = 10_000;

/// Calls a second that the topic with a rate allows, and for how long they are counted.
const HELD_PER_S: u64 = 200;
const HELD_SECONDS: u64 = 10;

/// Calls a second to a receiver that answers at once.
pub async fn rates(bench: &Bench, server: &Server) -> Fallible<Section> {
    let columns = ["published", "a host", "calls", "per s", "missing", "again"];
    let mut table = Table::new("Callbacks to one receiver that answers at once", &columns);
    let (mut figures, mut verdicts) = (Vec::new(), Vec::new());
    let ways = [
        ("in a topic, wide", WIDE, Some(Target::Callbacks)),
        ("in a topic", 8, None),
        ("by POST /callbacks", 8, Some(Target::OwnCallbacks)),
    ];
    for (name, per_host, target) in ways {
        bench.say(format_args!("callbacks: {} {name}", thousands(MESSAGES as f64)));
        let receiver = Receiver::start()?;
        let (topic, way) = match target {
            Some(Target::OwnCallbacks) => (OWN.to_owned(), Way::Own(receiver.url())),
            _ => {
                let topic = bench.topic("push");
                let wanted = json!({"url": receiver.url(), "max_in_flight_per_host": per_host});
                push(server, &topic, wanted).await?;
                (topic.clone(), Way::Topic(topic))
            }
        };
        // dueq's own topic comes into being with its first message, and the ways to the receiver get warm.
        let warm = Plan { way: way.clone(), count: 100, due: Due::Now };
        warm.publish(server).await?;
        receiver.wait(100, Duration::from_secs(10)).await;
        let before = receiver.arrivals().len();
        steer(server, &topic, "pause").await?;
        Plan { way, count: MESSAGES, due: Due::Now }.publish(server).await?;
        steer(server, &topic, "resume").await?;
        let limit = Duration::from_secs(120);
        receiver.wait(before + MESSAGES as usize, limit).await;
        let calls = receiver.arrivals().split_off(before);
        let come = Come::of(calls.iter().map(|call| call.number), MESSAGES);
        let rate = per_second(&calls);
        table.row([
            name.to_owned(),
            per_host.to_string(),
            thousands(calls.len() as f64),
            thousands(rate),
            come.missing.to_string(),
            come.again.to_string(),
        ]);
        let come = come.to_json();
        let figure = json!({"published": name, "per_host": per_host, "per_s": rate, "come": come});
        figures.push(figure);
        verdicts.extend(target.map(|target| Verdict { target, measured: rate }));
        if topic != OWN {
            forget(server, &topic).await?;
        }
    }
    table.note(
        "a host: max_in_flight_per_host, 8 being the default; max_in_flight is at its default",
    );
    table.note("from the first call to the last, all messages being there before the first");
    Ok(Section { name: "callbacks", table, figures: Value::Array(figures), verdicts })
}

/// From the first of the calls to the last; 0 for fewer than two.
fn per_second(calls: &[Arrival]) -> f64 {
    match (calls.first(), calls.last()) {
        (Some(first), Some(last)) if last.at_us > first.at_us => {
            (calls.len() - 1) as f64 * 1e6 / (last.at_us - first.at_us) as f64
        }
        _ => 0.0,
    }
}

/// How long after their due time calls arrive.
pub async fn lateness(bench: &Bench, server: &Server) -> Fallible<Section> {
    bench.say(format_args!("callbacks: lateness at {DUE_PER_S} due a second"));
    let receiver = Receiver::start()?;
    let topic = bench.topic("push-late");
    push(server, &topic, json!({"url": receiver.url()})).await?;
    let count = DUE_PER_S * WINDOW_MS / 1_000;
    let way = Way::Topic(topic.clone());
    let mut seen = Lateness::default();
    let calls = seen_within(server, &receiver, way, count, WINDOW_MS).await?;
    seen.add(&calls, count);
    forget(server, &topic).await?;
    let columns =
        ["due per s", "calls", "p50 ms", "p99 ms", "p99.9 ms", "max ms", "early", "missing"];
    let mut table = Table::new("Lateness of callbacks (arrival - due)", &columns);
    let shares = seen.shares();
    let mut cells = vec![thousands(DUE_PER_S as f64), thousands(calls.len() as f64)];
    cells.extend(shares.map(millis));
    cells.extend([seen.early.to_string(), seen.missing.to_string()]);
    table.row(cells);
    table.note("a pushed topic at its defaults, published ahead at random due times");
    let measured = f64::from(shares[1]) / 1_000.0;
    Ok(Section {
        name: "callback_lateness",
        table,
        figures: seen.figures(),
        verdicts: vec![Verdict { target: Target::CallbackLateness, measured }],
    })
}

/// Publishes `count` messages that fall due within `window_ms`, and gives back what came of them.
pub async fn seen_within(
    server: &Server,
    receiver: &Receiver,
    way: Way,
    count: u64,
    window_ms: u64,
) -> Fallible<Vec<Arrival>> {
    let before = receiver.arrivals().len();
    let ahead_ms = 1_500 + count / 5;
    let first = chrono::Utc::now().timestamp_millis() + ahead_ms.cast_signed();
    Plan { way, count, due: Due::Within(first, window_ms) }.publish(server).await?;
    if chrono::Utc::now().timestamp_millis() > first {
        return Err("publishing ahead took too long: the first ones fell due meanwhile".into());
    }
    let limit = Duration::from_millis(ahead_ms + window_ms + 10_000);
    receiver.wait(before + count as usize, limit).await;
    Ok(receiver.arrivals().split_off(before))
}

/// Whether two instances together hold a topic's rate.
pub async fn held_rate(bench: &Bench, server: &Server) -> Fallible<Section> {
    bench.say(format_args!("callbacks: rate_per_s of {HELD_PER_S}, 2 instances"));
    let second = server.beside(&bench.args).await?;
    let receiver = Receiver::start()?;
    let topic = bench.topic("push-rate");
    push(server, &topic, json!({"url": receiver.url(), "rate_per_s": HELD_PER_S})).await?;
    steer(server, &topic, "pause").await?;
    let wanted = HELD_PER_S * HELD_SECONDS;
    // Half of it through either, so that both know the topic; twice of what is wanted.
    for instance in [server, &second] {
        let way = Way::Topic(topic.clone());
        Plan { way, count: wanted, due: Due::Now }.publish(instance).await?;
    }
    steer(server, &topic, "resume").await?;
    if receiver.wait(1, Duration::from_secs(10)).await == 0 {
        return Err("callbacks of a topic with a rate do not come".into());
    }
    tokio::time::sleep(Duration::from_millis(HELD_SECONDS * 1_000 + 200)).await;
    let calls = receiver.arrivals();
    forget(server, &topic).await?;
    drop(second);
    let within = |until_us: i64| {
        let first = calls.first().map_or(0, |call| call.at_us);
        calls.iter().filter(|call| call.at_us - first < until_us).count()
    };
    let count = within(HELD_SECONDS.cast_signed() * 1_000_000);
    let off = (count as f64 / wanted as f64 - 1.0).abs() * 100.0;
    let columns = ["rate_per_s", "instances", "seconds", "calls", "first second", "off"];
    let mut table = Table::new("A topic's own rate of calls", &columns);
    table.row([
        HELD_PER_S.to_string(),
        "2".to_owned(),
        HELD_SECONDS.to_string(),
        thousands(count as f64),
        within(1_000_000).to_string(),
        format!("{off:.1} %"),
    ]);
    Ok(Section {
        name: "callback_rate",
        table,
        figures: json!({
            "rate_per_s": HELD_PER_S,
            "instances": 2,
            "calls": count,
            "wanted": wanted,
            "first_second": within(1_000_000),
            "off_percent": off,
        }),
        verdicts: vec![Verdict { target: Target::CallbackRate, measured: off }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_taken_from_the_first_call_to_the_last() {
        let call = |at_us| Arrival { at_us, number: 0, due_ms: 0 };
        assert_eq!(per_second(&[call(5), call(500_005), call(1_000_005)]), 2.0);
        assert_eq!(per_second(&[call(5)]), 0.0);
        assert_eq!(per_second(&[]), 0.0);
    }
}
