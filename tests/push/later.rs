//! What became a secret after it was published, and what a receiver says back of secrets: it stays with its origin, and is
//! shown to nobody.

use serde_json::{Value, json};

use crate::facts::{becomes, patient, pushed, pushed_with, ready};
use crate::harness::*;
use crate::origins::{BEARER, LATER, bare, clean, secretive};

#[tokio::test]
async fn what_a_receiver_says_back_of_secret_headers_is_not_told() {
    let (client, own) = ready().await;
    let dead = topic("origins-dead");
    let more = json!({"dead_topic": dead, "backoff": patient()});
    let topic = pushed_with(&client, "origins", secretive(&own.url("/")), more).await;
    // The last one begins within what is kept, and ends beyond it.
    let echo = format!("got {BEARER}, that is \"very-secret\"; open {}", "x".repeat(960));
    let echo = format!("{echo}{}{BEARER} and more", "x".repeat(1020 - echo.len()));
    own.answer_at("/echo", Reply::status(410).body(echo));
    let message = json!({"payload": 1, "callback": {"url": own.url("/echo")}});
    let id = client.published(&topic, message).await;
    let seen = becomes(&client, &id, "dead", 1).await;
    assert_eq!(own.calls()[0].header("authorization"), BEARER);
    let answer = text(&crate::facts::called(&seen)[0], "answer").to_owned();
    assert!(answer.starts_with("got ***, that is \"***\"; open x"), "{answer}");
    assert!(answer.ends_with("x***"), "{answer}");
    clean(&client.get(&id).await.expect(200));
    let letter = client.lease(&dead, json!({"wait_ms": 10_000})).await.expect(200);
    clean(&letter);
    assert!(!String::from_utf8_lossy(&letter.body).contains("Bear"), "{letter}");
}

#[tokio::test]
async fn secret_headers_that_are_kept_do_not_heap_up() {
    let (client, own) = ready().await;
    let named = |letter: &str| (0..32).map(|i| format!("x-{letter}{i}")).collect::<Vec<_>>();
    let push = |headers: Value, names: &[String]| json!({"push": {"url": own.url("/"), "headers": headers, "secret_headers": names}});
    let topic = topic("origins");
    let twice = ["x-a0", "X-A0"].map(str::to_owned);
    client.new_topic(&topic, push(json!({"x-a0": "very-secret"}), &twice)).await;
    let stars = json!({"x-a0": "***"});
    let put = |names: Vec<String>| client.update_topic(&topic, push(stars.clone(), &names));
    put(named("b")).await.problem(422, "invalid_input").field("push.secret_headers");
    let kept = put(named("b").split_off(1)).await.expect(200);
    clean(&kept);
    let names = kept.json()["config"]["push"]["secret_headers"].clone();
    assert_eq!(names.as_array().map(Vec::len), Some(32), "{names}");
    assert_eq!(kept.json()["config"]["push"]["headers"], stars);
}

/// Changes how a topic is pushed.
async fn push(client: &Client, topic: &str, push: Value) {
    client.update_topic(topic, json!({"push": push})).await.expect(200);
}

#[tokio::test]
async fn a_header_that_became_a_secret_after_the_publish_stays_one_and_with_its_origin() {
    let ((client, own), other) = (ready().await, Receiver::start().await);
    let more = json!({"backoff": patient()});
    let topic = pushed_with(&client, "origins", json!({"url": own.url("/")}), more).await;
    let message = json!({"payload": 1, "delay_ms": LATER, "headers": {"x-token": "very-secret", "x-open": "open"}});
    let ids =
        [client.published(&topic, message.clone()).await, client.published(&topic, message).await];
    let named = json!({"url": own.url("/"), "secret_headers": ["X-Token"]});
    push(&client, &topic, named.clone()).await;
    let stars = json!({"x-token": "***", "x-open": "open"});
    for to in [json!({"url": own.url("/")}), json!({"url": other.url("/")}), json!({})] {
        push(&client, &topic, to).await;
        for seen in [
            client.get(&ids[0]).await.expect(200).json()["headers"].clone(),
            client.list(&topic, "state=delayed&payload=true").await.expect(200).json()["items"][0]
                ["headers"]
                .clone(),
        ] {
            assert_eq!(seen, stars);
        }
    }
    push(&client, &topic, json!({"url": other.url("/")})).await;
    let kept = json!({"headers": stars});
    client.update(&ids[0], kept).await.problem(422, "secret_required").field("headers.x-token");
    let away = json!({"callback": {"url": other.url("/")}});
    client.update(&ids[0], away).await.problem(422, "secret_required");
    client.update(&ids[0], json!({"delay_ms": 0})).await.expect(200);
    bare(&other.wait_for(1).await[0]);
    push(&client, &topic, named).await;
    client.update(&ids[1], json!({"delay_ms": 0, "payload": 2})).await.expect(200);
    assert_eq!(own.wait_for(1).await[0].header("x-token"), "very-secret");
}

#[tokio::test]
async fn what_was_published_before_the_topic_was_pushed_stays_masked_and_with_its_origin() {
    let ((client, own), other) = (ready().await, Receiver::start().await);
    let (topic, dead) = (topic("origins"), topic("origins-dead"));
    client.new_topic(&topic, json!({"backoff": patient(), "dead_topic": dead})).await;
    let message = json!({"payload": 1, "delay_ms": LATER, "headers": {"authorization": BEARER, "x-open": "open"}});
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(client.published(&topic, message.clone()).await);
    }
    let stars = json!({"authorization": "***", "x-open": "open"});
    let now = json!({"delay_ms": 0});
    push(&client, &topic, json!({"url": own.url("/")})).await;
    push(&client, &topic, json!(null)).await;
    clean(&client.get(&ids[0]).await.expect(200));
    // A whole configuration does not forget either.
    client
        .send_json("PUT", &format!("/topics/{topic}"), &json!({"dead_topic": dead}))
        .await
        .expect(200);
    assert_eq!(client.get(&ids[0]).await.expect(200).json()["headers"], stars);
    client.update(&ids[0], now.clone()).await.expect(200);
    let leased = client.lease(&topic, json!({"wait_ms": 5000})).await.expect(200);
    clean(&leased);
    let leased = leased.json()["messages"][0].clone();
    assert_eq!(leased["headers"], stars);
    let nack = json!({"lease_token": leased["lease_token"], "dead": true});
    client.post(&format!("/messages/{}/nack", ids[0]), &nack).await.expect(200);
    let letter = client.lease(&dead, json!({"wait_ms": 10_000})).await.expect(200);
    clean(&letter);
    assert_eq!(letter.json()["messages"][0]["payload"]["message"]["headers"], stars);
    // Its own again: it gets what was for it.
    push(&client, &topic, json!({"url": own.url("/")})).await;
    client.update(&ids[1], now.clone()).await.expect(200);
    assert_eq!(own.wait_for(1).await[0].header("authorization"), BEARER);
    push(&client, &topic, json!({"url": other.url("/")})).await;
    client.update(&ids[2], now).await.expect(200);
    bare(&other.wait_for(1).await[0]);
}

#[tokio::test]
async fn consumers_get_what_is_published_once_a_topic_is_pushed_no_more() {
    let (client, own) = ready().await;
    let topic = pushed(&client, "origins", json!({"url": own.url("/")})).await;
    push(&client, &topic, json!(null)).await;
    // Clocks of instances may differ so far.
    crate::facts::a_while(1_100).await;
    client.published(&topic, json!({"payload": 1, "headers": {"authorization": BEARER}})).await;
    let leased = client.lease(&topic, json!({"wait_ms": 5000})).await.expect(200).json();
    assert_eq!(leased["messages"][0]["headers"], json!({"authorization": BEARER}));
}

#[tokio::test]
async fn what_became_a_secret_of_a_schedule_after_it_was_put_is_masked_and_stays_with_its_origin() {
    let ((client, own), other) = (ready().await, Receiver::start().await);
    let topic = topic("origins");
    client.new_topic(&topic, json!({})).await;
    let path = format!("/schedules/{topic}");
    let sent = json!({"authorization": BEARER, "x-token": "very-secret", "x-open": "open"});
    let body =
        json!({"every_ms": 3_600_000, "topic": topic, "message": {"payload": 1, "headers": sent}});
    client.send_json("PUT", &path, &body).await.expect(201);
    let named = |url: String| json!({"url": url, "secret_headers": ["x-token"]});
    let stars = json!({"authorization": "***", "x-token": "***", "x-open": "open"});
    let trigger = async || {
        clean(&client.post(&format!("{path}/trigger"), &json!({})).await.expect(200));
    };
    let places =
        [(named(own.url("/")), 1, 0), (json!({"url": other.url("/")}), 1, 1), (json!(null), 1, 1)];
    for (to, to_own, to_other) in places {
        push(&client, &topic, to).await;
        let seen = client.get_path(&path).await.expect(200);
        assert_eq!(seen.json()["message"]["headers"], stars);
        trigger().await;
        // Each message goes where its topic is pushed when it is called.
        own.wait_for(to_own).await;
        other.wait_for(to_other).await;
    }
    let call = own.wait_for(1).await.remove(0);
    assert_eq!((call.header("authorization"), call.header("x-token")), (BEARER, "very-secret"));
    bare(&other.wait_for(1).await[0]);
    let leased = client.lease(&topic, json!({"wait_ms": 5000})).await.expect(200);
    clean(&leased);
    assert_eq!(leased.json()["messages"][0]["headers"], stars);
}

#[tokio::test]
async fn a_topic_remembers_only_so_many_names() {
    let (client, own) = ready().await;
    let named = |letter: &str, n: usize| {
        let names: Vec<_> = (0..n).map(|i| format!("x-{letter}{i}")).collect();
        json!({"push": {"url": own.url("/"), "secret_headers": names}})
    };
    let topic = topic("origins");
    client.new_topic(&topic, named("a", 32)).await;
    client.update_topic(&topic, named("b", 30)).await.expect(200);
    let more = client.update_topic(&topic, named("c", 1)).await;
    more.problem(422, "invalid_input").field("push.secret_headers");
    client.update_topic(&topic, json!({"push": null})).await.expect(200);
    client.update_topic(&topic, named("a", 32)).await.expect(200);
}
