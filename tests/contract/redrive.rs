//! redriveMessage and redriveTopic: what is dead gets another budget of attempts.

use serde_json::json;

use crate::facts::{counted, dead_message, fail_attempts, ids, topic_in_balance};
use crate::harness::*;

#[tokio::test]
async fn a_dead_message_is_ready_again_with_a_fresh_budget() {
    for priority in [0, 6] {
        let (client, topic) = (client().await, topic("redrive"));
        let message = json!({
            "payload": {"a": 1}, "headers": {"x": "y"}, "priority": priority, "max_attempts": 2,
        });
        let id = client.published(&topic, message).await;
        fail_attempts(&client, &topic, 2).await;
        let before = shared().await.redis.time_ms().await;
        let answer = client.redrive(&id).await.expect(200);
        let after = shared().await.redis.time_up_ms().await;
        let seen = answer.json();
        assert_eq!(seen, client.get(&id).await.expect(200).json(), "the message");
        assert_eq!((&seen["id"], &seen["state"]), (&json!(id), &json!("ready")));
        assert_eq!((&seen["payload"], &seen["headers"]), (&json!({"a": 1}), &json!({"x": "y"})));
        assert_eq!((number(&seen, "priority"), number(&seen, "attempts_left")), (priority, 2));
        assert!((before..=after).contains(&answer.instant("due_at")), "{answer}");
        let held = client.lease_one(&topic).await;
        let numbers = (number(&held, "attempt"), number(&held, "attempts_left"));
        assert_eq!(numbers, (3, 1), "attempt numbers go on");
        client.nack_leased(&held, json!({"release": true})).await.expect(200);
        let held = client.lease_one(&topic).await;
        let numbers = (number(&held, "attempt"), number(&held, "attempts_left"));
        assert_eq!(numbers, (4, 1), "and a release is not counted in this budget either");
        client.nack_leased(&held, json!({"dead": true})).await.expect(200);
        client.redrive(&id).await.expect(200);
        counted(&client, &topic, &[("totals", "redriven", 2), ("totals", "dead", 2)]).await;
    }
}

#[tokio::test]
async fn every_budget_ends_in_death_again() {
    let (client, topic) = (client().await, topic("redrive"));
    let id = client.published(&topic, json!({"payload": 1, "max_attempts": 2})).await;
    for budget in 1..=3 {
        fail_attempts(&client, &topic, 2).await;
        let seen = client.get(&id).await.expect(200);
        assert_eq!((seen.text("state"), seen.number("attempts_left")), ("dead".into(), 0));
        if budget < 3 {
            client.redrive(&id).await.expect(200);
        }
    }
    let held = client.leased(&topic, json!({})).await;
    assert!(held.is_empty(), "{held:?}");
    let wanted = [("totals", "granted", 6), ("totals", "dead", 3), ("totals", "redriven", 2)];
    counted(&client, &topic, &wanted).await;
}

#[tokio::test]
async fn a_token_from_before_a_redrive_is_stale() {
    let (client, topic) = (client().await, topic("redrive"));
    let id = client.published(&topic, json!({"payload": 1, "max_attempts": 1})).await;
    let old = client.lease_one(&topic).await;
    client.nack_leased(&old, json!({})).await.expect(200);
    client.redrive(&id).await.expect(200);
    let new = client.lease_one(&topic).await;
    client.ack_leased(&old).await.problem(409, "lease_lost");
    client.extend_leased(&old, 60_000).await.problem(409, "lease_lost");
    client.ack_leased(&new).await.expect(204);
}

#[tokio::test]
async fn what_is_not_dead_is_not_redriven() {
    let (client, topic) = (client().await, topic("redrive"));
    let delayed = client.published(&topic, json!({"payload": 1, "delay_ms": 60_000})).await;
    client.published(&topic, json!({"payload": 1, "priority": 1})).await;
    let leased = text(&client.lease_one(&topic).await, "id").to_owned();
    let ready = client.published(&topic, json!({"payload": 1})).await;
    for (id, state) in [(&delayed, "delayed"), (&leased, "leased"), (&ready, "ready")] {
        client.redrive(id).await.problem(409, "message_not_dead");
        assert_eq!(client.state(id).await, state);
    }
    client.redrive(&unknown_id()).await.problem(404, "message_not_found");
    let dead = dead_message_beside(&client, &topic, &ready).await;
    client.redrive(&dead).await.expect(200);
    client.redrive(&dead).await.problem(409, "message_not_dead");
    counted(&client, &topic, &[("totals", "redriven", 1)]).await;
}

/// Kills the one ready message of the topic.
async fn dead_message_beside(client: &Client, topic: &str, ready: &str) -> String {
    let held = client.lease_one(topic).await;
    assert_eq!(held["id"], ready);
    client.nack_leased(&held, json!({"dead": true})).await.expect(200);
    ready.to_owned()
}

#[tokio::test]
async fn a_redriven_message_goes_to_who_waits() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("redrive"));
    for by_topic in [false, true] {
        let id = dead_message(&client, &topic).await;
        let redrive = async {
            waiters(&client, 1).await;
            if by_topic {
                client.redrive_topic(&topic, json!({})).await.expect(200)
            } else {
                client.redrive(&id).await.expect(200)
            }
        };
        let (held, _) = tokio::join!(client.lease_one(&topic), redrive);
        assert_eq!(held["id"], id);
        client.ack_leased(&held).await.expect(204);
    }
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_message_that_died_by_its_last_lease_is_redriven() {
    let (client, topic) = (client().await, topic("redrive"));
    let mut sent = Vec::new();
    for _ in 0..2 {
        let message = json!({"payload": 1, "max_attempts": 1});
        sent.push(client.published(&topic, message).await);
    }
    client.leased(&topic, json!({"max_messages": 2, "lease_ms": 1000})).await;
    let first = eventually("the lease's end", || async {
        let answer = client.redrive(&sent[0]).await;
        (answer.status != 409).then_some(answer)
    });
    assert_eq!(first.await.expect(200).text("state"), "ready");
    let rest = client.redrive_topic(&topic, json!({})).await.expect(200);
    assert_eq!((rest.number("redriven"), rest.number("remaining")), (1, 0));
    let held = client.leased(&topic, json!({"max_messages": 2})).await;
    assert_eq!(ids(&held), sent);
    counted(&client, &topic, &[("totals", "dead", 2), ("totals", "lease_expired", 2)]).await;
}

#[tokio::test]
async fn the_body_of_a_redrive_may_be_left_out_and_is_strict() {
    let (client, topic) = (client().await, topic("redrive"));
    let json_kind = Some("application/json");
    for (kind, body) in [(None, ""), (json_kind, ""), (json_kind, "{}"), (json_kind, " {} ")] {
        let id = dead_message(&client, &topic).await;
        let path = format!("/messages/{id}/redrive");
        let answer = client.post_bytes(&path, kind, body.as_bytes().to_vec()).await;
        assert_eq!(answer.status, 200, "{kind:?} {body:?}: {answer}");
        client
            .nack_leased(&client.lease_one(&topic).await, json!({"dead": true}))
            .await
            .expect(200);
        let path = format!("/topics/{topic}/redrive");
        let answer = client.post_bytes(&path, kind, body.as_bytes().to_vec()).await;
        assert_eq!(answer.status, 200, "{kind:?} {body:?}: {answer}");
        client.delete(&id).await.expect(204);
    }
    let id = dead_message(&client, &topic).await;
    let of_message = format!("/messages/{id}/redrive");
    let of_topic = format!("/topics/{topic}/redrive");
    for (path, kind, body, status, field) in [
        (&of_message, json_kind, "{\"nope\":1}", 422, "nope"),
        (&of_message, json_kind, "{\"max_messages\":1}", 422, "max_messages"),
        (&of_message, json_kind, "[]", 422, "(body)"),
        (&of_message, json_kind, "{", 400, ""),
        (&of_message, Some("text/plain"), "{}", 415, ""),
        (&of_topic, json_kind, "{\"nope\":1}", 422, "nope"),
        (&of_topic, json_kind, "{\"max_messages\":0}", 422, "max_messages"),
        (&of_topic, json_kind, "{\"max_messages\":-1}", 422, "max_messages"),
        (&of_topic, json_kind, "{\"max_messages\":\"5\"}", 422, "max_messages"),
        (&of_topic, json_kind, "{\"max_messages\":1.5}", 422, "max_messages"),
        (&of_topic, json_kind, "{\"max_messages\":1e999}", 422, "max_messages"),
        (&of_topic, json_kind, "{\"spread_ms\":-1}", 422, "spread_ms"),
        (&of_topic, json_kind, "{\"spread_ms\":\"1\"}", 422, "spread_ms"),
        (&of_topic, json_kind, "{\"spread_ms\":1e30}", 422, "spread_ms"),
        (&of_topic, json_kind, "{\"spread_ms\":1,\"spread_ms\":1}", 422, "spread_ms"),
        (&of_topic, json_kind, "[null]", 422, "(body)"),
        (&of_topic, json_kind, "{", 400, ""),
        (&of_topic, Some("text/plain"), "{}", 415, ""),
    ] {
        let answer = client.post_bytes(path, kind, body.as_bytes().to_vec()).await;
        assert_eq!(answer.status, status, "{body}: {answer}");
        if !field.is_empty() {
            answer.field(field);
        }
    }
    assert_eq!(client.state(&id).await, "dead");
    let nowhere = format!("{topic}-none");
    client.redrive_topic(&nowhere, json!({})).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn of_many_redrives_at_once_one_is_done() {
    let (client, topic) = (client().await, topic("redrive"));
    for _ in 0..5 {
        let id = dead_message(&client, &topic).await;
        let tries = (0..8).map(|_| client.redrive(&id));
        let answers: Vec<Answer> = futures_util::future::join_all(tries).await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
        for answer in answers.into_iter().filter(|answer| answer.status != 200) {
            answer.problem(409, "message_not_dead");
        }
        client.delete(&id).await.expect(204);
    }
    counted(&client, &topic, &[("totals", "redriven", 5), ("totals", "deleted", 5)]).await;
}
