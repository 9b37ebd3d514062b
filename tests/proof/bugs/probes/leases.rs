//! What a lease promises its holder and everybody else: tokens, deadlines, extensions.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::harness::{eventually, temp_dir, text, topic};
use crate::proof::actor::Options;
use crate::proof::audit::Audit;
use crate::proof::bugs::scene::{Scene, until};
use crate::proof::history::{Back, Grant};
use crate::proof::stage::{Durability, Report, Setting};

/// Past the deadline by more than the clocks' doubt, and before housekeeping comes (half a second).
const LATE: i64 = 60;

/// Publishes so many plain messages and leases them for a second.
async fn held(scene: &Scene, messages: usize) -> Vec<Grant> {
    let mut hand = scene.hand(0);
    for _ in 0..messages {
        hand.publish_ok(Options::default()).await;
    }
    hand.leased(messages, 1_000, 1_000).await
}

/// Acks that come after the deadline, and before anybody else was granted the messages.
pub async fn late_acks(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    let grants = held(scene, 6).await;
    until(grants[0].deadline + LATE).await;
    hand.ack_all(&grants).await;
}

/// Nacks and extensions that come after the deadline.
pub async fn late_nacks(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    let grants = held(scene, 6).await;
    until(grants[0].deadline + LATE).await;
    for (n, grant) in grants.iter().enumerate() {
        match n % 2 {
            0 => drop(hand.end(grant, Back::Failed, Some(0)).await),
            _ => drop(hand.extend(grant, 5_000).await),
        }
    }
}

/// Tokens of a grant that is over, used while another client holds the messages.
pub async fn old_tokens(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    let old = held(scene, 6).await;
    let new = hand.leased(6, 30_000, 5_000).await;
    for (n, grant) in old.iter().enumerate() {
        match n % 3 {
            0 => drop(hand.ack(grant).await),
            1 => drop(hand.end(grant, Back::Failed, Some(0)).await),
            _ => drop(hand.extend(grant, 40_000).await),
        }
    }
    hand.ack_all(&new).await;
}

/// The token of the first grant, used when the message is granted for the 2,049th time.
pub async fn grant_2049(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    hand.publish_ok(Options::default()).await;
    let mut grants = hand.leased(1, 60_000, 1_000).await;
    let first = grants[0].clone();
    while grants[0].attempt < first.attempt + 2_048 {
        hand.end(&grants[0], Back::Released, None).await;
        grants = hand.leased(1, 60_000, 1_000).await;
    }
    hand.ack(&first).await;
    hand.ack(&grants[0]).await;
}

/// Leases that run out are granted again at their deadline, and not before.
pub async fn leases_that_run_out(scene: &mut Scene) {
    let [mut first, mut second] = [scene.hand(0), scene.hand(0)];
    first.publish_each(4, Options::default()).await;
    first.leased(4, 1_500, 1_000).await;
    for grant in second.leased(4, 10_000, 3_000).await {
        second.ack(&grant).await;
    }
}

/// Extensions by less than what is left, and by more than may be.
pub async fn extensions(scene: &mut Scene) {
    let mut hand = scene.hand(0);
    hand.publish_ok(Options::default()).await;
    let grant = hand.leased(1, 20_000, 1_000).await.remove(0);
    hand.extend(&grant, 1_000).await;
    until(grant.granted_at + 100).await;
    hand.extend(&grant, 12 * 3_600_000).await;
    hand.extend(&grant, 30_000).await;
    hand.ack(&grant).await;
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().flatten() {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// Redis has forgotten the newest part of its history, as after a power loss: the AOF is cut back to before a grant. What is
/// left is consistent, Redis gives the same attempt to another client, and the token from before fits nothing.
pub async fn a_forgotten_grant(mut setting: Setting) -> Report {
    setting.durability = Durability::Always;
    let mut scene = Scene::start("a_forgotten_grant", setting, 2).await;
    let [one, other] = [scene.dueq[0].client(), scene.dueq[1].client()];
    let (kept, forgotten, leased) = (&topic("kept"), &topic("forgotten"), &topic("leased"));
    let surviving = one.published(leased, json!({"payload": "leased before"})).await;
    let survivor = one.lease_one(leased).await;
    // Nothing of this topic was leased before, so that nothing is left of the run of Redis that the grant is of.
    let twice = one.published(kept, json!({"payload": "leased twice"})).await;

    let (aof, before) = (scene.redis.dir().join("appendonlydir"), temp_dir("aof"));
    copy(&aof, &before);
    let lost_grant = one.lease_one(kept).await;
    let lost = other.published(kept, json!({"payload": "forgotten"})).await;
    let lost_too = other.published(forgotten, json!({"payload": "with its topic"})).await;
    scene.redis.kill9();
    fs::remove_dir_all(&aof).unwrap();
    copy(&before, &aof);
    scene.redis.restart().await;
    for client in [&one, &other] {
        eventually("it works again", || async {
            (client.get(&twice).await.status == 200).then_some(())
        })
        .await;
    }

    let regrant = other.lease_one(kept).await;
    assert_eq!((text(&regrant, "id"), text(&lost_grant, "id")), (&*twice, &*twice));
    assert_eq!(regrant["attempt"], lost_grant["attempt"], "Redis does not know better");
    for client in [&one, &other] {
        for answer in [
            client.extend_leased(&lost_grant, 60_000).await,
            client.nack_leased(&lost_grant, json!({})).await,
            client.ack_leased(&lost_grant).await,
        ] {
            let fits = answer.status != 409;
            scene.demand(!fits, "I13 honest 2xx", || format!("a forgotten token fits: {answer}"));
        }
        for id in [&lost, &lost_too] {
            let seen = client.get(id).await;
            let gone = seen.status == 404;
            scene.demand(gone, "I13 honest 2xx", || format!("it was forgotten: {seen}"));
        }
    }
    for (client, held, id) in [(&one, &regrant, &twice), (&other, &survivor, &surviving)] {
        let acked = client.ack_leased(held).await;
        let is_its = acked.status == 204 && text(held, "id") == id;
        scene.demand(is_its, "I13 honest 2xx", || format!("an ack by the holder: {acked}"));
    }

    // A topic that Redis forgot comes into being again, and new ones with it.
    let mut connection = scene.redis.connection().await;
    for (client, name) in
        [(&one, topic("new")), (&other, forgotten.clone()), (&one, topic("newer"))]
    {
        let id = client.published(&name, json!({"payload": name})).await;
        let leased = client.lease_one(&name).await;
        assert_eq!((text(&leased, "id"), text(&leased, "payload")), (&*id, &*name));
        client.ack_leased(&leased).await.expect(204);
        for found in Audit::read(&mut connection, &name).await.unwrap().violations() {
            scene.demand(false, "I8 one place", || found);
        }
    }
    scene.end().await
}
