//! Instances that stop, that are killed, and that share the work: no call is lost, none is repeated
//! without need.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::facts::{
    a_while, acked, alone, becomes, called, fixed, gone, pushed, pushed_with, scheduled,
};
use crate::harness::*;

fn slow(ms: u64) -> Reply {
    Reply::status(200).after(Duration::from_millis(ms))
}

#[tokio::test]
async fn a_call_under_way_is_finished_before_it_stops() {
    let (redis, mut stopped) = alone(&[]).await;
    let receiver = Receiver::start().await;
    receiver.answer(slow(1500));
    let id = scheduled(&stopped.client(), &receiver.url("/"), json!({"payload": 1})).await;
    receiver.wait_for(1).await;
    stopped.process.signal(Signal::TERM);
    let other = Dueq::calling(&redis).start().await;
    assert_eq!(stopped.exit().await, 0, "{}", stopped.log());
    gone(&other.client(), &id).await;
    let seen = other.client().topic("_callbacks").await.expect(200).json();
    let totals = &seen["totals"];
    assert_eq!((&totals["acked"], &totals["granted"]), (&json!(1), &json!(1)), "{seen}");
    a_while(500).await;
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn no_new_call_begins_while_it_stops() {
    let (_redis, mut stopped) = alone(&[]).await;
    let (client, receiver) = (stopped.client(), Receiver::start().await);
    receiver.answer(slow(2000));
    scheduled(&client, &receiver.url("/first"), json!({})).await;
    receiver.wait_at("/first").await;
    scheduled(&client, &receiver.url("/second"), json!({"delay_ms": 900})).await;
    stopped.process.signal(Signal::TERM);
    assert_eq!(stopped.exit().await, 0, "{}", stopped.log());
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn messages_that_wait_for_a_place_are_given_back_at_once() {
    let (redis, mut stopped) = alone(&[]).await;
    let (client, receiver) = (stopped.client(), Receiver::start().await);
    receiver.answer(slow(1000));
    let push = json!({"url": receiver.url("/"), "max_in_flight_per_host": 1});
    let topic = pushed(&client, "stop", push).await;
    let all: Vec<Value> = (0..5).map(|n| json!({"payload": n})).collect();
    client.fill(&topic, &all).await;
    receiver.wait_for(1).await;
    assert_eq!(stopped.term().await, 0, "{}", stopped.log());
    let other = Dueq::calling(&redis).start().await;
    let start = Instant::now();
    receiver.answer(Reply::status(200));
    receiver.wait_for(5).await;
    assert!(start.elapsed() < Duration::from_secs(5), "not after a lease of 30 s");
    acked(&other.client(), &topic, 5).await;
    assert_eq!(receiver.count(), 5, "each once");
}

#[tokio::test]
async fn a_call_that_outlasts_the_drain_is_an_attempt_and_is_sent_again_by_another() {
    let (redis, mut stopped) = alone(&["--drain-timeout-ms", "500"]).await;
    let receiver = Receiver::start().await;
    receiver.answer_next("/", [Reply::never()]);
    let more = json!({"payload": 1, "max_attempts": 2, "backoff": fixed(100)});
    let id = scheduled(&stopped.client(), &receiver.url("/"), more).await;
    receiver.wait_for(1).await;
    let start = Instant::now();
    stopped.process.signal(Signal::TERM);
    stopped.exit().await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    let other = Dueq::calling(&redis).start().await;
    let started = Instant::now();
    let call = receiver.wait_for(2).await.remove(1);
    let soon = call.at.saturating_duration_since(started);
    assert!(soon < Duration::from_secs(5), "{soon:?}: not after a lease of 30 s");
    assert_eq!((call.id(), call.attempt()), (id.as_str(), 2));
    gone(&other.client(), &id).await;
}

#[tokio::test]
async fn an_only_attempt_that_outlasts_the_drain_was_one() {
    let (redis, mut stopped) = alone(&["--drain-timeout-ms", "100"]).await;
    let receiver = Receiver::start().await;
    receiver.answer(Reply::never());
    let more = json!({"payload": 1, "max_attempts": 1});
    let id = scheduled(&stopped.client(), &receiver.url("/"), more).await;
    receiver.wait_for(1).await;
    assert_eq!(stopped.term().await, 0, "{}", stopped.log());
    let other = Dueq::calling(&redis).start().await;
    let seen = becomes(&other.client(), &id, "dead", 1).await;
    assert!(text(&called(&seen)[0], "error").contains("dueq is stopping"), "{seen}");
    a_while(500).await;
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn a_call_that_never_met_a_receiver_is_no_attempt() {
    let (redis, mut stopped) = alone(&["--drain-timeout-ms", "100"]).await;
    // Its queue of connections is full, so that the next one is neither taken nor refused.
    let listener = tokio::net::TcpSocket::new_v4().unwrap();
    listener.bind("127.1.1.1:0".parse().unwrap()).unwrap();
    let listener = listener.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address))
            .await
    {
        queue.push(stream);
    }
    let more = json!({"payload": 1, "max_attempts": 1});
    let id = scheduled(&stopped.client(), &format!("http://{address}/"), more).await;
    eventually("a call under way", || async {
        (stopped.client().state(&id).await == "leased").then_some(())
    })
    .await;
    assert_eq!(stopped.term().await, 0, "{}", stopped.log());
    let other = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
    let seen = becomes(&other.client(), &id, "ready", 0).await;
    assert_eq!(seen["attempts_left"], 1, "{seen}");
}

#[tokio::test]
async fn a_call_of_a_killed_instance_is_sent_again_after_its_lease() {
    let (redis, mut killed) = alone(&[]).await;
    let other = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
    let (client, receiver) = (other.client(), Receiver::start().await);
    receiver.answer_next("/", [Reply::never()]);
    let push = json!({"url": receiver.url("/"), "timeout_ms": 1000});
    let more = json!({"lease_ms": 2000});
    let topic = pushed_with(&client, "killed", push, more).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    receiver.wait_for(1).await;
    killed.kill9();
    let seen = client.get(&id).await.expect(200);
    assert_eq!(seen.text("state"), "leased", "{seen}");
    let ends = seen.instant("lease_expires_at");
    let left = ends - redis.time_ms().await;
    assert!(left < 40_000, "a lease of {left} ms for a call of at most 1000 ms");
    let heir = Dueq::calling(&redis).start().await;
    a_while(u64::try_from(left.max(0)).unwrap()).await;
    let call = receiver.wait_for(2).await.remove(1);
    assert!((0..3000).contains(&(call.at_ms - ends)), "{} after the lease", call.at_ms - ends);
    assert_eq!((call.id(), call.attempt()), (id.as_str(), 2));
    gone(&heir.client(), &id).await;
}

#[tokio::test]
async fn two_instances_send_each_message_once() {
    let (redis, one) = alone(&[]).await;
    let two = Dueq::calling(&redis).start().await;
    let receiver = Receiver::start().await;
    receiver.answer(slow(20));
    let push = json!({"url": receiver.url("/")});
    let topic = pushed(&one.client(), "shared", push).await;
    let message = |n: usize| json!({"payload": n, "delay_ms": (n % 20) * 50});
    let half = |from: usize| (from..from + 200).map(message).collect::<Vec<_>>();
    let mut ids = one.client().fill(&topic, &half(0)).await;
    ids.extend(two.client().fill(&topic, &half(200)).await);
    acked(&two.client(), &topic, 400).await;
    let mut got: Vec<String> = receiver.calls().iter().map(|call| call.id().to_owned()).collect();
    got.sort();
    ids.sort();
    assert_eq!(got, ids, "each once");
}

#[tokio::test]
async fn many_instances_hold_one_failing_message_to_its_attempts() {
    let (redis, one) = alone(&[]).await;
    let _more = [Dueq::calling(&redis).start().await, Dueq::calling(&redis).start().await];
    let (client, receiver) = (one.client(), Receiver::start().await);
    receiver.answer(Reply::status(500));
    let more = json!({"payload": 1, "max_attempts": 6, "backoff": fixed(30)});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    crate::facts::becomes(&client, &id, "dead", 6).await;
    let attempts: Vec<i64> = receiver.calls().iter().map(Call::attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn a_stop_without_calls_is_quick() {
    let (_redis, mut dueq) = alone(&[]).await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    let id = scheduled(&client, &receiver.url("/"), json!({})).await;
    gone(&client, &id).await; // a connection is kept open
    scheduled(&client, &receiver.url("/"), json!({"delay_ms": 600_000})).await;
    let start = Instant::now();
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    assert!(start.elapsed() < WOKEN, "{:?}", start.elapsed());
}
