//! More bytes than dueq may hold: what comes then is refused at once, with nothing done, and small requests pass.

use std::time::Duration;

use serde_json::json;

use crate::connections::{ask_and_never_read, narrow as slow_reader};
use crate::harness::*;

const SOON: Duration = Duration::from_secs(10);

/// The least budget: 2 MiB, of which an eighth is for what is small.
async fn narrow() -> Dueq {
    let redis = &shared().await.redis;
    Dueq::on(redis).args(["--max-inflight-bytes", "2097152"]).start().await
}

/// A publish that says it has so many bytes and has sent these.
async fn half(dueq: &Dueq, topic: &str, declared: usize, sent: usize) -> Wire {
    let mut wire = Wire::connect(dueq.addr()).await;
    let head = format!(
        "POST /topics/{topic}/messages/raw HTTP/1.1\r\nhost: localhost\r\ncontent-length: {declared}"
    );
    assert!(wire.request(&head, &vec![b'x'; sent]).await);
    wire
}

#[tokio::test]
async fn bodies_beyond_the_budget_are_refused_and_small_ones_pass() {
    let dueq = narrow().await;
    let (client, topic) = (dueq.client(), topic("overload"));
    let mut held = vec![half(&dueq, &topic, 1_000_000, 900_000).await];
    let answer = loop {
        assert!(held.len() < 5, "4 MB are held");
        let mut next = half(&dueq, &topic, 1_000_000, 999_000).await;
        // Where it was read before another one, it waits for its end.
        match tokio::time::timeout(Duration::from_secs(3), next.answer("half", SOON)).await {
            Ok(answer) => break answer.expect("an answer"),
            Err(_) => held.push(next),
        }
    };
    let answer = answer.check().problem(503, "overloaded");
    assert_eq!(answer.header("retry-after"), "1");
    for n in 0..20 {
        client.published(&topic, json!({"payload": n})).await;
        client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    }
    drop(held);
    eventually("room again", || async {
        let body = vec![b'x'; 1_000_000];
        let answer = client.publish_raw(&topic, "", None, &body).await;
        // Read, and then refused by the topic.
        (answer.status == 413).then(|| answer.problem(413, "payload_too_large"))
    })
    .await;
}

#[tokio::test]
async fn strangers_who_do_not_read_pages_take_no_room() {
    let dueq = narrow().await;
    let (client, topic) = (dueq.client(), topic("overload"));
    let bundle = "/docs/swagger-ui-bundle.js";
    assert!(client.get_path(bundle).await.body.len() > 1_000_000);
    let unread = async || ask_and_never_read(slow_reader(dueq.addr()).await, bundle).await;
    let strangers = futures_util::future::join_all((0..10).map(|_| unread())).await;
    let message = json!({"payload": "x".repeat(100_000)});
    client.published(&topic, message).await;
    client.lease_one(&topic).await;
    drop(strangers);
}

#[tokio::test]
async fn what_is_declared_and_not_sent_takes_no_room() {
    let dueq = narrow().await;
    let (client, topic) = (dueq.client(), topic("overload"));
    let mut waiting = Vec::new();
    for _ in 0..50 {
        waiting.push(half(&dueq, &topic, 900_000, 10).await);
    }
    let answer = client.publish_raw(&topic, "", None, &vec![b'x'; 600_000]).await;
    answer.problem(413, "payload_too_large");
}

#[tokio::test]
async fn a_body_that_never_finds_room_is_too_large() {
    let dueq = narrow().await;
    let body = vec![b'x'; 2_000_000];
    let answer = dueq.client().publish_raw(&topic("overload"), "", None, &body).await;
    answer.problem(413, "body_too_large");
}

#[tokio::test]
async fn what_is_granted_and_finds_no_room_in_the_answer_goes_back_at_once() {
    let dueq = narrow().await;
    let (client, topic) = (dueq.client(), topic("overload"));
    let large = "x".repeat(200_000);
    for _ in 0..6 {
        client.published(&topic, json!({"payload": large, "max_attempts": 1})).await;
    }
    let _body = half(&dueq, &topic, 1_600_000, 1_590_000).await;
    let page = format!("/topics/{topic}/messages?state=ready&payload=true");
    let refused = eventually("the budget is used", || async {
        let answer = client.get_path(&page).await;
        (answer.status != 200).then_some(answer)
    })
    .await;
    refused.problem(503, "overloaded");
    let all = json!({"max_messages": 6});
    for _ in 0..3 {
        let answer = client.lease(&topic, all.clone()).await.problem(503, "overloaded");
        assert_eq!(answer.header("retry-after"), "1");
    }
    let held = client.lease_one_with(&topic, json!({"max_messages": 1})).await;
    let acks = json!([{"id": held["id"], "lease_token": held["lease_token"]}]);
    let both = json!({"max_messages": 6, "max_bytes": 16_777_216, "acks": acks});
    let answer = client.lease(&topic, both).await.expect(200).json();
    assert_eq!(answer["acks"][0]["status"], "ok", "what was done is told");
    assert_eq!(answer["messages"], json!([]));
    for _ in 0..5 {
        let message = client.lease_one(&topic).await;
        assert_eq!(message["attempts_left"], 0, "a grant that nobody saw does not count");
        client.ack_leased(&message).await.expect(204);
    }
    assert_eq!(client.total(&topic, "acked").await, 6);
}

#[tokio::test]
async fn no_lease_and_no_page_wants_more_than_the_budget_has() {
    let dueq = narrow().await;
    let (client, topic) = (dueq.client(), topic("overload"));
    let large = "x".repeat(250_000);
    for _ in 0..10 {
        client.published(&topic, json!({"payload": large})).await;
    }
    let page = format!("/topics/{topic}/messages?state=ready&payload=true");
    let page = client.get_path(&page).await.expect(200).json();
    assert_eq!(page["items"].as_array().unwrap().len(), 3, "of 250 kB each");
    assert!(page["next_cursor"].is_string());
    let mut leased = 0;
    while leased < 10 {
        let all = json!({"max_messages": 10, "max_bytes": 16_777_216});
        let answer = client.lease(&topic, all).await.expect(200).json();
        let some = answer["messages"].as_array().unwrap().len();
        assert!(some > 0);
        leased += some;
    }
}

#[tokio::test]
async fn the_largest_message_is_leased_with_the_least_budget() {
    let dueq = narrow().await;
    let (client, topic) = (dueq.client(), topic("overload"));
    client.configure(&topic, json!({"max_payload_bytes": 1_048_576})).await;
    client.publish_raw(&topic, "", None, &vec![b'x'; 1_048_576]).await.expect(201);
    client.lease_one(&topic).await;
    // In SQS's answers each of these bytes is six.
    client.publish_raw(&topic, "", None, &vec![1_u8; 1_048_576]).await.expect(201);
    let target = [
        ("content-type", "application/x-amz-json-1.0"),
        ("x-amz-target", "AmazonSQS.ReceiveMessage"),
    ];
    let body = json!({"QueueUrl": topic}).to_string().into_bytes();
    let received = client.send("POST", "/sqs", &target, Some(body)).await.expect(200).json();
    assert_eq!(received["Messages"][0]["Body"].as_str().map(str::len), Some(1_048_576));
}

#[tokio::test]
async fn a_long_poll_holds_no_room_for_the_body_that_it_began_with() {
    let dueq = narrow().await;
    let (client, topic) = (dueq.client(), topic("overload"));
    let mut polls = Vec::new();
    for (path, body) in [
        (format!("/topics/{topic}/lease"), "{\"wait_ms\":30000".to_owned()),
        ("/lease".to_owned(), format!("{{\"wait_ms\":30000,\"topics\":[\"{topic}\",\"{topic}2\"]")),
    ] {
        let mut wire = Wire::connect(dueq.addr()).await;
        let body = format!("{body}{}}}", " ".repeat(1_500_000));
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}"
        );
        assert!(wire.request(&head, body.as_bytes()).await);
        polls.push(wire);
        waiters(&client, polls.len() as u32).await;
    }
    let answer = client.publish_raw(&topic, "", None, &vec![b'x'; 1_500_000]).await;
    answer.problem(413, "payload_too_large");
}

/// A head that is read in two pieces and counts twice its length.
fn long_head() -> String {
    format!("GET /topics HTTP/1.1\r\nhost: localhost\r\nx-long: {}", "x".repeat(14_000))
}

#[tokio::test]
async fn long_heads_of_strangers_have_an_eighth_and_the_oldest_make_room() {
    let (dueq, topic) = (narrow().await, topic("overload"));
    let client = dueq.client();
    // A connection on which a request was let in, and one of a stranger.
    let mut known = Wire::connect(dueq.addr()).await;
    assert!(known.request("GET /topics HTTP/1.1\r\nhost: localhost", b"").await);
    known.answer("GET /topics", SOON).await.expect("an answer").expect(200);
    let begin = long_head();
    let mut strangers = Vec::new();
    for _ in 0..40 {
        let mut wire = Wire::connect(dueq.addr()).await;
        wire.write(begin.as_bytes()).await;
        strangers.push(wire);
        // In this order.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let closed = strangers.iter_mut().map(|wire| wire.closes_within(Duration::from_secs(1)));
    let closed = futures_util::future::join_all(closed).await;
    // Each counts twice its length, of 256 KiB.
    assert!(closed[..30].iter().all(|closed| *closed), "{closed:?}");
    assert!(closed[33..].iter().all(|closed| !*closed), "{closed:?}");
    client.published(&topic, json!({"payload": "x".repeat(60_000)})).await;
    assert!(known.request(&begin, b"").await);
    known.answer("a long head", SOON).await.expect("an answer").expect(200);
    // Who has come just now gets an answer too, whatever waits.
    for _ in 0..20 {
        let mut wire = Wire::connect(dueq.addr()).await;
        wire.request(&begin, b"").await;
        wire.answer("a long head", SOON).await.expect("an answer").expect(200);
        let mut stranger = Wire::connect(dueq.addr()).await;
        stranger.write(begin.as_bytes()).await;
        strangers.push(stranger);
    }
}

#[tokio::test]
async fn a_long_head_that_finds_no_room_is_answered() {
    let (dueq, topic) = (narrow().await, topic("overload"));
    for end in ["\r\n\r\n", "\r\nconnection: close\r\n\r\n", ""] {
        let answer = eventually("the budget is used", || async {
            // It is read before the head comes, or it would find no room itself.
            let _body = half(&dueq, &topic, 1_830_000, 1_829_000).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            let mut wire = Wire::connect(dueq.addr()).await;
            wire.write(format!("{}{end}", long_head()).as_bytes()).await;
            let answer = tokio::time::timeout(SOON / 4, wire.answer("a long head", SOON)).await;
            let answer = answer.ok()?.filter(|answer| answer.status == 503)?;
            Some((answer, wire.closes_within(SOON).await))
        });
        let (answer, closes) = answer.await;
        assert!(closes);
        let answer = answer.check().problem(503, "overloaded");
        assert_eq!(answer.header("retry-after"), "1");
    }
    let short = "GET /topics HTTP/1.1\r\nhost: localhost";
    let mut wire = Wire::connect(dueq.addr()).await;
    wire.request(short, b"").await;
    wire.answer("a short head", SOON).await.expect("an answer").expect(200);
}
