//! Long polls: who waits is answered as soon as something can be granted, the oldest first.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::facts::granted_ms;
use crate::harness::*;

/// A grant is this late at most, ms. Waking misses nothing, so it is never a matter of the slow
/// fallback; how punctual it is, the bench tells.
const LATE_MS: i64 = WOKEN.as_millis() as i64;

/// A long poll under way: the messages, and when they came.
fn poll(client: &Client, topic: &str, wait_ms: u64) -> JoinHandle<(Vec<Value>, Instant)> {
    let (client, topic) = (client.clone(), topic.to_owned());
    tokio::spawn(async move {
        let messages = client.leased(&topic, json!({"wait_ms": wait_ms})).await;
        (messages, Instant::now())
    })
}

#[tokio::test]
async fn a_poll_that_gets_nothing_ends_empty_in_time() {
    let (client, topic) = (client().await, topic("poll"));
    for wait_ms in [1, 300, 1000] {
        let mut best = u64::MAX; // of three: other tests may have the processor
        for _ in 0..3 {
            let start = Instant::now();
            assert!(client.leased(&topic, json!({"wait_ms": wait_ms})).await.is_empty());
            let waited = start.elapsed().as_millis() as u64;
            assert!(waited >= wait_ms, "{waited} of {wait_ms} ms");
            best = best.min(waited);
            if best <= wait_ms + 500 {
                break;
            }
        }
        assert!(best <= wait_ms + 500, "{best} of {wait_ms} ms");
    }
}

#[tokio::test]
async fn a_poll_that_finds_something_does_not_wait() {
    let (client, topic) = (client().await, topic("poll"));
    client.published(&topic, json!({"payload": 1})).await;
    let start = Instant::now();
    let want = json!({"wait_ms": 20_000, "max_messages": 100});
    assert_eq!(client.leased(&topic, want).await.len(), 1, "one is enough");
    assert!(start.elapsed() < WOKEN);
}

#[tokio::test]
async fn a_publish_wakes() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("poll"));
    for priority in [0, 9] {
        client.published(&topic, json!({"payload": 0, "priority": priority})).await;
        client.lease_one(&topic).await;
        let poll = poll(&client, &topic, 20_000);
        waiters(&client, 1).await;
        client.published(&topic, json!({"payload": 1, "priority": priority})).await;
        let published = Instant::now();
        let (messages, woken) = poll.await.unwrap();
        assert_eq!(messages.len(), 1);
        let time = woken.saturating_duration_since(published);
        assert!(time < WOKEN, "{time:?}");
    }
    waiters(&client, 0).await;
}

#[tokio::test]
async fn a_topic_that_does_not_exist_yet_can_be_waited_for() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("poll"));
    let poll = poll(&client, &topic, 20_000);
    waiters(&client, 1).await;
    client.topic(&topic).await.problem(404, "topic_not_found");
    client.published(&topic, json!({"payload": 1})).await;
    let published = Instant::now();
    let (messages, woken) = poll.await.unwrap();
    assert_eq!(messages.len(), 1);
    assert!(woken.saturating_duration_since(published) < WOKEN);
}

#[tokio::test]
async fn a_due_time_wakes_at_its_moment() {
    let (client, topic) = (client().await, topic("poll"));
    for priority in [0, 9] {
        let message = json!({"payload": 1, "delay_ms": 700, "priority": priority});
        let due = client.publish(&topic, message).await.expect(201).instant("due_at");
        let message = client.lease_one(&topic).await;
        let late = granted_ms(&message, 30_000) - due;
        assert!((0..LATE_MS).contains(&late), "{late} ms after its due time");
    }
}

#[tokio::test]
async fn a_message_due_earlier_than_the_one_waited_for_wakes() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("poll"));
    client.published(&topic, json!({"payload": "late", "delay_ms": 60_000})).await;
    let poll = poll(&client, &topic, 20_000);
    waiters(&client, 1).await;
    let message = json!({"payload": "soon", "delay_ms": 300});
    let due = client.publish(&topic, message).await.expect(201).instant("due_at");
    let (messages, _) = poll.await.unwrap();
    assert_eq!(messages[0]["payload"], "soon");
    let late = granted_ms(&messages[0], 30_000) - due;
    assert!((0..LATE_MS).contains(&late), "{late} ms after its due time");
}

#[tokio::test]
async fn a_nack_wakes_at_once_or_after_its_delay() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("poll"));
    client.published(&topic, json!({"payload": 1})).await;
    for delay in [0, 400] {
        let held = client.lease_one(&topic).await;
        let poll = poll(&client, &topic, 20_000);
        waiters(&client, 1).await;
        let more = json!({"delay_ms": delay});
        let due = client.nack_leased(&held, more).await.expect(200).instant("due_at");
        let (messages, _) = poll.await.unwrap();
        let late = granted_ms(&messages[0], 30_000) - due;
        assert!((0..LATE_MS).contains(&late), "{late} ms after its due time");
        let again = json!({"delay_ms": 0});
        client.nack_leased(&messages[0], again).await.expect(200);
    }
}

#[tokio::test]
async fn an_expired_lease_wakes_at_its_deadline() {
    let (client, topic) = (client().await, topic("poll"));
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    let again = client.lease_one(&topic).await;
    let late = granted_ms(&again, 30_000) - instant_ms(text(&held, "lease_expires_at"));
    assert!((0..LATE_MS).contains(&late), "{late} ms after the deadline");
}

#[tokio::test]
async fn a_lease_that_is_extended_wakes_nobody_before_its_new_deadline() {
    let (client, topic) = (client().await, topic("poll"));
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    let poll = poll(&client, &topic, 20_000);
    let end = client.extend_leased(&held, 2000).await.expect(200).instant("lease_expires_at");
    let (messages, _) = poll.await.unwrap();
    let late = granted_ms(&messages[0], 30_000) - end;
    assert!((0..LATE_MS).contains(&late), "{late} ms after the deadline");
}

#[tokio::test]
async fn a_deleted_message_is_not_waited_for_any_more() {
    let mut dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("poll"));
    let message = json!({"payload": "gone", "delay_ms": 5000});
    let gone = client.publish(&topic, message).await.expect(201);
    let poll = poll(&client, &topic, 30_000);
    waiters(&client, 1).await;
    client.delete(&gone.text("id")).await.expect(204);
    let due = gone.instant("due_at");
    eventually("its due time", || async {
        (shared().await.redis.time_ms().await > due + 300).then_some(())
    })
    .await;
    assert!(!poll.is_finished());
    waiters(&client, 1).await;
    // Which answers the poll.
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    assert!(poll.await.unwrap().0.is_empty());
}

#[tokio::test]
async fn the_oldest_poll_is_served_first() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("poll"));
    let mut polls = Vec::new();
    for n in 1..=5 {
        polls.push(poll(&client, &topic, 20_000));
        waiters(&client, n).await;
    }
    for (n, poll) in polls.into_iter().enumerate() {
        client.published(&topic, json!({"payload": n})).await;
        let (messages, _) = poll.await.unwrap();
        assert_eq!(messages[0]["payload"], n, "message {n} goes to poll {n}");
        waiters(&client, 4 - n as u32).await;
    }
}

#[tokio::test]
async fn one_message_answers_one_poll_and_the_others_wait_on() {
    let mut dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("poll"));
    let polls: Vec<_> = (0..20).map(|_| poll(&client, &topic, 30_000)).collect();
    waiters(&client, 20).await;
    client.published(&topic, json!({"payload": 1})).await;
    waiters(&client, 19).await;
    assert_eq!(client.total(&topic, "granted").await, 1);
    // Which answers the polls that wait on.
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    let mut granted = 0;
    for poll in polls {
        granted += poll.await.unwrap().0.len();
    }
    assert_eq!(granted, 1);
    assert_eq!(shared().await.dueq.client().total(&topic, "granted").await, 1);
}

#[tokio::test]
async fn many_messages_at_once_answer_as_many_polls() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("poll"));
    let polls: Vec<_> = (0..50).map(|_| poll(&client, &topic, 20_000)).collect();
    waiters(&client, 50).await;
    let sends = (0..50).map(|n| client.published(&topic, json!({"payload": n})));
    let mut sent = futures_util::future::join_all(sends).await;
    let mut got = Vec::new();
    for poll in polls {
        got.extend(crate::facts::ids(&poll.await.unwrap().0));
    }
    sent.sort();
    got.sort();
    assert_eq!(got, sent);
}

#[tokio::test]
async fn each_of_two_hundred_topics_wakes_its_own_poll() {
    let dueq = instance().await;
    let (client, prefix) = (dueq.client(), topic("poll"));
    let names: Vec<String> = (0..200).map(|n| format!("{prefix}-{n}")).collect();
    let polls: Vec<_> = names.iter().map(|name| poll(&client, name, 30_000)).collect();
    waiters(&client, 200).await;
    let mut published = Vec::new();
    for name in &names {
        client.published(name, json!({"payload": name})).await;
        published.push(Instant::now());
    }
    for ((name, poll), published) in names.iter().zip(polls).zip(published) {
        let (messages, woken) = poll.await.unwrap();
        assert_eq!(messages[0]["payload"], *name);
        let time = woken.saturating_duration_since(published);
        assert!(time < WOKEN, "{time:?}");
    }
}

#[tokio::test]
async fn a_poll_outlives_the_loss_of_every_connection_to_redis() {
    let redis = Redis::start().await;
    let (here, there) = (Dueq::on(&redis).start().await, Dueq::on(&redis).start().await);
    let (here, there, topic) = (here.client(), there.client(), topic("poll"));
    here.published(&topic, json!({"payload": 0})).await;
    here.lease_one(&topic).await;
    for kind in ["pubsub", "normal", "pubsub"] {
        let poll = poll(&there, &topic, 30_000);
        waiters(&there, 1).await;
        let _: i64 = redis.command(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]).await;
        // Through the other instance, whose own connections are gone as well.
        eventually("a publish", || async {
            let answer = here.publish(&topic, json!({"payload": kind})).await;
            (answer.status == 201).then_some(())
        })
        .await;
        let published = Instant::now();
        let (messages, woken) = poll.await.unwrap();
        assert_eq!(messages.len(), 1, "after the loss of {kind}");
        let time = woken.saturating_duration_since(published);
        assert!(time < Duration::from_secs(5), "{time:?} after the loss of {kind}");
        // Of publishes whose outcome was lost; and a lane may find only now that its connection is gone.
        eventually("an empty topic", || async {
            let answer = here.lease(&topic, json!({})).await;
            let empty = answer.status == 200 && answer.json()["messages"] == json!([]);
            empty.then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn polls_of_different_topics_do_not_disturb_each_other() {
    let mut dueq = instance().await;
    let (client, busy, quiet) = (dueq.client(), topic("poll"), topic("poll"));
    let waits = poll(&client, &quiet, 60_000);
    waiters(&client, 1).await;
    for n in 0..10 {
        client.published(&busy, json!({"payload": n})).await;
        client.ack_leased(&client.lease_one(&busy).await).await.expect(204);
    }
    assert!(!waits.is_finished());
    waiters(&client, 1).await;
    // Which answers the poll.
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    assert!(waits.await.unwrap().0.is_empty());
}

#[tokio::test]
async fn a_stop_answers_every_poll_empty() {
    let mut dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("poll"));
    let polls: Vec<_> = (0..10).map(|_| poll(&client, &topic, 30_000)).collect();
    waiters(&client, 10).await;
    let start = Instant::now();
    let (code, answers) = tokio::join!(dueq.term(), futures_util::future::join_all(polls));
    assert_eq!(code, 0, "{}", dueq.log());
    assert!(answers.into_iter().all(|answer| answer.unwrap().0.is_empty()));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
