//! ackBatch, nackBatch and extendBatch: many leases in one request, each with its own status, in
//! order.

use serde_json::{Value, json};

use crate::facts::{column, counted, gone, ids, topic_in_balance};
use crate::harness::*;

/// What the batches take of a message that was granted, with further fields.
fn item(held: &Value, more: Value) -> Value {
    let mut item = json!({"id": held["id"], "lease_token": held["lease_token"]});
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    item
}

/// This many messages of the topic, published and leased.
async fn leased(client: &Client, topic: &str, count: usize) -> Vec<Value> {
    let messages: Vec<Value> = (0..count).map(|n| json!({"payload": n})).collect();
    client.published_batch(topic, &messages).await;
    let want = json!({"max_messages": count, "lease_ms": 600_000});
    let mut held = Vec::new();
    while held.len() < count {
        let more = client.leased(topic, want.clone()).await;
        assert!(!more.is_empty(), "{} of {count}", held.len());
        held.extend(more);
    }
    held
}

#[tokio::test]
async fn a_thousand_acks_are_answered_in_order() {
    let (client, topic) = (client().await, topic("hold"));
    let mut held = leased(&client, &topic, 1000).await;
    held.reverse();
    let mut items: Vec<Value> = held.iter().map(|message| item(message, json!({}))).collect();
    items[300]["lease_token"] = json!("forged");
    items[700]["id"] = json!(unknown_id());
    items[999] = items[0].clone();
    let results = client.held_batch("ack", &items).await;
    assert_eq!(column(&results, "id"), column(&items, "id"));
    for (n, result) in results.iter().enumerate() {
        let wanted = match n {
            300 => "lease_lost",
            700 | 999 => "message_not_found",
            _ => "ok",
        };
        assert_eq!(result["status"], wanted, "{n}");
    }
    counted(&client, &topic, &[("totals", "acked", 997), ("counts", "leased", 3)]).await;
    let left = [&held[300], &held[700], &held[999]].map(|message| item(message, json!({})));
    let results = client.held_batch("ack", &left).await;
    assert!(results.iter().all(|result| result["status"] == "ok"), "{results:?}");
    counted(&client, &topic, &[("totals", "acked", 1000), ("counts", "leased", 0)]).await;
}

#[tokio::test]
async fn acks_and_messages_mean_the_same_in_a_batch_and_in_a_lease_request() {
    let (client, topic) = (client().await, topic("hold"));
    let held = leased(&client, &topic, 4).await;
    let [one, two, three, four] = [0, 1, 2, 3].map(|n| json!([item(&held[n], json!({}))]));
    for (field, acks) in [("messages", one), ("acks", two)] {
        let acked = client.post("/messages/ack", &json!({field: acks})).await.expect(200).json();
        assert_eq!(acked["results"][0]["status"], "ok", "{field}: {acked}");
    }
    for (field, acks) in [("messages", &three), ("acks", &four)] {
        let leased = client.lease(&topic, json!({field: acks})).await.expect(200).json();
        assert_eq!(leased["acks"][0]["status"], "ok", "{field}: {leased}");
    }
    let both = json!({"messages": three, "acks": four});
    let null = json!({"messages": null, "acks": []});
    client.lease(&topic, null).await.expect(200);
    client.post("/messages/ack", &both).await.refused(422).field("acks");
    client.lease(&topic, both).await.refused(422).field("messages");
}

#[tokio::test]
async fn the_same_lease_twice_in_a_batch_is_done_once() {
    let (client, topic) = (client().await, topic("hold"));
    for (verb, more, wanted) in [
        ("ack", json!({}), ["ok", "message_not_found", "message_not_found"]),
        ("nack", json!({"delay_ms": 60_000}), ["ok", "lease_lost", "lease_lost"]),
        ("nack", json!({"dead": true}), ["ok", "lease_lost", "lease_lost"]),
        ("nack", json!({"release": true}), ["ok", "lease_lost", "lease_lost"]),
        ("extend", json!({"lease_ms": 900_000}), ["ok", "ok", "ok"]),
    ] {
        let held = leased(&client, &topic, 1).await;
        let items = vec![item(&held[0], more.clone()); 3];
        let results = client.held_batch(verb, &items).await;
        assert_eq!(column(&results, "status"), wanted, "{verb} {more}");
        topic_in_balance(&client, &topic).await;
        client.delete_by_force(text(&held[0], "id")).await;
    }
}

#[tokio::test]
async fn a_batch_may_concern_messages_of_many_topics() {
    let client = client().await;
    let topics: Vec<String> = (0..4).map(|_| topic("hold")).collect();
    let mut held = Vec::new();
    for topic in &topics {
        held.push(leased(&client, topic, 3).await);
    }
    for (n, (verb, more)) in [
        ("extend", json!({"lease_ms": 1_200_000})),
        ("nack", json!({"delay_ms": 60_000})),
        ("ack", json!({})),
    ]
    .iter()
    .enumerate()
    .map(|(n, call)| (n, call.clone()))
    {
        let messages: Vec<&Value> = held.iter().map(|of_topic| &of_topic[n]).collect();
        let mut items: Vec<Value> =
            messages.iter().map(|message| item(message, more.clone())).collect();
        items.insert(2, json!({"id": unknown_id(), "lease_token": "x"}));
        if verb == "extend" {
            items[2]["lease_ms"] = json!(1000);
        }
        let results = client.held_batch(verb, &items).await;
        assert_eq!(column(&results, "status"), ["ok", "ok", "message_not_found", "ok", "ok"]);
        assert_eq!(column(&results, "id"), column(&items, "id"));
    }
    for topic in &topics {
        let wanted = [("totals", "acked", 1), ("totals", "nacked", 1), ("counts", "leased", 1)];
        counted(&client, topic, &wanted).await;
    }
}

#[tokio::test]
async fn each_nack_of_a_batch_has_its_own_options_and_answer() {
    let (client, topic) = (client().await, topic("hold"));
    let held = leased(&client, &topic, 7).await;
    let before = shared().await.redis.time_ms().await;
    let items = [
        item(&held[0], json!({"delay_ms": 60_000})),
        item(&held[1], json!({"delay_ms": 0})),
        item(&held[2], json!({})),
        item(&held[3], json!({"dead": true, "reason": "no such customer"})),
        item(&held[4], json!({"release": true})),
        item(&held[5], json!({"release": true, "delay_ms": 90_000})),
        json!({"id": held[6]["id"], "lease_token": "forged"}),
    ];
    let results = client.held_batch("nack", &items).await;
    let after = shared().await.redis.time_up_ms().await;
    assert_eq!(column(&results, "id"), ids(&held));
    let (delayed, ready) = ("delayed", "ready");
    let states = [delayed, ready, delayed, "dead", ready, delayed, "(none)"];
    assert_eq!(column(&results, "state"), states);
    let statuses = ["ok", "ok", "ok", "ok", "ok", "ok", "lease_lost"];
    assert_eq!(column(&results, "status"), statuses);
    assert!(results[..6].iter().all(|result| result["attempt"] == 1), "{results:?}");
    for (n, delay) in [(0, 60_000), (5, 90_000)] {
        let due = instant_ms(text(&results[n], "due_at"));
        assert!((before + delay..=after + delay).contains(&due), "{n}: {results:?}");
    }
    assert!(results[3].get("due_at").is_none(), "{results:?}");
    for (message, state) in held.iter().zip(states).take(6) {
        assert_eq!(client.state(text(message, "id")).await, state);
    }
    let dead = client.get(text(&held[3], "id")).await.expect(200);
    assert_eq!(dead.text("last_error"), "no such customer");
    let wanted = [
        ("totals", "nacked", 4),
        ("totals", "released", 2),
        ("totals", "dead", 1),
        ("counts", "leased", 1),
    ];
    counted(&client, &topic, &wanted).await;
}

#[tokio::test]
async fn a_thousand_nacks_are_answered_in_order() {
    let (client, topic) = (client().await, topic("hold"));
    let mut held = leased(&client, &topic, 1000).await;
    held.reverse();
    let items: Vec<Value> = held
        .iter()
        .enumerate()
        .map(|(n, message)| match n % 3 {
            0 => item(message, json!({"delay_ms": 60_000 + n})),
            1 => item(message, json!({"dead": true})),
            _ => item(message, json!({"release": true})),
        })
        .collect();
    let results = client.held_batch("nack", &items).await;
    assert_eq!(column(&results, "id"), ids(&held));
    for (n, result) in results.iter().enumerate() {
        let state = ["delayed", "dead", "ready"][n % 3];
        assert_eq!((&result["status"], &result["state"]), (&json!("ok"), &json!(state)), "{n}");
    }
    let wanted = [("counts", "delayed", 334), ("counts", "dead", 333), ("counts", "ready", 333)];
    counted(&client, &topic, &wanted).await;
}

#[tokio::test]
async fn each_extension_of_a_batch_has_its_own_length_and_answer() {
    let (client, topic) = (client().await, topic("hold"));
    let held = leased(&client, &topic, 4).await;
    gone_by_ack(&client, &held[3]).await;
    let before = shared().await.redis.time_ms().await;
    let items = [
        item(&held[0], json!({"lease_ms": 1_000_000})),
        item(&held[1], json!({"lease_ms": 1000})),
        json!({"id": held[2]["id"], "lease_token": "forged", "lease_ms": 1_000_000}),
        item(&held[3], json!({"lease_ms": 1_000_000})),
    ];
    let results = client.held_batch("extend", &items).await;
    let after = shared().await.redis.time_up_ms().await;
    assert_eq!(column(&results, "id"), ids(&held));
    let statuses = ["ok", "ok", "lease_lost", "message_not_found"];
    assert_eq!(column(&results, "status"), statuses);
    let end = instant_ms(text(&results[0], "lease_expires_at"));
    assert!((before + 1_000_000..=after + 1_000_000).contains(&end), "{results:?}");
    assert!((990_000..=1_000_000).contains(&number(&results[0], "lease_ms")), "{results:?}");
    assert_eq!(results[1]["lease_expires_at"], held[1]["lease_expires_at"], "never shorter");
    for n in [0, 1] {
        let seen = client.get(text(&held[n], "id")).await.expect(200).json();
        assert_eq!(seen["lease_expires_at"], results[n]["lease_expires_at"]);
    }
    let seen = client.get(text(&held[2], "id")).await.expect(200).json();
    assert_eq!(seen["lease_expires_at"], held[2]["lease_expires_at"]);
}

async fn gone_by_ack(client: &Client, held: &Value) {
    client.ack_leased(held).await.expect(204);
    gone(client, text(held, "id")).await;
}

#[tokio::test]
async fn a_lease_that_is_over_is_lost_in_a_batch_too() {
    let (client, topic) = (client().await, topic("hold"));
    client.published_batch(&topic, &[json!({"payload": 1}), json!({"payload": 2})]).await;
    let want = json!({"max_messages": 2, "lease_ms": 1000});
    let held = client.leased(&topic, want).await;
    crate::facts::reaches(&client, text(&held[1], "id"), "ready").await;
    for (verb, more) in
        [("ack", json!({})), ("nack", json!({})), ("extend", json!({"lease_ms": 9000}))]
    {
        let items: Vec<Value> = held.iter().map(|message| item(message, more.clone())).collect();
        let results = client.held_batch(verb, &items).await;
        assert_eq!(column(&results, "status"), ["lease_lost", "lease_lost"], "{verb}");
    }
    counted(&client, &topic, &[("counts", "ready", 2), ("totals", "lease_expired", 2)]).await;
}

#[tokio::test]
async fn a_thousand_extensions_are_answered_in_order() {
    let (client, topic) = (client().await, topic("hold"));
    let held = leased(&client, &topic, 1000).await;
    let items: Vec<Value> =
        held.iter().map(|message| item(message, json!({"lease_ms": 3_600_000}))).collect();
    let results = client.held_batch("extend", &items).await;
    assert_eq!(column(&results, "id"), ids(&held));
    assert!(results.iter().all(|result| result["status"] == "ok"));
    for n in [0, 255, 256, 999] {
        let end = instant_ms(text(&results[n], "lease_expires_at"));
        assert!(end > instant_ms(text(&held[n], "lease_expires_at")), "{n}");
    }
    counted(&client, &topic, &[("counts", "leased", 1000)]).await;
}
