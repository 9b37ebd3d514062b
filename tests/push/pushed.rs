//! Pushed topics: which URL, which method, which headers, and what is refused of them.

use std::time::Duration;

use serde_json::json;

use crate::facts::{a_while, called, gone, patient, pushed, pushed_with, ready};
use crate::harness::*;

#[tokio::test]
async fn a_message_goes_to_the_topics_url() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, "push", json!({"url": receiver.url("/topic")})).await;
    let id = client.published(&topic, json!({"payload": {"a": 1}})).await;
    let call = receiver.wait_for(1).await.remove(0);
    assert_eq!((call.path.as_str(), call.method.as_str()), ("/topic", "POST"));
    assert_eq!((call.id(), call.header("dueq-topic")), (id.as_str(), topic.as_str()));
    assert_eq!((call.attempt(), call.body.as_slice()), (1, &br#"{"a":1}"#[..]));
    gone(&client, &id).await;
    let seen = client.topic(&topic).await.expect(200).json();
    for name in ["published", "granted", "acked"] {
        assert_eq!(seen["totals"][name], 1, "{name} of {seen}");
    }
    for name in ["delayed", "ready", "leased", "dead"] {
        assert_eq!(seen["counts"][name], 0, "{name} of {seen}");
    }
}

#[tokio::test]
async fn a_messages_own_callback_wins() {
    let (client, receiver) = ready().await;
    let push = json!({"url": receiver.url("/topic"), "method": "PUT"});
    let topic = pushed(&client, "push", push).await;
    let own = json!({"payload": 1, "callback": {"url": receiver.url("/own")}});
    client.published(&topic, own).await;
    assert_eq!(receiver.wait_at("/own").await.method, "PUT", "the topic's where it names none");
    let own = json!({"url": receiver.url("/patch"), "method": "PATCH"});
    client.published(&topic, json!({"payload": 1, "callback": own})).await;
    assert_eq!(receiver.wait_at("/patch").await.method, "PATCH");
    client.published(&topic, json!({"payload": 1})).await;
    assert_eq!(receiver.wait_at("/topic").await.method, "PUT");
    assert_eq!(receiver.count(), 3);
}

#[tokio::test]
async fn each_message_of_a_batch_goes_to_its_own() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, "push", json!({})).await;
    let message =
        |n: usize| json!({"payload": n, "callback": {"url": receiver.url(&format!("/{n}"))}});
    client.fill(&topic, &(0..10).map(message).collect::<Vec<_>>()).await;
    for n in 0..10 {
        let call = receiver.wait_at(&format!("/{n}")).await;
        assert_eq!(call.body, n.to_string().into_bytes());
    }
}

#[tokio::test]
async fn what_is_published_raw_is_sent_as_it_came() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, "push", json!({"url": receiver.url("/")})).await;
    let bytes = b"a=1&b=\xff";
    let kind = "application/x-www-form-urlencoded";
    client.publish_raw(&topic, "", Some(kind), bytes).await.expect(201);
    let call = receiver.wait_for(1).await.remove(0);
    assert_eq!((call.header("content-type"), call.body.as_slice()), (kind, &bytes[..]));
}

#[tokio::test]
async fn the_messages_headers_win_over_the_topics() {
    let (client, receiver) = ready().await;
    let headers = json!({"x-both": "topic", "X-Topic": "t", "Authorization": "Bearer topic"});
    let push = json!({"url": receiver.url("/"), "headers": headers});
    let topic = pushed(&client, "push", push).await;
    let headers = json!({"X-BOTH": "message", "x-message": "m"});
    client.published(&topic, json!({"payload": 1, "headers": headers})).await;
    let call = receiver.wait_for(1).await.remove(0);
    assert_eq!((call.header("x-both"), call.count("x-both")), ("message", 1), "{call:?}");
    assert_eq!((call.header("x-topic"), call.header("x-message")), ("t", "m"));
    assert_eq!(call.header("authorization"), "Bearer topic");
}

#[tokio::test]
async fn the_messages_timeout_wins_over_the_topics() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(200).after(Duration::from_millis(900)));
    let push = json!({"url": receiver.url("/"), "timeout_ms": 300});
    let topic = pushed_with(&client, "push", push, json!({"backoff": patient()})).await;
    let short = client.published(&topic, json!({"payload": 1})).await;
    let own = json!({"url": receiver.url("/"), "timeout_ms": 5000});
    let long = client.published(&topic, json!({"payload": 1, "callback": own})).await;
    gone(&client, &long).await;
    let seen = crate::facts::becomes(&client, &short, "delayed", 1).await;
    let duration = number(&called(&seen)[0], "duration_ms");
    assert!((250..900).contains(&duration), "{seen}");
}

#[tokio::test]
async fn a_topic_shows_its_push_with_the_defaults() {
    let (client, receiver) = ready().await;
    let url = receiver.url("/x");
    let topic = pushed(&client, "push", json!({"url": url})).await;
    let push = client.topic(&topic).await.expect(200).json()["config"]["push"].clone();
    assert_eq!((&push["url"], &push["method"]), (&json!(url), &json!("POST")));
    assert_eq!((&push["timeout_ms"], &push["max_in_flight"]), (&json!(15_000), &json!(64)));
    assert_eq!(push["max_in_flight_per_host"], 8);
    assert!(push.get("rate_per_s").is_none(), "{push}");
    assert!(push.get("secrets").is_none_or(|secrets| *secrets == json!([])), "{push}");
    let pulled = topic_config(&client, "push-not").await;
    assert!(pulled.get("push").is_none(), "{pulled}");
}

async fn topic_config(client: &Client, name: &str) -> serde_json::Value {
    client.new_topic(&topic(name), json!({})).await.json()["config"].clone()
}

#[tokio::test]
async fn with_neither_url_nor_callback_a_message_is_refused() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, "push", json!({})).await;
    let answer = client.publish(&topic, json!({"payload": 1})).await;
    answer.problem(422, "callback_url_missing");
    let answer = client.publish_raw(&topic, "", Some("text/plain"), b"x").await;
    answer.problem(422, "callback_url_missing");
    let own = json!({"payload": 1, "callback": {"url": receiver.url("/")}});
    let results = client.publish_batch(&topic, &[json!({"payload": 1}), own.clone()]).await;
    if results.status == 200 {
        let results = results.json()["results"].clone();
        assert_eq!(results[0]["status"], "callback_url_missing", "{results}");
        assert_eq!(results[1]["status"], "ok", "{results}");
    } else {
        results.refused(422);
        client.published(&topic, own).await;
    }
    receiver.wait_for(1).await;
    assert_eq!(client.total(&topic, "published").await, 1);
}

#[tokio::test]
async fn a_pulled_topic_takes_no_callbacks() {
    let (client, receiver) = ready().await;
    let topic = topic("pulled");
    client.new_topic(&topic, json!({})).await;
    let own = json!({"payload": 1, "callback": {"url": receiver.url("/")}});
    client.publish(&topic, own).await.problem(422, "topic_not_pushed");
    let id = client.published(&topic, json!({"payload": 1})).await;
    let changes = json!({"callback": {"url": receiver.url("/")}});
    client.update(&id, changes).await.problem(422, "topic_not_pushed");
    assert_eq!((client.count(&topic, "ready").await, receiver.count()), (1, 0));
}

#[tokio::test]
async fn nobody_leases_from_a_pushed_topic_by_hand() {
    let (client, receiver) = ready().await;
    let pushed = pushed(&client, "push", json!({"url": receiver.url("/")})).await;
    client.published(&pushed, json!({"payload": 1, "delay_ms": 600_000})).await;
    client.lease(&pushed, json!({})).await.problem(409, "topic_is_pushed");
    client.lease(&pushed, json!({"wait_ms": 500})).await.problem(409, "topic_is_pushed");
    let pulled = topic("pulled");
    client.published(&pulled, json!({"payload": 1})).await;
    let answer = client.post("/lease", &json!({"topics": [pulled, pushed]})).await;
    answer.problem(409, "topic_is_pushed");
    assert_eq!(client.count(&pulled, "ready").await, 1, "nothing was granted");
}

#[tokio::test]
async fn a_message_of_a_pushed_topic_has_no_header_of_dueqs_own() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, "push", json!({"url": receiver.url("/")})).await;
    for name in ["Host", "te", "webhook-x", "DUEQ-x"] {
        let message = json!({"payload": 1, "headers": {name: "1"}});
        client.publish(&topic, message).await.refused(422).field(&format!("headers.{name}"));
    }
    assert_eq!(receiver.count(), 0);
}

#[tokio::test]
async fn topics_that_are_each_others_dead_topic_do_not_call_for_ever() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(500));
    for forms in [["raw", "raw"], ["raw", "letter"], ["letter", "letter"]] {
        let (one, other) = (topic("circle"), topic("circle"));
        let before = receiver.count();
        for (here, there, form) in [(&one, &other, forms[0]), (&other, &one, forms[1])] {
            let push = json!({"url": receiver.url("/")});
            let config =
                json!({"push": push, "dead_topic": there, "dead_form": form, "max_attempts": 1});
            client.new_topic(here, config).await;
        }
        client.published(&one, json!({"payload": 1})).await;
        receiver.wait_for(before + 2).await;
        a_while(2_500).await;
        assert_eq!(receiver.count(), before + 2, "{forms:?}");
        assert_eq!(client.count(&other, "dead").await, 1);
    }
}
