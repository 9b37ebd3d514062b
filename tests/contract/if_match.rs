//! Revisions and `If-Match`: a change meant for one state of a topic never lands on another.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::harness::*;

/// The revision, as text.
fn revision(topic: &Value) -> String {
    etag(topic).trim_matches('"').to_owned()
}

#[tokio::test]
async fn the_present_revision_lets_a_change_pass() {
    let (client, topic) = (client().await, topic("match"));
    let made = client.new_topic(&topic, json!({})).await.json();
    let put = client.topic_if("PUT", &topic, Some(&etag(&made)), &json!({"lease_ms": 2000})).await;
    let put = put.expect(200).json();
    assert_ne!(put["revision"], made["revision"]);
    let patched =
        client.topic_if("PATCH", &topic, Some(&etag(&put)), &json!({"max_attempts": 2})).await;
    let patched = patched.expect(200).json();
    assert_ne!(patched["revision"], put["revision"]);
    assert_eq!(client.topic(&topic).await.expect(200).json(), patched);
}

#[tokio::test]
async fn another_revision_is_412_and_changes_nothing() {
    let (client, topic) = (client().await, topic("match"));
    let old = client.new_topic(&topic, json!({})).await.json();
    let now = client.update_topic(&topic, json!({"lease_ms": 2000})).await.expect(200).json();
    for method in ["PUT", "PATCH"] {
        let answer = client.topic_if(method, &topic, Some(&etag(&old)), &json!({})).await;
        answer.problem(412, "revision_mismatch");
        assert_eq!(client.topic(&topic).await.expect(200).json(), now);
    }
    client
        .topic_if("PATCH", &topic, Some(&etag(&now)), &json!({"lease_ms": 3000}))
        .await
        .expect(200);
}

#[tokio::test]
async fn a_topic_that_is_not_there_has_no_revision_to_match() {
    let (client, topic) = (client().await, topic("match"));
    for method in ["PUT", "PATCH"] {
        for value in ["\"1\"", "\"0\"", "\"\"", "*"] {
            let answer = client.topic_if(method, &topic, Some(value), &json!({})).await;
            answer.problem(412, "revision_mismatch");
        }
    }
    client.topic(&topic).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn a_header_that_is_no_revision_in_quotes_never_matches() {
    let (client, topic) = (client().await, topic("match"));
    let made = client.new_topic(&topic, json!({})).await.json();
    let (bare, mut matched) = (revision(&made), Vec::new());
    for value in [
        bare.clone(),
        format!("\"{bare}"),
        format!("{bare}\""),
        format!("'{bare}'"),
        format!("\"{bare}\"x"),
        format!("\" {bare}\""),
        format!("\"0{bare}\""),
        format!("\"+{bare}\""),
        format!("\"{bare}.0\""),
        format!("W/\"{bare}\""),
        "\"-1\"".into(),
        "\"99999999999999999999999\"".into(),
        "\"\"".into(),
        "".into(),
        "nonsense".into(),
        "\"nonsense\"".into(),
    ] {
        for method in ["PUT", "PATCH"] {
            let answer = client.topic_if(method, &topic, Some(&value), &json!({})).await;
            if answer.status != 412 {
                matched.push(format!("{method} {value}"));
            }
        }
    }
    assert!(matched.is_empty(), "{bare} is matched by {matched:?}");
    assert_eq!(client.topic(&topic).await.expect(200).json(), made);
}

#[tokio::test]
async fn a_bad_body_is_told_before_a_wrong_revision() {
    let (client, topic) = (client().await, topic("match"));
    for method in ["PUT", "PATCH"] {
        let answer = client.topic_if(method, &topic, Some("\"0\""), &json!({"nope": 1})).await;
        answer.refused(422).field("nope");
    }
}

#[tokio::test]
async fn a_revision_is_never_used_again() {
    let (client, topic) = (client().await, topic("match"));
    let mut used = HashSet::new();
    for round in 0..3 {
        let made = client.new_topic(&topic, json!({})).await.json();
        assert!(used.insert(revision(&made)), "{made}");
        for n in 0..4 {
            let lease_ms = 1000 + n;
            let put = client.put_topic(&topic, json!({"lease_ms": lease_ms})).await.expect(200);
            assert!(used.insert(revision(&put.json())), "{put}");
            let patch = json!({"max_attempts": 1 + n});
            let patched = client.update_topic(&topic, patch).await.expect(200);
            assert!(used.insert(revision(&patched.json())), "{patched}");
        }
        if round % 2 == 0 {
            client.published(&topic, json!({"payload": 1})).await;
        }
        client.delete_topic(&topic, "?force=true").await.expect(204);
        for old in &used {
            let old = format!("\"{old}\"");
            let answer = client.topic_if("PUT", &topic, Some(&old), &json!({})).await;
            answer.problem(412, "revision_mismatch");
        }
    }
    client.published(&topic, json!({"payload": 1})).await;
    let made = client.topic(&topic).await.expect(200).json();
    assert!(used.insert(revision(&made)), "made by a message: {made}");
}

#[tokio::test]
async fn of_many_changes_of_one_revision_one_passes() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("match"));
    let mut seen = here.new_topic(&topic, json!({})).await.json();
    for round in 0..5 {
        let tag = etag(&seen);
        let changes = (0..16).map(|n| {
            let client = if n % 2 == 0 { &here } else { &there };
            let (topic, tag) = (&topic, &tag);
            let body = json!({"lease_ms": 1000 + round * 100 + n});
            let method = if n % 3 == 0 { "PUT" } else { "PATCH" };
            async move { client.topic_if(method, topic, Some(tag), &body).await }
        });
        let mut passed = Vec::new();
        for answer in futures_util::future::join_all(changes).await {
            match answer.status {
                200 => passed.push(answer.json()),
                _ => drop(answer.problem(412, "revision_mismatch")),
            }
        }
        assert_eq!(passed.len(), 1, "{passed:?}");
        seen = there.topic(&topic).await.expect(200).json();
        assert_eq!(seen, passed[0]);
    }
}

#[tokio::test]
async fn messages_pause_and_purge_are_no_new_revision() {
    let (client, topic) = (client().await, topic("match"));
    let made = client.new_topic(&topic, json!({})).await.json();
    client.published(&topic, json!({"payload": 1})).await;
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    client.pause_topic(&topic).await.expect(200);
    client.purge(&topic, &["ready"]).await.expect(200);
    let seen = client.topic(&topic).await.expect(200).json();
    assert_eq!(seen["revision"], made["revision"]);
    client.topic_if("PATCH", &topic, Some(&etag(&made)), &json!({})).await.expect(200);
}
