//! Rates: how many messages a key may publish in a second, and what happens beyond.

use serde_json::json;

use super::scopes::KeyFile;
use crate::harness::*;

#[tokio::test]
async fn a_key_with_a_rate_publishes_so_many_messages_a_second_and_others_are_free() {
    let mine = topic("quota");
    let mut file = KeyFile::new();
    file.add(
        "slow",
        &[
            &format!("publish:{mine}"),
            "publish:_callbacks",
            "configure:*",
            "consume:*",
            "rate:publish=5/s",
        ],
    );
    file.add("free", &["publish:*"]);
    let dueq = file.start().await;
    let (slow, free) = (file.client(&dueq, "slow"), file.client(&dueq, "free"));
    let full = |answer: Answer| {
        let answer = answer.problem(429, "rate_limited");
        assert_eq!(answer.text("detail"), "the key slow may publish 5 messages a second");
        assert_eq!(answer.header("ratelimit-policy"), "\"publish\";q=5;w=1");
        let seconds: u32 = answer.header("retry-after").parse().unwrap();
        assert_eq!(answer.header("ratelimit"), format!("\"publish\";r=0;t={seconds}"));
        seconds
    };
    let schedule = format!("/schedules/{mine}");
    let daily = json!({"cron": "0 0 1 1 *", "topic": mine, "message": {"payload": 1}});
    slow.send_json("PUT", &schedule, &daily).await.expect(201);
    // More than a second's worth passes at once, and is waited for afterwards.
    let messages: Vec<_> = (0..300).map(|number| json!({"payload": number})).collect();
    slow.publish_batch(&mine, &messages).await.expect(200);
    assert!(full(slow.publish(&mine, json!({"payload": 1})).await) > 30);
    full(slow.publish_raw(&mine, "", None, b"x").await);
    full(slow.publish_batch(&mine, &messages).await);
    full(slow.send("POST", &format!("{schedule}/trigger"), &[], None).await);
    full(
        slow.post("/callbacks", &json!({"url": "http://example.com/", "delay_ms": 3_600_000}))
            .await,
    );
    slow.lease(&mine, json!({})).await.expect(200);
    for _ in 0..20 {
        free.publish(&mine, json!({"payload": 1})).await.expect(201);
    }
    // What is refused otherwise costs nothing, and is refused first.
    slow.publish(&mine, json!({})).await.problem(422, "invalid_input");
    slow.publish("quota-others", json!({"payload": 1})).await.problem(403, "not_allowed");
}

#[tokio::test]
async fn a_rate_that_is_used_up_comes_back_with_time() {
    let mine = topic("quota");
    let file = KeyFile::of(&[("slow", "publish:* rate:publish=20/s")]);
    let dueq = file.start().await;
    let slow = file.client(&dueq, "slow");
    let messages: Vec<_> = (0..20).map(|number| json!({"payload": number})).collect();
    slow.publish_batch(&mine, &messages).await.expect(200);
    eventually("another message", || async {
        (slow.publish(&mine, json!({"payload": 1})).await.status == 201).then_some(())
    })
    .await;
}
