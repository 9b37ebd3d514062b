//! A needle in a haystack: a million dead messages of which twelve have another error, found, grouped and redriven, and what
//! that means for somebody else.

use crate::{harness::*, spread, table::*};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const MESSAGES: usize = 1_000_000;
const NEEDLES: usize = 12;
/// Calls of Redis that take longer are counted, µs.
const LONG_CALL: &str = "5000";

pub async fn search(table: &mut Table) {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let (hay, other) = (topic("hay"), [topic("other")]);
    let retention = json!({"dead_ms": 1_000_000_000, "dead_max": 2 * MESSAGES});
    client.new_topic(&hay, json!({"retention": retention})).await;
    all_die(&client, &hay).await;
    let ((alone, _), ()) = spread::beside(&client, &other, sleep(Duration::from_secs(5))).await;

    count_long_calls(&redis).await;
    let search = pages(&client, &hay);
    let ((meanwhile, _), (found, mut pages)) = spread::beside(&client, &other, search).await;
    let long = long_calls(&redis).await;
    pages.sort_by(f64::total_cmp);
    let longest = pages.last().copied().unwrap_or(f64::NAN);
    let whole = pages.iter().sum::<f64>() / 1e3;
    let needles = NEEDLES as f64;
    let mut figure = |what: &str, wanted, unit, figure: f64| {
        table.figure(&format!("search of a million: {what}"), wanted, unit, [figure]);
    };
    figure("found", Wanted::Between(needles, needles), "messages", found as f64);
    figure("all of it", Wanted::Anything, "s", whole);
    figure("a page, median", Wanted::Anything, "ms", pages[pages.len() / 2]);
    figure("the longest page", Wanted::AtMost(250.0), "ms", longest);
    figure("calls of Redis above 5 ms, waits for a core included", Wanted::Anything, "calls", long);

    let reasons = client.get_path(&format!("/topics/{hay}/dead/reasons")).await.expect(200).json();
    let groups = reasons["items"].as_array().map_or(0, Vec::len);
    figure("reasons of the newest 10,000", Wanted::Between(2.0, 2.0), "groups", groups as f64);
    let begun = Instant::now();
    let first = redriven(&client, &hay, "error:refused").await;
    figure("redriven by query", Wanted::Between(needles, needles), "messages", first as f64);
    figure("that took", Wanted::Anything, "s", begun.elapsed().as_secs_f64());
    let second = redriven(&client, &hay, "error:refused").await;
    figure("redriven by the same again", Wanted::Between(0.0, 0.0), "messages", second as f64);
    let rounds = [Some((spread::p99(meanwhile), spread::p99(alone)))].into_iter();
    let what = "publish p99 of others: beside a search / alone";
    table.compare(what, Wanted::AtMost(2.0), "ms", rounds);
}

/// From now on, a Redis counts the calls that take longer than [`LONG_CALL`].
pub async fn count_long_calls(redis: &Redis) {
    for setting in ["slowlog-log-slower-than", "slowlog-max-len"] {
        let _: String = redis.command(&["CONFIG", "SET", setting, LONG_CALL]).await;
    }
    let _: String = redis.command(&["SLOWLOG", "RESET"]).await;
}

/// How many those were.
pub async fn long_calls(redis: &Redis) -> f64 {
    redis.command::<i64>(&["SLOWLOG", "LEN"]).await as f64
}

/// Publishes, leases and fails them all. The last needle is among the newest.
async fn all_die(client: &Client, topic: &str) {
    for thousand in 0..MESSAGES / 1000 {
        let messages: Vec<_> = (0..1000).map(|n| json!({"payload": 1000 * thousand + n})).collect();
        client.fill(topic, &messages).await;
        let mut left = messages.len();
        while left > 0 {
            let held = client.leased(topic, json!({"max_messages": left})).await;
            left -= held.len();
            let fail = |message: &Value| {
                let n = message["payload"].as_u64().unwrap_or_default();
                let needle = (n + 1).is_multiple_of((MESSAGES / NEEDLES) as u64);
                let reason = match needle {
                    true => "connection refused".to_owned(),
                    false => format!("timeout after {n} ms"),
                };
                let (id, token) = (&message["id"], &message["lease_token"]);
                json!({"id": id, "lease_token": token, "dead": true, "reason": reason})
            };
            let fails: Vec<_> = held.iter().map(fail).collect();
            client.post("/messages/nack", &json!({"messages": fails})).await.expect(200);
        }
    }
}

/// Searches page by page: what was found, and how long each page took, ms.
async fn pages(client: &Client, topic: &str) -> (usize, Vec<f64>) {
    let base = format!("/topics/{topic}/messages?state=dead&limit=1000&q=error:refused");
    let (mut found, mut times, mut path) = (0, Vec::new(), base.clone());
    loop {
        let begun = Instant::now();
        let page = client.get_path(&path).await.expect(200).json();
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        found += page["items"].as_array().map_or(0, Vec::len);
        match page["next_cursor"].as_str() {
            Some(next) => path = format!("{base}&cursor={next}"),
            None => return (found, times),
        }
    }
}

/// Redrives what a query finds, to the end.
async fn redriven(client: &Client, topic: &str, query: &str) -> i64 {
    let (mut ask, mut redriven) = (json!({"q": query}), 0);
    loop {
        let answer = client.redrive_topic(topic, ask.clone()).await.expect(200).json();
        redriven += answer["redriven"].as_i64().unwrap_or_default();
        match answer.get("next_cursor") {
            Some(next) => ask["cursor"] = next.clone(),
            None => return redriven,
        }
    }
}
