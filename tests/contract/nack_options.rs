//! What a nack may say beside its delay: why, that the message is dead at once, or that it is given
//! back unworked.

use serde_json::{Value, json};

use crate::facts::{counted, topic_in_balance};
use crate::harness::*;

#[tokio::test]
async fn a_reason_is_the_messages_last_error() {
    let (client, topic) = (client().await, topic("reason"));
    let id = client.published(&topic, json!({"payload": 1, "max_attempts": 1000})).await;
    assert!(client.get(&id).await.expect(200).json().get("last_error").is_none());
    for reason in [
        "connection refused".to_owned(),
        "x".repeat(1024),
        "😀".repeat(1024),
        "\"quoted\"\\ {a:0}\r\n\u{0}\u{1b}[31m é".to_owned(),
    ] {
        let held = client.lease_one(&topic).await;
        let more = json!({"delay_ms": 0, "reason": reason});
        client.nack_leased(&held, more).await.expect(200);
        let seen = client.get(&id).await.expect(200).json();
        assert_eq!(seen["last_error"], reason);
        let events = seen["events"].as_array().unwrap();
        let nacked = events.iter().rfind(|event| event["kind"] == "nacked").unwrap();
        assert_eq!((&nacked["reason"], &nacked["attempt"]), (&json!(reason), &held["attempt"]));
    }
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_message_that_cannot_succeed_is_dead_at_once() {
    let (client, topic) = (client().await, topic("dead"));
    for message in [
        json!({"payload": 1}),
        json!({"payload": 1, "priority": 4}),
        json!({"payload": 1, "max_attempts": 1}),
        json!({"payload": 1, "max_attempts": 1000, "ttl_ms": 600_000, "key": "k"}),
    ] {
        let id = client.published(&topic, message).await;
        let held = client.lease_one(&topic).await;
        let more = json!({"dead": true, "reason": "no such customer"});
        let answer = client.nack_leased(&held, more).await.expect(200);
        assert_eq!((answer.text("id"), answer.text("state")), (id.clone(), "dead".into()));
        assert_eq!(answer.number("attempt"), 1);
        assert!(answer.json().get("due_at").is_none(), "{answer}");
        let seen = client.get(&id).await.expect(200);
        assert_eq!(
            (seen.text("state"), seen.text("last_error").as_str()),
            ("dead".into(), "no such customer")
        );
        client.nack_leased(&held, json!({"dead": true})).await.problem(409, "lease_lost");
    }
    assert!(client.leased(&topic, json!({})).await.is_empty());
    let wanted = [("counts", "dead", 4), ("totals", "dead", 4), ("totals", "nacked", 4)];
    counted(&client, &topic, &wanted).await;
}

#[tokio::test]
async fn a_release_gives_back_without_using_up_an_attempt() {
    for max_attempts in [1, 2, 10] {
        for priority in [0, 3] {
            let (client, topic) = (client().await, topic("release"));
            let message = json!({"payload": 1, "max_attempts": max_attempts, "priority": priority});
            let id = client.published(&topic, message).await;
            for attempt in 1..=12 {
                let held = client.lease_one(&topic).await;
                assert_eq!((&held["id"], number(&held, "attempt")), (&json!(id), attempt));
                assert_eq!(number(&held, "attempts_left"), max_attempts - 1);
                let more = json!({"release": true, "reason": "shutting down"});
                let answer = client.nack_leased(&held, more).await.expect(200);
                assert_eq!(answer.text("state"), "ready");
                assert_eq!(answer.number("attempt"), attempt);
                let seen = client.get(&id).await.expect(200);
                assert_eq!(
                    (seen.text("state"), seen.number("attempts_left")),
                    ("ready".into(), max_attempts)
                );
                client
                    .nack_leased(&held, json!({"release": true}))
                    .await
                    .problem(409, "lease_lost");
            }
            let wanted =
                [("totals", "released", 12), ("totals", "nacked", 0), ("totals", "dead", 0)];
            counted(&client, &topic, &wanted).await;
        }
    }
}

#[tokio::test]
async fn failures_and_releases_are_counted_apart() {
    let (client, topic) = (client().await, topic("release"));
    let id = client.published(&topic, json!({"payload": 1, "max_attempts": 3})).await;
    let mut attempt = 0;
    for (more, left) in [
        (json!({"release": true}), 2),
        (json!({"delay_ms": 0}), 2),
        (json!({"release": true}), 1),
        (json!({"release": true, "delay_ms": 5}), 1),
        (json!({"delay_ms": 0}), 1),
        (json!({"release": true}), 0),
        (json!({"delay_ms": 0}), 0),
    ] {
        attempt += 1;
        let held = client.lease_one(&topic).await;
        let seen = (number(&held, "attempt"), number(&held, "attempts_left"));
        assert_eq!(seen, (attempt, left), "{held}");
        client.nack_leased(&held, more).await.expect(200);
    }
    let seen = client.get(&id).await.expect(200).json();
    assert_eq!((&seen["state"], &seen["attempts_left"]), (&json!("dead"), &json!(0)));
    counted(&client, &topic, &[("totals", "released", 4), ("totals", "nacked", 3)]).await;
}

#[tokio::test]
async fn a_release_with_a_delay_waits_that_long() {
    let (client, topic) = (client().await, topic("release"));
    for max_attempts in [10, 1] {
        let message = json!({"payload": 1, "max_attempts": max_attempts});
        let id = client.published(&topic, message).await;
        let held = client.lease_one(&topic).await;
        let before = shared().await.redis.time_ms().await;
        let more = json!({"release": true, "delay_ms": 60_000});
        let answer = client.nack_leased(&held, more).await.expect(200);
        let after = shared().await.redis.time_up_ms().await;
        assert_eq!(answer.text("state"), "delayed");
        let due = answer.instant("due_at");
        assert!((before + 60_000..=after + 60_000).contains(&due), "{before} {after} {answer}");
        assert_eq!(client.get(&id).await.expect(200).instant("due_at"), due);
    }
    counted(&client, &topic, &[("counts", "delayed", 2), ("totals", "released", 2)]).await;
}

#[tokio::test]
async fn a_released_message_goes_to_who_waits_at_once() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("release"));
    client
        .published(&topic, json!({"payload": 1, "backoff": {"kind": "fixed", "base_ms": 600_000}}))
        .await;
    let held = client.lease_one(&topic).await;
    let release = async {
        waiters(&client, 1).await;
        client.nack_leased(&held, json!({"release": true})).await.expect(200)
    };
    let (again, _) = tokio::join!(client.lease_one(&topic), release);
    assert_eq!((&again["id"], number(&again, "attempt")), (&held["id"], 2));
    client.ack_leased(&again).await.expect(204);
    topic_in_balance(&client, &topic).await;
}

/// What a nack may say, and what comes of it: a state, or the statuses of a refusal.
#[tokio::test]
async fn what_contradicts_itself_is_refused() {
    let (client, topic) = (client().await, topic("nack"));
    let refused: &[Value] = &[
        json!({"dead": true, "release": true}),
        json!({"dead": true, "delay_ms": 0}),
        json!({"dead": true, "delay_ms": 60_000}),
        json!({"dead": true, "release": true, "delay_ms": 1}),
    ];
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    for more in refused {
        let answer = client.nack_leased(&held, more.clone()).await.refused(422);
        assert!(answer.json()["errors"][0]["field"].is_string(), "{answer}");
        assert_eq!(client.state(text(&held, "id")).await, "leased", "{more}");
    }
    client.ack_leased(&held).await.expect(204);
    for (more, state) in [
        (json!({"dead": false, "release": false, "delay_ms": 60_000}), "delayed"),
        (json!({"dead": false}), "delayed"),
        (json!({"release": false}), "delayed"),
        (json!({"dead": true, "release": false, "delay_ms": null}), "dead"),
        (json!({"dead": false, "release": true}), "ready"),
        (json!({"dead": null, "release": null, "reason": null, "delay_ms": null}), "delayed"),
    ] {
        client.published(&topic, json!({"payload": 1})).await;
        let held = client.lease_one(&topic).await;
        let answer = client.nack_leased(&held, more.clone()).await.expect(200);
        assert_eq!(answer.text("state"), state, "{more}");
        client.delete(text(&held, "id")).await.expect(204);
    }
    counted(&client, &topic, &[("totals", "nacked", 5), ("totals", "released", 1)]).await;
}
