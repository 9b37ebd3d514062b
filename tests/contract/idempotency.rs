//! `idempotency_key`: for the topic's window a publish may be repeated, and the first answer comes
//! again, whatever became of the message, but with its present state.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::facts::{counted, gone};
use crate::harness::*;

/// The first answer again, but for `duplicate`.
fn repeated(first: &Value) -> Value {
    let mut again = first.clone();
    again["duplicate"] = json!(true);
    again
}

#[tokio::test]
async fn a_repeat_has_the_first_answer_and_the_present_state_whatever_became_of_the_message() {
    for (fate, state) in [
        ("nothing", "ready"),
        ("leased", "leased"),
        ("acked", "gone"),
        ("deleted", "gone"),
        ("dead", "dead"),
        ("purged", "gone"),
    ] {
        let (client, topic) = (client().await, topic("idempotency"));
        let message = json!({"payload": {"a": 1}, "idempotency_key": "request 1", "priority": 2});
        let first = client.publish(&topic, message.clone()).await.expect(201).json();
        assert_eq!(first["duplicate"], false);
        let id = text(&first, "id");
        match fate {
            "nothing" => {}
            "deleted" => drop(client.delete(id).await.expect(204)),
            "purged" => {
                let states = json!({"states": ["ready"]});
                client.post(&format!("/topics/{topic}/purge"), &states).await.expect(200);
            }
            _ => {
                let held = client.lease_one(&topic).await;
                match fate {
                    "acked" => drop(client.ack_leased(&held).await.expect(204)),
                    "dead" => {
                        client.nack_leased(&held, json!({"dead": true})).await.expect(200);
                    }
                    _ => {}
                }
            }
        }
        for _ in 0..2 {
            let answer = client.publish(&topic, message.clone()).await.expect(200);
            let mut expected = repeated(&first);
            expected["state"] = json!(state);
            assert_eq!(answer.json(), expected, "{fate}");
            assert_eq!(answer.header("location"), format!("/messages/{id}"));
        }
        counted(&client, &topic, &[("totals", "published", 1)]).await;
        if matches!(fate, "acked" | "deleted" | "purged") {
            gone(&client, id).await;
        }
    }
}

#[tokio::test]
async fn a_repeat_says_delayed_retained_blocked_and_expired_too() {
    let (client, topic) = (client().await, topic("idempotency"));
    client.configure(&topic, json!({"retention": {"acked_ms": 60_000}})).await;
    let is = async |message: &Value, state: &str| {
        let answer = client.publish(&topic, message.clone()).await.expect(200).json();
        assert_eq!((&answer["state"], &answer["duplicate"]), (&json!(state), &json!(true)));
        answer
    };
    let later = json!({"payload": 1, "idempotency_key": "later", "delay_ms": 60_000});
    let first = client.publish(&topic, later.clone()).await.expect(201).json();
    assert_eq!(is(&later, "delayed").await["due_at"], first["due_at"]);
    client.update(text(&first, "id"), json!({"delay_ms": 0})).await.expect(200);
    assert_eq!(is(&later, "ready").await["due_at"], first["due_at"], "as it was at first");
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    is(&later, "acked").await;
    for payload in [1, 2] {
        let message =
            json!({"payload": payload, "group": "g", "idempotency_key": payload.to_string()});
        let first = client.publish(&topic, message.clone()).await.expect(201).json();
        is(&message, text(&first, "state")).await;
    }
    let second = json!({"payload": 2, "group": "g", "idempotency_key": "2"});
    is(&second, "blocked").await;
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    is(&second, "ready").await;
    let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    let short = json!({"payload": 3, "idempotency_key": "short", "ttl_ms": 1});
    client.publish(&topic, short.clone()).await.expect(201);
    eventually("the end of a lease", || async {
        let answer = client.publish(&topic, second.clone()).await.expect(200);
        (answer.text("state") == "ready").then_some(())
    })
    .await;
    is(&short, "gone").await;
    client.ack_leased(&held).await.problem(409, "lease_lost");
}

#[tokio::test]
async fn repeats_in_a_batch_of_raw_bodies_and_of_callbacks_say_the_present_state_too() {
    let (client, topic) = (client().await, topic("idempotency"));
    let message = |n: i64| json!({"payload": n, "idempotency_key": format!("r{n}"), "priority": n});
    let first = client.published_batch(&topic, &[message(1), message(2)]).await;
    let id = |n: usize| text(&first[n]["message"], "id").to_owned();
    client.delete(&id(0)).await.expect(204);
    // What an earlier one of the batch does to it shows.
    let replacing =
        json!({"payload": 9, "key": "k", "on_duplicate": "replace", "delay_ms": 60_000});
    let named = json!({"payload": 8, "key": "k", "idempotency_key": "r8"});
    client.publish(&topic, named.clone()).await.expect(201);
    let all = [message(1), message(2), replacing, named];
    let again = client.published_batch(&topic, &all).await;
    let states: Vec<_> = again.iter().map(|it| text(&it["message"], "state")).collect();
    assert_eq!(states, ["gone", "ready", "delayed", "delayed"]);
    let query = "?idempotency_key=raw";
    let raw = async || client.publish_raw(&topic, query, None, b"x").await;
    let id = raw().await.expect(201).text("id");
    client.delete(&id).await.expect(204);
    assert_eq!(raw().await.expect(200).text("state"), "gone");
    let callback =
        json!({"url": "http://nowhere.invalid/", "delay_ms": 600_000, "idempotency_key": topic});
    let id = client.post("/callbacks", &callback).await.expect(201).text("id");
    client.delete(&id).await.expect(204);
    assert_eq!(client.post("/callbacks", &callback).await.expect(200).text("state"), "gone");
}

#[tokio::test]
async fn a_repeat_in_a_full_topic_neither_makes_room_nor_takes_it() {
    let (client, topic) = (client().await, topic("idempotency"));
    client.configure(&topic, json!({"max_messages": 2, "on_full": "drop_oldest"})).await;
    let message = |n: i64| json!({"payload": n, "idempotency_key": format!("r{n}")});
    for n in [1, 2] {
        client.publish(&topic, message(n)).await.expect(201);
    }
    // The third drops the first, which its repeat in the same call finds gone.
    let again =
        client.published_batch(&topic, &[message(3), message(1), message(2), message(4)]).await;
    let states: Vec<_> = again.iter().map(|it| text(&it["message"], "state")).collect();
    assert_eq!(states, ["ready", "gone", "ready", "ready"]);
    counted(&client, &topic, &[("totals", "expired", 2), ("counts", "ready", 2)]).await;
}

#[tokio::test]
async fn the_header_is_the_same_as_the_field() {
    let (client, topic) = (client().await, topic("idempotency"));
    let bare = json!({"payload": 1, "delay_ms": 60_000});
    let mut with_field = bare.clone();
    with_field["idempotency_key"] = json!("r1");
    let first = client.publish_with_header(&topic, "r1", bare.clone()).await.expect(201).json();
    for answer in [
        client.publish_with_header(&topic, "r1", bare.clone()).await,
        client.publish_with_header(&topic, "r1", with_field.clone()).await,
        client.publish(&topic, with_field.clone()).await,
    ] {
        assert_eq!(answer.expect(200).json(), repeated(&first));
    }
    for other in ["r2", "R1", "r1x"] {
        let answer = client.publish_with_header(&topic, other, with_field.clone()).await;
        answer.refused(422); // says one thing above and another below
    }
    counted(&client, &topic, &[("totals", "published", 1)]).await;
}

#[tokio::test]
async fn bodies_are_compared_as_parsed() {
    let (client, topic) = (client().await, topic("idempotency"));
    let path = format!("/topics/{topic}/messages");
    let first = "{\"payload\":{\"a\":[1,{\"b\":\"x\"}],\"c\":null},\"priority\":1,\
                 \"headers\":{\"x\":\"1\",\"y\":\"2\"},\"idempotency_key\":\"r\"}";
    let id = client.post_text(&path, first).await.expect(201).text("id");
    for same in [
        first.to_owned(),
        first.replace(':', " :\n\t").replace(',', " , "),
        format!("\r\n {first} \n"),
        "{\"idempotency_key\":\"r\",\"headers\":{\"y\":\"2\",\"x\":\"1\"},\"priority\":1,\
          \"payload\":{\"c\":null,\"a\":[1,{\"b\":\"x\"}]}}"
            .to_owned(),
        first.replace("\"b\"", "\"\\u0062\"").replace("priority", "\\u0070riority"),
    ] {
        let answer = client.post_text(&path, &same).await;
        assert_eq!(answer.status, 200, "{same}: {answer}");
        assert_eq!(answer.text("id"), id);
    }
    for (from, to) in [
        ("[1,", "[2,"),
        ("[1,", "[1,1,"),
        ("\"b\":\"x\"", "\"b\":\"X\""),
        ("\"b\":\"x\"", "\"b\":[\"x\"]"),
        ("\"c\":null", "\"c\":0"),
        (",\"c\":null", ""),
        ("\"a\":[1,{\"b\":\"x\"}]", "\"a\":[{\"b\":\"x\"},1]"),
        ("\"priority\":1", "\"priority\":2"),
        ("\"priority\":1", "\"priority\":1,\"delay_ms\":5"),
        ("\"priority\":1", "\"priority\":1,\"key\":\"k\""),
        ("\"priority\":1", "\"priority\":1,\"ttl_ms\":5000"),
        ("\"priority\":1", "\"priority\":1,\"max_attempts\":3"),
        ("\"x\":\"1\"", "\"x\":\"3\""),
        (",\"y\":\"2\"", ""),
    ] {
        let other = first.replace(from, to);
        assert_ne!(other, first, "{from}");
        client.post_text(&path, &other).await.problem(422, "idempotency_key_reused");
    }
    counted(&client, &topic, &[("totals", "published", 1)]).await;
    let held = client.lease_one(&topic).await;
    assert_eq!(held["payload"], json!({"a": [1, {"b": "x"}], "c": null}));
}

#[tokio::test]
async fn after_the_window_the_key_is_free_and_repeats_do_not_prolong_it() {
    let (client, topic) = (client().await, topic("idempotency"));
    let config = client.configure(&topic, json!({"idempotency_window_ms": 1000})).await;
    assert_eq!(config["config"]["idempotency_window_ms"], 1000);
    let message = json!({"payload": 1, "idempotency_key": "r"});
    let first = client.publish(&topic, message.clone()).await.expect(201);
    let end = first.instant("due_at") + 1000;
    let again = eventually("the window's end", || async {
        let answer = client.publish(&topic, message.clone()).await;
        (answer.status != 200).then_some(answer)
    })
    .await
    .expect(201);
    assert!(again.instant("due_at") >= end, "{first} {again}");
    assert_ne!(again.text("id"), first.text("id"));
    let other = json!({"payload": 2, "idempotency_key": "r"});
    client.publish(&topic, other.clone()).await.problem(422, "idempotency_key_reused");
    let answer = eventually("the second window's end", || async {
        let answer = client.publish(&topic, other.clone()).await;
        (answer.status != 422).then_some(answer)
    });
    answer.await.expect(201);
    counted(&client, &topic, &[("totals", "published", 3)]).await;
}

#[tokio::test]
async fn a_window_is_ten_minutes_unless_told() {
    let (client, topic) = (client().await, topic("idempotency"));
    client.published(&topic, json!({"payload": 1})).await;
    let seen = client.topic(&topic).await.expect(200).json();
    assert_eq!(seen["config"]["idempotency_window_ms"], 600_000);
}

#[tokio::test]
async fn a_refused_publish_is_not_remembered() {
    let (client, topic) = (client().await, topic("idempotency"));
    let with_key = |mut message: Value| {
        message["idempotency_key"] = json!("r");
        message
    };
    for (bad, status) in [
        (json!({"payload": 1, "priority": 256}), 422),
        (json!({"payload": 1, "nope": 1}), 422),
        (json!({}), 422),
        (json!({"payload": "x".repeat(300_000)}), 413),
    ] {
        client.publish(&topic, with_key(bad)).await.refused(status);
    }
    client.publish("_own", with_key(json!({"payload": 1}))).await.refused(403);
    client.published(&topic, with_key(json!({"payload": 1}))).await;
    // What only the queue knows is no less a refusal.
    let holder = client.published(&topic, json!({"payload": 1, "key": "k", "priority": 1})).await;
    let rejected = json!({
        "payload": 1, "key": "k", "on_duplicate": "reject", "idempotency_key": "r2",
    });
    client.publish(&topic, rejected.clone()).await.problem(409, "duplicate_key");
    client.publish(&topic, rejected.clone()).await.problem(409, "duplicate_key");
    let held = client.lease_one(&topic).await;
    assert_eq!(held["id"], holder);
    let replacing = json!({
        "payload": 1, "key": "k", "on_duplicate": "replace", "idempotency_key": "r3",
    });
    client.publish(&topic, replacing.clone()).await.problem(409, "message_leased");
    client.ack_leased(&held).await.expect(204);
    let id = client.published(&topic, rejected.clone()).await;
    assert_eq!(client.publish(&topic, rejected).await.expect(200).text("id"), id);
    client.publish(&topic, replacing).await.expect(200);
    counted(&client, &topic, &[("totals", "published", 3), ("totals", "replaced", 1)]).await;
}

#[tokio::test]
async fn a_publish_refused_by_a_full_topic_is_not_remembered() {
    let (client, topic) = (client().await, topic("idempotency"));
    client.configure(&topic, json!({"max_messages": 1})).await;
    let first = json!({"payload": 1, "idempotency_key": "r1"});
    let id = client.published(&topic, first.clone()).await;
    let second = json!({"payload": 2, "idempotency_key": "r2"});
    for _ in 0..2 {
        client.publish(&topic, second.clone()).await.problem(429, "topic_full");
        client.publish(&topic, first.clone()).await.expect(200); // a repeat needs no room
    }
    client.delete(&id).await.expect(204);
    client.published(&topic, second).await;
}

#[tokio::test]
async fn a_remembered_request_goes_before_the_key_of_its_message() {
    let (client, topic) = (client().await, topic("idempotency"));
    let message = |payload: &str, request: &str, on_duplicate: &str| {
        json!({"payload": payload, "key": "k", "on_duplicate": on_duplicate,
               "idempotency_key": request})
    };
    let first = message("1", "a", "reject");
    let id = client.published(&topic, first.clone()).await;
    assert_eq!(client.publish(&topic, first.clone()).await.expect(200).text("id"), id);
    // A replace that is repeated does not undo a later one.
    let second = message("2", "b", "replace");
    assert_eq!(client.publish(&topic, second.clone()).await.expect(200).text("id"), id);
    client.publish(&topic, message("3", "c", "replace")).await.expect(200);
    assert_eq!(client.publish(&topic, second).await.expect(200).text("id"), id);
    assert_eq!(client.get(&id).await.expect(200).text("payload"), "3");
    counted(&client, &topic, &[("totals", "published", 1), ("totals", "replaced", 2)]).await;
    // The answer of a duplicate by key is remembered like any other.
    let third = message("4", "d", "return");
    assert_eq!(client.publish(&topic, third.clone()).await.expect(200).text("id"), id);
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    for again in [first, third] {
        assert_eq!(client.publish(&topic, again).await.expect(200).text("id"), id);
    }
    counted(&client, &topic, &[("totals", "published", 1), ("counts", "ready", 0)]).await;
}

#[tokio::test]
async fn of_many_repeats_at_once_one_publishes() {
    let other = instance().await;
    let (client, topic) = (client().await, topic("idempotency"));
    let clients = [client.clone(), other.client()];
    for request in ["a", "b", "c"] {
        let sends = (0..60).map(|n| {
            let message = json!({"payload": request, "idempotency_key": request});
            clients[n % 2].publish(&topic, message)
        });
        let answers = join_all(sends).await;
        let first: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 201).collect();
        assert_eq!(first.len(), 1, "{answers:?}");
        for answer in answers.iter().filter(|answer| answer.status != 201) {
            assert_eq!(answer.clone().expect(200).json(), repeated(&first[0].json()));
        }
    }
    counted(&client, &topic, &[("totals", "published", 3), ("counts", "ready", 3)]).await;
}
