//! Two instances on one Redis are one queue: any of them serves any request, and what happens
//! through one wakes who waits on the other.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::facts::topic_in_balance;
use crate::harness::*;

/// Waits on `there` while `make` acts on `here`: the message, and the time from the act's answer to
/// the poll's.
async fn wake<F>(there: &Client, topic: &str, make: F) -> (Value, Duration)
where
    F: Future<Output = ()>,
{
    let (poller, name) = (there.clone(), topic.to_owned());
    let poll = tokio::spawn(async move {
        let message = poller.lease_one(&name).await;
        (message, Instant::now())
    });
    waiters(there, 1).await;
    make.await;
    let made = Instant::now();
    let (message, woken) = poll.await.unwrap();
    (message, woken.saturating_duration_since(made))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[tokio::test]
async fn a_publish_through_one_wakes_who_waits_on_the_other() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("two"));
    let mut times = Vec::new();
    for n in 0..11 {
        let publish = async {
            here.published(&topic, json!({"payload": n})).await;
        };
        let (message, time) = wake(&there, &topic, publish).await;
        assert_eq!(message["payload"], n);
        assert!(time < WOKEN, "{time:?}");
        times.push(time);
    }
    let median = median(times);
    assert!(median <= Duration::from_millis(200), "{median:?}");
}

#[tokio::test]
async fn a_nack_through_one_wakes_who_waits_on_the_other() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("two"));
    here.published(&topic, json!({"payload": 1})).await;
    let held = there.lease_one(&topic).await;
    let nack = async {
        here.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
    };
    let (message, time) = wake(&there, &topic, nack).await;
    assert_eq!(message["attempt"], 2);
    assert!(time < WOKEN, "{time:?}");
}

#[tokio::test]
async fn a_message_due_earlier_than_what_the_other_sleeps_for_wakes_it() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("two"));
    here.published(&topic, json!({"payload": "late", "delay_ms": 60_000})).await;
    let publish = async {
        here.published(&topic, json!({"payload": "soon", "delay_ms": 300})).await;
    };
    let (message, time) = wake(&there, &topic, publish).await;
    assert_eq!(message["payload"], "soon");
    assert!(time < WOKEN, "{time:?}");
}

#[tokio::test]
async fn a_lease_that_expires_wakes_who_waits_on_the_other() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("two"));
    here.published(&topic, json!({"payload": 1})).await;
    // Long enough for the other to be waiting before it ends.
    let held = here.lease_one_with(&topic, json!({"lease_ms": 3000})).await;
    let (message, time) = wake(&there, &topic, async {}).await;
    assert_eq!(message["due_at"], held["lease_expires_at"]);
    assert!(time < WOKEN, "{time:?}");
}

#[tokio::test]
async fn ids_and_tokens_are_good_on_either() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("two"));
    there.topic(&topic).await.problem(404, "topic_not_found");
    let id = here.published(&topic, json!({"payload": 1})).await;
    assert_eq!(there.state(&id).await, "ready");
    let held = there.lease_one(&topic).await;
    assert_eq!(here.state(&id).await, "leased");
    here.extend_leased(&held, 60_000).await.expect(200);
    here.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
    there.ack_leased(&held).await.problem(409, "lease_lost");
    let held = here.lease_one(&topic).await;
    there.ack_leased(&held).await.expect(204);
    here.get(&id).await.problem(404, "message_not_found");
    let seen = topic_in_balance(&here, &topic).await;
    assert_eq!(seen, topic_in_balance(&there, &topic).await);
}

#[tokio::test]
async fn a_topic_made_through_one_is_known_to_the_other_at_once() {
    let (here, there) = (instance().await, instance().await);
    let (here, there) = (here.client(), there.client());
    for n in 0..10 {
        let topic = topic("two");
        assert!(there.leased(&topic, json!({})).await.is_empty());
        here.published(&topic, json!({"payload": n})).await;
        assert_eq!(there.leased(&topic, json!({})).await.len(), 1);
        assert_eq!(there.count(&topic, "leased").await, 1);
    }
}

#[tokio::test]
async fn both_may_make_the_same_topic_at_once() {
    let (here, there) = (instance().await, instance().await);
    let (here, there) = (here.client(), there.client());
    for _ in 0..10 {
        let topic = topic("two");
        let (a, b) = tokio::join!(
            here.published(&topic, json!({"payload": 1})),
            there.published(&topic, json!({"payload": 2}))
        );
        assert_ne!(a, b);
        assert_eq!(here.count(&topic, "ready").await, 2);
        for id in [a, b] {
            assert_eq!(there.state(&id).await, "ready");
        }
    }
}

#[tokio::test]
async fn each_message_goes_to_one_consumer_only() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("two"));
    let sends = (0..200).map(|n| here.published(&topic, json!({"payload": n})));
    let mut sent = futures_util::future::join_all(sends).await;
    let leases = (0..100).map(|n| {
        let client = if n % 2 == 0 { &here } else { &there };
        client.leased(&topic, json!({"max_messages": 2}))
    });
    let mut got: Vec<String> = futures_util::future::join_all(leases)
        .await
        .iter()
        .flat_map(|messages| crate::facts::ids(messages))
        .collect();
    sent.sort();
    got.sort();
    assert_eq!(got, sent);
}

#[tokio::test]
async fn another_key_prefix_is_another_queue() {
    let url = shared().await.redis.url();
    let apart = Dueq::at(&url).args(["--key-prefix", "apart:"]).start().await;
    let (client, apart, topic) = (client().await, apart.client(), topic("two"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    apart.topic(&topic).await.problem(404, "topic_not_found");
    apart.get(&id).await.problem(404, "message_not_found");
    assert!(apart.leased(&topic, json!({})).await.is_empty());
    apart.published(&topic, json!({"payload": 2})).await;
    assert_eq!(client.count(&topic, "ready").await, 1);
}
