//! Searches: what a query finds in a list, how far one request looks, and why messages died.

use serde_json::{Value, json};

use crate::facts::{dead_message, ids, unprocessable};
use crate::harness::*;

/// What a query finds in this state, page by page: the items, and how many messages were looked at.
pub async fn found(client: &Client, topic: &str, state: &str, query: &str) -> (Vec<Value>, i64) {
    let (mut items, mut scanned, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let page = format!("state={state}&q={}{cursor}", encoded(query));
        let page = client.list(topic, &page).await.expect(200).json();
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        scanned += number(&page, "scanned");
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (items, scanned),
        }
    }
}

/// Publishes a message that dies for this reason: its id.
pub async fn dies_of(client: &Client, topic: &str, message: Value, reason: &str) -> String {
    let id = client.published(topic, message).await;
    let held = client.lease_one(topic).await;
    client.nack_leased(&held, json!({"dead": true, "reason": reason})).await.expect(200);
    id
}

#[tokio::test]
async fn each_term_finds_its_messages() {
    for partitions in [1, 4] {
        let (client, topic) = (client().await, topic("search"));
        client.new_topic(&topic, json!({"partitions": partitions})).await;
        let order = json!({
            "payload": {"order": {"id": 42, "lines": [{"sku": "Tea"}]}, "note": "two  BOXES"},
            "delay_ms": 3_600_000, "headers": {"Tenant": "a b"}, "priority": 7, "key": "cart/9",
        });
        let order = client.published(&topic, order).await;
        let other = r#"{"payload":{"order":{"id":43},"by":"\u674e"},"delay_ms":7200000}"#;
        let other = client.post_text(&format!("/topics/{topic}/messages"), other).await;
        let other = other.expect(201).text("id").to_owned();
        let bytes = json!({"payload_base64": "AP90ZWEh", "delay_ms": 7_300_000});
        let bytes = client.published(&topic, bytes).await;
        let due_at = client.get(&other).await.json();
        let due_at = text(&due_at, "due_at");
        let all = [&order, &other, &bytes];
        for (query, expected) in [
            ("", &all[..]),
            ("payload.$.order.id:42", &[&order]),
            ("payload.$.order.id:>41", &[&order, &other]),
            ("payload.$.order.lines[0].sku:T*", &[&order]),
            ("payload:tea", &[&order, &bytes]),
            ("payload:\"two  boxes\"", &[&order]),
            ("header.tenant:\"a b\"", &[&order]),
            ("key:cart/*", &[&order]),
            ("priority:>=7", &[&order]),
            ("priority:0 payload:order", &[&other]),
            ("attempts:0", &all),
            ("attempts:>0", &[]),
            (&format!("at:>={due_at}"), &[&other, &bytes]),
            (&format!("at:{due_at}"), &[&other]),
            ("published:>2026-01-01", &all),
            ("published:<2026-01-01", &[]),
            ("error:*", &[]),
            ("tea -key:cart/9 OR priority:7 boxes", &[&order, &bytes]),
            ("李", &[&other]),
            ("-李 -payload.$.order.id:42", &[&bytes]),
            (&format!("id:{order} OR id:{bytes}"), &[&order, &bytes]),
        ] {
            let (items, scanned) = found(&client, &topic, "delayed", query).await;
            let ids = ids(&items);
            assert_eq!(ids.iter().collect::<Vec<_>>(), expected, "{query}");
            assert_eq!(scanned, 3, "{query}");
            assert!(items.iter().all(|item| item.get("payload").is_none()), "{query}");
        }
        for query in ["OR", "tea OR", "-", "--tea", "tea:x", "\"\""] {
            let answer = client.list(&topic, &format!("state=delayed&q={}", encoded(query))).await;
            unprocessable(answer, "q");
        }
        let page = client.list(&topic, "state=delayed&payload=true&q=key%3Acart%2F9").await;
        let page = page.expect(200).json();
        assert_eq!(page["items"][0]["payload"]["order"]["id"], 42);
        assert_eq!(client.list(&topic, "state=delayed").await.json().get("scanned"), None);
    }
}

#[tokio::test]
async fn a_page_ends_where_it_is_full_and_goes_on_behind_it() {
    for partitions in [1, 4] {
        let (client, topic) = (client().await, topic("search"));
        client.new_topic(&topic, json!({"partitions": partitions})).await;
        let message = |n: usize| json!({"payload": {"n": n % 3}, "delay_ms": 3_600_000 + n});
        let messages: Vec<_> = (0..2_000).map(message).collect();
        for some in messages.chunks(1000) {
            client.published_batch(&topic, some).await;
        }
        let query = "state=delayed&limit=100&q=payload.%24.n%3A1";
        let all = client.listed(&topic, query).await;
        assert_eq!(all.len(), 667);
        let mut unique = ids(&all);
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), 667);
        // A cursor belongs to its query.
        let page = client.list(&topic, query).await.expect(200).json();
        let cursor = text(&page, "next_cursor");
        for other in [
            "state=delayed",
            "state=delayed&q=payload.%24.n%3A2",
            "state=ready&q=payload.%24.n%3A1",
        ] {
            let answer = client.list(&topic, &format!("{other}&cursor={cursor}")).await;
            unprocessable(answer, "cursor");
        }
    }
}

#[tokio::test]
async fn one_request_looks_at_ten_thousand_messages_at_most() {
    let (client, topic) = (client().await, topic("search"));
    let messages = vec![json!({"payload": 1, "delay_ms": 3_600_000}); 10_500];
    client.fill(&topic, &messages).await;
    let needle =
        client.published(&topic, json!({"payload": "needle", "delay_ms": 9_000_000})).await;
    let first = client.list(&topic, "state=delayed&q=payload%3Aneedle").await.expect(200).json();
    assert_eq!(first["items"], json!([]));
    let scanned = number(&first, "scanned");
    assert!(0 < scanned && scanned <= 10_000, "{scanned}");
    let (items, all) = found(&client, &topic, "delayed", "payload:needle").await;
    assert_eq!((ids(&items), all), (vec![needle], 10_501));
}

#[tokio::test]
async fn secrets_are_not_found() {
    let (client, topic) = (client().await, topic("search"));
    let push = json!({"url": "http://example.com/", "secret_headers": ["x-token"]});
    client.new_topic(&topic, json!({"push": push})).await;
    let headers = json!({"Authorization": "Bearer s3cret", "X-Token": "s3cret", "x-other": "seen"});
    let message = json!({"payload": 1, "delay_ms": 3_600_000, "headers": headers});
    client.published(&topic, message).await;
    for (query, count) in [
        ("header.authorization:*", 0),
        ("header.x-token:s3*", 0),
        ("header.x-token:***", 0),
        ("payload:s3cret", 0),
        ("header.x-other:seen", 1),
    ] {
        assert_eq!(found(&client, &topic, "delayed", query).await.0.len(), count, "{query}");
    }
}

#[tokio::test]
async fn the_dead_are_grouped_by_their_reasons() {
    let missing = client().await.get_path("/topics/missing/dead/reasons").await;
    missing.problem(404, "topic_not_found");
    for partitions in [1, 4] {
        let (client, topic) = (client().await, topic("reasons"));
        client.new_topic(&topic, json!({"partitions": partitions})).await;
        let reasons = |client: Client, topic: String| async move {
            client.get_path(&format!("/topics/{topic}/dead/reasons")).await.expect(200).json()
        };
        assert_eq!(
            reasons(client.clone(), topic.clone()).await,
            json!({"items": [], "scanned": 0})
        );
        let mut timeouts = Vec::new();
        for n in 0..3 {
            let reason = format!("timeout after {n}0 s of order {:08x}", 0xabc_def0 + n);
            timeouts.push(dies_of(&client, &topic, json!({"payload": n}), &reason).await);
        }
        let refused = dies_of(&client, &topic, json!({"payload": 4}), "refused: \"no\"").await;
        let silent = [
            dead_message(&client, &topic).await,
            dies_of(&client, &topic, json!({"payload": 5}), "").await,
        ];
        let seen = reasons(client.clone(), topic.clone()).await;
        assert_eq!(seen["scanned"], 6);
        let items = seen["items"].as_array().unwrap();
        assert_eq!(items.len(), 3, "{seen}");
        assert_eq!((&items[0]["count"], &items[0]["example_id"]), (&json!(3), &json!(timeouts[2])));
        let reason = text(&items[0], "reason");
        assert_eq!(reason, "timeout after * s of order *");
        assert!(text(&items[0], "first_at") <= text(&items[0], "last_at"));
        let one = |id: &str| items.iter().find(|item| item["example_id"] == *id).unwrap();
        assert_eq!(one(&refused)["reason"], "refused: \"no\"");
        assert_eq!((one(&silent[1]).get("reason"), &one(&silent[1])["count"]), (None, &json!(2)));
        // A reason finds its messages and no others.
        for (reason, expected) in
            [(reason, &timeouts), ("refused: \\\"no\\\"", &vec![refused]), ("", &silent.to_vec())]
        {
            let (items, _) = found(&client, &topic, "dead", &format!("reason:\"{reason}\"")).await;
            assert_eq!(ids(&items), *expected, "{reason}");
        }
        assert!(found(&client, &topic, "dead", "reason:timeout").await.0.is_empty());
    }
}

#[tokio::test]
async fn the_newest_dead_are_looked_at() {
    let (client, topic) = (client().await, topic("reasons"));
    client.new_topic(&topic, json!({"max_attempts": 1})).await;
    client.fill(&topic, &vec![json!({"payload": 1}); 10_100]).await;
    for (reason, some) in std::iter::once(("old", 100)).chain([("new", 1000); 10]) {
        let held = client.leased(&topic, json!({"max_messages": some})).await;
        assert_eq!(held.len(), some);
        let nack =
            |m: &Value| json!({"id": m["id"], "lease_token": m["lease_token"], "reason": reason});
        client.held_batch("nack", &held.iter().map(nack).collect::<Vec<_>>()).await;
    }
    let seen = client.get_path(&format!("/topics/{topic}/dead/reasons")).await.expect(200).json();
    assert_eq!(seen["scanned"], 10_000);
    let items = seen["items"].as_array().unwrap();
    assert_eq!(
        (items.len(), &items[0]["reason"], &items[0]["count"]),
        (1, &json!("new"), &json!(10_000))
    );
}
