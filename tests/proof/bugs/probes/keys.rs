//! Keys and idempotency keys: who answers for them, and until when.

use serde_json::json;

use crate::harness::topic;
use crate::proof::bugs::hand::Ask;
use crate::proof::bugs::scene::Scene;
use crate::proof::history::Back;
use crate::proof::stage::{Report, Setting};

/// A key is free again after an ack, a death, a delete and a purge.
pub async fn keys_set_free(setting: Setting) -> Report {
    let mut scene = Scene::start("keys_set_free", setting, 1).await;
    let hand = scene.hand(0);
    hand.publish_ok(Ask::key("a")).await;
    hand.publish_ok(Ask::key("a")).await; // answered by the first
    for grant in hand.leased(2, 30_000, 1_000).await {
        hand.ack(&grant).await;
    }
    scene.look().await;
    hand.publish_ok(Ask::key("a")).await;
    for grant in hand.leased(1, 30_000, 1_000).await {
        hand.nack(&grant, Back::Dead, None).await;
    }
    scene.look().await;
    let id = hand.publish_ok(Ask::key("a")).await;
    hand.delete(&id, false).await;
    hand.publish_ok(Ask { delay: 60_000, ..Ask::key("a") }).await;
    hand.purge(vec!["delayed", "ready"]).await;
    hand.publish_ok(Ask::key("a")).await;
    scene.end().await
}

/// A publish that is repeated, before and after its message is done.
pub async fn repeated_publishes(setting: Setting) -> Report {
    let scene = Scene::start("repeated_publishes", setting, 1).await;
    let hand = scene.hand(0);
    let ask = Ask {
        payload: Some(r#"{"u" :"once"}"#.to_owned()),
        idempotency_key: Some("once".to_owned()),
        ..Ask::default()
    };
    hand.publish_ok(ask.clone()).await;
    hand.publish_ok(ask.clone()).await;
    for grant in hand.leased(2, 30_000, 1_000).await {
        hand.ack(&grant).await;
    }
    hand.publish_ok(ask).await;
    scene.end().await
}

/// A publish that is repeated after its message was deleted, and after it died.
pub async fn repeats_of_what_is_gone(setting: Setting) -> Report {
    let mut scene = Scene::start("repeats_of_what_is_gone", setting, 1).await;
    let (client, topic) = (scene.dueq[0].client(), topic("repeats"));
    for state in ["gone", "dead"] {
        let message = json!({"payload": 1, "idempotency_key": state});
        let id = client.published(&topic, message.clone()).await;
        match state {
            "dead" => {
                let held = client.lease_one(&topic).await;
                client.nack_leased(&held, json!({"dead": true})).await.expect(200);
            }
            _ => drop(client.delete(&id).await.expect(204)),
        }
        let again = client.publish(&topic, message).await.expect(200).text("state");
        scene.demand(again == state, "I10 keys", || {
            format!("a repeated publish says {again} of a message that is {state}")
        });
    }
    scene.end().await
}

/// A key with a NUL, held by a message that fails once.
pub async fn a_key_with_a_nul(setting: Setting) -> Report {
    let mut scene = Scene::start("a_key_with_a_nul", setting, 1).await;
    let hand = scene.hand(0);
    hand.publish_ok(Ask::key("a\0b")).await;
    for grant in hand.leased(1, 30_000, 1_000).await {
        hand.nack(&grant, Back::Failed, Some(0)).await;
    }
    scene.look().await;
    hand.publish_ok(Ask::key("a\0b")).await; // answered by the first
    for grant in hand.leased(1, 30_000, 1_000).await {
        hand.ack(&grant).await;
    }
    // Whoever publishes next mends what was left of the first.
    scene.look().await;
    hand.publish_ok(Ask::key("a\0b")).await;
    scene.end().await
}
