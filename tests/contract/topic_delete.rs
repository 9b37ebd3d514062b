//! deleteTopic: only what is empty, unless by force; and a name is free for a new topic that has
//! nothing of the old one.

use std::time::Duration;

use serde_json::json;

use crate::facts::dead_message;
use crate::harness::*;
use crate::topic_facts::{lease_over, topic_has};

#[tokio::test]
async fn an_empty_topic_is_deleted() {
    let (client, topic) = (client().await, topic("delete"));
    client.new_topic(&topic, json!({})).await;
    client.delete_topic(&topic, "").await.expect(204);
    client.topic(&topic).await.problem(404, "topic_not_found");
    client.delete_topic(&topic, "").await.problem(404, "topic_not_found");
    client.delete_topic(&topic, "?force=true").await.problem(404, "topic_not_found");
    let listed = client.get_path(&format!("/topics?prefix={topic}")).await.expect(200).json();
    assert_eq!(listed, json!({"items": []}));
}

#[tokio::test]
async fn a_topic_whose_messages_are_done_is_empty() {
    let (client, topic) = (client().await, topic("delete"));
    client.published(&topic, json!({"payload": 1})).await;
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    client.delete_topic(&topic, "?force=false").await.expect(204);
}

#[tokio::test]
async fn a_message_in_any_live_state_or_dead_hinders() {
    let client = client().await;
    for state in ["ready", "ready by rank", "delayed", "delayed by rank", "leased", "dead"] {
        let topic = topic("delete");
        let id = match state {
            "ready" => client.published(&topic, json!({"payload": 1})).await,
            "ready by rank" => client.published(&topic, json!({"payload": 1, "priority": 3})).await,
            "delayed" => client.published(&topic, json!({"payload": 1, "delay_ms": 60_000})).await,
            "delayed by rank" => {
                let message = json!({"payload": 1, "delay_ms": 60_000, "priority": 3});
                client.published(&topic, message).await
            }
            "leased" => {
                client.published(&topic, json!({"payload": 1})).await;
                text(&client.lease_one(&topic).await, "id").to_owned()
            }
            _ => dead_message(&client, &topic).await,
        };
        for query in ["", "?force=false"] {
            let answer = client.delete_topic(&topic, query).await;
            assert_eq!(answer.status, 409, "{state}: {answer}");
            answer.problem(409, "topic_not_empty");
        }
        client.get(&id).await.expect(200);
        client.delete_topic(&topic, "?force=true").await.expect(204);
        client.get(&id).await.problem(404, "message_not_found");
        client.topic(&topic).await.problem(404, "topic_not_found");
    }
}

#[tokio::test]
async fn a_lease_that_is_over_hinders_as_the_ready_or_dead_message_that_it_is() {
    let client = client().await;
    for max_attempts in [10, 1] {
        let topic = topic("delete");
        client.published(&topic, json!({"payload": 1, "max_attempts": max_attempts})).await;
        let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
        lease_over(&held).await;
        client.delete_topic(&topic, "").await.problem(409, "topic_not_empty");
    }
}

#[tokio::test]
async fn acked_messages_that_are_kept_do_not_hinder_and_go_with_the_topic() {
    let (client, topic) = (client().await, topic("delete"));
    client.new_topic(&topic, json!({"retention": {"acked_ms": 600_000}})).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    client.ack_leased(&held).await.expect(204);
    assert_eq!(client.state(&id).await, "acked");
    client.delete_topic(&topic, "").await.expect(204);
    client.get(&id).await.problem(404, "message_not_found");
    client.ack_leased(&held).await.problem(404, "message_not_found");
}

#[tokio::test]
async fn every_route_of_a_message_of_a_deleted_topic_is_404_also_once_it_is_made_anew() {
    let (client, topic) = (client().await, topic("delete"));
    client.published(&topic, json!({"payload": 1, "key": "k"})).await;
    let held = client.lease_one(&topic).await;
    let (id, token) = (text(&held, "id"), text(&held, "lease_token"));
    let waiting = client.published(&topic, json!({"payload": 2})).await;
    client.delete_topic(&topic, "?force=true").await.expect(204);
    for anew in [false, true] {
        if anew {
            client.published(&topic, json!({"payload": 3})).await;
        }
        for id in [id, &waiting] {
            for answer in [
                client.get(id).await,
                client.delete(id).await,
                client.delete_by_force(id).await,
                client.ack(id, token).await,
                client.nack(id, token, json!({})).await,
                client.extend(id, token, 60_000).await,
                client.post(&format!("/messages/{id}/redrive"), &json!({})).await,
            ] {
                answer.problem(404, "message_not_found");
            }
        }
        let acks = json!({"acks": [{"id": id, "lease_token": token}], "max_messages": 1000});
        let answer = client.lease(&topic, acks).await.expect(200).json();
        assert_eq!(answer["acks"][0]["status"], "message_not_found");
        assert_eq!(answer["messages"].as_array().unwrap().len(), usize::from(anew));
    }
}

#[tokio::test]
async fn a_topic_made_anew_has_nothing_of_the_old_one() {
    let (client, topic) = (client().await, topic("delete"));
    client.new_topic(&topic, json!({"lease_ms": 5000, "max_messages": 5})).await;
    dead_message(&client, &topic).await;
    for message in [
        json!({"payload": 1, "key": "k", "idempotency_key": "i"}),
        json!({"payload": 1, "delay_ms": 60_000, "priority": 3, "ttl_ms": 1000}),
        json!({"payload": 1, "max_attempts": 2, "headers": {"a": "b"}}),
    ] {
        client.published(&topic, message).await;
    }
    client.lease_one(&topic).await;
    client.pause_topic(&topic).await.expect(200);
    client.delete_topic(&topic, "?force=true").await.expect(204);
    let message = json!({"payload": 1, "key": "k", "idempotency_key": "i"});
    let again = client.publish(&topic, message).await.expect(201).json();
    assert_eq!(again["duplicate"], false);
    let want = json!({
        "counts": {"ready": 1, "delayed": 0, "leased": 0, "dead": 0, "acked": 0, "blocked": 0},
        "totals": {"published": 1, "granted": 0, "deleted": 0, "dead": 0, "purged": 0},
    });
    let seen = topic_has(&client, &topic, want).await;
    assert_eq!(seen["paused"], false);
    assert_eq!(seen["config"]["lease_ms"], 30_000);
    assert!(seen["config"].get("max_messages").is_none(), "{seen}");
    for state in ["delayed", "leased", "dead", "acked"] {
        let items = client.listed(&topic, &format!("state={state}")).await;
        assert!(items.is_empty(), "{state}: {items:?}");
    }
    assert_eq!(client.lease_one(&topic).await["id"], again["id"]);
}

#[tokio::test]
async fn an_instance_that_knew_the_old_topic_serves_the_new_one_at_once() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("delete"));
    for round in 0..5 {
        let old = there.published(&topic, json!({"payload": round})).await;
        assert_eq!(there.state(&old).await, "ready");
        here.delete_topic(&topic, "?force=true").await.expect(204);
        match round {
            0 => drop(there.topic(&topic).await.problem(404, "topic_not_found")),
            1 => drop(there.get(&old).await.problem(404, "message_not_found")),
            2 => assert!(there.leased(&topic, json!({})).await.is_empty()),
            _ => {}
        }
        let new = match round % 2 {
            0 => there.published(&topic, json!({"payload": "new"})).await,
            _ => here.published(&topic, json!({"payload": "new"})).await,
        };
        there.get(&old).await.problem(404, "message_not_found");
        let held = there.lease_one(&topic).await;
        assert_eq!(held["id"], new);
        there.ack_leased(&held).await.expect(204);
        topic_has(&there, &topic, json!({"totals": {"published": 1, "acked": 1}})).await;
        here.delete_topic(&topic, "").await.expect(204);
    }
}

#[tokio::test]
async fn who_waits_on_a_deleted_topic_is_served_by_the_new_one() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("delete"));
    here.new_topic(&topic, json!({})).await;
    let (poller, name) = (there.clone(), topic.clone());
    let poll = tokio::spawn(async move { poller.lease_one(&name).await });
    waiters(&there, 1).await;
    here.delete_topic(&topic, "").await.expect(204);
    let id = here.published(&topic, json!({"payload": 1})).await;
    let message = tokio::time::timeout(Duration::from_secs(5), poll).await.expect("in time");
    assert_eq!(message.unwrap()["id"], id);
}

#[tokio::test]
async fn a_topic_of_thousands_is_deleted_by_force_whole() {
    let (client, topic) = (client().await, topic("delete"));
    let message = |n: u64| json!({"payload": n, "priority": n % 2, "key": format!("k{n}")});
    let messages: Vec<_> = (0..3000).map(message).collect();
    let ids = client.fill(&topic, &messages).await;
    client.delete_topic(&topic, "").await.problem(409, "topic_not_empty");
    client.delete_topic(&topic, "?force=true").await.expect(204);
    for id in ids.iter().step_by(100) {
        client.get(id).await.problem(404, "message_not_found");
    }
    let again = client.fill(&topic, &messages[..10]).await;
    topic_has(&client, &topic, json!({"counts": {"ready": 10}, "totals": {"published": 10}})).await;
    assert!(!ids.contains(&again[0]));
}

#[tokio::test]
async fn a_delete_without_force_never_takes_a_message_that_was_published() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("delete"));
    let mut deleted = 0;
    for round in 0..60 {
        here.put_topic(&topic, json!({})).await;
        let publish = async {
            tokio::time::sleep(Duration::from_micros(round * 37 % 2000)).await;
            let message = json!({"payload": round, "priority": round % 2});
            there.publish(&topic, message).await.expect(201).text("id")
        };
        let (id, answer) = tokio::join!(publish, here.delete_topic(&topic, ""));
        match answer.status {
            204 => deleted += 1,
            _ => drop(answer.problem(409, "topic_not_empty")),
        }
        assert_eq!(here.state(&id).await, "ready", "after {deleted} deletes");
        let held = there.lease_one(&topic).await;
        assert_eq!(held["id"], id);
        here.ack_leased(&held).await.expect(204);
    }
}

#[tokio::test]
async fn a_message_of_a_topic_made_anew_is_found_by_an_instance_that_knows_the_old_one() {
    let (one, other, topic) = (client().await, instance().await, topic("anew"));
    let other = other.client();
    one.new_topic(&topic, json!({})).await;
    other.topic(&topic).await.expect(200);
    one.delete_topic(&topic, "").await.expect(204);
    let id = one.published(&topic, json!({"payload": 1})).await;
    let held = one.lease_one(&topic).await;
    // By its id alone: nothing has told that instance of the new topic.
    assert_eq!(other.state(&id).await, "leased");
    other.ack_leased(&held).await.expect(204);
}

#[tokio::test]
async fn a_deleted_topic_leaves_nothing_in_any_partition() {
    let (redis, _dueq, client) = alone().await;
    for partitions in [1, 4] {
        let topic = topic("traces");
        client.new_topic(&topic, json!({"partitions": partitions})).await;
        let message =
            |n: i64| json!({"payload": n, "key": format!("k{n}"), "delay_ms": 315_360_000_000_i64});
        let mut messages: Vec<_> = (0..16).map(message).collect();
        messages.extend((0..16).map(|n| json!({"payload": n, "idempotency_key": format!("{n}")})));
        client.fill(&topic, &messages).await;
        for _ in 0..8 {
            client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
        }
        let keys = async |pattern: String| redis.command::<Vec<String>>(&["KEYS", &pattern]).await;
        let tag = format!("dueq:{{{topic}:*");
        let history = format!("/topics/{topic}/history?step_ms=10000&points=9");
        eventually("all partitions have a history", || async {
            client.get_path(&history).await.expect(200);
            (keys(format!("{tag}:history")).await.len() == partitions).then_some(())
        })
        .await;
        client.delete_topic(&topic, "?force=true").await.expect(204);
        // Only the marks that nobody writes here any more, which expire.
        let left = keys(tag.clone()).await;
        assert!(
            left.len() == partitions && left.iter().all(|key| key.ends_with(":meta")),
            "{left:?}"
        );
        for (read, index) in [("ZRANGE", "{sweeps}:index"), ("ZRANGE", "{history}:active")] {
            let names: Vec<String> =
                redis.command(&[read, &format!("dueq:{index}"), "0", "-1"]).await;
            assert!(names.iter().all(|name| !name.starts_with(&topic)), "{index}: {names:?}");
        }
        let late: Vec<String> = redis.command(&["HKEYS", "dueq:{history}:lateness"]).await;
        assert!(late.iter().all(|name| !name.starts_with(&topic)), "{late:?}");
        client.new_topic(&topic, json!({"partitions": partitions})).await;
        let points = client.get_path(&history).await.expect(200).json()["points"].clone();
        let all = points.as_array().unwrap();
        assert!(all.iter().all(|point| point["published"] == 0), "{points}");
    }
}

#[tokio::test]
async fn what_another_instance_does_in_a_topic_while_it_is_deleted_leaves_no_sweep_of_it() {
    let redis = Redis::start().await;
    let (here, there) = (Dueq::on(&redis).start().await, Dueq::on(&redis).start().await);
    let (client, other) = (here.client(), there.client());
    let topics: Vec<_> = (0..40).map(|_| topic("swept")).collect();
    let ends = topics.iter().map(async |topic| {
        client.new_topic(topic, json!({})).await;
        // It is to be swept when the key is forgotten, in a day.
        other.published(topic, json!({"payload": 1, "idempotency_key": "k"})).await;
        client.delete_topic(topic, "?force=true").await.expect(204);
    });
    futures_util::future::join_all(ends).await;
    eventually("an index without deleted topics", || async {
        let index = ["ZRANGE", "dueq:{sweeps}:index", "0", "-1"];
        let names: Vec<String> = redis.command(&index).await;
        names.iter().all(|name| !name.starts_with("swept")).then_some(())
    })
    .await;
}
