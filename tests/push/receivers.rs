//! The receiver of these tests does what it is told: what the others conclude from it stands on that.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::*;

/// A client of the receiver, which gives up after a second.
fn http() -> reqwest::Client {
    let builder = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(1));
    builder.redirect(reqwest::redirect::Policy::none()).build().expect("an HTTP client")
}

#[tokio::test]
async fn it_records_what_comes_and_answers_as_told() {
    let (http, receiver) = (http(), Receiver::start().await);
    receiver.answer(Reply::status(201).header("x-a", "b").body("made"));
    receiver.answer_at("/at", Reply::status(404));
    receiver.answer_next("/at", [Reply::status(500)]);
    let sent = http.post(receiver.url("/x?y")).header("X-Two", "2").body("body").send();
    let answer = sent.await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["x-a"]), (201, &"b".parse().unwrap()));
    assert_eq!(answer.text().await.unwrap(), "made");
    for wanted in [500, 404] {
        let answer = http.get(receiver.url("/at")).send().await.unwrap();
        assert_eq!(answer.status(), wanted);
    }
    let calls = receiver.calls();
    assert_eq!((calls.len(), receiver.calls_at("/at").len()), (3, 2));
    let first = &calls[0];
    assert_eq!((first.method.as_str(), first.path.as_str()), ("POST", "/x?y"));
    assert_eq!((first.body.as_slice(), first.header("x-two")), (&b"body"[..], "2"));
    assert_eq!((receiver.connections(), receiver.under_way()), (1, 0), "one was kept open");
}

#[tokio::test]
async fn it_counts_what_is_under_way() {
    let (http, receiver) = (http(), Receiver::start().await);
    receiver.answer(Reply::status(200).after(Duration::from_millis(200)));
    let send = || async { http.get(receiver.url("/")).send().await.unwrap().status() };
    let answers = tokio::join!(send(), send(), send());
    assert_eq!(answers, (reqwest::StatusCode::OK, answers.1, answers.2));
    assert_eq!((receiver.most_under_way(), receiver.count()), (3, 3));
}

#[tokio::test]
async fn it_can_be_silent_rude_slow_and_away() {
    let (http, mut receiver) = (http(), Receiver::start().await);
    receiver.answer_at("/never", Reply::never());
    receiver.answer_at("/drop", Reply::dropped());
    let slow = Reply::status(200).body("abcdef").trickle(2, Duration::from_millis(50));
    receiver.answer_at("/slow", slow);
    let never = http.get(receiver.url("/never")).send().await.unwrap_err();
    assert!(never.is_timeout(), "{never:?}");
    eventually("it sees that", || async { (receiver.connections() == 0).then_some(()) }).await;
    let dropped = http.get(receiver.url("/drop")).send().await.unwrap_err();
    assert!(!dropped.is_timeout() && !dropped.is_connect(), "{dropped:?}");
    let start = Instant::now();
    let slow = http.get(receiver.url("/slow")).send().await.unwrap().text().await.unwrap();
    assert_eq!(slow, "abcdef");
    assert!(start.elapsed() >= Duration::from_millis(150));
    receiver.stop().await;
    let away = http.get(receiver.url("/")).send().await.unwrap_err();
    assert!(away.is_connect(), "{away:?}");
    receiver.start_again().await;
    let sent = http.post(receiver.url("/")).json(&json!({"a": 1})).send();
    assert_eq!(sent.await.unwrap().status(), 200);
    receiver
        .wait_until("the last", |calls| (calls.last()?.body == br#"{"a":1}"#).then_some(()))
        .await;
}
