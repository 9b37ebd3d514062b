//! pauseTopic and resumeTopic: no grant on any instance from the answer on, and nothing else changes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::facts::topic_in_balance;
use crate::harness::*;
use crate::topic_facts::{lease_over, topic_becomes, topic_has};

/// A long poll under way: the messages, and when they came.
fn poll(client: &Client, topic: &str, wait_ms: u64) -> JoinHandle<(Vec<Value>, Instant)> {
    let (client, topic) = (client.clone(), topic.to_owned());
    tokio::spawn(async move {
        let messages = client.leased(&topic, json!({"wait_ms": wait_ms})).await;
        (messages, Instant::now())
    })
}

/// Whether getTopic and listTopics say that it is paused.
async fn paused(client: &Client, topic: &str) -> bool {
    let seen = client.topic(topic).await.expect(200).json();
    let listed = client.get_path(&format!("/topics?prefix={topic}&limit=1")).await.expect(200);
    assert_eq!(listed.json()["items"][0]["paused"], seen["paused"], "{listed}");
    seen["paused"].as_bool().unwrap()
}

#[tokio::test]
async fn a_paused_topic_grants_nothing_and_a_resumed_one_does() {
    let (client, topic) = (client().await, topic("pause"));
    let ids = [
        client.published(&topic, json!({"payload": 1, "priority": 5})).await,
        client.published(&topic, json!({"payload": 2})).await,
    ];
    let seen = client.pause_topic(&topic).await.expect(200).json();
    assert_eq!((&seen["name"], &seen["paused"]), (&json!(topic), &json!(true)));
    assert_eq!(seen["counts"]["ready"], 2);
    assert!(paused(&client, &topic).await);
    for want in [json!({}), json!({"max_messages": 1000}), json!({"wait_ms": 300})] {
        assert!(client.leased(&topic, want).await.is_empty());
    }
    let seen = client.resume_topic(&topic).await.expect(200).json();
    assert_eq!(seen["paused"], false);
    assert!(!paused(&client, &topic).await);
    let granted = client.leased(&topic, json!({"max_messages": 10})).await;
    assert_eq!(crate::facts::ids(&granted), ids);
    assert!(granted.iter().all(|message| message["attempt"] == 1), "{granted:?}");
}

#[tokio::test]
async fn both_may_be_repeated_and_sent_without_a_body_or_with_an_empty_one() {
    let (client, topic) = (client().await, topic("pause"));
    client.published(&topic, json!({"payload": 1})).await;
    for (verb, want) in [("pause", true), ("resume", false)] {
        let path = format!("/topics/{topic}/{verb}");
        for _ in 0..2 {
            let answers = [
                client.send("POST", &path, &[], None).await,
                client.post(&path, &json!({})).await,
                client.post_bytes(&path, None, Vec::new()).await,
            ];
            for answer in answers {
                assert_eq!(answer.expect(200).json()["paused"], want);
            }
        }
        assert_eq!(paused(&client, &topic).await, want);
    }
}

#[tokio::test]
async fn publishing_goes_on_while_paused() {
    let (client, topic) = (client().await, topic("pause"));
    client.new_topic(&topic, json!({})).await;
    client.pause_topic(&topic).await.expect(200);
    client.published(&topic, json!({"payload": 1})).await;
    client.publish_raw(&topic, "", None, b"x").await.expect(201);
    client.fill(&topic, &[json!({"payload": 1, "delay_ms": 60_000})]).await;
    topic_has(&client, &topic, json!({"counts": {"ready": 2, "delayed": 1}})).await;
}

#[tokio::test]
async fn who_holds_a_lease_ends_or_extends_it_while_paused() {
    let (client, topic) = (client().await, topic("pause"));
    for n in 0..4 {
        client.published(&topic, json!({"payload": n})).await;
    }
    let held = client.leased(&topic, json!({"max_messages": 4})).await;
    client.pause_topic(&topic).await.expect(200);
    client.ack_leased(&held[0]).await.expect(204);
    client.nack_leased(&held[1], json!({"delay_ms": 0})).await.expect(200);
    client.extend_leased(&held[2], 60_000).await.expect(200);
    let acks = json!([{"id": held[3]["id"], "lease_token": held[3]["lease_token"]}]);
    let answer = client.lease(&topic, json!({"acks": acks})).await.expect(200).json();
    assert_eq!(answer["acks"][0]["status"], "ok");
    assert_eq!(answer["messages"], json!([]), "the nacked one is ready, and waits");
    topic_has(&client, &topic, json!({"counts": {"ready": 1, "leased": 1}})).await;
}

#[tokio::test]
async fn a_poll_waits_out_a_pause_and_ends_empty_in_time() {
    let (client, topic) = (client().await, topic("pause"));
    client.published(&topic, json!({"payload": 1})).await;
    client.pause_topic(&topic).await.expect(200);
    let start = Instant::now();
    assert!(client.leased(&topic, json!({"wait_ms": 500})).await.is_empty());
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(500), "{waited:?}");
    assert!(waited < WOKEN, "{waited:?}");
}

#[tokio::test]
async fn a_poll_that_waits_is_not_served_while_paused_and_at_once_on_resume() {
    let (here, there) = (instance().await, instance().await);
    let (here, there) = (here.client(), there.client());
    let mut times = Vec::new();
    for round in 0..6 {
        let topic = topic("pause");
        here.new_topic(&topic, json!({})).await;
        let polls = poll(&there, &topic, 20_000);
        waiters(&there, 1).await;
        let resumer = if round % 2 == 0 { &here } else { &there };
        here.pause_topic(&topic).await.expect(200);
        let id = there.published(&topic, json!({"payload": round})).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        waiters(&there, 1).await;
        assert_eq!(here.state(&id).await, "ready");
        resumer.resume_topic(&topic).await.expect(200);
        let resumed = Instant::now();
        let (messages, woken) = polls.await.unwrap();
        assert_eq!(crate::facts::ids(&messages), [id]);
        times.push(woken.saturating_duration_since(resumed));
    }
    times.sort();
    assert!(times[5] < WOKEN, "{times:?}");
    assert!(times[2] <= Duration::from_millis(200), "{times:?}");
}

#[tokio::test]
async fn a_pause_is_in_force_on_every_instance_from_its_answer_on() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("pause"));
    for n in 0..20 {
        here.published(&topic, json!({"payload": n})).await;
    }
    for _ in 0..10 {
        assert_eq!(there.leased(&topic, json!({})).await.len(), 1);
        here.pause_topic(&topic).await.expect(200);
        assert!(there.leased(&topic, json!({})).await.is_empty());
        assert!(paused(&there, &topic).await);
        there.resume_topic(&topic).await.expect(200);
        assert_eq!(here.leased(&topic, json!({})).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_consumer_that_asks_after_the_answer_gets_anything() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("pause"));
    for _ in 0..3 {
        here.fill(&topic, &vec![json!({"payload": 1}); 500]).await;
        let consume = |client: &Client| {
            let (client, topic) = (client.clone(), topic.clone());
            tokio::spawn(async move { while client.leased(&topic, json!({})).await.len() == 1 {} })
        };
        let consumers: Vec<_> =
            (0..8).map(|n| consume(if n % 2 == 0 { &here } else { &there })).collect();
        eventually("some grants", || async {
            (here.count(&topic, "leased").await > 20).then_some(())
        })
        .await;
        here.pause_topic(&topic).await.expect(200);
        let granted = here.total(&topic, "granted").await;
        for consumer in consumers {
            consumer.await.unwrap(); // each is answered empty, as it asked after the pause
        }
        assert_eq!(there.total(&topic, "granted").await, granted);
        here.resume_topic(&topic).await.expect(200);
    }
}

#[tokio::test]
async fn a_lease_that_ends_during_a_pause_makes_its_message_ready_and_no_more() {
    let (client, topic) = (client().await, topic("pause"));
    for max_attempts in [10, 1] {
        client.published(&topic, json!({"payload": 1, "max_attempts": max_attempts})).await;
    }
    let held = client.leased(&topic, json!({"max_messages": 2, "lease_ms": 1000})).await;
    client.pause_topic(&topic).await.expect(200);
    let polls = poll(&client, &topic, 20_000);
    lease_over(&held[0]).await;
    topic_becomes(&client, &topic, json!({"counts": {"ready": 1, "dead": 1, "leased": 0}})).await;
    assert!(client.leased(&topic, json!({})).await.is_empty());
    client.ack_leased(&held[0]).await.problem(409, "lease_lost");
    client.resume_topic(&topic).await.expect(200);
    let (messages, _) = polls.await.unwrap();
    assert_eq!(messages[0]["id"], held[0]["id"]);
    assert_eq!(messages[0]["attempt"], 2);
}

#[tokio::test]
async fn what_falls_due_during_a_pause_is_granted_in_its_order_afterwards() {
    let (client, topic) = (client().await, topic("pause"));
    client.new_topic(&topic, json!({})).await;
    client.pause_topic(&topic).await.expect(200);
    let mut ids = Vec::new();
    for (delay_ms, priority) in [(300, 0), (100, 0), (200, 7)] {
        let message = json!({"payload": 1, "delay_ms": delay_ms, "priority": priority});
        ids.push(client.published(&topic, message).await);
    }
    let polls = poll(&client, &topic, 700);
    topic_becomes(&client, &topic, json!({"counts": {"ready": 3}})).await;
    assert!(polls.await.unwrap().0.is_empty());
    client.resume_topic(&topic).await.expect(200);
    let granted = client.leased(&topic, json!({"max_messages": 3})).await;
    assert_eq!(crate::facts::ids(&granted), [&*ids[2], &*ids[1], &*ids[0]]);
}

#[tokio::test]
async fn a_pause_is_no_part_of_the_configuration() {
    let (client, topic) = (client().await, topic("pause"));
    let made = client.new_topic(&topic, json!({})).await.json();
    client.pause_topic(&topic).await.expect(200);
    let put = client.put_topic(&topic, json!({"lease_ms": 1000})).await.expect(200).json();
    assert_eq!(put["paused"], true);
    let patched = client.update_topic(&topic, json!({"lease_ms": null})).await.expect(200).json();
    assert_eq!(patched["paused"], true);
    assert_eq!(patched["config"], made["config"]);
    client.put_topic(&topic, json!({"paused": false})).await.refused(422).field("paused");
    client.update_topic(&topic, json!({"paused": false})).await.refused(422).field("paused");
    client.published(&topic, json!({"payload": 1})).await;
    assert!(client.leased(&topic, json!({})).await.is_empty());
}

#[tokio::test]
async fn a_pause_outlives_every_instance() {
    let redis = Redis::start().await;
    let (mut first, topic) = (Dueq::on(&redis).start().await, topic("pause"));
    let client = first.client();
    let id = client.published(&topic, json!({"payload": 1})).await;
    client.pause_topic(&topic).await.expect(200);
    assert_eq!(first.term().await, 0, "{}", first.log());
    let second = Dueq::on(&redis).start().await;
    let client = second.client();
    assert!(client.leased(&topic, json!({})).await.is_empty());
    assert!(paused(&client, &topic).await);
    client.resume_topic(&topic).await.expect(200);
    assert_eq!(client.lease_one(&topic).await["id"], id);
}

#[tokio::test]
async fn deleting_and_purging_go_on_while_paused() {
    let (client, topic) = (client().await, topic("pause"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    client.published(&topic, json!({"payload": 1})).await;
    client.pause_topic(&topic).await.expect(200);
    client.delete(&id).await.expect(204);
    assert_eq!(client.purge(&topic, &["ready"]).await.expect(200).number("purged"), 1);
    topic_in_balance(&client, &topic).await;
    client.delete_topic(&topic, "").await.expect(204);
}

#[tokio::test]
async fn a_lease_from_several_topics_passes_a_paused_one() {
    let (client, first, second) = (client().await, topic("pause"), topic("pause"));
    client.published(&first, json!({"payload": 1})).await;
    let id = client.published(&second, json!({"payload": 2})).await;
    client.pause_topic(&first).await.expect(200);
    let want = json!({"topics": [first, second], "max_messages": 10});
    let answer = client.post("/lease", &want).await.expect(200).json();
    assert_eq!(crate::facts::ids(answer["messages"].as_array().unwrap()), [id]);
}

#[tokio::test]
async fn a_pause_and_the_configuration_outlive_a_restart_of_redis() {
    let mut redis = Redis::options().appendonly().start().await;
    let (dueq, topic) = (Dueq::on(&redis).start().await, topic("pause"));
    let client = dueq.client();
    client.new_topic(&topic, json!({"lease_ms": 7000, "max_messages": 1})).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    client.pause_topic(&topic).await.expect(200);
    let before = client.topic(&topic).await.expect(200).json();
    tokio::time::sleep(Duration::from_millis(1500)).await; // until the file is synced
    redis.restart().await;
    let after = eventually("an answer", || async {
        let answer = client.topic(&topic).await;
        (answer.status == 200).then(|| answer.json())
    })
    .await;
    for name in ["config", "revision", "paused", "counts", "totals"] {
        assert_eq!(after[name], before[name], "{name}");
    }
    assert!(client.leased(&topic, json!({})).await.is_empty());
    crate::topic_facts::full(client.publish(&topic, json!({"payload": 2})).await);
    client.resume_topic(&topic).await.expect(200);
    let held = client.lease_one(&topic).await;
    assert_eq!(held["id"], id);
    assert!(number(&held, "lease_ms") <= 7000, "{held}");
}
