//! The named policies for duplicates: `debounce` publishes when it has been quiet for a while, `throttle` at most once per
//! interval, `once` once within a time.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::facts::{counted, gone, topic_in_balance, unprocessable};
use crate::harness::*;
use crate::partitions::split;
use crate::topic_facts::full;

fn debounced(payload: impl Into<Value>, delay_ms: i64, max_wait_ms: i64) -> Value {
    let debounce = json!({"key": "k", "delay_ms": delay_ms, "max_wait_ms": max_wait_ms});
    json!({"payload": payload.into(), "debounce": debounce})
}

fn throttled(payload: impl Into<Value>, every_ms: i64) -> Value {
    json!({"payload": payload.into(), "throttle": {"key": "k", "every_ms": every_ms}})
}

fn once(payload: impl Into<Value>, for_ms: i64) -> Value {
    json!({"payload": payload.into(), "once": {"key": "k", "for_ms": for_ms}})
}

/// Leases the next message, which must have this payload.
async fn next(client: &Client, topic: &str, payload: impl Into<Value>) -> Value {
    let held = client.leased(topic, json!({"wait_ms": 10_000})).await.remove(0);
    assert_eq!(held["payload"], payload.into(), "{held}");
    held
}

#[tokio::test]
async fn each_debounced_publish_moves_the_message_and_replaces_its_content() {
    let (client, topic) = (client().await, topic("debounce"));
    let message = |payload: i64, delay: i64| json!({"payload": payload, "priority": payload, "debounce": {"key": "k", "delay_ms": delay}});
    let first = client.publish(&topic, message(1, 60_000)).await.expect(201);
    for (payload, delay) in [(2, 90_000), (3, 30_000)] {
        let before = shared().await.redis.time_ms().await;
        let again = client.publish(&topic, message(payload, delay)).await.expect(200);
        let after = shared().await.redis.time_up_ms().await;
        assert_eq!((again.text("id"), again.text("state")), (first.text("id"), "delayed".into()));
        assert_eq!(again.json()["duplicate"], true);
        let due = again.instant("due_at");
        assert!((before + delay..=after + delay).contains(&due), "{before} {after} {again}");
        let seen = client.get_by_key(&topic, "k").await.expect(200);
        assert_eq!((seen.number("payload"), seen.number("priority")), (payload, payload));
    }
    counted(&client, &topic, &[("totals", "published", 1), ("totals", "replaced", 2)]).await;
    client.delete_by_key(&topic, "k", "").await.expect(204);
    client.publish(&topic, message(4, 1)).await.expect(201);
}

#[tokio::test]
async fn no_debounced_message_is_due_later_than_its_first_publish_and_the_longest_wait() {
    let (client, topic) = (client().await, topic("debounce"));
    let before = shared().await.redis.time_ms().await;
    let first = client.publish(&topic, debounced(1, 60_000, 5_000)).await.expect(201);
    let after = shared().await.redis.time_up_ms().await;
    let due = first.instant("due_at");
    assert!((before + 5_000..=after + 5_000).contains(&due), "{before} {after} {first}");
    let published = first.instant("published_at");
    for (delay, max_wait, latest) in [(60_000, 90_000, None), (120_000, 90_000, Some(90_000))] {
        let again = client.publish(&topic, debounced(2, delay, max_wait)).await.expect(200);
        assert_eq!(again.text("id"), first.text("id"));
        if let Some(latest) = latest {
            assert_eq!(again.instant("due_at"), published + latest);
        } else {
            assert!(again.instant("due_at") >= published + delay, "{again}");
        }
    }
}

#[tokio::test]
async fn a_debounced_message_that_has_waited_longest_stays_due_takes_the_latest_content_and_lives_on()
 {
    for (config, lives) in [(json!({"ttl_ms": 60_000}), None), (json!({}), Some(1_000))] {
        let (client, topic) = (client().await, topic("debounce"));
        client.configure(&topic, config).await;
        let first = client.publish(&topic, debounced("old", 1, 1)).await.expect(201);
        crate::facts::reaches(&client, &first.text("id"), "ready").await;
        let before = shared().await.redis.time_ms().await;
        let mut latest = debounced("new", 60_000, 1);
        if let Some(ttl) = lives {
            latest["ttl_ms"] = json!(ttl);
        }
        let again = client.publish(&topic, latest).await.expect(200);
        assert_eq!(again.text("state"), "ready");
        assert_eq!(again.instant("due_at"), first.instant("published_at") + 1);
        let seen = client.get(&first.text("id")).await.expect(200);
        assert!(seen.instant("expires_at") >= before + lives.unwrap_or(60_000), "{before} {seen}");
        next(&client, &topic, "new").await;
    }
}

#[tokio::test]
async fn a_debounced_publish_begins_a_new_message_once_the_last_is_granted() {
    let (client, topic) = (client().await, topic("debounce"));
    let first = client.published(&topic, debounced(1, 1, 1)).await;
    let held = next(&client, &topic, 1).await;
    let second = client.publish(&topic, debounced(2, 60_000, 90_000)).await.expect(201);
    client.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
    let third = client.publish(&topic, debounced(3, 60_000, 90_000)).await.expect(200);
    assert_eq!(third.text("id"), second.text("id"));
    assert_eq!(next(&client, &topic, 1).await["id"], first, "what failed comes back as it was");
    // A message that keeps its key while it is leased stands in the way, as it does of any replace.
    client.published(&topic, json!({"payload": "kept", "key": "kept"})).await;
    next(&client, &topic, "kept").await;
    let other = json!({"payload": 2, "debounce": {"key": "kept", "delay_ms": 1}});
    client.publish(&topic, other).await.problem(409, "message_leased");
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_throttle_lets_the_first_through_and_the_latest_at_the_end_of_each_interval() {
    let (client, topic) = (client().await, topic("throttle"));
    let first = client.publish(&topic, throttled("a", 2_000)).await.expect(201);
    assert_eq!((first.text("state"), &first.json()["duplicate"]), ("ready".into(), &json!(false)));
    // The first has not been granted yet, and keeps its content.
    let trailing = client.publish(&topic, throttled("b", 2_000)).await.expect(201);
    assert_eq!(trailing.instant("due_at"), first.instant("due_at") + 2_000);
    let held = next(&client, &topic, "a").await;
    assert_eq!(held["id"], first.text("id"));
    client.ack_leased(&held).await.expect(204);
    let latest = client.publish(&topic, throttled("c", 2_000)).await;
    if latest.status == 200 {
        for name in ["id", "due_at"] {
            assert_eq!(latest.json()[name], trailing.json()[name]);
        }
        let held = next(&client, &topic, "c").await;
        assert_eq!(held["id"], trailing.text("id"));
        // The next interval began with it.
        let next_one = client.publish(&topic, throttled("d", 2_000)).await.expect(201);
        let begun = trailing.instant("due_at") + 2_000;
        let due = next_one.instant("due_at");
        assert!(due == begun || (due > begun && next_one.text("state") == "ready"), "{next_one}");
    } else {
        // The machine was slow: it came too late.
        assert!(latest.instant("due_at") >= trailing.instant("due_at") + 2_000, "{latest}");
    }
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn one_message_waits_for_the_end_of_an_interval_whatever_becomes_of_the_others() {
    let (client, topic) = (client().await, topic("throttle"));
    let first = client.publish(&topic, throttled(1, 60_000)).await.expect(201);
    client.post(&format!("/topics/{topic}/pause"), &json!({})).await.expect(200);
    let due = first.instant("due_at") + 60_000;
    let mut trailing = String::new();
    for n in 2..6 {
        let answer = client.publish(&topic, throttled(n, 60_000)).await;
        assert_eq!(
            (answer.status, answer.instant("due_at")),
            (if n == 2 { 201 } else { 200 }, due)
        );
        trailing = answer.text("id");
        assert_eq!(client.get(&trailing).await.expect(200).number("payload"), n);
    }
    client.post(&format!("/topics/{topic}/resume"), &json!({})).await.expect(200);
    // It is changed, deleted or run, and the next one has its place.
    client.update(&trailing, json!({"delay_ms": 3_600_000})).await.expect(200);
    let moved_back = client.publish(&topic, throttled(6, 60_000)).await.expect(200);
    assert_eq!((moved_back.text("id"), moved_back.instant("due_at")), (trailing.clone(), due));
    client.delete(&trailing).await.expect(204);
    let another = client.publish(&topic, throttled(7, 60_000)).await.expect(201);
    assert_eq!(another.instant("due_at"), due);
    client.ack_leased(&next(&client, &topic, 1).await).await.expect(204);
    client.update(&another.text("id"), json!({"delay_ms": 0})).await.expect(200);
    next(&client, &topic, 7).await;
    let third = client.publish(&topic, throttled(8, 60_000)).await.expect(201);
    assert_eq!(third.instant("due_at"), due);
    // Another name has intervals of its own.
    let other = json!({"payload": 1, "throttle": {"key": "other", "every_ms": 60_000}});
    assert_eq!(client.publish(&topic, other).await.expect(201).text("state"), "ready");
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn what_is_throttled_does_not_pile_up_while_consumers_are_behind() {
    let client = client().await;
    let (topic, leased) = loop {
        let topic = topic("throttle");
        client.publish(&topic, throttled(0, 300)).await.expect(201);
        client.post(&format!("/topics/{topic}/pause"), &json!({})).await.expect(200);
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        for n in 1..15 {
            let begun = Instant::now();
            client.publish(&topic, throttled(n, 300)).await;
            longest = longest.max(last.elapsed());
            last = begun;
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
        client.post(&format!("/topics/{topic}/resume"), &json!({})).await.expect(200);
        tokio::time::sleep(Duration::from_millis(400)).await;
        let leased = client.leased(&topic, json!({"max_messages": 50})).await;
        // On a machine that is slower than this, every interval has a message.
        if longest < Duration::from_millis(300) {
            break (topic, leased);
        }
    };
    assert!(leased.len() <= 2 && leased[leased.len() - 1]["payload"] == 14, "{leased:?}");
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_throttled_message_that_was_run_stays_ready_and_one_that_failed_keeps_its_content() {
    let (client, topic) = (client().await, topic("throttle"));
    client.publish(&topic, throttled(1, 60_000)).await.expect(201);
    client.ack_leased(&next(&client, &topic, 1).await).await.expect(204);
    let trailing = client.publish(&topic, throttled(2, 60_000)).await.expect(201).text("id");
    client.post("/messages/run", &json!({"ids": [trailing]})).await.expect(200);
    let replaced = client.publish(&topic, throttled(3, 60_000)).await.expect(200);
    assert_eq!((replaced.text("id"), replaced.text("state")), (trailing, "ready".to_owned()));
    let failing = next(&client, &topic, 3).await;
    client.nack_leased(&failing, json!({"delay_ms": 60_000})).await.expect(200);
    let another = client.publish(&topic, throttled(4, 60_000)).await.expect(201);
    assert_eq!(another.text("state"), "delayed");
    assert_eq!(client.get(failing["id"].as_str().unwrap()).await.expect(200).number("payload"), 3);
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn a_repeat_of_what_is_published_once_gets_the_first_answer_whatever_its_content() {
    let (client, topic) = (client().await, topic("once"));
    let first = client.publish(&topic, once(1, 60_000)).await.expect(201).json();
    let mut other = once("other", 1);
    (other["priority"], other["delay_ms"]) = (json!(9), json!(5_000));
    for state in ["ready", "leased", "gone"] {
        match state {
            "leased" => drop(next(&client, &topic, 1).await),
            "gone" => drop(client.delete_by_force(text(&first, "id")).await.expect(204)),
            _ => {}
        }
        let again = client.publish(&topic, other.clone()).await.expect(200).json();
        for name in ["id", "due_at", "published_at"] {
            assert_eq!(again[name], first[name], "{name}");
        }
        assert_eq!((text(&again, "state"), &again["duplicate"]), (state, &json!(true)));
    }
    gone(&client, text(&first, "id")).await;
    counted(&client, &topic, &[("totals", "published", 1)]).await;
}

#[tokio::test]
async fn what_is_published_once_is_published_again_when_its_time_is_over() {
    let (client, topic) = (client().await, topic("once"));
    let mut message = once(1, 300);
    message["deliver_at"] = json!("2100-01-01T00:00:00Z");
    let first = client.publish(&topic, message).await.expect(201);
    let end = first.instant("published_at") + 300;
    let again = eventually("the end of the time", || async {
        let answer = client.publish(&topic, once(2, 60_000)).await;
        (answer.status == 201).then_some(answer)
    })
    .await;
    assert!(again.instant("due_at") >= end, "{again}");
}

#[tokio::test]
async fn each_kind_of_name_is_apart_from_the_others() {
    let (client, topic) = (client().await, topic("names"));
    let message = |name: &str, value: Value| json!({"payload": 1, name: value});
    let all = [
        message("key", json!("k")),
        message("idempotency_key", json!("k")),
        throttled(1, 60_000),
        once(1, 60_000),
    ];
    let results = client.published_batch(&topic, &all).await;
    assert!(results.iter().all(|result| result["message"]["duplicate"] == false), "{results:?}");
    // A debounced message has its key as its own.
    let same = client.publish(&topic, debounced(2, 1, 1)).await.expect(200);
    assert_eq!(same.text("id"), text(&results[0]["message"], "id"));
}

#[tokio::test]
async fn messages_of_a_batch_with_one_name_take_effect_in_their_order() {
    let (client, topic) = (client().await, topic("batch"));
    let numbers = [1, 2, 3];
    let results = client.published_batch(&topic, &numbers.map(|n| throttled(n, 60_000))).await;
    let ids: Vec<_> = results.iter().map(|result| text(&result["message"], "id")).collect();
    assert!(ids[0] != ids[1] && ids[1] == ids[2], "{results:?}");
    assert_eq!(client.get(ids[0]).await.json()["payload"], 1);
    assert_eq!(client.get(ids[2]).await.json()["payload"], 3);
    let results =
        client.published_batch(&topic, &numbers.map(|n| debounced(n, 9_000, 9_000))).await;
    assert_eq!(client.get_by_key(&topic, "k").await.json()["payload"], 3);
    let flags: Vec<_> = results.iter().map(|result| &result["message"]["duplicate"]).collect();
    assert_eq!(flags, [false, true, true]);
    let results = client.published_batch(&topic, &numbers.map(|n| once(n, 60_000))).await;
    let ids: Vec<_> = results.iter().map(|result| text(&result["message"], "id")).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{results:?}");
    assert_eq!(client.get(ids[0]).await.json()["payload"], 1);
}

#[tokio::test]
async fn of_many_publishes_at_once_over_instances_and_partitions_the_right_number_is_stored() {
    let other = instance().await;
    let client = client().await;
    let clients = [client.clone(), other.client()];
    for partitions in [1, 4] {
        let topic = split(&client, partitions, json!({})).await;
        for (kind, stored) in [("throttle", 2), ("debounce", 1), ("once", 1)] {
            let sends = (0..60).map(|n| {
                let message = match kind {
                    "throttle" => throttled(n, 600_000),
                    "debounce" => debounced(n, 600_000, 600_000),
                    _ => once(n, 600_000),
                };
                clients[n % 2].publish(&topic, message)
            });
            let answers = join_all(sends).await;
            let new: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
            assert_eq!(new.len(), stored, "{kind}");
            let repeat = answers.iter().find(|answer| answer.status == 200).unwrap();
            assert!(new.iter().any(|answer| answer.text("id") == repeat.text("id")), "{kind}");
        }
        let totals = [("totals", "published", 4), ("totals", "replaced", 58 + 59)];
        counted(&client, &topic, &totals).await;
        let refused = client.update_topic(&topic, json!({"partitions": 8})).await;
        refused.problem(409, "names_in_use");
    }
}

#[tokio::test]
async fn a_policy_goes_with_a_group_where_one_partition_knows_both() {
    let client = client().await;
    let all = [debounced(1, 60_000, 60_000), throttled(1, 60_000), once(1, 60_000)];
    for (partitions, policy) in [1, 2].into_iter().flat_map(|n| all.iter().map(move |it| (n, it))) {
        let topic = split(&client, partitions, json!({})).await;
        let mut message = policy.clone();
        message["group"] = json!("g");
        let answer = client.publish(&topic, message.clone()).await;
        if partitions == 2 {
            unprocessable(answer, "group");
            continue;
        }
        answer.expect(201);
        // Blocked or not, each is replaced where it is.
        for n in [2, 3] {
            message["payload"] = json!(n);
            client.publish(&topic, message.clone()).await;
        }
        let stored = if policy.get("throttle").is_some() { 2 } else { 1 };
        counted(&client, &topic, &[("totals", "published", stored)]).await;
        message["group"] = json!("another");
        let answer = client.publish(&topic, message.clone()).await;
        match policy.get("once") {
            None => drop(answer.problem(422, "group_changed")),
            Some(_) => drop(answer.expect(200)),
        }
    }
}

#[tokio::test]
async fn a_full_topic_takes_what_replaces_and_remembers_nothing_that_it_refuses() {
    let (client, topic) = (client().await, topic("full"));
    client.configure(&topic, json!({"max_messages": 2})).await;
    client.published(&topic, debounced(1, 60_000, 60_000)).await;
    for message in [throttled(1, 60_000), once(1, 60_000)] {
        let filler = client.published(&topic, json!({"payload": "filler"})).await;
        client.publish(&topic, debounced(2, 60_000, 60_000)).await.expect(200);
        full(client.publish(&topic, message.clone()).await);
        client.delete(&filler).await.expect(204);
        let stored = client.publish(&topic, message).await.expect(201);
        assert_eq!(stored.text("state"), "ready");
        client.ack_leased(&next(&client, &topic, 1).await).await.expect(204);
    }
}

#[tokio::test]
async fn callbacks_have_policies_and_schedules_and_raw_bodies_have_none() {
    let (client, topic) = (client().await, topic("where"));
    let name = topic.as_str();
    let call = |policy: &str, time: &str| {
        let policies = json!({policy: {"key": name, time: 600_000}});
        let mut call = json!({"url": "http://a.invalid/"});
        call[policy] = policies[policy].clone();
        call
    };
    for (policy, time, statuses) in [
        ("debounce", "delay_ms", [201, 200, 200]),
        ("once", "for_ms", [201, 200, 200]),
        ("throttle", "every_ms", [201, 201, 200]),
    ] {
        let mut got = Vec::new();
        for _ in 0..3 {
            got.push(client.post("/callbacks", &call(policy, time)).await.status);
        }
        assert_eq!(got, statuses, "{policy}");
    }
    client.delete_by_key("_callbacks", name, "").await.expect(204);
    let message = json!({"payload": 1, "throttle": {"key": "k", "every_ms": 1}});
    let schedule = json!({"every_ms": 600_000, "topic": topic, "message": message});
    let answer = client.send_json("PUT", &format!("/schedules/{topic}"), &schedule).await;
    unprocessable(answer, "message.throttle");
    unprocessable(client.publish_raw(&topic, "?once=k", None, b"x").await, "once");
}

#[tokio::test]
async fn what_a_policy_says_itself_is_refused_with_it() {
    let (client, topic) = (client().await, topic("bad"));
    let named = [
        ("key", json!("k")),
        ("on_duplicate", json!("replace")),
        ("key_until", json!("done")),
        ("idempotency_key", json!("k")),
    ];
    let times = [("delay_ms", json!(0)), ("deliver_at", json!("2100-01-01T00:00:00Z"))];
    for (policy, good) in
        [("debounce", debounced(1, 1, 1)), ("throttle", throttled(1, 1)), ("once", once(1, 1))]
    {
        let also = if policy == "once" { &times[..0] } else { &times[..] };
        for (field, value) in named.iter().chain(also) {
            let mut message = good.clone();
            message[*field] = value.clone();
            if field.starts_with("on_") || field.ends_with("until") {
                message["key"] = json!("k");
            }
            unprocessable(client.publish(&topic, message.clone()).await, field);
            let answer =
                client.publish_batch(&topic, &[json!({"payload": 1}), message.clone()]).await;
            unprocessable(answer, &format!("messages[1].{field}"));
            message["url"] = json!("http://a.invalid/");
            unprocessable(client.post("/callbacks", &message).await, field);
        }
        let by_header = client.publish_with_header(&topic, "k", good.clone()).await;
        unprocessable(by_header, "idempotency_key");
        for (other, value) in [("throttle", "every_ms"), ("once", "for_ms")] {
            let mut message = debounced(1, 1, 1);
            message[other] = json!({"key": "k", value: 1});
            unprocessable(client.publish(&topic, message).await, other);
        }
        for (part, value) in good[policy].as_object().unwrap() {
            let mut message = good.clone();
            message[policy][part] = if value.is_string() { json!("") } else { json!(0) };
            unprocessable(
                client.publish(&topic, message.clone()).await,
                &format!("{policy}.{part}"),
            );
            message[policy].as_object_mut().unwrap().remove(part);
            let answer = client.publish(&topic, message).await;
            match part.as_str() {
                "max_wait_ms" => drop(answer.expect(201)),
                _ => drop(unprocessable(answer, &format!("{policy}.{part}"))),
            }
        }
    }
}
