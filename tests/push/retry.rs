//! `retry`: which failed calls are retried, by the lists of a topic, a callback, a message or a schedule.

use std::time::Duration;

use serde_json::{Value, json};

use crate::facts::{
    becomes, called, fixed, patient, pushed_with, ready, schedule, scheduled, waits, with,
};
use crate::harness::*;

/// A pushed topic whose messages wait long after a failure.
async fn pushed(client: &Client, receiver: &Receiver, push: Value) -> String {
    let push = with(json!({"url": receiver.url("/")}), push);
    pushed_with(client, "retry", push, json!({"backoff": patient()})).await
}

/// The state of a message once it has been called.
async fn ended(client: &Client, id: &str) -> Value {
    eventually("an end of the call", || async {
        let seen = client.get(id).await.expect(200).json();
        let is_over = ["dead", "delayed"].contains(&text(&seen, "state"));
        (is_over && called(&seen).len() == 1).then_some(seen)
    })
    .await
}

#[tokio::test]
async fn what_neither_list_names_is_dead_at_once() {
    let (client, receiver) = ready().await;
    let retry = json!({"on": ["5xx", "429", "404"], "never": ["501", "4xx"]});
    let topic = pushed(&client, &receiver, json!({"retry": retry})).await;
    for (status, state) in [
        (500, "delayed"),
        (501, "dead"),
        (429, "delayed"),
        (404, "delayed"),
        (400, "dead"),
        (410, "dead"),
        (302, "dead"),
    ] {
        receiver.answer(Reply::status(status));
        let id = client.published(&topic, json!({"payload": 1})).await;
        let seen = becomes(&client, &id, state, 1).await;
        assert_eq!(text(&seen, "last_error"), format!("answered {status}"), "{seen}");
        assert_eq!((&seen["attempts"], &seen["attempts_left"]), (&json!(1), &json!(9)), "{seen}");
        assert_eq!((&seen["last_status"], seen.get("url")), (&json!(status), None), "{seen}");
    }
    // Lists show it without payloads, and where the calls went.
    let host = format!("host:{}", receiver.addr());
    for (query, statuses) in [
        ("", &[501, 400, 410, 302][..]),
        ("status:4xx", &[400, 410]),
        ("-status:>400 url:http OR status:501", &[501, 400, 302]),
        (&format!("{host} -status:4xx"), &[501, 302]),
        (&format!("-{host}"), &[]),
    ] {
        let listed = client.listed(&topic, &format!("state=dead&q={}", encoded(query))).await;
        let seen: Vec<_> = listed.iter().map(|it| it["last_status"].clone()).collect();
        assert_eq!(json!(seen), json!(statuses), "{query}");
        let whole = |it: &Value| it["url"] == receiver.url("/") && it.get("payload").is_none();
        assert!(listed.iter().all(whole), "{listed:?}");
    }
}

#[tokio::test]
async fn without_the_first_list_only_the_second_and_410_end() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, &receiver, json!({"retry": {"never": ["4xx"]}})).await;
    for (status, state) in [(422, "dead"), (500, "delayed"), (302, "delayed"), (410, "dead")] {
        receiver.answer(Reply::status(status));
        let id = client.published(&topic, json!({"payload": 1})).await;
        becomes(&client, &id, state, 1).await;
    }
}

#[tokio::test]
async fn a_messages_lists_replace_the_topics() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, &receiver, json!({"retry": {"on": ["5xx"]}})).await;
    for (own, status, state) in [
        (json!({}), 400, "dead"),
        (json!({"retry": null}), 400, "dead"),
        (json!({"retry": {}}), 400, "delayed"),
        (json!({"retry": {}}), 410, "dead"),
        (json!({"retry": {"on": ["410"]}}), 410, "delayed"),
        (json!({"retry": {"on": ["4xx"]}}), 410, "delayed"),
        (json!({"retry": {"on": ["400"]}}), 500, "dead"),
        (json!({"retry": {"never": ["500"]}}), 500, "dead"),
    ] {
        receiver.answer(Reply::status(status));
        let callback = with(json!({"url": receiver.url("/")}), own.clone());
        let message = json!({"payload": 1, "callback": callback});
        let id = client.published_batch(&topic, &[message]).await[0]["message"]["id"].clone();
        let seen = ended(&client, id.as_str().unwrap()).await;
        assert_eq!(seen["state"], state, "{own} {status}");
    }
    receiver.answer(Reply::status(400));
    let raw = client.publish_raw(&topic, "", Some("text/plain"), b"x").await.expect(201);
    becomes(&client, &raw.text("id"), "dead", 1).await;
}

#[tokio::test]
async fn callbacks_and_schedules_have_lists_of_their_own() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(404));
    let more = json!({"backoff": patient(), "retry": {"never": ["404"]}});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    becomes(&client, &id, "dead", 1).await;
    let name = topic("retry");
    let callback = json!({"url": receiver.url("/"), "retry": {"on": ["5xx"]}});
    let every = json!({"every_ms": 315_360_000_000_i64, "callback": callback});
    let path = format!("/schedules/{name}");
    client.send_json("PUT", &path, &every).await.expect(201);
    let triggered = client.post(&format!("{path}/trigger"), &json!({})).await.expect(200);
    becomes(&client, &triggered.text("last_message_id"), "dead", 1).await;
    client.send("DELETE", &path, &[], None).await.expect(204);
    let both = json!({"retry": {"on": ["404"], "never": ["404"]}});
    schedule(&client, &receiver.url("/"), both).await.refused(422).field("retry.never[0]");
}

#[tokio::test]
async fn the_receivers_headers_work_with_lists() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, &receiver, json!({"retry": {"on": ["4xx", "503"]}})).await;
    receiver.answer(Reply::status(429).header("dueq-retry", "never"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    becomes(&client, &id, "dead", 1).await;
    receiver.answer(Reply::status(503).header("retry-after", "7"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    let seen = becomes(&client, &id, "delayed", 1).await;
    waits(&seen, 7_000).await;
    receiver.answer(Reply::status(500).header("retry-after", "7"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    becomes(&client, &id, "dead", 1).await;
}

#[tokio::test]
async fn attempts_still_run_out() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(503));
    let more = json!({"backoff": fixed(10), "max_attempts": 3, "retry": {"on": ["503"]}});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    becomes(&client, &id, "dead", 3).await;
}

#[tokio::test]
async fn no_answer_is_a_timeout_and_no_connection_is_a_failure_to_connect() {
    let (client, receiver) = ready().await;
    let gone = Receiver::start().await.url("/");
    for (reply, error) in [
        (Reply::never(), "timed out after 300 ms"),
        (Reply::dropped(), "the connection was closed before an answer came"),
    ] {
        receiver.answer(reply);
        for (retry, state) in [
            (json!({"never": ["timeout"]}), "dead"),
            (json!({"on": ["5xx", "connect"]}), "dead"),
            (json!({"on": ["timeout"]}), "delayed"),
            (json!({"never": ["connect", "5xx"]}), "delayed"),
        ] {
            let more = json!({"backoff": patient(), "timeout_ms": 300, "retry": retry});
            let seen = ended(&client, &scheduled(&client, &receiver.url("/"), more).await).await;
            assert_eq!((&seen["state"], text(&seen, "last_error")), (&json!(state), error));
        }
    }
    for (retry, state) in [
        (json!({"never": ["connect"]}), "dead"),
        (json!({"on": ["5xx", "timeout"]}), "dead"),
        (json!({"on": ["connect"]}), "delayed"),
        (json!({"never": ["timeout"]}), "delayed"),
    ] {
        let more = json!({"backoff": patient(), "retry": retry});
        let seen = ended(&client, &scheduled(&client, &gone, more).await).await;
        let error = "cannot connect: connection refused";
        assert_eq!((&seen["state"], text(&seen, "last_error")), (&json!(state), error));
    }
}

#[tokio::test]
async fn a_topic_that_lost_its_url_is_no_failure_that_a_list_judges() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, &receiver, json!({"retry": {"on": ["5xx"]}})).await;
    let id = client.published(&topic, json!({"payload": 1, "delay_ms": 1_000})).await;
    client.update_topic(&topic, json!({"push": {"retry": {"on": ["5xx"]}}})).await.expect(200);
    let seen = ended(&client, &id).await;
    assert_eq!(seen["state"], "delayed", "{seen}");
    assert!(text(&seen, "last_error").starts_with("callback_url_missing"), "{seen}");
}

#[tokio::test]
async fn a_change_of_the_lists_applies_to_messages_that_wait() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(400).after(Duration::from_millis(10)));
    let topic = pushed(&client, &receiver, json!({})).await;
    let id = client.published(&topic, json!({"payload": 1, "delay_ms": 1_000})).await;
    let push = json!({"url": receiver.url("/"), "retry": {"never": ["400"]}});
    client.update_topic(&topic, json!({"push": push})).await.expect(200);
    becomes(&client, &id, "dead", 1).await;
}
