//! `--notify-url`: one message for each event, whichever instance saw it.

use serde_json::{Value, json};

use crate::facts::{fixed, pushed_with};
use crate::harness::*;

/// The messages of one event, once there are any.
async fn told(hook: &Receiver, event: &str) -> Vec<Value> {
    hook.wait_until(event, |calls| {
        let all = calls.iter().map(|call| serde_json::from_slice::<Value>(&call.body).unwrap());
        let of: Vec<_> = all.filter(|it| it["event"] == event).collect();
        (!of.is_empty()).then_some(of)
    })
    .await
}

#[tokio::test]
async fn people_hear_once_of_a_host_of_deaths_and_of_redis() {
    let mut redis = Redis::start().await;
    let (hook, ill) = (Receiver::start().await, Receiver::start().await);
    let url = hook.url("/services/secret-path");
    hook.answer_next("/services/secret-path", [Reply::status(500)]);
    let mut all = Vec::new();
    for _ in 0..2 {
        all.push(Dueq::calling(&redis).args(["--notify-url", &url]).start().await);
    }
    let client = all[0].client();
    ill.answer(Reply::status(500));
    let push = json!({"url": ill.url("/"), "failing_after": 2, "failing_over_ms": 100});
    let backoff = json!({"backoff": fixed(100), "max_attempts": 100});
    let topic = pushed_with(&client, "told", push, backoff).await;
    client.fill(&topic, &vec![json!({"payload": 1}); 10]).await;
    let failing = told(&hook, "host_failing").await;
    assert_eq!(text(&failing[0], "host"), ill.addr().to_string());
    assert_eq!(text(&failing[0], "error"), "answered 500");
    assert!(text(&failing[0], "text").starts_with(&format!("dueq: {} fails", ill.addr())));
    assert!(text(&failing[0], "at").ends_with('Z'), "{failing:?}");
    ill.answer(Reply::status(410));
    let back = told(&hook, "host_back").await;
    assert_eq!(text(&back[0], "host"), ill.addr().to_string());
    let died = told(&hook, "dead_letters").await;
    assert!(text(&died[0], "topic") == topic && (1..=10).contains(&number(&died[0], "dead")));
    assert!(text(&died[0], "text").starts_with(&format!("dueq: messages of {topic} die: ")));

    redis.kill9();
    told(&hook, "redis_away").await;
    redis.restart().await;
    told(&hook, "redis_back").await;
    let calls = hook.calls().len();
    for event in ["host_failing", "host_back", "redis_back", "dead_letters"] {
        let told = told(&hook, event).await;
        assert!(told.len() <= 1 + usize::from(event == "host_failing"), "{told:?}");
    }
    assert!(calls <= 8, "{calls}");
    for dueq in &all {
        assert!(!dueq.log().contains("secret-path"), "{}", dueq.log());
    }
}
