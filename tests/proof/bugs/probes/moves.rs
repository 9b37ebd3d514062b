//! Dead topics and what lives again: in one place (I8), within the limit, and never round in a circle.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Client, text, topic};
use crate::proof::bugs::scene::Scene;

/// Publishes a message and gives it up: its id.
async fn killed(client: &Client, topic: &str) -> String {
    client.published(topic, json!({"payload": 1})).await;
    let held = client.lease_one(topic).await;
    client.nack_leased(&held, json!({"dead": true})).await.expect(200);
    text(&held, "id").to_owned()
}

/// Messages that are redriven and acked, deleted or purged in the moment in which they move.
pub async fn moves(scene: &mut Scene) {
    const DEAD: i64 = 45;
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
                let held = client.leased(&here, json!({"wait_ms": 200})).await;
                let acked = held.first().map(|held| client.ack_leased(held));
                match acked {
                    Some(acked) => i64::from(acked.await.status == 204),
                    None => 0,
                }
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
}

/// Two topics that are each other's dead topic, whose consumer fails whatever it gets.
pub async fn a_circle(scene: &mut Scene) {
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
}

/// Dead messages of a topic that is nearly full.
pub async fn a_full_topic(scene: &mut Scene) {
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
}

/// Headers that are changed by a key, which passes from message to message meanwhile.
pub async fn a_key_that_passes_on(scene: &mut Scene) {
    let (client, topic) = (scene.dueq[0].client(), topic("keys"));
    let publishes = async {
        let mut wrong = 0;
        for n in 0..600 {
            let message = json!({"payload": n, "key": "k"});
            let gone = client.delete_by_key(&topic, "k", "");
            let (_, new) = tokio::join!(gone, client.publish(&topic, message));
            if new.status == 201 {
                sleep(Duration::from_micros(n % 4 * 500)).await;
                let seen = client.get(&new.text("id")).await;
                wrong += u64::from(seen.status == 200 && seen.json()["payload"] != n);
            }
        }
        wrong
    };
    let changes = async {
        loop {
            let change = |_| client.update_by_key(&topic, "k", json!({"headers": {"a": "b"}}));
            join_all((0..12).map(change)).await;
        }
    };
    let wrong = tokio::select! {
        wrong = publishes => wrong,
        () = changes => 0,
    };
    scene.demand(wrong == 0, "I2 no invention", || {
        format!("{wrong} messages had the payload of one before them")
    });
}
