//! A Redis Cluster under dueq: primaries that die, slots that move, scripts and connections that are gone on one node. The
//! topics of the others are served throughout.

mod elsewhere;
mod moves;
mod partitions;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::*;
use crate::publisher::{Published, Publisher};

/// Where the list of all topics lies.
const REGISTRY: &str = "dueq:{topics}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_harness_starts_a_cluster_fails_it_over_and_moves_its_slots() {
    let begin = Instant::now();
    let mut cluster = Cluster::start(3, 1).await;
    println!("started within {:?}", begin.elapsed());
    let [here, there] = [cluster.topic_on(0, "here").await, cluster.topic_on(1, "there").await];
    assert_eq!(cluster.primary_of_topic(&here).await, 0);
    assert_eq!(cluster.primary_of_topic(&there).await, 1);
    let key = format!("{{{here}:0}}:k");
    let _: () = cluster.node(0).command(&["SET", &key, "1"]).await;
    let moving = cluster.begin_move(slot(&key), 1).await;
    let missing = format!("{{{here}:0}}:missing");
    let refused = ask::<()>(cluster.node(0), &["GET", &missing]).await.unwrap_err();
    assert_eq!(refused.code(), Some("ASK"), "{refused}");
    cluster.end_move(moving).await;
    let refused = ask::<()>(cluster.node(0), &["GET", &key]).await.unwrap_err();
    assert_eq!(refused.code(), Some("MOVED"), "{refused}");
    if moves_atomically() {
        cluster.move_slot_atomically(slot(&key), 2).await;
        let there: String = cluster.node(2).command(&["GET", &key]).await;
        assert_eq!(there, "1");
    }
    cluster.kill9(1);
    let begin = Instant::now();
    assert_eq!(cluster.taken_over(slot_of(&there), 1).await, 4);
    println!("a replica has taken over within {:?}", begin.elapsed());
    cluster.restart(1).await;
    cluster.is_whole().await;
    cluster.freeze(2);
    cluster.thaw(2);
    cluster.is_whole().await;
}

/// A topic on each of three primaries, which both instances know.
async fn three_topics(cluster: &Cluster, clients: &[Client], name: &str) -> Vec<String> {
    let mut topics = Vec::new();
    for index in 0..3 {
        let topic = cluster.topic_on(index, name).await;
        for client in clients {
            client.published(&topic, json!({"payload": "first"})).await;
        }
        topics.push(topic);
    }
    topics
}

/// Waits until a publish to this topic is answered 201; meanwhile nothing but 503 comes.
async fn works_here(client: &Client, topic: &str) {
    eventually("the topic works", || async {
        let answer = client.publish(topic, json!({"payload": "again"})).await;
        assert!(answer.status == 201 || answer.status == 503, "{answer}");
        (answer.status == 201).then_some(())
    })
    .await;
}

/// What `/readyz` warns of, while it says 200.
async fn warnings(client: &Client) -> String {
    let ready: Value = client.get_path("/readyz").await.expect(200).json();
    ready["warnings"].to_string()
}

/// Nobody was refused anything.
#[track_caller]
fn undisturbed(done: &Published, topic: &str) {
    assert!(done.refused.is_empty(), "{topic}: {:?}", done.refused);
    assert!(done.taken.len() > 10, "{topic}: only {} publishes", done.taken.len());
}

/// Kills the primary at `victim` under load, and has a replica take over.
async fn fail_over(victim_has_the_registry: bool) {
    let mut cluster = Cluster::options(3, 1).partial().start().await;
    let (busy, idle) = (cluster.launch().start().await, cluster.launch().start().await);
    let clients = [busy.client(), idle.client()];
    let topics = three_topics(&cluster, &clients, "failed-over").await;
    let registry = cluster.primary_of(slot(REGISTRY)).await;
    let victim = if victim_has_the_registry { registry } else { (registry + 1) % 3 };
    let waiting = cluster.topic_on(victim, "failed-over-waiting").await;
    clients[0].new_topic(&waiting, json!({})).await;
    let mut poll = Wire::long_poll(idle.addr(), &waiting).await;
    waiters(&clients[1], 1).await;
    let publishers: Vec<Publisher> =
        topics.iter().map(|topic| Publisher::start(busy.client(), topic)).collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    cluster.kill9(victim);
    let new = cluster.taken_over(slot_of(&waiting), victim).await;
    let writable = Instant::now();
    works_here(&clients[0], &topics[victim]).await;
    println!("the topic works {:?} after a replica has taken over", writable.elapsed());
    // Nobody waits for the new primary by a timer: it is a matter of a moment.
    assert!(writable.elapsed() < Duration::from_secs(5), "{:?}", writable.elapsed());
    works_here(&clients[1], &topics[victim]).await;
    works_here(&clients[1], &waiting).await;
    let woken = poll.answer("the poll", Duration::from_secs(25)).await.unwrap().expect(200);
    assert_eq!(woken.json()["messages"][0]["payload"], "again");
    for (index, (publisher, topic)) in publishers.into_iter().zip(&topics).enumerate() {
        let done = publisher.finish().await;
        if index == victim {
            println!("{} publishes; other answers: {:?}", done.taken.len(), done.refused);
            assert!(!done.refused.is_empty(), "nobody met the failover");
        } else {
            undisturbed(&done, topic);
            for (_, id) in &done.taken {
                clients[1].get(id).await.expect(200);
            }
        }
    }
    // What was the primary is a replica now, and nobody takes it for one that is away.
    cluster.restart(victim).await;
    cluster.is_whole().await;
    assert_eq!(cluster.primary_of_topic(&waiting).await, new);
    let address = format!("127.0.0.1:{}", cluster.node(victim).port());
    eventually("no warning of it is left", || async {
        (!warnings(&clients[0]).await.contains(&address)).then_some(())
    })
    .await;
    // New topics everywhere.
    for index in (0..3).filter(|index| *index != victim) {
        let name = cluster.topic_on(index, "failed-over-new").await;
        clients[1].published(&name, json!({"payload": 1})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_primary_stops_its_own_topics_until_a_replica_takes_over() {
    fail_over(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_primary_that_has_the_registry_stops_no_other_topic_either() {
    fail_over(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_replica_the_others_topics_are_served_and_readyz_names_the_dead() {
    let mut cluster = Cluster::options(3, 0).partial().redis(Redis::options().appendonly());
    cluster = cluster.node_timeout(500);
    let mut cluster = cluster.start().await;
    let dueq = cluster.launch().start().await;
    let client = dueq.client();
    let topics = three_topics(&cluster, std::slice::from_ref(&client), "alone").await;
    let held = client.lease_one(&topics[0]).await;
    let registry = cluster.primary_of(slot(REGISTRY)).await;
    let victim = (registry + 1) % 3;
    // With everysec, what is written while the disk is busy may stay in the process for a moment.
    let _: () = cluster.node(victim).command(&["CONFIG", "SET", "appendfsync", "always"]).await;
    let kept = client.published(&topics[victim], json!({"payload": "kept"})).await;
    cluster.kill9(victim);
    let begin = Instant::now();
    let refused = client.publish(&topics[victim], json!({"payload": 1})).await;
    let code = refused.text("code");
    assert!(["redis_unavailable", "outcome_unknown"].contains(&code.as_str()), "{refused}");
    for topic in topics.iter().filter(|topic| **topic != topics[victim]) {
        client.published(topic, json!({"payload": 2})).await;
        let id = client.publish_batch(topic, &[json!({"payload": 3})]).await.expect(200);
        assert_eq!(id.json()["results"][0]["status"], "ok", "{id}");
    }
    println!("refused and served within {:?}", begin.elapsed());
    // A consumer of both gets what there is.
    let other = &topics[registry];
    let both = json!({"topics": [topics[victim], other]});
    let leased = client.post("/lease", &both).await.expect(200).json();
    assert_eq!(leased["messages"][0]["topic"], **other, "{leased}");
    if victim != 0 {
        client.ack_leased(&held).await.expect(204);
    }
    client.publish(&topics[victim], json!({"payload": 1})).await.problem(503, "redis_unavailable");
    client.lease(&topics[victim], json!({})).await.problem(503, "redis_unavailable");
    client.get(&kept).await.problem(503, "redis_unavailable");
    let address = format!("127.0.0.1:{}", cluster.node(victim).port());
    eventually("readyz names it", || async {
        warnings(&client).await.contains(&address).then_some(())
    })
    .await;
    // Another instance starts without it.
    let other = cluster.launch().start().await;
    other.client().published(&topics[registry], json!({"payload": 4})).await;
    cluster.restart(victim).await;
    cluster.is_whole().await;
    for client in [&client, &other.client()] {
        works_here(client, &topics[victim]).await;
        eventually("no warning is left", || async {
            (!warnings(client).await.contains(&address)).then_some(())
        })
        .await;
    }
    client.get(&kept).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_list_of_topics_a_failover_elsewhere_stops_no_topic() {
    let mut cluster = Cluster::options(3, 1).partial().start().await;
    let dueq = cluster.launch().start().await;
    let client = dueq.client();
    let topics = three_topics(&cluster, std::slice::from_ref(&client), "listless").await;
    let registry = cluster.primary_of(slot(REGISTRY)).await;
    let (one, other) = ((registry + 1) % 3, (registry + 2) % 3);
    cluster.kill9(registry + 3);
    cluster.kill9(registry);
    for at in [one, other] {
        client.published(&topics[at], json!({"payload": 1})).await;
    }
    let _: () = cluster.node(one + 3).command(&["CLUSTER", "FAILOVER"]).await;
    assert_eq!(cluster.taken_over(slot_of(&topics[one]), one).await, one + 3);
    eventually("the topic is served by the new primary", || async {
        let answer = client.publish(&topics[one], json!({"payload": 2})).await;
        (answer.status == 201).then_some(())
    })
    .await;
    for at in [one, other] {
        client.published(&topics[at], json!({"payload": 3})).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_and_connections_gone_on_one_node_concern_no_other() {
    let cluster = Cluster::start(3, 0).await;
    let dueq = cluster.launch().start().await;
    let topics = three_topics(&cluster, &[dueq.client()], "flushed").await;
    let publishers: Vec<Publisher> =
        topics.iter().map(|topic| Publisher::start(dueq.client(), topic)).collect();
    let node = cluster.node(1);
    for _ in 0..20 {
        let _: () = node.command(&["SCRIPT", "FLUSH"]).await;
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    for _ in 0..5 {
        for kind in ["normal", "pubsub"] {
            let _ = ask::<i64>(node, &["CLIENT", "KILL", "TYPE", kind]).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    works_here(&dueq.client(), &topics[1]).await;
    for (index, (publisher, topic)) in publishers.into_iter().zip(&topics).enumerate() {
        let done = publisher.finish().await;
        if index == 1 {
            println!("other answers: {:?}", done.refused);
            // A link that dies takes with it what was under way on it.
            assert!(done.taken.len() > 10, "{:?}", done.refused);
        } else {
            undisturbed(&done, topic);
        }
    }
}
