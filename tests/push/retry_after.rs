//! Retry-After: the receiver says when to come back, within reason.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::facts::{becomes, fixed, ready, scheduled, waits, waits_within, with};
use crate::harness::*;

/// Schedules a callback that is answered so: the delayed message.
async fn delayed(status: u16, retry_after: &str, more: Value) -> Value {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(status).header("retry-after", retry_after));
    let more = with(json!({"payload": 1, "backoff": fixed(60_000)}), more);
    let id = scheduled(&client, &receiver.url("/"), more).await;
    becomes(&client, &id, "delayed", 1).await
}

#[tokio::test]
async fn seconds_are_waited_after_429_and_503() {
    for status in [429, 503] {
        for (retry_after, wanted) in [("5", 5_000), ("120", 120_000), (" 7 ", 7_000)] {
            waits(&delayed(status, retry_after, json!({})).await, wanted).await;
        }
    }
}

#[tokio::test]
async fn the_call_comes_when_it_was_asked_for() {
    let (client, receiver) = ready().await;
    receiver.answer_next("/", [Reply::status(503).header("retry-after", "1")]);
    scheduled(&client, &receiver.url("/"), json!({"backoff": fixed(60_000)})).await;
    let calls = receiver.wait_for(2).await;
    let waited = calls[1].at - calls[0].at;
    assert!(waited >= Duration::from_millis(990) && waited < WOKEN, "{waited:?}");
}

#[tokio::test]
async fn an_instant_is_waited_for_too() {
    for status in [429, 503] {
        let (start, date) = (Instant::now(), SystemTime::now() + Duration::from_secs(90));
        let seen = delayed(status, &httpdate::fmt_http_date(date), json!({})).await;
        // The date, which has no fractions of a second; a busy machine notes the answer late.
        let late = instant_ms(text(&seen, "due_at"))
            - date.duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
        assert!((-1_000..=start.elapsed().as_millis() as i64).contains(&late), "{late}: {seen}");
    }
}

#[tokio::test]
async fn at_once_is_no_sooner_than_the_backoff_says() {
    let past = httpdate::fmt_http_date(SystemTime::now() - Duration::from_secs(90));
    for retry_after in ["0", "000", &past] {
        waits(&delayed(503, retry_after, json!({})).await, 60_000).await;
    }
}

#[tokio::test]
async fn it_is_capped_at_ten_times_the_policys_longest() {
    let asked = ["1000000", "99999999999999999999999"];
    let far = SystemTime::now() + Duration::from_secs(86_400 * 30);
    let far = httpdate::fmt_http_date(far);
    for (backoff, cap) in [
        (fixed(3_000), 30_000),
        (json!({"kind": "exponential", "base_ms": 100, "max_ms": 4_000}), 40_000),
        (json!({"kind": "schedule", "delays_ms": [100, 5_000, 200]}), 50_000),
    ] {
        let more = json!({"backoff": backoff});
        waits(&delayed(429, asked[0], more.clone()).await, cap).await;
        waits(&delayed(503, &far, more).await, cap).await;
    }
    let seen = delayed(429, asked[1], json!({"backoff": fixed(3_000)})).await;
    // A number beyond all.
    waits_within(&seen, 3_000, 30_000).await;
}

#[tokio::test]
async fn with_other_statuses_it_means_nothing() {
    for status in [500, 502, 504, 400, 404, 302] {
        waits(&delayed(status, "5", json!({})).await, 60_000).await;
    }
}

#[tokio::test]
async fn what_is_no_time_means_nothing() {
    for retry_after in ["soon", "-5", "1.5", "", "5 seconds"] {
        waits(&delayed(503, retry_after, json!({})).await, 60_000).await;
    }
}

#[tokio::test]
async fn it_costs_an_attempt_like_any_failure() {
    let seen = delayed(429, "5", json!({"max_attempts": 2})).await;
    assert_eq!((&seen["attempts"], &seen["attempts_left"]), (&json!(1), &json!(1)), "{seen}");
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(429).header("retry-after", "5"));
    let id = scheduled(&client, &receiver.url("/"), json!({"max_attempts": 1})).await;
    becomes(&client, &id, "dead", 1).await;
}
