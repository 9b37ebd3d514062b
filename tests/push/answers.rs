//! What the answer to a call makes of its message: done, dead, or once more later.

use serde_json::{Value, json};

use crate::facts::{
    a_while, acked, becomes, called, fixed, gone, patient, pushed_with, ready, scheduled, waits,
};
use crate::harness::*;

/// Schedules a callback that is answered so: the message once it is in this state.
async fn answered(reply: Reply, state: &str, more: Value) -> (Receiver, Value) {
    let (client, receiver) = ready().await;
    receiver.answer(reply);
    let more = crate::facts::with(json!({"payload": 1, "backoff": patient()}), more);
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let seen = becomes(&client, &id, state, 1).await;
    assert_eq!(receiver.count(), 1);
    (receiver, seen)
}

#[tokio::test]
async fn anything_but_2xx_is_tried_again_after_the_backoff() {
    for status in [300, 304, 400, 401, 403, 404, 408, 409, 429, 500, 501, 503, 599] {
        let (_receiver, seen) = answered(Reply::status(status), "delayed", json!({})).await;
        waits(&seen, 600_000).await;
        assert_eq!((&seen["attempts"], &seen["attempts_left"]), (&json!(1), &json!(9)), "{seen}");
        assert_eq!(called(&seen)[0]["status"], status, "{seen}");
        let why = text(&seen, "last_error");
        assert!(why.contains(&status.to_string()), "{status} is not in {why:?}");
    }
}

#[tokio::test]
async fn the_backoff_grows_and_is_jittered() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(500));
    let backoff = json!({"kind": "exponential", "base_ms": 200, "factor": 2.0, "jitter": 0.5});
    let id = scheduled(&client, &receiver.url("/"), json!({"backoff": backoff})).await;
    let calls = receiver.wait_for(4).await;
    for (n, pair) in calls.windows(2).enumerate() {
        let base = 200 << n;
        let waited = pair[1].at_ms - pair[0].at_ms;
        assert!((base / 2..base * 3 / 2 + 1000).contains(&waited), "{n}: {waited} ms of {base}");
    }
    client.delete_by_force(&id).await.expect(204);
}

#[tokio::test]
async fn a_schedule_of_delays_is_kept() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(500));
    let backoff = json!({"kind": "schedule", "delays_ms": [50, 400, 600_000]});
    let id = scheduled(&client, &receiver.url("/"), json!({"backoff": backoff})).await;
    let seen = becomes(&client, &id, "delayed", 3).await;
    waits(&seen, 600_000).await;
    let calls = receiver.calls();
    assert!(calls[1].at_ms - calls[0].at_ms >= 50, "{calls:?}");
    assert!(calls[2].at_ms - calls[1].at_ms >= 400, "{calls:?}");
}

#[tokio::test]
async fn an_answer_of_410_is_the_end() {
    let (receiver, seen) = answered(Reply::status(410), "dead", json!({})).await;
    assert_eq!((&seen["attempts"], &called(&seen)[0]["status"]), (&json!(1), &json!(410)));
    assert!(text(&seen, "last_error").contains("410"), "{seen}");
    let events = seen["events"].as_array().unwrap();
    assert_eq!(events.last().unwrap()["kind"], "dead", "{seen}");
    a_while(300).await;
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn a_4xx_that_says_never_is_the_end() {
    for (status, value) in [(404, "never"), (400, "never"), (429, "never"), (422, "Never")] {
        let reply = Reply::status(status).header("dueq-retry", value);
        // The word is the contract's; another spelling may count as it or not.
        if value == "never" {
            answered(reply, "dead", json!({})).await;
        } else {
            let (client, receiver) = ready().await;
            receiver.answer(reply);
            let more = json!({"backoff": patient()});
            let id = scheduled(&client, &receiver.url("/"), more).await;
            eventually("an end of the call", || async {
                let state = client.state(&id).await;
                matches!(state.as_str(), "dead" | "delayed").then_some(())
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_5xx_that_says_never_is_tried_again() {
    for status in [500, 503] {
        let reply = Reply::status(status).header("dueq-retry", "never");
        answered(reply, "delayed", json!({})).await;
    }
}

#[tokio::test]
async fn a_2xx_that_says_never_is_a_success() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(200).header("dueq-retry", "never").header("retry-after", "9"));
    let id = scheduled(&client, &receiver.url("/"), json!({})).await;
    receiver.wait_for(1).await;
    gone(&client, &id).await;
}

#[tokio::test]
async fn redirects_are_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let (client, receiver) = ready().await;
        let reply = Reply::status(status).header("location", &receiver.url("/elsewhere"));
        receiver.answer_at("/", reply);
        let more = json!({"payload": 1, "backoff": fixed(200)});
        let id = scheduled(&client, &receiver.url("/"), more).await;
        let calls = receiver.wait_for(2).await;
        assert!(calls.iter().all(|call| call.path == "/"), "{status}: {calls:?}");
        receiver.answer_at("/", Reply::status(200));
        gone(&client, &id).await;
        assert!(receiver.calls_at("/elsewhere").is_empty());
    }
}

#[tokio::test]
async fn when_the_attempts_are_used_up_it_is_dead_until_it_is_redriven() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(500).body("no luck"));
    let more = json!({"payload": "p", "max_attempts": 3, "backoff": fixed(50)});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let seen = becomes(&client, &id, "dead", 3).await;
    assert_eq!((&seen["attempts"], &seen["attempts_left"]), (&json!(3), &json!(0)), "{seen}");
    assert!(text(&seen, "last_error").contains("500"), "{seen}");
    assert_eq!(receiver.count(), 3);
    receiver.answer(Reply::status(200));
    client.redrive(&id).await.expect(200);
    let call = receiver.wait_for(4).await.remove(3);
    assert_eq!((call.id(), call.attempt(), call.body.as_slice()), (&*id, 4, &b"\"p\""[..]));
    gone(&client, &id).await;
}

#[tokio::test]
async fn the_dead_of_a_topic_can_be_redriven_together() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(410));
    let topic = pushed_with(&client, "dead", json!({"url": receiver.url("/")}), json!({})).await;
    for n in 0..5 {
        client.published(&topic, json!({"payload": n})).await;
    }
    eventually("five dead", || async { (client.count(&topic, "dead").await == 5).then_some(()) })
        .await;
    receiver.answer(Reply::status(200));
    client.redrive_topic(&topic, json!({})).await.expect(200);
    receiver.wait_for(10).await;
    acked(&client, &topic, 5).await;
}

#[tokio::test]
async fn a_topics_policy_counts_where_the_message_names_none() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(500));
    let more = json!({"max_attempts": 2, "backoff": fixed(50)});
    let topic = pushed_with(&client, "policy", json!({"url": receiver.url("/")}), more).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    let seen = becomes(&client, &id, "dead", 2).await;
    assert_eq!(seen["attempts"], 2);
    let seen = client.topic(&topic).await.expect(200).json();
    assert_eq!((&seen["totals"]["nacked"], &seen["totals"]["dead"]), (&json!(2), &json!(1)));
}
