//! getTopic and listTopics: counts, totals, the order of names.

use serde_json::{Value, json};

use crate::facts::{dead_message, topic_in_balance};
use crate::harness::*;

#[tokio::test]
async fn a_topic_shows_the_defaults_of_the_contract() {
    let (client, topic) = (client().await, topic("topics"));
    client.published(&topic, json!({"payload": 1})).await;
    let seen = client.topic(&topic).await.expect(200).json();
    assert_eq!(seen["name"], topic);
    assert_eq!(seen["paused"], false);
    assert!(seen["revision"].is_i64() || seen["revision"].is_string(), "{seen}");
    let config = &seen["config"];
    assert_eq!(config["lease_ms"], 30_000);
    assert_eq!(config["max_attempts"], 10);
    assert_eq!(config["max_payload_bytes"], 262_144);
    let backoff = json!({
        "kind": "exponential", "base_ms": 1000, "factor": 2.0, "max_ms": 3_600_000, "jitter": 0.1,
    });
    assert_eq!(config["backoff"], backoff);
}

#[tokio::test]
async fn a_topic_counts_its_messages_by_state() {
    let (client, topic) = (client().await, topic("topics"));
    dead_message(&client, &topic).await;
    for _ in 0..2 {
        client.published(&topic, json!({"payload": 1})).await;
        client.lease_one(&topic).await;
    }
    for priority in [0, 5, 9] {
        let message = json!({"payload": 1, "priority": priority});
        client.published(&topic, message).await;
    }
    for priority in [0, 5] {
        let message = json!({"payload": 1, "priority": priority, "delay_ms": 60_000});
        client.published(&topic, message).await;
    }
    let seen = topic_in_balance(&client, &topic).await;
    let counts = json!({"delayed": 2, "ready": 3, "leased": 2, "dead": 1, "acked": 0});
    for (name, count) in counts.as_object().unwrap() {
        assert_eq!(&seen["counts"][name], count, "{name}: {seen}");
    }
}

#[tokio::test]
async fn totals_count_what_happened() {
    let (client, topic) = (client().await, topic("topics"));
    dead_message(&client, &topic).await;
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    client.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    let id = client.published(&topic, json!({"payload": 1})).await;
    client.delete(&id).await.expect(204);
    let seen = topic_in_balance(&client, &topic).await;
    let totals = json!({
        "published": 3, "granted": 3, "acked": 1, "nacked": 2, "released": 0, "lease_expired": 0,
        "dead": 1, "expired": 0, "deleted": 1, "purged": 0, "redriven": 0, "replaced": 0,
        "returned": 0, "deleted_leased": 0,
    });
    for (name, total) in totals.as_object().unwrap() {
        assert_eq!(&seen["totals"][name], total, "{name}: {seen}");
    }
}

#[tokio::test]
async fn what_is_due_counts_as_ready_without_anybody_looking() {
    let (client, topic) = (client().await, topic("topics"));
    for priority in [0, 9] {
        let message = json!({"payload": 1, "priority": priority, "delay_ms": 300});
        client.published(&topic, message).await;
    }
    assert_eq!(client.count(&topic, "delayed").await, 2);
    eventually("two ready", || async { (client.count(&topic, "ready").await == 2).then_some(()) })
        .await;
    let seen = client.topic(&topic).await.expect(200).json();
    assert_eq!(seen["counts"]["delayed"], 0);
    assert!(seen.get("next_due_at").is_none(), "nothing falls due any more: {seen}");
}

#[tokio::test]
async fn what_has_lost_its_lease_counts_as_ready_or_dead_without_anybody_looking() {
    let (client, topic) = (client().await, topic("topics"));
    for max_attempts in [10, 1] {
        client.published(&topic, json!({"payload": 1, "max_attempts": max_attempts})).await;
    }
    let held = client.leased(&topic, json!({"max_messages": 2, "lease_ms": 1000})).await;
    let before = client.topic(&topic).await.expect(200).json();
    assert_eq!(before["counts"]["leased"], 2);
    assert!(before.get("oldest_ready_age_ms").is_none(), "{before}");
    assert!(before.get("next_due_at").is_none(), "{before}");
    let seen = eventually("no lease", || async {
        let seen = client.topic(&topic).await.expect(200).json();
        (seen["counts"]["leased"] == 0).then_some(seen)
    })
    .await;
    assert_eq!((&seen["counts"]["ready"], &seen["counts"]["dead"]), (&json!(1), &json!(1)));
    let since = instant_ms(text(&held[0], "lease_expires_at"));
    let most = shared().await.redis.time_ms().await - since;
    let age = number(&seen, "oldest_ready_age_ms");
    assert!((0..=most).contains(&age), "ready since its deadline, {most} ms ago: {seen}");
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_topic_says_how_long_its_oldest_ready_message_waits() {
    let (client, topic) = (client().await, topic("topics"));
    let first = client.publish(&topic, json!({"payload": 1, "priority": 1})).await.expect(201);
    client.published(&topic, json!({"payload": 1})).await;
    let due = first.instant("due_at");
    let before = shared().await.redis.time_ms().await;
    let age = client.topic(&topic).await.expect(200).number("oldest_ready_age_ms");
    let after = shared().await.redis.time_up_ms().await;
    assert!((before - due..=after - due).contains(&age), "{before} {after} {due} {age}");
}

#[tokio::test]
async fn a_topic_says_what_falls_due_next() {
    let (client, topic) = (client().await, topic("topics"));
    client.published(&topic, json!({"payload": 1, "delay_ms": 90_000})).await;
    let message = json!({"payload": 1, "delay_ms": 60_000, "priority": 7});
    let next = client.publish(&topic, message).await.expect(201);
    let seen = client.topic(&topic).await.expect(200).json();
    assert_eq!(seen["next_due_at"], next.json()["due_at"]);
    assert!(seen.get("oldest_ready_age_ms").is_none(), "nothing is ready: {seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_snapshot_adds_up_under_load() {
    let (client, topic) = (client().await, topic("topics"));
    client.published(&topic, json!({"payload": 0})).await;
    let work = |n: u64| {
        let (client, topic) = (client.clone(), topic.clone());
        tokio::spawn(async move {
            for round in n..n + 40 {
                let message =
                    json!({"payload": 1, "max_attempts": 1 + round % 2, "priority": round % 3});
                let id = client.published(&topic, message).await;
                for held in
                    client.leased(&topic, json!({"max_messages": 2, "lease_ms": 1000})).await
                {
                    match round % 4 {
                        0 => drop(client.nack_leased(&held, json!({"delay_ms": 0})).await),
                        1 => {} // its lease will expire
                        _ => drop(client.ack_leased(&held).await),
                    }
                }
                if round % 5 == 0 {
                    client.delete(&id).await;
                }
            }
        })
    };
    let workers: Vec<_> = (0..4).map(work).collect();
    while !workers.iter().all(tokio::task::JoinHandle::is_finished) {
        topic_in_balance(&client, &topic).await;
    }
    for worker in workers {
        worker.await.unwrap();
    }
    eventually("no lease", || async { (client.count(&topic, "leased").await == 0).then_some(()) })
        .await;
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn an_unknown_topic_is_not_found() {
    client().await.topic(&topic("never-made")).await.problem(404, "topic_not_found");
}

/// Follows the cursors of listTopics to the end.
async fn list(client: &Client, prefix: &str, limit: usize) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/topics?prefix={prefix}&limit={limit}{cursor}");
        let page = client.get_path(&path).await.expect(200).json();
        let found = page["items"].as_array().unwrap();
        assert!(found.len() <= limit, "{page}");
        items.extend(found.iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

#[tokio::test]
async fn topics_are_listed_by_name_in_pages_of_any_size() {
    let (client, prefix) = (client().await, topic("listed"));
    let mut names: Vec<String> = ["b", "a", "-z", "a.1", "a_1", "A", "a-1", "10", "9"]
        .map(|n| format!("{prefix}{n}"))
        .into();
    for name in &names {
        client.published(name, json!({"payload": 1})).await;
    }
    names.sort();
    for limit in [1, 2, 4, 9, 1000] {
        let items = list(&client, &prefix, limit).await;
        let seen: Vec<&str> = items.iter().map(|item| text(item, "name")).collect();
        assert_eq!(seen, names, "in pages of {limit}");
        assert!(items.iter().all(|item| item["counts"]["ready"] == 1), "{items:?}");
        assert!(items.iter().all(|item| item["paused"] == false), "{items:?}");
    }
}

#[tokio::test]
async fn a_page_has_a_hundred_topics_unless_told() {
    let (client, prefix) = (client().await, topic("hundred"));
    let names: Vec<String> = (0..101).map(|n| format!("{prefix}-{n:03}")).collect();
    let sends = names.iter().map(|name| client.published(name, json!({"payload": 1})));
    futures_util::future::join_all(sends).await;
    let path = format!("/topics?prefix={prefix}-");
    let first = client.get_path(&path).await.expect(200).json();
    assert_eq!(first["items"].as_array().unwrap().len(), 100);
    let next = format!("{path}&cursor={}", text(&first, "next_cursor"));
    let second = client.get_path(&next).await.expect(200).json();
    assert_eq!(second["items"][0]["name"], names[100]);
    assert!(second.get("next_cursor").is_none(), "{second}");
}

#[tokio::test]
async fn a_prefix_that_no_topic_has_lists_nothing() {
    let client = client().await;
    client.published(&topic("listed"), json!({"payload": 1})).await;
    for prefix in ["zzz.no.such", "*", "%5B", "(", "%2B", "%00", "%ff", "%5B-", "l?sted", "%C3%A9"]
    {
        let page = client.get_path(&format!("/topics?prefix={prefix}")).await.expect(200).json();
        assert_eq!(page, json!({"items": []}), "{prefix}");
    }
}

#[tokio::test]
async fn a_topic_made_while_paging_repeats_and_skips_none_of_the_others() {
    let (client, prefix) = (client().await, topic("paged"));
    for n in ["b", "d", "f"] {
        client.published(&format!("{prefix}{n}"), json!({"payload": 1})).await;
    }
    let path = format!("/topics?prefix={prefix}&limit=2");
    let first = client.get_path(&path).await.expect(200).json();
    for n in ["a", "c", "e"] {
        client.published(&format!("{prefix}{n}"), json!({"payload": 1})).await;
    }
    let next = format!("{path}&cursor={}", text(&first, "next_cursor"));
    let second = client.get_path(&next).await.expect(200).json();
    let seen: Vec<&str> =
        second["items"].as_array().unwrap().iter().map(|item| text(item, "name")).collect();
    assert_eq!(seen, [format!("{prefix}e"), format!("{prefix}f")]);
}

#[tokio::test]
async fn what_does_not_fit_a_list_is_named() {
    let client = client().await;
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=-1", "limit"),
        ("limit=ten", "limit"),
        ("limit=", "limit"),
        ("limit=1&limit=1", "limit"),
        ("cursor=not-from-here", "cursor"),
        ("cursor=%ff%00", "cursor"),
        ("pageSize=3", "pageSize"),
    ] {
        let answer = client.get_path(&format!("/topics?{query}")).await;
        assert_eq!(answer.status, 422, "{query}: {answer}");
        answer.refused(422).field(field);
    }
}
