//! Topics whose answers wait for the replicas: what was answered 2xx is there when the primary is gone, and nothing is
//! answered while a replica is away. Changes of topics wait likewise, where there are replicas.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::*;
use crate::publisher::Publisher;

const NAME: &str = "orders";

/// How many messages of a topic's first partition a server has.
async fn stored(server: &Redis, topic: &str) -> u64 {
    server.command(&["HLEN", &format!("dueq:{{{topic}:0}}:messages")]).await
}

async fn replicated(client: &Client, name: &str) {
    let config = client.new_topic(name, json!({"durability": "replicated"})).await.json();
    assert_eq!(config["config"]["durability"], "replicated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_wait_for_the_replica_and_what_it_does_not_confirm_is_taken_back() {
    let mut servers = pair(Redis::options()).await;
    let [primary, replica] = &mut servers;
    let dueq = Dueq::on(primary).args(["--redis-timeout-ms", "1000"]).start().await;
    let client = dueq.client();
    let (name, memory) = (&topic("replicated"), &topic("memory"));
    replicated(&client, name).await;
    client.new_topic(memory, json!({})).await;
    for number in 1..=20 {
        client.published(name, json!({"payload": number})).await;
        assert_eq!(
            stored(replica, name).await,
            number,
            "it was answered before the replica had it"
        );
    }
    let held = client.lease_one(name).await;
    let lost = client.lease_one(name).await;

    replica.pause();
    let begin = Instant::now();
    let (poll, unknown) = (client.lease(name, json!({"wait_ms": 500})), &unknown_id());
    let (published, leased, acked, nacked, gone) = tokio::join!(
        client.publish(name, json!({"payload": 21})),
        poll,
        client.ack_leased(&held),
        client.nack_leased(&lost, json!({"delay_ms": 600_000})),
        client.delete(unknown),
    );
    for answer in [published, leased, acked, nacked] {
        answer.problem(503, "outcome_unknown");
    }
    // No topic has this id.
    gone.problem(404, "message_not_found");
    assert!(begin.elapsed() >= Duration::from_millis(900), "the replica may still answer");
    // Nobody waits for the answers of others.
    client.published(memory, json!({"payload": 1})).await;
    let one = client.lease_one(memory).await;
    client.ack_leased(&one).await.expect(204);
    // What nobody was given is taken back, and how things are can be seen.
    eventually("the grant is taken back", || async {
        (client.count(name, "leased").await == 0).then_some(())
    })
    .await;
    assert!(client.total(name, "returned").await >= 1);
    // Changes of a topic that promises nothing depend on no replica.
    let path = format!("/topics/{memory}");
    client.send_json("PUT", &path, &json!({"lease_ms": 5_000})).await.expect(200);

    replica.resume();
    let back = Instant::now();
    client.published(name, json!({"payload": 22})).await;
    println!("back after {:?}", back.elapsed());
    client.ack_leased(&held).await.problem(404, "message_not_found");
    assert_eq!(client.leased(name, json!({"max_messages": 100})).await.len(), 20);

    // The primary's only replica leaves for good: it is still waited for.
    let _: () = replica.command(&["REPLICAOF", "NO", "ONE"]).await;
    client.publish(name, json!({"payload": 23})).await.problem(503, "outcome_unknown");
    eventually("readyz warns of it", || async {
        let ready = client.get_path("/readyz").await.expect(200).json();
        ready["warnings"].to_string().contains("a replica of Redis is away").then_some(())
    })
    .await;
    // Without Sentinels it is promoted by hand only, so topics can be changed.
    client.new_topic(&topic("alone"), json!({})).await;
}

/// How often the server was told this.
async fn calls(redis: &Redis, command: &str) -> u64 {
    let stats: String = redis.command(&["INFO", "commandstats"]).await;
    let calls =
        stats.split_once(&format!("cmdstat_{command}:calls=")).map_or("0", |(_, rest)| rest);
    calls.split(',').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_a_replicated_topic_wait_for_a_replica_that_is_gone() {
    let [primary, mut replica] = pair(Redis::options()).await;
    let dueq = Dueq::on(&primary).args(["--redis-timeout-ms", "1000"]).start().await;
    let client = dueq.client();
    let (name, split, memory) = (&topic("replicated"), &topic("split"), &topic("memory"));
    replicated(&client, name).await;
    client.new_topic(split, json!({"durability": "replicated", "partitions": 4})).await;
    client.new_topic(memory, json!({})).await;
    replica.kill9();
    eventually("the primary sees that it is gone", || async {
        let info: String = primary.command(&["INFO", "replication"]).await;
        info.contains("connected_slaves:0").then_some(())
    })
    .await;
    let patch = json!({"lease_ms": 5_000});
    client.update_topic(name, patch.clone()).await.problem(503, "outcome_unknown");
    let put = json!({"durability": "replicated", "partitions": 4, "lease_ms": 5_000});
    client
        .send_json("PUT", &format!("/topics/{split}"), &put)
        .await
        .problem(503, "outcome_unknown");
    client
        .post(&format!("/topics/{split}/pause"), &json!({}))
        .await
        .problem(503, "outcome_unknown");
    // Nobody promotes what is not there, and other topics promise nothing.
    client.update_topic(memory, patch).await.expect(200);
    client.update_topic(name, json!({"durability": "memory"})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipeline_asks_the_replica_itself_while_that_answers_at_once() {
    let [primary, mut replica] = pair(Redis::options()).await;
    let dueq = Dueq::on(&primary).args(["--redis-timeout-ms", "1000"]).start().await;
    let client = dueq.client();
    let name = &topic("replicated");
    replicated(&client, name).await;
    for away in [false, true] {
        if away {
            replica.pause();
            client.publish(name, json!({"payload": 0})).await.problem(503, "outcome_unknown");
            replica.resume();
        }
        // The fence answers for the first, and sends its script as text.
        client.published(name, json!({"payload": 1})).await;
        let before = (calls(&primary, "eval").await, calls(&primary, "wait").await);
        for number in 0..40 {
            client.published(name, json!({"payload": number})).await;
        }
        let after = (calls(&primary, "eval").await, calls(&primary, "wait").await);
        assert!(after.1 - before.1 >= 40, "{before:?} {after:?}");
        assert!(after.0 - before.0 < 20, "each goes through the fence: {before:?} {after:?}");
    }
}

#[tokio::test]
async fn without_a_replica_nothing_can_be_replicated() {
    let client = client().await;
    let name = &topic("alone");
    let path = format!("/topics/{name}");
    let want = json!({"durability": "replicated"});
    let refused = client.send_json("PUT", &path, &want).await;
    assert_eq!(refused.json()["errors"][0]["field"], "durability");
    refused.problem(422, "durability_unavailable");
    client.topic(name).await.problem(404, "topic_not_found");
    let config = client.new_topic(name, json!({"durability": "memory"})).await.json();
    assert_eq!(config["config"]["durability"], "memory");
    client.send_json("PATCH", &path, &want).await.problem(422, "durability_unavailable");
    for wrong in [json!("disk"), json!(1), json!(["memory"]), json!("")] {
        let refused = client.send_json("PATCH", &path, &json!({"durability": wrong})).await;
        assert_eq!(refused.json()["errors"][0]["field"], "durability");
        refused.problem(422, "invalid_input");
    }
    client.reconfigure(name, json!({"durability": null})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_killed_loses_nothing_that_was_answered() {
    let mut servers = pair(Redis::options()).await;
    let group = Group {
        replicas: vec![servers[1].port()],
        down_after: 1_000,
        ..Group::of(NAME, &servers[0])
    };
    let sentinels = Sentinels::start(1, &[group], "").await;
    let dueq = Dueq::at(&sentinels.urls()).start().await;
    let (client, name) = (dueq.client(), &topic("killed"));
    replicated(&client, name).await;
    let publishers: Vec<_> = (0..8).map(|_| Publisher::start(client.clone(), name)).collect();
    let [primary, replica] = &mut servers;
    eventually("the load is on", || async { (stored(replica, name).await > 200).then_some(()) })
        .await;
    // An isolated primary: it takes what it is told, and has nobody to confirm it.
    let before = client.published(name, json!({"payload": "before"})).await;
    let _: () = primary.command(&["ACL", "SETUSER", "default", "-psync", "-sync"]).await;
    let _: i64 = primary.command(&["CLIENT", "KILL", "TYPE", "replica"]).await;
    client.lease(name, json!({})).await.problem(503, "outcome_unknown");
    primary.kill9();
    sentinels.names(0, NAME, replica.port()).await;
    // A busy machine must not look like a second failure: the first primary has nothing yet.
    let patient = ["SET", NAME, "down-after-milliseconds", "60000"];
    sentinels.ask::<()>(0, &patient).await.unwrap();
    primary.restart().await;
    follow(primary, replica).await;
    eventually("it works again", || async {
        (client.publish(name, json!({"payload": "after"})).await.status == 201).then_some(())
    })
    .await;
    let mut all = vec![before];
    for publisher in publishers {
        let done = publisher.finish().await;
        assert!(!done.refused.is_empty() && done.again.is_some(), "{:?}", done.refused);
        all.extend(done.taken.into_iter().map(|(_, id)| id));
    }
    for id in &all {
        client.get(id).await.expect(200);
    }
    println!("{} answered, none lost", all.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_primary_of_a_cluster_waits_for_its_own_replica() {
    let mut cluster = Cluster::options(3, 1).partial().start().await;
    let dueq = cluster.launch().start().await;
    let (client, name) = (dueq.client(), &topic("cluster"));
    let config = json!({"durability": "replicated", "partitions": 4});
    client.new_topic(name, config).await;
    let old = cluster.primary_of_topic(name).await;
    let publishers: Vec<_> = (0..8).map(|_| Publisher::start(client.clone(), name)).collect();
    eventually("the load is on", || async {
        (client.count(name, "ready").await > 400).then_some(())
    })
    .await;
    cluster.kill9(old);
    cluster.taken_over(slot_of(name), old).await;
    cluster.restart(old).await;
    cluster.is_whole().await;
    let mut all = Vec::new();
    for publisher in publishers {
        let done = publisher.finish().await;
        all.extend(done.taken.into_iter().map(|(_, id)| id));
    }
    eventually("it works again", || async {
        (client.lease(name, json!({})).await.status == 200).then_some(())
    })
    .await;
    for id in &all {
        client.get(id).await.expect(200);
    }
    println!("{} answered, none lost", all.len());
}
