//! Topics that become pushed, that stop being pushed, that are paused, and instances that send
//! nothing.

use serde_json::json;

use crate::facts::{a_while, acked, gone, pushed, ready, scheduled};
use crate::harness::*;

#[tokio::test]
async fn what_waits_in_a_topic_that_becomes_pushed_is_sent_at_once() {
    let (client, receiver) = ready().await;
    let topic = topic("becomes");
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(client.published(&topic, json!({"payload": n})).await);
    }
    client.put_topic(&topic, json!({"push": {"url": receiver.url("/")}})).await.expect(200);
    let calls = receiver.wait_for(5).await;
    let first = calls.iter().map(|call| call.id().to_owned());
    let (mut got, mut wanted) = (first.collect::<Vec<_>>(), ids.clone());
    got.sort();
    wanted.sort();
    assert_eq!(got, wanted);
    gone(&client, &ids[4]).await;
}

#[tokio::test]
async fn a_message_that_was_delayed_before_is_sent_when_due() {
    let (client, receiver) = ready().await;
    let topic = topic("becomes");
    let sent = client.publish(&topic, json!({"payload": 1, "delay_ms": 800})).await.expect(201);
    client.update_topic(&topic, json!({"push": {"url": receiver.url("/")}})).await.expect(200);
    let late = receiver.wait_for(1).await[0].at_ms - sent.instant("due_at");
    assert!((0..1000).contains(&late), "{late} ms late");
}

#[tokio::test]
async fn what_is_leased_by_hand_while_the_topic_becomes_pushed_can_be_acked() {
    let (client, receiver) = ready().await;
    let topic = topic("becomes");
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    client.update_topic(&topic, json!({"push": {"url": receiver.url("/")}})).await.expect(200);
    client.ack_leased(&held).await.expect(204);
    a_while(500).await;
    assert_eq!(receiver.count(), 0);
}

#[tokio::test]
async fn a_long_poll_gets_nothing_of_a_topic_that_has_become_pushed() {
    let (client, receiver) = ready().await;
    let topic = topic("becomes");
    client.new_topic(&topic, json!({})).await;
    let (poller, name) = (client.clone(), topic.clone());
    let poll = tokio::spawn(async move { poller.lease(&name, json!({"wait_ms": 3000})).await });
    a_while(300).await;
    client.update_topic(&topic, json!({"push": {"url": receiver.url("/")}})).await.expect(200);
    a_while(300).await; // other instances may take a moment to know; this one knows
    client.published(&topic, json!({"payload": 1})).await;
    receiver.wait_for(1).await;
    let answer = poll.await.unwrap();
    match answer.status {
        409 => drop(answer.problem(409, "topic_is_pushed")),
        _ => assert_eq!(answer.expect(200).json()["messages"], json!([])),
    }
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn a_topic_that_stops_being_pushed_can_be_leased_again() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, "stops", json!({"url": receiver.url("/")})).await;
    client.published(&topic, json!({"payload": 1})).await;
    receiver.wait_for(1).await;
    client.lease(&topic, json!({})).await.problem(409, "topic_is_pushed");
    client.update_topic(&topic, json!({"push": null})).await.expect(200);
    for n in 2..5 {
        client.published(&topic, json!({"payload": n})).await;
        let held = client.lease_one(&topic).await;
        assert_eq!(held["payload"], n);
        client.ack_leased(&held).await.expect(204);
    }
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn a_configuration_without_push_stops_it_too() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, "stops", json!({"url": receiver.url("/")})).await;
    client.put_topic(&topic, json!({"lease_ms": 5000})).await.expect(200);
    let id = client.published(&topic, json!({"payload": 1})).await;
    assert_eq!(client.lease_one(&topic).await["id"], id);
    assert_eq!(receiver.count(), 0);
}

#[tokio::test]
async fn a_changed_url_counts_from_then_on() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, "changed", json!({"url": receiver.url("/old")})).await;
    client.published(&topic, json!({"payload": 1})).await;
    receiver.wait_at("/old").await;
    client.update_topic(&topic, json!({"push": {"url": receiver.url("/new")}})).await.expect(200);
    client.published(&topic, json!({"payload": 2})).await;
    receiver.wait_at("/new").await;
    assert_eq!(receiver.count(), 2);
}

#[tokio::test]
async fn pause_stops_the_calls_and_resume_goes_on() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, "paused", json!({"url": receiver.url("/")})).await;
    client.published(&topic, json!({"payload": 0})).await;
    receiver.wait_for(1).await;
    client.pause_topic(&topic).await.expect(200);
    for n in 1..4 {
        client.published(&topic, json!({"payload": n})).await;
    }
    a_while(1000).await;
    assert_eq!((receiver.count(), client.count(&topic, "ready").await), (1, 3));
    client.resume_topic(&topic).await.expect(200);
    receiver.wait_for(4).await;
    acked(&client, &topic, 4).await;
    assert_eq!(client.total(&topic, "granted").await, 4, "none was granted while it was paused");
}

#[tokio::test]
async fn a_topic_that_was_deleted_by_force_is_sent_no_more_and_can_be_made_anew() {
    let (client, receiver) = ready().await;
    let topic = pushed(&client, "deleted", json!({"url": receiver.url("/old")})).await;
    client.published(&topic, json!({"payload": 1, "delay_ms": 600})).await;
    client.delete_topic(&topic, "?force=true").await.expect(204);
    client.new_topic(&topic, json!({"push": {"url": receiver.url("/new")}})).await;
    let id = client.published(&topic, json!({"payload": 2})).await;
    assert_eq!(receiver.wait_for(1).await[0].path, "/new");
    gone(&client, &id).await;
    a_while(1000).await;
    assert_eq!(receiver.count(), 1);
}

#[tokio::test]
async fn an_instance_without_dispatch_sends_nothing() {
    let redis = Redis::start().await;
    let dueq = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    let topic = pushed(&client, "quiet", json!({"url": receiver.url("/")})).await;
    client.published(&topic, json!({"payload": 1})).await;
    let id = scheduled(&client, &receiver.url("/"), json!({})).await;
    a_while(1500).await;
    assert_eq!(receiver.count(), 0);
    assert_eq!(client.state(&id).await, "ready");
    client.lease(&topic, json!({})).await.problem(409, "topic_is_pushed");
}

#[tokio::test]
async fn what_comes_in_by_one_instance_is_sent_by_another() {
    let redis = Redis::start().await;
    let quiet = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
    let sender = Dueq::calling(&redis).start().await;
    let (client, receiver) = (quiet.client(), Receiver::start().await);
    let topic = pushed(&client, "other", json!({"url": receiver.url("/topic")})).await;
    client.published(&topic, json!({"payload": 1})).await;
    scheduled(&client, &receiver.url("/callback"), json!({"delay_ms": 300})).await;
    for path in ["/topic", "/callback"] {
        receiver.wait_at(path).await;
    }
    // Known by now, the topic is served promptly: the other instance wakes for it.
    let sent = client.publish(&topic, json!({"payload": 2, "delay_ms": 500})).await.expect(201);
    let late = receiver.wait_for(3).await[2].at_ms - sent.instant("due_at");
    assert!((0..1000).contains(&late), "{late} ms late");
    // So is a change of the topic.
    client.update_topic(&topic, json!({"push": {"url": receiver.url("/new")}})).await.expect(200);
    a_while(1000).await;
    client.published(&topic, json!({"payload": 3})).await;
    receiver.wait_at("/new").await;
    drop(sender);
}

#[tokio::test]
async fn messages_are_sent_that_waited_while_no_instance_ran() {
    let redis = Redis::start().await;
    let quiet = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
    let (client, receiver) = (quiet.client(), Receiver::start().await);
    let topic = pushed(&client, "waited", json!({"url": receiver.url("/topic")})).await;
    client.published(&topic, json!({"payload": 1})).await;
    scheduled(&client, &receiver.url("/callback"), json!({})).await;
    drop(quiet);
    let _sender = Dueq::calling(&redis).start().await;
    for path in ["/topic", "/callback"] {
        receiver.wait_at(path).await;
    }
}
