//! Whoever tries keys: slowed down, counted, and in the way of nobody else.

use serde_json::json;

use super::scopes::{KeyFile, bearer};
use crate::harness::*;

async fn failures(client: &Client, reason: &str) -> i64 {
    let metrics = client.get_path("/metrics").await.expect(200);
    let start = format!("dueq_auth_failures_total{{reason=\"{reason}\"}} ");
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("no {start}")).parse().unwrap()
}

#[tokio::test]
async fn wrong_keys_beyond_ten_a_second_get_429_and_right_ones_are_let_in() {
    let file = KeyFile::of(&[("mine", "read:*")]);
    let dueq = file.start().await;
    let (mine, stranger) = (file.client(&dueq, "mine"), dueq.client());
    assert_eq!(failures(&mine, "wrong").await, 0);
    let (mut refused, mut slowed) = (0, 0);
    for number in 0..300 {
        let wrong = bearer(&format!("wrong-{number}"));
        let answer = stranger.send("GET", "/topics", &[("authorization", &wrong)], None).await;
        if answer.status == 429 {
            let answer = answer.problem(429, "too_many_attempts");
            assert_eq!(answer.header("retry-after"), "1");
            slowed += 1;
            if slowed % 10 == 1 {
                mine.get_path("/topics").await.expect(200);
                // No key at all is no guess.
                stranger.get_path("/topics").await.problem(401, "unauthorized");
            }
        } else {
            answer.problem(401, "unauthorized");
            refused += 1;
        }
    }
    assert!(refused >= 10 && slowed > 0, "{refused} {slowed}");
    assert_eq!(failures(&mine, "wrong").await, 300);
    assert_eq!(failures(&mine, "too_many").await, slowed);
}

#[tokio::test]
async fn what_is_turned_away_is_counted_by_reason() {
    let file = KeyFile::of(&[("mine", "read:*")]);
    let dueq = file.start().await;
    let (mine, stranger) = (file.client(&dueq, "mine"), dueq.client());
    stranger.get_path("/topics").await.expect(401);
    stranger.send("GET", "/topics", &[("authorization", "Basic x")], None).await.expect(401);
    mine.publish("orders", json!({"payload": 1})).await.problem(403, "not_allowed");
    for (reason, count) in [("missing", 1), ("malformed", 1), ("wrong", 0), ("not_allowed", 1)] {
        assert_eq!(failures(&mine, reason).await, count, "{reason}");
    }
    let open = instance().await;
    open.client().send("GET", "/topics", &[("host", "evil.example")], None).await.expect(403);
    assert_eq!(failures(&open.client(), "host_not_allowed").await, 1);
}
