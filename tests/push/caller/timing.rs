//! A call ends within its time, whatever the receiver does.

use std::time::{Duration, Instant};

use dueq_loops::callbacks::{CallOutcome, CallRequest, Caller, Verdict};
use dueq_model::Retry;
use tokio::net::UdpSocket;

use super::{call, call_within, caller, carried_out, receiver, request};
use crate::harness::{Ending, Reply, WOKEN, eventually};

#[tokio::test]
async fn a_host_that_accepts_and_says_nothing_times_out_and_is_left() {
    let receiver = receiver(Reply::bytes("", Ending::Hang)).await;
    let outcome = call_within(&caller(&["127.0.0.0/8"], None), &receiver.url("/"), 200).await;
    assert_eq!(outcome.verdict, Verdict::Retry { after: None });
    assert_eq!(outcome.report.error.as_deref(), Some("timed out after 200 ms"));
    assert!((200..2_000).contains(&outcome.report.duration_ms), "{}", outcome.report.duration_ms);
    eventually("the connection is closed", || async {
        (receiver.accepted() == 1 && receiver.connections() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_head_that_trickles_times_out() {
    let receiver =
        receiver(Reply::bytes(b"HTTP/1.1 200 OK\r\nx: ".to_vec(), Ending::Trickle)).await;
    let outcome = call_within(&caller(&["127.0.0.0/8"], None), &receiver.url("/"), 300).await;
    assert_eq!(outcome.verdict, Verdict::Retry { after: None });
    assert_eq!(outcome.report.error.as_deref(), Some("timed out after 300 ms"));
}

#[tokio::test]
async fn a_body_that_trickles_is_read_for_as_long_as_the_call_may_take() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n".to_vec();
    let receiver = receiver(Reply::bytes(head, Ending::Trickle)).await;
    let outcome = call_within(&caller(&["127.0.0.0/8"], None), &receiver.url("/"), 300).await;
    assert_eq!((outcome.verdict, outcome.report.status), (Verdict::Delivered, Some(200)));
    assert!(outcome.report.answer.unwrap().starts_with('x'));
    assert!((300..2_000).contains(&outcome.report.duration_ms), "{}", outcome.report.duration_ms);
    eventually("the connection is closed", || async {
        (receiver.accepted() == 1 && receiver.connections() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_call_that_is_given_up_leaves_no_connection() {
    let receiver = receiver(Reply::bytes("", Ending::Hang)).await;
    let (caller, url) = (caller(&["127.0.0.0/8"], None), receiver.url("/"));
    let calling = tokio::spawn(async move { call(&caller, &url).await });
    eventually("the request has come", || async { (receiver.count() == 1).then_some(()) }).await;
    calling.abort();
    eventually("the connection is closed", || async {
        (receiver.accepted() == 1 && receiver.connections() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_host_that_does_not_shake_hands_times_out() {
    let receiver = receiver(Reply::bytes("", Ending::Hang)).await;
    let url = receiver.url("/").replace("http:", "https:");
    let began = Instant::now();
    let outcome = call_within(&caller(&["127.0.0.0/8"], None), &url, 300).await;
    assert_eq!(
        outcome.report.error.as_deref(),
        Some("timed out after 300 ms without a connection")
    );
    assert!(began.elapsed() < WOKEN);
}

/// A call that may take so many ms to connect, and `ms` in all, and is not retried where it does not.
async fn connecting(caller: &Caller, url: &str, connect_ms: u64, ms: u64) -> CallOutcome {
    let connect_timeout = Some(Duration::from_millis(connect_ms));
    let retry = Some(Retry { never: vec!["connect".to_owned()], ..Retry::default() });
    let timeout = Duration::from_millis(ms);
    carried_out(caller, CallRequest { timeout, connect_timeout, retry, ..request(url) }).await
}

#[tokio::test]
async fn a_connection_has_the_time_that_the_call_gives_it_from_the_name_to_the_handshake() {
    // A name server that never answers, and a host that accepts and never says anything.
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let hung = receiver(Reply::bytes("", Ending::Hang)).await;
    let by_name = caller(&["127.0.0.0/8"], Some(silent.local_addr().unwrap()));
    let secure = hung.url("/").replace("http:", "https:");
    for (url, connect_ms, ms, error) in [
        ("http://a.test/", 300, 10_000, "cannot look up a.test: no answer in time"),
        (&secure, 300, 10_000, "no TLS: the host does not shake hands"),
        (&secure, 10_000, 300, "timed out after 300 ms without a connection"),
    ] {
        let outcome = connecting(&by_name, url, connect_ms, ms).await;
        let took = outcome.report.duration_ms;
        assert!((300..2_000).contains(&took), "{url}: {took}");
        assert_eq!(
            (outcome.report.error.as_deref(), outcome.verdict),
            (Some(error), Verdict::Dead)
        );
    }
    // What comes after the connection is not limited.
    let slow = receiver(Reply::status(200).after(Duration::from_millis(600))).await;
    let outcome = connecting(&by_name, &slow.url("/"), 300, 10_000).await;
    assert_eq!(outcome.verdict, Verdict::Delivered);
}
