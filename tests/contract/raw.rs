//! publishRaw: the body is the payload, whatever it is.

use serde_json::json;

use crate::harness::*;

#[tokio::test]
async fn any_body_is_a_payload_with_its_content_type() {
    let (client, topic) = (client().await, topic("raw"));
    for (kind, body, base64) in [
        ("text/plain; charset=utf-8", &b"hello"[..], "aGVsbG8="),
        ("application/json", b"{ not json", "eyBub3QganNvbg=="),
        ("image/png", b"\x00\xff\r\n", "AP8NCg=="),
    ] {
        let answer = client.publish_raw(&topic, "", Some(kind), body).await.expect(201);
        let id = answer.text("id");
        assert_eq!(answer.header("location"), format!("/messages/{id}"));
        assert_eq!(answer.json()["duplicate"], false);
        let leased = client.lease_one(&topic).await;
        for seen in [&leased, &client.get(&id).await.expect(200).json()] {
            assert_eq!(seen["payload_base64"], base64);
            assert_eq!(seen["content_type"], kind);
            assert!(seen.get("payload").is_none(), "{seen}");
        }
    }
}

#[tokio::test]
async fn a_body_without_a_type_is_an_octet_stream() {
    let (client, topic) = (client().await, topic("raw"));
    client.publish_raw(&topic, "", None, b"x").await.expect(201);
    assert_eq!(client.lease_one(&topic).await["content_type"], "application/octet-stream");
}

#[tokio::test]
async fn an_empty_body_is_an_empty_payload() {
    let (client, topic) = (client().await, topic("raw"));
    client.publish_raw(&topic, "", Some("text/plain"), b"").await.expect(201);
    assert_eq!(client.lease_one(&topic).await["payload_base64"], "");
}

#[tokio::test]
async fn the_fields_are_query_parameters() {
    let (client, topic) = (client().await, topic("raw"));
    let query = "?delay_ms=60000&priority=9&max_attempts=3";
    let answer = client.publish_raw(&topic, query, None, b"x").await.expect(201);
    assert_eq!(answer.text("state"), "delayed");
    assert!(answer.instant("due_at") - answer.instant("published_at") >= 60_000, "{answer}");
    let seen = client.get(&answer.text("id")).await.expect(200).json();
    assert_eq!((&seen["priority"], &seen["attempts_left"]), (&json!(9), &json!(3)));
}

#[tokio::test]
async fn deliver_at_is_percent_decoded() {
    let (client, topic) = (client().await, topic("raw"));
    let query = "?deliver_at=2100-01-01T02%3A00%3A00%2B02%3A00";
    let answer = client.publish_raw(&topic, query, None, b"x").await.expect(201);
    assert_eq!(answer.text("due_at"), "2100-01-01T00:00:00.000Z");
}

#[tokio::test]
async fn a_raw_payload_has_the_topics_limit() {
    let (client, topic) = (client().await, topic("raw"));
    client.publish_raw(&topic, "", None, &vec![b'x'; 262_144]).await.expect(201);
    client.publish_raw(&topic, "", None, &vec![b'x'; 262_145]).await.refused(413);
    assert_eq!(client.total(&topic, "published").await, 1);
}

#[tokio::test]
async fn a_query_that_is_no_text_is_refused() {
    let (client, topic) = (client().await, topic("raw"));
    client.new_topic(&topic, json!({})).await;
    // Decoded as far as they can be, the first two would be one key.
    for query in ["key=caf%e9", "key=caf%e8", "idempotency_key=%ff", "group=%ed%a0%80", "%FF=1"] {
        let answer = client.publish_raw(&topic, &format!("?{query}"), None, b"x").await;
        answer.problem(400, "malformed_path");
    }
    assert_eq!(client.total(&topic, "published").await, 0);
    client.publish_raw(&topic, "?key=caf%C3%A9", None, b"x").await.expect(201);
}
