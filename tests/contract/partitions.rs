//! Topics of several partitions: nobody who publishes or consumes notices them. Nothing is lost or granted twice, what
//! carries a name is found by it, counts are sums, lists are whole and in order, and who waits is woken whichever
//! partition something comes to.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::facts::{counted, ids, topic_in_balance};
use crate::harness::*;

/// A new topic of so many partitions.
pub async fn split(client: &Client, partitions: usize, mut config: Value) -> String {
    let topic = topic("split");
    config["partitions"] = json!(partitions);
    let made = client.new_topic(&topic, config).await.json();
    assert_eq!(made["config"]["partitions"], partitions);
    topic
}

/// Publishes so many messages, each with these options and a key of its own.
pub async fn keyed(client: &Client, topic: &str, count: usize, options: Value) -> Vec<String> {
    let message = |n: usize| {
        let mut message = options.clone();
        (message["payload"], message["key"]) = (json!(n), json!(format!("key-{n}")));
        message
    };
    let messages: Vec<Value> = (0..count).map(message).collect();
    batch(client, topic, &messages).await
}

/// Publishes these messages, which must succeed: their ids.
pub async fn batch(client: &Client, topic: &str, messages: &[Value]) -> Vec<String> {
    let results = client.published_batch(topic, messages).await;
    results.iter().map(|result| text(&result["message"], "id").to_owned()).collect()
}

/// Leases until nothing is left.
pub async fn lease_all(client: &Client, topic: &str) -> Vec<Value> {
    let mut held = Vec::new();
    loop {
        let more = client.leased(topic, json!({"max_messages": 1000})).await;
        if more.is_empty() {
            return held;
        }
        held.extend(more);
    }
}

/// A leased message as batches name it.
pub fn token(message: &Value, mut more: Value) -> Value {
    (more["id"], more["lease_token"]) = (message["id"].clone(), message["lease_token"].clone());
    more
}

pub fn sorted(ids: &[String]) -> Vec<String> {
    let mut ids = ids.to_vec();
    ids.sort();
    ids
}

#[tokio::test]
async fn every_message_is_granted_and_acked_once() {
    for partitions in [4, 16] {
        let client = client().await;
        let topic = split(&client, partitions, json!({})).await;
        let mut sent = keyed(&client, &topic, 100, json!({})).await;
        assert_eq!(partitions_of(&sent).len(), partitions, "{sent:?}");
        let plain: Vec<Value> = (0..700).map(|n| json!({"payload": n})).collect();
        sent.extend(batch(&client, &topic, &plain).await);
        sent.push(client.published(&topic, json!({"payload": 1, "priority": 7})).await);
        let seen = topic_in_balance(&client, &topic).await;
        assert_eq!(
            (&seen["counts"]["ready"], &seen["totals"]["published"]),
            (&json!(801), &json!(801))
        );
        let held = lease_all(&client, &topic).await;
        assert_eq!(sorted(&ids(&held)), sorted(&sent));
        topic_in_balance(&client, &topic).await;
        let acks: Vec<Value> = held.iter().map(|message| token(message, json!({}))).collect();
        for some in acks.chunks(500) {
            let results = client.held_batch("ack", some).await;
            assert!(results.iter().all(|result| result["status"] == "ok"), "{results:?}");
        }
        let seen = topic_in_balance(&client, &topic).await;
        assert_eq!(seen["totals"]["acked"], 801);
        client.ack_leased(&held[0]).await.problem(404, "message_not_found");
        client.delete_topic(&topic, "").await.expect(204);
    }
}

#[tokio::test]
async fn messages_of_a_partition_keep_their_order() {
    let client = client().await;
    let topic = split(&client, 4, json!({})).await;
    let sent = keyed(&client, &topic, 200, json!({})).await;
    let mut held: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    loop {
        let some = client.leased(&topic, json!({"max_messages": 7})).await;
        for id in ids(&some) {
            held.entry(partition_of(&id)).or_default().push(id);
        }
        if some.is_empty() {
            break;
        }
    }
    for (partition, held) in held {
        let sent: Vec<String> =
            sent.iter().filter(|id| partition_of(id) == partition).cloned().collect();
        assert_eq!(held, sent, "{partition}");
    }
}

#[tokio::test]
async fn a_name_finds_its_message_whichever_instance_is_asked() {
    let (one, other) = (instance().await, instance().await);
    let (one, other) = (one.client(), other.client());
    let topic = split(&one, 16, json!({})).await;
    let sent = keyed(&one, &topic, 40, json!({"delay_ms": 600_000})).await;
    for (n, id) in sent.iter().enumerate() {
        let key = format!("key-{n}");
        assert_eq!(&other.get_by_key(&topic, &key).await.expect(200).text("id"), id);
        let again = other.publish(&topic, json!({"payload": 0, "key": key})).await.expect(200);
        assert_eq!(
            (again.text("id"), again.json()["duplicate"].clone()),
            (id.clone(), json!(true))
        );
    }
    other.update_by_key(&topic, "key-3", json!({"priority": 9})).await.expect(200);
    assert_eq!(one.get(&sent[3]).await.expect(200).number("priority"), 9);
    other.delete_by_key(&topic, "key-3", "").await.expect(204);
    one.get(&sent[3]).await.problem(404, "message_not_found");
    let message = json!({"payload": 1, "idempotency_key": "once"});
    let first = one.published(&topic, message.clone()).await;
    assert_eq!(other.publish(&topic, message).await.expect(200).text("id"), first);
}

#[tokio::test]
async fn who_waits_is_woken_whichever_partition_something_comes_to() {
    let (here, there) = (instance().await, instance().await);
    let (here, there) = (here.client(), there.client());
    let topic = split(&here, 16, json!({})).await;
    for n in 0..24 {
        let (poller, name) = (there.clone(), topic.clone());
        let poll = tokio::spawn(async move { poller.lease_one(&name).await });
        waiters(&there, 1).await;
        let delay = if n % 3 == 0 { 300 } else { 0 };
        let message = json!({"payload": n, "key": format!("key-{n}"), "delay_ms": delay});
        here.published(&topic, message).await;
        let held = poll.await.unwrap();
        assert_eq!(held["payload"], n);
        there.ack_leased(&held).await.expect(204);
    }
}

#[tokio::test]
async fn a_lease_that_does_not_wait_misses_nothing_of_another_instance() {
    let (here, there) = (instance().await, instance().await);
    let (here, there) = (here.client(), there.client());
    let topic = split(&here, 16, json!({})).await;
    for n in 0..60 {
        assert!(there.leased(&topic, json!({})).await.is_empty());
        let sent = here.published(&topic, json!({"payload": n, "key": format!("{n}")})).await;
        let held = there.leased(&topic, json!({})).await;
        assert_eq!(ids(&held), [sent], "{n}");
        there.ack_leased(&held[0]).await.expect(204);
    }
}

#[tokio::test]
async fn a_list_is_whole_and_in_order() {
    let client = client().await;
    let topic = split(&client, 16, json!({})).await;
    let mut want = Vec::new();
    for n in 0..5 {
        let at = instant(shared().await.redis.time_ms().await + 600_000 - n * 1000);
        let message = |m: usize| json!({"payload": m, "key": format!("{n}-{m}"), "deliver_at": at});
        let messages: Vec<Value> = (0..150).map(message).collect();
        want.extend(batch(&client, &topic, &messages).await);
    }
    for query in ["limit=1000", "limit=97", "limit=97&payload=true"] {
        let items = client.listed(&topic, &format!("state=delayed&{query}")).await;
        assert_eq!(sorted(&ids(&items)), sorted(&want), "{query}");
        let due: Vec<&str> = items.iter().map(|item| text(item, "due_at")).collect();
        assert!(due.is_sorted(), "{query}: {due:?}");
    }
    let forecast = client.forecast(&topic, 60_000, 20).await.expect(200).json();
    let buckets = forecast["buckets"].as_array().unwrap();
    let total: i64 = buckets.iter().map(|bucket| number(bucket, "count")).sum();
    assert_eq!(total, 750, "{forecast}");
}

#[tokio::test]
async fn all_dead_messages_are_redriven_or_purged() {
    let client = client().await;
    let topic = split(&client, 4, json!({"max_attempts": 1})).await;
    let sent = keyed(&client, &topic, 300, json!({})).await;
    let kill = async || {
        let held = lease_all(&client, &topic).await;
        let nacks: Vec<Value> = held.iter().map(|m| token(m, json!({"dead": true}))).collect();
        let results = client.held_batch("nack", &nacks).await;
        assert!(results.iter().all(|result| result["state"] == "dead"), "{results:?}");
    };
    kill().await;
    assert_eq!(client.count(&topic, "dead").await, 300);
    let longest = client.listed(&topic, "state=dead&limit=1000").await;
    let some = client.redrive_topic(&topic, json!({"max_messages": 90})).await.expect(200);
    assert_eq!((some.number("redriven"), some.number("remaining")), (90, 210));
    let held = lease_all(&client, &topic).await;
    assert_eq!(sorted(&ids(&held)), sorted(&ids(&longest)[..90]));
    let rest = client.redrive_topic(&topic, json!({"spread_ms": 60_000})).await.expect(200);
    assert_eq!((rest.number("redriven"), rest.number("remaining")), (210, 0));
    assert!(client.count(&topic, "delayed").await > 150);
    let purged = client.purge(&topic, &["ready", "delayed", "dead"]).await.expect(200);
    assert_eq!((purged.number("purged"), purged.number("remaining")), (210, 0));
    assert_eq!(sent.len(), 300);
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn what_dies_in_any_partition_is_told_of() {
    let client = client().await;
    let dead = topic("dead");
    client.new_topic(&dead, json!({"partitions": 4})).await;
    let topic = split(&client, 4, json!({"dead_topic": dead, "max_attempts": 1})).await;
    keyed(&client, &topic, 40, json!({})).await;
    for message in lease_all(&client, &topic).await {
        client.nack_leased(&message, json!({})).await.expect(200);
    }
    eventually("40 letters", || async { (client.count(&dead, "ready").await == 40).then_some(()) })
        .await;
    assert!(partitions_of(&ids(&client.listed(&dead, "state=ready").await)).len() > 1);
}

#[tokio::test]
async fn leases_ttls_and_retention_end_in_every_partition() {
    let client = client().await;
    let config = json!({"ttl_ms": 1_500, "retention": {"acked_ms": 1}});
    let topic = split(&client, 4, config).await;
    keyed(&client, &topic, 40, json!({})).await;
    for message in client.leased(&topic, json!({"max_messages": 10})).await {
        client.ack_leased(&message).await.expect(204);
    }
    eventually("all have expired", || async {
        let seen = client.topic(&topic).await.expect(200).json();
        (seen["totals"]["expired"] == 30 && seen["counts"]["acked"] == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_publish_of_a_group_can_be_repeated_in_a_topic_of_several_partitions() {
    let (one, other) = (instance().await, instance().await);
    let (one, other) = (one.client(), other.client());
    let topic = topic("groups");
    one.new_topic(&topic, json!({"partitions": 8})).await;
    let mut sent = Vec::new();
    for n in 0..12 {
        let message = json!({"payload": n, "group": format!("g{}", n % 3), "idempotency_key": format!("i{n}")});
        let id = one.published(&topic, message.clone()).await;
        let again = other.publish(&topic, message.clone()).await.expect(200);
        assert_eq!(
            (again.text("id"), again.json()["duplicate"].clone()),
            (id.clone(), json!(true))
        );
        let batch = other.published_batch(&topic, &[message.clone(), message.clone()]).await;
        assert!(batch.iter().all(|result| result["message"]["id"] == id), "{batch:?}");
        let mut reused = message;
        reused["payload"] = json!("another");
        other.publish(&topic, reused).await.problem(422, "idempotency_key_reused");
        sent.push(id);
    }
    counted(&one, &topic, &[("totals", "published", 12), ("counts", "ready", 3)]).await;
    // Each group is in order, and in one partition.
    for round in 0..4 {
        // One lease may not know yet what an ack has let go.
        let held = lease_all(&one, &topic).await;
        let mut payloads: Vec<i64> =
            held.iter().map(|message| number(message, "payload")).collect();
        payloads.sort_unstable();
        assert_eq!(payloads, [3 * round, 3 * round + 1, 3 * round + 2]);
        for message in &held {
            one.ack_leased(message).await.expect(204);
        }
    }
    let grown = one.update_topic(&topic, json!({"partitions": 16})).await;
    grown.problem(409, "names_in_use");
}
