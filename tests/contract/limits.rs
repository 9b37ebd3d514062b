//! What the server refuses before it reads it: too much, too slow, the wrong method, no such route.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::*;

const SOON: Duration = Duration::from_secs(10);

/// The head of a POST of JSON to `path`.
fn post_head(addr: &str, path: &str, more: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: {addr}\r\ncontent-type: application/json\r\n{more}")
}

#[tokio::test]
async fn a_body_declared_too_large_is_refused_before_it_is_sent() {
    let (client, topic) = (client().await, topic("limits"));
    let paths = [
        format!("/topics/{topic}/messages"),
        format!("/topics/{topic}/messages/raw"),
        format!("/topics/{topic}/lease"),
        format!("/messages/{}/ack", unknown_id()),
        format!("/messages/{}/nack", unknown_id()),
        format!("/messages/{}/extend", unknown_id()),
    ];
    for path in paths {
        let mut wire = Wire::connect(&client.addr()).await;
        let head = post_head(&client.addr(), &path, "content-length: 16777217");
        assert!(wire.request(&head, b"").await);
        let answer = wire.answer(&path, SOON).await.expect("an answer");
        answer.check().refused(413);
    }
}

#[tokio::test]
async fn a_chunked_body_is_refused_as_soon_as_it_is_too_large() {
    let redis = &shared().await.redis;
    let dueq = Dueq::on(redis).args(["--max-body-bytes", "100000"]).start().await;
    for path in ["/topics/limits/messages", "/topics/limits/messages/raw", "/topics/limits/lease"] {
        let mut wire = Wire::connect(dueq.addr()).await;
        let head = post_head(dueq.addr(), path, "transfer-encoding: chunked");
        assert!(wire.request(&head, b"").await);
        let chunk = format!("2710\r\n{}\r\n", "x".repeat(10_000));
        for _ in 0..11 {
            wire.write(chunk.as_bytes()).await;
        }
        let answer = wire.answer(path, SOON).await.expect("an answer before the body's end");
        answer.check().refused(413);
    }
}

#[tokio::test]
async fn a_body_of_just_the_limit_is_read() {
    let redis = &shared().await.redis;
    let dueq = Dueq::on(redis).args(["--max-body-bytes", "1000"]).start().await;
    let (client, path) = (dueq.client(), format!("/topics/{}/messages", topic("limits")));
    let body = |bytes: usize| format!("{{\"payload\":\"{}\"}}", "x".repeat(bytes - 14));
    client.post_text(&path, &body(1000)).await.expect(201);
    client.post_text(&path, &body(1001)).await.refused(413);
}

#[tokio::test]
async fn a_chunked_body_is_as_good_as_any() {
    let (client, topic) = (client().await, topic("limits"));
    let mut wire = Wire::connect(&client.addr()).await;
    let path = format!("/topics/{topic}/messages");
    let head = post_head(&client.addr(), &path, "transfer-encoding: chunked");
    let body = b"5\r\n{\"pay\r\n8\r\nload\":1}\r\n0\r\n\r\n";
    assert!(wire.request(&head, body).await);
    let answer = wire.answer(&path, SOON).await.expect("an answer");
    answer.check().expect(201);
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_before_it_sends() {
    let client = client().await;
    let path = format!("/topics/{}/messages", topic("limits"));
    let expect = "expect: 100-continue\r\ncontent-length: ";
    let mut wire = Wire::connect(&client.addr()).await;
    assert!(
        wire.request(&post_head(&client.addr(), &path, &format!("{expect}16777217")), b"").await
    );
    let answer = wire.answer(&path, SOON).await.expect("an answer");
    answer.check().refused(413);
    let mut wire = Wire::connect(&client.addr()).await;
    assert!(wire.request(&post_head(&client.addr(), &path, &format!("{expect}13")), b"").await);
    let go_on = wire.answer(&path, SOON).await.expect("an interim answer");
    assert_eq!(go_on.status, 100);
    assert!(wire.write(b"{\"payload\":1}").await);
    wire.answer(&path, SOON).await.expect("an answer").check().expect(201);
}

#[tokio::test]
async fn a_uri_of_nine_kibibytes_is_refused() {
    let client = client().await;
    for path in [
        format!("/topics/{}", "x".repeat(9 * 1024)),
        format!("/topics?prefix={}", "x".repeat(9 * 1024)),
        format!("/{}", "x".repeat(9 * 1024)),
    ] {
        client.get_path(&path).await.refused(414);
    }
    client.get_path(&format!("/{}", "x".repeat(8000))).await.refused(404);
}

/// What is far above the limits (512 headers, 32 KiB) never becomes a request: the HTTP library
/// refuses it itself, without a body, and closes.
fn by_dueq_or_below(answer: Answer) {
    if answer.header("connection") == "close" && answer.body.is_empty() {
        assert!(answer.request.ends_with("far above"), "an error without a problem: {answer}");
    } else {
        answer.check();
    }
}

#[tokio::test]
async fn a_hundred_headers_are_refused() {
    let client = client().await;
    for (count, status) in [(90, 200), (99, 431), (400, 431), (1000, 431)] {
        let mut wire = Wire::connect(&client.addr()).await;
        let more: Vec<String> = (0..count).map(|n| format!("x-{n}: v")).collect();
        let head = format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{}", more.join("\r\n"));
        assert!(wire.request(&head, b"").await);
        let request = if count > 500 { "far above" } else { "GET /healthz" };
        let answer = wire.answer(request, SOON).await.expect("an answer");
        assert_eq!(answer.status, status, "{count} headers and a host: {answer}");
        by_dueq_or_below(answer);
    }
}

#[tokio::test]
async fn seventeen_kibibytes_of_headers_are_refused() {
    let client = client().await;
    for (bytes, status) in [(15, 200), (17, 431), (30, 431), (200, 431)] {
        let mut wire = Wire::connect(&client.addr()).await;
        let value = "v".repeat(bytes * 1024);
        let head = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx-large: {value}");
        assert!(wire.request(&head, b"").await);
        let request = if bytes > 32 { "far above" } else { "GET /healthz" };
        let answer = wire.answer(request, SOON).await.expect("an answer");
        assert_eq!(answer.status, status, "{bytes} KiB of headers: {answer}");
        by_dueq_or_below(answer);
    }
}

#[tokio::test]
async fn a_request_that_stops_half_way_is_cut_off_within_30_s() {
    mostly_waits();
    let (client, topic) = (client().await, topic("limits"));
    let addr = client.addr();
    let raw = format!("/topics/{topic}/messages/raw");
    let json = format!("/topics/{topic}/messages");
    let halves = [
        format!("POST {json} HT"),
        format!("POST {json} HTTP/1.1\r\nhost: localhost\r\ncontent-le"),
        post_head(&addr, &json, "content-length: 20\r\n\r\n{\"payload\""),
        post_head(&addr, &raw, "content-length: 20\r\n\r\n"),
        post_head(&addr, &json, "transfer-encoding: chunked\r\n\r\n5\r\n{\"pay"),
    ];
    let start = Instant::now();
    let cut = halves.iter().map(|half| {
        let addr = addr.clone();
        async move {
            let mut wire = Wire::connect(&addr).await;
            assert!(wire.write(half.as_bytes()).await);
            if let Some(answer) = wire.answer(half, Duration::from_secs(31)).await {
                answer.check().refused(408);
                assert!(wire.closes_within(Duration::from_secs(2)).await, "{half:?}: stays open");
            }
        }
    });
    futures_util::future::join_all(cut).await;
    assert!(start.elapsed() < Duration::from_secs(32));
    client.topic(&topic).await.refused(404); // none of them was carried out
}

#[tokio::test]
async fn a_body_that_drips_is_cut_off_within_30_s() {
    mostly_waits();
    let (client, topic) = (client().await, topic("limits"));
    let path = format!("/topics/{topic}/messages/raw");
    let mut wire = Wire::connect(&client.addr()).await;
    let head = post_head(&client.addr(), &path, "content-length: 1000");
    assert!(wire.request(&head, b"").await);
    let start = Instant::now();
    while wire.write(b"x").await {
        assert!(start.elapsed() < Duration::from_secs(32), "a byte a second goes on for ever");
        if wire.closes_within(Duration::from_secs(1)).await {
            break;
        }
    }
    client.topic(&topic).await.refused(404);
}

#[tokio::test]
async fn head_answers_as_get_without_a_body() {
    let (client, topic) = (client().await, topic("limits"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    for path in ["/healthz", "/topics", &format!("/topics/{topic}"), &format!("/messages/{id}")] {
        let answer = client.send("HEAD", path, &[], None).await.expect(200);
        assert!(answer.body.is_empty());
        let get = client.get_path(path).await.expect(200);
        assert_eq!(answer.header("content-type"), get.header("content-type"));
    }
    let answer = client.send("HEAD", &format!("/messages/{}", unknown_id()), &[], None).await;
    assert!(answer.expect(404).body.is_empty());
}

#[tokio::test]
async fn a_path_that_is_no_route_is_404() {
    let client = client().await;
    let words = "/nope /topic /topics/ /topics/t/ /topics/t/nope /topics/t/messages/ /topics/t/messages/raw/more /messages/ \
        /messages/x/y/z /Topics //topics /healthz/";
    for path in words.split(' ') {
        for method in ["GET", "POST", "DELETE"] {
            let answer = client.send(method, path, &[], None).await;
            assert_eq!(answer.status, 404, "{answer}");
            answer.refused(404);
        }
    }
}

#[tokio::test]
async fn a_connection_is_good_for_the_next_request_after_an_error() {
    let (client, topic) = (client().await, topic("limits"));
    let mut wire = Wire::connect(&client.addr()).await;
    let path = format!("/topics/{topic}/messages");
    for (body, status) in [("{\"payload\"}", 400), ("[]", 422), ("{\"payload\":1}", 201)] {
        let length = format!("content-length: {}", body.len());
        let head = post_head(&client.addr(), &path, &length);
        assert!(wire.request(&head, body.as_bytes()).await);
        let answer = wire.answer(&path, SOON).await.expect("an answer");
        answer.check().expect(status);
    }
}
