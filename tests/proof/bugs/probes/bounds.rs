//! What bounds the service: memory, connections, and what a refusal for lack of either may cost.

use std::time::Duration;

use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::harness::Wire;
use crate::proof::actor::Options;
use crate::proof::bugs::scene::Scene;
use crate::proof::stage::{Report, Setting};

/// An instance with the least budget of bytes, or with one that binds nothing.
async fn bounded(name: &'static str, setting: Setting) -> Scene {
    let bytes = if setting.bug == Some("budget not kept") { "268435456" } else { "2097152" };
    Scene::with(name, setting, 1, |launch| launch.args(["--max-inflight-bytes", bytes])).await
}

/// Two bodies come in half that do not find room together.
pub async fn half_bodies(setting: Setting) -> Report {
    let mut scene = bounded("half_bodies", setting).await;
    let mut wires = Vec::new();
    for _ in 0..2 {
        let mut wire = Wire::connect(scene.dueq[0].addr()).await;
        let head = format!(
            "POST /topics/{}/messages/raw HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1200000",
            scene.topic
        );
        wire.request(&head, &vec![b'x'; 1_190_000]).await;
        wires.push(wire);
    }
    let mut refused = 0;
    for wire in &mut wires {
        let answer = wire.answer("half a body", Duration::from_secs(60));
        if let Ok(Some(answer)) = timeout(Duration::from_secs(3), answer).await {
            refused += u32::from(answer.status == 503);
        }
    }
    scene.demand(refused > 0, "I15 bounds", || {
        "2.4 MB of bodies are held, where 2 MiB is allowed".to_owned()
    });
    scene.end().await
}

/// More is granted than the answer has room for.
pub async fn grants_without_room(setting: Setting) -> Report {
    let mut scene = bounded("grants_without_room", setting).await;
    let mut hand = scene.hand(0);
    let client = scene.dueq[0].client();
    for n in 0..6 {
        hand.publish_ok(Options::default()).await;
        let large = json!({"payload": "x".repeat(200_000), "priority": n});
        client.publish(&format!("{}-large", scene.topic), large).await;
    }
    let large = format!("{}-large", scene.topic);
    let mut body = Wire::connect(scene.dueq[0].addr()).await;
    let head = format!(
        "POST /topics/{large}/messages/raw HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1600000"
    );
    body.request(&head, &vec![b'x'; 1_590_000]).await;
    sleep(Duration::from_millis(500)).await;
    client.lease(&large, json!({"max_messages": 6})).await.problem(503, "overloaded");
    drop(body);
    sleep(Duration::from_millis(300)).await;
    let ready = client.count(&large, "ready").await;
    scene.demand(ready == 6, "I12 liveness", || {
        format!("{ready} of 6 messages are ready after their grant was refused for lack of room")
    });
    hand.work(6, 0).await;
    scene.end().await
}
