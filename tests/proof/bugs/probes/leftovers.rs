//! What a deleted topic leaves, and what one damaged body costs the messages around it.

use std::time::Duration;

use deadpool_redis::redis::{self, aio::MultiplexedConnection};
use serde_json::json;

use crate::harness::topic;
use crate::proof::bugs::scene::Scene;

const MESSAGES: usize = 40;

/// A topic of several partitions, all of which have a history, is deleted by force.
pub async fn a_deleted_topic(scene: &mut Scene) {
    let (client, topic) = (scene.dueq[0].client(), topic("leaves"));
    client.new_topic(&topic, json!({"partitions": 4})).await;
    for n in 0..MESSAGES {
        let message = json!({"payload": n, "key": format!("k{n}"), "delay_ms": 1000 * n});
        client.published(&topic, message).await;
    }
    let history = format!("/topics/{topic}/history?step_ms=10000&points=9");
    for _ in 0..50 {
        client.get_path(&history).await;
        let noted: Vec<String> =
            scene.redis.command(&["KEYS", &format!("dueq:{{{topic}:*}}:history")]).await;
        if noted.len() == 4 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let answer = client.delete_topic(&topic, "?force=true").await;
    scene.demand(answer.status == 204, "I12", || format!("a deletion: {answer}"));
    let left = leftovers(&mut scene.redis.connection().await, &topic).await;
    scene.demand(left.is_empty(), "I8", || format!("a deleted topic leaves {left:?}"));
}

/// One of five messages has a body of one byte.
pub async fn a_damaged_body(scene: &mut Scene) {
    let (client, topic) = (scene.dueq[0].client(), topic("damaged"));
    client.fill(&topic, &vec![json!({"payload": 1}); 5]).await;
    let mut damage = redis::cmd("EVAL");
    let script = "local member = redis.call('ZRANGE', KEYS[1], 2, 2)[1]
        return redis.call('HSET', KEYS[2], member, '\\1')";
    let key = |name: &str| format!("dueq:{{{topic}:0}}:{name}");
    damage.arg(script).arg(2).arg(key("delayed")).arg(key("messages"));
    let _: i64 = damage.query_async(&mut scene.redis.connection().await).await.expect("a body");
    let want = json!({"max_messages": 5, "max_bytes": 1000});
    let answer = client.lease(&topic, want).await;
    scene.demand(answer.status == 200, "I12", || format!("a lease: {answer}"));
    let granted = answer.json()["messages"].as_array().map_or(0, Vec::len);
    scene.demand(granted == 4, "I12", || format!("{granted} of the 4 others were granted"));
}

/// What lies in Redis of a topic that was deleted, whichever partition it was in: all but the marks that keep instances from
/// writing there, which expire, and what indexes still name.
pub async fn leftovers(connection: &mut MultiplexedConnection, topic: &str) -> Vec<String> {
    let mut left = Vec::new();
    let keys: Vec<String> = redis::cmd("KEYS")
        .arg(format!("dueq:{{{topic}:*"))
        .query_async(connection)
        .await
        .expect("the keys");
    for key in keys {
        let lasts: i64 =
            redis::cmd("PTTL").arg(&key).query_async(connection).await.expect("a time");
        if !key.ends_with(":meta") || lasts < 0 {
            left.push(key);
        }
    }
    for (read, index) in [
        ("ZRANGE", "{sweeps}:index"),
        ("ZRANGE", "{history}:active"),
        ("HKEYS", "{history}:lateness"),
        ("HKEYS", "{topics}:registry"),
        ("HVALS", "{topics}:names"),
        ("ZRANGE", "{topics}:index"),
        ("SMEMBERS", "{topics}:pushed"),
    ] {
        let mut command = redis::cmd(read);
        command.arg(format!("dueq:{index}"));
        if read == "ZRANGE" {
            command.arg(0).arg(-1);
        }
        let names: Vec<String> = command.query_async(connection).await.expect("the names");
        let of_topic = |name: &&String| name.split('/').next() == Some(topic);
        left.extend(names.iter().filter(of_topic).map(|name| format!("{name} in {index}")));
    }
    left
}
