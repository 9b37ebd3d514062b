//! `max_messages` at its edges: limits lowered far, places that time frees, races with what else happens.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::*;
use crate::topic_facts::{alike, full, live, rush, topic_becomes, topic_has};

#[tokio::test]
async fn drop_oldest_lowered_by_hundreds_takes_every_publish_that_follows() {
    let (client, topic) = (client().await, topic("room"));
    client.fill(&topic, &alike(500, json!({"payload": 1}))).await;
    let changes = json!({"max_messages": 3, "on_full": "drop_oldest"});
    client.update_topic(&topic, changes).await.expect(200);
    // A publish drops 40 at the most, so the new bound is reached step by step.
    for n in 0..20 {
        client.published(&topic, json!({"payload": n})).await;
    }
    topic_has(&client, &topic, json!({"counts": {"ready": 3}, "totals": {"expired": 517}})).await;
}

#[tokio::test]
async fn what_has_outlived_its_time_leaves_its_place() {
    let client = client().await;
    for (count, on_full) in [(2, "reject"), (400, "reject"), (2, "drop_oldest")] {
        let topic = topic("room");
        client.new_topic(&topic, json!({"max_messages": count, "on_full": on_full})).await;
        client.fill(&topic, &alike(count, json!({"payload": 1, "ttl_ms": 1000}))).await;
        let end = shared().await.redis.time_ms().await + 1100;
        if on_full == "reject" {
            full(client.publish(&topic, json!({"payload": 2})).await);
        }
        while shared().await.redis.time_ms().await < end {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        client.published(&topic, json!({"payload": 2})).await;
    }
}

#[tokio::test]
async fn a_leased_key_is_a_conflict_and_no_matter_of_room() {
    let (client, topic) = (client().await, topic("room"));
    client.new_topic(&topic, json!({"max_messages": 1})).await;
    client.published(&topic, json!({"payload": 1, "key": "k"})).await;
    client.lease_one(&topic).await;
    let replace = json!({"payload": 2, "key": "k", "on_duplicate": "replace"});
    client.publish(&topic, replace).await.problem(409, "message_leased");
    let again = client.publish(&topic, json!({"payload": 2, "key": "k"})).await.expect(200).json();
    assert_eq!((&again["state"], &again["duplicate"]), (&json!("leased"), &json!(true)));
}

#[tokio::test]
async fn publishers_with_options_and_without_share_one_limit() {
    let (here, there, topic) = (instance().await, instance().await, topic("room"));
    let clients = [here.client(), there.client()];
    clients[0].new_topic(&topic, json!({"max_messages": 40})).await;
    let plain = json!({"payload": 1});
    let ranked = json!({"payload": 1, "priority": 9, "ttl_ms": 60_000, "max_attempts": 2});
    let (one, two) =
        tokio::join!(rush(&clients, &topic, 32, &plain), rush(&clients, &topic, 32, &ranked));
    assert_eq!(one + two, 40);
    assert_eq!(live(&clients[1], &topic).await, 40);
}

#[tokio::test]
async fn consumers_make_room_and_publishers_never_pass_the_limit() {
    let (here, there, topic) = (instance().await, instance().await, topic("room"));
    let clients = [here.client(), there.client()];
    clients[0].new_topic(&topic, json!({"max_messages": 15})).await;
    let mut taken = 0;
    for round in 0..6 {
        let message = json!({"payload": round});
        let work = async {
            let want = json!({"max_messages": 4});
            for held in clients[round % 2].leased(&topic, want).await {
                clients[1 - round % 2].ack_leased(&held).await.expect(204);
            }
        };
        let (count, (), seen) =
            tokio::join!(rush(&clients, &topic, 24, &message), work, live(&clients[0], &topic));
        taken += count;
        assert!(seen <= 15, "{seen} at once");
        let left = live(&clients[1], &topic).await;
        assert!(left <= 15, "{left} are there");
    }
    topic_has(&clients[0], &topic, json!({"totals": {"published": taken}})).await;
}

#[tokio::test]
async fn a_limit_set_while_many_publish_holds_from_its_answer_on() {
    let (here, there, topic) = (instance().await, instance().await, topic("room"));
    let clients = [here.client(), there.client()];
    clients[0].new_topic(&topic, json!({})).await;
    let message = json!({"payload": 1});
    let (_, ()) = tokio::join!(rush(&clients, &topic, 64, &message), async {
        clients[1].update_topic(&topic, json!({"max_messages": 1})).await.expect(200);
    });
    let left = live(&clients[0], &topic).await;
    assert_eq!(rush(&clients, &topic, 16, &json!({"payload": 2})).await, usize::from(left == 0));
}

#[tokio::test]
async fn a_batch_larger_than_the_limit_keeps_its_last_where_the_oldest_go() {
    let (client, topic) = (client().await, topic("room"));
    client.new_topic(&topic, json!({"max_messages": 3, "on_full": "drop_oldest"})).await;
    let messages: Vec<Value> = (0..600).map(|n| json!({"payload": n})).collect();
    client.fill(&topic, &messages).await;
    topic_becomes(&client, &topic, json!({"counts": {"ready": 3}, "totals": {"expired": 597}}))
        .await;
    let granted = client.leased(&topic, json!({"max_messages": 10})).await;
    let payloads: Vec<&Value> = granted.iter().map(|message| &message["payload"]).collect();
    assert_eq!(payloads, [597, 598, 599]);
}

#[tokio::test]
async fn what_time_drops_while_a_full_topic_drops_is_counted_once() {
    let (client, topic) = (client().await, topic("room"));
    client.new_topic(&topic, json!({"max_messages": 20, "on_full": "drop_oldest"})).await;
    let mut messages =
        vec![json!({"payload": 1}), json!({"payload": 2, "key": "k", "ttl_ms": 3_700_000})];
    messages.extend(alike(18, json!({"payload": 3, "ttl_ms": 3_600_000})));
    client.fill(&topic, &messages).await;
    // Their time is over, and no sweep is near. The one with the key is the last that a sweep would come to.
    let end = "for i, m in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], i, m) end return 1";
    let expires = format!("dueq:{{{topic}:0}}:expires");
    let _: i64 = shared().await.redis.command(&["EVAL", end, "1", &expires]).await;
    let mut messages = alike(17, json!({"payload": 4}));
    messages.push(json!({"payload": 5, "key": "k"}));
    messages.extend(alike(6, json!({"payload": 6})));
    client.fill(&topic, &messages).await;
    let facts = json!({"counts": {"ready": 20}, "totals": {"published": 44, "expired": 24}});
    topic_has(&client, &topic, facts).await;
}
