//! Secrets are sent to the receiver and never shown again: not in an answer, not in the log.

use serde_json::{Value, json};

use crate::facts::{alone, becomes, patient, pushed, ready, scheduled};
use crate::harness::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const BEARER: &str = "Bearer very-secret-token-1";
const COOKIE: &str = "session=very-secret-cookie-1";

fn headers() -> Value {
    json!({"Authorization": BEARER, "cookie": COOKIE, "x-open": "open"})
}

/// Demands that nothing secret is in this answer; returns it.
#[track_caller]
fn clean(answer: Answer) -> Answer {
    let body =
        String::from_utf8_lossy(&answer.body).into_owned() + &format!("{:?}", answer.headers);
    for secret in [&SECRET[6..], &OTHER[6..], "very-secret"] {
        assert!(!body.contains(secret), "{secret} is shown: {answer}");
    }
    answer
}

#[tokio::test]
async fn a_topics_secrets_are_shown_as_stars() {
    let (client, receiver) = ready().await;
    let topic = topic("masked");
    let push = json!({"url": receiver.url("/"), "headers": headers(), "secrets": [SECRET, OTHER]});
    let made = clean(client.put_topic(&topic, json!({"push": push})).await.expect(201));
    let shown = json!({"Authorization": "***", "cookie": "***", "x-open": "open"});
    for answer in [
        made,
        clean(client.topic(&topic).await.expect(200)),
        clean(client.update_topic(&topic, json!({"max_attempts": 3})).await.expect(200)),
        clean(client.pause_topic(&topic).await.expect(200)),
        clean(client.resume_topic(&topic).await.expect(200)),
    ] {
        let push = &answer.json()["config"]["push"];
        assert_eq!(push["headers"], shown, "{answer}");
        assert_eq!(push["secrets"], json!(["***", "***"]), "{answer}");
    }
    clean(client.get_path("/topics?prefix=masked").await.expect(200));
    client.published(&topic, json!({"payload": 1})).await;
    let call = receiver.wait_for(1).await.remove(0);
    assert_eq!((call.header("authorization"), call.header("cookie")), (BEARER, COOKIE));
}

#[tokio::test]
async fn a_messages_secrets_are_shown_as_stars() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, "masked", json!({"url": receiver.url("/")})).await;
    let key = json!({"payload": 1, "headers": headers(), "key": "k", "delay_ms": 600_000});
    let made = clean(client.publish(&topic, key).await.expect(201));
    let id = made.text("id");
    let shown = json!({"Authorization": "***", "cookie": "***", "x-open": "open"});
    for answer in [
        clean(client.get(&id).await.expect(200)),
        clean(client.get_by_key(&topic, "k").await.expect(200)),
        clean(client.update(&id, json!({"priority": 3})).await.expect(200)),
    ] {
        assert_eq!(answer.json()["headers"], shown, "{answer}");
    }
    for query in ["state=delayed", "state=delayed&payload=true"] {
        let listed = clean(client.list(&topic, query).await.expect(200)).json();
        assert_eq!(listed["items"][0]["id"], id, "{listed}");
        let headers = &listed["items"][0]["headers"];
        assert!(headers.is_null() || *headers == shown, "a list may leave them out: {listed}");
    }
    client.update(&id, json!({"delay_ms": 0})).await.expect(200);
    let call = receiver.wait_for(1).await.remove(0);
    assert_eq!((call.header("authorization"), call.header("cookie")), (BEARER, COOKIE));
}

#[tokio::test]
async fn a_callbacks_secrets_are_shown_as_stars_dead_ones_too() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(410));
    let more = json!({"payload": 1, "headers": headers(), "backoff": patient()});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    becomes(&client, &id, "dead", 1).await;
    let seen = clean(client.get(&id).await.expect(200)).json();
    assert_eq!(seen["headers"]["Authorization"], "***");
    let listed = clean(client.list("_callbacks", "state=dead&limit=1000").await.expect(200)).json();
    let items = listed["items"].as_array().unwrap();
    assert!(items.iter().any(|item| item["id"] == id), "{listed}");
    assert_eq!(receiver.calls()[0].header("authorization"), BEARER);
    receiver.answer(Reply::status(200));
    clean(client.redrive(&id).await.expect(200));
    assert_eq!(receiver.wait_for(2).await[1].header("authorization"), BEARER);
}

#[tokio::test]
async fn stars_put_back_keep_what_is_stored_in_a_topic() {
    let (client, receiver) = ready().await;
    let push = json!({"url": receiver.url("/1"), "headers": headers(), "secrets": [SECRET]});
    let topic = pushed(&client, "masked", push).await;
    let mut config = client.topic(&topic).await.expect(200).json()["config"].clone();
    config["push"]["url"] = json!(receiver.url("/2"));
    clean(client.put_topic(&topic, config.clone()).await.expect(200));
    client.published(&topic, json!({"payload": 1})).await;
    let call = receiver.wait_at("/2").await;
    assert_eq!((call.header("authorization"), call.header("cookie")), (BEARER, COOKIE));
    assert!(call.has("webhook-signature"), "{call:?}");
    config["push"]["url"] = json!(receiver.url("/3"));
    config["push"]["headers"]["authorization"] = json!("Bearer new");
    config["push"]["headers"].as_object_mut().unwrap().remove("Authorization");
    client.update_topic(&topic, json!({"push": config["push"]})).await.expect(200);
    client.published(&topic, json!({"payload": 1})).await;
    let call = receiver.wait_at("/3").await;
    assert_eq!((call.header("authorization"), call.header("cookie")), ("Bearer new", COOKIE));
}

#[tokio::test]
async fn stars_put_back_keep_what_is_stored_in_a_message() {
    let (client, receiver) = ready().await;
    let more = json!({"payload": 1, "headers": headers(), "delay_ms": 600_000});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let mut shown = client.get(&id).await.expect(200).json()["headers"].clone();
    shown["x-open"] = json!("changed");
    clean(client.update(&id, json!({"headers": shown, "delay_ms": 0})).await.expect(200));
    let call = receiver.wait_for(1).await.remove(0);
    assert_eq!((call.header("authorization"), call.header("cookie")), (BEARER, COOKIE));
    assert_eq!(call.header("x-open"), "changed");
}

#[tokio::test]
async fn stars_for_which_nothing_is_stored_are_refused() {
    let (client, receiver) = ready().await;
    let stars = json!({"authorization": "***"});
    let more = json!({"url": receiver.url("/"), "headers": stars});
    let topic = topic("masked");
    client.put_topic(&topic, json!({"push": more})).await.refused(422);
    let push = json!({"url": receiver.url("/"), "secrets": ["***"]});
    client.put_topic(&topic, json!({"push": push})).await.refused(422);
    assert_eq!(receiver.count(), 0);
}

#[tokio::test]
async fn nothing_secret_is_in_the_log() {
    let (_redis, dueq) = alone(&["--log", "debug"]).await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    let push = json!({"url": receiver.url("/"), "headers": headers(), "secrets": [SECRET]});
    let topic = pushed(&client, "masked", push).await;
    receiver.answer_next("/", [Reply::status(500), Reply::dropped()]);
    let more = json!({"payload": 1, "headers": headers(), "backoff": crate::facts::fixed(50)});
    client.published(&topic, more).await;
    receiver.wait_for(3).await;
    let log = dueq.log();
    for secret in [&SECRET[6..], &OTHER[6..], "very-secret"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}

#[tokio::test]
async fn stars_do_not_make_headers_larger_than_headers_may_be() {
    let (client, receiver) = ready().await;
    let long = json!({"authorization": "x".repeat(8_000)});
    // Each spelling of the name would get the one value that is stored.
    let spelling = |n: usize| -> (String, Value) {
        let upper =
            |(at, c): (usize, char)| if n >> at & 1 == 1 { c.to_ascii_uppercase() } else { c };
        ("authorization".chars().enumerate().map(upper).collect(), json!("***"))
    };
    let stars = Value::from_iter((0..9).map(spelling));
    let more = json!({"payload": 1, "headers": long, "delay_ms": 600_000});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    client.update(&id, json!({"headers": stars})).await.refused(422).field("headers");
    client.get(&id).await.expect(200);

    let push = |headers: &Value| json!({"push": {"url": receiver.url("/"), "headers": headers}});
    let topic = topic("masked");
    client.new_topic(&topic, push(&long)).await;
    client.put_topic(&topic, push(&stars)).await.refused(422).field("push.headers");

    let path = format!("/schedules/{topic}");
    let schedule = |headers: &Value| {
        let callback = json!({"url": receiver.url("/")});
        json!({"every_ms": 3_600_000, "callback": callback, "message": {"headers": headers}})
    };
    let put = async |headers: &Value| client.send_json("PUT", &path, &schedule(headers)).await;
    put(&long).await.expect(201);
    put(&stars).await.refused(422).field("message.headers");
    client.get_path(&path).await.expect(200);
}
