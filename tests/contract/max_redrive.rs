//! `max_messages` and what makes dead messages live again: as many as there is room for, and no other message goes for it.

use serde_json::{Value, json};

use crate::facts::{ids, topic_in_balance};
use crate::harness::*;
use crate::topic_facts::{alike, full, live, topic_has};

/// A new topic with this limit and so many dead messages, longest dead first: their ids.
async fn dead(client: &Client, config: Value, messages: &[Value]) -> (String, Vec<String>) {
    let topic = topic("max");
    let mut config = config;
    let limit = config["max_messages"].take();
    config.as_object_mut().unwrap().remove("max_messages");
    client.new_topic(&topic, config).await;
    client.fill(&topic, messages).await;
    let mut all = Vec::new();
    loop {
        let held = client.leased(&topic, json!({"max_messages": 1000})).await;
        if held.is_empty() {
            break;
        }
        let nack =
            |m: &Value| json!({"id": m["id"], "lease_token": m["lease_token"], "dead": true});
        client.held_batch("nack", &held.iter().map(nack).collect::<Vec<_>>()).await;
        all.extend(ids(&held));
    }
    client.update_topic(&topic, json!({"max_messages": limit})).await.expect(200);
    (topic, all)
}

fn told(answer: &Answer) -> (i64, i64) {
    (answer.number("redriven"), answer.number("remaining"))
}

#[tokio::test]
async fn a_redrive_takes_what_there_is_room_for_and_says_what_remains() {
    let client = client().await;
    for on_full in ["reject", "drop_oldest"] {
        let config = json!({"max_messages": 20, "on_full": on_full});
        let (topic, all) = dead(&client, config, &alike(100, json!({"payload": 1}))).await;
        client.published(&topic, json!({"payload": "live", "delay_ms": 600_000})).await;
        let answer = client.redrive_topic(&topic, json!({})).await.expect(200);
        assert_eq!(told(&answer), (19, 81));
        assert_eq!(live(&client, &topic).await, 20);
        assert_eq!(told(&client.redrive_topic(&topic, json!({})).await.expect(200)), (0, 81));
        let held = client.leased(&topic, json!({"max_messages": 7})).await;
        assert_eq!(ids(&held), all[..7], "the longest dead come first");
        for message in &held {
            client.ack_leased(message).await.expect(204);
        }
        let want = json!({"max_messages": 5, "spread_ms": 600_000});
        assert_eq!(told(&client.redrive_topic(&topic, want).await.expect(200)), (5, 76));
        let want = json!({"spread_ms": 600_000});
        assert_eq!(told(&client.redrive_topic(&topic, want).await.expect(200)), (2, 74));
        let seen =
            json!({"counts": {"dead": 74, "delayed": 6, "ready": 14}, "totals": {"expired": 0}});
        topic_has(&client, &topic, seen).await;
        if on_full == "drop_oldest" {
            client.published(&topic, json!({"payload": "new"})).await;
            topic_has(&client, &topic, json!({"totals": {"expired": 1}})).await;
        }
        assert_eq!(live(&client, &topic).await, 20);
    }
}

#[tokio::test]
async fn a_message_without_room_stays_dead_by_every_way() {
    let client = client().await;
    for (on_full, message) in
        [("reject", json!({"payload": 1})), ("drop_oldest", json!({"payload": 1, "priority": 3}))]
    {
        let config = json!({"max_messages": 2, "on_full": on_full});
        let (topic, all) = dead(&client, config, &alike(9, message)).await;
        client.redrive(&all[0]).await.expect(200);
        let batch =
            client.post("/messages/redrive", &json!({"ids": all[..4]})).await.expect(200).json();
        let statuses: Vec<&str> =
            batch["results"].as_array().unwrap().iter().map(|it| text(it, "status")).collect();
        assert_eq!(statuses, ["message_not_dead", "ok", "topic_full", "topic_full"]);
        full(client.redrive(&all[2]).await);
        client.redrive(&all[0]).await.problem(409, "message_not_dead");
        client.redrive(&unknown_id()).await.refused(404);
        let found = client.redrive_topic(&topic, json!({"q": "priority:<9"})).await.expect(200);
        assert_eq!((found.number("redriven"), found.number("remaining")), (0, 7));
        // A run makes nothing live that was not.
        client.post(&format!("/topics/{topic}/run"), &json!({})).await.expect(200);
        topic_has(
            &client,
            &topic,
            json!({"counts": {"ready": 2, "dead": 7}, "totals": {"expired": 0}}),
        )
        .await;
        // What is leased counts, until its lease ends.
        let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
        full(client.redrive(&all[2]).await);
        client.ack_leased(&held).await.expect(204);
        client.redrive(&all[2]).await.expect(200);
        topic_in_balance(&client, &topic).await;
    }
}

#[tokio::test]
async fn groups_and_keys_have_no_way_past_the_limit() {
    let client = client().await;
    let messages: Vec<Value> = (0..30)
        .map(|n| json!({"payload": n, "group": format!("g{n}"), "key": format!("k{n}")}))
        .collect();
    let (topic, all) = dead(&client, json!({"max_messages": 10}), &messages).await;
    // Three of the keys are taken by now.
    for n in 0..3 {
        client.published(&topic, json!({"payload": "live", "key": format!("k{n}")})).await;
    }
    let answer = client.redrive_topic(&topic, json!({})).await.expect(200);
    assert_eq!(told(&answer), (7, 23));
    client.redrive(&all[29]).await.problem(429, "topic_full");
    let seen = topic_in_balance(&client, &topic).await;
    let counts = &seen["counts"];
    assert_eq!(number(counts, "ready") + number(counts, "blocked"), 10, "{seen}");
}

#[tokio::test]
async fn each_partition_redrives_its_share() {
    let client = client().await;
    for spread_ms in [0, 600_000] {
        let (topic, all) = dead(
            &client,
            json!({"max_messages": 80, "partitions": 4}),
            &alike(1000, json!({"payload": 1})),
        )
        .await;
        assert_eq!(all.len(), 1000);
        let want = json!({"spread_ms": spread_ms});
        assert_eq!(told(&client.redrive_topic(&topic, want.clone()).await.expect(200)), (80, 920));
        assert_eq!(told(&client.redrive_topic(&topic, want).await.expect(200)), (0, 920));
        assert_eq!(live(&client, &topic).await, 80);
    }
}

#[tokio::test]
async fn redrives_of_two_instances_at_once_keep_to_the_limit() {
    let (here, there) = (instance().await, instance().await);
    let clients = [here.client(), there.client()];
    let (topic, all) =
        dead(&clients[0], json!({"max_messages": 50}), &alike(200, json!({"payload": 1}))).await;
    let singles = all.iter().enumerate().map(|(n, id)| clients[n % 2].redrive(id));
    let topics = clients.iter().map(|client| client.redrive_topic(&topic, json!({})));
    let (singles, topics) = tokio::join!(
        futures_util::future::join_all(singles),
        futures_util::future::join_all(topics)
    );
    let of_singles = singles.iter().filter(|answer| answer.status == 200).count() as i64;
    let of_topics: i64 = topics.iter().map(|answer| answer.number("redriven")).sum();
    assert_eq!(of_singles + of_topics, 50);
    assert_eq!(live(&clients[1], &topic).await, 50);
}
