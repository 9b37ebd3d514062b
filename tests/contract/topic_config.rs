//! putTopic and updateTopic: what is put is what is in force and what is read back; absent and null
//! mean what the contract says of each.

use serde_json::{Value, json};

use crate::harness::*;

/// Every setting at a value of its own.
fn everything() -> Value {
    json!({
        "lease_ms": 5000,
        "max_attempts": 3,
        "backoff": {
            "kind": "exponential", "base_ms": 500, "factor": 1.5, "max_ms": 60_000, "jitter": 0.25,
        },
        "ttl_ms": 86_400_000,
        "max_payload_bytes": 1000,
        "max_messages": 100,
        "on_full": "drop_oldest",
        "idempotency_window_ms": 1000,
        "retention": {"acked_ms": 60_000, "acked_max": 20, "dead_ms": 120_000, "dead_max": 10},
    })
}

/// What a topic has that nobody configured.
fn defaults() -> Value {
    json!({
        "lease_ms": 30_000,
        "max_attempts": 10,
        "backoff": {
            "kind": "exponential", "base_ms": 1000, "factor": 2.0, "max_ms": 3_600_000, "jitter": 0.1,
        },
        "max_payload_bytes": 262_144,
        "on_full": "reject",
        "idempotency_window_ms": 600_000,
        "retention": {
            "acked_ms": 0, "acked_max": 100_000, "dead_ms": 1_209_600_000, "dead_max": 100_000,
        },
    })
}

/// Demands that a topic's config has these settings, whatever else it may gain, and that the limits
/// that have no default are absent unless they are among them.
#[track_caller]
fn has_config(topic: &Value, want: &Value) {
    let config = &topic["config"];
    for (name, value) in want.as_object().unwrap() {
        assert_eq!(&config[name], value, "{name}: {topic}");
    }
    for name in ["ttl_ms", "max_messages"] {
        assert_eq!(config.get(name), want.get(name), "{name}: {topic}");
    }
}

/// `base` with some settings set, or taken out where they are null.
fn with(mut base: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(base.as_object_mut().unwrap().remove(name)),
            value => base[name] = value.clone(),
        }
    }
    base
}

#[tokio::test]
async fn a_topic_is_created_with_201_and_replaced_with_200() {
    let (client, topic) = (client().await, topic("config"));
    let made = client.put_topic(&topic, json!({"lease_ms": 1000})).await.expect(201).json();
    assert_eq!(made["name"], topic);
    assert_eq!(made["paused"], false);
    assert_eq!(made["counts"]["ready"], 0);
    assert_eq!(made["totals"]["published"], 0);
    let put = client.put_topic(&topic, json!({"lease_ms": 2000})).await.expect(200).json();
    assert_eq!(put["config"]["lease_ms"], 2000);
    assert_eq!(client.topic(&topic).await.expect(200).json(), put);
}

#[tokio::test]
async fn a_topic_made_by_its_first_message_is_replaced_with_200() {
    let (client, topic) = (client().await, topic("config"));
    client.published(&topic, json!({"payload": 1})).await;
    let put = client.put_topic(&topic, json!({"lease_ms": 2000})).await.expect(200).json();
    assert_eq!(put["counts"]["ready"], 1);
    assert_eq!(put["config"]["lease_ms"], 2000);
}

#[tokio::test]
async fn the_config_read_is_the_config_put() {
    let (client, topic) = (client().await, topic("config"));
    let put = client.put_topic(&topic, everything()).await.expect(201).json();
    has_config(&put, &everything());
    let seen = client.topic(&topic).await.expect(200).json();
    has_config(&seen, &everything());
    let again = client.put_topic(&topic, seen["config"].clone()).await.expect(200).json();
    assert_eq!(again["config"], seen["config"], "what was read can be put back");
}

#[tokio::test]
async fn each_kind_of_backoff_is_read_back() {
    let (client, topic) = (client().await, topic("config"));
    for backoff in [
        json!({"kind": "fixed", "base_ms": 1}),
        json!({"kind": "fixed", "base_ms": 86_400_000}),
        json!({"kind": "schedule", "delays_ms": [0]}),
        json!({"kind": "schedule", "delays_ms": [1000, 1000, 60_000, 5]}),
        json!({"kind": "exponential", "base_ms": 1, "factor": 1.0, "max_ms": 1, "jitter": 0.0}),
        json!({"kind": "exponential", "base_ms": 7, "factor": 1.25, "max_ms": 99, "jitter": 1.0}),
    ] {
        let answer = client.put_topic(&topic, json!({"backoff": backoff})).await;
        assert!(answer.status < 300, "{backoff}: {answer}");
        assert_eq!(answer.json()["config"]["backoff"], backoff);
        let seen = client.topic(&topic).await.expect(200).json();
        assert_eq!(seen["config"]["backoff"], backoff);
    }
}

#[tokio::test]
async fn what_a_backoff_or_a_retention_leaves_out_is_its_default() {
    let (client, topic) = (client().await, topic("config"));
    let all = &defaults()["backoff"];
    for (put, changed) in [
        (json!({"kind": "exponential"}), json!({})),
        (json!({"kind": "exponential", "factor": 3.0}), json!({"factor": 3.0})),
        (json!({"kind": "exponential", "jitter": null, "base_ms": 5}), json!({"base_ms": 5})),
    ] {
        let seen = client.put_topic(&topic, json!({"backoff": put})).await.json();
        assert_eq!(seen["config"]["backoff"], with(all.clone(), &changed), "{put}");
    }
    let all = &defaults()["retention"];
    for (put, changed) in [
        (json!({}), json!({})),
        (json!({"dead_max": 5}), json!({"dead_max": 5})),
        (json!({"acked_ms": 9, "dead_ms": null}), json!({"acked_ms": 9})),
    ] {
        let seen = client.put_topic(&topic, json!({"retention": put})).await.json();
        assert_eq!(seen["config"]["retention"], with(all.clone(), &changed), "{put}");
    }
}

#[tokio::test]
async fn a_put_replaces_the_whole_so_that_absent_and_null_are_the_default() {
    let (client, topic) = (client().await, topic("config"));
    client.new_topic(&topic, everything()).await;
    let put = client.put_topic(&topic, json!({})).await.expect(200).json();
    has_config(&put, &defaults());
    client.put_topic(&topic, everything()).await.expect(200);
    let nulls: Value =
        everything().as_object().unwrap().keys().map(|name| (name.clone(), Value::Null)).collect();
    let put = client.put_topic(&topic, nulls).await.expect(200).json();
    has_config(&put, &defaults());
    for (name, value) in everything().as_object().unwrap() {
        client.put_topic(&topic, everything()).await.expect(200);
        let put = client.put_topic(&topic, json!({name: value})).await.expect(200).json();
        has_config(&put, &with(defaults(), &json!({name: value})));
    }
}

#[tokio::test]
async fn a_patch_leaves_what_it_does_not_name() {
    let (client, topic) = (client().await, topic("config"));
    client.new_topic(&topic, json!({})).await;
    let mut want = defaults();
    for (name, value) in everything().as_object().unwrap() {
        let seen = client.update_topic(&topic, json!({name: value})).await.expect(200).json();
        want = with(want, &json!({name: value}));
        has_config(&seen, &want);
    }
    let seen = client.update_topic(&topic, json!({})).await.expect(200).json();
    has_config(&seen, &everything());
    assert_eq!(client.topic(&topic).await.expect(200).json(), seen);
}

#[tokio::test]
async fn a_null_in_a_patch_resets_that_setting_alone() {
    let (client, topic) = (client().await, topic("config"));
    client.new_topic(&topic, everything()).await;
    let mut want = everything();
    for name in everything().as_object().unwrap().keys() {
        let seen = client.update_topic(&topic, json!({name: null})).await.expect(200).json();
        want = with(want, &json!({name: defaults().get(name)}));
        has_config(&seen, &want);
    }
    has_config(&client.topic(&topic).await.expect(200).json(), &defaults());
}

#[tokio::test]
async fn a_patch_replaces_nested_objects_whole() {
    let (client, topic) = (client().await, topic("config"));
    client.new_topic(&topic, everything()).await;
    let changes = json!({"retention": {"dead_max": 7}, "backoff": {"kind": "exponential"}});
    let seen = client.update_topic(&topic, changes).await.expect(200).json();
    let mut retention = defaults()["retention"].clone();
    retention["dead_max"] = json!(7);
    let changed = json!({"retention": retention, "backoff": defaults()["backoff"]});
    has_config(&seen, &with(everything(), &changed));
    let fixed = json!({"backoff": {"kind": "fixed", "base_ms": 3}});
    let seen = client.update_topic(&topic, fixed.clone()).await.expect(200).json();
    assert_eq!(seen["config"]["backoff"], fixed["backoff"], "nothing of the other kind stays");
}

#[tokio::test]
async fn a_configuration_touches_neither_messages_nor_totals() {
    let (client, topic) = (client().await, topic("config"));
    crate::facts::dead_message(&client, &topic).await;
    client.published(&topic, json!({"payload": 1, "delay_ms": 600_000})).await;
    client.published(&topic, json!({"payload": 1})).await;
    client.lease_one(&topic).await;
    let before = crate::facts::topic_in_balance(&client, &topic).await;
    client.put_topic(&topic, json!({"max_attempts": 1, "lease_ms": 1000})).await.expect(200);
    client.update_topic(&topic, json!({"max_payload_bytes": 1})).await.expect(200);
    let after = crate::facts::topic_in_balance(&client, &topic).await;
    assert_eq!((&after["counts"], &after["totals"]), (&before["counts"], &before["totals"]));
}

#[tokio::test]
async fn names_of_dueq_itself_are_reserved() {
    let client = client().await;
    let message = json!({"payload": 1});
    for name in ["_callbacks", "_own", "_", &format!("_{}", topic("config"))] {
        let path = format!("/topics/{name}");
        for config in [json!({}), json!({"lease_ms": 1000}), json!({"nope": 1})] {
            client.put_topic(name, config.clone()).await.problem(403, "topic_reserved");
            // Of some settings the topic of callbacks takes changes.
            if name != "_callbacks" || config.get("lease_ms").is_some() {
                client.update_topic(name, config).await.problem(403, "topic_reserved");
            }
        }
        client.delete_topic(name, "").await.problem(403, "topic_reserved");
        client.delete_topic(name, "?force=true").await.problem(403, "topic_reserved");
        client.publish(name, message.clone()).await.problem(403, "topic_reserved");
        client.publish_raw(name, "", None, b"x").await.problem(403, "topic_reserved");
        let batch = json!({"messages": [message]});
        let answer = client.post(&format!("{path}/messages/batch"), &batch).await;
        answer.problem(403, "topic_reserved");
    }
    // Looking, pausing and purging are not reserved: there is only nothing there.
    let name = format!("_{}", topic("config"));
    client.topic(&name).await.problem(404, "topic_not_found");
    client.pause_topic(&name).await.problem(404, "topic_not_found");
    client.purge(&name, &["ready"]).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn every_other_route_of_a_topic_that_is_not_there_is_404() {
    let (client, name) = (client().await, topic("config"));
    let empty = json!({});
    let purge = json!({"states": ["ready"]});
    let change = json!({"priority": 1});
    for (method, tail, body) in [
        ("GET", "", None),
        ("PATCH", "", Some(&empty)),
        ("DELETE", "", None),
        ("DELETE", "?force=true", None),
        ("POST", "/pause", None),
        ("POST", "/pause", Some(&empty)),
        ("POST", "/resume", None),
        ("POST", "/purge", Some(&purge)),
        ("POST", "/redrive", None),
        ("POST", "/redrive", Some(&empty)),
        ("GET", "/messages?state=ready", None),
        ("GET", "/messages?state=acked&payload=true&limit=1", None),
        ("GET", "/forecast?bucket_ms=1000&buckets=3", None),
        ("GET", "/keys/k", None),
        ("PATCH", "/keys/k", Some(&change)),
        ("DELETE", "/keys/k", None),
    ] {
        let json = [("content-type", "application/json")];
        let headers: &[(&str, &str)] = if body.is_some() { &json } else { &[] };
        let body = body.map(|body| body.to_string().into_bytes());
        let path = format!("/topics/{name}{tail}");
        client.send(method, &path, headers, body).await.problem(404, "topic_not_found");
    }
    assert!(client.leased(&name, json!({})).await.is_empty(), "to lease is no error");
    client.topic(&name).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn the_list_of_topics_shows_the_counts_of_each_and_whether_it_is_paused() {
    let (client, prefix) = (client().await, topic("shown"));
    let (empty, full) = (format!("{prefix}-a"), format!("{prefix}-b"));
    client.new_topic(&empty, json!({})).await;
    client.new_topic(&full, json!({"retention": {"acked_ms": 600_000}})).await;
    crate::facts::dead_message(&client, &full).await;
    for n in 0..6 {
        client.published(&full, json!({"payload": n, "delay_ms": n / 5 * 60_000})).await;
    }
    client.ack_leased(&client.lease_one(&full).await).await.expect(204);
    client.leased(&full, json!({"max_messages": 2})).await;
    client.pause_topic(&full).await.expect(200);
    let listed = client.get_path(&format!("/topics?prefix={prefix}")).await.expect(200).json();
    let counts =
        json!({"delayed": 1, "ready": 2, "leased": 2, "dead": 1, "acked": 1, "blocked": 0});
    for (item, (name, paused)) in
        listed["items"].as_array().unwrap().iter().zip([(&empty, false), (&full, true)])
    {
        assert_eq!((&item["name"], &item["paused"]), (&json!(name), &json!(paused)), "{listed}");
        for (state, count) in counts.as_object().unwrap() {
            let count = if paused { count } else { &json!(0) };
            assert_eq!(&item["counts"][state], count, "{state} of {name}: {listed}");
        }
    }
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
}
