//! Callbacks that wait for a place or are broken off (I7, I10, I12, I14), and deaths that are published elsewhere (I1).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Client, Dueq, Launch, Receiver, Reply, eventually, text, topic};
use crate::proof::bugs::scene::Scene;
use crate::proof::stage::{Report, Setting};

/// A scene of one instance that may call receivers, and a receiver that answers after so many ms.
async fn calling(name: &'static str, setting: Setting, ms: u64) -> (Scene, Client, Receiver) {
    let allowed = |launch: Launch| launch.args(["--callback-allow", "127.0.0.0/8"]);
    let scene = Scene::with(name, setting, 1, allowed).await;
    let (client, receiver) = (scene.dueq[0].client(), Receiver::start().await);
    receiver.answer(Reply::status(200).after(Duration::from_millis(ms)));
    (scene, client, receiver)
}

/// A pushed topic with so many messages, of which two are called at a time.
async fn pushed(client: &Client, receiver: &Receiver, messages: usize) -> String {
    let topic = topic("pushed");
    let push = json!({"url": receiver.url("/"), "max_in_flight_per_host": 2});
    client.new_topic(&topic, json!({"push": push})).await;
    let messages: Vec<Value> = (0..messages).map(|n| json!({"payload": n})).collect();
    client.fill(&topic, &messages).await;
    topic
}

/// Messages that are deleted as soon as they are dead.
pub async fn letters(scene: &mut Scene) {
    const DEAD: i64 = 30;
    let client = scene.dueq[0].client();
    let (here, there) = (topic("mortal"), topic("dead"));
    client.new_topic(&there, json!({})).await;
    client.new_topic(&here, json!({"dead_topic": there})).await;
    for n in 0..DEAD {
        client.published(&here, json!({"payload": n})).await;
        let held = client.lease_one(&here).await;
        client.nack_leased(&held, json!({"dead": true})).await.expect(200);
        client.delete(text(&held, "id")).await.expect(204);
    }
    let mut told = 0;
    for _ in 0..40 {
        told = client.total(&there, "published").await;
        if told == DEAD {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    scene.demand(told == DEAD, "I1 no loss", || format!("{told} of {DEAD} deaths are told of"));
}

/// A topic that is paused while messages wait for a place.
pub async fn a_pause(setting: Setting) -> Report {
    let (mut scene, client, receiver) = calling("a_pause", setting, 100).await;
    let topic = pushed(&client, &receiver, 40).await;
    receiver.wait_for(4).await;
    client.pause_topic(&topic).await.expect(200);
    sleep(Duration::from_millis(50)).await; // what had its place may arrive a moment later
    let before = receiver.count();
    sleep(Duration::from_millis(600)).await;
    let calls = receiver.count() - before;
    scene.demand(calls == 0, "I14 callbacks", || format!("{calls} calls of a paused topic"));
    scene.end().await
}

/// A message that waits for a place while others of its key are published.
pub async fn a_key_that_waits(setting: Setting) -> Report {
    let (mut scene, client, receiver) = calling("a_key_that_waits", setting, 20_000).await;
    let topic = pushed(&client, &receiver, 4).await;
    receiver.wait_for(2).await;
    let message = json!({"payload": 1, "key": "k", "key_until": "granted"});
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(client.publish(&topic, message.clone()).await.text("id"));
        sleep(Duration::from_millis(20)).await;
    }
    ids.dedup();
    let messages = ids.len();
    scene.demand(messages == 1, "I10 keys", || {
        format!("{messages} live messages of one key, of which none has been called")
    });
    scene.end().await
}

/// An instance that ends during the only attempt of a call.
pub async fn a_drain(setting: Setting) -> Report {
    let drained = |launch: Launch| {
        launch.args(["--callback-allow", "127.0.0.0/8", "--drain-timeout-ms", "100"])
    };
    let mut scene = Scene::with("a_drain", setting, 1, drained).await;
    let (client, receiver) = (scene.dueq[0].client(), Receiver::start().await);
    receiver.answer_next("/", [Reply::never()]);
    let callback = json!({"url": receiver.url("/"), "max_attempts": 1});
    client.post("/callbacks", &callback).await.expect(201);
    receiver.wait_for(1).await;
    scene.dueq[0].term().await;
    scene.dueq[0] = Dueq::calling(&scene.redis).start().await;
    sleep(Duration::from_millis(1_000)).await;
    let calls = receiver.count();
    scene.demand(calls == 1, "I7 attempts", || format!("{calls} calls of the only attempt"));
    scene.end().await
}

/// A callback that is answered by a status that its lists never retry.
pub async fn a_final_answer(setting: Setting) -> Report {
    let (mut scene, client, receiver) = calling("a_final_answer", setting, 0).await;
    receiver.answer(Reply::status(422));
    let backoff = json!({"kind": "fixed", "base_ms": 10});
    let callback =
        json!({"url": receiver.url("/"), "backoff": backoff, "retry": {"never": ["422"]}});
    client.post("/callbacks", &callback).await.expect(201);
    receiver.wait_for(1).await;
    sleep(Duration::from_millis(500)).await;
    let calls = receiver.count();
    scene.demand(calls == 1, "the contract", || {
        format!("{calls} calls, of which the first was answered by a status that is never retried")
    });
    scene.end().await
}

/// Calls that all wait for one token, which is refused once.
pub async fn a_token(setting: Setting) -> Report {
    let (mut scene, client, receiver) = calling("a_token", setting, 0).await;
    let token = json!({"access_token": "t", "token_type": "Bearer", "expires_in": 3600});
    receiver.answer_at("/token", Reply::status(200).body(token.to_string()));
    let auth = json!({"kind": "oauth2", "token_url": receiver.url("/token"), "client_id": "dueq",
        "client_secret": "very-secret"});
    let (topic, push) = (topic("token"), json!({"url": receiver.url("/"), "auth": auth}));
    client.new_topic(&topic, json!({"push": push})).await;
    receiver.answer_next("/", [Reply::status(401)]);
    let messages: Vec<Value> = (0..20).map(|n| json!({"payload": n})).collect();
    client.fill(&topic, &messages).await;
    receiver.wait_until("20 messages", |calls| (calls.len() > 20 + 1).then_some(())).await;
    sleep(Duration::from_millis(300)).await;
    let fetched = receiver.calls_at("/token").len();
    scene.demand(fetched == 2, "the contract", || {
        format!("{fetched} tokens fetched for all calls, and once more for a refusal")
    });
    scene.end().await
}

/// Messages that are acknowledged with results, which are published.
pub async fn completions(setting: Setting) -> Report {
    let (mut scene, client, _receiver) = calling("completions", setting, 0).await;
    let (work, done) = (topic("work"), topic("done"));
    for n in 0..3 {
        client.published(&work, json!({"payload": n, "on_done": {"topic": done}})).await;
        let held = client.lease_one(&work).await;
        let ack = json!({"lease_token": held["lease_token"], "result": n});
        client.post(&format!("/messages/{}/ack", text(&held, "id")), &ack).await.expect(204);
    }
    sleep(Duration::from_millis(1_500)).await;
    let told = match client.topic(&done).await.status {
        200 => client.listed(&done, "state=ready&payload=true").await,
        _ => Vec::new(),
    };
    let results: Vec<_> = told.iter().map(|it| it["payload"]["result"].clone()).collect();
    let wanted = [json!(0), json!(1), json!(2)];
    let once = results.len() == 3 && wanted.iter().all(|it| results.contains(it));
    scene.demand(once, "the contract", || {
        format!("of three acks with results, these were published: {results:?}")
    });
    scene.end().await
}

/// A host that answers nothing but 503 for some seconds, and then 200.
pub async fn a_failing_host(setting: Setting) -> Report {
    let (mut scene, client, receiver) = calling("a_failing_host", setting, 0).await;
    receiver.answer(Reply::status(503));
    let topic = topic("failing");
    let push = json!({"url": receiver.url("/"), "failing_after": 3, "failing_over_ms": 3_000});
    let backoff = json!({"kind": "fixed", "base_ms": 100});
    client.new_topic(&topic, json!({"push": push, "backoff": backoff, "max_attempts": 1000})).await;
    client.fill(&topic, &[json!({"payload": 1}), json!({"payload": 2})]).await;
    let mut fails = false;
    for _ in 0..80 {
        let list = client.get_path("/callbacks/hosts?limit=1000").await.expect(200).json();
        let hosts = list["items"].as_array().unwrap().clone();
        let host = |it: &&Value| it["host"] == receiver.addr().to_string();
        fails = hosts.iter().find(host).is_some_and(|it| it["failing"] == true);
        if fails {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    scene
        .demand(fails, "the contract", || "the host is not listed as failing after 8 s".to_owned());
    sleep(Duration::from_millis(300)).await; // what had its place may arrive a moment later
    let before = receiver.count();
    sleep(Duration::from_millis(2_000)).await;
    let calls = receiver.count() - before;
    // A probe may fall into that time.
    scene.demand(calls <= 1, "the contract", || {
        format!("{calls} calls in 2 s of a host that fails")
    });
    receiver.answer(Reply::status(200));
    let mut done = 0;
    for _ in 0..120 {
        done = client.total(&topic, "acked").await;
        if done == 2 {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    scene.demand(done == 2, "I12 liveness", || {
        format!("{done} of 2 messages are done 12 s after their host answers again")
    });
    scene.end().await
}

/// A call for three messages, whose answer says that one is to come again in ten seconds.
pub async fn one_of_many_failed(setting: Setting) -> Report {
    let (mut scene, client, receiver) = calling("one_of_many_failed", setting, 0).await;
    let topic = topic("many");
    let batch = json!({"max_messages": 3, "max_wait_ms": 1_000});
    let push = json!({"url": receiver.url("/"), "batch": batch});
    client.new_topic(&topic, json!({"push": push})).await;
    client.pause_topic(&topic).await.expect(200);
    let messages: Vec<Value> = (0..3).map(|n| json!({"payload": n})).collect();
    let ids = client.fill(&topic, &messages).await;
    let failed = json!({"failed": [{"id": ids[1], "delay_ms": 10_000}]});
    receiver.answer(Reply::status(200).body(failed.to_string()));
    client.resume_topic(&topic).await.expect(200);
    receiver.wait_for(1).await;
    sleep(Duration::from_millis(2_500)).await;
    let (calls, left) = (receiver.count(), client.count(&topic, "delayed").await);
    scene.demand((calls, left) == (1, 1), "the contract", || {
        format!("{calls} calls and {left} delayed messages, where one of three is to be called again in ten seconds")
    });
    scene.end().await
}

/// A topic that is pushed no more while messages are parked.
pub async fn a_pulled_topic(setting: Setting) -> Report {
    let (mut scene, client, receiver) = calling("a_pulled_topic", setting, 20_000).await;
    let topic = pushed(&client, &receiver, 12).await;
    // The longer nothing comes of the calls, the longer messages are parked: by then for longer than is waited below.
    sleep(Duration::from_millis(3_500)).await;
    eventually("messages parked", || async {
        (client.count(&topic, "delayed").await == 10).then_some(())
    })
    .await;
    client.update_topic(&topic, json!({"push": null})).await.expect(200);
    let mut ready = 0;
    for _ in 0..30 {
        ready = client.count(&topic, "ready").await;
        if ready == 10 {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    scene.demand(ready == 10, "I12 liveness", || {
        format!("{ready} of 10 parked messages are ready 3 s after their topic is pulled")
    });
    scene.end().await
}
