//! Dead topics and what lives again: in one place (I8), within the limit, and never round in a circle.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Client, text, topic};
use crate::proof::bugs::scene::Scene;
use crate::proof::stage::{Report, Setting};

/// Publishes a message and gives it up: its id.
async fn killed(client: &Client, topic: &str) -> String {
    client.published(topic, json!({"payload": 1})).await;
    let held = client.lease_one(topic).await;
    client.nack_leased(&held, json!({"dead": true})).await.expect(200);
    text(&held, "id").to_owned()
}

/// Messages that are redriven and acked, deleted or purged in the moment in which they move.
pub async fn moves(setting: Setting) -> Report {
    const DEAD: i64 = 45;
    let mut scene = Scene::start("moves", setting, 2).await;
    let (client, other) = (scene.dueq[0].client(), scene.dueq[1].client());
    let (here, there) = (topic("mortal"), topic("dead"));
    client.new_topic(&there, json!({})).await;
    client.new_topic(&here, json!({"dead_topic": there, "dead_form": "raw"})).await;
    let mut ended = 0;
    for n in 0..DEAD {
        let id = killed(&client, &here).await;
        sleep(Duration::from_micros(n as u64 % 9 * 200)).await;
        ended += match n % 3 {
            0 if other.redrive(&id).await.status == 200 => {
                i64::from(client.ack_leased(&client.lease_one(&here).await).await.status == 204)
            }
            1 => i64::from(other.delete(&id).await.status == 204),
            2 => other.purge(&here, &["dead"]).await.expect(200).number("purged"),
            _ => 0,
        };
    }
    sleep(Duration::from_millis(1_500)).await;
    let moved = client.total(&there, "published").await;
    scene.demand(ended + moved == DEAD, "I8 one place", || {
        format!("of {DEAD} dead messages {ended} ended here, and {moved} moved")
    });
    scene.end().await
}

/// Two topics that are each other's dead topic, whose consumer fails whatever it gets.
pub async fn a_circle(setting: Setting) -> Report {
    let mut scene = Scene::start("a_circle", setting, 1).await;
    let client = scene.dueq[0].client();
    let both = [topic("circle"), topic("circle")];
    for (here, there) in [(&both[0], &both[1]), (&both[1], &both[0])] {
        let config = json!({"dead_topic": there, "dead_form": "raw", "max_attempts": 1});
        client.new_topic(here, config).await;
    }
    client.published(&both[0], json!({"payload": 1})).await;
    let mut grants = 0;
    for _ in 0..60 {
        let want = json!({"topics": both, "lease_ms": 30_000});
        let held = client.post("/lease", &want).await.expect(200).json()["messages"].take();
        for message in held.as_array().into_iter().flatten() {
            grants += 1;
            client.nack_leased(message, json!({})).await.expect(200);
        }
        sleep(Duration::from_millis(25)).await;
    }
    scene.demand(grants == 2, "the contract", || {
        format!("a message of two topics that fail all was granted {grants} times")
    });
    scene.end().await
}

/// Dead messages of a topic that is nearly full.
pub async fn a_full_topic(setting: Setting) -> Report {
    let mut scene = Scene::start("a_full_topic", setting, 1).await;
    let (client, topic) = (scene.dueq[0].client(), topic("full"));
    client.new_topic(&topic, json!({"max_messages": 5, "on_full": "drop_oldest"})).await;
    let mut dead: Vec<Value> = Vec::new();
    for _ in 0..20 {
        dead.push(killed(&client, &topic).await.into());
    }
    client.post("/messages/redrive", &json!({"ids": dead[..8]})).await.expect(200);
    client.redrive(dead[9].as_str().unwrap_or_default()).await;
    client.redrive_topic(&topic, json!({})).await.expect(200);
    let ready = client.count(&topic, "ready").await;
    scene.demand(ready == 5, "the contract", || format!("{ready} live messages of at most 5"));
    scene.end().await
}

/// Headers that are changed by a key, which passes from message to message meanwhile.
pub async fn a_key_that_passes_on(setting: Setting) -> Report {
    let mut scene = Scene::start("a_key_that_passes_on", setting, 1).await;
    let (client, topic) = (scene.dueq[0].client(), topic("keys"));
    let publishes = async {
        let mut wrong = 0;
        for n in 0..200 {
            let id = client.published(&topic, json!({"payload": n, "key": "k"})).await;
            sleep(Duration::from_micros(n % 7 * 300)).await;
            wrong += u64::from(client.get(&id).await.json()["payload"] != n);
            client.delete(&id).await;
        }
        wrong
    };
    let changes = async {
        loop {
            let change = || client.update_by_key(&topic, "k", json!({"headers": {"a": "b"}}));
            tokio::join!(change(), change());
        }
    };
    let wrong = tokio::select! {
        wrong = publishes => wrong,
        () = changes => 0,
    };
    scene.demand(wrong == 0, "I2 no invention", || {
        format!("{wrong} of 200 messages had the payload of one before them")
    });
    scene.end().await
}
