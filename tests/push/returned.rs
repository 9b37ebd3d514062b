//! Dead letters in their own form that go back to a pushed topic: each is called where it wants to be called itself, with the secrets
//! that were stored with it; and while it is elsewhere, nothing of that is shown or used.

use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::facts::{a_while, patient, pushed_with, ready, scheduled};
use crate::harness::*;
use crate::tenants::Tenants;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn verified(call: &Call) -> bool {
    Webhook::new(SECRET).unwrap().verify(&call.body, &call.header_map()).is_ok()
}

/// A new topic for dead letters, and the settings that have them move there.
async fn dead_topic(client: &Client) -> (String, Value) {
    let dead = topic("letters");
    client.new_topic(&dead, json!({})).await;
    let settings = json!({"dead_topic": dead, "dead_form": "raw"});
    (dead, settings)
}

/// The one dead letter there, once it has come.
async fn letter(client: &Client, topic: &str) -> Value {
    eventually("the letter", || async {
        client.listed(topic, "state=ready&payload=true").await.pop()
    })
    .await
}

#[tokio::test]
async fn a_dead_letter_that_goes_back_is_called_at_its_own_url() {
    let (client, receiver) = ready().await;
    receiver.answer_at("/own", Reply::status(410));
    let to_topic = json!({"url": receiver.url("/topic")});
    for (push, token) in [(to_topic, "hidden-token"), (json!({}), "hidden-other")] {
        let before = receiver.calls_at("/own").len();
        let (dead, settings) = dead_topic(&client).await;
        let here = pushed_with(&client, "hooks", push, settings).await;
        let auth = json!({"kind": "basic", "username": "a", "password": "hidden-password"});
        let callback = json!({"url": receiver.url("/own"), "method": "PUT", "auth": auth,
            "secret": SECRET, "secret_headers": ["x-token"]});
        let message = json!({"payload": "for customer A", "callback": callback,
            "headers": {"X-Token": "hidden-token"}, "on_done": {"url": receiver.url("/done")}});
        client.published(&here, message).await;
        let letter = letter(&client, &dead).await;
        let id = text(&letter, "id");
        let mut change = json!({"payload": "changed", "priority": 3});
        if token == "hidden-other" {
            change["headers"] = json!({"x-token": token});
        }
        client.update(id, change).await.expect(200);
        let shown = client.get(id).await.expect(200);
        let listed = client.list(&dead, "state=ready&payload=true").await.expect(200);
        let leased = client.lease(&dead, json!({})).await.expect(200);
        client.nack_leased(&leased.json()["messages"][0], json!({"delay_ms": 0})).await.expect(200);
        for shown in [shown, listed, leased] {
            assert!(format!("{shown}").contains("\"***\""), "{shown}");
            let all = format!("{shown}");
            for hidden in ["hidden-", &SECRET[6..], "/own", "/done"] {
                assert!(!all.contains(hidden), "{hidden}: {all}");
            }
        }
        for word in ["hidden", "host:127.0.0.1", "url:/own", "header.x-token:hidden-token"] {
            let query = format!("state=ready&q={word}");
            assert_eq!(client.listed(&dead, &query).await, Vec::<Value>::new(), "{word}");
        }
        receiver.answer_at("/own", Reply::status(200));
        let moved = client.redrive_topic(&dead, json!({})).await.expect(200);
        assert_eq!((moved.number("redriven"), moved.number("remaining")), (1, 0));
        let own = |calls: &[Call]| calls.iter().filter(|it| it.path == "/own").count();
        receiver.wait_until("the call", |calls| (own(calls) == before + 2).then_some(())).await;
        let call = receiver.calls_at("/own").pop().unwrap();
        assert_eq!((call.method.as_str(), call.header("x-token")), ("PUT", token));
        assert_eq!(call.body, b"\"changed\"", "{call:?}");
        assert!(call.header("authorization").starts_with("Basic ") && verified(&call), "{call:?}");
        let done = |calls: &[Call]| calls.iter().filter(|it| it.path == "/done").count();
        receiver
            .wait_until("the completion", |calls| (done(calls) == 1 + before / 2).then_some(()))
            .await;
        receiver.answer_at("/own", Reply::status(410));
    }
    a_while(1_500).await;
    assert_eq!(receiver.calls_at("/topic").len(), 0);
    assert_eq!((receiver.calls_at("/own").len(), receiver.calls_at("/done").len()), (4, 2));
}

#[tokio::test]
async fn what_another_key_changed_of_a_callback_is_not_sent_back_with_the_publishers_secrets() {
    let all = "read:* publish:* operate:*";
    let server = Tenants::start(&[("boss", "admin"), ("a", all), ("b", all)], &[]).await;
    let [boss, a, b] = ["boss", "a", "b"].map(|name| server.client(name));
    let receiver = Receiver::start().await;
    let (dead, settings) = dead_topic(&boss).await;
    boss.update_topic("_callbacks", settings).await.expect(200);
    for (editor, keeps) in [(&a, true), (&b, false)] {
        let path = if keeps { "/kept" } else { "/dropped" };
        receiver.answer_at(path, Reply::status(410));
        let auth = json!({"kind": "basic", "username": "a", "password": "of-a"});
        let more = json!({"payload": 1, "secret": SECRET, "auth": auth, "group": "customer",
            "backoff": patient()});
        scheduled(&a, &receiver.url(path), more).await;
        let id = text(&letter(&boss, &dead).await, "id").to_owned();
        editor.update(&id, json!({"payload": "changed"})).await.expect(200);
        receiver.answer_at(path, Reply::status(503));
        assert_eq!(editor.redrive_topic(&dead, json!({})).await.expect(200).number("redriven"), 1);
        receiver
            .wait_until("it again", |calls| {
                (calls.iter().filter(|it| it.path == path).count() == 2).then_some(())
            })
            .await;
        let call = receiver.calls_at(path).pop().unwrap();
        assert_eq!(call.body, b"\"changed\"", "{call:?}");
        assert_eq!((verified(&call), call.has("authorization")), (keeps, keeps), "{call:?}");
        let shown = boss.get(call.id()).await.expect(200).json();
        assert_eq!(shown["published_by"], if keeps { "a" } else { "b" }, "{shown}");
        assert_eq!(shown["group"], "customer", "{shown}");
    }
}
