//! Each call is told on its message: when, what came of it, how long it took, what was answered.

use std::time::Duration;

use serde_json::{Value, json};

use crate::facts::{becomes, called, caller, fixed, patient, pushed_with, ready, scheduled};
use crate::harness::*;

/// A pushed topic that keeps what was acked.
async fn kept(client: &Client, receiver: &Receiver) -> String {
    let more = json!({"retention": {"acked_ms": 600_000}, "backoff": fixed(50)});
    pushed_with(client, "told", json!({"url": receiver.url("/")}), more).await
}

/// The one call of a message that was answered so and kept.
async fn told(reply: Reply) -> Value {
    let (client, receiver) = ready().await;
    receiver.answer(reply);
    let topic = kept(&client, &receiver).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    called(&becomes(&client, &id, "acked", 1).await).remove(0)
}

#[tokio::test]
async fn a_call_says_when_what_and_how_long() {
    let (client, receiver) = ready().await;
    let reply = Reply::status(503).body("try later, please");
    receiver.answer(reply.after(Duration::from_millis(300)));
    let before = caller().await.redis.time_ms().await;
    let id = scheduled(&client, &receiver.url("/"), json!({"backoff": patient()})).await;
    let seen = becomes(&client, &id, "delayed", 1).await;
    let after = caller().await.redis.time_up_ms().await;
    let call = &called(&seen)[0];
    assert!((before..=after).contains(&instant_ms(text(call, "at"))), "{call}");
    assert_eq!((&call["status"], &call["attempt"]), (&json!(503), &json!(1)), "{call}");
    assert!((290..1300).contains(&number(call, "duration_ms")), "{call}");
    assert_eq!(call["answer"], "try later, please");
    assert!(call.get("error").is_none(), "{call}");
}

#[tokio::test]
async fn all_attempts_are_told_in_order() {
    let (client, receiver) = ready().await;
    let topic = kept(&client, &receiver).await;
    let replies = [Reply::status(500).body("a"), Reply::dropped(), Reply::status(201).body("c")];
    receiver.answer_next("/", replies);
    let id = client.published(&topic, json!({"payload": 1})).await;
    let seen = becomes(&client, &id, "acked", 3).await;
    let calls = called(&seen);
    let column = |name: &str| calls.iter().map(|call| call[name].clone()).collect::<Vec<_>>();
    assert_eq!(column("attempt"), [json!(1), json!(2), json!(3)]);
    assert_eq!(column("status"), [json!(500), json!(null), json!(201)]);
    assert_eq!(column("answer"), [json!("a"), json!(null), json!("c")]);
    assert!(calls[1]["error"].is_string() && calls[0].get("error").is_none(), "{seen}");
    let at: Vec<i64> = calls.iter().map(|call| instant_ms(text(call, "at"))).collect();
    assert!(at.is_sorted(), "{seen}");
}

#[tokio::test]
async fn what_was_acked_and_kept_tells_its_call() {
    let call = told(Reply::status(200).body("thanks")).await;
    assert_eq!((&call["status"], &call["answer"]), (&json!(200), &json!("thanks")));
    assert!(number(&call, "duration_ms") >= 0);
}

#[tokio::test]
async fn an_empty_answer_is_left_out() {
    for reply in [Reply::status(200), Reply::status(204)] {
        let call = told(reply).await;
        assert!(call.get("answer").is_none_or(|answer| answer == ""), "{call}");
    }
}

#[tokio::test]
async fn a_long_answer_is_cut_at_1_kib() {
    let call = told(Reply::status(200).body("0123456789abcdef".repeat(64))).await;
    assert_eq!(text(&call, "answer").len(), 1024, "all of it");
    let call = told(Reply::status(200).body("0123456789abcdef".repeat(1000))).await;
    assert_eq!(text(&call, "answer"), "0123456789abcdef".repeat(64));
}

#[tokio::test]
async fn the_cut_leaves_whole_characters() {
    // 1 + 3 n bytes: the 1,024th byte is the last of a character; shifted by one it is not.
    for first in ["a", "ab", "abc"] {
        let body = first.to_owned() + &"€".repeat(1000);
        let call = told(Reply::status(200).body(body.clone())).await;
        let answer = text(&call, "answer");
        let whole = answer.trim_end_matches('\u{fffd}');
        assert!(body.starts_with(whole) && whole.len() > 1020, "{answer}");
        assert!(answer.len() <= 1027, "{} bytes", answer.len());
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_are_shown_somehow() {
    let call = told(Reply::status(200).body(vec![b'a', 0, 0xff, b'\n', 0x1b, b'"'])).await;
    let answer = text(&call, "answer");
    assert!(answer.starts_with('a') && answer.ends_with('"'), "{answer:?}");
}

#[tokio::test]
async fn an_answer_in_chunks_is_told_whole() {
    let reply = Reply::status(200).body("abcdefghij").trickle(3, Duration::from_millis(20));
    assert_eq!(told(reply).await["answer"], "abcdefghij");
}

#[tokio::test]
async fn the_last_twenty_events_are_kept() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(500));
    let more = json!({"max_attempts": 30, "backoff": fixed(1)});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let seen = eventually("dead", || async {
        let seen = client.get(&id).await.expect(200).json();
        (seen["state"] == "dead").then_some(seen)
    })
    .await;
    assert!(seen["events"].as_array().unwrap().len() <= 20, "{seen}");
    let calls = called(&seen);
    assert!(calls.len() >= 5, "{seen}");
    assert_eq!(calls.last().unwrap()["attempt"], 30, "{seen}");
    assert_eq!(receiver.count(), 30);
}
