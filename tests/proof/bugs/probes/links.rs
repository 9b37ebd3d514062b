//! Connections to Redis that are closed while nothing is under way on them.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::harness::{Launch, topic};
use crate::proof::bugs::between;
use crate::proof::bugs::scene::Scene;
use crate::proof::stage::{Report, Setting};

/// By then dueq can know that a connection was closed.
const CLOSED: Duration = Duration::from_millis(100);

/// What comes after Redis has closed all connections is served: nothing of it was sent before.
pub async fn closed(setting: Setting) -> Report {
    let hasty = |launch: Launch| launch.args(["--redis-timeout-ms", "1000"]);
    let mut scene = Scene::with("closed", setting, 1, hasty).await;
    scene.proxy.set(between::mode(scene.setting.bug, ""));
    let (client, topic) = (scene.dueq[0].client(), topic("closed"));
    client.published(&topic, json!({"payload": 0})).await;
    for payload in 1..=10 {
        let _: i64 = scene.redis.command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
        sleep(CLOSED).await;
        let answer = client.publish(&topic, json!({"payload": payload})).await;
        scene.demand(answer.status == 201, "I15", || format!("nothing was sent: {answer}"));
    }
    scene.end().await
}
