//! Replicas that are away, for a while or for good, and primaries that hang: what that stops of topics that wait for
//! replicas, and what it does not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::*;
use crate::publisher::Publisher;

const NAME: &str = "orders";
/// A second, on a machine that has time.
const PATIENT: Duration = Duration::from_secs(4);

/// Publishes without names from eight clients until `over`, and says when each 2xx came.
async fn publish_all(client: &Client, name: &str, over: &AtomicBool) -> Vec<Instant> {
    let one = || async {
        let mut taken = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let answer = client.publish(name, json!({"payload": 1})).await;
            assert!([201, 503].contains(&answer.status), "{answer}");
            if answer.status == 201 {
                taken.push(Instant::now());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        taken
    };
    let mut all = join_all((0..8).map(|_| one())).await.concat();
    all.sort_unstable();
    all
}

/// The longest time without a 2xx.
fn longest_gap(taken: &[Instant]) -> Duration {
    taken.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
}

/// A long poll that ends in time, whatever it finds.
async fn polls_in_time(client: &Client, name: &str) {
    for _ in 0..3 {
        let begin = Instant::now();
        let answer = client.lease(name, json!({"wait_ms": 1_000, "lease_ms": 1_000})).await;
        assert!([200, 503].contains(&answer.status), "{answer}");
        // Half a second, on a machine that has time.
        assert!(begin.elapsed() < Duration::from_millis(2_500), "{:?}", begin.elapsed());
    }
}

/// Publishes to a topic of 16 partitions while `fault` happens, and says how long no publish was answered 2xx.
async fn gap_while<F: AsyncFnOnce(&mut Cluster)>(durability: &str, fault: F) -> Duration {
    let mut cluster = Cluster::options(3, 1).partial().start().await;
    let dueq = cluster.launch().start().await;
    let (client, name) = (dueq.client(), topic("wide"));
    client.new_topic(&name, json!({"durability": durability, "partitions": 16})).await;
    let over = Arc::new(AtomicBool::new(false));
    let publishers = {
        let (client, name, over) = (client.clone(), name.clone(), over.clone());
        tokio::spawn(async move { publish_all(&client, &name, &over).await })
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    fault(&mut cluster).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    polls_in_time(&client, &name).await;
    over.store(true, Ordering::Relaxed);
    let taken = publishers.await.unwrap();
    assert!(taken.last().unwrap().elapsed() < Duration::from_secs(1));
    longest_gap(&taken)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_replica_of_one_shard_does_not_stop_a_topic_of_many_partitions() {
    let gap = gap_while("replicated", async |cluster| cluster.kill9(4)).await;
    println!("killed: {gap:?}");
    assert!(gap < Duration::from_secs(2), "{gap:?} without a 2xx");
    let gap = gap_while("replicated", async |cluster| cluster.freeze(4)).await;
    println!("frozen: {gap:?}");
    assert!(gap < Duration::from_secs(2), "{gap:?} without a 2xx");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_hangs_does_not_stop_a_topic_of_many_partitions() {
    for durability in ["memory", "replicated"] {
        let gap = gap_while(durability, async |cluster| cluster.freeze(1)).await;
        println!("{durability}: {gap:?}");
        assert!(gap < Duration::from_secs(2), "{gap:?} without a 2xx");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_hangs_is_left_as_soon_as_a_replica_has_taken_over() {
    let mut cluster = Cluster::options(3, 1).partial().start().await;
    let dueq = cluster.launch().start().await;
    let name = cluster.topic_on(1, "hung").await;
    dueq.client().published(&name, json!({"payload": 1})).await;
    let publisher = Publisher::start(dueq.client(), &name);
    cluster.freeze(1);
    cluster.taken_over(slot_of(&name), 1).await;
    let taken_over = Instant::now();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let done = publisher.finish().await;
    let again = done.again.expect("it hung").saturating_duration_since(taken_over);
    println!("first 2xx {again:?} after the take-over");
    assert!(again < Duration::from_millis(1_500), "{again:?}");
}

/// A primary, two replicas and three Sentinels.
struct Three {
    servers: Vec<Redis>,
    sentinels: Sentinels,
}

impl Three {
    async fn start() -> Three {
        let mut servers = Vec::from(pair(Redis::options()).await);
        let third = Redis::options().args(["--repl-diskless-sync-delay", "0"]).start().await;
        follow(&third, &servers[0]).await;
        servers.push(third);
        let replicas = vec![servers[1].port(), servers[2].port()];
        let group = Group { replicas, down_after: 1_000, ..Group::of(NAME, &servers[0]) };
        let sentinels = Sentinels::start(3, &[group], "").await;
        sentinels.know_well(NAME, 2).await;
        Three { servers, sentinels }
    }

    async fn dueq(&self, replicas: &str) -> Dueq {
        Dueq::at(&self.sentinels.urls()).args(["--replicas", replicas]).start().await
    }
}

async fn replicated(client: &Client, name: &str) {
    client.new_topic(name, json!({"durability": "replicated"})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_replicas_lost_for_good_stops_nothing_unless_all_are_asked_for() {
    let mut ground = Three::start().await;
    let (majority, all) = (ground.dueq("majority").await, ground.dueq("all").await);
    let two = ground.dueq("2").await;
    let (name, client, strict) = (&topic("kept"), majority.client(), all.client());
    replicated(&client, name).await;
    strict.published(name, json!({"payload": 1})).await;
    ground.servers[2].kill9();
    for number in 0..20 {
        client.published(name, json!({"payload": number})).await;
    }
    replicated(&client, &topic("kept-new")).await;
    let leased = client.lease_one(name).await;
    client.ack_leased(&leased).await.expect(204);
    for other in [&strict, &two.client()] {
        other.publish(name, json!({"payload": 2})).await.problem(503, "outcome_unknown");
        let warned = other.get_path("/readyz").await.expect(200).json()["warnings"].to_string();
        assert!(warned.contains("a replica of Redis is away"), "{warned}");
        // What promises nothing depends on no replica, changes included.
        let memory = &topic("memory");
        other.new_topic(memory, json!({})).await;
        other.published(memory, json!({"payload": 1})).await;
        other.update_topic(memory, json!({"lease_ms": 5_000})).await.expect(200);
        other.pause_topic(memory).await.expect(200);
        other.delete_topic(memory, "?force=true").await.expect(204);
    }
    let ready: Value = client.get_path("/readyz").await.expect(200).json();
    assert!(!ready.to_string().contains("a replica of Redis is away"), "{ready}");
    // Once the Sentinels do not list it any more, nobody waits for it.
    for member in 0..3 {
        let _: i64 = ground.sentinels.ask(member, &["RESET", NAME]).await.unwrap();
    }
    let begin = Instant::now();
    let mut answer = strict.publish(name, json!({"payload": 3})).await;
    while answer.status == 503 && begin.elapsed() < Duration::from_secs(60) {
        answer = strict.publish(name, json!({"payload": 3})).await;
    }
    answer.expect(201);
    println!("forgotten after {:?}", begin.elapsed());
    two.client().publish(name, json!({"payload": 2})).await.problem(503, "outcome_unknown");
    let fresh = topic("two");
    let refused = two.client().put_topic(&fresh, json!({"durability": "replicated"})).await;
    refused.problem(422, "durability_unavailable");
}

/// Which replica can be promoted, of one that has confirmed and one that lags behind.
#[derive(Clone, Copy, PartialEq)]
enum Promoted {
    /// That which has more.
    Either,
    /// The lagging one, which Sentinels prefer.
    Preferred,
    /// The lagging one, since the other is lost with the primary.
    Alone,
}

/// Kills the primary while one replica lags behind; how much was answered, and how much of that is gone.
async fn with_a_lagging_replica(replicas: &str, promoted: Promoted) -> (usize, usize) {
    let mut ground = Three::start().await;
    if promoted == Promoted::Preferred {
        let _: () = ground.servers[2].command(&["CONFIG", "SET", "replica-priority", "1"]).await;
        for member in 0..3 {
            eventually("the Sentinels know", || async {
                let known: Vec<BTreeMap<String, String>> =
                    ground.sentinels.ask(member, &["REPLICAS", NAME]).await.ok()?;
                known.iter().any(|one| one["slave-priority"] == "1").then_some(())
            })
            .await;
        }
    }
    let dueq = ground.dueq(replicas).await;
    let (client, name) = (dueq.client(), &topic("lagging"));
    replicated(&client, name).await;
    let mut all = Vec::new();
    for number in 0..20 {
        all.push(client.published(name, json!({"payload": number})).await);
    }
    // A majority may have confirmed without it, so it may not have even the topic yet.
    let lagging = format!("port={},state=online,offset=", ground.servers[2].port());
    eventually("all is in the replica that is to lag", || async {
        let info: String = ground.servers[0].command(&["INFO", "replication"]).await;
        let number = |before: &str| -> Option<u64> {
            let text = info.split_once(before)?.1;
            text[..text.find(|c: char| !c.is_ascii_digit())?].parse().ok()
        };
        (number(&lagging)? >= number("master_repl_offset:")?).then_some(())
    })
    .await;
    // What is sent to it while it is stopped would be there when it goes on.
    ground.servers[2].pause();
    let _: i64 = ground.servers[0].command(&["CLIENT", "KILL", "TYPE", "replica"]).await;
    eventually("the other one is back", || async {
        let info: String = ground.servers[0].command(&["INFO", "replication"]).await;
        info.contains("connected_slaves:1").then_some(())
    })
    .await;
    for number in 0..20 {
        let answer = client.publish(name, json!({"payload": number})).await;
        if answer.status != 201 {
            answer.problem(503, "outcome_unknown");
            break;
        }
        all.push(answer.text("id"));
    }
    let (old, lagging) = (ground.servers[0].port(), ground.servers[2].port());
    ground.servers[0].kill9();
    if promoted == Promoted::Alone {
        ground.servers[1].kill9();
    }
    ground.servers[2].resume();
    let new = eventually("another primary", || async {
        let words = ["GET-MASTER-ADDR-BY-NAME", NAME];
        let (_, now) = ground.sentinels.ask::<(String, u16)>(0, &words).await.ok()?;
        (now != old).then_some(now)
    })
    .await;
    assert_eq!(new == lagging, promoted != Promoted::Either, "another one was promoted");
    works_again(&client).await;
    // A list waits for no replica.
    let left = eventually("a list", || async {
        let listed = client.list(name, "state=ready&limit=100").await;
        (listed.status == 200).then(|| listed.json().to_string())
    })
    .await;
    let lost = all.iter().filter(|id| !left.contains(id.as_str())).count();
    println!("{replicas}: {} answered, {lost} lost", all.len());
    (all.len(), lost)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lagging_replica_is_not_promoted_before_one_that_has_confirmed() {
    assert_eq!(with_a_lagging_replica("majority", Promoted::Either).await, (40, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_all_confirm_nothing_is_lost_whoever_is_promoted() {
    assert_eq!(with_a_lagging_replica("all", Promoted::Preferred).await, (20, 0));
    assert_eq!(with_a_lagging_replica("all", Promoted::Alone).await, (20, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_majority_confirms_a_lagging_replica_that_is_promoted_loses_what_it_has_not() {
    // As the guide says.
    assert_eq!(with_a_lagging_replica("majority", Promoted::Preferred).await, (40, 20));
    assert_eq!(with_a_lagging_replica("majority", Promoted::Alone).await, (40, 20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_with_two_replicas_costs_a_replicated_topic_no_more_than_another() {
    let ground = Three::start().await;
    let dueq = ground.dueq("majority").await;
    let (client, name) = (dueq.client(), &topic("planned"));
    replicated(&client, name).await;
    let publisher = Publisher::start(client.clone(), name);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let begin = Instant::now();
    ground.sentinels.fail_over(0, NAME).await;
    eventually("it has moved", || async {
        dueq.log().contains("the primary has moved").then_some(())
    })
    .await;
    let moved = Instant::now();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let done = publisher.finish().await;
    // It may be that nobody met it.
    let again = done.again.unwrap_or(moved).saturating_duration_since(begin);
    println!("first 2xx {again:?} after the order; other answers: {:?}", done.refused);
    assert!(again < PATIENT, "{again:?}");
    assert!(done.taken.last().unwrap().0 > moved);
}

#[tokio::test]
async fn a_replica_is_refused_at_the_start_with_the_reason() {
    let redis = Redis::start().await;
    let _: () = redis.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let finished = Dueq::on(&redis).finish().await;
    assert_eq!(finished.code, 2, "{finished:?}");
    assert!(finished.stderr.contains("read-only replica"), "{finished:?}");
}
