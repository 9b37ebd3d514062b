//! A message whose stored body is damaged: it is dead with that reason, and those around it go on.

use std::time::{Duration, Instant};

use deadpool_redis::redis;
use serde_json::{Value, json};

use crate::facts::reaches;
use crate::harness::*;

/// What no dueq ever stored.
const BODIES: [&[u8]; 9] = [
    b"",
    b"\x01",
    b"\x01\x00",
    b"\x02\0\0\0\x09{}",
    b"\x01\0\x09{}",
    b"nonsense",
    b"\0",
    b"\0{\"a\": [1",
    b"\x01\0\x02{}\"\xff\"",
];

/// Writes this in place of the message's body, in whatever partition it lies.
async fn damage(topic: &str, id: &str, body: &[u8]) {
    let redis = &shared().await.redis;
    let digits = id.replace('-', "");
    let hex = [&digits[..12], &digits[22..]].concat();
    let member: Vec<u8> =
        (0..11).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
    let keys: Vec<String> = redis.command(&["KEYS", &format!("dueq:{{{topic}:*}}:messages")]).await;
    let mut connection = redis.connection().await;
    for key in keys {
        let mut there = redis::cmd("HEXISTS");
        there.arg(&key).arg(&member);
        if there.query_async(&mut connection).await.unwrap() {
            let mut set = redis::cmd("HSET");
            set.arg(&key).arg(&member).arg(body);
            set.query_async::<()>(&mut connection).await.unwrap();
            return;
        }
    }
    panic!("{id} has no body");
}

fn payloads(messages: &[Value]) -> Vec<Value> {
    let mut payloads: Vec<_> = messages.iter().map(|message| message["payload"].clone()).collect();
    payloads.sort_by_key(Value::to_string);
    payloads
}

#[tokio::test]
async fn a_damaged_body_is_dead_with_a_reason_and_the_others_are_granted() {
    let client = client().await;
    for (config, want) in [
        (json!({}), json!({"max_messages": 5})),
        (json!({}), json!({"max_messages": 5, "max_bytes": 1000})),
        (json!({}), json!({"max_messages": 5, "wait_ms": 5000})),
        (json!({"partitions": 2}), json!({"max_messages": 5, "wait_ms": 1000})),
        (json!({"max_leased": 5}), json!({"max_messages": 5})),
    ] {
        for body in BODIES {
            let topic = topic("damaged");
            client.new_topic(&topic, config.clone()).await;
            let ids = client.fill(&topic, &[1, 2, 3, 4, 5].map(|n| json!({"payload": n}))).await;
            damage(&topic, &ids[2], body).await;
            let mut granted = Vec::new();
            // A few leases may be needed where there are several partitions.
            for _ in 0..4 {
                if granted.len() < 4 {
                    granted.extend(client.leased(&topic, want.clone()).await);
                }
            }
            assert_eq!(payloads(&granted), [1, 2, 4, 5], "{config} {want} {body:?}");
            let found = client.get(&ids[2]).await.expect(200).json();
            assert_eq!(found["state"], "dead", "{config} {want} {body:?}: {found}");
            assert_eq!(found["last_error"], "the stored body is damaged", "{found}");
            for held in &granted {
                client.ack_leased(held).await.expect(204);
            }
            let counts = client.topic(&topic).await.expect(200).json()["counts"].clone();
            assert_eq!((&counts["dead"], &counts["leased"]), (&json!(1), &json!(0)), "{counts}");
        }
    }
}

#[tokio::test]
async fn a_lease_of_one_gets_the_message_behind_a_damaged_one() {
    let client = client().await;
    for body in BODIES {
        let topic = topic("damaged");
        let ids = client.fill(&topic, &[1, 2].map(|n| json!({"payload": n}))).await;
        damage(&topic, &ids[0], body).await;
        let granted = client.leased(&topic, json!({})).await;
        assert_eq!(payloads(&granted), [2], "{body:?}");
    }
}

#[tokio::test]
async fn who_looks_at_damaged_messages_sees_them_and_the_others() {
    let client = client().await;
    for body in &BODIES[1..] {
        let topic = topic("damaged");
        let ids = client.fill(&topic, &[1, 2].map(|n| json!({"payload": {"n": n}}))).await;
        damage(&topic, &ids[0], body).await;
        for query in ["state=ready", "state=ready&payload=true"] {
            assert_eq!(client.listed(&topic, query).await.len(), 2, "{query} {body:?}");
        }
        let found = client.listed(&topic, "state=ready&q=payload.$.n:2").await;
        assert_eq!(found.len(), 1, "{body:?}: {found:?}");
        let seen = client.get(&ids[0]).await.expect(200).json();
        assert!(seen["payload_base64"].is_string(), "{seen}");
        client.get_path(&format!("/messages/{}/payload", ids[0])).await.expect(200);
        // A new payload is sound.
        client.update(&ids[0], json!({"payload": "new"})).await.expect(200);
        assert_eq!(client.lease_one(&topic).await["payload"], "new", "{body:?}");
    }
}

#[tokio::test]
async fn a_damaged_message_that_is_redriven_dies_again_and_its_death_is_told_of() {
    let client = client().await;
    for form in ["letter", "raw"] {
        for body in &BODIES[1..] {
            let (topic, dead) = (topic("damaged"), topic("damaged-dead"));
            client.new_topic(&topic, json!({"dead_topic": dead, "dead_form": form})).await;
            let id = client.published(&topic, json!({"payload": 1})).await;
            damage(&topic, &id, body).await;
            assert!(client.leased(&topic, json!({})).await.is_empty(), "{body:?}");
            eventually("its death is told of", || async {
                let found = client.topic(&dead).await;
                (found.status == 200 && found.json()["totals"]["published"] == 1).then_some(())
            })
            .await;
            if form == "letter" {
                client.post(&format!("/messages/{id}/redrive"), &json!({})).await.expect(200);
                assert!(client.leased(&topic, json!({})).await.is_empty(), "{body:?}");
                assert_eq!(client.state(&id).await, "dead");
                let letter = client.lease_one(&dead).await;
                assert_eq!(letter["payload"]["message"]["id"], id, "{letter}");
            }
        }
    }
}

#[tokio::test]
async fn a_score_that_is_no_time_keeps_nobody_from_the_others() {
    let client = client().await;
    let redis = &shared().await.redis;
    let plain = json!({"max_messages": 5, "wait_ms": 1000});
    let sized = json!({"max_messages": 5, "wait_ms": 1000, "max_bytes": 1000});
    for (set, score, want) in [
        ("delayed", "-inf", &plain),
        ("delayed", "-inf", &sized),
        ("delayed", "-1e300", &plain),
        ("delayed", "-1e300", &sized),
        ("delayed", "1600000000000.5", &plain),
        ("ready", "-inf", &plain),
        ("ready", "-inf", &sized),
        ("ready", "inf", &plain),
        ("ready", "inf", &sized),
        ("ready", "1e300", &plain),
        ("unack", "-inf", &plain),
        ("unack", "inf", &plain),
        ("last", "-inf", &plain),
    ] {
        let topic = topic("damaged-score");
        let ids = client.fill(&topic, &[1, 2, 3].map(|n| json!({"payload": n}))).await;
        let mut dues = Vec::new();
        for id in [&ids[0], &ids[2]] {
            dues.push(client.get(id).await.expect(200).json()["due_at"].clone());
        }
        let key = |name: &str| format!("dueq:{{{topic}:0}}:{name}");
        let script = "local member = redis.call('ZRANGE', KEYS[1], 1, 1)[1]
            redis.call('ZREM', KEYS[1], member) redis.call('ZADD', KEYS[2], ARGV[1], member)";
        let (from, to) = (key("delayed"), key(set));
        redis.command::<()>(&["EVAL", script, "2", &from, &to, score]).await;
        let granted = client.leased(&topic, want.clone()).await;
        let missing = usize::from((set, score) == ("unack", "inf"));
        assert_eq!(granted.len(), 3 - missing, "{set} {score} {want}: {granted:?}");
        for (id, due) in [&ids[0], &ids[2]].into_iter().zip(&dues) {
            let message = granted.iter().find(|message| message["id"] == **id);
            assert_eq!(
                message.map(|message| &message["due_at"]),
                Some(due),
                "{set} {score} {want}"
            );
        }
        let published = client.published(&topic, json!({"payload": 4})).await;
        assert_eq!(client.lease_one(&topic).await["id"], published, "{set} {score}");
    }
}

#[tokio::test]
async fn a_long_poll_that_meets_only_damaged_messages_goes_on_waiting() {
    let client = client().await;
    // As JSON, and as what a later part of the request finds out.
    for body in [BODIES[5], BODIES[7]] {
        for by_sqs in [false, true] {
            let topic = topic("damaged");
            let ids = client.fill(&topic, &[1, 2].map(|n| json!({"payload": n}))).await;
            for id in &ids {
                damage(&topic, id, body).await;
            }
            let poll = async {
                if !by_sqs {
                    return client.leased(&topic, json!({"wait_ms": 20_000})).await.len();
                }
                let headers = [
                    ("x-amz-target", "AmazonSQS.ReceiveMessage"),
                    ("content-type", "application/x-amz-json-1.0"),
                ];
                let body = json!({"WaitTimeSeconds": 20}).to_string().into_bytes();
                let path = format!("/sqs/{topic}");
                let answer = client.send("POST", &path, &headers, Some(body)).await.expect(200);
                answer.json()["Messages"].as_array().map_or(0, Vec::len)
            };
            let publish = async {
                for id in &ids {
                    reaches(&client, id, "dead").await;
                }
                tokio::time::sleep(Duration::from_millis(300)).await;
                client.published(&topic, json!({"payload": 3})).await;
            };
            let begin = Instant::now();
            let (got, ()) = tokio::join!(poll, publish);
            assert_eq!(got, 1, "{body:?} {by_sqs}");
            assert!(begin.elapsed() < Duration::from_secs(15));
        }
    }
    // And until its time is over.
    let topic = topic("damaged");
    let ids = client.fill(&topic, &[json!({"payload": 1})]).await;
    damage(&topic, &ids[0], BODIES[7]).await;
    let begin = Instant::now();
    assert!(client.leased(&topic, json!({"wait_ms": 1_000})).await.is_empty());
    assert!(begin.elapsed() >= Duration::from_millis(990), "{:?}", begin.elapsed());
}
