//! `group_order: fair`: groups take turns, whatever each of them has, and messages of a group wait for nothing but their turn.

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

use crate::facts::{counted, granted_ms, topic_in_balance};
use crate::groups::{line, payloads};
use crate::harness::*;

async fn fair(client: &Client, more: Value) -> String {
    let topic = topic("fair");
    let mut config = json!({"group_order": "fair"});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.configure(&topic, config).await;
    topic
}

/// The groups of messages, "-" for none.
fn groups(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["group"].as_str().unwrap_or("-")).collect()
}

fn count(messages: &[Value], group: &str) -> usize {
    groups(messages).iter().filter(|name| **name == group).count()
}

async fn lease(client: &Client, topic: &str, most: usize) -> Vec<Value> {
    client.leased(topic, json!({"max_messages": most})).await
}

async fn ack(client: &Client, messages: &[Value]) {
    for message in messages {
        client.ack_leased(message).await.expect(204);
    }
}

#[tokio::test]
async fn groups_take_turns_within_a_lease_and_from_one_to_the_next() {
    let client = client().await;
    for partitions in [1, 2] {
        let topic = fair(&client, json!({"partitions": partitions})).await;
        if partitions > 1 {
            // A group is in one partition, so there are turns in each.
            line(&client, &topic, "heavy", 0..200).await;
            line(&client, &topic, "light", 200..201).await;
            let want = json!({"max_messages": 200, "wait_ms": 20_000});
            let got = client.leased(&topic, want).await;
            assert!(count(&got, "light") == 1 && got.len() == 200, "{:?}", groups(&got));
            continue;
        }
        line(&client, &topic, "heavy", 0..200).await;
        line(&client, &topic, "a", 200..203).await;
        line(&client, &topic, "b", 203..205).await;
        client.fill(&topic, &[json!({"payload": 1}), json!({"payload": 2})]).await;
        // Those without a group are one group.
        let got = lease(&client, &topic, 8).await;
        for group in ["heavy", "a", "b", "-"] {
            assert_eq!(count(&got, group), 2, "{:?}", groups(&got));
        }
        // Two consumers, one message each.
        let other = client.clone();
        let (one, two) = (client.lease_one(&topic).await, other.lease_one(&topic).await);
        assert_eq!(count(&[one.clone(), two.clone()], "a"), 1);
        // What no other group wants goes to the one that has work.
        let heavy = lease(&client, &topic, 100).await;
        assert_eq!(count(&heavy, "heavy"), 100);
        // A group that comes by now is next, however many turns the other has had.
        for n in 0..3 {
            client.published(&topic, json!({"payload": n, "group": "late"})).await;
            let next = lease(&client, &topic, 2).await;
            assert_eq!(count(&next, "late"), 1, "{:?}", groups(&next));
            ack(&client, &next).await;
        }
        ack(&client, &[got, vec![one, two], heavy].concat()).await;
        topic_in_balance(&client, &topic).await;
        // A group gets no more than its turns by coming back after each.
        let mut turns = Vec::new();
        for n in 0..6 {
            client.published(&topic, json!({"payload": n, "group": "anew"})).await;
            let next = lease(&client, &topic, 1).await;
            turns.extend(groups(&next).iter().map(|group| (*group).to_owned()));
            ack(&client, &next).await;
        }
        assert!(turns.iter().filter(|group| *group == "heavy").count() >= 2, "{turns:?}");
    }
}

#[tokio::test]
async fn what_nobody_else_wanted_is_not_paid_back() {
    let client = client().await;
    let topic = fair(&client, json!({})).await;
    line(&client, &topic, "heavy", 0..60).await;
    for n in 0..20 {
        line(&client, &topic, &format!("single-{n}"), 60..61).await;
    }
    // Most of it to the one that has more.
    let got = lease(&client, &topic, 50).await;
    assert_eq!(count(&got, "heavy"), 30, "{:?}", groups(&got));
    for group in ["a", "b", "c"] {
        line(&client, &topic, group, 0..3).await;
    }
    let got = lease(&client, &topic, 8).await;
    for group in ["heavy", "a", "b", "c"] {
        assert_eq!(count(&got, group), 2, "{:?}", groups(&got));
    }
    // However many groups have had their only message, one that comes does not wait behind what the other has.
    for n in 0..20 {
        line(&client, &topic, &format!("single-{n}"), 60..61).await;
    }
    lease(&client, &topic, 24).await;
    line(&client, &topic, "late", 0..1).await;
    let got = lease(&client, &topic, 4).await;
    assert_eq!((count(&got, "late"), got.len()), (1, 4), "{:?}", groups(&got));
}

#[tokio::test]
async fn priority_and_due_time_order_the_messages_of_a_group() {
    let client = client().await;
    let topic = fair(&client, json!({})).await;
    let message = |n: i64, priority: i64, delay: i64| json!({"payload": n, "group": "a", "priority": priority, "delay_ms": delay});
    let past = json!({"payload": 9, "group": "a", "deliver_at": "2020-01-01T00:00:00.000Z"});
    let all = [message(1, 0, 0), message(2, 7, 0), message(3, 255, 3_000), message(4, 7, 0), past];
    client.fill(&topic, &all).await;
    assert_eq!(payloads(&client, &topic).await.0, [2, 4, 1, 9]);
    counted(&client, &topic, &[("counts", "delayed", 1), ("counts", "blocked", 0)]).await;
    // Sleeping consumers are woken in time.
    let got = client.leased(&topic, json!({"wait_ms": 10_000})).await;
    assert_eq!(got[0]["payload"], 3);
    let late = granted_ms(&got[0], 30_000) - instant_ms(text(&got[0], "due_at"));
    assert!((0..1_400).contains(&late), "{late} ms late: {got:?}");
    // A better one that comes later is next, and so is one that was made better.
    line(&client, &topic, "a", 10..13).await;
    client.published(&topic, message(20, 5, 0)).await;
    let ids = line(&client, &topic, "a", 13..14).await;
    client.update(&ids[0], json!({"priority": 9})).await.expect(200);
    assert_eq!(payloads(&client, &topic).await.0, [13, 20, 10, 11, 12]);
}

#[tokio::test]
async fn a_failed_message_comes_back_and_holds_up_nobody() {
    let client = client().await;
    let topic = fair(&client, json!({"max_attempts": 3, "lease_ms": 1_000})).await;
    line(&client, &topic, "a", 0..3).await;
    line(&client, &topic, "b", 10..11).await;
    let (_, held) = payloads(&client, &topic).await;
    assert_eq!(held.len(), 4);
    let back = client.nack_leased(&held[0], json!({"delay_ms": 300})).await.expect(200);
    assert_eq!(back.text("state"), "delayed");
    client.nack_leased(&held[1], json!({"delay_ms": 0})).await.expect(200);
    let again = client.lease_one(&topic).await;
    assert_eq!((&again["id"], &again["attempt"]), (&held[1]["id"], &json!(2)));
    client.ack_leased(&again).await.expect(204);
    let later = client.leased(&topic, json!({"wait_ms": 5_000})).await;
    assert_eq!((&later[0]["id"], &later[0]["group"]), (&held[0]["id"], &held[0]["group"]));
    client.ack_leased(&later[0]).await.expect(204);
    // These leases end.
    sleep(Duration::from_millis(1_100)).await;
    let (_, expired) = payloads(&client, &topic).await;
    assert_eq!(expired.len(), 2);
    assert!(expired.iter().all(|message| message["attempt"] == 2), "{expired:?}");
    for message in &expired {
        client.nack_leased(message, json!({"dead": true})).await.expect(200);
    }
    client.redrive_topic(&topic, json!({})).await.expect(200);
    let (_, redriven) = payloads(&client, &topic).await;
    assert_eq!(redriven.len(), 2);
    ack(&client, &redriven).await;
    counted(&client, &topic, &[("totals", "acked", 4), ("counts", "ready", 0)]).await;
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_group_has_no_more_leases_than_its_concurrency_and_others_go_on() {
    let client = client().await;
    let topic = fair(&client, json!({"group_concurrency": 2})).await;
    let config = client.topic(&topic).await.json()["config"].clone();
    assert_eq!((&config["group_order"], &config["group_concurrency"]), (&json!("fair"), &json!(2)));
    line(&client, &topic, "a", 0..9).await;
    line(&client, &topic, "b", 10..11).await;
    let (_, held) = payloads(&client, &topic).await;
    assert_eq!((count(&held, "a"), count(&held, "b")), (2, 1));
    let seen = client.get_path(&format!("/topics/{topic}/groups/a")).await.expect(200).json();
    let shown = ["leased", "waiting", "blocked"].map(|name| number(&seen, name));
    assert_eq!(shown, [2, 7, 0], "{seen}");
    assert!(seen.get("next_at").is_some());
    let mut held = held.into_iter().find(|message| message["group"] == "a").unwrap();
    // Whatever ends a lease lets another go, at once.
    for end in 0..4 {
        let (waits, name) = (client.clone(), topic.clone());
        let begun = Instant::now();
        let poll =
            tokio::spawn(async move { waits.leased(&name, json!({"wait_ms": 10_000})).await });
        sleep(Duration::from_millis(200)).await;
        match end {
            0 => drop(client.ack_leased(&held).await.expect(204)),
            1 => drop(client.nack_leased(&held, json!({"delay_ms": 600_000})).await.expect(200)),
            2 => drop(client.delete_by_force(text(&held, "id")).await.expect(204)),
            _ => drop(client.nack_leased(&held, json!({"dead": true})).await.expect(200)),
        }
        let got = poll.await.unwrap();
        assert_eq!(groups(&got), ["a"], "{end}");
        assert!(begun.elapsed() < Duration::from_secs(4), "{end}");
        held = got[0].clone();
    }
    // Raised or taken away, it is in force with the answer.
    client.reconfigure(&topic, json!({"group_concurrency": 3})).await;
    assert_eq!(payloads(&client, &topic).await.0.len(), 1);
    let config = client.reconfigure(&topic, json!({"group_concurrency": null})).await;
    assert!(config["config"].get("group_concurrency").is_none(), "{config}");
    assert_eq!(payloads(&client, &topic).await.0.len(), 2);
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_rate_holds_for_each_group_and_not_for_retries() {
    let client = client().await;
    let topic = fair(&client, json!({"group_rate_per_s": 1, "group_burst": 2})).await;
    line(&client, &topic, "a", 0..4).await;
    line(&client, &topic, "b", 10..11).await;
    let begun = Instant::now();
    let (found, held) = payloads(&client, &topic).await;
    assert_eq!((count(&held, "a"), found.len()), (2, 3));
    client.nack_leased(&held[0], json!({"delay_ms": 0})).await.expect(200);
    let mut took = Vec::new();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let got = client.leased(&topic, json!({"wait_ms": 10_000})).await;
        took.push(begun.elapsed());
        seen.extend(got);
    }
    // The one that failed needs no turn, but waits with those of its group that do.
    assert!(seen.iter().any(|message| message["attempt"] == 2), "{seen:?}");
    assert!(took[2] >= Duration::from_millis(1_990), "{took:?}");
    assert!(took[2] < Duration::from_secs(8), "{took:?}");
    let first = granted_ms(&held[0], 30_000);
    for n in 1..=2 {
        client.published(&topic, json!({"payload": n, "group": "a"})).await;
    }
    // None of them before its turn, which comes soon on a busy machine.
    let (found, held) = payloads(&client, &topic).await;
    for (n, message) in (3..).zip(&held) {
        let after = granted_ms(message, 30_000) - first;
        assert!(after >= n * 1_000 - 10, "{after} ms after the first ones: {message}");
    }
    // Without a rate they go at once.
    client.reconfigure(&topic, json!({"group_rate_per_s": null})).await;
    assert_eq!([found, payloads(&client, &topic).await.0].concat(), [1, 2]);
}

#[tokio::test]
async fn what_was_blocked_at_a_rate_lives_as_long_as_it_says_once_the_order_is_fair() {
    let client = client().await;
    let topic = topic("fair");
    client.configure(&topic, json!({"group_rate_per_s": 0.01})).await;
    line(&client, &topic, "a", 0..1).await;
    let last = json!({"payload": 1, "group": "a", "ttl_ms": 500});
    let id = client.published(&topic, last).await;
    assert_eq!(client.get(&id).await.json()["state"], "blocked");
    client.reconfigure(&topic, json!({"group_order": "fair"})).await;
    // The lease that looks at its group grants the other one.
    assert_eq!(payloads(&client, &topic).await.0, [0]);
    eventually("the end of its TTL", || async {
        (client.get(&id).await.status == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_order_changes_over_a_backlog() {
    let client = client().await;
    for partitions in [1, 2] {
        let topic = topic("fair");
        client.configure(&topic, json!({"partitions": partitions})).await;
        for group in ["a", "b"] {
            line(&client, &topic, group, 0..150).await;
        }
        let (found, held) = payloads(&client, &topic).await;
        assert_eq!(found, [0, 0]);
        counted(&client, &topic, &[("counts", "blocked", 298)]).await;
        // What was blocked is free with the answer; what is held stays so.
        client.reconfigure(&topic, json!({"group_order": "fair"})).await;
        counted(&client, &topic, &[("counts", "blocked", 0), ("counts", "ready", 298)]).await;
        let got = lease(&client, &topic, 20).await;
        assert_eq!(got.len(), 20);
        if partitions == 1 {
            assert_eq!(count(&got, "a"), 10, "{:?}", groups(&got));
        }
        client.fill(&topic, &vec![json!({"payload": 500, "group": "a", "priority": 9}); 3]).await;
        client.nack_leased(&got[0], json!({"delay_ms": 0})).await.expect(200);
        // Back to the order of publishing: no more of a group than are held already.
        client.reconfigure(&topic, json!({"group_order": "strict"})).await;
        counted(&client, &topic, &[("counts", "ready", 0), ("counts", "blocked", 282)]).await;
        client.published(&topic, json!({"payload": 600, "group": "a"})).await;
        ack(&client, &held).await;
        ack(&client, &got[1..]).await;
        let mut last = std::collections::HashMap::new();
        let mut seen = 0;
        loop {
            let next = lease(&client, &topic, 10).await;
            if next.is_empty() {
                break;
            }
            let mut both: Vec<_> = groups(&next).into_iter().map(str::to_owned).collect();
            both.sort();
            both.dedup();
            assert_eq!(both.len(), next.len(), "one of a group at a time");
            for message in &next {
                let payload = number(message, "payload");
                let before = last.insert(text(message, "group").to_owned(), payload);
                assert!(before.is_none_or(|before| before <= payload), "{before:?} {payload}");
                seen += 1;
            }
            ack(&client, &next).await;
        }
        assert_eq!(seen, 283);
        topic_in_balance(&client, &topic).await;
    }
}

#[tokio::test]
async fn what_is_changed_removed_or_listed_is_so_in_its_group() {
    let client = client().await;
    let topic = fair(&client, json!({})).await;
    let keyed = |n: i64, more: Value| {
        let mut message = json!({"payload": n, "group": "a", "key": format!("k{n}")});
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        message
    };
    for n in 0..6 {
        client.published(&topic, keyed(n, json!({}))).await;
    }
    client.published(&topic, keyed(6, json!({"ttl_ms": 300}))).await;
    client.published(&topic, keyed(7, json!({"delay_ms": 60_000}))).await;
    assert_eq!(client.listed(&topic, "state=ready&limit=2").await.len(), 7);
    assert_eq!(client.listed(&topic, "state=delayed").await.len(), 1);
    assert_eq!(client.listed(&topic, "state=blocked").await.len(), 0);
    let forecast = client.forecast(&topic, 120_000, 1).await.expect(200).json();
    assert_eq!(forecast["buckets"][0]["count"], 1);
    let last = client.update_by_key(&topic, "k0", json!({"delay_ms": 60_000})).await.expect(200);
    assert_eq!(last.text("state"), "delayed");
    client.update_by_key(&topic, "k5", json!({"priority": 9})).await.expect(200);
    let replace = json!({"on_duplicate": "replace", "payload": 44, "priority": 8});
    let replaced = client.publish(&topic, keyed(4, replace)).await.expect(200);
    assert_eq!(replaced.text("state"), "ready");
    client.delete_by_key(&topic, "k1", "").await.expect(204);
    let run = client.post(&format!("/topics/{topic}/run"), &json!({"q": "key:k7"})).await;
    assert_eq!(run.expect(200).number("run"), 1);
    sleep(Duration::from_millis(400)).await;
    let (found, held) = payloads(&client, &topic).await;
    assert_eq!(found, [5, 44, 2, 3, 7]);
    ack(&client, &held).await;
    let last = client.update_by_key(&topic, "k0", json!({"deliver_at": "2020-01-01T00:00:00Z"}));
    assert_eq!(last.await.expect(200).text("state"), "ready");
    let purged = client.purge(&topic, &["delayed", "blocked"]).await.expect(200);
    assert_eq!(purged.number("purged"), 0);
    let purged = client.purge(&topic, &["ready"]).await.expect(200);
    assert_eq!((purged.number("purged"), purged.number("remaining")), (1, 0));
    topic_in_balance(&client, &topic).await;
    // A full topic drops what is due earliest, whatever its group.
    client.reconfigure(&topic, json!({"max_messages": 2, "on_full": "drop_oldest"})).await;
    line(&client, &topic, "b", 0..4).await;
    let (found, held) = payloads(&client, &topic).await;
    assert_eq!(found, [2, 3]);
    ack(&client, &held).await;
    client.published(&topic, json!({"payload": 1, "group": "c"})).await;
    client.delete_topic(&topic, "").await.problem(409, "topic_not_empty");
    client.delete_topic(&topic, "?force=true").await.expect(204);
}

#[tokio::test]
async fn a_wave_of_one_group_holds_up_no_other() {
    const WAVE: usize = 5_000;
    // A busy machine takes long to publish so many.
    const AHEAD_MS: i64 = 15_000;
    let client = client().await;
    let topic = fair(&client, json!({})).await;
    let begun = Instant::now();
    let at =
        instant_ms(&client.publish(&topic, json!({"payload": 0})).await.text("due_at")) + AHEAD_MS;
    let due =
        |group: &str, at: i64| json!({"payload": 1, "group": group, "deliver_at": instant(at)});
    client.fill(&topic, &vec![due("wave", at); WAVE]).await;
    let others: Vec<_> = (0..20).map(|n| due(&format!("g{n}"), at + 1)).collect();
    client.fill(&topic, &others).await;
    client.lease_one(&topic).await;
    assert_eq!(lease(&client, &topic, 1).await.len(), 0, "the wave is still to come");
    sleep(Duration::from_millis(AHEAD_MS as u64 + 200).saturating_sub(begun.elapsed())).await;
    // All of them, and as many of the wave, though its messages were due before.
    let got = lease(&client, &topic, 42).await;
    assert!(got.iter().filter(|message| message["group"] != "wave").count() == 20, "{got:?}");
}

#[tokio::test]
async fn the_order_of_groups_is_one_of_two_words() {
    let client = client().await;
    let topic = topic("fair");
    for bad in [json!("Fair"), json!("lifo"), json!(1), json!(true), json!(["fair"]), json!({})] {
        let put = client.put_topic(&topic, json!({"group_order": bad})).await;
        put.problem(422, "invalid_input").field("group_order");
    }
    client.topic(&topic).await.problem(404, "topic_not_found");
    let seen = client.configure(&topic, json!({"group_order": "fair"})).await;
    assert_eq!(seen["config"]["group_order"], "fair");
    let seen = client.reconfigure(&topic, json!({"group_order": null})).await;
    let config = &seen["config"];
    assert_eq!(
        (&config["group_order"], &config["group_concurrency"]),
        (&json!("strict"), &json!(1))
    );
}
