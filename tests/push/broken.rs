//! Receivers that do not answer as they should: late, half, nothing, or not there at all.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::facts::{a_while, becomes, called, fixed, gone, patient, ready, scheduled};
use crate::harness::*;

#[tokio::test]
async fn a_receiver_that_never_answers_is_given_up_after_the_timeout() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::never());
    let more = json!({"timeout_ms": 400, "backoff": patient()});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let seen = becomes(&client, &id, "delayed", 1).await;
    let call = &called(&seen)[0];
    assert!((380..1500).contains(&number(call, "duration_ms")), "{seen}");
    assert!(!text(call, "error").is_empty() && call.get("status").is_none(), "{seen}");
    assert!(!text(&seen, "last_error").is_empty(), "{seen}");
    assert_eq!(seen["attempts"], 1);
    eventually("the connection closed", || async { (receiver.connections() == 0).then_some(()) })
        .await;
}

#[tokio::test]
async fn an_answer_just_in_time_counts() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(200).after(Duration::from_millis(1200)));
    let id = scheduled(&client, &receiver.url("/"), json!({"timeout_ms": 4000})).await;
    gone(&client, &id).await;
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn an_answer_too_late_is_none() {
    let (client, receiver) = ready().await;
    receiver.answer_next("/", [Reply::status(200).after(Duration::from_millis(900))]);
    let more = json!({"timeout_ms": 300, "backoff": fixed(100)});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let calls = receiver.wait_for(2).await;
    assert_eq!(calls[1].attempt(), 2);
    gone(&client, &id).await;
}

#[tokio::test]
async fn an_answer_that_trickles_for_ever_does_not_hold_the_call() {
    let (client, receiver) = ready().await;
    // 500 at once, then a byte every 100 ms for a minute: the timeout is for the whole call.
    let slow = Reply::status(500).body(vec![b'x'; 600]).trickle(1, Duration::from_millis(100));
    receiver.answer(slow);
    let more = json!({"timeout_ms": 700, "backoff": patient()});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let seen = becomes(&client, &id, "delayed", 1).await;
    assert!(number(&called(&seen)[0], "duration_ms") < 2000, "{seen}");
}

#[tokio::test]
async fn an_answer_without_end_is_read_up_to_its_first_kib() {
    let (client, receiver) = ready().await;
    let long = Reply::status(500).body(vec![b'x'; 32 << 20]).trickle(4096, Duration::ZERO);
    receiver.answer(long);
    let more = json!({"timeout_ms": 10_000, "backoff": patient()});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let seen = becomes(&client, &id, "delayed", 1).await;
    assert_eq!(text(&called(&seen)[0], "answer"), "x".repeat(1024));
}

#[tokio::test]
async fn a_dropped_connection_is_tried_again() {
    let (client, receiver) = ready().await;
    receiver.answer_next("/", [Reply::dropped(), Reply::dropped()]);
    let id = scheduled(&client, &receiver.url("/"), json!({"backoff": fixed(50)})).await;
    let calls = receiver.wait_for(3).await;
    assert_eq!(calls.iter().map(Call::attempt).collect::<Vec<_>>(), [1, 2, 3]);
    gone(&client, &id).await;
}

#[tokio::test]
async fn a_dropped_connection_is_on_record() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::dropped());
    let id = scheduled(&client, &receiver.url("/"), json!({"backoff": patient()})).await;
    let seen = becomes(&client, &id, "delayed", 1).await;
    assert!(!text(&called(&seen)[0], "error").is_empty(), "{seen}");
    // A client that repeats by itself what a fresh connection dropped would have sent it twice.
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn a_refused_connection_is_tried_again() {
    let (client, mut receiver) = ready().await;
    receiver.stop().await;
    let more = json!({"payload": 1, "backoff": fixed(300)});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let seen = eventually("a failed call", || async {
        let seen = client.get(&id).await.expect(200).json();
        (!called(&seen).is_empty()).then_some(seen)
    })
    .await;
    assert!(!text(&called(&seen)[0], "error").is_empty(), "{seen}");
    assert!(number(&seen, "attempts") >= 1, "{seen}");
    receiver.start_again().await;
    let call = receiver.wait_for(1).await.remove(0);
    assert!(call.attempt() >= 2, "{call:?}");
    gone(&client, &id).await;
}

#[tokio::test]
async fn a_receiver_that_comes_back_gets_everything_once() {
    let (client, mut receiver) = ready().await;
    scheduled(&client, &receiver.url("/before"), json!({"payload": 0})).await;
    receiver.wait_at("/before").await;
    receiver.stop().await;
    let mut ids = Vec::new();
    for n in 0..20 {
        let more = json!({"payload": n, "backoff": fixed(400), "max_attempts": 100});
        ids.push(scheduled(&client, &receiver.url("/after"), more).await);
    }
    a_while(1000).await;
    receiver.start_again().await;
    for id in &ids {
        gone(&client, id).await;
    }
    let calls = receiver.calls_at("/after");
    assert_eq!(calls.len(), 20, "each once");
}

#[tokio::test]
async fn a_connection_kept_open_and_closed_meanwhile_costs_nobody_an_attempt() {
    let (client, mut receiver) = ready().await;
    for n in 0..5 {
        let path = format!("/{n}");
        let id = scheduled(&client, &receiver.url(&path), json!({"backoff": patient()})).await;
        assert_eq!(receiver.wait_at(&path).await.attempt(), 1);
        gone(&client, &id).await;
        receiver.stop().await; // closes what was kept open
        receiver.start_again().await;
    }
}

/// A server that reads something and writes these bytes, `more` again and again: its URL.
async fn fake(answer: &'static str, more: &'static str) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.77.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            while !more.is_empty() && stream.write_all(more.as_bytes()).await.is_ok() {}
            a_while(200).await;
        }
    });
    (url, server)
}

#[tokio::test]
async fn what_is_no_http_is_a_failure() {
    let (client, _receiver) = ready().await;
    for answer in
        ["SSH-2.0-OpenSSH_9.9\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 200", "\r\n\r\n"]
    {
        let (url, server) = fake(answer, "").await;
        let more = json!({"timeout_ms": 2000, "backoff": patient()});
        let id = scheduled(&client, &url, more).await;
        let seen = becomes(&client, &id, "delayed", 1).await;
        assert!(!text(&called(&seen)[0], "error").is_empty(), "{answer:?}: {seen}");
        server.abort();
    }
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let (client, _receiver) = ready().await;
    let (url, server) = fake("HTTP/1.1 200 OK\r\n", "x-more: 1\r\n").await;
    let more = json!({"timeout_ms": 3000, "backoff": patient()});
    let id = scheduled(&client, &url, more).await;
    let seen = becomes(&client, &id, "delayed", 1).await;
    assert!(!text(&called(&seen)[0], "error").is_empty(), "{seen}");
    server.abort();
}

#[tokio::test]
async fn an_informational_answer_is_not_the_answer() {
    let (client, _receiver) = ready().await;
    let answers = "HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n\
                   HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let (url, server) = fake(answers, "").await;
    let id = scheduled(&client, &url, json!({"backoff": patient()})).await;
    gone(&client, &id).await;
    server.abort();
}

#[tokio::test]
async fn interim_answers_without_end_are_cut_off() {
    let (client, _) = ready().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let flood = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(100);
                // What comes before the request is no answer to it.
                let _ = stream.read(&mut [0; 1_024]).await;
                while stream.write_all(&interim).await.is_ok() {}
            });
        }
    });
    let more = json!({"timeout_ms": 20_000, "backoff": patient()});
    let id = scheduled(&client, &url, more).await;
    let seen = becomes(&client, &id, "delayed", 1).await;
    assert!(text(&seen, "last_error").contains("too long"), "{seen}");
    assert!(number(&called(&seen)[0], "duration_ms") < 10_000, "{seen}");
    flood.abort();
}

#[tokio::test]
async fn no_call_takes_longer_than_the_operator_lets_it() {
    let (_redis, dueq) = crate::facts::alone(&["--callback-max-timeout-ms", "300"]).await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    receiver.answer(Reply::never());
    let more = json!({"timeout_ms": 1_800_000, "backoff": patient()});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let seen = becomes(&client, &id, "delayed", 1).await;
    assert_eq!(seen["callback"]["timeout_ms"], 1_800_000);
    assert!(text(&seen, "last_error").contains("after 300 ms"), "{seen}");
}
