//! Payloads come back byte for byte: nothing on the way reads them as anything but bytes.

use base64::Engine;
use serde_json::{Value, json};

use crate::harness::*;

/// JSON texts that a parse and a print would change, or that look like something else on the way.
const PAYLOADS: &[&str] = &[
    "1",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
    "{ \"b\" : 1 ,\t\"a\":\n[ 2 , 3 ]\r\n}",
    "{\"z\":1,\"a\":2,\"m\":3}",
    "1E400",
    "1e-400",
    "-0",
    "-0.0",
    "1.0",
    "0.10",
    "1E+2",
    "18446744073709551616",
    "9007199254740993",
    "123456789012345678901234567890.123456789012345678901234567890",
    "{\"a\":1,\"a\":2,\"\":3,\"\":4}",
    "\"\\u0000 \\u001f \\/ \\\\ \\\" \\u00e9 \\ud83d\\ude00\"",
    "\"😀 👩‍👩‍👧 é e\u{301} \u{fffd} \u{7f} \u{2028}\"",
    "\"مرحبا \u{202e}abc\u{202c} שלום\"",
    "\"*3\\r\\n$3\\r\\nSET\\r\\n$1\\r\\na\\r\\n$1\\r\\nb\\r\\n\"",
    "\"+OK -ERR :1 $-1 *0 STALE OK NONE\"",
    "\"') redis.call('FLUSHALL') --[[ ]] \\u0022 .. KEYS[1]\"",
    "\"%s %d %00 ${x} {{x}} <script>&amp;\"",
    "{\"payload\":{\"id\":null,\"lease_token\":\"x\",\"topic\":7}}",
];

/// The body must hold `"payload":` and then exactly this text.
#[track_caller]
fn holds(answer: &Answer, payload: &str) {
    let wanted = format!("\"payload\":{payload}");
    let at = String::from_utf8_lossy(&answer.body).find(&wanted);
    let at = at.unwrap_or_else(|| panic!("no {wanted:?} in {answer}"));
    let next = answer.body[at + wanted.len()];
    assert!(next == b',' || next == b'}', "more than {wanted:?} in {answer}");
}

async fn round_trip(client: &Client, payload: &str) {
    let topic = topic("bytes");
    let path = format!("/topics/{topic}/messages");
    let id = client
        .post_text(&path, &format!("{{\"payload\" : {payload} }}"))
        .await
        .expect(201)
        .text("id");
    holds(&client.get(&id).await.expect(200), payload);
    let leased = client.lease(&topic, json!({})).await.expect(200);
    holds(&leased, payload);
    client.ack_leased(&leased.json()["messages"][0]).await.expect(204);
}

#[tokio::test]
async fn json_payloads_come_back_as_they_were_written() {
    let client = client().await;
    for payload in PAYLOADS {
        round_trip(&client, payload).await;
    }
}

#[tokio::test]
async fn json_payloads_beside_headers_and_priority_come_back_as_they_were_written() {
    let (client, topic) = (client().await, topic("bytes"));
    for payload in PAYLOADS {
        let body =
            format!("{{\"headers\":{{\"x\":\"y\"}},\"payload\":{payload},\"priority\":200}}");
        client.post_text(&format!("/topics/{topic}/messages"), &body).await.expect(201);
        holds(&client.lease(&topic, json!({})).await.expect(200), payload);
    }
}

#[tokio::test]
async fn a_payload_keeps_its_bytes_through_failed_attempts() {
    let (client, topic) = (client().await, topic("bytes"));
    let payload = "{ \"n\" : 1E400 , \"n\" : -0 }";
    let body = format!("{{\"payload\":{payload}}}");
    client.post_text(&format!("/topics/{topic}/messages"), &body).await.expect(201);
    for _ in 0..3 {
        let answer = client.lease(&topic, json!({})).await.expect(200);
        holds(&answer, payload);
        let message = &answer.json()["messages"][0];
        client.nack_leased(message, json!({"delay_ms": 0})).await.expect(200);
    }
}

#[tokio::test]
async fn sixty_four_levels_of_nesting_come_back() {
    // The body's object is level 1, so the payload has 63.
    let payload = format!("{}{}", "[".repeat(63), "]".repeat(63));
    round_trip(&client().await, &payload).await;
}

#[tokio::test]
async fn lone_surrogates_come_back_or_are_refused_but_never_change() {
    let (client, topic) = (client().await, topic("bytes"));
    let path = format!("/topics/{topic}/messages");
    for payload in ["\"\\ud800\"", "\"\\udc00\\ud800\""] {
        let answer = client.post_text(&path, &format!("{{\"payload\":{payload}}}")).await;
        if answer.status == 201 {
            let body = client.lease(&topic, json!({})).await.expect(200);
            assert!(String::from_utf8_lossy(&body.body).contains(payload), "{body}");
        } else {
            answer.refused(400);
        }
    }
}

#[tokio::test]
async fn every_byte_value_comes_back_from_base64_and_from_a_raw_body() {
    let (client, topic) = (client().await, topic("bytes"));
    let bytes: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    let base64 = base64::engine::general_purpose::STANDARD.encode(&bytes);
    client.publish(&topic, json!({"payload_base64": base64})).await.expect(201);
    client.publish_raw(&topic, "", None, &bytes).await.expect(201);
    for _ in 0..2 {
        assert_eq!(client.lease_one(&topic).await["payload_base64"], base64);
    }
}

#[tokio::test]
async fn base64_of_every_length_comes_back_the_same() {
    let (client, topic) = (client().await, topic("bytes"));
    for text in ["", "AA==", "AAA=", "AAAA", "+/+/"] {
        client.publish(&topic, json!({"payload_base64": text})).await.expect(201);
        let leased = client.lease_one(&topic).await;
        assert_eq!(leased["payload_base64"], Value::from(text));
    }
}

#[tokio::test]
async fn headers_of_any_legal_text_come_back() {
    let (client, topic) = (client().await, topic("bytes"));
    let headers = json!({"X-A": "*1\\r $3 ' \" ; --", "x-b": "%00{}[]", "!#$%&'*+-.^_`|~9": "é😀"});
    client.publish(&topic, json!({"payload": 1, "headers": headers})).await.expect(201);
    assert_eq!(client.lease_one(&topic).await["headers"], headers);
}

#[tokio::test]
async fn an_encoded_body_is_refused_and_not_taken_for_what_it_is_not() {
    let (client, topic) = (client().await, topic("encoded"));
    for encoding in ["gzip", "br", "zstd", "identity, gzip", ""] {
        for (path, kind) in [("messages", "application/json"), ("messages/raw", "text/plain")] {
            let headers = [("content-type", kind), ("content-encoding", encoding)];
            let path = format!("/topics/{topic}/{path}");
            let answer =
                client.send("POST", &path, &headers, Some(b"{\"payload\":1}".to_vec())).await;
            answer.problem(415, "unsupported_media_type");
        }
    }
    let headers = [("content-type", "application/json"), ("content-encoding", "Identity")];
    let path = format!("/topics/{topic}/messages");
    client.send("POST", &path, &headers, Some(b"{\"payload\":1}".to_vec())).await.expect(201);
}
