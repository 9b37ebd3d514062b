//! The `callback` of a message: read and shown, changed and reset, part of what an idempotency key stands for; and what
//! of a pushed topic's messages is never read back. Nothing here falls due, so nothing is called.

use serde_json::{Value, json};

use crate::harness::*;

const LATER: i64 = 600_000;

/// A pushed topic without a URL of its own.
async fn pushed(client: &Client, topic: &str) {
    client.new_topic(topic, json!({"push": {}})).await;
}

/// One with a URL.
async fn pushed_to(client: &Client, topic: &str) {
    client.new_topic(topic, json!({"push": {"url": "http://topic.invalid/"}})).await;
}

/// A message for later that goes to this callback.
fn message(callback: Value) -> Value {
    json!({"payload": 1, "delay_ms": LATER, "callback": callback})
}

fn whole() -> Value {
    json!({
        "url": "https://own.invalid:8443/é?a=b#c", "method": "DELETE", "timeout_ms": 1_800_000,
        "connect_timeout_ms": 2_000, "retry": {"on": ["5xx", "connect"], "never": ["501"]},
    })
}

#[tokio::test]
async fn a_callback_is_shown_as_it_was_said() {
    let (client, topic) = (client().await, topic("callback"));
    pushed(&client, &topic).await;
    let short = json!({"url": "HTTP://Own.invalid"});
    let plain = json!({"url": "http://own.invalid/", "retry": {}});
    for callback in [whole(), short, plain] {
        let id = client.published(&topic, message(callback.clone())).await;
        assert_eq!(client.get(&id).await.expect(200).json()["callback"], callback);
        let with = client.listed(&topic, "state=delayed&payload=true").await;
        assert_eq!(with.last().unwrap()["callback"], callback);
        let without = client.listed(&topic, "state=delayed").await;
        assert_eq!(without.last().unwrap().get("callback"), None);
        client.delete(&id).await.expect(204);
    }
    let batch = [message(whole()), message(json!({"url": "http://b.invalid/", "method": null}))];
    let results = client.published_batch(&topic, &batch).await;
    for (result, callback) in results.iter().zip([whole(), json!({"url": "http://b.invalid/"})]) {
        let seen = client.get(text(&result["message"], "id")).await.expect(200).json();
        assert_eq!(seen["callback"], callback);
    }
}

#[tokio::test]
async fn null_is_no_callback() {
    let (client, topic) = (client().await, topic("callback"));
    let id = client.published(&topic, message(json!(null))).await;
    assert_eq!(client.get(&id).await.expect(200).json().get("callback"), None);
}

#[tokio::test]
async fn a_callback_is_changed_and_reset_in_place() {
    let (client, topic) = (client().await, topic("callback"));
    pushed_to(&client, &topic).await;
    let mut first = message(whole());
    (first["key"], first["headers"]) = (json!("k"), json!({"x": "y"}));
    let id = client.published(&topic, first).await;
    let other = json!({"url": "http://other.invalid/"});
    let changed = client.update(&id, json!({"callback": other})).await.expect(200).json();
    assert_eq!((&changed["callback"], &changed["payload"]), (&other, &json!(1)));
    assert_eq!(changed["headers"], json!({"x": "y"}));
    let kept = client.update(&id, json!({"payload": 2, "priority": 1})).await.expect(200).json();
    assert_eq!((&kept["callback"], &kept["payload"]), (&other, &json!(2)));
    let reset = client.update_by_key(&topic, "k", json!({"callback": null})).await;
    assert_eq!(reset.expect(200).json().get("callback"), None);
    let again = client.update_by_key(&topic, "k", json!({"callback": whole()})).await.expect(200);
    assert_eq!(again.json()["callback"], whole());
}

#[tokio::test]
async fn a_callback_is_part_of_what_an_idempotency_key_stands_for() {
    let (client, topic) = (client().await, topic("callback"));
    pushed_to(&client, &topic).await;
    let mut first = message(json!({"url": "http://own.invalid/"}));
    first["idempotency_key"] = json!("r");
    client.publish(&topic, first.clone()).await.expect(201);
    let mut nulls = first.clone();
    nulls["callback"]["timeout_ms"] = json!(null);
    nulls["callback"]["retry"] = json!(null);
    nulls["callback"]["auth"] = json!(null);
    for same in [first.clone(), nulls] {
        assert_eq!(client.publish(&topic, same).await.expect(200).json()["duplicate"], true);
    }
    for other in [
        json!(null),
        json!({"url": "http://own.invalid"}),
        json!({"url": "http://own.invalid/", "method": "PUT"}),
        json!({"url": "http://own.invalid/", "timeout_ms": 15_000}),
        json!({"url": "http://own.invalid/", "connect_timeout_ms": 5_000}),
        json!({"url": "http://own.invalid/", "retry": {}}),
        json!({"url": "http://own.invalid/", "auth": {"kind": "basic", "username": "a", "password": "b"}}),
        json!({"url": "http://own.invalid/", "retry": {"never": ["400"]}}),
    ] {
        let mut again = first.clone();
        again["callback"] = other;
        client.publish(&topic, again).await.problem(422, "idempotency_key_reused");
    }
}

#[tokio::test]
async fn a_message_that_would_go_nowhere_is_refused() {
    let (client, topic) = (client().await, topic("callback"));
    pushed(&client, &topic).await;
    let nowhere = json!({"payload": 1, "delay_ms": LATER});
    client.publish(&topic, nowhere.clone()).await.problem(422, "callback_url_missing");
    let raw = client.publish_raw(&topic, "?delay_ms=600000", None, b"x").await;
    raw.problem(422, "callback_url_missing");
    let batch = [message(whole()), nowhere];
    client.publish_batch(&topic, &batch).await.problem(422, "callback_url_missing");
    let id = client.published(&topic, message(whole())).await;
    let reset = client.update(&id, json!({"callback": null})).await;
    reset.problem(422, "callback_url_missing");
    assert_eq!(client.get(&id).await.expect(200).json()["callback"], whole());
    assert_eq!(client.total(&topic, "published").await, 1);
}

#[tokio::test]
async fn a_callback_into_a_topic_that_is_not_pushed_is_refused() {
    let (client, topic) = (client().await, topic("callback"));
    client.new_topic(&topic, json!({})).await;
    client.publish(&topic, message(whole())).await.problem(422, "topic_not_pushed");
    let batch = [json!({"payload": 1}), message(whole())];
    client.publish_batch(&topic, &batch).await.problem(422, "topic_not_pushed");
    let id = client.published(&topic, json!({"payload": 1, "delay_ms": LATER})).await;
    let update = client.update(&id, json!({"callback": whole()})).await;
    update.problem(422, "topic_not_pushed");
    assert_eq!(client.total(&topic, "published").await, 1);
}

#[tokio::test]
async fn an_address_that_nobody_may_call_is_refused() {
    let (client, topic) = (client().await, topic("callback"));
    pushed_to(&client, &topic).await;
    let good = client.published(&topic, message(whole())).await;
    for url in ["http://127.0.0.1:1/", "http://[::ffff:127.0.0.1]/", "http://169.254.169.254/"] {
        let refused = |answer: Answer, field: &str| {
            answer.problem(422, "callback_address_refused").field(field);
        };
        let own = json!({"url": url});
        refused(client.publish(&topic, message(own.clone())).await, "callback.url");
        refused(client.update(&good, json!({"callback": own})).await, "callback.url");
        let mut batch = vec![message(whole()); 20];
        batch[17] = message(own.clone());
        let answer = client.publish_batch(&topic, &batch).await;
        refused(answer, "messages[17].callback.url");
        refused(client.post("/callbacks", &own).await, "url");
    }
    assert_eq!(client.get(&good).await.expect(200).json()["callback"], whole());
    assert_eq!(client.total(&topic, "published").await, 1);
}

#[tokio::test]
async fn secret_headers_of_a_pushed_topics_messages_are_shown_as_stars() {
    let (client, topic) = (client().await, topic("callback"));
    pushed_to(&client, &topic).await;
    let headers = json!({"Authorization": "Bearer secret", "COOKIE": "a=secret", "x": "y"});
    let mut secret = message(whole());
    (secret["headers"], secret["key"]) = (headers, json!("k"));
    let id = client.published(&topic, secret).await;
    let shown = json!({"Authorization": "***", "COOKIE": "***", "x": "y"});
    let listed = client.list(&topic, "state=delayed&payload=true").await;
    assert_eq!(listed.json()["items"][0]["headers"], shown);
    let change = json!({"priority": 1, "headers": shown});
    for answer in [
        listed,
        client.get(&id).await,
        client.get_by_key(&topic, "k").await,
        client.update(&id, change).await,
    ] {
        let answer = answer.expect(200);
        assert!(!String::from_utf8_lossy(&answer.body).contains("secret"), "{answer}");
    }
    // What was masked stays so when the topic is pulled.
    client.update_topic(&topic, json!({"push": null})).await.expect(200);
    assert_eq!(client.get(&id).await.expect(200).json()["headers"], shown);
}

#[tokio::test]
async fn stars_put_back_that_stand_for_nothing_are_refused() {
    let (client, topic) = (client().await, topic("callback"));
    pushed_to(&client, &topic).await;
    let mut secret = message(whole());
    secret["headers"] = json!({"cookie": "a"});
    let id = client.published(&topic, secret).await;
    let change = json!({"headers": {"cookie": "***", "Authorization": "***"}});
    let answer = client.update(&id, change).await.problem(422, "invalid_input");
    answer.field("headers.Authorization");
    let kept = client.get(&id).await.expect(200).json();
    assert_eq!(kept["headers"], json!({"cookie": "***"}));
    client.update(&id, json!({"headers": {"cookie": "new"}})).await.expect(200);
    client.update_topic(&topic, json!({"push": null})).await.expect(200);
    let seen = client.get(&id).await.expect(200).json();
    assert_eq!(seen["headers"], json!({"cookie": "***"}));
}

#[tokio::test]
async fn in_a_pulled_topic_stars_are_a_value_like_any_other() {
    let (client, topic) = (client().await, topic("callback"));
    let stars = json!({"Authorization": "***", "cookie": "b"});
    let message = json!({"payload": 1, "delay_ms": LATER, "headers": {"cookie": "a"}});
    let id = client.published(&topic, message).await;
    let seen = client.update(&id, json!({"headers": stars})).await.expect(200).json();
    assert_eq!(seen["headers"], stars);
}
