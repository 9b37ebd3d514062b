//! A topic of several partitions, on several primaries, some of which are away: the others go on with it, and what concerns
//! all of it loses nothing.

mod around;
mod deleted;
mod paused;
mod whole;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::REGISTRY;
use crate::harness::*;

const PARTITIONS: u16 = 16;

/// A cluster of three primaries with a replica each, two instances, and an empty topic of 16 partitions that both know.
struct Ground {
    cluster: Cluster,
    one: Dueq,
    other: Dueq,
    topic: String,
    /// A key that is at home in each partition.
    keys: BTreeMap<u8, String>,
    /// The primary that has the list of topics. The next one has partition 0.
    registry: usize,
}

/// What every node has on its disk by the time it answers.
fn on_disk() -> RedisOptions {
    Redis::options().appendonly().args(["--appendfsync", "always"])
}

impl Ground {
    /// `redis`: what each node is told besides. A primary that is away stops no other.
    async fn start(redis: RedisOptions) -> Ground {
        let cluster = Cluster::options(3, 1).partial().redis(redis).start().await;
        let (one, other) = (cluster.launch().start().await, cluster.launch().start().await);
        let registry = cluster.primary_of(slot(REGISTRY)).await;
        let topic = cluster.topic_on((registry + 1) % 3, "split").await;
        one.client().new_topic(&topic, json!({"partitions": PARTITIONS})).await;
        let mut ground = Ground { cluster, one, other, topic, keys: BTreeMap::new(), registry };
        for (key, id) in (0..120).map(|n| format!("key-{n}")).zip(ground.fill().await) {
            ground.keys.insert(partition_of(&id), key);
        }
        assert_eq!(ground.keys.len(), usize::from(PARTITIONS));
        let client = ground.other.client();
        let held = ground.lease_all(&client).await;
        assert_eq!(held.len(), 120);
        ack_all(&client, &held).await;
        ground
    }

    /// Publishes some messages with keys into every partition: their ids.
    async fn fill(&self) -> Vec<String> {
        let message = |n: usize| json!({"payload": n, "key": format!("key-{n}")});
        let messages: Vec<Value> = (0..120).map(message).collect();
        self.one.client().fill(&self.topic, &messages).await
    }

    /// The partitions that this primary has.
    async fn on(&self, primary: usize) -> BTreeSet<u8> {
        let here = self.cluster.partitions_on(primary, &self.topic, PARTITIONS).await;
        assert!(!here.is_empty() && here.len() < usize::from(PARTITIONS), "{here:?}");
        here
    }

    /// Publishes into this partition.
    async fn publish(&self, client: &Client, partition: u8, payload: Value) -> Answer {
        let message = json!({"payload": payload, "key": self.keys[&partition]});
        client.publish(&self.topic, message).await
    }

    /// The same, until it is answered 2xx; before that nothing but 503 comes. The same message answers a repetition.
    async fn published(&self, client: &Client, partition: u8, payload: Value) -> String {
        eventually("a publish", || async {
            let answer = self.publish(client, partition, payload.clone()).await;
            assert!([200, 201, 503].contains(&answer.status), "{answer}");
            (answer.status < 300).then(|| answer.text("id"))
        })
        .await
    }

    /// Leases until there is nothing, or what is left is at a server that is away.
    async fn lease_all(&self, client: &Client) -> Vec<Value> {
        let mut held = Vec::new();
        loop {
            let want = json!({"max_messages": 1000, "lease_ms": 600_000});
            let answer = client.lease(&self.topic, want).await;
            if answer.status == 503 {
                return held;
            }
            let answer = answer.expect(200).json();
            match answer["messages"].as_array().unwrap().as_slice() {
                [] => return held,
                some => held.extend(some.iter().cloned()),
            }
        }
    }

    /// The nodes that are primaries now.
    async fn primaries(&self) -> BTreeSet<usize> {
        let mut primaries = BTreeSet::new();
        for slot in [0, 8_000, 16_383] {
            primaries.insert(self.cluster.primary_of(slot).await);
        }
        primaries
    }

    /// Kills a primary that has no replica any more. Who had a call under way does not know what became of it, so it waits
    /// until both instances know.
    async fn lose(&mut self, primary: usize) {
        let partition = *self.on(primary).await.first().unwrap();
        self.cluster.kill9(primary + 3);
        self.cluster.kill9(primary);
        for dueq in [&self.one, &self.other] {
            let client = dueq.client();
            eventually("a server is known to be away", || async {
                let answer = client.get_by_key(&self.topic, &self.keys[&partition]).await;
                (answer.expect(503).text("code") == "redis_unavailable").then_some(())
            })
            .await;
        }
    }

    /// Starts it again, with what it has on its disk, and its replica; waits until the instances know.
    async fn find_again(&mut self, primary: usize) {
        self.cluster.restart(primary).await;
        self.cluster.restart(primary + 3).await;
        self.cluster.is_whole().await;
        for dueq in [&self.one, &self.other] {
            let client = dueq.client();
            works_again(&client).await;
            let topic = &self.topic;
            eventually("all partitions are there", || async {
                let answer = client.topic(topic).await;
                (answer.status != 503).then_some(())
            })
            .await;
        }
    }

    /// The replica of this primary hears no more of it, and takes its place as it was.
    async fn fall_back(&mut self, primary: usize, meanwhile: impl AsyncFnOnce(&Ground)) -> usize {
        let replica = primary + 3;
        self.cluster.freeze(replica);
        let node = self.cluster.node(primary);
        let _: i64 = node.command(&["CLIENT", "KILL", "TYPE", "replica"]).await;
        meanwhile(self).await;
        self.cluster.kill9(primary);
        self.cluster.thaw(replica);
        let take = ["CLUSTER", "FAILOVER", "TAKEOVER"];
        let _: () = self.cluster.node(replica).command(&take).await;
        let partition = *self.on(replica).await.first().unwrap();
        let slot = slot_of_partition(&self.topic, partition);
        assert_eq!(self.cluster.taken_over(slot, primary).await, replica);
        replica
    }
}

/// Acks what was leased.
async fn ack_all(client: &Client, held: &[Value]) {
    let ack = |m: &Value| json!({"id": m["id"], "lease_token": m["lease_token"]});
    for some in held.chunks(1000) {
        let acks: Vec<Value> = some.iter().map(ack).collect();
        let results = client.held_batch("ack", &acks).await;
        assert!(results.iter().all(|result| result["status"] == "ok"), "{results:?}");
    }
}

fn ids(messages: &[Value]) -> BTreeSet<String> {
    messages.iter().map(|message| text(message, "id").to_owned()).collect()
}
