//! A registry that has forgotten its last changes, as after a failover of the server that has it, while the partitions know
//! of them.

use serde_json::json;

use crate::harness::{partition_of, tag_of_partition, topic};
use crate::proof::bugs::scene::Scene;

const MESSAGES: usize = 16;

/// A topic that has grown since, and was paused then.
pub async fn a_registry_set_back(scene: &mut Scene) {
    let (client, topic) = (scene.dueq[0].client(), topic("set-back"));
    client.new_topic(&topic, json!({})).await;
    let registry = "dueq:{topics}:registry";
    let entry: String = scene.redis.command(&["HGET", registry, &topic]).await;
    client.update_topic(&topic, json!({"partitions": 4})).await.expect(200);
    let grown: String = scene.redis.command(&["HGET", registry, &topic]).await;
    // One after the other, so that they go to all partitions.
    for payload in 0..MESSAGES {
        client.published(&topic, json!({"payload": payload})).await;
    }
    client.pause_topic(&topic).await.expect(200);
    // One knows neither, another that it has grown.
    let mut leased = 0;
    for lost in [&grown, &entry] {
        let _: i64 = scene.redis.command(&["HSET", registry, &topic, lost]).await;
        let second = scene.launch().start().await;
        let answer = second.client().lease(&topic, json!({"max_messages": 100})).await;
        scene.demand(answer.status == 200, "I12", || format!("a lease: {answer}"));
        let held = answer.json()["messages"].as_array().map_or(0, Vec::len);
        scene.demand(held == 0, "I15", || format!("{held} granted of a paused topic"));
        leased += held;
    }
    let answer = client.resume_topic(&topic).await;
    scene.demand(answer.status == 200, "I12", || format!("a resume: {answer}"));
    let third = scene.launch().start().await;
    let answer = third.client().lease(&topic, json!({"max_messages": 100})).await;
    scene.demand(answer.status == 200, "I12", || format!("a lease: {answer}"));
    leased += answer.json()["messages"].as_array().map_or(0, Vec::len);
    scene.demand(leased == MESSAGES, "I1", || format!("{leased} of {MESSAGES} were leased"));
}

/// A deletion by force died when it had closed the first and the last partition, and a failover has forgotten the first of
/// these: the topic goes on, with all partitions, and what lies in the others.
pub async fn a_deletion_forgotten(scene: &mut Scene) {
    let (client, topic) = (scene.dueq[0].client(), topic("half-deleted"));
    client.new_topic(&topic, json!({"partitions": 4})).await;
    // Keys have their homes in all of them.
    let keyed = |what: &str, n: usize| json!({"payload": n, "key": format!("{what}-{n}")});
    let mut there = 0;
    for n in 0..MESSAGES {
        let id = client.published(&topic, keyed("before", n)).await;
        there += usize::from(partition_of(&id) != 3);
    }
    let entry: String = scene.redis.command(&["HGET", "dueq:{topics}:registry", &topic]).await;
    let number = entry.split(' ').next().expect("its number");
    let tag = tag_of_partition(&topic, 3);
    let keys: Vec<String> = scene.redis.command(&["KEYS", &format!("dueq:{{{tag}}}:*")]).await;
    for key in keys {
        let _: i64 = scene.redis.command(&["DEL", &key]).await;
    }
    let meta = format!("dueq:{{{tag}}}:meta");
    let _: i64 = scene.redis.command(&["HSET", &meta, "topic", &format!("-{number}")]).await;
    let _: i64 = scene.redis.command(&["PEXPIRE", &meta, "3600000"]).await;
    let (mut leased, other) = (0, scene.launch().start().await);
    for (client, what) in [(&other.client(), "one"), (&client, "other")] {
        for n in 0..MESSAGES {
            let answer = client.publish(&topic, keyed(what, n)).await;
            scene.demand(answer.status == 201, "I12", || format!("a publish: {answer}"));
        }
        there += MESSAGES;
        let answer = client.lease(&topic, json!({"max_messages": 1_000})).await;
        scene.demand(answer.status == 200, "I12", || format!("a lease: {answer}"));
        leased += answer.json()["messages"].as_array().map_or(0, Vec::len);
    }
    scene.demand(leased == there, "I1", || format!("{leased} of {there} were leased"));
    let kept: i64 = scene.redis.command(&["PTTL", &meta]).await;
    scene.demand(kept == -1, "I1", || format!("a partition in use is kept for {kept} ms"));
}
