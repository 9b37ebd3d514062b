//! `max_payload_bytes`: of the payload alone, to the byte, up to the ceiling of 1 MiB.

use serde_json::{Value, json};

use crate::facts::topic_in_balance;
use crate::harness::*;

/// The ceiling of the setting.
const CEILING: usize = 1_048_576;

/// A JSON string whose text has so many bytes, its quotes included.
fn sized(bytes: usize) -> Value {
    Value::from("x".repeat(bytes - 2))
}

async fn limited(client: &Client, max_payload_bytes: usize) -> String {
    let topic = topic("payload");
    client.new_topic(&topic, json!({"max_payload_bytes": max_payload_bytes})).await;
    topic
}

#[tokio::test]
async fn a_payload_of_just_the_limit_is_taken_and_one_byte_more_is_413() {
    let client = client().await;
    for limit in [10, 100, 300_000, CEILING] {
        let topic = limited(&client, limit).await;
        client.published(&topic, json!({"payload": sized(limit)})).await;
        let answer = client.publish(&topic, json!({"payload": sized(limit + 1)})).await;
        answer.problem(413, "payload_too_large");
        client.publish_raw(&topic, "", None, &vec![b'x'; limit]).await.expect(201);
        let answer = client.publish_raw(&topic, "", None, &vec![b'x'; limit + 1]).await;
        answer.problem(413, "payload_too_large");
        let seen = topic_in_balance(&client, &topic).await;
        assert_eq!(seen["totals"]["published"], 2, "{limit}");
    }
}

#[tokio::test]
async fn bytes_in_base64_count_as_what_they_stand_for() {
    let client = client().await;
    let topic = limited(&client, 6).await;
    client.published(&topic, json!({"payload_base64": "AAAAAAAA"})).await;
    let answer = client.publish(&topic, json!({"payload_base64": "AAAAAAAAAA=="})).await;
    answer.problem(413, "payload_too_large");
}

#[tokio::test]
async fn headers_key_and_the_rest_of_the_message_do_not_count() {
    let client = client().await;
    let topic = limited(&client, 2).await;
    let long = "x".repeat(200);
    let message = json!({"payload": 12, "key": long, "headers": {"h": long}, "priority": 255});
    client.published(&topic, message).await;
}

#[tokio::test]
async fn one_payload_too_large_refuses_the_whole_batch() {
    let client = client().await;
    let topic = limited(&client, 10).await;
    let path = format!("/topics/{topic}/messages/batch");
    let (good, bad) = (json!({"payload": sized(10)}), json!({"payload": sized(11)}));
    for messages in [vec![bad.clone()], vec![good.clone(), bad.clone()], vec![bad, good.clone()]] {
        let answer = client.post(&path, &json!({"messages": messages})).await;
        answer.problem(413, "payload_too_large");
    }
    let seen = topic_in_balance(&client, &topic).await;
    assert_eq!(seen["totals"]["published"], 0);
    client.fill(&topic, &[good.clone(), good]).await;
}

#[tokio::test]
async fn a_message_grows_no_further_by_update_or_replace() {
    let client = client().await;
    let topic = limited(&client, 10).await;
    let id = client.published(&topic, json!({"payload": 1, "key": "k"})).await;
    let change = json!({"payload": sized(11)}).to_string().into_bytes();
    let json_type = [("content-type", "application/json")];
    for path in [format!("/messages/{id}"), format!("/topics/{topic}/keys/k")] {
        let answer = client.send("PATCH", &path, &json_type, Some(change.clone())).await;
        answer.problem(413, "payload_too_large");
    }
    let replace = json!({"payload": sized(11), "key": "k", "on_duplicate": "replace"});
    client.publish(&topic, replace).await.problem(413, "payload_too_large");
    assert_eq!(client.lease_one(&topic).await["payload"], 1);
}

#[tokio::test]
async fn a_limit_lowered_leaves_what_is_stored() {
    let client = client().await;
    let topic = limited(&client, 1000).await;
    client.published(&topic, json!({"payload": sized(1000)})).await;
    client.update_topic(&topic, json!({"max_payload_bytes": 10})).await.expect(200);
    client.publish(&topic, json!({"payload": sized(11)})).await.problem(413, "payload_too_large");
    let message = client.lease_one(&topic).await;
    assert_eq!(message["payload"], sized(1000));
    client.nack_leased(&message, json!({"delay_ms": 0})).await.expect(200);
    assert_eq!(client.lease_one(&topic).await["payload"], sized(1000));
}

#[tokio::test]
async fn a_payload_of_the_ceiling_comes_back_byte_for_byte() {
    let client = client().await;
    let topic = limited(&client, CEILING).await;
    let mut payload = String::from("{ \"z\":1.50,\"a\" : 1E400, \"\\u0041\":\"é\\n\", \"pad\":\"");
    payload.push_str(&"\\\"0123456789 ".repeat((CEILING - payload.len() - 2) / 13));
    payload.push_str(&"x".repeat(CEILING - payload.len() - 2));
    payload.push_str("\"}");
    assert_eq!(payload.len(), CEILING);
    let path = format!("/topics/{topic}/messages");
    client.post_text(&path, &format!("{{\"payload\":{payload}}}")).await.expect(201);
    let answer = client.lease(&topic, json!({"wait_ms": 5000})).await.expect(200);
    let found = answer.body.windows(CEILING).any(|window| window == payload.as_bytes());
    assert!(found, "the payload is not in the answer as it was sent");
    let bytes: Vec<u8> = (0..CEILING).map(|n| (n * 7 + n / 256) as u8).collect();
    client.publish_raw(&topic, "", Some("image/png"), &bytes).await.expect(201);
    let message = client.lease_one(&topic).await;
    let sent = base64(&bytes);
    assert!(text(&message, "payload_base64") == sent, "the bytes are not as they were sent");
}

/// RFC 4648, as the API writes it.
fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let byte = |at: usize| u32::from(part.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for sign in 0..4 {
            let pad = sign > part.len();
            let at = (word >> (18 - 6 * sign) & 63) as usize;
            text.push(if pad { '=' } else { SIGNS[at] as char });
        }
    }
    text
}
