//! Every waiter is woken, whatever becomes of the instance that published, of the answer of Redis, and of the subscription
//! over which wake-ups come.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::{Client, Dueq, Redis, WOKEN, eventually, topic, waiters};
use crate::proof::proxy::{Mode, Proxy};

/// A long poll under way.
fn poll(client: &Client, topic: &str) -> JoinHandle<Vec<Value>> {
    let (client, topic) = (client.clone(), topic.to_owned());
    tokio::spawn(async move { client.leased(&topic, json!({"wait_ms": 30_000})).await })
}

/// A message for each of these polls, soon.
async fn granted(polls: impl IntoIterator<Item = JoinHandle<Vec<Value>>>, when: &str) {
    let all = futures_util::future::join_all(polls);
    let answers = tokio::time::timeout(WOKEN, all).await;
    let answers = answers.unwrap_or_else(|_| panic!("nobody was woken {when}"));
    assert!(answers.into_iter().all(|messages| messages.unwrap().len() == 1), "{when}");
}

#[tokio::test]
async fn a_publish_whose_answer_was_lost_wakes() {
    let mut redis = Redis::start().await;
    let dueq = Dueq::on(&redis).args(["--redis-timeout-ms", "1000"]).start().await;
    let (client, topic) = (dueq.client(), topic("waking"));
    client.published(&topic, json!({"payload": 0})).await;
    client.lease_one(&topic).await;
    let polls: Vec<_> = (0..3).map(|_| poll(&client, &topic)).collect();
    waiters(&client, 3).await;
    redis.pause();
    client.publish(&topic, json!({"payload": 1})).await.problem(503, "outcome_unknown");
    redis.resume();
    client.published_again(&topic, json!({"payload": 1})).await;
    client.published_again(&topic, json!({"payload": 1})).await;
    granted(polls, "by a publish whose answer was lost").await;
}

/// An instance whose answers of Redis are lost, and one that works as ever.
async fn mute_and_well(redis: &Redis) -> (Proxy, Dueq, Dueq) {
    let line = Proxy::of(redis).await;
    let mute = Dueq::at(&line.url()).start().await;
    (line, mute, Dueq::on(redis).start().await)
}

#[tokio::test]
async fn an_instance_killed_between_its_script_and_its_answer_wakes_others() {
    let redis = Redis::start().await;
    for verb in ["publish", "nack", "resume"] {
        let (line, mut mute, well) = mute_and_well(&redis).await;
        let (here, there, topic) = (mute.client(), well.client(), topic("waking"));
        here.published(&topic, json!({"payload": 0})).await;
        let held = here.lease_one(&topic).await;
        if verb == "resume" {
            here.nack_leased(&held, json!({"delay_ms": 0})).await.expect(200);
            here.post_text(&format!("/topics/{topic}/pause"), "").await.expect(200);
        }
        let poll = poll(&there, &topic);
        waiters(&there, 1).await;
        let state = async || {
            let seen = there.topic(&topic).await.expect(200).json();
            (seen["totals"].clone(), seen["paused"].clone())
        };
        let before = state().await;
        line.set(Mode::Swallow);
        let name = topic.clone();
        let asked = tokio::spawn(async move {
            let path = match verb {
                "publish" => format!("/topics/{name}/messages"),
                "nack" => format!("/messages/{}/nack", held["id"].as_str().unwrap()),
                _ => format!("/topics/{name}/resume"),
            };
            let body = match verb {
                "publish" => json!({"payload": 1}),
                "nack" => json!({"lease_token": held["lease_token"], "delay_ms": 0}),
                _ => json!({}),
            };
            let _ = here
                .try_send(
                    "POST",
                    &path,
                    &[("content-type", "application/json")],
                    Some(body.to_string().into()),
                )
                .await;
        });
        eventually("its script", || async { (state().await != before).then_some(()) }).await;
        mute.kill9();
        asked.await.unwrap();
        granted([poll], &format!("by a {verb} of an instance that died")).await;
    }
}

#[tokio::test]
async fn a_topic_made_by_an_instance_that_died_wakes_with_its_first_message() {
    let redis = Redis::start().await;
    let (line, mut mute, well) = mute_and_well(&redis).await;
    let (here, there, topic) = (mute.client(), well.client(), topic("waking"));
    let poll = poll(&there, &topic);
    waiters(&there, 1).await;
    line.set(Mode::Swallow);
    let name = topic.clone();
    let asked = tokio::spawn(async move {
        let path = format!("/topics/{name}/messages");
        let _ = here
            .try_send(
                "POST",
                &path,
                &[("content-type", "application/json")],
                Some("{\"payload\":1}".into()),
            )
            .await;
    });
    eventually("the topic", || async {
        let known: bool = redis.command(&["HEXISTS", "dueq:{topics}:registry", &topic]).await;
        known.then_some(())
    })
    .await;
    mute.kill9();
    asked.await.unwrap();
    there.published(&topic, json!({"payload": 2})).await;
    granted([poll], "by the first message").await;
}

#[tokio::test]
async fn a_subscription_that_has_gone_silent_costs_nobody_a_wake_up() {
    let redis = Redis::start().await;
    let (line, deaf, well) = mute_and_well(&redis).await;
    let (here, there, topic) = (deaf.client(), well.client(), topic("waking"));
    there.published(&topic, json!({"payload": 0})).await;
    there.lease_one(&topic).await;
    // First over a subscription that was alive; later while Redis's answers to new ones are lost as well.
    line.set(Mode::DeafSubscriptions);
    for when in ["as the subscription went silent", "while new ones were not answered"] {
        let poll = poll(&here, &topic);
        waiters(&here, 1).await;
        there.published(&topic, json!({"payload": 1})).await;
        granted([poll], when).await;
    }
    eventually("a line about it", || async {
        deaf.log().contains("no subscription to wake-ups").then_some(())
    })
    .await;
    line.set(Mode::Pass);
    eventually("a subscription", || async {
        deaf.log().contains("subscribed to wake-ups again").then_some(())
    })
    .await;
}
