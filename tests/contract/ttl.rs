//! `ttl_ms`: how long after it first fell due a message may be granted, and what starts that anew.

use serde_json::{Value, json};

use crate::facts::{counted, gone, killed, topic_in_balance};
use crate::harness::*;

/// The message is there until `end` and gone from then on, by Redis's clock and without anybody
/// leasing.
async fn expires_at(client: &Client, id: &str, end: i64) {
    let redis = &shared().await.redis;
    eventually("its expiry", || async {
        let before = redis.time_ms().await;
        let answer = client.get(id).await;
        let after = redis.time_up_ms().await;
        if answer.status == 200 {
            assert!(before <= end, "there {} ms after its end: {answer}", before - end);
            return None;
        }
        assert!(after >= end, "gone {} ms before its end: {answer}", end - after);
        answer.problem(404, "message_not_found");
        Some(())
    })
    .await;
}

/// Waits until the topic has counted this many expired ones.
async fn expired(client: &Client, topic: &str, count: i64) {
    eventually("the expired are counted", || async {
        (client.total(topic, "expired").await == count).then_some(())
    })
    .await;
    topic_in_balance(client, topic).await;
}

/// Waits until Redis's clock has passed this instant.
async fn passes(instant: i64) {
    let redis = &shared().await.redis;
    eventually("time", || async { (redis.time_ms().await > instant).then_some(()) }).await;
}

#[tokio::test]
async fn a_message_expires_its_ttl_after_it_fell_due() {
    for (delay, priority) in [(0, 0), (500, 0), (0, 9), (500, 9)] {
        let (client, topic) = (client().await, topic("ttl"));
        let message = json!({"payload": 1, "ttl_ms": 400, "delay_ms": delay, "priority": priority});
        let sent = client.publish(&topic, message).await.expect(201);
        expires_at(&client, &sent.text("id"), sent.instant("due_at") + 400).await;
        assert!(client.leased(&topic, json!({})).await.is_empty());
        expired(&client, &topic, 1).await;
        counted(&client, &topic, &[("counts", "ready", 0), ("counts", "delayed", 0)]).await;
    }
}

#[tokio::test]
async fn a_topic_gives_a_ttl_to_messages_that_name_none() {
    let (client, topic) = (client().await, topic("ttl"));
    client.configure(&topic, json!({"ttl_ms": 400})).await;
    let sent = client.publish(&topic, json!({"payload": 1})).await.expect(201);
    let own = client.published(&topic, json!({"payload": 1, "ttl_ms": 600_000})).await;
    expires_at(&client, &sent.text("id"), sent.instant("due_at") + 400).await;
    assert_eq!(client.lease_one(&topic).await["id"], own);
    expired(&client, &topic, 1).await;
}

#[tokio::test]
async fn a_change_of_the_topics_ttl_reaches_messages_that_named_none() {
    let (client, topic) = (client().await, topic("ttl"));
    let mut plain = Vec::new();
    for priority in [0, 9] {
        let message = json!({"payload": 1, "priority": priority});
        plain.push(client.publish(&topic, message).await.expect(201));
    }
    let own = json!({"payload": 1, "ttl_ms": 600_000});
    let own = client.published(&topic, own).await;
    let delayed = client.publish(&topic, json!({"payload": 1, "delay_ms": 900})).await.expect(201);
    client.reconfigure(&topic, json!({"ttl_ms": 500})).await;
    for sent in plain.iter().chain([&delayed]) {
        expires_at(&client, &sent.text("id"), sent.instant("due_at") + 500).await;
    }
    assert_eq!(client.state(&own).await, "ready");
    expired(&client, &topic, 3).await;
    // And back: without a TTL nothing expires.
    client.reconfigure(&topic, json!({"ttl_ms": 800})).await;
    let kept = client.publish(&topic, json!({"payload": 1})).await.expect(201);
    client.reconfigure(&topic, json!({"ttl_ms": null})).await;
    passes(kept.instant("due_at") + 1000).await;
    assert_eq!(client.state(&kept.text("id")).await, "ready");
    expired(&client, &topic, 3).await;
}

#[tokio::test]
async fn a_ttl_shortened_to_the_past_ends_a_message_at_once() {
    let (client, topic) = (client().await, topic("ttl"));
    let sent = client.publish(&topic, json!({"payload": 1})).await.expect(201);
    passes(sent.instant("due_at") + 20).await;
    client.reconfigure(&topic, json!({"ttl_ms": 10})).await;
    gone(&client, &sent.text("id")).await;
    assert!(client.leased(&topic, json!({})).await.is_empty());
    expired(&client, &topic, 1).await;
}

#[tokio::test]
async fn a_lease_is_not_cut_short_by_the_ttl() {
    let (client, topic) = (client().await, topic("ttl"));
    let sent = client.publish(&topic, json!({"payload": 1, "ttl_ms": 1000})).await.expect(201);
    let held = client.lease_one(&topic).await;
    passes(sent.instant("due_at") + 1100).await;
    assert_eq!(client.state(&sent.text("id")).await, "leased");
    client.extend_leased(&held, 60_000).await.expect(200);
    client.ack_leased(&held).await.expect(204);
    counted(&client, &topic, &[("totals", "acked", 1), ("totals", "expired", 0)]).await;
}

#[tokio::test]
async fn a_nack_after_the_ttl_expires_the_message() {
    for (more, total) in [
        (json!({}), "nacked"),
        (json!({"delay_ms": 0}), "nacked"),
        (json!({"delay_ms": 60_000, "reason": "late"}), "nacked"),
        (json!({"release": true}), "released"),
        (json!({"release": true, "delay_ms": 10}), "released"),
    ] {
        let (client, topic) = (client().await, topic("ttl"));
        let message = json!({"payload": 1, "ttl_ms": 1000, "key": "k"});
        let sent = client.publish(&topic, message).await.expect(201);
        let held = client.lease_one(&topic).await;
        passes(sent.instant("due_at") + 1000).await;
        let answer = client.nack_leased(&held, more).await.expect(200);
        assert_eq!(answer.text("state"), "expired");
        assert_eq!((answer.text("id"), answer.number("attempt")), (sent.text("id"), 1));
        assert!(answer.json().get("due_at").is_none(), "{answer}");
        gone(&client, &sent.text("id")).await;
        client.get_by_key(&topic, "k").await.problem(404, "message_not_found");
        client.nack_leased(&held, json!({})).await.problem(404, "message_not_found");
        let wanted = [("totals", total, 1), ("totals", "expired", 1), ("totals", "dead", 0)];
        counted(&client, &topic, &wanted).await;
    }
}

#[tokio::test]
async fn a_ttl_goes_on_through_redelivery() {
    for more in [json!({"delay_ms": 0}), json!({"delay_ms": 60_000}), json!({"release": true})] {
        let (client, topic) = (client().await, topic("ttl"));
        let sent = client.publish(&topic, json!({"payload": 1, "ttl_ms": 1200})).await.expect(201);
        let held = client.lease_one(&topic).await;
        client.nack_leased(&held, more).await.expect(200);
        expires_at(&client, &sent.text("id"), sent.instant("due_at") + 1200).await;
        assert!(client.leased(&topic, json!({})).await.is_empty());
        expired(&client, &topic, 1).await;
    }
}

#[tokio::test]
async fn a_topics_ttl_set_before_the_first_grant_counts_from_the_first_due_time() {
    for change in [json!({"ttl_ms": 900}), json!({"ttl_ms": 500})] {
        let (client, topic) = (client().await, topic("ttl"));
        client.configure(&topic, json!({"ttl_ms": 700})).await;
        let sent = client.publish(&topic, json!({"payload": 1})).await.expect(201);
        let held = client.lease_one(&topic).await;
        passes(sent.instant("due_at") + 50).await;
        client.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
        client.reconfigure(&topic, change.clone()).await; // and it may change meanwhile
        let end = sent.instant("due_at") + number(&change, "ttl_ms");
        expires_at(&client, &sent.text("id"), end).await;
        expired(&client, &topic, 1).await;
    }
}

#[tokio::test]
async fn a_topics_ttl_set_after_a_grant_counts_from_the_due_time_in_force() {
    let (client, topic) = (client().await, topic("ttl"));
    let sent = client.publish(&topic, json!({"payload": 1})).await.expect(201);
    let held = client.lease_one(&topic).await;
    passes(sent.instant("due_at") + 50).await;
    let again = client.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
    client.reconfigure(&topic, json!({"ttl_ms": 700})).await;
    expires_at(&client, &sent.text("id"), again.instant("due_at") + 700).await;
    expired(&client, &topic, 1).await;
}

#[tokio::test]
async fn a_ttl_that_is_over_goes_before_the_last_attempt() {
    let (client, topic) = (client().await, topic("ttl"));
    let message = json!({"payload": 1, "ttl_ms": 1000, "max_attempts": 1});
    let sent = client.publish(&topic, message.clone()).await.expect(201);
    let held = client.lease_one(&topic).await;
    passes(sent.instant("due_at") + 1000).await;
    let answer = client.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
    assert_eq!(answer.text("state"), "expired");
    let sent = client.publish(&topic, message).await.expect(201);
    let held = client.lease_one_with(&topic, json!({"lease_ms": 2000})).await;
    expires_at(&client, &sent.text("id"), instant_ms(text(&held, "lease_expires_at"))).await;
    expired(&client, &topic, 2).await;
    counted(&client, &topic, &[("totals", "dead", 0), ("counts", "dead", 0)]).await;
}

#[tokio::test]
async fn a_lease_that_outlives_the_ttl_ends_the_message() {
    let (client, topic) = (client().await, topic("ttl"));
    let sent = client.publish(&topic, json!({"payload": 1, "ttl_ms": 1000})).await.expect(201);
    let held = client.lease_one_with(&topic, json!({"lease_ms": 2000})).await;
    expires_at(&client, &sent.text("id"), instant_ms(text(&held, "lease_expires_at"))).await;
    assert!(client.leased(&topic, json!({})).await.is_empty());
    client.ack_leased(&held).await.problem(404, "message_not_found");
    expired(&client, &topic, 1).await;
    counted(&client, &topic, &[("totals", "lease_expired", 1), ("totals", "dead", 0)]).await;
}

#[tokio::test]
async fn a_dead_message_does_not_expire_and_a_redrive_starts_its_ttl_anew() {
    let (client, topic) = (client().await, topic("ttl"));
    let id = killed(&client, &topic, json!({"payload": 1, "ttl_ms": 700})).await;
    passes(shared().await.redis.time_ms().await + 800).await;
    assert_eq!(client.state(&id).await, "dead");
    let due = client.redrive(&id).await.expect(200).instant("due_at");
    expires_at(&client, &id, due + 700).await;
    expired(&client, &topic, 1).await;
}

#[tokio::test]
async fn a_replace_starts_the_ttl_anew_with_what_it_names() {
    for (ttl, end) in [(Some(900), Some(900)), (None, None)] {
        let (client, topic) = (client().await, topic("ttl"));
        let first = json!({"payload": 1, "key": "k", "ttl_ms": 600});
        let sent = client.publish(&topic, first).await.expect(201);
        passes(sent.instant("due_at") + 200).await;
        let mut second = json!({"payload": 2, "key": "k", "on_duplicate": "replace"});
        if let Some(ttl) = ttl {
            second["ttl_ms"] = json!(ttl);
        }
        let due = client.publish(&topic, second).await.expect(200).instant("due_at");
        match end {
            Some(end) => expires_at(&client, &sent.text("id"), due + end).await,
            None => {
                passes(due + 700).await;
                assert_eq!(client.lease_one(&topic).await["payload"], 2);
            }
        }
    }
}

#[tokio::test]
async fn a_changed_due_time_starts_the_ttl_anew_and_another_change_does_not() {
    for (change, anew) in [
        (json!({"delay_ms": 0}), true),
        (json!({"delay_ms": 300}), true),
        (json!({"priority": 4}), false),
        (json!({"payload": 2}), false),
    ] {
        let (client, topic) = (client().await, topic("ttl"));
        let sent = client.publish(&topic, json!({"payload": 1, "ttl_ms": 900})).await.expect(201);
        passes(sent.instant("due_at") + 300).await;
        let changed = client.update(&sent.text("id"), change).await.expect(200);
        let due = if anew { changed.instant("due_at") } else { sent.instant("due_at") };
        expires_at(&client, &sent.text("id"), due + 900).await;
        expired(&client, &topic, 1).await;
    }
}

#[tokio::test]
async fn a_ttl_is_changed_by_an_update_and_null_gives_back_the_topics() {
    let (client, topic) = (client().await, topic("ttl"));
    client.configure(&topic, json!({"ttl_ms": 900})).await;
    let publish = async |message: Value| client.publish(&topic, message).await.expect(201);
    let none = publish(json!({"payload": 1})).await;
    let own = publish(json!({"payload": 1, "ttl_ms": 600_000})).await;
    for (sent, change, ttl) in
        [(&none, json!({"ttl_ms": 400}), 400), (&own, json!({"ttl_ms": null}), 900)]
    {
        client.update(&sent.text("id"), change).await.expect(200);
        expires_at(&client, &sent.text("id"), sent.instant("due_at") + ttl).await;
    }
    expired(&client, &topic, 2).await;
}

#[tokio::test]
async fn what_has_expired_cannot_be_changed_any_more() {
    let (client, topic) = (client().await, topic("ttl"));
    let message = json!({"payload": 1, "ttl_ms": 10});
    let sent = client.publish(&topic, message).await.expect(201);
    passes(sent.instant("due_at") + 10).await;
    let id = sent.text("id");
    client.update(&id, json!({"delay_ms": 0})).await.problem(404, "message_not_found");
    client.redrive(&id).await.problem(404, "message_not_found");
    client.delete(&id).await.problem(404, "message_not_found");
    expired(&client, &topic, 1).await;
}

#[tokio::test]
async fn a_message_that_died_before_its_ttl_was_over_is_dead_however_late_anybody_looks() {
    let (client, topic) = (client().await, topic("ttl"));
    let message = json!({"payload": 1, "ttl_ms": 1200, "max_attempts": 1});
    let sent = client.publish(&topic, message).await.expect(201);
    client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    passes(sent.instant("due_at") + 1200).await;
    assert_eq!(client.state(&sent.text("id")).await, "dead");
    counted(&client, &topic, &[("totals", "dead", 1), ("totals", "expired", 0)]).await;
}
