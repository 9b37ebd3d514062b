//! What dueq does of its own accord: callbacks and the ticks of schedules (I14).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Client, Launch, Receiver, eventually, instant_ms, text, topic};
use crate::proof::bugs::scene::Scene;
use crate::proof::stage::{Report, Setting};

/// Callbacks whose first call is answered 200.
pub async fn callbacks(setting: Setting) -> Report {
    let allowed = |launch: Launch| launch.args(["--callback-allow", "127.0.0.0/8"]);
    let mut scene = Scene::with("callbacks", setting, 1, allowed).await;
    let (client, receiver) = (scene.dueq[0].client(), Receiver::start().await);
    for n in 0..3 {
        let callback = json!({"url": receiver.url("/once"), "payload": n});
        let id = client.post("/callbacks", &callback).await.expect(201).text("id");
        eventually("the message is done", || async {
            // It is kept to be looked at.
            (client.get(&id).await.expect(200).json()["state"] == "acked").then_some(())
        })
        .await;
    }
    sleep(Duration::from_millis(500)).await;
    let calls = receiver.count();
    scene.demand(calls == 3, "I14 callbacks", || {
        format!("{calls} calls of 3 callbacks, though each was done after its first 200")
    });
    scene.end().await
}

/// A callback to a host that is paused: it waits without an attempt.
pub async fn a_paused_host(setting: Setting) -> Report {
    let allowed = |launch: Launch| launch.args(["--callback-allow", "127.0.0.0/8"]);
    let mut scene = Scene::with("a_paused_host", setting, 1, allowed).await;
    let (client, receiver) = (scene.dueq[0].client(), Receiver::start().await);
    let host = format!("/callbacks/hosts/{}", receiver.addr());
    client.post(&format!("{host}/pause"), &json!({})).await.expect(200);
    let callback = json!({"url": receiver.url("/"), "payload": 1});
    let sent = client.post("/callbacks", &callback).await.expect(201).json();
    let id = text(&sent, "id").to_owned();
    let seen = eventually("it waits", || async {
        let seen = client.get(&id).await.expect(200).json();
        (seen["state"] == "delayed").then_some(seen)
    })
    .await;
    scene.demand(seen["attempts"] == 0, "I14 callbacks", || {
        format!("a callback that only waits is shown with attempts: {seen}")
    });
    let so = seen["due_at"] == sent["due_at"] && seen["waiting_for"]["reason"] == "host_paused";
    scene.demand(so, "the contract", || {
        format!("a callback whose host is paused is shown with another due time or reason: {seen}")
    });
    client.post(&format!("{host}/resume"), &json!({})).await.expect(200);
    let attempt = receiver.wait_for(1).await.remove(0).attempt();
    scene.demand(attempt == 1, "I14 callbacks", || {
        format!("the first call of a callback that waited says that it is attempt {attempt}")
    });
    scene.end().await
}

/// A topic's secrets, and an address that the operator refuses.
pub async fn secrets(setting: Setting) -> Report {
    let (own, other) = (Receiver::start().await, Receiver::start().await);
    let refused = Receiver::at(([127, 0, 0, 1], 0).into()).await;
    let denied = match setting.bug {
        Some("denied and dialled") => "192.0.2.0/24",
        _ => "127.0.0.1/32,::1/128",
    };
    let args = ["--callback-allow", "127.0.0.0/8", "--callback-deny", denied];
    let mut scene = Scene::with("secrets", setting, 1, |launch| launch.args(args)).await;
    let (client, topic) = (scene.dueq[0].client(), topic("secrets"));
    let push = json!({"url": own.url("/"), "headers": {"authorization": "secret"}});
    client.new_topic(&topic, json!({"push": push})).await;
    let message =
        |receiver: &Receiver| json!({"payload": 1, "callback": {"url": receiver.url("/")}});
    client.published(&topic, message(&other)).await;
    let call = other.wait_for(1).await.remove(0);
    scene.demand(!call.has("authorization"), "I14 callbacks", || {
        "the authorization of one origin was sent to another".to_owned()
    });
    let url = format!("http://localhost:{}/", refused.addr().port());
    client.published(&topic, json!({"payload": 1, "callback": {"url": url}})).await;
    sleep(Duration::from_millis(500)).await;
    scene.demand(refused.connections() + refused.count() == 0, "I14 callbacks", || {
        "a denied address was connected to".to_owned()
    });
    scene.end().await
}

async fn schedule(client: &Client, name: &str) -> Value {
    client.get_path(&format!("/schedules/{name}")).await.expect(200).json()
}

/// Schedules that two instances tick.
pub async fn ticks(scene: &mut Scene) {
    let client = scene.dueq[0].client();
    let topics: Vec<String> = (0..8).map(|_| topic("ticks")).collect();
    let mut first = Vec::new();
    for name in &topics {
        let every = json!({"every_ms": 1_000, "topic": name, "message": {"payload": 1}});
        let path = format!("/schedules/{name}");
        let made = client.send_json("PUT", &path, &every).await.expect(201).json();
        first.push(instant_ms(text(&made, "next_at")));
    }
    sleep(Duration::from_millis(3_300)).await;
    for name in &topics {
        client.post(&format!("/schedules/{name}/pause"), &json!({})).await.expect(200);
    }
    sleep(Duration::from_millis(500)).await; // a tick may be under way
    for (name, first) in topics.iter().zip(first) {
        let last = schedule(&client, name).await["last_at"].as_str().map(instant_ms);
        let ticks = last.map_or(0, |last| (last - first) / 1_000 + 1);
        let made = if ticks > 0 { client.total(name, "published").await } else { 0 };
        scene.demand(made == ticks, "I14 one message a tick", || {
            format!("{made} messages of {ticks} ticks of {name}")
        });
        scene.demand(ticks > 1, "I14 one message a tick", || {
            format!("{name} ticks every second, and has ticked {ticks} times in 3")
        });
    }
}
