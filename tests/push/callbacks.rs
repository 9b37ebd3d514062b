//! scheduleCallback: this URL is called later, with this body, once.

use serde_json::{Value, json};

use crate::facts::{alone, gone, ready, schedule, scheduled};
use crate::harness::*;

#[tokio::test]
async fn a_callback_arrives_as_it_was_scheduled_and_is_gone_after_its_answer() {
    let (client, receiver) = ready().await;
    let body = r#"{ "b":1,  "a":[1.0e2, "\u00e9", "ü" ], "b" : 18446744073709551616 }"#;
    let text = format!(r#"{{"url": "{}", "payload": {body}}}"#, receiver.url("/in?x=1&y=%20"));
    let answer = client.post_text("/callbacks", &text).await.expect(201);
    assert_eq!(answer.text("topic"), "_callbacks");
    assert_eq!(answer.header("location"), format!("/messages/{}", answer.text("id")));
    let call = receiver.wait_for(1).await.remove(0);
    assert_eq!((call.method.as_str(), call.path.as_str()), ("POST", "/in?x=1&y=%20"));
    assert_eq!(String::from_utf8_lossy(&call.body), body);
    assert_eq!(call.header("content-type"), "application/json");
    gone(&client, &answer.text("id")).await;
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn its_headers_say_what_it_is() {
    let (client, receiver) = ready().await;
    let id = scheduled(&client, &receiver.url("/"), json!({"payload": 1})).await;
    let call = receiver.wait_for(1).await.remove(0);
    assert_eq!(call.id(), id);
    assert_eq!(call.header("dueq-topic"), "_callbacks");
    assert_eq!(call.attempt(), 1);
    assert_eq!(call.header("user-agent"), format!("dueq/{}", env!("CARGO_PKG_VERSION")));
    assert_eq!(call.header("host"), receiver.addr().to_string());
    assert_eq!(call.header("content-length"), "1");
    let sent_at: i64 = call.header("webhook-timestamp").parse().unwrap();
    assert!((call.at_ms / 1000 - 2..=call.at_ms / 1000 + 1).contains(&sent_at), "{call:?}");
    let words = "webhook-id webhook-timestamp content-type user-agent dueq-attempt dueq-due-at";
    for name in words.split(' ') {
        assert_eq!(call.count(name), 1, "{name}: {call:?}");
    }
}

#[tokio::test]
async fn bytes_are_sent_with_their_content_type() {
    let (client, receiver) = ready().await;
    let bytes = json!({"payload_base64": "AAH/gA==", "content_type": "image/x-none; a=b"});
    scheduled(&client, &receiver.url("/typed"), bytes).await;
    let call = receiver.wait_at("/typed").await;
    assert_eq!(call.body, [0, 1, 255, 128]);
    assert_eq!(call.header("content-type"), "image/x-none; a=b");
    scheduled(&client, &receiver.url("/plain"), json!({"payload_base64": "AAH/gA=="})).await;
    let call = receiver.wait_at("/plain").await;
    assert_eq!(call.body, [0, 1, 255, 128]);
    assert_eq!(call.header("content-type"), "application/octet-stream");
    let no_bytes = json!({"payload_base64": "", "content_type": "application/octet-stream"});
    scheduled(&client, &receiver.url("/none"), no_bytes).await;
    let call = receiver.wait_at("/none").await;
    assert_eq!((call.body.len(), call.header("content-type")), (0, "application/octet-stream"));
}

#[tokio::test]
async fn without_payload_the_body_is_empty() {
    let (client, receiver) = ready().await;
    for method in ["POST", "PUT", "DELETE"] {
        let path = format!("/{method}");
        scheduled(&client, &receiver.url(&path), json!({"method": method})).await;
        let call = receiver.wait_at(&path).await;
        assert!(call.body.is_empty(), "{call:?}");
        // What wants a body must be told that there is none.
        assert_eq!(call.has("content-length"), method != "DELETE", "{call:?}");
        assert_eq!(call.method, method);
    }
    scheduled(&client, &receiver.url("/null"), json!({"payload": null})).await;
    assert_eq!(receiver.wait_at("/null").await.body, b"null", "null is a payload");
}

#[tokio::test]
async fn any_of_the_methods_can_be_chosen() {
    let (client, receiver) = ready().await;
    for method in ["POST", "PUT", "PATCH", "GET", "DELETE"] {
        let path = format!("/{method}");
        let more = json!({"method": method, "payload": {"m": method}});
        let id = scheduled(&client, &receiver.url(&path), more).await;
        let call = receiver.wait_at(&path).await;
        assert_eq!(call.method, method);
        assert_eq!(serde_json::from_slice::<Value>(&call.body).unwrap(), json!({"m": method}));
        gone(&client, &id).await;
    }
}

#[tokio::test]
async fn it_is_never_early_and_little_late() {
    let (client, receiver) = ready().await;
    let mut due = Vec::new();
    for n in 0..20 {
        let url = receiver.url(&format!("/{n}"));
        let more = json!({"payload": n, "delay_ms": 300 + n * 37});
        due.push(schedule(&client, &url, more).await.expect(201).instant("due_at"));
    }
    let calls = receiver.wait_for(20).await;
    for (n, due) in due.into_iter().enumerate() {
        let path = format!("/{n}");
        let late = calls.iter().find(|call| call.path == path).expect("a call").at_ms - due;
        assert!((0..1000).contains(&late), "call {n} was {late} ms late");
    }
}

#[tokio::test]
async fn it_can_be_due_at_an_instant() {
    let (client, receiver) = ready().await;
    let due = crate::facts::caller().await.redis.time_ms().await + 600;
    let more = json!({"deliver_at": instant(due)});
    let answer = schedule(&client, &receiver.url("/"), more).await.expect(201);
    assert_eq!((answer.text("state"), answer.instant("due_at")), ("delayed".to_owned(), due));
    let late = receiver.wait_for(1).await[0].at_ms - due;
    assert!((0..1000).contains(&late), "{late} ms late");
}

#[tokio::test]
async fn its_own_headers_are_sent_as_they_are_spelled() {
    let (client, receiver) = ready().await;
    let headers = json!({"X-Order": "42", "x-lower": "a b", "Accept": "text/plain"});
    scheduled(&client, &receiver.url("/"), json!({"headers": headers})).await;
    let call = receiver.wait_for(1).await.remove(0);
    for (name, value) in headers.as_object().unwrap() {
        assert_eq!(call.header(name), value.as_str().unwrap(), "{call:?}");
        assert_eq!(call.count(name), 1, "{call:?}");
    }
}

#[tokio::test]
async fn every_attempt_has_the_same_id_and_the_next_number() {
    let (client, receiver) = ready().await;
    receiver.answer_next("/", [500, 502, 503].map(Reply::status));
    let more = json!({"payload": "again", "backoff": crate::facts::fixed(50)});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let calls = receiver.wait_for(4).await;
    for (n, call) in (1..).zip(&calls) {
        assert_eq!((call.id(), call.attempt()), (id.as_str(), n));
        assert_eq!(call.body, b"\"again\"");
    }
    gone(&client, &id).await;
    assert_eq!(receiver.count(), 4, "none after the answer that was good");
}

#[tokio::test]
async fn one_idempotency_key_is_one_call() {
    let (client, receiver) = ready().await;
    let more = json!({"payload": 1, "idempotency_key": topic("once")});
    let first = schedule(&client, &receiver.url("/"), more.clone()).await.expect(201);
    receiver.wait_for(1).await;
    gone(&client, &first.text("id")).await;
    let again = schedule(&client, &receiver.url("/"), more.clone()).await.expect(200);
    assert_eq!(again.text("id"), first.text("id"));
    assert_eq!(again.json()["duplicate"], true);
    let other = schedule(&client, &receiver.url("/other"), more).await;
    other.problem(422, "idempotency_key_reused");
    crate::facts::a_while(300).await;
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn the_topic_of_callbacks_counts_them() {
    let (_redis, dueq) = alone(&[]).await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    for n in 0..5 {
        scheduled(&client, &receiver.url("/"), json!({"payload": n})).await;
    }
    scheduled(&client, &receiver.url("/"), json!({"delay_ms": 600_000})).await;
    receiver.wait_for(5).await;
    let seen = eventually("five acked", || async {
        let seen = client.topic("_callbacks").await.expect(200).json();
        (seen["totals"]["acked"] == 5).then_some(seen)
    })
    .await;
    assert_eq!((&seen["name"], &seen["counts"]["delayed"]), (&json!("_callbacks"), &json!(1)));
    assert_eq!((&seen["totals"]["published"], &seen["totals"]["granted"]), (&json!(6), &json!(5)));
    for name in ["ready", "leased", "dead"] {
        assert_eq!(seen["counts"][name], 0, "{seen}");
    }
}

#[tokio::test]
async fn every_class_of_2xx_is_success() {
    let (client, receiver) = ready().await;
    for status in [200, 201, 202, 204, 206, 299] {
        let path = format!("/{status}");
        receiver.answer_at(&path, Reply::status(status));
        let id = scheduled(&client, &receiver.url(&path), json!({})).await;
        receiver.wait_at(&path).await;
        gone(&client, &id).await;
    }
    assert_eq!(receiver.count(), 6);
}
