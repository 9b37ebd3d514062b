//! `dueq audit`: a healthy Redis is clean, also while it works; whatever is broken on purpose is found by its name,
//! mended on request, and the messages go on.

mod cases;
mod damage;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use deadpool_redis::redis;
use serde_json::{Value, json};

use crate::harness::*;

/// `dueq audit --json` with these arguments, run to its end.
pub async fn audit(args: &[&str]) -> Finished {
    Launch::command(["audit", "--json"]).args(args).finish().await
}

/// What it printed: the findings, and the line about all of it.
pub fn report(finished: &Finished) -> (Vec<Value>, Value) {
    let mut lines: Vec<Value> = finished
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {finished:?}")))
        .collect();
    let sum = lines.pop().unwrap_or_else(|| panic!("it printed nothing: {finished:?}"));
    assert_eq!(sum["found"], lines.len(), "{finished:?}");
    (lines, sum)
}

/// Nothing is wrong there; returns the line about all of it.
#[track_caller]
pub fn clean(finished: &Finished) -> Value {
    assert_eq!((finished.code, finished.stderr.as_str()), (0, ""), "{finished:?}");
    let (findings, sum) = report(finished);
    assert!(findings.is_empty(), "{finished:?}");
    sum
}

/// A topic with a message of every kind: plain, later, with a priority, a key, a TTL, an idempotency key, bytes and
/// headers; leased for the first, the second and the last time; retried, dead; acked and retained. Returns how many.
pub async fn fill(client: &Client, topic: &str) -> i64 {
    let config = json!({"retention": {"acked_ms": 600_000}, "lease_ms": 600_000});
    client
        .send(
            "PUT",
            &format!("/topics/{topic}"),
            &[("content-type", "application/json")],
            Some(config.to_string().into()),
        )
        .await
        .expect(201);
    let publish = async |message: Value| client.published(topic, message).await;
    publish(json!({"payload": "acked", "key": "a", "ttl_ms": 600_000})).await;
    client.ack_leased(&client.lease_one(topic).await).await.expect(204);
    publish(json!({"payload": "dead", "max_attempts": 1, "key": "d", "ttl_ms": 600_000})).await;
    client.nack_leased(&client.lease_one(topic).await, json!({"reason": "no"})).await.expect(200);
    publish(json!({"payload": "retried"})).await;
    client.nack_leased(&client.lease_one(topic).await, json!({"delay_ms": 0})).await.expect(200);
    client.lease_one(topic).await;
    publish(json!({"payload": "retried later", "priority": 3, "ttl_ms": 600_000})).await;
    client
        .nack_leased(&client.lease_one(topic).await, json!({"delay_ms": 600_000}))
        .await
        .expect(200);
    publish(json!({"payload": "held", "key": "h", "key_until": "granted"})).await;
    client.lease_one(topic).await;
    publish(json!({"payload": "for the last time", "max_attempts": 1})).await;
    client.lease_one(topic).await;
    publish(json!({"payload": "now"})).await;
    publish(json!({"payload": "later", "delay_ms": 600_000, "headers": {"a": "b"}})).await;
    publish(json!({"payload_base64": "AAEC", "priority": 255})).await;
    publish(json!({"payload": 1, "priority": 1, "delay_ms": 600_000, "key": "k", "backoff": {"kind": "fixed", "base_ms": 5}})).await;
    publish(json!({"payload": 1, "ttl_ms": 600_000, "idempotency_key": "i"})).await;
    11
}

#[tokio::test]
async fn an_empty_redis_is_clean() {
    let redis = Redis::start().await;
    let finished = Launch::command(["audit", "--redis-url", &redis.url()]).finish().await;
    assert_eq!((finished.code, finished.stderr.as_str()), (0, ""), "{finished:?}");
    assert_eq!(finished.stdout, "0 messages in 0 topics: no problems found\n");
}

#[tokio::test]
async fn a_topic_with_messages_of_every_kind_is_clean() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let messages = fill(&dueq.client(), "every-kind").await;
    let sum = clean(&audit(&["--redis-url", &redis.url()]).await);
    assert_eq!((&sum["topics"], &sum["messages"]), (&json!(1), &json!(messages)), "{sum}");
    let client = dueq.client();
    client.published("short", json!({"payload": 1})).await;
    client.send("DELETE", "/topics/short?force=true", &[], None).await.expect(204);
    clean(&audit(&["--repair", "--redis-url", &redis.url()]).await);
    let topic = client.topic("every-kind").await.expect(200).json();
    assert_eq!(
        topic["counts"],
        json!({"delayed": 3, "ready": 3, "leased": 3, "dead": 1, "acked": 1, "blocked": 0})
    );
}

#[tokio::test]
async fn work_that_goes_on_causes_no_false_alarm() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let stop = AtomicBool::new(false);
    let work = async |n: usize| {
        let (client, topic) = (dueq.client(), format!("busy-{}", n % 2));
        let mut turns = ["fair", "strict"].into_iter().cycle();
        while !stop.load(Ordering::Relaxed) {
            let change = json!({"group_order": turns.next(), "group_concurrency": n + 1});
            client.update_topic(&topic, change).await;
            for i in 0..6 {
                let message = match (i + n) % 6 {
                    4 => json!({"payload": 1, "group": format!("{n}"), "priority": n}),
                    5 => json!({"payload": 1, "group": "all", "delay_ms": n, "ttl_ms": 2_000}),
                    0 => json!({"payload": "x".repeat(300)}),
                    1 => {
                        json!({"payload": 1, "key": format!("{}", n % 3), "on_duplicate": "replace", "ttl_ms": 20})
                    }
                    2 => json!({"payload": 1, "priority": n, "delay_ms": 5, "max_attempts": 2}),
                    _ => {
                        json!({"payload": 1, "key": format!("g{n}"), "key_until": "granted", "idempotency_key": format!("{n}")})
                    }
                };
                // A leased key's message cannot be replaced, a used idempotency key may meet another body.
                let status = client.publish(&topic, message).await.status;
                assert!([200, 201, 409, 422].contains(&status), "{status}");
            }
            for (i, message) in
                client.leased(&topic, json!({"max_messages": 5})).await.iter().enumerate()
            {
                let ended = match i % 4 {
                    0 => client.nack_leased(message, json!({"delay_ms": 2})).await,
                    1 => client.nack_leased(message, json!({"dead": true})).await,
                    _ => client.ack_leased(message).await,
                };
                assert!([200, 204].contains(&ended.status), "{ended}");
            }
            client.post(&format!("/topics/{topic}/redrive"), &json!({})).await;
        }
    };
    let look = async {
        let end = Instant::now() + Duration::from_secs(4);
        let mut looks = 0;
        while Instant::now() < end || looks < 3 {
            let repair = if looks % 2 == 0 { &[][..] } else { &["--repair"][..] };
            clean(&audit(&[&["--redis-url", &redis.url()], repair].concat()).await);
            looks += 1;
        }
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(look, work(0), work(1), work(2), work(3), work(4));
    assert!(clean(&audit(&["--redis-url", &redis.url()]).await)["messages"].as_i64() > Some(0));
}

#[tokio::test]
async fn of_a_thousand_messages_every_broken_one_is_found_and_mended() {
    many_broken(1).await;
}

#[tokio::test]
async fn of_two_thousand_messages_too() {
    many_broken(2).await;
}

/// 400 of so many thousand messages are broken. Up to 1,024 the audit has all names at once, beyond that page by page.
async fn many_broken(thousands: i64) {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let messages: Vec<Value> = (0..1000).map(|n| json!({"payload": n})).collect();
    for _ in 0..thousands {
        let batch = json!({"messages": messages});
        client.post("/topics/many/messages/batch", &batch).await.expect(200);
    }
    let left = 1000 * thousands - 100;
    let script = "local members = redis.call('ZRANGE', KEYS[1], 0, 999)
        for i = 1, 300 do redis.call('ZREM', KEYS[1], members[i]) end
        for i = 301, 400 do redis.call('HDEL', KEYS[2], members[i]) end
        return #members";
    let mut eval = redis::cmd("EVAL");
    eval.arg(script).arg(2).arg("dueq:{many:0}:delayed").arg("dueq:{many:0}:messages");
    let members: i64 = eval.query_async(&mut redis.connection().await).await.unwrap();
    assert_eq!(members, 1000);

    let url = redis.url();
    for args in [&["--redis-url", &url][..], &["--redis-url", &url, "--repair"]] {
        let finished = audit(args).await;
        assert_eq!(finished.code, 1, "{finished:?}");
        let (findings, _) = report(&finished);
        let count = |defect: &str| findings.iter().filter(|f| f["defect"] == defect).count();
        assert_eq!((count("no_place"), count("no_body"), count("totals")), (300, 100, 1));
    }
    assert_eq!(clean(&audit(&["--redis-url", &url]).await)["messages"], left);
    assert_eq!(client.count("many", "ready").await, left);
    assert_eq!(client.total("many", "deleted").await, 100);
    let want = json!({"max_messages": 1000, "wait_ms": 20_000});
    assert_eq!(client.leased("many", want).await.len() as i64, left.min(1000));
}

#[tokio::test]
async fn a_data_directory_is_audited_unless_it_is_being_served() {
    let data = temp_dir("data");
    let path = data.display().to_string();
    let mut dueq = Dueq::embedded(&data).start().await;
    let messages = fill(&dueq.client(), "stopped").await;
    let refused = Launch::command(["audit", "--data-dir", &path]).finish().await;
    crate::refusals::one_line(&refused, &[&path, "in use"]);
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    assert_eq!(clean(&audit(&["--data-dir", &path]).await)["messages"], messages);
    // It gave the directory back.
    Dueq::embedded(&data).start().await;
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_said_in_one_line_and_nothing_is_made() {
    let missing = temp_dir("data").join("not-there");
    let path = missing.display().to_string();
    let finished = Launch::command(["audit", "--data-dir", &path]).finish().await;
    crate::refusals::one_line(&finished, &[&path]);
    assert!(!missing.exists());
    let url = format!("redis://127.0.0.1:{}/", free_port());
    let finished = Launch::command(["audit", "--redis-url", &url]).finish().await;
    crate::refusals::one_line(&finished, &["Redis"]);
}
