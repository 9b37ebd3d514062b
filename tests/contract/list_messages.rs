//! listMessages: each state in its own order, in pages that neither skip nor repeat what stays.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::facts::{dead_message, ids};
use crate::harness::*;
use crate::topic_facts::lease_over;

#[tokio::test]
async fn every_state_lists_its_own_and_no_other() {
    let (client, topic) = (client().await, topic("list"));
    client.new_topic(&topic, json!({"retention": {"acked_ms": 600_000}})).await;
    let dead = dead_message(&client, &topic).await;
    let acked = client.published(&topic, json!({"payload": 1})).await;
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    let leased = client.published(&topic, json!({"payload": 1, "priority": 2})).await;
    client.lease_one(&topic).await;
    let ready = client.published(&topic, json!({"payload": 1, "key": "k"})).await;
    let delayed = client.published(&topic, json!({"payload": 1, "delay_ms": 60_000})).await;
    for (state, id) in [
        ("dead", dead),
        ("acked", acked),
        ("leased", leased),
        ("ready", ready),
        ("delayed", delayed),
    ] {
        let page = client.list(&topic, &format!("state={state}")).await.expect(200).json();
        assert!(page.get("next_cursor").is_none(), "{page}");
        let items = page["items"].as_array().unwrap();
        assert_eq!(ids(items), [&*id], "{state}");
        let message = client.get(&id).await.expect(200).json();
        let words = "id state topic priority due_at published_at key attempts died_at last_error";
        for name in words.split(' ') {
            assert_eq!(items[0].get(name), message.get(name), "{name} of {state}: {page}");
        }
        assert_eq!(items[0].get("died_at").is_some(), state == "dead", "{page}");
        for name in ["payload", "payload_base64"] {
            assert!(items[0].get(name).is_none(), "{state}: {page}");
        }
    }
}

#[tokio::test]
async fn an_empty_state_is_an_empty_list() {
    let (client, topic) = (client().await, topic("list"));
    client.new_topic(&topic, json!({})).await;
    for state in ["ready", "delayed", "leased", "dead", "acked"] {
        let page = client.list(&topic, &format!("state={state}&payload=true")).await.expect(200);
        assert_eq!(page.json(), json!({"items": []}));
    }
}

#[tokio::test]
async fn ready_messages_are_listed_as_they_would_be_granted() {
    let (client, topic) = (client().await, topic("list"));
    for n in 0..40 {
        let delay_ms = if n % 4 == 0 { 150 } else { 0 };
        let message = json!({"payload": n, "priority": n * 7 % 5, "delay_ms": delay_ms});
        client.published(&topic, message).await;
    }
    eventually("all ready", || async { (client.count(&topic, "ready").await == 40).then_some(()) })
        .await;
    let mut orders = Vec::new();
    for limit in [1, 7, 40, 1000] {
        orders.push(ids(&client.listed(&topic, &format!("state=ready&limit={limit}")).await));
    }
    let granted = ids(&client.leased(&topic, json!({"max_messages": 40})).await);
    for order in orders {
        assert_eq!(order, granted);
    }
}

#[tokio::test]
async fn delayed_messages_are_listed_by_due_time_whatever_their_priority() {
    let (client, topic) = (client().await, topic("list"));
    let delay = |n: i64| 60_000 + n * 7 % 30 * 1000;
    let message = |n| json!({"payload": n, "priority": n % 3, "delay_ms": delay(n)});
    let messages: Vec<_> = (0..30).map(message).collect();
    let mut want: Vec<_> = (0..30).map(delay).zip(client.fill(&topic, &messages).await).collect();
    want.sort();
    let want: Vec<String> = want.into_iter().map(|(_, id)| id).collect();
    for limit in [1, 4, 1000] {
        let items = client.listed(&topic, &format!("state=delayed&limit={limit}")).await;
        assert_eq!(ids(&items), want, "in pages of {limit}");
    }
}

#[tokio::test]
async fn leased_messages_are_listed_by_the_end_of_their_lease() {
    let (client, topic) = (client().await, topic("list"));
    client.fill(&topic, &vec![json!({"payload": 1, "max_attempts": 1}); 5]).await;
    client.fill(&topic, &vec![json!({"payload": 1}); 5]).await;
    let mut want = Vec::new();
    for n in 0..10_i64 {
        let lease_ms = 100_000 + n * 7 % 10 * 1000;
        let held = client.lease_one_with(&topic, json!({"lease_ms": lease_ms})).await;
        want.push((text(&held, "lease_expires_at").to_owned(), text(&held, "id").to_owned()));
    }
    want.sort();
    for limit in [1, 3, 1000] {
        let items = client.listed(&topic, &format!("state=leased&limit={limit}")).await;
        let seen: Vec<(String, String)> = items
            .iter()
            .map(|item| (text(item, "lease_expires_at").to_owned(), text(item, "id").to_owned()))
            .collect();
        assert_eq!(seen, want, "in pages of {limit}");
        assert!(items.iter().all(|item| item.get("lease_token").is_none()), "{items:?}");
    }
}

#[tokio::test]
async fn a_lease_that_is_over_is_listed_as_what_the_message_is() {
    let (client, topic) = (client().await, topic("list"));
    for max_attempts in [10, 1] {
        client.published(&topic, json!({"payload": 1, "max_attempts": max_attempts})).await;
    }
    let held = client.leased(&topic, json!({"max_messages": 2, "lease_ms": 1000})).await;
    assert_eq!(client.listed(&topic, "state=leased").await.len(), 2);
    lease_over(&held[1]).await;
    assert_eq!(client.listed(&topic, "state=leased").await, [] as [Value; 0]);
    for (state, message) in [("ready", &held[0]), ("dead", &held[1])] {
        let items = client.listed(&topic, &format!("state={state}")).await;
        assert_eq!(ids(&items), [text(message, "id")], "{state}");
        assert_eq!(items[0]["state"], state);
    }
}

#[tokio::test]
async fn thousands_due_in_one_millisecond_are_each_listed_once() {
    let (client, topic) = (client().await, topic("list"));
    let due = instant(shared().await.redis.time_ms().await + 3_600_000);
    let message = |n: u64| json!({"payload": n, "deliver_at": due, "priority": n % 3});
    let messages: Vec<Value> = (0..5000).map(message).collect();
    let mut want = client.fill(&topic, &messages).await;
    want.sort();
    for limit in [1000, 333] {
        let mut seen = ids(&client.listed(&topic, &format!("state=delayed&limit={limit}")).await);
        seen.sort();
        assert!(seen == want, "{} of {} in pages of {limit}", seen.len(), want.len());
    }
}

#[tokio::test]
async fn what_stays_is_neither_skipped_nor_repeated_while_others_come_and_go() {
    let (client, topic) = (client().await, topic("list"));
    let due = shared().await.redis.time_ms().await + 3_600_000;
    for state in ["delayed", "ready"] {
        let message = |n: i64| match state {
            // Ten of each due time, so that pages end among equals.
            "delayed" => {
                json!({"payload": n, "deliver_at": instant(due + n / 10), "priority": n % 2})
            }
            _ => json!({"payload": n, "priority": n * 3 % 7}),
        };
        let messages: Vec<Value> = (0..100).map(message).collect();
        let mut stay: HashSet<String> = client.fill(&topic, &messages).await.into_iter().collect();
        let order = ids(&client.listed(&topic, &format!("state={state}&limit=1000")).await);
        let (mut seen, mut cursor, mut page) = (Vec::new(), String::new(), 0);
        loop {
            let query = format!("state={state}&limit=9{cursor}");
            let answer = client.list(&topic, &query).await.expect(200).json();
            seen.extend(ids(answer["items"].as_array().unwrap()));
            let Some(next) = answer["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
            // The last of this page, the first of the next, one far on and one long past go.
            for gone in [seen.len() - 1, seen.len(), seen.len() + 20, page] {
                if let Some(id) = order.get(gone) {
                    client.delete(id).await;
                    stay.remove(id);
                }
            }
            client.fill(&topic, &[message(page as i64 * 11 % 100), message(0), message(99)]).await;
            page += 1;
            assert!(page < 200, "the list of {state} does not end");
        }
        let once: HashSet<&String> = seen.iter().collect();
        assert_eq!(once.len(), seen.len(), "{state}: some came twice");
        let skipped: Vec<&String> = stay.iter().filter(|id| !once.contains(id)).collect();
        assert!(skipped.is_empty(), "{state}: {skipped:?} were skipped");
    }
}

#[tokio::test]
async fn what_is_granted_between_two_pages_disturbs_none_of_the_others() {
    let (client, topic) = (client().await, topic("list"));
    client.fill(&topic, &vec![json!({"payload": 1}); 30]).await;
    let order = ids(&client.listed(&topic, "state=ready").await);
    let first = client.list(&topic, "state=ready&limit=10").await.expect(200).json();
    client.leased(&topic, json!({"max_messages": 15})).await;
    let next = text(&first, "next_cursor");
    let rest = client.list(&topic, &format!("state=ready&cursor={next}")).await.expect(200).json();
    assert_eq!(ids(rest["items"].as_array().unwrap()), order[15..]);
}

#[tokio::test]
async fn a_page_is_as_long_as_asked_and_a_hundred_unless_told() {
    let (client, topic) = (client().await, topic("list"));
    client.fill(&topic, &vec![json!({"payload": 1}); 1001]).await;
    for (query, length) in [("", 100), ("&limit=1", 1), ("&limit=1000", 1000)] {
        let page = client.list(&topic, &format!("state=ready{query}")).await.expect(200).json();
        assert_eq!(page["items"].as_array().unwrap().len(), length);
        assert!(page["next_cursor"].is_string(), "{query}");
    }
}

#[tokio::test]
async fn payloads_come_when_asked_for_as_they_were_sent() {
    let (client, topic) = (client().await, topic("list"));
    let path = format!("/topics/{topic}/messages");
    let payload = "{ \"b\":1.50, \"a\" :[1E400,-0, 18446744073709551616] }";
    client.post_text(&path, &format!("{{\"payload\":{payload}}}")).await.expect(201);
    client.publish_raw(&topic, "", Some("text/plain"), b"\x00raw").await.expect(201);
    client.published(&topic, json!({"payload": null})).await;
    for query in ["state=ready", "state=ready&payload=false"] {
        let page = client.list(&topic, query).await.expect(200);
        let body = String::from_utf8_lossy(&page.body).into_owned();
        assert!(!body.contains("payload"), "{body}");
    }
    let page = client.list(&topic, "state=ready&payload=true").await.expect(200);
    let body = String::from_utf8_lossy(&page.body).into_owned();
    assert!(body.contains(payload), "{body}");
    let items = page.json()["items"].clone();
    assert_eq!(items[1]["payload_base64"], "AHJhdw==");
    assert_eq!(items[1]["content_type"], "text/plain");
    assert_eq!(items[2].get("payload"), Some(&Value::Null));
}

#[tokio::test]
async fn a_page_of_payloads_ends_before_four_mebibytes() {
    let (client, topic) = (client().await, topic("list"));
    client.new_topic(&topic, json!({"max_payload_bytes": 1_048_576})).await;
    let payload = "x".repeat(900_000);
    let mut want = Vec::new();
    for _ in 0..10 {
        want.push(client.published(&topic, json!({"payload": payload})).await);
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let query = format!("state=ready&limit=1000&payload=true{cursor}");
        let page = client.list(&topic, &query).await.expect(200);
        assert!(page.body.len() <= 4_194_304, "a page of {} bytes", page.body.len());
        let page = page.json();
        let items = page["items"].as_array().unwrap();
        assert!(items.iter().all(|item| item["payload"] == payload));
        seen.extend(ids(items));
        let Some(next) = page["next_cursor"].as_str() else { break };
        assert!((3..=4).contains(&items.len()), "{} where four fit", items.len());
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, want);
    let page = client.list(&topic, "state=ready").await.expect(200).json();
    assert_eq!(page["items"].as_array().unwrap().len(), 10, "without payloads it is one page");
}

#[tokio::test]
async fn what_failed_is_listed_with_its_last_error() {
    let (client, topic) = (client().await, topic("list"));
    client.published(&topic, json!({"payload": 1})).await;
    client.lease_one(&topic).await;
    // Six bytes a character in Redis, so that a call reads some of these messages only.
    let reason = |n: usize, attempt: usize| format!("{n} {attempt} {}", "\u{1}".repeat(1_000));
    client.fill(&topic, &vec![json!({"payload": "x".repeat(1_000), "max_attempts": 6}); 40]).await;
    for attempt in 0..6 {
        let held = client.leased(&topic, json!({"max_messages": 40})).await;
        assert_eq!(held.len(), 40);
        for (n, message) in held.iter().enumerate() {
            let nack = match attempt {
                // The last reason that was given stays, and a release may give one too.
                4 => json!({"release": true, "reason": reason(n, 4), "delay_ms": 0}),
                5 => json!({"dead": true}),
                _ => json!({"reason": reason(n, attempt), "delay_ms": 0}),
            };
            client.nack_leased(message, nack).await.expect(200);
        }
    }
    for query in ["limit=1000", "limit=7", "limit=1000&payload=true"] {
        let items = client.listed(&topic, &format!("state=dead&{query}")).await;
        assert_eq!(items.len(), 40, "{query}");
        let distinct: HashSet<String> = ids(&items).into_iter().collect();
        assert_eq!(distinct.len(), 40, "{query}");
        for item in &items {
            let message = client.get(text(item, "id")).await.expect(200).json();
            assert_eq!(item["last_error"], message["last_error"], "{query}");
            assert!(text(item, "last_error").contains(" 4 \u{1}"), "{item}");
            let death = message["events"].as_array().unwrap().last().unwrap();
            assert_eq!((&death["kind"], &death["at"]), (&json!("dead"), &item["died_at"]));
        }
    }
    let page = client.list(&topic, "state=dead&limit=1000").await.expect(200).json();
    assert_eq!(page["items"].as_array().unwrap().len(), 40, "one page holds them");
    let leased = client.listed(&topic, "state=leased").await;
    assert!(leased[0].get("last_error").is_none() && leased[0].get("died_at").is_none());
}

#[tokio::test]
async fn a_cursor_belongs_to_its_list() {
    let (client, here, there) = (client().await, topic("list"), topic("list"));
    for topic in [&here, &there] {
        client.fill(topic, &vec![json!({"payload": 1}); 3]).await;
        client.fill(topic, &vec![json!({"payload": 1, "delay_ms": 60_000}); 3]).await;
    }
    let page = client.list(&here, "state=ready&limit=1").await.expect(200).json();
    let cursor = text(&page, "next_cursor");
    let topics = client.get_path("/topics?limit=1").await.expect(200).json();
    for (topic, query) in [
        (&there, format!("state=ready&cursor={cursor}")),
        (&here, format!("state=delayed&cursor={cursor}")),
        (&here, format!("state=dead&cursor={cursor}")),
        (&here, format!("state=ready&cursor={}", text(&topics, "next_cursor"))),
        (&here, format!("state=ready&cursor={}", &cursor[..cursor.len() - 2])),
        (&here, format!("state=ready&cursor={cursor}AA")),
    ] {
        client.list(topic, &query).await.refused(422).field("cursor");
    }
    let answer = client.get_path(&format!("/topics?cursor={cursor}")).await;
    answer.refused(422).field("cursor");
    // Of the same list it is good for a page of another length, and with payloads.
    let query = format!("state=ready&limit=2&payload=true&cursor={cursor}");
    let rest = client.list(&here, &query).await.expect(200).json();
    assert_eq!(rest["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_list_is_the_same_through_any_instance_page_by_page() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("list"));
    let want = here.fill(&topic, &vec![json!({"payload": 1}); 20]).await;
    let first = here.list(&topic, "state=ready&limit=10").await.expect(200).json();
    let query = format!("state=ready&cursor={}", text(&first, "next_cursor"));
    let second = there.list(&topic, &query).await.expect(200).json();
    let mut seen = ids(first["items"].as_array().unwrap());
    seen.extend(ids(second["items"].as_array().unwrap()));
    assert_eq!(seen, want);
}
