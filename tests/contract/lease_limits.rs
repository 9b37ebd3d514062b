//! `max_leased` and `rate_per_s`: all consumers of a topic keep them together, whichever instance they ask and whichever
//! partitions the messages lie in.

use std::{
    sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::harness::*;
use crate::partitions::{batch, lease_all, split};

/// So many messages, one to a request, so that they lie in several partitions.
pub async fn spread(client: &Client, topic: &str, messages: usize) {
    let message = |n: usize| json!({"payload": n, "key": format!("key-{n}")});
    batch(client, topic, &(0..messages).map(message).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn no_more_are_leased_at_once() {
    let (one, other) = (instance().await, instance().await);
    let (one, other) = (one.client(), other.client());
    for partitions in [1, 4] {
        let topic = split(&one, partitions, json!({"max_leased": 3})).await;
        assert_eq!(one.topic(&topic).await.json()["config"]["max_leased"], 3);
        spread(&one, &topic, 20).await;
        let mut held = one.leased(&topic, json!({"max_messages": 2, "wait_ms": 10_000})).await;
        assert_eq!(held.len(), 2);
        held.extend(other.leased(&topic, json!({"max_messages": 10, "wait_ms": 10_000})).await);
        assert_eq!(held.len(), 3, "{partitions}");
        for client in [&one, &other] {
            assert!(client.leased(&topic, json!({"wait_ms": 50})).await.is_empty());
        }
        assert_eq!(one.count(&topic, "leased").await, 3);
        // Each way in which a lease ends makes room for one, and wakes who waits elsewhere.
        let mut last = held.pop().unwrap();
        for end in ["ack", "nack", "release"] {
            let want = json!({"max_messages": 10, "wait_ms": 20_000});
            let ending = async {
                waiters(&other, 1).await;
                match end {
                    "ack" => one.ack_leased(&last).await.expect(204),
                    "nack" => one.nack_leased(&last, json!({"delay_ms": 60_000})).await.expect(200),
                    _ => one.nack_leased(&last, json!({"release": true})).await.expect(200),
                }
            };
            let (got, _) = tokio::join!(other.leased(&topic, want), ending);
            assert_eq!(got.len(), 1, "{partitions} {end}");
            assert_eq!(one.count(&topic, "leased").await, 3);
            last = got[0].clone();
        }
        let acks = json!([{"id": last["id"], "lease_token": last["lease_token"]}]);
        let answer = one.lease(&topic, json!({"acks": acks, "max_messages": 10})).await.json();
        assert_eq!(answer["messages"].as_array().unwrap().len(), 1, "{answer}");
        one.update_topic(&topic, json!({"max_leased": null})).await.expect(200);
        assert!(!lease_all(&other, &topic).await.is_empty());
    }
}

#[tokio::test]
async fn a_lease_counts_until_it_ends_however_long_that_is() {
    mostly_waits();
    let client = client().await;
    for partitions in [1, 4] {
        let topic = split(&client, partitions, json!({"max_leased": 2, "lease_ms": 1500})).await;
        spread(&client, &topic, 6).await;
        let held = client.leased(&topic, json!({"max_messages": 10, "wait_ms": 10_000})).await;
        assert_eq!(held.len(), 2);
        client.extend_leased(&held[0], 60_000).await.expect(200);
        // The other one ends by itself.
        let want = json!({"max_messages": 10, "wait_ms": 20_000, "lease_ms": 60_000});
        let begun = Instant::now();
        assert_eq!(client.leased(&topic, want.clone()).await.len(), 1);
        assert!(begun.elapsed() > Duration::from_millis(1000), "{:?}", begun.elapsed());
        assert!(client.leased(&topic, json!({"wait_ms": 2000})).await.is_empty());
        client.ack_leased(&held[0]).await.expect(204);
        assert_eq!(client.leased(&topic, want).await.len(), 1);
        // A topic that is deleted and made anew begins with nothing.
        client.delete_topic(&topic, "?force=true").await.expect(204);
        client.new_topic(&topic, json!({"max_leased": 1})).await;
        client.published(&topic, json!({"payload": 1})).await;
        assert_eq!(client.leased(&topic, json!({})).await.len(), 1);
    }
}

#[tokio::test]
async fn many_consumers_never_have_more_together() {
    const MOST: i64 = 3;
    let (one, other) = (instance().await, instance().await);
    for partitions in [1, 4] {
        let topic = split(&one.client(), partitions, json!({"max_leased": MOST})).await;
        spread(&one.client(), &topic, 120).await;
        let (held, done) = (AtomicI64::new(0), AtomicUsize::new(0));
        let consume = async |client: Client, wait_ms: i64| {
            while done.load(SeqCst) < 120 {
                let want = json!({"max_messages": 2, "wait_ms": wait_ms});
                for message in client.leased(&topic, want).await {
                    let now = held.fetch_add(1, SeqCst) + 1;
                    assert!(now <= MOST, "{now} at once");
                    tokio::task::yield_now().await;
                    held.fetch_sub(1, SeqCst);
                    client.ack_leased(&message).await.expect(204);
                    done.fetch_add(1, SeqCst);
                }
            }
        };
        let consumers = (0..10).map(|n| {
            let client = if n % 2 == 0 { one.client() } else { other.client() };
            consume(client, if n % 3 == 0 { 0 } else { 1000 })
        });
        futures_util::future::join_all(consumers).await;
        assert_eq!(one.client().total(&topic, "acked").await, 120);
    }
}

#[tokio::test]
async fn no_more_are_granted_a_second() {
    let (one, other) = (instance().await, instance().await);
    let (one, other) = (one.client(), other.client());
    for partitions in [1, 4] {
        let topic = split(&one, partitions, json!({"rate_per_s": 40})).await;
        spread(&one, &topic, 60).await;
        let (begun, got) = (Instant::now(), AtomicUsize::new(0));
        let consume = async |client: &Client| {
            while got.load(SeqCst) < 60 {
                let want = json!({"max_messages": 5, "wait_ms": 300});
                let held = client.leased(&topic, want).await.len();
                let all = got.fetch_add(held, SeqCst) + held;
                let most = 40.0 * begun.elapsed().as_secs_f64() + 3.0;
                assert!(all as f64 <= most, "{all} in {:?}", begun.elapsed());
            }
        };
        tokio::join!(consume(&one), consume(&other), consume(&one));
        // Nobody waits longer than for the rate; a busy machine may.
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        // What a lease of an empty topic took from the rate is given back.
        for _ in 0..20 {
            assert!(one.leased(&topic, json!({"max_messages": 100})).await.is_empty());
        }
        one.published(&topic, json!({"payload": 1})).await;
        assert_eq!(one.leased(&topic, json!({"wait_ms": 5000})).await.len(), 1);
    }
}

#[tokio::test]
async fn a_topic_that_another_instance_has_deleted_holds_nothing() {
    let (one, other) = (instance().await, instance().await);
    let (one, other) = (one.client(), other.client());
    for partitions in [1, 4] {
        for limits in [json!({"rate_per_s": 50}), json!({"max_leased": 3, "rate_per_s": 50})] {
            let topic = split(&one, partitions, limits).await;
            one.lease(&topic, json!({})).await.expect(200);
            other.delete_topic(&topic, "").await.expect(204);
            let answer = one.lease(&topic, json!({})).await.expect(200).json();
            assert_eq!(answer["messages"], json!([]));
        }
    }
}

#[tokio::test]
async fn a_pushed_topic_has_limits_of_its_own() {
    let client = client().await;
    let topic = topic("limits");
    let push = json!({"url": "https://example.com/"});
    for (field, value) in [("max_leased", json!(3)), ("rate_per_s", json!(2.5))] {
        let mut body = json!({"push": push});
        body[field] = value.clone();
        client.put_topic(&topic, body).await.refused(422).field(field);
        let limited: Value = json!({ field: value });
        client.put_topic(&topic, limited.clone()).await;
        assert_eq!(client.topic(&topic).await.json()["config"][field], value);
        client.update_topic(&topic, json!({"push": push})).await.refused(422).field(field);
        client.update_topic("_callbacks", limited).await.problem(403, "topic_reserved");
        client.delete_topic(&topic, "").await.expect(204);
    }
}

#[tokio::test]
async fn consumers_that_find_nothing_leave_each_other_in_peace() {
    let redis = Redis::start().await;
    let (mut one, mut other) = (Dueq::on(&redis).start().await, Dueq::on(&redis).start().await);
    let (client, there, topic) = (one.client(), other.client(), topic("limits"));
    client.new_topic(&topic, json!({"max_leased": 3})).await;
    let want = json!({"max_messages": 10, "wait_ms": 60_000});
    let idle = (0..6).map(|n| {
        let client = if n % 2 == 0 { client.clone() } else { there.clone() };
        let (topic, want) = (&topic, &want);
        async move { client.leased(topic, want.clone()).await.len() }
    });
    let commands = async {
        waiters(&client, 3).await;
        waiters(&there, 3).await;
        // Whoever gets one makes the others look.
        client.published(&topic, json!({"payload": 1})).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let before = redis.info("total_commands_processed").await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let commands = redis.info("total_commands_processed").await - before;
        // Which answers those that wait on.
        tokio::join!(one.term(), other.term());
        commands
    };
    let (got, commands) = tokio::join!(futures_util::future::join_all(idle), commands);
    assert_eq!(got.iter().sum::<usize>(), 1);
    // Each instance looks again after 250 ms at most.
    assert!(commands < 1000, "{commands} commands in two seconds");
}

#[tokio::test]
async fn what_ends_a_lease_or_does_not_counts_so() {
    let client = client().await;
    for partitions in [1, 4] {
        let config = json!({"max_leased": 1, "lease_ms": 1000});
        let topic = split(&client, partitions, config).await;
        spread(&client, &topic, 4).await;
        let held = client.lease_one(&topic).await;
        let id = text(&held, "id");
        // Nobody holds on to a message with a token that is none.
        client.extend(id, "garbage", 43_200_000).await.problem(409, "lease_lost");
        client.nack(id, "garbage", json!({})).await.problem(409, "lease_lost");
        assert!(client.leased(&topic, json!({})).await.is_empty());
        let next = client.leased(&topic, json!({"wait_ms": 10_000, "lease_ms": 60_000})).await;
        assert_eq!(next.len(), 1, "the first lease has ended by itself");
        // Nor with one that is over.
        client.extend_leased(&held, 43_200_000).await.problem(409, "lease_lost");
        assert!(client.leased(&topic, json!({})).await.is_empty());
        client.delete_by_force(text(&next[0], "id")).await.expect(204);
        let last = client.leased(&topic, json!({"lease_ms": 60_000})).await;
        assert_eq!(last.len(), 1, "{partitions}: a deletion ends a lease");
        client.update_topic(&topic, json!({"max_leased": null})).await.expect(200);
        client.ack_leased(&last[0]).await.expect(204);
        client.update_topic(&topic, json!({"max_leased": 1})).await.expect(200);
        assert_eq!(client.leased(&topic, json!({})).await.len(), 1);
        assert!(client.leased(&topic, json!({})).await.is_empty());
    }
}

/// A lease that may find nobody left to answer.
async fn try_lease(client: &Client, topic: &str, want: Value) -> Option<Vec<Value>> {
    let kind = [("content-type", "application/json")];
    let (path, body) = (format!("/topics/{topic}/lease"), want.to_string().into_bytes());
    let answer = client.try_send("POST", &path, &kind, Some(body)).await.ok()?;
    Some(answer.json()["messages"].as_array()?.clone())
}

#[tokio::test]
async fn who_dies_over_a_lease_keeps_nothing_reserved() {
    const MOST: usize = 5;
    let redis = Redis::start().await;
    let impatient = ["--redis-timeout-ms", "500"];
    let other = Dueq::on(&redis).args(impatient).start().await;
    let (client, topic) = (other.client(), topic("limits"));
    let config = json!({"max_leased": MOST, "lease_ms": 43_200_000});
    client.new_topic(&topic, config).await;
    for _ in 0..2 {
        batch(&client, &topic, &vec![json!({"payload": 1}); 1000]).await;
    }
    for _ in 0..3 {
        let mut one = Dueq::on(&redis).args(impatient).start().await;
        let consume = async |client: Client| {
            let want = json!({"max_messages": 2, "wait_ms": 500});
            while let Some(held) = try_lease(&client, &topic, want.clone()).await {
                for message in held {
                    let ack = json!({"lease_token": message["lease_token"]}).to_string();
                    let path = format!("/messages/{}/ack", text(&message, "id"));
                    let kind = [("content-type", "application/json")];
                    let _ = client.try_send("POST", &path, &kind, Some(ack.into_bytes())).await;
                }
            }
        };
        let consumers = futures_util::future::join_all((0..6).map(|_| consume(one.client())));
        let kill = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            one.kill9();
        };
        tokio::join!(consumers, kill);
        // What nobody holds can be leased, as soon as what was under way is over.
        eventually("as many to be leased as are not", || async {
            let held = client.leased(&topic, json!({"max_messages": 10})).await;
            let leased = client.count(&topic, "leased").await;
            for message in &held {
                client.ack_leased(message).await.expect(204);
            }
            (leased as usize >= MOST).then_some(())
        })
        .await;
        // What was granted to the dead: an operator takes it back.
        for message in client.listed(&topic, "state=leased&limit=100").await {
            client.delete_by_force(text(&message, "id")).await.expect(204);
        }
    }
}

#[tokio::test]
async fn whoever_waits_is_granted_what_one_call_had_no_room_for() {
    let dueq = instance().await;
    let client = dueq.client();
    for partitions in [1, 4] {
        let topic = split(&client, partitions, json!({"rate_per_s": 100_000})).await;
        let want = json!({"max_messages": 100, "wait_ms": 20_000});
        let polls = (0..4).map(|_| client.leased(&topic, want.clone()));
        let publish = async {
            waiters(&client, 4).await;
            spread(&client, &topic, 400).await;
        };
        let (held, ()) = tokio::join!(futures_util::future::join_all(polls), publish);
        assert!(held.iter().all(|some| !some.is_empty()), "{partitions}");
    }
}
