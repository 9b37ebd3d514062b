//! Pages of listMessages where thousands share one instant, in each state, and while they leave it.

use serde_json::{Value, json};

use crate::facts::ids;
use crate::harness::*;
use crate::topic_facts::alike;

/// How many of each state: more than Redis is asked for at once.
const MANY: usize = 2500;

/// Leases all of these, a thousand at a time.
async fn lease_all(client: &Client, topic: &str) -> Vec<Value> {
    let mut held = Vec::new();
    while held.len() < MANY {
        let want = json!({"max_messages": 1000, "lease_ms": 600_000, "wait_ms": 10_000});
        let more = client.leased(topic, want).await;
        assert!(!more.is_empty(), "{} of {MANY}", held.len());
        held.extend(more);
    }
    held
}

/// Ends all of these by one word of the batch routes.
async fn end_all(client: &Client, verb: &str, held: &[Value], more: Value) {
    for part in held.chunks(1000) {
        let messages: Vec<Value> = part
            .iter()
            .map(|message| {
                let mut end = more.clone();
                end["id"] = message["id"].clone();
                end["lease_token"] = message["lease_token"].clone();
                end
            })
            .collect();
        let answer =
            client.post(&format!("/messages/{verb}"), &json!({"messages": messages})).await;
        for result in answer.expect(200).json()["results"].as_array().unwrap() {
            assert_eq!(result["status"], "ok", "{result}");
        }
    }
}

/// Every page of a state, in pages of two lengths, holds these and no other, each once.
async fn holds(client: &Client, topic: &str, state: &str, want: &[Value]) {
    let mut want = ids(want);
    want.sort();
    for limit in [1000, 307] {
        let items = client.listed(topic, &format!("state={state}&limit={limit}")).await;
        assert!(items.iter().all(|item| item["state"] == state), "{state}");
        let mut seen = ids(&items);
        seen.sort();
        assert!(seen == want, "{} of {} {state} in pages of {limit}", seen.len(), want.len());
    }
}

#[tokio::test]
async fn thousands_of_one_instant_are_each_listed_once_in_every_state() {
    let (client, topic) = (client().await, topic("pages"));
    client.new_topic(&topic, json!({"retention": {"acked_ms": 600_000}})).await;
    let mut messages = alike(MANY, json!({"payload": 1}));
    messages.iter_mut().step_by(2).for_each(|message| message["max_attempts"] = json!(1));
    messages.iter_mut().step_by(3).for_each(|message| message["priority"] = json!(1));
    client.fill(&topic, &messages).await;
    let held = lease_all(&client, &topic).await;
    holds(&client, &topic, "leased", &held).await;
    let (ack, nack) = held.split_at(MANY / 2);
    end_all(&client, "ack", ack, json!({})).await;
    holds(&client, &topic, "acked", ack).await;
    end_all(&client, "nack", nack, json!({"dead": true})).await;
    holds(&client, &topic, "dead", nack).await;
    assert!(client.listed(&topic, "state=leased").await.is_empty());
}

#[tokio::test]
async fn pages_of_the_dead_go_on_while_some_are_redriven_and_others_die() {
    let (client, topic) = (client().await, topic("pages"));
    client.fill(&topic, &alike(60, json!({"payload": 1}))).await;
    let held = client.leased(&topic, json!({"max_messages": 60})).await;
    end_all(&client, "nack", &held[..50], json!({"dead": true})).await;
    let order = ids(&client.listed(&topic, "state=dead").await);
    assert_eq!(order.len(), 50);
    let (mut seen, mut left, mut cursor) = (Vec::new(), Vec::new(), String::new());
    for page in 0.. {
        let query = format!("state=dead&limit=10{cursor}");
        let answer = client.list(&topic, &query).await.expect(200).json();
        seen.extend(ids(answer["items"].as_array().unwrap()));
        let Some(next) = answer["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
        for id in [&order[page], &order[(page * 10 + 15) % 50]] {
            if client.post(&format!("/messages/{id}/redrive"), &json!({})).await.status == 200 {
                left.push(id);
            }
        }
        end_all(&client, "nack", &held[50 + page..51 + page], json!({"dead": true})).await;
    }
    for id in &order {
        let times = seen.iter().filter(|other| *other == id).count();
        assert!(times == 1 || times == 0 && left.contains(&id), "{id} came {times} times");
    }
}

/// Forty dead messages with a history of ten errors each, on a Redis of their own.
async fn failed_often(client: &Client, topic: &str) -> Vec<String> {
    client.fill(topic, &alike(40, json!({"payload": "x".repeat(200)}))).await;
    let reason = json!({"reason": "x".repeat(1000), "delay_ms": 0});
    let mut held = Vec::new();
    for _ in 0..10 {
        held = client.leased(topic, json!({"max_messages": 40})).await;
        end_all(client, "nack", &held, reason.clone()).await;
    }
    ids(&held)
}

#[tokio::test]
async fn a_list_reads_hardly_any_payload_in_vain() {
    let (redis, _dueq, client) = alone().await;
    let topic = topic("pages");
    failed_often(&client, &topic).await;
    let reads = async || {
        let stats: String = redis.command(&["INFO", "commandstats"]).await;
        let calls = stats.split_once("cmdstat_hget:calls=").map_or("0", |(_, rest)| rest);
        calls.split(',').next().unwrap().parse::<u64>().unwrap()
    };
    let before = reads().await;
    let query = "state=dead&payload=true&limit=1000";
    let page = client.list(&topic, query).await.expect(200).json();
    assert_eq!(page["items"].as_array().unwrap().len(), 40);
    let read = reads().await - before;
    assert!(read < 60, "{read} reads for 40 payloads");
}

#[tokio::test]
async fn a_damaged_history_hides_no_message() {
    let (redis, _dueq, client) = alone().await;
    let topic = topic("pages");
    let mut dead = failed_often(&client, &topic).await;
    let damage = r#"
        for _, key in ipairs(redis.call('KEYS', '*:events')) do
            local member = redis.call('HKEYS', key)[1]
            redis.call('HSET', key, member, 'n 5 1 "\255"\n')
        end"#;
    redis.command::<()>(&["EVAL", damage, "0"]).await;
    let mut listed = ids(&client.listed(&topic, "state=dead").await);
    dead.sort();
    listed.sort();
    assert_eq!(listed, dead);
}

#[tokio::test]
async fn pages_of_the_leased_go_on_while_some_of_them_end() {
    let (client, topic) = (client().await, topic("pages"));
    client.fill(&topic, &alike(50, json!({"payload": 1}))).await;
    client.leased(&topic, json!({"max_messages": 50, "lease_ms": 600_000})).await;
    let first = client.list(&topic, "state=leased&limit=10").await.expect(200).json();
    let order = ids(&client.listed(&topic, "state=leased").await);
    for id in &order[5..15] {
        client.delete_by_force(id).await.expect(204);
    }
    let query = format!("state=leased&limit=1000&cursor={}", text(&first, "next_cursor"));
    let rest = client.list(&topic, &query).await.expect(200).json();
    assert_eq!(ids(rest["items"].as_array().unwrap()), order[15..]);
}
