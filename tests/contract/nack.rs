//! nackMessage: a failed attempt goes back, later each time, until none is left.

use serde_json::json;

use crate::facts::topic_in_balance;
use crate::harness::*;

#[tokio::test]
async fn a_nack_with_a_delay_makes_the_message_delayed_that_long() {
    let (client, topic) = (client().await, topic("nack"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    let before = shared().await.redis.time_ms().await;
    let answer = client.nack_leased(&held, json!({"delay_ms": 60_000})).await.expect(200);
    let after = shared().await.redis.time_up_ms().await;
    assert_eq!((answer.text("id"), answer.text("state")), (id.clone(), "delayed".to_owned()));
    assert_eq!(answer.number("attempt"), 1);
    let due = answer.instant("due_at");
    assert!((before + 60_000..=after + 60_000).contains(&due), "{before} {after} {answer}");
    let seen = client.get(&id).await.expect(200).json();
    assert_eq!((&seen["state"], &seen["due_at"]), (&json!("delayed"), &answer.json()["due_at"]));
    assert_eq!((&seen["attempts"], &seen["attempts_left"]), (&json!(1), &json!(9)));
    assert_eq!(topic_in_balance(&client, &topic).await["totals"]["nacked"], 1);
}

#[tokio::test]
async fn a_nack_without_delay_waits_the_backoff_which_doubles() {
    let (client, topic) = (client().await, topic("nack"));
    client.published(&topic, json!({"payload": 1})).await;
    for (base, fails_before) in [(1000, 0), (2000, 1), (16_000, 4)] {
        let held = client.lease_one(&topic).await;
        assert_eq!(number(&held, "attempt"), fails_before + 1);
        let before = shared().await.redis.time_ms().await;
        let answer = client.nack_leased(&held, json!({})).await.expect(200);
        let after = shared().await.redis.time_up_ms().await;
        assert_eq!(answer.text("state"), "delayed");
        let due = answer.instant("due_at");
        let (least, most) = (before + base * 9 / 10, after + base * 11 / 10 + 1);
        assert!((least..=most).contains(&due), "base {base}: {} of {answer}", due - before);
        if base == 2000 {
            crate::facts::fail_attempts(&client, &topic, 2).await;
        }
    }
}

#[tokio::test]
async fn the_backoff_is_jittered() {
    let (client, topic) = (client().await, topic("nack"));
    let mut waits = Vec::new();
    for _ in 0..10 {
        client.published(&topic, json!({"payload": 1})).await;
        let held = client.lease_one(&topic).await;
        let before = shared().await.redis.time_ms().await;
        let answer = client.nack_leased(&held, json!({})).await.expect(200);
        waits.push(answer.instant("due_at") - before);
        client.delete(&answer.text("id")).await.expect(204);
    }
    let spread = waits.iter().max().unwrap() - waits.iter().min().unwrap();
    assert!(spread > 20, "ten first backoffs of 900 to 1100 ms: {waits:?}");
}

#[tokio::test]
async fn the_last_nack_makes_it_dead() {
    let (client, topic) = (client().await, topic("nack"));
    for more in [json!({}), json!({"delay_ms": 0}), json!({"delay_ms": 60_000})] {
        let id = client.published(&topic, json!({"payload": 1, "max_attempts": 1})).await;
        let held = client.lease_one(&topic).await;
        assert_eq!(held["attempts_left"], 0);
        let answer = client.nack_leased(&held, more).await.expect(200);
        assert_eq!(answer.text("state"), "dead");
        assert!(answer.json().get("due_at").is_none(), "{answer}");
        assert_eq!(answer.number("attempt"), 1);
        assert_eq!(client.state(&id).await, "dead");
    }
    let seen = topic_in_balance(&client, &topic).await;
    assert_eq!((&seen["counts"]["dead"], &seen["totals"]["dead"]), (&json!(3), &json!(3)));
}

#[tokio::test]
async fn of_an_ack_and_a_nack_at_once_one_is_done() {
    let (client, topic) = (client().await, topic("nack"));
    for _ in 0..20 {
        let id = client.published(&topic, json!({"payload": 1})).await;
        let held = client.lease_one(&topic).await;
        let more = json!({"delay_ms": 60_000});
        let (ack, nack) = tokio::join!(client.ack_leased(&held), client.nack_leased(&held, more));
        match (ack.status, nack.status) {
            (204, 404) => client.get(&id).await.problem(404, "message_not_found"),
            (409, 200) => client.get(&id).await.expect(200),
            other => panic!("{other:?}: {ack} {nack}"),
        };
    }
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn the_longest_delay_of_a_nack_is_ten_years() {
    let (client, topic) = (client().await, topic("nack"));
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    let longest = 315_360_000_000_i64;
    let more = json!({"delay_ms": longest + 1});
    client.nack_leased(&held, more).await.refused(422).field("delay_ms");
    client.nack_leased(&held, json!({"delay_ms": longest})).await.expect(200);
}
