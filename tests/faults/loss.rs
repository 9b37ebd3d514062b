//! A Redis that has forgotten the newest part of its history, as after a power loss: what is left
//! is consistent, and no token from before fits a grant made after (I13).

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::harness::{Dueq, Redis, eventually, temp_dir, text, topic};
use crate::proof::audit::{Audit, connect};

/// Copies the files of a directory into another.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().flatten() {
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_redis_forgot_is_gone_and_its_tokens_are_worth_nothing() {
    let args = ["--appendfsync", "always"];
    let mut redis = Redis::options().appendonly().args(args).start().await;
    let dueq = [Dueq::on(&redis).start().await, Dueq::on(&redis).start().await];
    let [one, other] = [dueq[0].client(), dueq[1].client()];
    let (kept, forgotten) = (&topic("kept"), &topic("forgotten"));
    let surviving = one.published(kept, json!({"payload": "leased before"})).await;
    let survivor = one.lease_one(kept).await;
    let twice = one.published(kept, json!({"payload": "leased twice"})).await;

    let aof = redis.dir().join("appendonlydir");
    let before = temp_dir("aof");
    copy(&aof, &before);
    let lost_grant = one.lease_one(kept).await;
    let lost = other.published(kept, json!({"payload": "forgotten"})).await;
    let lost_too = other.published(forgotten, json!({"payload": "with its topic"})).await;
    redis.kill9();
    fs::remove_dir_all(&aof).unwrap();
    copy(&before, &aof);
    redis.restart().await;

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
        client.ack_leased(&lost_grant).await.problem(409, "lease_lost");
        client.nack_leased(&lost_grant, json!({})).await.problem(409, "lease_lost");
        client.extend_leased(&lost_grant, 60_000).await.problem(409, "lease_lost");
        client.get(&lost).await.problem(404, "message_not_found");
        client.get(&lost_too).await.problem(404, "message_not_found");
    }
    one.ack_leased(&regrant).await.expect(204);
    assert_eq!(text(&survivor, "id"), surviving);
    other.ack_leased(&survivor).await.expect(204);

    // A topic that Redis forgot comes into being again, and new ones beside it.
    let mut connection = connect(&redis.url()).await.unwrap();
    for (client, name) in
        [(&one, topic("new")), (&other, forgotten.clone()), (&one, topic("newer"))]
    {
        let id = client.published(&name, json!({"payload": name})).await;
        let leased = client.lease_one(&name).await;
        assert_eq!((text(&leased, "id"), text(&leased, "payload")), (&*id, &*name));
        client.ack_leased(&leased).await.expect(204);
        let audit = Audit::read(&mut connection, &name).await.unwrap();
        assert_eq!(audit.violations(), Vec::<String>::new());
    }
}
