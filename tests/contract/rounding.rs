//! No delay and no lease is cut short by a fraction of a millisecond: read on Redis's own clock in microseconds, right
//! before it takes the request.

use deadpool_redis::redis;
use serde_json::{Value, json};

use crate::harness::*;

/// Each is asked for so often: a clock that is rounded down shows at the first few.
const TRIES: i64 = 20;

/// Redis's clock, asked over a connection that is open already: what is short by less than the way of the request that
/// follows does not show.
struct Clock(redis::aio::MultiplexedConnection);

impl Clock {
    async fn new() -> Clock {
        Clock(shared().await.redis.connection().await)
    }

    async fn us(&mut self) -> i64 {
        let (seconds, micros): (i64, i64) =
            redis::cmd("TIME").query_async(&mut self.0).await.unwrap();
        seconds * 1_000_000 + micros
    }
}

/// What was asked for at `before` (µs) and lasts so long (ms) ends at `end` (ms).
fn lasts(what: &str, before: i64, ms: i64, end: i64) {
    let short = before + ms * 1000 - end * 1000;
    assert!(short <= 0, "{what}: {ms} ms were {short} µs short");
}

async fn delayed(what: &str, message: Value) {
    let (client, topic) = (client().await, topic("rounding"));
    let mut clock = Clock::new().await;
    for n in 0..TRIES {
        let mut message = message.clone();
        message["delay_ms"] = json!(6 + n);
        let before = clock.us().await;
        let answer = client.publish(&topic, message).await.expect(201);
        lasts(what, before, 6 + n, answer.instant("due_at"));
        assert!(answer.instant("published_at") <= answer.instant("due_at"), "{answer}");
    }
}

#[tokio::test]
async fn a_delay_is_never_shorter_than_asked_for() {
    delayed("publish", json!({"payload": 1})).await;
    delayed("with a priority", json!({"payload": 1, "priority": 3})).await;
    delayed("with a time to live", json!({"payload": 1, "ttl_ms": 60_000})).await;
}

#[tokio::test]
async fn a_message_without_a_delay_is_ready_at_once() {
    let (client, topic) = (client().await, topic("rounding"));
    for _ in 0..TRIES {
        let answer = client.publish(&topic, json!({"payload": 1})).await.expect(201);
        assert_eq!(answer.text("state"), "ready");
        assert!(answer.instant("published_at") <= answer.instant("due_at"), "{answer}");
        let held = client.lease_one(&topic).await;
        let answer = client.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
        assert_eq!(answer.text("state"), "ready");
        let held = client.lease_one(&topic).await;
        client.nack_leased(&held, json!({"release": true})).await.expect(200);
        let held = client.lease_one(&topic).await;
        client.ack_leased(&held).await.expect(204);
    }
}

#[tokio::test]
async fn a_nack_waits_as_long_as_it_says() {
    let (client, topic) = (client().await, topic("rounding"));
    let mut clock = Clock::new().await;
    client.configure(&topic, json!({"backoff": {"kind": "fixed", "base_ms": 5}})).await;
    client.published(&topic, json!({"payload": 1, "max_attempts": 1000})).await;
    for n in 0..3 * TRIES {
        let held = client.lease_one_with(&topic, json!({"wait_ms": 10_000})).await;
        let (more, ms) = match n % 3 {
            0 => (json!({}), 5),
            1 => (json!({"delay_ms": 3}), 3),
            _ => (json!({"release": true, "delay_ms": 4}), 4),
        };
        let before = clock.us().await;
        let answer = client.nack_leased(&held, more.clone()).await.expect(200);
        lasts(&more.to_string(), before, ms, answer.instant("due_at"));
    }
}

#[tokio::test]
async fn a_changed_due_time_is_as_far_away_as_it_says() {
    let (client, topic) = (client().await, topic("rounding"));
    let mut clock = Clock::new().await;
    let id = client.published(&topic, json!({"payload": 1, "key": "k", "delay_ms": 60_000})).await;
    for n in 0..TRIES {
        let before = clock.us().await;
        let updated = client.update(&id, json!({"delay_ms": 5000 + n})).await.expect(200);
        lasts("update", before, 5000 + n, updated.instant("due_at"));
        let replace =
            json!({"payload": n, "key": "k", "on_duplicate": "replace", "delay_ms": 7000 + n});
        let before = clock.us().await;
        let replaced = client.publish(&topic, replace).await.expect(200);
        lasts("replace", before, 7000 + n, replaced.instant("due_at"));
    }
}

#[tokio::test]
async fn a_lease_is_never_shorter_than_asked_for() {
    let (client, topic) = (client().await, topic("rounding"));
    let mut clock = Clock::new().await;
    for n in 0..TRIES {
        client.published(&topic, json!({"payload": n, "priority": n % 2})).await;
        let before = clock.us().await;
        let held = client.lease_one_with(&topic, json!({"lease_ms": 2000})).await;
        lasts("lease", before, 2000, instant_ms(text(&held, "lease_expires_at")));
        assert!(number(&held, "lease_ms") <= 2000, "{held}");
        let before = clock.us().await;
        let extended = client.extend_leased(&held, 4000).await.expect(200);
        lasts("extend", before, 4000, extended.instant("lease_expires_at"));
        assert!(extended.number("lease_ms") <= 4000, "{extended}");
        client.ack_leased(&held).await.expect(204);
    }
}

#[tokio::test]
async fn a_redrive_spreads_no_faster_than_asked_for() {
    let (client, topic) = (client().await, topic("rounding"));
    let mut clock = Clock::new().await;
    for _ in 0..TRIES {
        let messages: Vec<Value> = (0..4).map(|n| json!({"payload": n})).collect();
        client.fill(&topic, &messages).await;
        for held in client.leased(&topic, json!({"max_messages": 4})).await {
            client.nack_leased(&held, json!({"dead": true})).await.expect(200);
        }
        let before = clock.us().await;
        let spread = json!({"spread_ms": 40_000});
        assert_eq!(client.redrive_topic(&topic, spread).await.expect(200).number("redriven"), 4);
        let delayed = client.listed(&topic, "state=delayed").await;
        assert_eq!(delayed.len(), 3, "the first is ready at once: {delayed:?}");
        for (n, message) in delayed.iter().enumerate() {
            let ms = 10_000 * (n as i64 + 1);
            lasts("redrive", before, ms, instant_ms(text(message, "due_at")));
        }
        client.purge(&topic, &["ready", "delayed", "dead"]).await.expect(200);
    }
}

#[tokio::test]
async fn a_schedule_ticks_no_sooner_than_it_says() {
    let (client, mut clock) = (client().await, Clock::new().await);
    for _ in 0..TRIES {
        let name = topic("rounding");
        let spec = json!({"every_ms": 60_000, "topic": name, "message": {"payload": 1}});
        let before = clock.us().await;
        let path = format!("/schedules/{name}");
        let answer = client.send_json("PUT", &path, &spec).await.expect(201);
        lasts("schedule", before, 60_000, answer.instant("next_at"));
        client.send("DELETE", &path, &[], None).await.expect(204);
    }
}
