//! What is done to many messages: by their ids, and to those of a topic that a query finds.

use serde_json::{Value, json};

use crate::access::scopes::KeyFile;
use crate::facts::{dead_message, ids, topic_in_balance, unprocessable};
use crate::harness::*;
use crate::search::dies_of;

async fn by_ids(client: &Client, verb: &str, ids: &[&str]) -> Vec<Value> {
    let answer = client.post(&format!("/messages/{verb}"), &json!({"ids": ids})).await;
    let answer = answer.expect(200).json();
    let results = answer["results"].as_array().unwrap().clone();
    let named: Vec<_> = results.iter().map(|result| text(result, "id")).collect();
    assert_eq!(named, ids);
    results.into_iter().map(|mut result| result["status"].take()).collect()
}

/// One request, which may end early on a slow machine.
async fn one_request(client: &Client, topic: &str, verb: &str, want: &Value) -> Value {
    client.post(&format!("/topics/{topic}/{verb}"), want).await.expect(200).json()
}

/// As many requests as it takes: what all of them did, and what the last one left.
async fn on_topic(client: &Client, topic: &str, verb: &str, mut want: Value) -> Value {
    let mut done = one_request(client, topic, verb, &want).await;
    while let Some(cursor) = done.as_object_mut().unwrap().remove("next_cursor") {
        want["cursor"] = cursor;
        let mut more = one_request(client, topic, verb, &want).await;
        for (name, before) in
            done.as_object().unwrap().iter().filter(|(name, _)| *name != "remaining")
        {
            more[name] = json!(before.as_i64().unwrap() + number(&more, name));
        }
        done = more;
    }
    done
}

/// One message of each state, of two topics: delayed, ready, leased, dead, acked, and none.
async fn one_of_each(client: &Client) -> (String, Vec<String>) {
    let (topic, other) = (topic("bulk"), topic("bulk-other"));
    client.new_topic(&topic, json!({"retention": {"acked_ms": 60_000}, "partitions": 4})).await;
    let dead = dead_message(client, &other).await;
    let acked = client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    client.ack_leased(&held).await.expect(204);
    let leased = client.published(&topic, json!({"payload": 1})).await;
    client.lease_one(&topic).await;
    let ready = client.published(&topic, json!({"payload": 1})).await;
    let delayed = client.published(&other, json!({"payload": 1, "delay_ms": 60_000})).await;
    let none = client.published(&other, json!({"payload": 1})).await;
    client.delete(&none).await.expect(204);
    (topic, vec![delayed, ready, leased, dead, acked, none])
}

#[tokio::test]
async fn each_id_has_a_result_of_its_own() {
    let client = client().await;
    let unknown = "019a0000-0000-7000-8000-000000000000";
    for (verb, statuses, states) in [
        (
            "redrive",
            ["message_not_dead", "message_not_dead", "message_not_dead", "ok", "message_not_dead"],
            ["delayed", "ready", "leased", "ready", "acked"],
        ),
        (
            "run",
            ["ok", "ok", "message_leased", "message_dead", "message_acked"],
            ["ready", "ready", "leased", "dead", "acked"],
        ),
        ("delete", ["ok", "ok", "message_leased", "ok", "ok"], ["", "", "leased", "", ""]),
    ] {
        let (topic, messages) = one_of_each(&client).await;
        let mut asked: Vec<&str> = messages.iter().map(String::as_str).collect();
        asked.push(unknown);
        let results = by_ids(&client, verb, &asked).await;
        let mut expected: Vec<&str> = statuses.to_vec();
        expected.extend(["message_not_found"; 2]);
        assert_eq!(results, expected, "{verb}");
        for (id, state) in messages.iter().zip(states) {
            match state {
                "" => drop(client.get(id).await.problem(404, "message_not_found")),
                _ => assert_eq!(client.state(id).await, state, "{verb} {id}"),
            }
        }
        topic_in_balance(&client, &topic).await;
    }
}

#[tokio::test]
async fn an_id_counts_once_and_many_count_all() {
    let (client, topic) = (client().await, topic("bulk"));
    let messages = vec![json!({"payload": 1, "delay_ms": 60_000}); 1000];
    let all = client.fill(&topic, &messages).await;
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    assert_eq!(by_ids(&client, "run", &all).await, vec![json!("ok"); 1000]);
    assert_eq!(client.count(&topic, "ready").await, 1000);
    let twice = [all[0], all[1], all[0]];
    let results = by_ids(&client, "delete", &twice).await;
    assert_eq!(results, ["ok", "ok", "message_not_found"]);
    assert_eq!(client.total(&topic, "deleted").await, 2);
}

#[tokio::test]
async fn a_run_wakes_who_waits_and_makes_nothing_later() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("bulk"));
    let soon = client.published(&topic, json!({"payload": 1, "delay_ms": 30_000})).await;
    let waiting = client.leased(&topic, json!({"wait_ms": 20_000}));
    let run = async {
        waiters(&client, 1).await;
        by_ids(&client, "run", &[&soon]).await
    };
    let (held, results) = tokio::join!(waiting, run);
    assert_eq!((ids(&held), results), (vec![soon], vec![json!("ok")]));

    let due = async |id: &str| instant_ms(text(&client.get(id).await.json(), "due_at"));
    let (topic, near, near_before, far, far_before) = loop {
        let topic = crate::harness::topic("bulk");
        let near = client.published(&topic, json!({"payload": 2, "delay_ms": 60_000})).await;
        let far = client.published(&topic, json!({"payload": 3, "delay_ms": 6_000_000})).await;
        let before = (due(&near).await, due(&far).await);
        // The second of two would fall due after half an hour.
        let run = one_request(&client, &topic, "run", &json!({"spread_ms": 3_600_000})).await;
        if run.get("next_cursor").is_none() {
            assert_eq!([&run["run"], &run["matched"], &run["scanned"]], [2, 2, 2]);
            break (topic, near, before.0, far, before.1);
        }
    };
    assert!(due(&near).await < near_before - 50_000);
    let far_after = due(&far).await;
    let half = far_before - 6_000_000 + 1_800_000;
    assert!((half..half + 20_000).contains(&far_after), "{far_after} {half}");
    // Again: the first is ready by now, and the other would fall due later.
    let held = client.lease_one(&topic).await;
    client.nack_leased(&held, json!({"delay_ms": 1_000})).await.expect(200);
    let run = one_request(&client, &topic, "run", &json!({"spread_ms": 36_000_000})).await;
    assert_eq!((&run["run"], due(&far).await), (&json!(1), far_after));
}

#[tokio::test]
async fn a_run_restarts_a_ttl_and_keeps_the_rest() {
    let (client, topic) = (client().await, topic("bulk"));
    let message = json!({
        "payload": {"a": 1}, "delay_ms": 600_000, "ttl_ms": 60_000, "priority": 9, "key": "k",
        "max_attempts": 3, "headers": {"a": "b"},
    });
    let id = client.published(&topic, message).await;
    let before = client.get(&id).await.json();
    on_topic(&client, &topic, "run", json!({})).await;
    let mut after = client.get(&id).await.json();
    let life = instant_ms(text(&after, "expires_at")) - instant_ms(text(&after, "due_at"));
    assert_eq!(life, 60_000);
    assert_eq!(
        (&after["state"], &after["events"][1]["kind"]),
        (&json!("ready"), &json!("updated"))
    );
    for changed in ["state", "due_at", "waiting_for", "expires_at", "events"] {
        after[changed] = before[changed].clone();
    }
    assert_eq!(after, before);
}

#[tokio::test]
async fn a_message_that_was_run_leaves_nothing_behind() {
    let (redis, client, topic) = (&shared().await.redis, client().await, topic("bulk"));
    client.published(&topic, json!({"payload": 1, "delay_ms": 600_000})).await;
    on_topic(&client, &topic, "run", json!({})).await;
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    let [messages, events] = ["messages", "events"].map(|of| format!("dueq:{{{topic}:0}}:{of}"));
    assert_eq!(redis.command::<i64>(&["EXISTS", &messages, &events]).await, 0);
}

#[tokio::test]
async fn a_blocked_message_is_due_and_waits_for_its_turn() {
    let (client, topic) = (client().await, topic("bulk"));
    client.new_topic(&topic, json!({"group_concurrency": 1})).await;
    let later = json!({"payload": 1, "group": "g", "delay_ms": 600_000});
    let first = client.published(&topic, later.clone()).await;
    let second = client.published(&topic, later).await;
    let only = on_topic(&client, &topic, "run", json!({"states": ["blocked"]})).await;
    assert_eq!(only["run"], 1);
    assert!(client.leased(&topic, json!({})).await.is_empty());
    // What is due as early counts no more.
    for run in [1, 0] {
        assert_eq!(on_topic(&client, &topic, "run", json!({})).await["run"], run);
    }
    for id in [first, second] {
        let held = client.lease_one(&topic).await;
        assert_eq!(held["id"], *id);
        client.ack_leased(&held).await.expect(204);
    }
}

#[tokio::test]
async fn a_query_chooses_what_is_redriven_purged_or_run() {
    for partitions in [1, 4] {
        let (client, topic) = (client().await, topic("bulk"));
        client.new_topic(&topic, json!({"partitions": partitions})).await;
        for n in 0..20 {
            let reason = if n % 5 == 0 { "timeout" } else { "refused" };
            dies_of(&client, &topic, json!({"payload": {"n": n}}), reason).await;
        }
        let query = json!({"q": "error:timeout", "dry_run": true});
        let seen = on_topic(&client, &topic, "redrive", query.clone()).await;
        let expected = json!({"redriven": 0, "remaining": 20, "matched": 4, "scanned": 20});
        assert_eq!(seen, expected);
        let others = json!({"q": "-error:timeout -payload.$.n:<4 OR -refused", "dry_run": true});
        assert_eq!(on_topic(&client, &topic, "redrive", others).await["matched"], 13 + 4);
        let seen = on_topic(&client, &topic, "redrive", json!({"q": "error:timeout"})).await;
        let expected = json!({"redriven": 4, "remaining": 16, "matched": 4, "scanned": 20});
        assert_eq!(seen, expected);
        let seen = on_topic(&client, &topic, "redrive", json!({"q": "error:timeout"})).await;
        let expected = json!({"redriven": 0, "remaining": 16, "matched": 0, "scanned": 16});
        assert_eq!(seen, expected);

        let query = json!({"states": ["dead", "ready"], "q": "payload.$.n:<6", "dry_run": true});
        let seen = on_topic(&client, &topic, "purge", query.clone()).await;
        assert_eq!((&seen["purged"], &seen["matched"]), (&json!(0), &json!(6)));
        let query = json!({"states": ["dead", "ready"], "q": "payload.$.n:<6"});
        let seen = on_topic(&client, &topic, "purge", query).await;
        let expected = json!({"purged": 6, "remaining": 14, "matched": 6, "scanned": 20});
        assert_eq!(seen, expected);
        let facts = topic_in_balance(&client, &topic).await;
        assert_eq!(
            (&facts["totals"]["purged"], &facts["totals"]["redriven"]),
            (&json!(6), &json!(4))
        );
    }
}

#[tokio::test]
async fn a_bulk_operation_goes_on_at_its_cursor() {
    for partitions in [1, 4] {
        let (client, topic) = (client().await, topic("bulk"));
        client.new_topic(&topic, json!({"partitions": partitions})).await;
        let message = |n: usize| json!({"payload": {"n": n % 2}, "delay_ms": 600_000 + n});
        let messages: Vec<_> = (0..600).map(message).collect();
        client.published_batch(&topic, &messages).await;
        let (mut run, mut want) = (0, json!({"q": "payload.$.n:1", "max_messages": 70}));
        loop {
            let some = one_request(&client, &topic, "run", &want).await;
            assert_eq!(some["run"], some["matched"]);
            run += number(&some, "run");
            match some.get("next_cursor") {
                Some(cursor) => want["cursor"] = cursor.clone(),
                None => break,
            }
            // A slow machine cuts it short.
            assert!(number(&some, "run") <= 70, "{some}");
        }
        assert_eq!(run, 300);
        assert_eq!(client.count(&topic, "ready").await, 300);
        // It belongs to its operation, its states and its query.
        let mut other = want.clone();
        other["q"] = json!("payload.$.n:2");
        unprocessable(client.post(&format!("/topics/{topic}/run"), &other).await, "cursor");
        unprocessable(client.post(&format!("/topics/{topic}/redrive"), &want).await, "cursor");
    }
}

#[tokio::test]
async fn a_spread_redrive_of_what_was_found_is_even() {
    let client = client().await;
    let topic = loop {
        let topic = topic("bulk");
        for n in 0..8 {
            dies_of(&client, &topic, json!({"payload": {"n": n}}), "timeout").await;
        }
        let want = json!({"q": "payload.$.n:<4", "spread_ms": 400_000});
        let redriven = one_request(&client, &topic, "redrive", &want).await;
        if redriven.get("next_cursor").is_none() {
            assert_eq!(redriven["redriven"], 4);
            break topic;
        }
    };
    let listed = client.listed(&topic, "state=delayed").await;
    let due: Vec<_> = listed.iter().map(|m| instant_ms(text(m, "due_at"))).collect();
    assert_eq!(due.len(), 3, "the first is ready");
    for pair in due.windows(2) {
        assert!((99_000..=101_000).contains(&(pair[1] - pair[0])), "{due:?}");
    }
}

#[tokio::test]
async fn a_payload_comes_as_it_was_published() {
    let (client, topic) = (client().await, topic("payload"));
    for payload in ["9007199254740993", "1E400", "{ \"a\":1, \"a\" : 2 }", "null", "\"\\u00e9\""] {
        let body = format!("{{\"payload\":{payload}}}");
        let path = format!("/topics/{topic}/messages");
        let published = client.post_text(&path, &body).await.expect(201);
        let id = published.text("id").to_owned();
        let answer = client.get_path(&format!("/messages/{id}/payload")).await.expect(200);
        assert_eq!(&answer.body[..], payload.as_bytes());
        assert_eq!(answer.header("content-type"), "application/octet-stream");
        let name = format!("attachment; filename=\"{id}.json\"");
        assert_eq!(answer.header("content-disposition"), name);
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("content-security-policy"), "default-src 'none'; sandbox");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
    let page = b"<script>alert(1)</script>\0\xff".to_vec();
    let path = format!("/topics/{topic}/messages/raw");
    let published = client.post_bytes(&path, Some("text/html"), page.clone()).await.expect(201);
    let id = published.text("id").to_owned();
    let answer = client.get_path(&format!("/messages/{id}/payload")).await.expect(200);
    assert_eq!(
        (&answer.body[..], answer.header("content-type")),
        (&page[..], "application/octet-stream")
    );
    assert!(answer.header("content-disposition").ends_with(".bin\""));
    client.delete(&id).await.expect(204);
    let gone = client.get_path(&format!("/messages/{id}/payload")).await;
    gone.problem(404, "message_not_found");
    client.get_path("/messages/no-uuid/payload").await.problem(400, "invalid_message_id");
    unprocessable(client.get_path(&format!("/messages/{id}/payload?x=1")).await, "x");
}

#[tokio::test]
async fn whoever_may_not_read_learns_nothing_by_a_query() {
    let topic = topic("queries");
    let file = KeyFile::of(&[("admin", "admin"), ("operator", "operate:*")]);
    let dueq = file.start().await;
    let admin = dueq.client().with_key(file.key("admin"));
    admin.published(&topic, json!({"payload": "s3cret", "delay_ms": 60_000})).await;
    let operator = dueq.client().with_key(file.key("operator"));
    let query = json!({"q": "payload:s3*", "dry_run": true});
    for verb in ["run", "redrive", "purge"] {
        let mut want = query.clone();
        if verb == "purge" {
            want["states"] = json!(["delayed"]);
        }
        let path = format!("/topics/{topic}/{verb}");
        let refused = operator.post(&path, &want).await.problem(403, "not_allowed");
        assert_eq!(refused.text("detail"), format!("the key operator lacks read:{topic}"));
        want.as_object_mut().unwrap().remove("q");
        operator.post(&path, &want).await.expect(200);
    }
}

#[tokio::test]
async fn a_request_looks_at_so_many_messages_over_all_states() {
    let (client, topic) = (client().await, topic("bulk"));
    for delay in [0, 600_000] {
        client.fill(&topic, &vec![json!({"payload": 1, "delay_ms": delay}); 6000]).await;
    }
    let mut ask = json!({"states": ["ready", "delayed"], "dry_run": true});
    let (mut matched, mut requests) = (0, 0);
    loop {
        let seen = one_request(&client, &topic, "purge", &ask).await;
        let scanned = seen["scanned"].as_i64().unwrap();
        assert!((1..=10_000).contains(&scanned), "{seen}");
        assert_eq!(seen["matched"], scanned);
        (matched, requests) = (matched + scanned, requests + 1);
        match seen.get("next_cursor") {
            Some(next) => ask["cursor"] = next.clone(),
            None => break,
        }
    }
    assert!(matched == 12_000 && requests > 1, "{matched} in {requests} requests");
}
