//! `group_rate_per_s`: a turn is taken by a grant and by nothing else, and the rate holds whatever leaves.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::facts::topic_in_balance;
use crate::groups::line;
use crate::harness::*;

/// Leases for so long whatever there is: the payloads, and when each was granted or, which is as far from one to the next, when
/// its lease ends (ms).
async fn granted(client: &Client, topic: &str, ms: u64) -> Vec<(i64, i64)> {
    let (begun, mut got) = (Instant::now(), Vec::new());
    while begun.elapsed() < Duration::from_millis(ms) {
        for message in client.leased(topic, json!({"max_messages": 10, "wait_ms": 50})).await {
            got.push((number(&message, "payload"), instant_ms(text(&message, "lease_expires_at"))));
        }
    }
    got
}

/// These came in this order, no more of them in a time than the rate and a burst allow, and none was waited for in vain.
fn at_rate(got: &[(i64, i64)], first: i64, interval: i64, burst: usize, ms: i64) {
    let payloads: Vec<_> = got.iter().map(|(payload, _)| *payload).collect();
    let wanted: Vec<_> = (first..).take(got.len()).collect();
    assert_eq!(payloads, wanted, "{got:?}");
    for (n, (_, at)) in got.iter().enumerate().skip(burst) {
        let since = at - got[n - burst].1;
        // One that is granted late makes the next no later.
        assert!(since * 4 >= interval, "{since} ms after the one before: {got:?}");
    }
    // A loaded machine may be late.
    assert!(got.len() as i64 + 3 >= ms / interval, "{got:?}");
}

#[tokio::test]
async fn heads_that_leave_before_their_turn_take_none() {
    let client = client().await;
    for burst in [1, 3] {
        for way in ["delete", "batch", "purge"] {
            let topic = topic("rates");
            let config =
                json!({"group_concurrency": 20, "group_rate_per_s": 5, "group_burst": burst});
            client.configure(&topic, config).await;
            let ids = line(&client, &topic, "a", 0..40).await;
            match way {
                "delete" => {
                    for id in &ids[..20] {
                        client.delete(id).await.expect(204);
                    }
                }
                "batch" => {
                    client.post("/messages/delete", &json!({"ids": ids[..20]})).await.expect(200);
                }
                _ => {
                    client.purge(&topic, &["delayed", "ready"]).await.expect(200);
                    line(&client, &topic, "a", 20..40).await;
                }
            }
            let got = granted(&client, &topic, 1500).await;
            at_rate(&got, 20, 200, burst, 1500);
            topic_in_balance(&client, &topic).await;
        }
    }
}

#[tokio::test]
async fn the_rest_moves_up_where_some_leave_or_are_put_off() {
    let client = client().await;
    for way in ["first", "middle", "later", "held"] {
        let topic = topic("rates");
        client.configure(&topic, json!({"group_concurrency": 20, "group_rate_per_s": 5})).await;
        let ids = line(&client, &topic, "a", 0..30).await;
        let mut wanted: Vec<i64> = (0..30).collect();
        match way {
            "first" | "middle" => {
                let gone = if way == "first" { 0..10 } else { 1..11 };
                for id in &ids[gone.clone()] {
                    client.delete(id).await.expect(204);
                }
                wanted.drain(gone);
            }
            "later" => {
                for id in &ids[..10] {
                    client.update(id, json!({"delay_ms": 3_600_000})).await.expect(200);
                }
                wanted.drain(..10);
            }
            // Their turns were taken.
            _ => {
                let held = client.leased(&topic, json!({})).await;
                client.delete_by_force(text(&held[0], "id")).await.expect(204);
                wanted.remove(0);
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
        }
        let got = granted(&client, &topic, 1200).await;
        let payloads: Vec<_> = got.iter().map(|(payload, _)| *payload).collect();
        assert_eq!(payloads[..], wanted[..payloads.len()], "{way}: {got:?}");
        assert!((2..=8).contains(&got.len()), "{way}: {got:?}");
        topic_in_balance(&client, &topic).await;
    }
}

#[tokio::test]
async fn the_rate_holds_for_consumers_that_come_late_and_for_what_is_made_due() {
    let client = client().await;
    for way in ["late", "run", "update", "new"] {
        let topic = topic("rates");
        let rate = json!({"group_concurrency": 20, "group_rate_per_s": 2});
        let first = if way == "new" { json!({"group_concurrency": 20}) } else { rate.clone() };
        client.configure(&topic, first).await;
        let ids = line(&client, &topic, "a", 0..10).await;
        match way {
            "late" => tokio::time::sleep(Duration::from_millis(2500)).await,
            "run" => {
                client.post("/messages/run", &json!({"ids": ids})).await.expect(200);
            }
            "update" => {
                for id in &ids {
                    client.update(id, json!({"delay_ms": 0})).await.expect(200);
                }
            }
            _ => {
                client.update_topic(&topic, rate).await.expect(200);
            }
        }
        let got = granted(&client, &topic, 1200).await;
        assert!((2..=3).contains(&got.len()), "{way}: {got:?}");
        topic_in_balance(&client, &topic).await;
    }
}

#[tokio::test]
async fn a_ttl_counts_from_when_the_rate_lets_a_message_go_blocked_or_not() {
    mostly_waits();
    let client = client().await;
    for (concurrency, own) in [(1, true), (1, false), (6, true), (6, false)] {
        let topic = topic("rates");
        let mut config = json!({"group_concurrency": concurrency, "group_rate_per_s": 4});
        if !own {
            config["ttl_ms"] = json!(1000);
        }
        client.configure(&topic, config).await;
        for n in 0..6 {
            let mut message = json!({"payload": n, "group": "a"});
            if own {
                message["ttl_ms"] = json!(1000);
            }
            let id = client.published(&topic, message).await;
            let seen = client.get(&id).await.json();
            assert_eq!(seen.get("expires_at").is_some(), seen["state"] != "blocked", "{seen}");
        }
        let mut got: Vec<Value> = Vec::new();
        let until = Instant::now() + Duration::from_secs(5);
        while got.len() < 6 && Instant::now() < until {
            for message in client.leased(&topic, json!({"wait_ms": 300})).await {
                client.ack_leased(&message).await.expect(204);
                got.push(message["payload"].clone());
            }
        }
        assert_eq!(json!(got), json!([0, 1, 2, 3, 4, 5]), "{concurrency} {own}");
        // One whose turn has come has a TTL as any other.
        let last = json!({"payload": 9, "group": "b", "ttl_ms": 1});
        let id = client.published(&topic, last).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        client.get(&id).await.problem(404, "message_not_found");
        topic_in_balance(&client, &topic).await;
    }
}

#[tokio::test]
async fn more_of_many_groups_go_at_once_where_group_concurrency_is_raised() {
    let client = client().await;
    for partitions in [1, 4] {
        let topic = crate::partitions::split(&client, partitions, json!({})).await;
        for from in (0..4000).step_by(1000) {
            let message = |n: i64| json!({"payload": n, "group": format!("g{}", n / 2)});
            client.fill(&topic, &(from..from + 1000).map(message).collect::<Vec<_>>()).await;
        }
        client.update_topic(&topic, json!({"group_concurrency": 2})).await.expect(200);
        let counts = client.topic(&topic).await.json()["counts"].clone();
        assert_eq!(
            (&counts["ready"], &counts["blocked"]),
            (&json!(4000), &json!(0)),
            "{partitions}"
        );
    }
}

#[tokio::test]
async fn no_grant_is_said_to_be_before_the_message_was_due() {
    let client = client().await;
    let topic = topic("rates");
    client.new_topic(&topic, json!({"lease_ms": 60_000})).await;
    let id = client.published(&topic, json!({"payload": 1, "delay_ms": 1500})).await;
    let due = instant_ms(&client.get(&id).await.text("due_at"));
    client.leased(&topic, json!({"lease_ms": 1000, "wait_ms": 10_000})).await;
    for state in ["leased", "ready"] {
        let seen = eventually("its state", || async {
            let seen = client.get(&id).await.json();
            (seen["state"] == state).then_some(seen)
        })
        .await;
        let events = seen["events"].as_array().unwrap();
        let granted = events.iter().find(|event| event["kind"] == "granted").unwrap();
        assert!(instant_ms(text(granted, "at")) >= due, "{state}: {granted}");
    }
    // Nor where the topic's leases are longer by now.
    let next = client.published(&topic, json!({"payload": 2, "delay_ms": 1500})).await;
    let due = instant_ms(&client.get(&next).await.text("due_at"));
    client.update_topic(&topic, json!({"lease_ms": 20_000})).await.expect(200);
    client.leased(&topic, json!({"max_messages": 2, "wait_ms": 10_000})).await;
    client.leased(&topic, json!({"wait_ms": 10_000})).await;
    client.update_topic(&topic, json!({"lease_ms": 43_200_000})).await.expect(200);
    let seen = client.get(&next).await.json();
    let events = seen["events"].as_array().unwrap();
    let granted = events.iter().find(|event| event["kind"] == "granted").unwrap();
    assert!(instant_ms(text(granted, "at")) >= due, "{granted}");
}

#[tokio::test]
async fn a_message_that_was_blocked_behind_a_long_lease_has_its_whole_ttl_once_it_is_let_go() {
    mostly_waits();
    let client = client().await;
    for own in [true, false] {
        let topic = topic("rates");
        let mut config = json!({"group_rate_per_s": 100});
        if !own {
            config["ttl_ms"] = json!(3000);
        }
        client.configure(&topic, config).await;
        let mut id = String::new();
        for n in 0..2 {
            let mut message = json!({"payload": n, "group": "a"});
            if own {
                message["ttl_ms"] = json!(3000);
            }
            id = client.published(&topic, message).await;
        }
        let head = client.lease_one(&topic).await;
        tokio::time::sleep(Duration::from_millis(3200)).await;
        client.ack_leased(&head).await.expect(204);
        let acked = redis_now(&client, &topic).await;
        let next = client.get(&id).await.json();
        let (due, over) =
            (instant_ms(text(&next, "due_at")), instant_ms(text(&next, "expires_at")));
        // Its turn had passed, so it keeps its due time.
        assert!(due < acked - 3000, "{own}: {next}");
        assert!((acked + 2000..=acked + 3000).contains(&over), "{own}: {next}");
        // What a grant and a failure leave of that.
        let got = client.lease_one(&topic).await;
        client.nack_leased(&got, json!({"delay_ms": 100})).await.expect(200);
        let again = client.get(&id).await;
        assert_eq!(again.text("expires_at"), text(&next, "expires_at"), "{own}");
        topic_in_balance(&client, &topic).await;
    }
}

/// Redis's time, by a message that is due now.
async fn redis_now(client: &Client, topic: &str) -> i64 {
    let id = client.published(topic, json!({"payload": "now", "priority": 255})).await;
    let due = instant_ms(&client.get(&id).await.text("due_at"));
    client.delete(&id).await.expect(204);
    due
}

#[tokio::test]
async fn a_group_of_many_waiting_heads_keeps_its_rate_when_most_of_them_leave() {
    let client = client().await;
    for way in ["batch", "purge", "late"] {
        let topic = topic("rates");
        let rate = json!({"group_concurrency": 500, "group_rate_per_s": 100});
        client.configure(&topic, rate).await;
        let ids = line(&client, &topic, "a", 0..500).await;
        match way {
            "batch" => {
                client.post("/messages/delete", &json!({"ids": ids[..250]})).await.expect(200);
            }
            "purge" => {
                client.purge(&topic, &["delayed", "ready"]).await.expect(200);
                line(&client, &topic, "a", 250..500).await;
            }
            // All planned turns are over when the first consumer comes.
            _ => tokio::time::sleep(Duration::from_millis(5200)).await,
        }
        let mut got = granted(&client, &topic, 2000).await;
        assert!((30..=210).contains(&got.len()), "{way}: {}", got.len());
        got.sort_unstable();
        let payloads: Vec<_> = got.iter().map(|(payload, _)| *payload).collect();
        if way != "late" {
            let wanted: Vec<i64> = (250..).take(got.len()).collect();
            assert_eq!(payloads, wanted, "{way}");
        }
        topic_in_balance(&client, &topic).await;
    }
}

#[tokio::test]
async fn many_messages_whose_turns_have_not_come_hold_up_no_others() {
    let client = client().await;
    let topic = topic("rates");
    client.configure(&topic, json!({"group_concurrency": 600})).await;
    for group in ["a", "b"] {
        line(&client, &topic, group, 0..600).await;
    }
    client.update_topic(&topic, json!({"group_rate_per_s": 0.1})).await.expect(200);
    client.published(&topic, json!({"payload": -1})).await;
    let got = granted(&client, &topic, 2000).await;
    let mut payloads: Vec<_> = got.iter().map(|(payload, _)| *payload).collect();
    payloads.sort_unstable();
    assert_eq!(payloads, [-1, 0, 0], "{got:?}");
    // The next turn is after ten seconds; a loaded machine takes half of one for three leases.
    assert!(got[2].1 - got[0].1 < 1500, "{got:?}");
    topic_in_balance(&client, &topic).await;
}
