//! What is sent, and what is made of the answers.

use std::time::Duration;

use dueq_loops::callbacks::{CallRequest, Verdict};
use dueq_model::{CallMethod, Retry};

use super::{answer, call, caller, carried_out, receiver, request};
use crate::harness::{Ending, Reply, eventually};

const LATER: Verdict = Verdict::Retry { after: None };

/// Verdict, status and text of the answer.
async fn answered(reply: Reply) -> (Verdict, Option<u16>, Option<String>) {
    let receiver = receiver(reply).await;
    let outcome = call(&caller(&["127.0.0.0/8"], None), &receiver.url("/")).await;
    assert_eq!(receiver.count(), 1, "sent once");
    (outcome.verdict, outcome.report.status, outcome.report.answer)
}

#[tokio::test]
async fn the_request_is_as_it_was_built() {
    let receiver = receiver(answer(200, "", "")).await;
    let caller = caller(&["127.0.0.0/8"], None);
    for method in CallMethod::ALL.map(|(_, method)| method) {
        let mut request = request(&receiver.url("/a/é?b=c%20d#e"));
        request.headers.insert("x-a", "1".parse().unwrap());
        assert_eq!(
            carried_out(&caller, CallRequest { method, ..request }).await.verdict,
            Verdict::Delivered
        );
        let mut call = receiver.calls().pop().unwrap();
        call.headers.sort();
        let host = receiver.addr().to_string();
        let wanted = [("content-length", "3"), ("host", &host), ("x-a", "1")];
        assert_eq!(call.headers, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!((&*call.method, &*call.path), (method.as_str(), "/a/%C3%A9?b=c%20d"));
        assert_eq!(call.body, b"abc");
    }
    assert_eq!(receiver.accepted(), 1, "the connection is used again");
}

#[tokio::test]
async fn the_status_decides() {
    for (reply, verdict) in [
        (answer(200, "", "ok"), Verdict::Delivered),
        (answer(202, "dueq-retry: never\r\n", "ok"), Verdict::Delivered),
        (answer(410, "", "ok"), Verdict::Dead),
        (answer(400, "Dueq-Retry: Never\r\n", "ok"), Verdict::Dead),
        (answer(500, "dueq-retry: never\r\n", "ok"), LATER),
        (answer(404, "", "ok"), LATER),
        (
            answer(429, "retry-after: 30\r\n", "ok"),
            Verdict::Retry { after: Some(Duration::from_secs(30)) },
        ),
        (
            // The instant of the call is 2025-11-21T04:40:00Z.
            answer(503, "retry-after: Fri, 21 Nov 2025 03:00:00 GMT\r\n", "ok"),
            LATER,
        ),
        (
            answer(
                503,
                "date: Fri, 21 Nov 2025 03:00:00 GMT\r\nretry-after: Fri, 21 Nov 2025 03:01:00 GMT\r\n",
                "ok",
            ),
            Verdict::Retry { after: Some(Duration::from_secs(60)) },
        ),
    ] {
        let said = format!("{reply:?}");
        let (found, status, text) = answered(reply).await;
        assert_eq!((found, text.as_deref()), (verdict, Some("ok")), "{said}");
        assert!(status.is_some());
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = receiver(answer(200, "", "")).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("location: {}\r\n", target.url("/"));
        let (verdict, found, _) = answered(answer(status, &location, "")).await;
        assert_eq!((verdict, found), (LATER, Some(status)));
    }
    assert_eq!(target.accepted(), 0);
}

#[tokio::test]
async fn of_the_answer_the_first_kib_is_kept() {
    let text = |body: String| async move { answered(answer(500, "", &body)).await.2 };
    assert_eq!(text(String::new()).await, None);
    assert_eq!(text("é".repeat(400)).await, Some("é".repeat(400)));
    assert_eq!(text("a".repeat(5_000)).await, Some("a".repeat(1_024)));
    assert_eq!(
        text(format!("a{}", "é".repeat(5_000))).await,
        Some(format!("a{}", "é".repeat(511)))
    );
    let broken = b"HTTP/1.1 500 No\r\ncontent-length: 3\r\n\r\na\xff\xfe".to_vec();
    assert_eq!(
        answered(Reply::bytes(broken, Ending::Keep)).await.2.as_deref(),
        Some("a\u{fffd}\u{fffd}")
    );
}

#[tokio::test]
async fn a_long_answer_is_not_read_to_its_end() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";
    let long = [head.as_bytes(), &vec![b'x'; 4_000_000]].concat();
    let receiver = receiver(Reply::bytes(long, Ending::Hang)).await;
    let outcome = call(&caller(&["127.0.0.0/8"], None), &receiver.url("/")).await;
    assert_eq!(outcome.verdict, Verdict::Delivered);
    assert_eq!(outcome.report.answer.unwrap().len(), 1_024);
    assert!(outcome.report.duration_ms < 5_000);
    eventually("the connection is closed", || async {
        (receiver.accepted() == 1 && receiver.connections() == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_after_its_head_counts_by_its_head() {
    for (status, verdict) in [(200, Verdict::Delivered), (500, LATER)] {
        let half = format!("HTTP/1.1 {status} X\r\ncontent-length: 100\r\n\r\nhalf").into_bytes();
        let (found, _, text) = answered(Reply::bytes(half, Ending::Close)).await;
        assert_eq!((found, text.as_deref()), (verdict, Some("half")));
    }
}

#[tokio::test]
async fn what_is_no_answer_is_told_and_tried_again() {
    for (bytes, error) in [
        (&b""[..], "the connection was closed before an answer came"),
        (b"HTTP/1.1 200", "the connection was closed before an answer came"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "the answer is not HTTP"),
    ] {
        let receiver = receiver(Reply::bytes(bytes.to_vec(), Ending::Close)).await;
        let outcome = call(&caller(&["127.0.0.0/8"], None), &receiver.url("/")).await;
        assert_eq!((outcome.verdict, outcome.report.status), (LATER, None));
        let found = outcome.report.error.unwrap();
        assert!(found.starts_with(error), "{found}");
        assert_eq!(receiver.count(), 1, "what may have arrived is not sent again");
    }
    let large = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "a".repeat(100_000)).into_bytes();
    let receiver = receiver(Reply::bytes(large, Ending::Hang)).await;
    let outcome = call(&caller(&["127.0.0.0/8"], None), &receiver.url("/")).await;
    assert_eq!(outcome.report.error.as_deref(), Some("the head of the answer is too large"));
}

#[tokio::test]
async fn a_request_over_a_used_connection_that_breaks_is_not_sent_again() {
    let receiver = receiver(Reply::dropped()).await;
    receiver.answer_next("/", [answer(200, "", "")]);
    let caller = caller(&["127.0.0.0/8"], None);
    assert_eq!(call(&caller, &receiver.url("/")).await.verdict, Verdict::Delivered);
    // It says nothing about the message, so that no list applies.
    let never = |cause: &str| {
        let retry = Some(Retry { never: vec![cause.to_owned()], ..Retry::default() });
        CallRequest { retry, ..request(&receiver.url("/")) }
    };
    assert_eq!(carried_out(&caller, never("connect")).await.verdict, LATER);
    assert_eq!(receiver.count(), 2);
    // What is not to be sent twice meets no kept connection, whatever the method.
    receiver.answer_next("/", [answer(200, "", "")]);
    assert_eq!(call(&caller, &receiver.url("/")).await.verdict, Verdict::Delivered);
    for method in [CallMethod::Post, CallMethod::Put] {
        let (before, accepted) = (receiver.count(), receiver.accepted());
        let once = CallRequest { method, ..never("timeout") };
        assert_eq!(carried_out(&caller, once).await.verdict, Verdict::Dead);
        assert_eq!((receiver.count() - before, receiver.accepted() - accepted), (1, 1));
    }
}

#[tokio::test]
async fn a_host_that_takes_no_connections_is_told_and_tried_again() {
    let gone = receiver(answer(200, "", "")).await.url("/");
    eventually("the port is closed", || async {
        let outcome = call(&caller(&["127.0.0.0/8"], None), &gone).await;
        assert_ne!(outcome.verdict, Verdict::Dead);
        (outcome.report.error.as_deref() == Some("cannot connect: connection refused"))
            .then_some(())
    })
    .await;
}
