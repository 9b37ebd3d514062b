//! A call ends within its time, whatever the receiver does.

use std::time::Instant;

use dueq_loops::callbacks::Verdict;

use super::{call, call_within, caller, receiver};
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
    assert_eq!(outcome.report.error.as_deref(), Some("timed out after 300 ms"));
    assert!(began.elapsed() < WOKEN);
}
