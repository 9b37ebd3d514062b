//! leaseMessages without waiting: who gets what, and for how long.

use serde_json::{Value, json};

use crate::facts::{granted_ms, ids};
use crate::harness::*;

#[tokio::test]
async fn a_leased_message_says_all_that_its_holder_needs() {
    let (client, topic) = (client().await, topic("lease"));
    let message = json!({"payload": {"a": 1}, "priority": 5, "headers": {"x": "y"}});
    let sent = client.publish(&topic, message).await.expect(201).json();
    let before = shared().await.redis.time_ms().await;
    let leased = client.lease_one(&topic).await;
    let after = shared().await.redis.time_up_ms().await;
    for name in ["id", "topic", "published_at", "due_at"] {
        assert_eq!(leased[name], sent[name], "{name}");
    }
    assert_eq!(leased["payload"], json!({"a": 1}));
    assert_eq!(leased["headers"], json!({"x": "y"}));
    assert_eq!(leased["priority"], 5);
    assert_eq!(leased["attempt"], 1);
    assert_eq!(leased["attempts_left"], 9);
    let token = text(&leased, "lease_token");
    assert!(!token.is_empty() && token.len() <= 64, "{token}");
    assert!((29_000..=30_000).contains(&number(&leased, "lease_ms")), "{leased}");
    assert!((before..=after).contains(&granted_ms(&leased, 30_000)), "{before} {leased} {after}");
}

#[tokio::test]
async fn many_leases_at_once_all_get_what_they_want_while_there_is_enough() {
    let (client, topic) = (client().await, topic("crowd"));
    let publishes = (0..2_000).map(|i| client.published(&topic, json!({"payload": i})));
    futures_util::future::join_all(publishes).await;
    let leases = (0..40).map(|_| client.leased(&topic, json!({"max_messages": 50})));
    let crowd = futures_util::future::join_all(leases).await;
    let sizes: Vec<_> = crowd.iter().map(Vec::len).collect();
    assert!(sizes.iter().all(|size| *size == 50), "{sizes:?}");
    let mut all: Vec<_> = crowd.iter().flatten().map(|message| text(message, "id")).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2_000);
}

#[tokio::test]
async fn the_body_may_be_left_out() {
    let (client, topic) = (client().await, topic("lease"));
    for _ in 0..3 {
        client.published(&topic, json!({"payload": 1})).await;
    }
    let path = format!("/topics/{topic}/lease");
    for answer in [
        client.send("POST", &path, &[], None).await,
        client.post_text(&path, "").await,
        client.post_text(&path, "{}").await,
    ] {
        let answer = answer.expect(200).json();
        assert_eq!(answer["messages"].as_array().map(Vec::len), Some(1), "{answer}");
        assert_eq!(answer["acks"], json!([]));
    }
}

#[tokio::test]
async fn an_empty_topic_answers_at_once_and_empty() {
    let (client, topic) = (client().await, topic("lease"));
    let answer = client.lease(&topic, json!({})).await.expect(200).json();
    assert_eq!(answer, json!({"messages": [], "acks": []}));
}

#[tokio::test]
async fn leasing_from_a_topic_that_does_not_exist_makes_none() {
    let (client, topic) = (client().await, topic("lease"));
    assert!(client.leased(&topic, json!({})).await.is_empty());
    client.topic(&topic).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn at_most_max_messages_are_granted() {
    let (client, topic) = (client().await, topic("lease"));
    for n in 0..5 {
        client.published(&topic, json!({"payload": n})).await;
    }
    assert_eq!(client.leased(&topic, json!({"max_messages": 3})).await.len(), 3);
    assert_eq!(client.leased(&topic, json!({"max_messages": 3})).await.len(), 2);
}

#[tokio::test]
async fn a_thousand_messages_go_into_one_answer() {
    let (client, topic) = (client().await, topic("lease"));
    let sends = (0..1000).map(|n| client.published(&topic, json!({"payload": n})));
    let mut sent = futures_util::future::join_all(sends).await;
    // A lease that may wait is not cut short on a busy machine.
    let want = json!({"max_messages": 1000, "wait_ms": 20_000});
    let mut got = ids(&client.leased(&topic, want).await);
    sent.sort();
    got.sort();
    assert_eq!(got, sent);
}

#[tokio::test]
async fn max_bytes_stops_before_it_would_be_passed_but_never_below_one() {
    let (client, topic) = (client().await, topic("lease"));
    let payload = "x".repeat(98); // 100 bytes with its quotes
    let mut sent = Vec::new();
    for _ in 0..6 {
        sent.push(client.published(&topic, json!({"payload": payload})).await);
    }
    let mut got = Vec::new();
    for (max_bytes, count) in [(250, 2), (1, 1), (200, 2), (199, 1)] {
        let want = json!({"max_messages": 10, "max_bytes": max_bytes});
        let leased = client.leased(&topic, want).await;
        assert_eq!(leased.len(), count, "max_bytes {max_bytes}");
        got.extend(ids(&leased));
    }
    assert_eq!(got, sent, "in the order of publishing all the same");
}

#[tokio::test]
async fn an_answer_holds_four_mebibytes_of_payload_unless_told() {
    let (client, topic) = (client().await, topic("lease"));
    let body = vec![b'x'; 262_144];
    for _ in 0..18 {
        client.publish_raw(&topic, "", None, &body).await.expect(201);
    }
    let want = json!({"max_messages": 1000, "wait_ms": 20_000});
    assert_eq!(client.leased(&topic, want).await.len(), 16);
    let more = json!({"max_messages": 1000, "max_bytes": 16_777_216, "wait_ms": 20_000});
    assert_eq!(client.leased(&topic, more).await.len(), 2);
}

#[tokio::test]
async fn a_lease_lasts_as_long_as_asked() {
    let (client, topic) = (client().await, topic("lease"));
    for lease_ms in [1000, 5000, 43_200_000] {
        client.published(&topic, json!({"payload": 1})).await;
        let before = shared().await.redis.time_ms().await;
        let leased = client.lease_one_with(&topic, json!({"lease_ms": lease_ms})).await;
        let after = shared().await.redis.time_up_ms().await;
        let granted = granted_ms(&leased, lease_ms);
        assert!((before..=after).contains(&granted), "{before} {leased} {after}");
        assert!(number(&leased, "lease_ms") <= lease_ms, "{leased}");
    }
}

#[tokio::test]
async fn acks_in_a_lease_request_are_answered_in_order_and_fail_nothing() {
    let (client, topic, other) = (client().await, topic("lease"), topic("lease-other"));
    for target in [&topic, &topic, &topic, &topic, &other] {
        client.published(target, json!({"payload": 1})).await;
    }
    let held = client.leased(&topic, json!({"max_messages": 3})).await;
    let elsewhere = client.lease_one(&other).await;
    let ack = |id: &Value, token: &Value| json!({"id": id, "lease_token": token});
    let acks = json!([
        ack(&held[0]["id"], &held[0]["lease_token"]),
        ack(&held[1]["id"], &json!("forged")),
        ack(&json!(unknown_id()), &held[2]["lease_token"]),
        ack(&held[0]["id"], &held[0]["lease_token"]),
        ack(&elsewhere["id"], &elsewhere["lease_token"]),
        ack(&held[2]["id"], &held[1]["lease_token"]),
    ]);
    let answer = client.lease(&topic, json!({"acks": acks})).await.expect(200).json();
    let expected =
        ["ok", "lease_lost", "message_not_found", "message_not_found", "ok", "lease_lost"];
    let seen: Vec<(&Value, &str)> = answer["acks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|ack| (&ack["id"], text(ack, "status")))
        .collect();
    let wanted: Vec<(&Value, &str)> =
        acks.as_array().unwrap().iter().zip(expected).map(|(ack, s)| (&ack["id"], s)).collect();
    assert_eq!(seen, wanted);
    assert_eq!(answer["messages"].as_array().map(Vec::len), Some(1), "the fourth: {answer}");
    client.get(text(&elsewhere, "id")).await.problem(404, "message_not_found");
    client.ack_leased(&held[1]).await.expect(204);
}

#[tokio::test]
async fn a_thousand_acks_fit_into_one_lease_request() {
    let (client, topic) = (client().await, topic("lease"));
    let sends = (0..1000).map(|n| client.published(&topic, json!({"payload": n})));
    futures_util::future::join_all(sends).await;
    let held = client.leased(&topic, json!({"max_messages": 1000, "wait_ms": 20_000})).await;
    let acks: Vec<Value> =
        held.iter().map(|m| json!({"id": m["id"], "lease_token": m["lease_token"]})).collect();
    let answer = client.lease(&topic, json!({"acks": acks})).await.expect(200).json();
    let done = answer["acks"].as_array().unwrap();
    assert_eq!(done.len(), 1000);
    assert!(done.iter().all(|ack| ack["status"] == "ok"), "{answer}");
    assert_eq!(client.total(&topic, "acked").await, 1000);
}

#[tokio::test]
async fn acks_are_done_before_the_wait() {
    let (client, topic, empty) = (client().await, topic("lease"), topic("lease-empty"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    let ack = json!({"id": id, "lease_token": held["lease_token"]});
    let poller = client.clone();
    let poll = tokio::spawn(async move {
        poller.lease(&empty, json!({"acks": [ack], "wait_ms": 3000})).await.expect(200).json()
    });
    eventually("the ack", || async { (client.get(&id).await.status == 404).then_some(()) }).await;
    assert!(!poll.is_finished(), "it still waits");
    assert_eq!(poll.await.unwrap()["acks"], json!([{"id": id, "status": "ok"}]));
}

#[tokio::test]
async fn due_at_after_a_nack_is_the_instant_at_which_it_came_back() {
    let (client, topic) = (client().await, topic("lease"));
    client.published(&topic, json!({"payload": 1})).await;
    let first = client.lease_one(&topic).await;
    let nack = client.nack_leased(&first, json!({"delay_ms": 300})).await.expect(200);
    let second = client.lease_one(&topic).await;
    assert_eq!(second["due_at"], nack.json()["due_at"]);
    assert_eq!(second["published_at"], first["published_at"]);
    assert_eq!((&second["attempt"], &second["attempts_left"]), (&json!(2), &json!(8)));
}

#[tokio::test]
async fn due_at_after_an_expired_lease_is_its_deadline() {
    let (client, topic) = (client().await, topic("lease"));
    client.published(&topic, json!({"payload": 1})).await;
    let first = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    let second = client.lease_one(&topic).await;
    assert_eq!(second["due_at"], first["lease_expires_at"]);
    assert_eq!((&second["attempt"], &second["attempts_left"]), (&json!(2), &json!(8)));
    assert!(granted_ms(&second, 30_000) >= instant_ms(text(&first, "lease_expires_at")));
}
