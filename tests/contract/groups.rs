//! `group`: messages of a group are leased in the order of publishing, a few at a time, and what is behind them waits
//! as `blocked`.

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

use crate::facts::{counted, topic_in_balance};
use crate::harness::*;
use crate::partitions::lease_all;

/// Publishes messages of a group with these payloads: their ids.
pub async fn line(
    client: &Client,
    topic: &str,
    group: &str,
    payloads: std::ops::Range<i64>,
) -> Vec<String> {
    let messages: Vec<_> = payloads.map(|n| json!({"payload": n, "group": group})).collect();
    client.fill(topic, &messages).await
}

/// Leases all that can be leased now: the payloads.
pub async fn payloads(client: &Client, topic: &str) -> (Vec<i64>, Vec<Value>) {
    let leased = client.leased(topic, json!({"max_messages": 100})).await;
    (leased.iter().map(|message| number(message, "payload")).collect(), leased)
}

async fn group(client: &Client, topic: &str, name: &str) -> Value {
    client.get_path(&format!("/topics/{topic}/groups/{name}")).await.expect(200).json()
}

/// A long poll for a message of this topic, which has been asked by the time that this ends.
pub async fn poll(client: &Client, topic: &str) -> tokio::task::JoinHandle<(Vec<Value>, Duration)> {
    let (client, topic, begun) = (client.clone(), topic.to_owned(), Instant::now());
    let poll = tokio::spawn(async move {
        let got = client.leased(&topic, json!({"wait_ms": 20_000})).await;
        (got, begun.elapsed())
    });
    sleep(Duration::from_millis(200)).await;
    poll
}

#[tokio::test]
async fn one_message_of_a_group_is_leased_at_a_time_in_the_order_of_publishing() {
    let (client, topic) = (client().await, topic("groups"));
    line(&client, &topic, "a", 0..3).await;
    line(&client, &topic, "b", 10..12).await;
    client.published(&topic, json!({"payload": 20})).await;
    counted(&client, &topic, &[("counts", "ready", 3), ("counts", "blocked", 3)]).await;
    let mut seen = Vec::new();
    for wanted in [vec![0, 10, 20], vec![1, 11], vec![2], vec![]] {
        let (found, leased) = payloads(&client, &topic).await;
        assert_eq!(found, wanted);
        assert_eq!(client.leased(&topic, json!({})).await.len(), 0, "the others wait");
        for message in &leased {
            if number(message, "payload") < 10 {
                assert_eq!(message["group"], "a");
            }
            topic_in_balance(&client, &topic).await;
            client.ack_leased(message).await.expect(204);
        }
        seen.extend(found);
    }
    assert_eq!(seen.len(), 6);
    counted(&client, &topic, &[("counts", "blocked", 0), ("totals", "acked", 6)]).await;
}

#[tokio::test]
async fn a_failed_head_holds_its_group_until_it_is_dead() {
    let (client, topic) = (client().await, topic("groups"));
    client.configure(&topic, json!({"max_attempts": 2})).await;
    line(&client, &topic, "a", 0..2).await;
    let first = client.lease_one(&topic).await;
    client.nack_leased(&first, json!({"delay_ms": 60_000})).await.expect(200);
    assert_eq!(payloads(&client, &topic).await.0, [0_i64; 0]);
    client.update(text(&first, "id"), json!({"delay_ms": 0})).await.expect(200);
    let again = client.lease_one(&topic).await;
    assert_eq!((&again["payload"], &again["group"]), (&json!(0), &json!("a")));
    let dead = client.nack_leased(&again, json!({"delay_ms": 0})).await.expect(200);
    assert_eq!(dead.text("state"), "dead");
    let next = client.lease_one(&topic).await;
    assert_eq!(next["payload"], 1);
    // A redriven message is the last of its group.
    let redriven = client.redrive(text(&first, "id")).await.expect(200);
    assert_eq!((redriven.text("state"), redriven.text("group")), ("blocked".into(), "a".into()));
    client.ack_leased(&next).await.expect(204);
    assert_eq!(client.lease_one(&topic).await["payload"], 0);
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn whatever_takes_a_head_away_lets_the_next_go() {
    let (client, topic) = (client().await, topic("groups"));
    let keyed = |n: i64, more: Value| {
        let mut message = json!({"payload": n, "group": "a", "key": format!("k{n}")});
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        message
    };
    for n in 0..8 {
        let more = if n == 2 { json!({"ttl_ms": 1}) } else { json!({"delay_ms": 0}) };
        client.published(&topic, keyed(n, more)).await;
    }
    let state =
        async |n: i64| client.get_by_key(&topic, &format!("k{n}")).await.json()["state"].clone();
    assert_eq!((state(0).await, state(1).await), (json!("ready"), json!("blocked")));
    // In place, whatever its new due time: it keeps its turn.
    let changed =
        client.update_by_key(&topic, "k3", json!({"delay_ms": 3_600_000})).await.expect(200);
    assert_eq!(changed.text("state"), "blocked");
    client.update_by_key(&topic, "k3", json!({"delay_ms": 0, "priority": 3})).await.expect(200);
    let replace = keyed(4, json!({"on_duplicate": "replace", "payload": 44}));
    assert_eq!(client.publish(&topic, replace).await.expect(200).text("state"), "blocked");
    let other = json!({"payload": 1, "key": "k4", "on_duplicate": "replace", "group": "b"});
    client.publish(&topic, other).await.problem(422, "group_changed");
    let none = json!({"payload": 1, "key": "k4", "on_duplicate": "replace"});
    client.publish(&topic, none).await.problem(422, "group_changed");

    client.delete_by_key(&topic, "k0", "").await.expect(204);
    assert_eq!(state(1).await, "ready");
    let leased = client.lease_one(&topic).await;
    client.delete_by_force(text(&leased, "id")).await.expect(204);
    // The third has expired meanwhile, blocked or not.
    let (third, held) = payloads(&client, &topic).await;
    assert_eq!(third, [3]);
    client.ack_leased(&held[0]).await.expect(204);
    // Each that is purged lets the next go, which stays.
    let purged = client.purge(&topic, &["ready"]).await.expect(200);
    assert_eq!((purged.number("purged"), purged.number("remaining")), (1, 0));
    assert_eq!(state(5).await, "ready");
    let blocked = client.purge(&topic, &["blocked"]).await.expect(200);
    assert_eq!((blocked.number("purged"), blocked.number("remaining")), (2, 0));
    line(&client, &topic, "a", 8..10).await;
    assert_eq!(client.listed(&topic, "state=blocked&limit=1").await.len(), 2);
    let delayed = client.purge(&topic, &["delayed"]).await.expect(200);
    assert_eq!(delayed.number("purged"), 2);
    let left = topic_in_balance(&client, &topic).await;
    assert_eq!(left["counts"]["ready"], 1);
    client.delete_topic(&topic, "").await.problem(409, "topic_not_empty");
    client.delete_topic(&topic, "?force=true").await.expect(204);
}

#[tokio::test]
async fn a_full_topic_counts_what_is_blocked_and_drops_it_like_what_is_delayed() {
    let (client, topic) = (client().await, topic("groups"));
    client.configure(&topic, json!({"max_messages": 2})).await;
    line(&client, &topic, "a", 0..2).await;
    client.publish(&topic, json!({"payload": 2, "group": "a"})).await.problem(429, "topic_full");
    client.reconfigure(&topic, json!({"on_full": "drop_oldest"})).await;
    line(&client, &topic, "a", 2..4).await;
    let (found, _) = payloads(&client, &topic).await;
    assert_eq!(found, [2]);
    counted(&client, &topic, &[("totals", "expired", 2), ("counts", "blocked", 1)]).await;
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_lease_finds_what_its_own_acks_let_go_whatever_else_they_name() {
    let (client, topic) = (client().await, topic("groups"));
    line(&client, &topic, "a", 0..4).await;
    let mut held = client.lease_one(&topic).await;
    let mut stale = text(&held, "lease_token").to_owned();
    for n in 1..4 {
        let (id, right) = (&held["id"], text(&held, "lease_token"));
        let mut forged = right.to_owned();
        forged.replace_range(4..5, if &right[4..5] == "A" { "B" } else { "A" });
        let tokens = match n {
            1 => vec![right],
            2 => vec![&*forged, right],
            _ => vec![&*stale, right, right],
        };
        let acks: Vec<_> =
            tokens.iter().map(|token| json!({"id": id, "lease_token": token})).collect();
        let answer = client.lease(&topic, json!({"acks": acks})).await.expect(200).json();
        let right = right.to_owned();
        assert_eq!(answer["messages"][0]["payload"], n, "{answer}");
        held = answer["messages"][0].clone();
        stale = right;
    }
    client.ack_leased(&held).await.expect(204);
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn who_waits_for_what_its_own_publish_drops_waits_no_more() {
    let (client, topic) = (client().await, topic("groups"));
    client.configure(&topic, json!({"max_messages": 2, "on_full": "drop_oldest"})).await;
    let message = |n: i64| json!({"payload": n, "group": "a"});
    let state = async |n: i64| client.publish(&topic, message(n)).await.expect(201).text("state");
    assert_eq!([state(0).await, state(1).await, state(2).await], ["ready", "blocked", "blocked"]);
    client.reconfigure(&topic, json!({"max_messages": 1})).await;
    assert_eq!(state(3).await, "ready");
    let batch = client.publish_batch(&topic, &[message(4), message(5)]).await.expect(200).json();
    let states = [0, 1].map(|at| batch["results"][at]["message"]["state"].clone());
    assert_eq!(states, ["ready", "ready"]);
    assert_eq!(payloads(&client, &topic).await.0, [5]);
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn group_concurrency_says_how_many_and_can_be_changed() {
    let (client, topic) = (client().await, topic("groups"));
    client.configure(&topic, json!({"group_concurrency": 2})).await;
    line(&client, &topic, "a", 0..9).await;
    let (found, mut held) = payloads(&client, &topic).await;
    assert_eq!(found, [0, 1]);
    // None goes back where fewer may be out.
    client.reconfigure(&topic, json!({"group_concurrency": 1})).await;
    client.ack_leased(&held.remove(0)).await.expect(204);
    assert_eq!(payloads(&client, &topic).await.0, [0_i64; 0]);
    client.ack_leased(&held.remove(0)).await.expect(204);
    let (found, mut held) = payloads(&client, &topic).await;
    assert_eq!(found, [2]);
    // More go by a sweep, though nobody acks.
    client.reconfigure(&topic, json!({"group_concurrency": 4})).await;
    counted(&client, &topic, &[("counts", "ready", 3), ("counts", "blocked", 3)]).await;
    let seen = group(&client, &topic, "a").await;
    assert_eq!((&seen["leased"], &seen["blocked"]), (&json!(1), &json!(3)));
    assert!(seen.get("next_at").is_some(), "{seen}");
    let (found, more) = payloads(&client, &topic).await;
    assert_eq!(found, [3, 4, 5]);
    held.extend(more);
    let (ids, tokens) = (held.iter().map(|m| &m["id"]), held.iter().map(|m| &m["lease_token"]));
    let acks: Vec<_> =
        ids.zip(tokens).map(|(id, token)| json!({"id": id, "lease_token": token})).collect();
    client.held_batch("ack", &acks).await;
    assert_eq!(payloads(&client, &topic).await.0, [6, 7, 8]);
    let config = client.topic(&topic).await.json()["config"].clone();
    assert_eq!((&config["group_concurrency"], &config["group_burst"]), (&json!(4), &json!(1)));
}

#[tokio::test]
async fn a_rate_spreads_the_due_times_of_a_group() {
    let (client, topic) = (client().await, topic("groups"));
    client
        .configure(
            &topic,
            json!({"group_concurrency": 10, "group_rate_per_s": 0.01, "group_burst": 2}),
        )
        .await;
    line(&client, &topic, "a", 0..4).await;
    line(&client, &topic, "b", 10..11).await;
    assert_eq!(payloads(&client, &topic).await.0, [0, 1, 10]);
    let delayed = client.listed(&topic, "state=delayed").await;
    let due = |at: usize| instant_ms(text(&delayed[at], "due_at"));
    assert_eq!(delayed.len(), 2);
    assert!((99_000..=101_000).contains(&(due(1) - due(0))), "{delayed:?}");
    let seen = group(&client, &topic, "a").await;
    assert_eq!(instant_ms(text(&seen, "next_at")), due(0));
}

#[tokio::test]
async fn lower_limits_hold_for_what_waits_and_for_what_comes_back() {
    let (client, topic) = (client().await, topic("groups"));
    client.configure(&topic, json!({"group_concurrency": 4})).await;
    line(&client, &topic, "a", 0..6).await;
    let held = client.leased(&topic, json!({"max_messages": 2})).await;
    counted(&client, &topic, &[("counts", "ready", 2), ("counts", "blocked", 2)]).await;
    client.reconfigure(&topic, json!({"group_concurrency": 1})).await;
    counted(&client, &topic, &[("counts", "ready", 0), ("counts", "blocked", 4)]).await;
    // Two are leased, so the one that comes back first waits behind the other one.
    let back = client.nack_leased(&held[1], json!({"delay_ms": 0})).await.expect(200).json();
    assert_eq!(back["state"], "blocked", "{back}");
    let back = client.nack_leased(&held[0], json!({"delay_ms": 0})).await.expect(200).json();
    assert_eq!(back["state"], "ready", "{back}");
    for wanted in 0..6 {
        let (found, held) = payloads(&client, &topic).await;
        assert_eq!(found, [wanted]);
        client.ack_leased(&held[0]).await.expect(204);
    }
}

#[tokio::test]
async fn another_rate_holds_at_once_for_what_waits() {
    let client = client().await;
    for limits in
        [json!({"group_rate_per_s": null}), json!({"group_rate_per_s": 1000, "group_burst": 3})]
    {
        let topic = topic("groups");
        client.configure(&topic, json!({"group_concurrency": 3, "group_rate_per_s": 0.01})).await;
        line(&client, &topic, "a", 0..5).await;
        let (found, held) = payloads(&client, &topic).await;
        assert_eq!(found, [0]);
        counted(&client, &topic, &[("counts", "delayed", 2), ("counts", "blocked", 2)]).await;
        // One that waits has heard of no message for 99 s.
        let waits = poll(&client, &topic).await;
        client.reconfigure(&topic, limits).await;
        let (first, took) = waits.await.unwrap();
        assert_eq!(first[0]["payload"], 1);
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert_eq!(payloads(&client, &topic).await.0, [2]);
        client.ack_leased(&held[0]).await.expect(204);
        assert_eq!(payloads(&client, &topic).await.0, [3]);
    }
    // A lower one, too: the second has to wait for 100 s now. Its own due time is back once there is no rate.
    let topic = topic("groups");
    let quick = json!({"group_concurrency": 2, "group_rate_per_s": 1});
    client.configure(&topic, quick).await;
    line(&client, &topic, "a", 0..3).await;
    let (_, held) = payloads(&client, &topic).await;
    client.reconfigure(&topic, json!({"group_rate_per_s": 0.01})).await;
    client.ack_leased(&held[0]).await.expect(204);
    assert_eq!(payloads(&client, &topic).await.0, [1], "a new rate begins anew");
    let later = client.listed(&topic, "state=delayed").await;
    let due = instant_ms(text(&later[0], "due_at"));
    assert!(due > instant_ms(text(&later[0], "published_at")) + 90_000, "{later:?}");
    client.reconfigure(&topic, json!({"group_order": "fair", "group_rate_per_s": null})).await;
    assert_eq!(payloads(&client, &topic).await.0, [2]);
}

#[tokio::test]
async fn groups_are_listed_page_by_page() {
    let (client, topic) = (client().await, topic("groups"));
    client.configure(&topic, json!({"partitions": 4})).await;
    for n in 0..10 {
        line(&client, &topic, &format!("g/{n}"), 0..2).await;
    }
    for limit in [1, 3, 10, 100] {
        let (mut names, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/topics/{topic}/groups?limit={limit}{cursor}");
            let page = client.get_path(&path).await.expect(200).json();
            for item in page["items"].as_array().unwrap() {
                assert_eq!((&item["leased"], &item["blocked"]), (&json!(0), &json!(1)));
                names.push(text(item, "group").to_owned());
            }
            let Some(next) = page.get("next_cursor") else { break };
            cursor = format!("&cursor={}", next.as_str().unwrap());
        }
        names.sort();
        let all: Vec<_> = (0..10).map(|n| format!("g/{n}")).collect();
        assert_eq!(names, all, "limit {limit}");
    }
    // A page takes more than one look at a partition.
    let many: Vec<_> = (0..600).map(|n| json!({"payload": 1, "group": format!("h{n}")})).collect();
    let wide = crate::partitions::split(&client, 4, json!({})).await;
    client.fill(&wide, &many).await;
    for limit in [500, 1000] {
        let (mut names, mut cursor) = (std::collections::BTreeSet::new(), String::new());
        loop {
            let path = format!("/topics/{wide}/groups?limit={limit}{cursor}");
            let page = client.get_path(&path).await.expect(200).json();
            let items = page["items"].as_array().unwrap();
            names.extend(items.iter().map(|item| text(item, "group").to_owned()));
            let Some(next) = page.get("next_cursor") else { break };
            cursor = format!("&cursor={}", next.as_str().unwrap());
        }
        assert_eq!(names.len(), 600, "limit {limit}");
    }
    assert_eq!(group(&client, &topic, "g%2F3").await["blocked"], 1);
    assert_eq!(group(&client, &topic, "nobody").await["blocked"], 0);
    counted(&client, &topic, &[("counts", "ready", 10), ("counts", "blocked", 10)]).await;
    // One home for the whole group.
    let firsts = lease_all(&client, &topic).await;
    assert_eq!(firsts.len(), 10);
    for message in &firsts {
        assert_eq!(message["payload"], 0);
        client.ack_leased(message).await.expect(204);
    }
    assert_eq!(lease_all(&client, &topic).await.len(), 10);
    for more in [json!({}), json!({"idempotency_key": "i"})] {
        let mut message = json!({"payload": 1, "group": "a", "key": "k"});
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.publish(&topic, message.clone()).await.problem(422, "invalid_input").field("group");
        let batch = client.publish_batch(&topic, &[json!({"payload": 1}), message]).await;
        batch.problem(422, "invalid_input").field("messages[1].group");
    }
}

#[tokio::test]
async fn a_group_is_any_text_and_stays() {
    let (client, topic) = (client().await, topic("groups"));
    let odd = "é\u{0},\"\n".repeat(51);
    let id = client.published(&topic, json!({"payload": 1, "group": odd})).await;
    assert_eq!(client.get(&id).await.text("group"), odd);
    for bad in [json!("b"), Value::Null] {
        client
            .update(&id, json!({"group": bad}))
            .await
            .problem(422, "invalid_input")
            .field("group");
    }
    for bad in ["x".repeat(256), "%FF".to_owned()] {
        client.get_path(&format!("/topics/{topic}/groups/{bad}")).await.refused(400);
    }
    let missing = unknown_id();
    client.get_path(&format!("/topics/{missing}/groups")).await.problem(404, "topic_not_found");
    client.get_path(&format!("/topics/{missing}/groups/a")).await.problem(404, "topic_not_found");
}
