//! Results and completions: what came of a message is kept with it, and published once where the message or its topic says.

use serde_json::{Value, json};

use crate::facts::{a_while, becomes, gone, pushed_with, ready, schedule, scheduled, with};
use crate::harness::*;

/// Waits for so many completions in a topic: their payloads and the ids in their headers, in the order of these.
async fn completions(client: &Client, topic: &str, count: usize) -> Vec<(String, Value)> {
    let found = eventually(&format!("{count} completions in {topic}"), || async {
        if client.topic(topic).await.status == 404 {
            return None;
        }
        let found = client.listed(topic, "state=ready&payload=true").await;
        (found.len() >= count).then_some(found)
    })
    .await;
    assert_eq!(found.len(), count, "{found:?}");
    let mut parts: Vec<_> = found
        .into_iter()
        .map(|mut it| (text(&it["headers"], "dueq-completes").to_owned(), it["payload"].take()))
        .collect();
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    parts
}

async fn ack_with(client: &Client, held: &Value, result: Value) -> Answer {
    let path = format!("/messages/{}/ack", text(held, "id"));
    client.post(&path, &json!({"lease_token": held["lease_token"], "result": result})).await
}

fn to(url: &str) -> Value {
    json!({"url": url})
}

#[tokio::test]
async fn the_result_of_an_ack_is_posted_once_and_the_message_is_gone_at_once() {
    let (client, receiver) = ready().await;
    let here = topic("here");
    let message = json!({"payload": {"a": 1}, "on_done": to(&receiver.url("/done")),
        "on_dead": to(&receiver.url("/dead"))});
    let id = client.published(&here, message).await;
    let shown = client.get(&id).await.expect(200).json();
    assert_eq!(shown["on_done"], to(&receiver.url("/done")));
    assert_eq!(shown["on_dead"], to(&receiver.url("/dead")));
    let held = client.lease_one(&here).await;
    ack_with(&client, &held, json!({"sum": 1.50, "text": "é\n"})).await.expect(204);
    client.get(&id).await.expect(404);
    assert_eq!(client.ack_leased(&held).await.expect(404).text("code"), "message_not_found");
    let call = receiver.wait_at("/done").await;
    assert_eq!(call.header("dueq-completes"), id);
    assert!(call.has("webhook-id") && call.header("webhook-id") != id, "{call:?}");
    let told: Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!(told["result"], json!({"sum": 1.50, "text": "é\n"}));
    assert_eq!((&told["message"]["id"], &told["message"]["state"]), (&json!(id), &json!("acked")));
    assert_eq!(told["message"]["payload"], json!({"a": 1}));
    assert!(told.get("error").is_none(), "{told}");
    a_while(1_500).await;
    assert_eq!(receiver.count(), 1, "{:?}", receiver.calls());
    assert_eq!(client.count(&here, "acked").await, 0);
    // Nothing is left that would keep the topic.
    client.delete_topic(&here, "").await.expect(204);
}

#[tokio::test]
async fn a_result_is_kept_while_the_acked_message_is() {
    let client = ready().await.0;
    let here = topic("kept");
    client.new_topic(&here, json!({"retention": {"acked_ms": 60_000}})).await;
    for (result, shown) in [
        (json!({"a": [1, null]}), Some(json!({"a": [1, null]}))),
        (json!("x".repeat(65_534)), Some(json!("x".repeat(65_534)))),
        (json!(false), Some(json!(false))),
        (Value::Null, None),
    ] {
        let id = client.published(&here, json!({"payload": 1})).await;
        let held = client.lease_one(&here).await;
        ack_with(&client, &held, result).await.expect(204);
        let found = client.get(&id).await.expect(200).json();
        assert_eq!((found["state"].as_str(), found.get("result")), (Some("acked"), shown.as_ref()));
    }
    // As it was sent, white space and all.
    let id = client.published(&here, json!({"payload": 1})).await;
    let held = client.lease_one(&here).await;
    let body =
        format!("{{\"lease_token\": {}, \"result\": {{ \"n\" :\n 1E400 }}}}", held["lease_token"]);
    client.post_text(&format!("/messages/{id}/ack"), &body).await.expect(204);
    let found = client.get(&id).await.expect(200).body;
    let found = String::from_utf8_lossy(&found);
    assert!(found.contains(r#""result":{ "n" :  1E400 }"#), "{found}");
    // In a topic that keeps none it is taken, and gone.
    let other = topic("not-kept");
    let id = client.published(&other, json!({"payload": 1})).await;
    let held = client.lease_one(&other).await;
    ack_with(&client, &held, json!(1)).await.expect(204);
    client.get(&id).await.expect(404);
}

#[tokio::test]
async fn completions_go_into_a_topic_from_batches_and_from_leases_that_ack() {
    let client = ready().await.0;
    let (here, there) = (topic("many"), topic("done"));
    client.new_topic(&here, json!({"on_done": {"topic": there}, "ttl_ms": 60_000})).await;
    let plain = client.published(&here, json!({"payload": 1})).await;
    let mut messages = vec![json!({"payload": 2, "key": "k"}), json!({"payload": 3, "group": "g"})];
    messages.push(json!({"payload": 4, "group": "g"}));
    messages.push(json!({"payload": 5, "priority": 7, "max_attempts": 1}));
    let mut ids = client.published_batch(&here, &messages).await;
    let mut ids: Vec<_> = ids.iter_mut().map(|it| text(&it["message"], "id").to_owned()).collect();
    ids.push(plain);
    let first = client.leased(&here, json!({"max_messages": 10})).await;
    assert_eq!(first.len(), 4);
    let acks: Vec<_> = first
        .iter()
        .map(
            |it| json!({"id": it["id"], "lease_token": it["lease_token"], "result": it["payload"]}),
        )
        .collect();
    let acked = client.held_batch("ack", &acks[1..]).await;
    assert!(acked.iter().all(|it| it["status"] == "ok"), "{acked:?}");
    let leased =
        client.lease(&here, json!({"acks": [acks[0]], "max_messages": 10})).await.expect(200);
    assert_eq!(leased.json()["acks"][0]["status"], "ok");
    // The second of the group may have come with that.
    for held in leased.json()["messages"].as_array().unwrap() {
        ack_with(&client, held, held["payload"].clone()).await.expect(204);
    }
    ids.sort();
    let told = completions(&client, &there, 5).await;
    assert_eq!(told.iter().map(|it| it.0.clone()).collect::<Vec<_>>(), ids);
    for (id, told) in told {
        assert_eq!(told["result"], told["message"]["payload"], "{id}");
    }
    assert_eq!(client.total(&here, "acked").await, 5);
}

#[tokio::test]
async fn who_waits_for_completions_of_kept_messages_has_them_at_once() {
    let (_redis, _dueq, client) = alone().await;
    let (here, done, other) = (topic("here"), topic("done"), topic("done"));
    client.new_topic(&here, json!({"retention": {"acked_ms": 600_000}})).await;
    let ends = [json!({"topic": done}), json!({"topic": other})];
    let held = async {
        for end in &ends {
            client.new_topic(text(end, "topic"), json!({})).await;
            client.published(&here, json!({"payload": 1, "on_done": end})).await;
        }
        client.leased(&here, json!({"max_messages": 2})).await
    };
    let held = held.await;
    assert_eq!(held.len(), 2);
    // Without a wake-up they would look again after a minute.
    let wait = async |topic: &str| client.leased(topic, json!({"wait_ms": 30_000})).await.len();
    let ack = async {
        a_while(500).await;
        let ack = |it: &Value| json!({"id": it["id"], "lease_token": it["lease_token"]});
        client.held_batch("ack", &held.iter().map(ack).collect::<Vec<_>>()).await
    };
    let (first, second, acked) = tokio::join!(wait(&done), wait(&other), ack);
    assert_eq!((first, second), (1, 1), "{acked:?}");
}

#[tokio::test]
async fn deaths_are_published_each_with_its_error_and_a_redriven_message_completes_again() {
    let client = ready().await.0;
    let (here, there, dead_topic) = (topic("mortal"), topic("ends"), topic("letters"));
    client
        .new_topic(
            &here,
            json!({"dead_topic": dead_topic, "on_dead": {"topic": there}, "max_attempts": 1}),
        )
        .await;
    let own = json!({"payload": 1, "on_done": {"topic": there}, "group": "g", "ttl_ms": 600_000});
    let id = client.published(&here, own).await;
    let held = client.lease_one(&here).await;
    client.nack_leased(&held, json!({"reason": "no use"})).await.expect(200);
    let told = completions(&client, &there, 1).await.remove(0);
    assert_eq!(told.0, id);
    assert_eq!(told.1["error"], json!({"reason": "no use", "attempts": 1}));
    assert_eq!(told.1["message"]["state"], "dead");
    assert!(told.1.get("result").is_none(), "{told:?}");
    completions_of_letters(&client, &dead_topic).await;
    client.purge(&there, &["ready"]).await.expect(200);
    // Once more dead, by its lease, and then done.
    client.redrive(&id).await.expect(200);
    client.lease_one_with(&here, json!({"lease_ms": 1_000})).await;
    let told = completions(&client, &there, 1).await.remove(0);
    assert_eq!((told.0.as_str(), &told.1["error"]["attempts"]), (id.as_str(), &json!(2)));
    client.purge(&there, &["ready"]).await.expect(200);
    client.redrive(&id).await.expect(200);
    let held = client.lease_one(&here).await;
    ack_with(&client, &held, json!("at last")).await.expect(204);
    let told = completions(&client, &there, 1).await.remove(0);
    assert_eq!((told.0.as_str(), &told.1["result"]), (id.as_str(), &json!("at last")));
}

/// The letter of the one message is in the dead topic.
async fn completions_of_letters(client: &Client, topic: &str) {
    eventually("a letter", || async {
        (client.topic(topic).await.status == 200 && client.count(topic, "ready").await == 1)
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_completion_completes_nothing_and_what_is_deleted_or_expires_neither() {
    let client = ready().await.0;
    let here = topic("loop");
    let to_itself = json!({"topic": here});
    client.new_topic(&here, json!({"on_done": to_itself, "on_dead": to_itself})).await;
    let id = client.published(&here, json!({"payload": 1})).await;
    let held = client.lease_one(&here).await;
    client.ack_leased(&held).await.expect(204);
    let completion = completions(&client, &here, 1).await.remove(0);
    assert_eq!(completion.0, id);
    assert!(completion.1.get("result").is_none(), "{completion:?}");
    let held = client.lease_one(&here).await;
    assert!(held.get("on_done").is_none(), "{held}");
    client.nack_leased(&held, json!({"dead": true})).await.expect(200);
    let deleted = client.published(&here, json!({"payload": 2, "delay_ms": 60_000})).await;
    client.delete(&deleted).await.expect(204);
    client.published(&here, json!({"payload": 3, "ttl_ms": 1})).await;
    a_while(2_500).await;
    let shown = client.topic(&here).await.expect(200).json();
    assert_eq!((number(&shown["counts"], "ready"), number(&shown["counts"], "dead")), (0, 1));
}

#[tokio::test]
async fn the_result_of_a_callback_is_its_answer() {
    let (client, receiver) = ready().await;
    let there = topic("answers");
    let reply = Reply::status(200).header("content-type", "application/json").body(r#"{"n": 7}"#);
    receiver.answer_at("/in", reply);
    let more = json!({"on_done": {"topic": there}, "on_dead": {"topic": there},
        "headers": {"Authorization": "Bearer s3cret-value"}});
    let id = scheduled(&client, &receiver.url("/in"), more.clone()).await;
    let told = completions(&client, &there, 1).await.remove(0);
    assert_eq!(told.0, id);
    let result = json!({"status": 200, "headers": {"content-type": "application/json"}, "body": "{\"n\": 7}"});
    assert_eq!(told.1["result"], result);
    assert!(!told.1.to_string().contains("s3cret"), "{told:?}");
    let kept = client.get(&id).await.expect(200).json();
    assert_eq!(kept["result"], result);
    client.purge(&there, &["ready"]).await.expect(200);
    receiver.answer_at("/gone", Reply::status(410).body("no"));
    let id = scheduled(&client, &receiver.url("/gone"), more).await;
    let told = completions(&client, &there, 1).await.remove(0);
    let error = json!({"reason": "answered 410", "status": 410, "attempts": 1});
    assert_eq!((told.0, &told.1["error"]), (id, &error));
}

#[tokio::test]
async fn a_topic_says_how_much_of_an_answer_is_kept_and_keeps_its_own_secrets() {
    let (client, receiver) = ready().await;
    let there = topic("kept-answers");
    receiver.answer(Reply::status(200).body("a".repeat(3_000)));
    for (keep, kept) in [(json!(0), None), (json!(2_000), Some(2_000)), (Value::Null, Some(1_024))]
    {
        let push = json!({"url": receiver.url("/"), "keep_answer_bytes": keep});
        let more = json!({"retention": {"acked_ms": 60_000}});
        let here = pushed_with(&client, "keep", push, more).await;
        let id = client.published(&here, json!({"payload": 1})).await;
        let found = becomes(&client, &id, "acked", 1).await;
        assert_eq!(found["result"]["body"].as_str().map(str::len), kept, "{keep}");
        assert_eq!(found["result"]["status"], 200);
    }
    // Who publishes does not see what the receiver says of the topic's own secrets.
    let push =
        json!({"url": receiver.url("/"), "headers": {"authorization": "Bearer of the topic"}});
    let here = pushed_with(&client, "secret", push, json!({})).await;
    let id = client.published(&here, json!({"payload": 1, "on_done": {"topic": there}})).await;
    let told = completions(&client, &there, 1).await.remove(0);
    assert_eq!((told.0, told.1["result"].get("body")), (id, None));
}

#[tokio::test]
async fn a_schedule_says_it_in_its_message() {
    let client = ready().await.0;
    let (here, there, name) = (topic("ticks"), topic("ticked"), topic("schedule"));
    let message = json!({"payload": 1, "on_done": {"topic": there}});
    let put = json!({"every_ms": 3_600_000, "topic": here, "message": message});
    let put = client.send_json("PUT", &format!("/schedules/{name}"), &put).await.expect(201);
    assert_eq!(put.json()["message"]["on_done"], json!({"topic": there}));
    client.post(&format!("/schedules/{name}/trigger"), &json!({})).await.expect(200);
    let held = client.lease_one(&here).await;
    client.ack_leased(&held).await.expect(204);
    assert_eq!(completions(&client, &there, 1).await[0].0, text(&held, "id"));
    client.send_json("DELETE", &format!("/schedules/{name}"), &json!({})).await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_name() {
    let (client, receiver) = ready().await;
    let here = topic("refused");
    let url = receiver.url("/");
    for (on_done, field) in [
        (json!({}), "on_done.url"),
        (json!({"url": url, "topic": "x"}), "on_done.topic"),
        (json!({"url": "ftp://a/"}), "on_done.url"),
        (json!({"url": "http://169.254.1.1/"}), "on_done.url"),
        (json!({"topic": "_callbacks"}), "on_done.topic"),
        (json!({"topic": "a b"}), "on_done.topic"),
        (json!({"topic": "a", "also": 1}), "on_done.also"),
        (json!("http://a.test/"), "on_done"),
    ] {
        let fields = |answer: Answer| column(&answer.expect(422).json());
        let message = json!({"payload": 1, "on_done": on_done});
        assert_eq!(fields(client.publish(&here, message.clone()).await), [field]);
        let batch = client.publish_batch(&here, std::slice::from_ref(&message)).await;
        assert_eq!(fields(batch), [format!("messages[0].{field}")]);
        let call = schedule(&client, &url, json!({"on_done": on_done})).await;
        assert_eq!(fields(call), [field]);
        let put = with(json!({"every_ms": 1_000, "topic": here}), json!({"message": message}));
        let put = client.send_json("PUT", &format!("/schedules/{here}"), &put).await;
        assert_eq!(fields(put), [format!("message.{field}")]);
        assert_eq!(fields(client.put_topic(&here, json!({"on_done": on_done})).await), [field]);
    }
    for keep in [json!(-1), json!(65_537), json!("1")] {
        let push = json!({"push": {"url": url, "keep_answer_bytes": keep}});
        let answer = client.put_topic(&here, push).await.expect(422).json();
        assert_eq!(column(&answer), ["push.keep_answer_bytes"]);
    }
    let id = client.published(&here, json!({"payload": 1})).await;
    let held = client.lease_one(&here).await;
    let long = ack_with(&client, &held, json!("x".repeat(65_535))).await.expect(422).json();
    assert_eq!(column(&long), ["result"]);
    assert_eq!(client.state(&id).await, "leased");
}

/// The fields of the errors of a problem.
fn column(problem: &Value) -> Vec<String> {
    let errors = problem["errors"].as_array().unwrap();
    errors.iter().map(|error| text(error, "field").to_owned()).collect()
}

#[tokio::test]
async fn completions_of_callbacks_are_gone_when_they_are_delivered() {
    let (client, receiver) = ready().await;
    let done = json!({"on_done": to(&receiver.url("/done"))});
    let id = scheduled(&client, &receiver.url("/in"), done).await;
    let call = receiver.wait_at("/done").await;
    assert_eq!(call.header("dueq-completes"), id);
    let completion = call.id();
    gone(&client, completion).await;
}
