//! Stored secrets belong to the origin that they were stored for: they are sent to no other, kept for no other, and shown
//! to nobody, whatever becomes of their topic.

use serde_json::{Value, json};

use crate::facts::{becomes, patient, pushed, pushed_with, ready, scheduled};
use crate::harness::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const BEARER: &str = "Bearer very-secret";
const LATER: i64 = 600_000;

/// One header that is a secret by its name, one that is named as one, and one that is none.
fn headers() -> Value {
    json!({"Authorization": BEARER, "X-Token": "very-secret", "x-open": "open"})
}

/// As they are shown.
fn shown() -> Value {
    json!({"Authorization": "***", "X-Token": "***", "x-open": "open"})
}

/// A push with secrets of every kind.
fn secretive(url: &str) -> Value {
    json!({"url": url, "headers": headers(), "secret_headers": ["x-token"], "secrets": [SECRET]})
}

#[track_caller]
fn clean(answer: &Answer) {
    let body = String::from_utf8_lossy(&answer.body);
    assert!(!body.contains("very-secret") && !body.contains(&SECRET[6..]), "{answer}");
}

/// Demands that nothing secret came with this call, though what is none did.
#[track_caller]
fn bare(call: &Call) {
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
    assert!(!dueq.log().contains("unsigned"), "{}", dueq.log());
    for _ in 0..3 {
        scheduled(&client, &own.url("/"), json!({"payload": 1})).await;
    }
    own.wait_for(4).await;
    assert_eq!(dueq.log().matches("unsigned").count(), 1, "{}", dueq.log());
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
    for to in [named(own.url("/")), json!({"url": other.url("/")}), json!(null)] {
        push(&client, &topic, to).await;
        let seen = client.get_path(&path).await.expect(200);
        assert_eq!(seen.json()["message"]["headers"], stars);
        trigger().await;
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
