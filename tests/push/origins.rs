//! Stored secrets belong to the origin that they were stored for: they are sent to no other, kept for no other, and shown
//! to nobody, whatever becomes of their topic.

use serde_json::{Value, json};

use crate::facts::{becomes, patient, pushed, pushed_with, ready, scheduled};
use crate::harness::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub const BEARER: &str = "Bearer very-secret";
pub const LATER: i64 = 600_000;

/// One header that is a secret by its name, one that is named as one, and one that is none.
fn headers() -> Value {
    json!({"Authorization": BEARER, "X-Token": "very-secret", "x-open": "open"})
}

/// As they are shown.
fn shown() -> Value {
    json!({"Authorization": "***", "X-Token": "***", "x-open": "open"})
}

/// A push with secrets of every kind.
pub fn secretive(url: &str) -> Value {
    json!({"url": url, "headers": headers(), "secret_headers": ["x-token"], "secrets": [SECRET]})
}

#[track_caller]
pub fn clean(answer: &Answer) {
    let body = String::from_utf8_lossy(&answer.body);
    assert!(!body.contains("very-secret") && !body.contains(&SECRET[6..]), "{answer}");
}

/// Demands that nothing secret came with this call, though what is none did.
#[track_caller]
pub fn bare(call: &Call) {
    for name in ["authorization", "x-token", "webhook-signature"] {
        assert!(!call.has(name), "{name}: {call:?}");
    }
    assert_eq!(call.header("x-open"), "open", "{call:?}");
}

#[tokio::test]
async fn a_topics_secrets_are_not_sent_where_a_message_of_its_own_goes() {
    let ((client, own), other) = (ready().await, Receiver::start().await);
    let topic = pushed(&client, "origins", secretive(&own.url("/"))).await;
    let callback = json!({"payload": 1, "callback": {"url": other.url("/")}});
    client.published(&topic, callback).await;
    bare(&other.wait_for(1).await[0]);
    let same = json!({"payload": 1, "callback": {"url": own.url("/own")}});
    client.published(&topic, same).await;
    client.published(&topic, json!({"payload": 1})).await;
    for call in own.wait_for(2).await {
        assert_eq!((call.header("authorization"), call.header("x-token")), (BEARER, "very-secret"));
        assert!(call.has("webhook-signature"), "{call:?}");
    }
}

#[tokio::test]
async fn another_push_url_needs_every_secret_anew() {
    let ((client, own), other) = (ready().await, Receiver::start().await);
    let topic = pushed(&client, "origins", secretive(&own.url("/"))).await;
    let made = client.topic(&topic).await.expect(200).json();
    let to = |url: String, headers: Value, secrets: Value| json!({"push": {"url": url, "headers": headers, "secrets": secrets, "secret_headers": ["x-token"]}});
    let open = json!({"x-open": "open"});
    for method in ["PUT", "PATCH"] {
        for (body, field) in [
            (
                to(other.url("/"), json!({"authorization": "***"}), json!([])),
                "push.headers.authorization",
            ),
            (to(other.url("/"), json!({"X-TOKEN": "***"}), json!([])), "push.headers.X-TOKEN"),
            (to(other.url("/"), open.clone(), json!(["***"])), "push.secrets[0]"),
            // Absent ones would stay.
            (to(other.url("/"), open.clone(), json!(null)), "push.secrets[0]"),
            (
                to(own.url("/").replace("http:", "https:"), open.clone(), json!(["***"])),
                "push.secrets[0]",
            ),
        ] {
            let answer = client.topic_if(method, &topic, None, &body).await;
            answer.problem(422, "secret_required").field(field);
        }
        let same = to(own.url("/b"), shown(), json!(["***"]));
        let kept = client.topic_if(method, &topic, None, &same).await.expect(200).json();
        assert_eq!(kept["config"]["push"]["headers"], made["config"]["push"]["headers"]);
    }
    let anew = to(other.url("/"), json!({"authorization": "new", "x-open": "open"}), json!([]));
    client.update_topic(&topic, anew).await.expect(200);
    client.published(&topic, json!({"payload": 1})).await;
    let call = other.wait_for(1).await.remove(0);
    assert_eq!((call.header("authorization"), call.has("x-token")), ("new", false));
}

#[tokio::test]
async fn a_url_that_is_taken_away_between_does_not_free_the_secrets() {
    let ((client, own), other) = (ready().await, Receiver::start().await);
    let topic = pushed(&client, "origins", secretive(&own.url("/"))).await;
    let without = json!({"push": {"headers": shown(), "secret_headers": ["x-token"]}});
    let push =
        client.update_topic(&topic, without).await.expect(200).json()["config"]["push"].clone();
    assert_eq!((&push["headers"], &push["secrets"]), (&shown(), &json!(["***"])));
    let callback =
        |receiver: &Receiver| json!({"payload": 1, "callback": {"url": receiver.url("/")}});
    client.published(&topic, callback(&other)).await;
    bare(&other.wait_for(1).await[0]);
    client.published(&topic, callback(&own)).await;
    assert_eq!(own.wait_for(1).await[0].header("authorization"), BEARER);
    for push in [json!({"headers": shown(), "secrets": []}), json!({})] {
        let mut push = push;
        push["url"] = json!(other.url("/"));
        let answer = client.update_topic(&topic, json!({"push": push})).await;
        answer.problem(422, "secret_required");
    }
    client.update_topic(&topic, json!({"push": null})).await.expect(200);
    let stars = json!({"push": {"url": own.url("/"), "headers": {"authorization": "***"}}});
    client.update_topic(&topic, stars).await.problem(422, "secret_required");
}

#[tokio::test]
async fn a_header_that_was_a_secret_stays_one_while_its_value_is_kept() {
    let (client, own) = ready().await;
    let topic = pushed(&client, "origins", secretive(&own.url("/"))).await;
    let unnamed = json!({"push": {"url": own.url("/"), "headers": shown()}});
    let push = client.update_topic(&topic, unnamed).await.expect(200);
    clean(&push);
    assert_eq!(push.json()["config"]["push"]["headers"], shown());
    let callback = json!({"url": own.url("/"), "secret_headers": ["x-token"]});
    let message =
        json!({"payload": 1, "delay_ms": LATER, "headers": headers(), "callback": callback});
    let id = client.published(&topic, message).await;
    for change in [
        json!({"callback": {"url": own.url("/b")}}),
        json!({"callback": {"url": own.url("/b")}, "headers": shown()}),
        json!({"callback": null}),
        json!({"headers": shown()}),
    ] {
        let changed = client.update(&id, change.clone()).await.expect(200);
        clean(&changed);
        assert_eq!(changed.json()["headers"], shown(), "{change}");
    }
    client.update(&id, json!({"delay_ms": 0})).await.expect(200);
    let call = own.wait_for(1).await.remove(0);
    assert_eq!((call.header("authorization"), call.header("x-token")), (BEARER, "very-secret"));
}

#[tokio::test]
async fn what_was_masked_stays_masked_when_the_topic_is_pulled() {
    let (client, own) = ready().await;
    let dead = topic("origins-dead");
    let more = json!({"dead_topic": dead});
    let topic = pushed_with(&client, "origins", secretive(&own.url("/")), more).await;
    let message = json!({"payload": 1, "delay_ms": LATER, "headers": headers()});
    let id = client.published(&topic, message).await;
    client.update_topic(&topic, json!({"push": null})).await.expect(200);
    let got = client.get(&id).await.expect(200);
    let listed = client.list(&topic, "state=delayed&payload=true").await.expect(200);
    clean(&listed);
    assert_eq!(
        (&got.json()["headers"], &listed.json()["items"][0]["headers"]),
        (&shown(), &shown())
    );
    let stars = client.update(&id, json!({"headers": shown()})).await;
    stars.problem(422, "secret_required").field("headers.Authorization");
    client.update(&id, json!({"delay_ms": 0, "payload": 2})).await.expect(200);
    let leased = client.lease(&topic, json!({"wait_ms": 5000})).await.expect(200);
    clean(&leased);
    let leased = leased.json()["messages"][0].clone();
    assert_eq!(leased["headers"], shown());
    let nack = json!({"lease_token": leased["lease_token"], "dead": true});
    client.post(&format!("/messages/{id}/nack"), &nack).await.expect(200);
    let letter = client.lease(&dead, json!({"wait_ms": 10_000})).await.expect(200);
    clean(&letter);
    assert_eq!(letter.json()["messages"][0]["payload"]["message"]["headers"], shown());
    let seen = client.get(&id).await.expect(200).json();
    assert_eq!((&seen["state"], &seen["headers"]), (&json!("dead"), &shown()));
}

#[tokio::test]
async fn a_callback_that_moves_needs_its_secrets_anew() {
    let ((client, own), other) = (ready().await, Receiver::start().await);
    let more = json!({"delay_ms": LATER, "headers": headers(), "secret_headers": ["x-token"]});
    let id = scheduled(&client, &own.url("/"), more).await;
    let to = json!({"url": other.url("/"), "secret_headers": ["x-token"]});
    for (change, field) in [
        (json!({"callback": to}), "headers.Authorization"),
        (json!({"callback": to, "headers": {"x-token": "***"}}), "headers.x-token"),
        (
            json!({"callback": {"url": other.url("/")}, "headers": {"x-token": "***"}}),
            "headers.x-token",
        ),
    ] {
        client.update(&id, change).await.problem(422, "secret_required").field(field);
    }
    let anew =
        json!({"callback": to, "headers": {"x-token": "new", "x-open": "open"}, "delay_ms": 0});
    let changed = client.update(&id, anew).await.expect(200).json();
    assert_eq!(changed["headers"], json!({"x-token": "***", "x-open": "open"}));
    let call = other.wait_for(1).await.remove(0);
    assert_eq!((call.has("authorization"), call.header("x-token")), (false, "new"));
    assert_eq!(own.count(), 0);
}

#[tokio::test]
async fn a_messages_secrets_do_not_follow_its_topic_to_another_origin() {
    let ((client, own), other) = (ready().await, Receiver::start().await);
    let push = json!({"url": own.url("/"), "secret_headers": ["x-token"]});
    let topic = pushed_with(&client, "origins", push, json!({"backoff": patient()})).await;
    let message = json!({"payload": 1, "delay_ms": LATER, "headers": headers()});
    let id = client.published(&topic, message).await;
    let batch = [json!({"payload": 2, "delay_ms": LATER, "headers": headers()})];
    let batched = client.published_batch(&topic, &batch).await;
    let batched = text(&batched[0]["message"], "id").to_owned();
    client.update_topic(&topic, json!({"push": {"url": other.url("/")}})).await.expect(200);
    for id in [&id, &batched] {
        clean(&client.get(id).await.expect(200));
        client.update(id, json!({"delay_ms": 0})).await.expect(200);
    }
    for call in other.wait_for(2).await {
        bare(&call);
    }
}

#[tokio::test]
async fn a_schedules_secrets_stay_with_its_topic_and_origin() {
    let ((client, own), other) = (ready().await, Receiver::start().await);
    let (name, pulled) = (topic("origins"), topic("origins-pulled"));
    let pushed = pushed(&client, "origins", json!({"url": other.url("/")})).await;
    let path = format!("/schedules/{name}");
    let put = async |target: Value, headers: Value| {
        let mut body =
            json!({"every_ms": 3_600_000, "message": {"payload": 1, "headers": headers}});
        body.as_object_mut().unwrap().extend(target.as_object().unwrap().clone());
        client.send_json("PUT", &path, &body).await
    };
    let to = |url: String| json!({"callback": {"url": url, "secret_headers": ["x-token"], "secret": "***"}});
    let mut first = to(own.url("/"));
    first["callback"]["secret"] = json!(SECRET);
    let made = put(first, headers()).await.expect(201);
    clean(&made);
    assert_eq!(made.json()["message"]["headers"], shown());
    let kept = put(to(own.url("/kept")), shown()).await.expect(200);
    clean(&kept);
    assert_eq!(kept.json()["callback"]["secret"], "***");
    put(to(other.url("/")), json!({}))
        .await
        .problem(422, "secret_required")
        .field("callback.secret");
    let unsigned = json!({"callback": {"url": other.url("/")}});
    for target in [unsigned, json!({"topic": pulled}), json!({"topic": pushed})] {
        for headers in [json!({"Authorization": "***"}), json!({"X-Token": "***"})] {
            let name = headers.as_object().unwrap().keys().next().unwrap().clone();
            let answer = put(target.clone(), headers).await.problem(422, "secret_required");
            answer.field(&format!("message.headers.{name}"));
        }
    }
    client.post(&format!("{path}/trigger"), &json!({})).await.expect(200);
    let call = own.wait_at("/kept").await;
    assert_eq!((call.header("authorization"), call.header("x-token")), (BEARER, "very-secret"));
    assert!(call.has("webhook-signature"), "{call:?}");
    assert_eq!(other.count(), 0);
}

#[tokio::test]
async fn a_schedules_secrets_do_not_follow_its_topic_to_another_origin() {
    let ((client, own), other) = (ready().await, Receiver::start().await);
    let topic = pushed(&client, "origins", json!({"url": own.url("/")})).await;
    let path = format!("/schedules/{topic}");
    let message = json!({"payload": 1, "headers": {"authorization": BEARER, "x-open": "open"}});
    let body = json!({"every_ms": 3_600_000, "topic": topic, "message": message});
    client.send_json("PUT", &path, &body).await.expect(201);
    client.update_topic(&topic, json!({"push": {"url": other.url("/")}})).await.expect(200);
    client.post(&format!("{path}/trigger"), &json!({})).await.expect(200);
    bare(&other.wait_for(1).await[0]);
    client.update_topic(&topic, json!({"push": null})).await.expect(200);
    client.post(&format!("{path}/trigger"), &json!({})).await.expect(200);
    let leased = client.lease(&topic, json!({"wait_ms": 5000})).await.expect(200);
    clean(&leased);
}

#[tokio::test]
async fn a_callback_is_signed_with_its_own_secret_which_is_never_read_back() {
    let ((client, own), other) = (ready().await, Receiver::start().await);
    let body =
        json!({"url": own.url("/"), "delay_ms": LATER, "secret": SECRET, "key": topic("own")});
    let id = client.post("/callbacks", &body).await.expect(201).text("id");
    let seen = client.get(&id).await.expect(200);
    clean(&seen);
    assert_eq!(seen.json()["callback"]["secret"], "***");
    let moved = json!({"callback": {"url": other.url("/"), "secret": "***"}});
    client.update(&id, moved).await.problem(422, "secret_required").field("callback.secret");
    let kept = json!({"callback": {"url": own.url("/kept"), "secret": "***"}, "delay_ms": 0});
    clean(&client.update(&id, kept).await.expect(200));
    let call = own.wait_at("/kept").await;
    let webhook = standardwebhooks::Webhook::new(SECRET).unwrap();
    webhook.verify(&call.body, &call.header_map()).unwrap();
    for (secret, code) in [(json!("***"), "invalid_input"), (json!("whsec_"), "invalid_input")] {
        let body = json!({"url": own.url("/"), "secret": secret});
        client.post("/callbacks", &body).await.problem(422, code).field("secret");
    }
    let id = scheduled(&client, &own.url("/none"), json!({"delay_ms": LATER})).await;
    let nothing = json!({"callback": {"url": own.url("/none"), "secret": "***"}});
    client.update(&id, nothing).await.problem(422, "invalid_input").field("callback.secret");
}

#[tokio::test]
async fn that_calls_go_unsigned_is_told_once() {
    let (_redis, dueq) = crate::facts::alone(&[]).await;
    let (client, own) = (dueq.client(), Receiver::start().await);
    let signed = json!({"url": own.url("/"), "secrets": [SECRET]});
    let topic = pushed(&client, "origins", signed).await;
    client.published(&topic, json!({"payload": 1})).await;
    own.wait_for(1).await;
    assert!(!dueq.log().contains("not signed"), "{}", dueq.log());
    for _ in 0..3 {
        scheduled(&client, &own.url("/"), json!({"payload": 1})).await;
    }
    own.wait_for(4).await;
    assert_eq!(dueq.log().matches("not signed").count(), 1, "{}", dueq.log());
}

#[tokio::test]
async fn a_dead_callback_shows_its_secrets_as_stars() {
    let (client, own) = ready().await;
    own.answer(Reply::status(410));
    let more = json!({"headers": headers(), "secret_headers": ["x-token"], "backoff": patient()});
    let id = scheduled(&client, &own.url("/"), more).await;
    let seen = becomes(&client, &id, "dead", 1).await;
    assert_eq!(seen["headers"], shown());
}
