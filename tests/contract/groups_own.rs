//! Settings of one group: what it may have in place of what its topic says, in force at once and for what waits, in strict and in fair
//! topics.

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::time::sleep;

use crate::facts::{counted, topic_in_balance, unprocessable};
use crate::groups::{line, payloads, poll};
use crate::harness::*;

const ORDERS: [&str; 2] = ["strict", "fair"];

async fn ordered(client: &Client, order: &str, more: Value) -> String {
    let topic = topic("own");
    let mut config = json!({"group_order": order});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.configure(&topic, config).await;
    topic
}

async fn ack_all(client: &Client, messages: &[Value]) {
    for message in messages {
        client.ack_leased(message).await.expect(204);
    }
}

/// How many of these messages are of the group.
fn count(messages: &[Value], group: &str) -> usize {
    messages.iter().filter(|message| message["group"] == group).count()
}

/// Whether a message came long before a poll would have ended.
fn in_time((got, took): &(Vec<Value>, Duration)) -> bool {
    got.len() == 1 && *took < Duration::from_secs(10)
}

async fn all_groups(client: &Client, topic: &str, limit: usize) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/topics/{topic}/groups?limit={limit}{cursor}");
        let page = client.get_path(&path).await.expect(200).json();
        let found = page["items"].as_array().unwrap();
        assert!(found.len() <= limit);
        items.extend(found.iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

#[tokio::test]
async fn a_group_shows_its_own_settings_until_they_are_reset() {
    let client = client().await;
    let topic = ordered(&client, "fair", json!({})).await;
    let own =
        json!({"paused": true, "concurrency": 2, "rate_per_s": 0.3, "burst": 4, "weight": 100});
    let seen = client.put_group(&topic, "a%2Fb,%00", own.clone()).await.expect(200).json();
    assert_eq!(seen, client.group(&topic, "a%2Fb,%00").await);
    assert_eq!(seen["group"], "a/b,\0");
    for (name, value) in own.as_object().unwrap() {
        assert_eq!(&seen[name], value, "{name}");
    }
    // `paused` stays, the limits are the topic's again.
    let seen = client.put_group(&topic, "a%2Fb,%00", json!({"weight": 7, "burst": null})).await;
    let seen = seen.expect(200).json();
    assert_eq!((&seen["paused"], &seen["weight"]), (&json!(true), &json!(7)));
    assert!(
        ["concurrency", "rate_per_s", "burst"].iter().all(|it| seen.get(it).is_none()),
        "{seen}"
    );
    let seen = client.pause_group(&topic, "a%2Fb,%00", false).await.expect(200).json();
    assert_eq!((&seen["paused"], &seen["weight"]), (&json!(false), &json!(7)));
    assert_eq!(all_groups(&client, &topic, 10).await, [seen]);
    client.delete_group(&topic, "a%2Fb,%00").await.expect(204);
    assert!(all_groups(&client, &topic, 10).await.is_empty());
    // Nothing is there that could be taken away, and that is no error.
    client.delete_group(&topic, "other").await.expect(204);
    let seen = client.pause_group(&topic, "other", false).await.expect(200).json();
    assert_eq!((&seen["paused"], &seen["leased"]), (&json!(false), &json!(0)));
    assert!(seen.get("weight").is_none());
}

#[tokio::test]
async fn settings_that_no_group_can_have_are_refused_by_name() {
    let client = client().await;
    let topic = ordered(&client, "fair", json!({})).await;
    for (field, values) in [
        ("paused", vec![json!(1), json!("true"), json!([])]),
        ("concurrency", vec![json!(0), json!(1001), json!(1.5), json!("2"), json!(-1)]),
        ("rate_per_s", vec![json!(0), json!(0.009), json!(100_001), json!("2")]),
        ("burst", vec![json!(0), json!(1001), json!(true)]),
        ("weight", vec![json!(0), json!(101), json!(2.5), json!({})]),
        ("wait", vec![json!(1)]),
    ] {
        for value in values {
            unprocessable(client.put_group(&topic, "g", json!({field: value})).await, field);
        }
    }
    assert!(all_groups(&client, &topic, 10).await.is_empty());
    client.put_group(&topic, &"x".repeat(256), json!({})).await.problem(400, "invalid_key");
    client.put_group(&topic, "%FF", json!({})).await.problem(400, "malformed_path");
    let strict = ordered(&client, "strict", json!({})).await;
    unprocessable(client.put_group(&strict, "g", json!({"weight": 2})).await, "weight");
    let absent = crate::harness::topic("own");
    client.put_group(&absent, "g", json!({"paused": true})).await.problem(404, "topic_not_found");
    client.pause_group(&absent, "g", true).await.problem(404, "topic_not_found");
    client.delete_group(&absent, "g").await.problem(404, "topic_not_found");
    client.topic(&absent).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn nothing_of_a_paused_group_is_leased_however_it_comes_there() {
    mostly_waits();
    let client = client().await;
    for order in ORDERS {
        let more = json!({"group_concurrency": 4, "lease_ms": 2_500, "max_attempts": 3});
        let topic = ordered(&client, order, more).await;
        let a = line(&client, &topic, "a", 0..4).await;
        line(&client, &topic, "b", 10..11).await;
        let held = client.leased(&topic, json!({"max_messages": 2, "lease_ms": 20_000})).await;
        let expiring = payloads(&client, &topic).await.1;
        let seen = client.pause_group(&topic, "a", true).await.expect(200).json();
        assert_eq!(seen["paused"], true, "{seen}");
        assert!(seen.get("next_at").is_none(), "{seen}");
        // By a nack, by the end of a lease, by a publish, by a change, by a run, by a redrive.
        let mine: Vec<_> = held.iter().chain(&expiring).filter(|it| it["group"] == "a").collect();
        assert_eq!(mine.len(), 4, "{order}");
        client.nack_leased(mine[0], json!({"delay_ms": 0})).await.expect(200);
        client.nack_leased(mine[1], json!({"dead": true})).await.expect(200);
        client.redrive_topic(&topic, json!({})).await.expect(200);
        line(&client, &topic, "a", 4..6).await;
        let key = json!({"payload": 6, "group": "a", "key": topic, "delay_ms": 3_600_000});
        let later = client.published(&topic, key).await;
        client.update(&later, json!({"delay_ms": 0, "priority": 9})).await.expect(200);
        client.post("/messages/run", &json!({"ids": a})).await.expect(200);
        sleep(Duration::from_millis(2_700)).await;
        let waits = poll(&client, &topic).await;
        let got = payloads(&client, &topic).await.1;
        assert_eq!(count(&got, "a"), 0, "{order}: {got:?}");
        let seen = topic_in_balance(&client, &topic).await;
        let free = number(&seen["counts"], if order == "fair" { "ready" } else { "blocked" });
        assert_eq!(free, 7, "{order}: {seen}");
        // What is resumed wakes whoever waits, and comes in its order.
        client.pause_group(&topic, "a", false).await.expect(200);
        let first = waits.await.unwrap();
        let first = match first.0[0]["group"] == "a" {
            true => first,
            // The other group's message was there again before.
            false => poll(&client, &topic).await.await.unwrap(),
        };
        assert!(in_time(&first), "{order}: {first:?}");
        let concurrent = payloads(&client, &topic).await.1;
        let most = if order == "fair" { 4 } else { 3 };
        assert!(count(&concurrent, "a") <= most, "{order}: {concurrent:?}");
        let mut done = first.0.iter().filter(|it| it["group"] == "a").count();
        ack_all(&client, &first.0).await;
        let mut batch = concurrent;
        while !batch.is_empty() {
            done += count(&batch, "a");
            ack_all(&client, &batch).await;
            batch = payloads(&client, &topic).await.1;
        }
        assert_eq!(done, 7, "{order}");
        topic_in_balance(&client, &topic).await;
    }
}

#[tokio::test]
async fn a_paused_group_in_strict_order_goes_on_where_it_was() {
    let client = client().await;
    let topic = ordered(&client, "strict", json!({})).await;
    line(&client, &topic, "a", 0..4).await;
    for paused_while in ["waiting", "leased"] {
        let held = match paused_while {
            "leased" => client.leased(&topic, json!({})).await,
            _ => Vec::new(),
        };
        client.put_group(&topic, "a", json!({"paused": true})).await.expect(200);
        for message in &held {
            client.nack_leased(message, json!({"delay_ms": 0})).await.expect(200);
        }
        assert!(payloads(&client, &topic).await.0.is_empty(), "{paused_while}");
        let seen = client.group(&topic, "a").await;
        assert_eq!((&seen["leased"], &seen["blocked"]), (&json!(0), &json!(4)), "{seen}");
        assert_eq!(all_groups(&client, &topic, 10).await, [seen]);
        counted(&client, &topic, &[("counts", "blocked", 4), ("counts", "ready", 0)]).await;
        client.delete_group(&topic, "a").await.expect(204);
        counted(&client, &topic, &[("counts", "blocked", 3), ("counts", "ready", 1)]).await;
    }
    for n in 0..4 {
        let (got, held) = payloads(&client, &topic).await;
        assert_eq!(got, [n]);
        ack_all(&client, &held).await;
    }
    // Of one that is paused before its first message, too.
    client.pause_group(&topic, "new", true).await.expect(200);
    line(&client, &topic, "new", 0..2).await;
    assert!(payloads(&client, &topic).await.0.is_empty());
    client.pause_group(&topic, "new", false).await.expect(200);
    assert_eq!(payloads(&client, &topic).await.0, [0]);
}

#[tokio::test]
async fn a_pause_costs_no_turns() {
    let client = client().await;
    let topic =
        ordered(&client, "strict", json!({"group_rate_per_s": 0.01, "group_concurrency": 3})).await;
    line(&client, &topic, "a", 0..3).await;
    for _ in 0..2 {
        client.pause_group(&topic, "a", true).await.expect(200);
        client.pause_group(&topic, "a", false).await.expect(200);
    }
    client.put_group(&topic, "a", json!({"concurrency": 1})).await.expect(200);
    let (got, held) = payloads(&client, &topic).await;
    assert_eq!(got, [0]);
    ack_all(&client, &held).await;
    client.put_group(&topic, "a", json!({"concurrency": 2})).await.expect(200);
    let later = client.listed(&topic, "state=delayed").await;
    let due = |at: usize| instant_ms(text(&later[at], "due_at"));
    let after = due(0) - instant_ms(text(&later[0], "published_at"));
    assert!((90_000..110_000).contains(&after), "{later:?}");
    assert_eq!(due(1) - due(0), 100_000, "{later:?}");
}

#[tokio::test]
async fn a_concurrency_of_its_own_holds_at_once_for_what_waits() {
    let client = client().await;
    for order in ORDERS {
        let topic = ordered(&client, order, json!({"group_concurrency": 2})).await;
        line(&client, &topic, "a", 0..10).await;
        line(&client, &topic, "b", 10..20).await;
        // Raised: with the answer, and for whoever waits.
        client.put_group(&topic, "a", json!({"concurrency": 5})).await.expect(200);
        let got = payloads(&client, &topic).await.1;
        assert_eq!((count(&got, "a"), count(&got, "b")), (5, 2), "{order}");
        let waits = poll(&client, &topic).await;
        client.put_group(&topic, "a", json!({"concurrency": 6})).await.expect(200);
        let more = waits.await.unwrap();
        assert!(in_time(&more) && more.0[0]["group"] == "a", "{order}: {more:?}");
        // Lowered: what is leased stays, and what comes back waits.
        client.put_group(&topic, "a", json!({"concurrency": 1})).await.expect(200);
        let mine: Vec<_> = got.iter().chain(&more.0).filter(|it| it["group"] == "a").collect();
        for message in &mine[..3] {
            client.nack_leased(message, json!({"delay_ms": 0})).await.expect(200);
        }
        assert!(payloads(&client, &topic).await.1.is_empty(), "{order}");
        for message in &mine[3..] {
            assert!(client.leased(&topic, json!({})).await.is_empty(), "{order}");
            client.ack_leased(message).await.expect(204);
        }
        let got = payloads(&client, &topic).await.1;
        assert_eq!(count(&got, "a"), 1, "{order}: {got:?}");
        ack_all(&client, &got).await;
        // Heads that wait are not leased either.
        client.put_group(&topic, "a", json!({"concurrency": 4})).await.expect(200);
        client.put_group(&topic, "a", json!({"concurrency": 2})).await.expect(200);
        let got = payloads(&client, &topic).await.1;
        assert_eq!(count(&got, "a"), 2, "{order}: {got:?}");
        ack_all(&client, &got).await;
        // The topic's again, however that changes.
        client.delete_group(&topic, "a").await.expect(204);
        client.reconfigure(&topic, json!({"group_concurrency": 3})).await;
        let got = payloads(&client, &topic).await.1;
        assert_eq!(count(&got, "a"), 3, "{order}: {got:?}");
        topic_in_balance(&client, &topic).await;
    }
}

/// What is leased within this time, a message at a time.
async fn within(client: &Client, topic: &str, ms: u64) -> Vec<Value> {
    let (mut got, end) = (Vec::new(), Instant::now() + Duration::from_millis(ms));
    while Instant::now() < end {
        let left = end.saturating_duration_since(Instant::now()).as_millis().max(1) as u64;
        let some = client.leased(topic, json!({"wait_ms": left})).await;
        ack_all(client, &some).await;
        got.extend(some);
    }
    got
}

#[tokio::test]
async fn a_rate_of_its_own_holds_at_once_for_what_waits() {
    let client = client().await;
    for order in ORDERS {
        for topics in [json!({}), json!({"group_rate_per_s": 1000, "group_burst": 100})] {
            let topic = ordered(&client, order, topics).await;
            client.reconfigure(&topic, json!({"group_concurrency": 100})).await;
            line(&client, &topic, "a", 0..60).await;
            line(&client, &topic, "b", 100..105).await;
            client.put_group(&topic, "a", json!({"rate_per_s": 4, "burst": 2})).await.expect(200);
            let begun = Instant::now();
            let got = within(&client, &topic, 2_000).await;
            let most = 3 + (begun.elapsed().as_millis() / 250) as usize;
            let a = count(&got, "a");
            assert!((6..=most).contains(&a), "{order}: {a} of 2 and 4 a second, {most} at most");
            assert_eq!(count(&got, "b"), 5, "{order}: others have none");
            // Slower.
            client
                .put_group(&topic, "a", json!({"rate_per_s": 0.01, "burst": 1}))
                .await
                .expect(200);
            assert!(within(&client, &topic, 300).await.len() <= 1, "{order}");
            // A poll that waits for a turn hears of a faster one.
            let waits = poll(&client, &topic).await;
            client.put_group(&topic, "a", json!({"rate_per_s": 20, "burst": 1})).await.expect(200);
            let next = waits.await.unwrap();
            assert!(in_time(&next), "{order}: {next:?}");
            // Without a rate, everything goes at once.
            let seen = client.group(&topic, "a").await;
            let left = number(&seen, "waiting") + number(&seen, "blocked");
            client.put_group(&topic, "a", json!({"rate_per_s": 0.01})).await.expect(200);
            client
                .put_group(&topic, "a", json!({"rate_per_s": 100_000, "burst": 1000}))
                .await
                .expect(200);
            sleep(Duration::from_millis(20)).await;
            let got = payloads(&client, &topic).await.1;
            assert_eq!(got.len() as i64, left, "{order}: {seen}");
            ack_all(&client, &got).await;
            topic_in_balance(&client, &topic).await;
        }
    }
}

#[tokio::test]
async fn an_ack_that_rides_on_a_lease_makes_room_for_it() {
    let client = client().await;
    let topic = ordered(&client, "fair", json!({})).await;
    client.put_group(&topic, "a", json!({"concurrency": 1})).await.expect(200);
    line(&client, &topic, "a", 0..5).await;
    let mut held = client.lease_one(&topic).await;
    for n in 1..5 {
        let ack = json!([{"id": held["id"], "lease_token": held["lease_token"]}]);
        let got = client.leased(&topic, json!({"acks": ack, "max_messages": 5})).await;
        assert_eq!(got.len(), 1, "{n}");
        held = got[0].clone();
    }
}

#[tokio::test]
async fn a_rate_of_its_own_goes_with_the_burst_of_the_topic() {
    let client = client().await;
    for order in ORDERS {
        let topic =
            ordered(&client, order, json!({"group_concurrency": 10, "group_burst": 5})).await;
        client.put_group(&topic, "a", json!({"rate_per_s": 0.01})).await.expect(200);
        line(&client, &topic, "a", 0..9).await;
        assert_eq!(payloads(&client, &topic).await.0.len(), 5, "{order}");
    }
}

#[tokio::test]
async fn a_group_whose_rate_is_taken_away_has_no_plan_left() {
    let client = client().await;
    for order in ORDERS {
        let topic = ordered(&client, order, json!({"group_concurrency": 1000})).await;
        client.put_group(&topic, "a", json!({"rate_per_s": 0.1})).await.expect(200);
        line(&client, &topic, "a", 0..600).await;
        assert_eq!(payloads(&client, &topic).await.0, [0], "{order}");
        client.put_group(&topic, "a", json!({})).await.expect(200);
        let mut seen = 0;
        for _ in 0..6 {
            seen += payloads(&client, &topic).await.0.len();
        }
        assert_eq!(seen, 599, "{order}");
    }
}

#[tokio::test]
async fn a_heavier_group_is_leased_so_many_times_as_often() {
    let client = client().await;
    let topic = ordered(&client, "fair", json!({})).await;
    for group in ["a", "b", "c"] {
        line(&client, &topic, group, 0..200).await;
    }
    client.put_group(&topic, "a", json!({"weight": 3})).await.expect(200);
    for most in [50, 1] {
        let mut got = Vec::new();
        while got.len() < 100 {
            let some = client.leased(&topic, json!({"max_messages": most})).await;
            ack_all(&client, &some).await;
            got.extend(some);
        }
        let shares = ["a", "b", "c"].map(|group| count(&got, group));
        assert!((57..=63).contains(&shares[0]), "{most}: {shares:?}");
        assert!(shares[1].abs_diff(shares[2]) <= 3, "{most}: {shares:?}");
    }
    // At once, also the other way round.
    client.put_group(&topic, "a", json!({})).await.expect(200);
    client.put_group(&topic, "b", json!({"weight": 100})).await.expect(200);
    let got = client.leased(&topic, json!({"max_messages": 50})).await;
    assert!(count(&got, "b") >= 45, "{}", count(&got, "b"));
}

#[tokio::test]
async fn settings_stay_where_the_order_changes_and_where_messages_are_purged() {
    let client = client().await;
    let topic = ordered(&client, "strict", json!({"group_concurrency": 3})).await;
    for group in ["a", "b", "c"] {
        line(&client, &topic, group, 0..5).await;
    }
    client.pause_group(&topic, "a", true).await.expect(200);
    client.put_group(&topic, "b", json!({"concurrency": 1})).await.expect(200);
    for order in ["fair", "strict", "fair", "strict"] {
        client.reconfigure(&topic, json!({"group_order": order})).await;
        let got = payloads(&client, &topic).await.1;
        let counts = ["a", "b", "c"].map(|group| count(&got, group));
        assert_eq!(counts, [0, 1, 3], "{order}");
        for message in &got {
            client.nack_leased(message, json!({"delay_ms": 0})).await.expect(200);
        }
        topic_in_balance(&client, &topic).await;
    }
    client.purge(&topic, &["ready", "delayed", "blocked"]).await.expect(200);
    line(&client, &topic, "a", 0..2).await;
    assert!(payloads(&client, &topic).await.0.is_empty());
    client.pause_group(&topic, "a", false).await.expect(200);
    assert_eq!(payloads(&client, &topic).await.0.len(), 2);
    // A topic of the name that is made later has none.
    client.put_group(&topic, "a", json!({"paused": true})).await.expect(200);
    client.delete_topic(&topic, "?force=true").await.expect(204);
    client.configure(&topic, json!({})).await;
    assert!(all_groups(&client, &topic, 10).await.is_empty());
    line(&client, &topic, "a", 0..2).await;
    assert_eq!(payloads(&client, &topic).await.0, [0]);
}

#[tokio::test]
async fn groups_with_settings_are_listed_with_those_that_have_messages() {
    let client = client().await;
    for partitions in [1, 4] {
        let topic = ordered(&client, "fair", json!({"partitions": partitions})).await;
        let mut wanted = Vec::new();
        for n in 0..20 {
            let name = format!("g{n}");
            if n % 2 == 0 {
                client.put_group(&topic, &name, json!({"concurrency": n + 1})).await.expect(200);
            }
            if n % 3 == 0 {
                line(&client, &topic, &name, 0..2).await;
            }
            if n % 2 == 0 || n % 3 == 0 {
                wanted.push((name, (n % 2 == 0).then_some(n + 1), if n % 3 == 0 { 2 } else { 0 }));
            }
        }
        for limit in [1, 3, 1000] {
            let mut found: Vec<_> = all_groups(&client, &topic, limit)
                .await
                .iter()
                .map(|it| {
                    (
                        text(it, "group").to_owned(),
                        it["concurrency"].as_i64(),
                        number(it, "waiting"),
                    )
                })
                .collect();
            found.sort();
            let mut wanted = wanted.clone();
            wanted.sort();
            assert_eq!(found, wanted, "{partitions} {limit}");
        }
        if partitions == 4 {
            // In each partition, what is paused is not leased.
            for n in 0..20 {
                client.pause_group(&topic, &format!("g{n}"), true).await.expect(200);
            }
            assert!(payloads(&client, &topic).await.0.is_empty());
            let waits = poll(&client, &topic).await;
            client.pause_group(&topic, "g3", false).await.expect(200);
            let got = waits.await.unwrap();
            assert!(in_time(&got) && got.0[0]["group"] == "g3", "{got:?}");
        }
    }
    // A group with settings has its home, as one with messages.
    let topic = ordered(&client, "strict", json!({})).await;
    client.put_group(&topic, "a", json!({"concurrency": 2})).await.expect(200);
    client.update_topic(&topic, json!({"partitions": 2})).await.problem(409, "names_in_use");
    client.delete_group(&topic, "a").await.expect(204);
    client.update_topic(&topic, json!({"partitions": 2})).await.expect(200);
}

#[tokio::test]
async fn no_consumer_sleeps_through_a_storm_of_settings() {
    let client = client().await;
    for order in ORDERS {
        let topic =
            ordered(&client, order, json!({"group_concurrency": 2, "max_attempts": 1000})).await;
        let groups = ["a", "b", "c", "d"];
        for group in groups {
            line(&client, &topic, group, 0..60).await;
        }
        let setter = tokio::spawn({
            let (client, topic) = (client.clone(), topic.clone());
            async move {
                for n in 0..150_u64 {
                    let group = groups[(n % 4) as usize];
                    let settings = match n % 7 {
                        0 => json!({"paused": true}),
                        1 => json!({"concurrency": 1 + n % 5, "paused": false}),
                        2 => json!({"rate_per_s": 50, "burst": 3}),
                        3 => json!({"paused": false}),
                        4 => json!({"rate_per_s": 0.5, "concurrency": 3}),
                        5 => json!({"paused": true, "rate_per_s": 200}),
                        _ => json!({"concurrency": 10}),
                    };
                    client.put_group(&topic, group, settings).await.expect(200);
                }
                for group in groups {
                    client.delete_group(&topic, group).await.expect(204);
                }
            }
        });
        let consumers: Vec<_> = (0..3)
            .map(|consumer| {
                let (client, topic) = (client.clone(), topic.clone());
                tokio::spawn(async move {
                    let (mut done, mut turn) = (0, 0);
                    loop {
                        let want = json!({"max_messages": 3, "wait_ms": 4_000});
                        let got = client.leased(&topic, want).await;
                        if got.is_empty() {
                            return done;
                        }
                        for message in &got {
                            turn += 1;
                            if turn % (4 + consumer) == 0 {
                                client
                                    .nack_leased(message, json!({"delay_ms": 0}))
                                    .await
                                    .expect(200);
                            } else {
                                client.ack_leased(message).await.expect(204);
                                done += 1;
                            }
                        }
                    }
                })
            })
            .collect();
        setter.await.unwrap();
        let mut done = 0;
        for consumer in consumers {
            done += consumer.await.unwrap();
        }
        // A consumer may have left while all groups were paused or slow.
        loop {
            let got = payloads(&client, &topic).await.1;
            if got.is_empty() {
                break;
            }
            done += got.len();
            ack_all(&client, &got).await;
        }
        assert_eq!(done, 240, "{order}: {}", client.topic(&topic).await);
        topic_in_balance(&client, &topic).await;
    }
}
