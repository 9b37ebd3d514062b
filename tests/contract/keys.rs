//! `key`: a name of the message's own, held by one live message of its topic at a time; what finds it
//! taken, and the three routes by key.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::facts::{counted, topic_in_balance};
use crate::harness::*;

fn keyed(key: &str) -> Value {
    json!({"payload": 1, "key": key})
}

/// A fresh topic whose one message has the key `k` and is in this state.
async fn holder_in(state: &str) -> (Client, String, Value) {
    let (client, topic) = (client().await, topic("keys"));
    let delay = if state == "delayed" { 60_000 } else { 0 };
    let message = json!({"payload": "first", "key": "k", "delay_ms": delay});
    let sent = client.publish(&topic, message).await.expect(201).json();
    assert_eq!(sent["duplicate"], false);
    if state == "leased" {
        client.lease_one(&topic).await;
    }
    (client, topic, sent)
}

#[tokio::test]
async fn a_taken_key_answers_with_the_message_that_has_it() {
    for state in ["delayed", "ready", "leased"] {
        let (client, topic, sent) = holder_in(state).await;
        for more in [json!({}), json!({"on_duplicate": "return"}), json!({"delay_ms": 5000})] {
            let mut message = json!({"payload": "second", "key": "k", "priority": 7});
            message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let answer = client.publish(&topic, message).await.expect(200);
            let again = answer.json();
            assert_eq!(again["duplicate"], true, "{state}");
            for name in ["id", "topic", "published_at"] {
                assert_eq!(again[name], sent[name], "{name} of a {state} one");
            }
            assert_eq!(again["state"], state);
            let due = (state != "leased").then_some(&sent["due_at"]);
            assert_eq!(again.get("due_at"), due, "{state}");
            let location = format!("/messages/{}", text(&sent, "id"));
            assert_eq!(answer.header("location"), location);
        }
        let seen = client.get(text(&sent, "id")).await.expect(200).json();
        assert_eq!((&seen["payload"], &seen["priority"]), (&json!("first"), &json!(0)));
        counted(&client, &topic, &[("totals", "published", 1), ("totals", "replaced", 0)]).await;
    }
}

#[tokio::test]
async fn a_taken_key_is_refused_where_the_publisher_wants_that() {
    for state in ["delayed", "ready", "leased"] {
        let (client, topic, sent) = holder_in(state).await;
        let message = json!({"payload": 2, "key": "k", "on_duplicate": "reject"});
        client.publish(&topic, message.clone()).await.problem(409, "duplicate_key");
        assert_eq!(client.state(text(&sent, "id")).await, state);
        let other = json!({"payload": 2, "key": "K", "on_duplicate": "reject"});
        client.publish(&topic, other).await.expect(201); // keys differ by case
        client.publish(&format!("{topic}.b"), message).await.expect(201); // and by topic
        counted(&client, &topic, &[("totals", "published", 2)]).await;
    }
}

/// Keys of all kinds, the longest in characters of one byte and of four.
fn all_kinds() -> Vec<String> {
    let mut keys: Vec<String> = [
        "a/b/c",
        "/",
        "//",
        "100%",
        "%2F",
        "%",
        "a b",
        " ",
        "+",
        "?a=1&b=2",
        "#x",
        "é",
        "مرحبا",
        "😀 👨‍👩‍👧",
        "\"",
        "'",
        "{}",
        "{a:0}",
        "*",
        "key:1",
        "a\\b",
        "<x>",
        "a,b;c",
        "x-1.2_3~",
        "0",
    ]
    .map(String::from)
    .into();
    keys.extend(["x".repeat(255), "é".repeat(255), "😀".repeat(255)]);
    keys
}

#[tokio::test]
async fn a_key_may_have_any_characters_and_is_percent_encoded_in_a_path() {
    let (client, topic) = (client().await, topic("keys"));
    let mut ids = Vec::new();
    for key in all_kinds() {
        let id = client.published(&topic, keyed(&key)).await;
        let again = client.publish(&topic, keyed(&key)).await.expect(200);
        assert_eq!(again.text("id"), id, "{key:?}");
        ids.push((key, id));
    }
    for (key, id) in &ids {
        let seen = client.get_by_key(&topic, key).await.expect(200).json();
        assert_eq!((&seen["id"], &seen["key"]), (&json!(id), &json!(key)));
        assert_eq!(seen, client.get(id).await.expect(200).json(), "by key as by id");
        let changed = client.update_by_key(&topic, key, json!({"priority": 3})).await.expect(200);
        assert_eq!((changed.text("id"), changed.number("priority")), (id.clone(), 3), "{key:?}");
    }
    for (key, id) in &ids {
        client.delete_by_key(&topic, key, "").await.expect(204);
        client.get_by_key(&topic, key).await.problem(404, "message_not_found");
        client.get(id).await.problem(404, "message_not_found");
    }
    let count = i64::try_from(ids.len()).unwrap();
    counted(&client, &topic, &[("totals", "published", count), ("totals", "deleted", count)]).await;
}

#[tokio::test]
async fn a_key_is_told_with_the_lease() {
    let (client, topic) = (client().await, topic("keys"));
    client.published(&topic, keyed("order/42 😀")).await;
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.leased(&topic, json!({"max_messages": 2})).await;
    assert_eq!(held[0]["key"], "order/42 😀");
    assert!(held[1].get("key").is_none(), "{held:?}");
    let seen = client.get_by_key(&topic, "order/42 😀").await.expect(200);
    assert_eq!(seen.text("state"), "leased");
}

#[tokio::test]
async fn the_routes_by_key_answer_as_those_by_id() {
    let (client, topic) = (client().await, topic("keys"));
    let nowhere = format!("{topic}-none");
    for (name, code) in [(&nowhere, "topic_not_found"), (&topic, "message_not_found")] {
        if *name == topic {
            client.published(&topic, json!({"payload": 1, "priority": 1})).await;
            client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
        }
        client.get_by_key(name, "k").await.problem(404, code);
        client.update_by_key(name, "k", json!({"priority": 1})).await.problem(404, code);
        client.delete_by_key(name, "k", "").await.problem(404, code);
        client.delete_by_key(name, "k", "?force=true").await.problem(404, code);
    }
    let id = client.published(&topic, keyed("k")).await;
    let held = client.lease_one(&topic).await;
    let change = json!({"priority": 1});
    client.update_by_key(&topic, "k", change).await.problem(409, "message_leased");
    client.delete_by_key(&topic, "k", "").await.problem(409, "message_leased");
    client.delete_by_key(&topic, "k", "?force=false").await.problem(409, "message_leased");
    client.delete_by_key(&topic, "k", "?force=true").await.expect(204);
    client.ack_leased(&held).await.problem(404, "message_not_found");
    client.get(&id).await.problem(404, "message_not_found");
    counted(&client, &topic, &[("totals", "deleted_leased", 1), ("counts", "leased", 0)]).await;
}

#[tokio::test]
async fn what_by_key_does_not_fit_is_refused() {
    let (client, topic) = (client().await, topic("keys"));
    client.published(&topic, keyed("k")).await;
    let path = by_key(&topic, "k");
    for (method, path, body, statuses) in [
        ("GET", format!("{path}?nope=1"), None, &[422][..]),
        ("GET", format!("{path}?force=true"), None, &[422]),
        ("DELETE", format!("{path}?nope=1"), None, &[422]),
        ("DELETE", format!("{path}?force=maybe"), None, &[422]),
        ("DELETE", format!("{path}?force=true&force=true"), None, &[422]),
        ("PATCH", path.clone(), Some("{\"nope\":1}"), &[422]),
        ("PATCH", path.clone(), Some("{\"key\":\"other\"}"), &[422]),
        ("PATCH", path.clone(), Some("{\"priority\":256}"), &[422]),
        ("PATCH", path.clone(), Some("[]"), &[422]),
        ("PATCH", path.clone(), Some("{"), &[400]),
        ("PUT", path.clone(), Some("{}"), &[405]),
        ("POST", path, Some("{}"), &[405]),
        ("GET", format!("/topics/{topic}/keys/%ff"), None, &[400]),
        ("GET", format!("/topics/{topic}/keys/%c3"), None, &[400]),
        ("GET", "/topics/a..b/keys/k".into(), None, &[400]),
        ("GET", format!("/topics/{topic}/keys/"), None, &[404]),
        ("GET", format!("/topics/{topic}/keys/a/b"), None, &[404]),
        // Too long for any key: no path that parses, or the key of nobody.
        ("GET", by_key(&topic, &"x".repeat(256)), None, &[400, 404]),
    ] {
        let kind = [("content-type", "application/json")];
        let body = body.map(|body: &str| body.as_bytes().to_vec());
        let answer = client.send(method, &path, &kind, body).await;
        assert!(statuses.contains(&answer.status), "wanted {statuses:?}: {answer}");
    }
    assert_eq!(client.get_by_key(&topic, "k").await.expect(200).number("priority"), 0);
}

#[tokio::test]
async fn a_raw_publish_has_a_key_too() {
    let (client, topic) = (client().await, topic("keys"));
    let send = async |query: &str| client.publish_raw(&topic, query, None, b"x").await;
    let id = send("?key=order%2F42%20%F0%9F%98%80").await.expect(201).text("id");
    assert_eq!(client.get_by_key(&topic, "order/42 😀").await.expect(200).text("id"), id);
    let again = send("?key=order%2F42+%F0%9F%98%80&on_duplicate=return").await.expect(200);
    assert_eq!((again.text("id"), again.json()["duplicate"].clone()), (id, json!(true)));
    let reject = "?on_duplicate=reject&key=order%2F42%20%F0%9F%98%80";
    send(reject).await.problem(409, "duplicate_key");
    let replace = "?on_duplicate=replace&key_until=granted&key=order%2F42%20%F0%9F%98%80";
    assert_eq!(send(replace).await.expect(200).json()["duplicate"], true);
    counted(&client, &topic, &[("totals", "published", 1), ("totals", "replaced", 1)]).await;
}

#[tokio::test]
async fn of_many_publishes_of_one_key_at_once_one_makes_the_message() {
    let other = instance().await;
    let (client, topic) = (client().await, topic("keys"));
    let clients = [client.clone(), other.client()];
    for key in ["a", "b", "c"] {
        let sends = (0..60).map(|n| {
            let message = json!({"payload": n, "key": key});
            clients[n % 2].publish(&topic, message)
        });
        let answers = join_all(sends).await;
        let new: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 201).collect();
        assert_eq!(new.len(), 1, "one message of the key {key}");
        for answer in &answers {
            assert!(matches!(answer.status, 200 | 201), "{answer}");
            assert_eq!(answer.text("id"), new[0].text("id"));
            assert_eq!(answer.json()["duplicate"], answer.status == 200);
        }
    }
    assert_eq!(topic_in_balance(&client, &topic).await["totals"]["published"], 3);
}

#[tokio::test]
async fn keys_of_many_messages_at_once_do_not_mix() {
    let (client, topic) = (client().await, topic("keys"));
    let sends = (0..200).map(|n| {
        let message = json!({"payload": n % 50, "key": format!("k{}", n % 50), "delay_ms": 60_000});
        client.publish(&topic, message)
    });
    join_all(sends).await;
    let looks = join_all((0..50).map(|n| {
        let key = format!("k{n}");
        let (client, topic) = (&client, &topic);
        async move { client.get_by_key(topic, &key).await.expect(200) }
    }));
    for (n, answer) in looks.await.into_iter().enumerate() {
        assert_eq!(answer.json()["payload"], n, "{answer}");
    }
    counted(&client, &topic, &[("totals", "published", 50), ("counts", "delayed", 50)]).await;
}
