//! `backoff` and `max_attempts`: how long a failed message waits and how often it is tried, by its own
//! policy or its topic's.

use serde_json::{Value, json};

use crate::facts::{counted, fail_attempts, reaches, topic_in_balance};
use crate::harness::*;

/// Leases the one message and nacks it without a delay: how long it must wait, as the least and the
/// most by what is known of when Redis nacked.
async fn fail(client: &Client, topic: &str) -> (i64, i64) {
    let held = client.lease_one(topic).await;
    let before = shared().await.redis.time_ms().await;
    let answer = client.nack_leased(&held, json!({})).await.expect(200);
    let after = shared().await.redis.time_up_ms().await;
    let due = answer.instant("due_at");
    // Redis's clock is rounded up for what is due, and rounded down here.
    (due - after - 1, due - before)
}

/// Fails the one message of the topic as often as there are delays, and demands these.
async fn waits(client: &Client, topic: &str, delays: &[i64]) {
    for (n, delay) in delays.iter().enumerate() {
        let (least, most) = fail(client, topic).await;
        assert!((least..=most).contains(delay), "failure {}: {delay} in {least}..{most}", n + 1);
    }
}

fn fixed(base: i64) -> Value {
    json!({"kind": "fixed", "base_ms": base})
}

fn exponential(base: i64, factor: f64, max: i64, jitter: f64) -> Value {
    json!({
        "kind": "exponential", "base_ms": base, "factor": factor, "max_ms": max, "jitter": jitter,
    })
}

#[tokio::test]
async fn each_kind_of_backoff_waits_as_it_says() {
    for (backoff, delays) in [
        (exponential(10, 3.0, 200, 0.0), &[10, 30, 90, 200, 200][..]),
        (exponential(40, 1.0, 5000, 0.0), &[40, 40, 40]),
        (exponential(100, 1.5, 5000, 0.0), &[100, 150, 225]),
        (exponential(100, 2.0, 100, 0.0), &[100, 100]),
        (fixed(50), &[50, 50, 50, 50]),
        (fixed(0), &[0, 0]),
        (json!({"kind": "schedule", "delays_ms": [10, 200, 50]}), &[10, 200, 50, 50, 50]),
        (json!({"kind": "schedule", "delays_ms": [60]}), &[60, 60, 60]),
        (json!({"kind": "schedule", "delays_ms": [0, 100]}), &[0, 100, 100]),
    ] {
        let client = client().await;
        let (by_topic, by_message) = (topic("backoff"), topic("backoff"));
        client.configure(&by_topic, json!({"backoff": backoff})).await;
        client.published(&by_topic, json!({"payload": 1})).await;
        client.configure(&by_message, json!({"backoff": fixed(600_000)})).await;
        client.published(&by_message, json!({"payload": 1, "backoff": backoff})).await;
        for topic in [by_topic, by_message] {
            waits(&client, &topic, delays).await;
            topic_in_balance(&client, &topic).await;
        }
    }
}

#[tokio::test]
async fn jitter_stays_in_its_bounds_and_uses_them() {
    for jitter in [0.5, 1.0] {
        let (client, topic) = (client().await, topic("backoff"));
        let backoff = exponential(100_000, 2.0, 1_000_000, jitter);
        let mut seen = Vec::new();
        for _ in 0..30 {
            let id = client.published(&topic, json!({"payload": 1, "backoff": backoff})).await;
            let (least, most) = fail(&client, &topic).await;
            let bounds = if jitter < 1.0 { (50_000, 150_000) } else { (0, 200_000) };
            assert!(least <= bounds.1 && most >= bounds.0, "{least}..{most} of {bounds:?}");
            seen.push(most);
            client.delete(&id).await.expect(204);
        }
        let (low, high) = (*seen.iter().min().unwrap(), *seen.iter().max().unwrap());
        assert!(high - low > 30_000, "thirty waits of 100 s ± {jitter}: {seen:?}");
        assert!(low < 100_000 && high > 100_000, "to both sides: {seen:?}");
    }
}

#[tokio::test]
async fn the_jitter_of_the_longest_wait_goes_to_both_sides_too() {
    let (client, topic) = (client().await, topic("backoff"));
    let backoff = exponential(100_000, 2.0, 100_000, 0.2);
    for _ in 0..10 {
        let id = client.published(&topic, json!({"payload": 1, "backoff": backoff})).await;
        let (least, most) = fail(&client, &topic).await;
        assert!(
            least <= 120_000 && most >= 80_000,
            "at most the max, times 1 ± 0.2: {least}..{most}"
        );
        client.delete(&id).await.expect(204);
    }
}

#[tokio::test]
async fn absent_fields_of_an_exponential_backoff_take_the_defaults() {
    let (client, topic) = (client().await, topic("backoff"));
    for (given, whole) in [
        (json!({"kind": "exponential"}), exponential(1000, 2.0, 3_600_000, 0.1)),
        (
            json!({"kind": "exponential", "base_ms": 5, "jitter": 0}),
            exponential(5, 2.0, 3_600_000, 0.0),
        ),
        (
            json!({"kind": "exponential", "factor": 3, "max_ms": 9000}),
            exponential(1000, 3.0, 9000, 0.1),
        ),
        (fixed(7), fixed(7)),
        (
            json!({"kind": "schedule", "delays_ms": [1, 2]}),
            json!({"kind": "schedule", "delays_ms": [1, 2]}),
        ),
    ] {
        let seen = client.configure(&topic, json!({"backoff": given})).await;
        for (name, value) in whole.as_object().unwrap() {
            let found = &seen["config"]["backoff"][name];
            let same = found.as_f64().zip(value.as_f64()).is_some_and(|(a, b)| a == b);
            assert!(found == value || same, "{name} of {given}: {seen}");
        }
    }
}

#[tokio::test]
async fn a_topics_change_reaches_messages_that_named_no_backoff() {
    let (client, topic) = (client().await, topic("backoff"));
    client.configure(&topic, json!({"backoff": fixed(600_000)})).await;
    client.published(&topic, json!({"payload": "the topic's"})).await;
    client.reconfigure(&topic, json!({"backoff": fixed(30)})).await;
    waits(&client, &topic, &[30, 30]).await;
    let held = client.lease_one(&topic).await;
    client.reconfigure(&topic, json!({"backoff": fixed(0)})).await;
    client.nack_leased(&held, json!({})).await.expect(200);
    assert_eq!(client.state(text(&held, "id")).await, "ready", "those under way too");
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);

    client.published(&topic, json!({"payload": "its own", "backoff": fixed(20)})).await;
    client.reconfigure(&topic, json!({"backoff": fixed(600_000)})).await;
    waits(&client, &topic, &[20, 20]).await;
}

#[tokio::test]
async fn every_failure_counts_for_the_backoff_and_a_release_does_not() {
    let (client, topic) = (client().await, topic("backoff"));
    client.configure(&topic, json!({"backoff": exponential(10, 10.0, 600_000, 0.0)})).await;
    client.published(&topic, json!({"payload": 1})).await;
    for _ in 0..3 {
        let held = client.lease_one(&topic).await;
        client.nack_leased(&held, json!({"release": true})).await.expect(200);
    }
    waits(&client, &topic, &[10]).await;
    fail_attempts(&client, &topic, 1).await; // with a delay of its own: the second failure
    client.lease_one_with(&topic, json!({"lease_ms": 1000})).await; // the third, by expiry
    waits(&client, &topic, &[10_000]).await;
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_messages_own_max_attempts_outlives_the_topics_change() {
    for (first, second) in [(10, 1), (1, 10)] {
        let (client, topic) = (client().await, topic("backoff"));
        client.configure(&topic, json!({"max_attempts": first})).await;
        let own = json!({"payload": 1, "max_attempts": 3, "priority": 1});
        let own = client.published(&topic, own).await;
        let plain = client.published(&topic, json!({"payload": 1})).await;
        for (id, left) in [(&own, 3), (&plain, first)] {
            assert_eq!(client.get(id).await.expect(200).number("attempts_left"), left);
        }
        client.reconfigure(&topic, json!({"max_attempts": second})).await;
        let held = client.leased(&topic, json!({"max_messages": 2})).await;
        for ((message, id), left) in held.iter().zip([&own, &plain]).zip([3, second]) {
            assert_eq!((&message["id"], number(message, "attempts_left")), (&json!(id), left - 1));
            let answer = client.nack_leased(message, json!({"delay_ms": 60_000})).await.expect(200);
            assert_eq!(answer.text("state"), if left == 1 { "dead" } else { "delayed" });
            assert_eq!(client.get(id).await.expect(200).number("attempts_left"), left - 1);
        }
        let dead = i64::from(second == 1);
        counted(&client, &topic, &[("counts", "dead", dead), ("totals", "nacked", 2)]).await;
    }
}

#[tokio::test]
async fn more_attempts_for_the_topic_reach_a_message_that_has_failed_already() {
    let (client, topic) = (client().await, topic("backoff"));
    client.configure(&topic, json!({"max_attempts": 2})).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    fail_attempts(&client, &topic, 1).await;
    client.reconfigure(&topic, json!({"max_attempts": 4})).await;
    fail_attempts(&client, &topic, 2).await;
    let held = client.lease_one(&topic).await;
    assert_eq!((number(&held, "attempt"), number(&held, "attempts_left")), (4, 0));
    client.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
    assert_eq!(client.state(&id).await, "dead");
}

#[tokio::test]
async fn a_lease_ends_by_the_max_attempts_now_in_force_whether_nacked_or_expired() {
    for (first, second, state) in [(10, 1, "dead"), (1, 10, "ready")] {
        let (client, topic) = (client().await, topic("backoff"));
        client.configure(&topic, json!({"max_attempts": first})).await;
        for n in 0..2 {
            client.published(&topic, json!({"payload": n})).await;
        }
        let want = json!({"max_messages": 2, "lease_ms": 1000});
        let held = client.leased(&topic, want).await;
        client.reconfigure(&topic, json!({"max_attempts": second})).await;
        let answer = client.nack_leased(&held[0], json!({"delay_ms": 0})).await.expect(200);
        assert_eq!(answer.text("state"), state, "nacked");
        reaches(&client, text(&held[1], "id"), state).await;
        let (ready, dead) = if state == "ready" { (2, 0) } else { (0, 2) };
        counted(&client, &topic, &[("counts", "ready", ready), ("counts", "dead", dead)]).await;
        let again = client.leased(&topic, json!({"max_messages": 2})).await;
        assert_eq!(again.len(), usize::try_from(ready).unwrap());
        counted(&client, &topic, &[("totals", "dead", dead), ("totals", "nacked", 1)]).await;
    }
}

/// The include that computes a backoff, asked by itself.
const BACKOFF: &str = concat!(
    include_str!("../../migrations-lua/includes/backoff.lua"),
    "return string.format('%.17g', backoff(ARGV[1], tonumber(ARGV[2]), ARGV[3]))",
);

#[tokio::test]
async fn no_backoff_is_infinite_or_no_number_whatever_the_policy() {
    let mut connection = shared().await.redis.connection().await;
    for base in [0, 1, 315_360_000_000_i64] {
        for (factor, max) in [(1.0, 0), (1.000_000_1, 1), (100.0, 0), (100.0, 315_360_000_000_i64)]
        {
            for (failures, jitter, unit) in [(1, 0, "0"), (156, 1, "0"), (1000, 1, "0.999999")] {
                let policy = format!("exponential;{base};{factor};{max};{jitter}");
                let mut ask = deadpool_redis::redis::cmd("EVAL");
                ask.arg(BACKOFF).arg(0).arg(&policy).arg(failures).arg(unit);
                let text: String = ask.query_async(&mut connection).await.unwrap();
                let delay: f64 = text.parse().unwrap();
                let most = (2 * max) as f64;
                assert!((0.0..=most).contains(&delay), "{policy} after {failures}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn a_message_survives_a_backoff_of_nothing_times_whatever() {
    let (client, topic) = (client().await, topic("backoff"));
    let backoff = exponential(0, 100.0, 3_600_000, 0.0);
    let message = json!({"payload": 1, "max_attempts": 1000, "backoff": backoff});
    let id = client.published(&topic, message).await;
    // 100^155 is infinite.
    for attempt in 1..=160 {
        let held = client.lease_one(&topic).await;
        assert_eq!(number(&held, "attempt"), attempt);
        let answer = client.nack_leased(&held, json!({})).await.expect(200);
        assert_eq!(answer.text("state"), "ready");
    }
    assert_eq!(client.state(&id).await, "ready");
}
