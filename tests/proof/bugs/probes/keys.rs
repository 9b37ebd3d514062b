//! Keys and idempotency keys: who answers for them, and until when.

use serde_json::json;

use crate::harness::topic;
use crate::proof::actor::Options;
use crate::proof::bugs::scene::Scene;
use crate::proof::history::Back;

/// A key is free again after an ack, a death, a delete and a purge.
pub async fn keys_set_free(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    hand.publish_ok(Options::key("a")).await;
    hand.publish_ok(Options::key("a")).await; // answered by the first
    hand.work(2, 1_000).await;
    scene.look().await;
    hand.publish_ok(Options::key("a")).await;
    hand.fail(1, 1_000, Back::Dead, None).await;
    scene.look().await;
    let id = hand.publish_ok(Options::key("a")).await;
    hand.delete(&id, false).await;
    hand.publish_ok(Options { delay: 60_000, ..Options::key("a") }).await;
    hand.purge(&["delayed", "ready"]).await;
    hand.publish_ok(Options::key("a")).await;
}

/// A publish that is repeated, before and after its message is done.
pub async fn repeated_publishes(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    let once = Options { idempotency_key: Some("once".to_owned()), ..Options::default() };
    let draft = hand.draft(once);
    hand.send(&draft).await;
    hand.send(&draft).await;
    hand.work(2, 1_000).await;
    hand.send(&draft).await;
}

/// A publish that is repeated after its message was deleted, and after it died.
pub async fn repeats_of_what_is_gone(scene: &mut Scene) {
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
}

/// A key with a NUL, held by a message that fails once.
pub async fn a_key_with_a_nul(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    hand.publish_ok(Options::key("a\0b")).await;
    hand.fail(1, 1_000, Back::Failed, Some(0)).await;
    scene.look().await;
    hand.publish_ok(Options::key("a\0b")).await; // answered by the first
    hand.work(1, 1_000).await;
    // Anyone who publishes next mends what was left of the first.
    scene.look().await;
    hand.publish_ok(Options::key("a\0b")).await;
}
