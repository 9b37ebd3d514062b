//! publishMessage: what is stored, what is answered.

use serde_json::json;

use crate::harness::*;

#[tokio::test]
async fn a_message_without_a_delay_is_ready_at_once() {
    let (client, topic) = (client().await, topic("publish"));
    let answer = client.publish(&topic, json!({"payload": {"order": 7}})).await.expect(201);
    let body = answer.json();
    assert_eq!(body["topic"], topic);
    assert_eq!(body["state"], "ready");
    assert_eq!(body["duplicate"], false);
    let id = text(&body, "id");
    assert_eq!(answer.header("location"), format!("/messages/{id}"));
    assert_eq!(id.len(), 36, "a UUID: {id}");
    assert!(answer.instant("published_at") <= answer.instant("due_at"), "{answer}");
    assert!(answer.instant("due_at") - answer.instant("published_at") < 1000, "{answer}");
}

#[tokio::test]
async fn a_delay_counts_from_the_moment_redis_takes_the_message() {
    let (client, topic) = (client().await, topic("publish"));
    let before = shared().await.redis.time_ms().await;
    let answer =
        client.publish(&topic, json!({"payload": 1, "delay_ms": 60_000})).await.expect(201);
    let after = shared().await.redis.time_up_ms().await;
    assert_eq!(answer.text("state"), "delayed");
    let due = answer.instant("due_at");
    assert!((before + 60_000..=after + 60_000).contains(&due), "{before} {after} {answer}");
}

#[tokio::test]
async fn the_longest_delay_is_ten_years() {
    let (client, topic) = (client().await, topic("publish"));
    let longest = 315_360_000_000_i64;
    let answer =
        client.publish(&topic, json!({"payload": 1, "delay_ms": longest})).await.expect(201);
    assert!(answer.instant("due_at") - answer.instant("published_at") >= longest, "{answer}");
    let more = json!({"payload": 1, "delay_ms": longest + 1});
    client.publish(&topic, more).await.refused(422).field("delay_ms");
}

#[tokio::test]
async fn deliver_at_is_taken_with_any_offset_and_parts_of_a_millisecond_round_up() {
    let (client, topic) = (client().await, topic("publish"));
    for (sent, due) in [
        ("2100-01-01T00:00:00Z", "2100-01-01T00:00:00.000Z"),
        ("2100-01-01T00:00:00.5+05:30", "2099-12-31T18:30:00.500Z"),
        ("2100-01-01T00:00:00.0000001-08:00", "2100-01-01T08:00:00.001Z"),
        ("2100-01-01T00:00:00.123456789Z", "2100-01-01T00:00:00.124Z"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
    ] {
        let message = json!({"payload": 1, "deliver_at": sent});
        let answer = client.publish(&topic, message).await.expect(201);
        assert_eq!(answer.text("due_at"), due, "{sent}");
        assert_eq!(answer.text("state"), "delayed");
        let id = answer.text("id");
        assert_eq!(client.get(&id).await.expect(200).text("due_at"), due, "{sent}, read back");
    }
}

#[tokio::test]
async fn deliver_at_in_the_past_means_now() {
    let (client, topic) = (client().await, topic("publish"));
    for past in ["2001-01-01T00:00:00Z", "1960-05-05T05:05:05.5Z", "0000-01-01T00:00:00Z"] {
        let before = shared().await.redis.time_ms().await;
        let message = json!({"payload": 1, "deliver_at": past});
        let answer = client.publish(&topic, message).await.expect(201);
        assert_eq!(answer.text("state"), "ready");
        assert!(answer.instant("due_at") >= before, "{past}: {answer}");
        assert_eq!(client.lease_one(&topic).await["id"], answer.json()["id"]);
    }
}

#[tokio::test]
async fn published_at_and_due_at_are_the_same_in_every_later_answer() {
    let (client, topic) = (client().await, topic("publish"));
    let sent = client.publish(&topic, json!({"payload": 1})).await.expect(201).json();
    let seen = client.get(text(&sent, "id")).await.expect(200).json();
    let leased = client.lease_one(&topic).await;
    let held = client.get(text(&sent, "id")).await.expect(200).json();
    for later in [&seen, &leased, &held] {
        assert_eq!(later["published_at"], sent["published_at"]);
    }
    for later in [&seen, &leased] {
        assert_eq!(later["due_at"], sent["due_at"]);
    }
}

#[tokio::test]
async fn bytes_take_the_place_of_a_payload() {
    let (client, topic) = (client().await, topic("publish"));
    let named = json!({"payload_base64": "AAEC/w==", "content_type": "image/png"});
    for (message, kind) in
        [(named, "image/png"), (json!({"payload_base64": "AAEC/w=="}), "application/octet-stream")]
    {
        let id = client.published(&topic, message).await;
        let leased = client.lease_one(&topic).await;
        for seen in [&leased, &client.get(&id).await.expect(200).json()] {
            assert_eq!(seen["payload_base64"], "AAEC/w==");
            assert_eq!(seen["content_type"], kind);
            assert!(seen.get("payload").is_none(), "{seen}");
        }
    }
}

#[tokio::test]
async fn null_counts_as_absent_but_for_the_payload() {
    let (client, topic) = (client().await, topic("publish"));
    let message = json!({
        "payload": null, "payload_base64": null, "content_type": null, "delay_ms": null,
        "deliver_at": null, "priority": null, "headers": null, "max_attempts": null,
    });
    client.publish(&topic, message).await.expect(201);
    let leased = client.lease_one(&topic).await;
    assert_eq!(leased.get("payload"), Some(&json!(null)), "{leased}");
    assert_eq!(leased["attempts_left"], 9);
}

#[tokio::test]
async fn headers_come_back_as_they_were_sent() {
    let (client, topic) = (client().await, topic("publish"));
    let headers = json!({"X-Trace": "a b\tc", "x-empty": "", "traceparent": "00-é"});
    client.publish(&topic, json!({"payload": 1, "headers": headers})).await.expect(201);
    let leased = client.lease_one(&topic).await;
    assert_eq!(leased["headers"], headers);
    let seen = client.get(text(&leased, "id")).await.expect(200).json();
    assert_eq!(seen["headers"], headers);
}

#[tokio::test]
async fn thirty_two_headers_are_taken_and_one_more_is_not() {
    let (client, topic) = (client().await, topic("publish"));
    let headers = |n: usize| {
        let map = (0..n).map(|i| (format!("x-{i}"), json!("v")));
        json!({"payload": 1, "headers": map.collect::<serde_json::Map<_, _>>()})
    };
    client.publish(&topic, headers(32)).await.expect(201);
    client.publish(&topic, headers(33)).await.refused(422).field("headers");
}

#[tokio::test]
async fn headers_above_eight_kibibytes_are_refused() {
    let (client, topic) = (client().await, topic("publish"));
    let message = |bytes: usize| json!({"payload": 1, "headers": {"x": "v".repeat(bytes)}});
    client.publish(&topic, message(8000)).await.expect(201);
    client.publish(&topic, message(8192)).await.refused(422).field("headers");
}

#[tokio::test]
async fn a_message_may_name_its_own_max_attempts() {
    let (client, topic) = (client().await, topic("publish"));
    for max in [1, 3, 1000] {
        let id = client.published(&topic, json!({"payload": 1, "max_attempts": max})).await;
        let leased = client.lease_one(&topic).await;
        assert_eq!((&leased["attempt"], &leased["attempts_left"]), (&json!(1), &json!(max - 1)));
        let seen = client.get(&id).await.expect(200).json();
        assert_eq!((&seen["attempts"], &seen["attempts_left"]), (&json!(1), &json!(max - 1)));
    }
}

#[tokio::test]
async fn a_payload_may_have_256_kib_and_no_byte_more() {
    let (client, topic) = (client().await, topic("publish"));
    let path = format!("/topics/{topic}/messages");
    let body = |bytes: usize| format!("{{\"payload\":\"{}\"}}", "x".repeat(bytes - 2));
    client.post_text(&path, &body(262_144)).await.expect(201);
    client.post_text(&path, &body(262_145)).await.refused(413);
    assert_eq!(client.lease_one(&topic).await["payload"].as_str().unwrap().len(), 262_142);
}

#[tokio::test]
async fn the_bytes_of_a_base64_payload_count_decoded() {
    use base64::Engine;
    let (client, topic) = (client().await, topic("publish"));
    let message = |bytes: usize| {
        let text = base64::engine::general_purpose::STANDARD.encode(vec![7; bytes]);
        json!({"payload_base64": text})
    };
    client.publish(&topic, message(262_144)).await.expect(201);
    client.publish(&topic, message(262_145)).await.refused(413);
}

#[tokio::test]
async fn a_topic_comes_into_being_with_its_first_message() {
    let (client, topic) = (client().await, topic("publish"));
    client.topic(&topic).await.problem(404, "topic_not_found");
    client.publish(&topic, json!({"payload": 1, "nope": 1})).await.refused(422);
    client.topic(&topic).await.problem(404, "topic_not_found");
    client.published(&topic, json!({"payload": 1})).await;
    client.topic(&topic).await.expect(200);
}

#[tokio::test]
async fn every_json_media_type_in_utf8_is_taken() {
    let (client, topic) = (client().await, topic("publish"));
    let path = format!("/topics/{topic}/messages");
    for kind in [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=UTF-8",
        "application/json; charset=\"utf-8\"",
        "application/vnd.example.order+json",
        "application/cloudevents+json; charset=utf-8",
    ] {
        let answer = client.post_bytes(&path, Some(kind), b"{\"payload\":1}".to_vec()).await;
        assert_eq!(answer.status, 201, "{kind}: {answer}");
    }
}

#[tokio::test]
async fn a_topic_name_may_have_128_characters() {
    let client = client().await;
    let mut long = topic("Long.name_");
    long.push_str(&"x".repeat(128 - long.len()));
    let answer = client.publish(&long, json!({"payload": 1})).await.expect(201);
    assert_eq!(answer.text("topic"), long);
    assert_eq!(client.lease_one(&long).await["topic"], long);
}

#[tokio::test]
async fn every_character_that_a_name_may_have_is_taken_and_case_matters() {
    let client = client().await;
    let name = topic("Az0._-");
    for topic in [format!("{name}."), format!("{name}-"), format!("{name}_"), name.to_lowercase()] {
        let id = client.published(&topic, json!({"payload": topic})).await;
        let leased = client.leased(&topic, json!({"max_messages": 9})).await;
        assert_eq!(leased.len(), 1, "{leased:?}");
        assert_eq!((&leased[0]["id"], &leased[0]["payload"]), (&json!(id), &json!(topic)));
    }
    // A character may be percent-encoded: it is the same name.
    let id = client
        .published(&format!("%{:02x}{}", name.as_bytes()[0], &name[1..]), json!({"payload": 1}))
        .await;
    assert_eq!(client.lease_one(&name).await["id"], id);
}

#[tokio::test]
async fn publishing_to_dueqs_own_topics_is_forbidden() {
    let client = client().await;
    for reserved in ["_callbacks", "_anything"] {
        client.publish(reserved, json!({"payload": 1})).await.problem(403, "topic_reserved");
        client.publish_raw(reserved, "", None, b"x").await.problem(403, "topic_reserved");
    }
}

#[tokio::test]
async fn every_message_has_an_id_of_its_own() {
    let (client, topic) = (client().await, topic("publish"));
    let sends = (0..50).map(|n| client.published(&topic, json!({"payload": n})));
    let mut ids = futures_util::future::join_all(sends).await;
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 50);
}
