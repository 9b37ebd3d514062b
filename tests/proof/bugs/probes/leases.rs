//! What a lease promises its holder and everybody else: tokens, deadlines, extensions.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::time::sleep;

use crate::harness::{eventually, temp_dir, unknown_id};
use crate::proof::bugs::hand::Ask;
use crate::proof::bugs::scene::{Scene, until};
use crate::proof::history::{Back, FaultKind, Grant, now};
use crate::proof::stage::{Durability, Report, Setting};

/// Past the deadline by more than the clocks' doubt, and before housekeeping comes (half a second).
const LATE: i64 = 60;

/// Publishes so many plain messages and leases them for a second.
async fn held(scene: &Scene, messages: usize) -> Vec<Grant> {
    let hand = scene.hand(0);
    for _ in 0..messages {
        hand.publish_ok(Ask::default()).await;
    }
    hand.leased(messages, 1_000, 1_000).await
}

/// Acks that come after the deadline, and before anybody else was granted the messages.
pub async fn late_acks(setting: Setting) -> Report {
    let scene = Scene::start("late_acks", setting, 1).await;
    let hand = scene.hand(0);
    let grants = held(&scene, 6).await;
    until(grants[0].deadline + LATE).await;
    for grant in &grants {
        hand.ack(grant).await;
    }
    scene.end().await
}

/// Nacks and extensions that come after the deadline.
pub async fn late_nacks(setting: Setting) -> Report {
    let scene = Scene::start("late_nacks", setting, 1).await;
    let hand = scene.hand(0);
    let grants = held(&scene, 6).await;
    until(grants[0].deadline + LATE).await;
    for (n, grant) in grants.iter().enumerate() {
        match n % 2 {
            0 => drop(hand.nack(grant, Back::Failed, Some(0)).await),
            _ => drop(hand.extend(grant, 5_000).await),
        }
    }
    scene.end().await
}

/// Tokens of a grant that is over, used while somebody else holds the messages.
pub async fn old_tokens(setting: Setting) -> Report {
    let scene = Scene::start("old_tokens", setting, 1).await;
    let hand = scene.hand(0);
    let old = held(&scene, 6).await;
    let new = hand.leased(6, 30_000, 5_000).await;
    for (n, grant) in old.iter().enumerate() {
        match n % 3 {
            0 => drop(hand.ack(grant).await),
            1 => drop(hand.nack(grant, Back::Failed, Some(0)).await),
            _ => drop(hand.extend(grant, 40_000).await),
        }
    }
    for grant in &new {
        hand.ack(grant).await;
    }
    scene.end().await
}

/// The token of the first grant, used when the message is granted for the 2,049th time.
pub async fn grant_2049(setting: Setting) -> Report {
    let scene = Scene::start("grant_2049", setting, 1).await;
    let hand = scene.hand(0);
    hand.publish_ok(Ask::default()).await;
    let mut grants = hand.leased(1, 60_000, 1_000).await;
    let first = grants[0].clone();
    while grants[0].attempt < first.attempt + 2_048 {
        hand.nack(&grants[0], Back::Released, None).await;
        grants = hand.leased(1, 60_000, 1_000).await;
    }
    hand.ack(&first).await;
    hand.ack(&grants[0]).await;
    scene.end().await
}

/// Leases that run out are granted again at their deadline, and not before.
pub async fn leases_that_run_out(setting: Setting) -> Report {
    let scene = Scene::start("leases_that_run_out", setting, 1).await;
    let [first, second] = [scene.hand(0), scene.hand(0)];
    for _ in 0..4 {
        first.publish_ok(Ask::default()).await;
    }
    first.leased(4, 1_500, 1_000).await;
    for grant in second.leased(4, 10_000, 3_000).await {
        second.ack(&grant).await;
    }
    scene.end().await
}

/// Extensions by less than what is left, and by more than may be.
pub async fn extensions(setting: Setting) -> Report {
    let scene = Scene::start("extensions", setting, 1).await;
    let hand = scene.hand(0);
    hand.publish_ok(Ask::default()).await;
    let grant = hand.leased(1, 20_000, 1_000).await.remove(0);
    hand.extend(&grant, 1_000).await;
    until(grant.granted_at + 100).await;
    hand.extend(&grant, 12 * 3_600_000).await;
    hand.extend(&grant, 30_000).await;
    hand.ack(&grant).await;
    scene.end().await
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().flatten() {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

/// The AOF is cut back to before some grants: Redis gives the same attempts to others, and those
/// who had them come with their tokens.
pub async fn a_forgotten_grant(mut setting: Setting) -> Report {
    setting.durability = Durability::Always;
    let mut scene = Scene::start("a_forgotten_grant", setting, 1).await;
    let hand = scene.hand(0);
    for _ in 0..4 {
        hand.publish_ok(Ask::default()).await;
    }
    let (aof, before) = (scene.redis.dir().join("appendonlydir"), temp_dir("aof"));
    copy(&aof, &before);
    sleep(Duration::from_millis(10)).await;
    let (noted, forgotten) = (now(), hand.leased(4, 60_000, 1_000).await);
    sleep(Duration::from_millis(10)).await;
    let from = now();
    scene.redis.kill9();
    fs::remove_dir_all(&aof).unwrap();
    copy(&before, &aof);
    scene.redis.restart().await;
    scene.recorder.fault(FaultKind::PowerLost(from - noted), from);
    let client = scene.dueq[0].client();
    eventually("dueq works again", || async {
        (client.get(&unknown_id()).await.status == 404).then_some(())
    })
    .await;
    // A lane that finds its connection broken only now answers that it does not know.
    let again = eventually("a grant after the loss", || async {
        Some(hand.leased(4, 60_000, 2_000).await).filter(|again| !again.is_empty())
    })
    .await;
    for grant in &forgotten {
        hand.extend(grant, 61_000).await;
        hand.ack(grant).await;
    }
    for grant in &again {
        hand.ack(grant).await;
    }
    scene.end().await
}
