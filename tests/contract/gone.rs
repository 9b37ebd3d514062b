//! Who goes away while it waits: its client, or the instance. No message is lost to its lease for it.

use std::time::Instant;

use serde_json::{Value, json};

use crate::facts::{ids, topic_in_balance};
use crate::harness::*;

#[tokio::test]
async fn a_client_that_goes_away_leaves_the_room() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("poll"));
    let wires =
        [Wire::long_poll(dueq.addr(), &topic).await, Wire::long_poll(dueq.addr(), &topic).await];
    waiters(&client, 2).await;
    drop(wires);
    waiters(&client, 0).await;
    client.published(&topic, json!({"payload": 1})).await;
    let message = client.lease_one(&topic).await;
    assert_eq!(message["attempt"], 1, "nobody had it meanwhile");
}

#[tokio::test]
async fn a_client_that_has_sent_more_than_its_request_is_missed_all_the_same() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("gone"));
    let next = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", client.addr());
    for behind in [["\r\n", ""], [next.as_str(), ""], [next.as_str(), next.as_str()]] {
        let mut wire = Wire::long_poll(dueq.addr(), &topic).await;
        for bytes in behind {
            assert!(wire.write(bytes.as_bytes()).await);
            waiters(&client, 1).await;
        }
        drop(wire);
        waiters(&client, 0).await;
        client.published(&topic, json!({"payload": 1})).await;
        let message = client.lease_one(&topic).await;
        assert_eq!(message["attempt"], 1, "nobody had it meanwhile");
        client.ack_leased(&message).await.expect(204);
    }
}

#[tokio::test]
async fn a_message_granted_to_a_client_that_is_gone_is_ready_again_at_once() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("poll"));
    for n in 0..30 {
        let wire = Wire::long_poll(dueq.addr(), &topic).await;
        waiters(&client, 1).await;
        drop(wire);
        let id = client.published(&topic, json!({"payload": n})).await;
        let published = Instant::now();
        let message = client.lease_one(&topic).await;
        assert_eq!(message["id"], id);
        assert!(published.elapsed() < WOKEN, "{:?}", published.elapsed());
        assert_eq!(message["attempts_left"], 9, "a grant that nobody saw does not count");
        client.ack_leased(&message).await.expect(204);
    }
    let seen = crate::facts::topic_in_balance(&client, &topic).await;
    assert_eq!(seen["totals"]["acked"], 30);
}

/// Leases until it has this many, soon.
async fn lease_all(client: &Client, topic: &str, count: usize) -> Vec<Value> {
    let (start, mut messages) = (Instant::now(), Vec::new());
    while messages.len() < count && start.elapsed() < WOKEN {
        let want = json!({"max_messages": 1000, "wait_ms": 200});
        messages.extend(client.leased(topic, want).await);
    }
    messages
}

#[tokio::test]
async fn a_crowd_that_goes_away_takes_nothing_along() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("gone"));
    for _ in 0..3 {
        let polls = (0..100).map(|_| Wire::long_poll(dueq.addr(), &topic));
        let crowd = futures_util::future::join_all(polls).await;
        waiters(&client, 100).await;
        drop(crowd);
        let sends = (0..100).map(|n| client.published(&topic, json!({"payload": n})));
        let mut sent = futures_util::future::join_all(sends).await;
        let messages = lease_all(&client, &topic, 100).await;
        let mut got = ids(&messages);
        sent.sort();
        got.sort();
        assert_eq!(got, sent, "{} of 100 came back", got.len());
        let acks = messages.iter().map(|message| client.ack_leased(message));
        for answer in futures_util::future::join_all(acks).await {
            answer.expect(204);
        }
    }
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_message_that_is_returned_keeps_its_attempts_and_its_place() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("gone"));
    let wire = Wire::long_poll(dueq.addr(), &topic).await;
    waiters(&client, 1).await;
    drop(wire);
    let message = json!({"payload": 1, "max_attempts": 1, "priority": 5});
    let first = client.publish(&topic, message).await.expect(201);
    client.published(&topic, json!({"payload": 2, "priority": 5})).await;
    let messages = lease_all(&client, &topic, 2).await;
    assert_eq!(messages[0]["id"], first.json()["id"], "it was first, and is");
    assert_eq!(messages[0]["attempts_left"], 0, "its only attempt is not used up");
    assert_eq!(messages[0]["due_at"], first.json()["due_at"]);
    client.ack_leased(&messages[0]).await.expect(204);
    assert_eq!(topic_in_balance(&client, &topic).await["totals"]["dead"], 0);
}

#[tokio::test]
async fn a_stop_leaves_no_message_with_a_poll_that_it_ended() {
    let (client, topic) = (client().await, topic("gone"));
    for _ in 0..5 {
        let mut dueq = instance().await;
        let polls: Vec<_> = (0..20)
            .map(|_| {
                let (client, topic) = (dueq.client(), topic.clone());
                let want = Some(b"{\"wait_ms\":20000}".to_vec());
                tokio::spawn(async move {
                    let kind = [("content-type", "application/json")];
                    client.try_send("POST", &format!("/topics/{topic}/lease"), &kind, want).await
                })
            })
            .collect();
        waiters(&dueq.client(), 20).await;
        let sends = (0..20).map(|n| client.published(&topic, json!({"payload": n})));
        let (mut sent, code) = tokio::join!(futures_util::future::join_all(sends), dueq.term());
        assert_eq!(code, 0, "{}", dueq.log());
        let mut messages = Vec::new();
        for poll in polls {
            let answer = poll.await.unwrap().expect("every poll is answered").expect(200);
            messages.extend(answer.json()["messages"].as_array().unwrap().clone());
        }
        messages.extend(lease_all(&client, &topic, 20 - messages.len()).await);
        let mut got = ids(&messages);
        sent.sort();
        got.sort();
        assert_eq!(got, sent, "{} of 20 were handed out", got.len());
    }
}
