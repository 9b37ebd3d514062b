//! Publishers and consumers go round a primary that is away, and are woken wherever a partition has gone.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Ground, PARTITIONS, ack_all, ids, on_disk};
use crate::harness::*;
use crate::publisher::Publisher;

/// Batches of messages without a name, so many that some come into every partition: their ids. All are taken; only what was
/// on its way over a connection that ended meanwhile has no known outcome, each connection once.
async fn everywhere(ground: &Ground, client: &Client) -> BTreeSet<String> {
    let messages: Vec<Value> = (0..300).map(|n| json!({"payload": n})).collect();
    let (mut sent, mut whole) = (BTreeSet::new(), 0);
    while whole < 8 {
        let results = client.published_batch(&ground.topic, &messages).await;
        let (ok, other): (Vec<_>, Vec<_>) = results.iter().partition(|one| one["status"] == "ok");
        assert!(other.iter().all(|one| one["status"] == "outcome_unknown"), "{other:?}");
        whole = if other.is_empty() { whole + 1 } else { 0 };
        sent.extend(ok.iter().map(|ok| text(&ok["message"], "id").to_owned()));
    }
    sent
}

/// A primary dies that nobody takes the place of: messages without a name go elsewhere, consumers get what the others have,
/// names that are at home there are refused, and nothing is lost once it is back.
async fn go_round(victim_has_the_registry: bool) {
    let mut ground = Ground::start(on_disk()).await;
    let registry = ground.registry;
    let victim = if victim_has_the_registry { registry } else { (registry + 1) % 3 };
    let dead = ground.on(victim).await;
    assert_eq!(dead.contains(&0), !victim_has_the_registry);
    let (one, other) = (ground.one.client(), ground.other.client());
    let is_dead = |id: &String| dead.contains(&partition_of(id));
    let (kept, mut there): (BTreeSet<_>, BTreeSet<_>) =
        ground.fill().await.into_iter().partition(is_dead);
    let publishers = [&one, &other].map(|it| Publisher::start(it.clone(), &ground.topic));
    ground.lose(victim).await;

    there.extend(everywhere(&ground, &one).await);
    there.extend(everywhere(&ground, &other).await);
    for publisher in publishers {
        let done = publisher.finish().await;
        println!("{} publishes; other answers: {:?}", done.taken.len(), done.refused);
        assert!(!done.refused.contains_key("redis_unavailable"), "{:?}", done.refused);
        there.extend(done.taken.into_iter().map(|(_, id)| id).filter(|id| !is_dead(id)));
    }
    // A batch has an answer for each.
    for client in [&one, &other] {
        let message = |p| json!({"payload": p, "key": format!("mixed-{p}-{}", client.addr())});
        let mixed: Vec<Value> = (0..64).map(message).collect();
        let results = client.published_batch(&ground.topic, &mixed).await;
        let (ok, refused): (Vec<_>, Vec<_>) =
            results.iter().partition(|result| result["status"] == "ok");
        assert!(!ok.is_empty() && !refused.is_empty(), "{results:?}");
        for refusal in refused {
            let status = text(refusal, "status");
            assert!(["redis_unavailable", "outcome_unknown"].contains(&status), "{refusal}");
        }
        let new: Vec<_> = ok.iter().map(|ok| text(&ok["message"], "id").to_owned()).collect();
        assert!(!new.iter().any(is_dead), "{new:?}");
        there.extend(new);
    }

    let held = ground.lease_all(&other).await;
    let got = ids(&held);
    let missing: Vec<_> = there.difference(&got).collect();
    assert!(missing.is_empty(), "{} are missing: {missing:?}", missing.len());
    assert!(!got.iter().any(is_dead));
    ack_all(&other, &held).await;
    // Nobody can know that there is nothing.
    other.lease(&ground.topic, json!({})).await.problem(503, "redis_unavailable");
    let mut poll = Wire::long_poll(other.addr().as_str(), &ground.topic).await;
    waiters(&other, 1).await;
    let sent = one.published(&ground.topic, json!({"payload": "woken"})).await;
    let woken = poll.answer("the poll", WOKEN).await.unwrap().expect(200).json();
    assert_eq!(woken["messages"][0]["id"], sent, "{woken}");
    other.ack_leased(&woken["messages"][0]).await.expect(204);

    ground.find_again(victim).await;
    let held = ids(&ground.lease_all(&one).await);
    let missing: Vec<_> = kept.difference(&held).collect();
    assert!(missing.is_empty(), "{} are lost: {missing:?}", missing.len());
    for partition in dead {
        ground.published(&other, partition, json!("again")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_primary_is_gone_round_and_loses_nothing() {
    go_round(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_primary_that_has_the_registry_is_gone_round_too() {
    go_round(true).await;
}

/// Who waits at one instance is woken by what comes through the other into this partition.
async fn wakes(ground: &Ground, partition: u8) {
    let (one, other) = (ground.one.client(), ground.other.client());
    let mut poll = Wire::long_poll(other.addr().as_str(), &ground.topic).await;
    waiters(&other, 1).await;
    ground.published(&one, partition, json!(partition)).await;
    let woken = poll
        .answer("the poll", WOKEN)
        .await
        .unwrap_or_else(|| panic!("{partition} is not heard of"));
    let woken = woken.expect(200).json();
    assert_eq!(woken["messages"][0]["payload"], partition, "{woken}");
    other.ack_leased(&woken["messages"][0]).await.expect(204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_hears_of_every_partition_after_a_failover_and_after_slots_have_moved() {
    let mut ground = Ground::start(Redis::options()).await;
    let victim = (ground.registry + 1) % 3;
    let failed = ground.on(victim).await;
    let other = ground.other.client();
    // One that waited before.
    let mut poll = Wire::long_poll(other.addr().as_str(), &ground.topic).await;
    waiters(&other, 1).await;
    ground.cluster.kill9(victim);
    let at = *failed.last().unwrap();
    ground.cluster.taken_over(slot_of_partition(&ground.topic, at), victim).await;
    ground.published(&ground.one.client(), at, json!("first")).await;
    let woken = poll.answer("the poll", WOKEN).await.expect("woken").expect(200).json();
    assert_eq!(woken["messages"][0]["payload"], "first", "{woken}");
    other.ack_leased(&woken["messages"][0]).await.expect(204);
    for partition in 0..PARTITIONS as u8 {
        wakes(&ground, partition).await;
    }
    ground.cluster.restart(victim).await;
    ground.cluster.is_whole().await;

    for partition in 0..PARTITIONS as u8 {
        let mut poll = Wire::long_poll(other.addr().as_str(), &ground.topic).await;
        waiters(&other, 1).await;
        let slot = slot_of_partition(&ground.topic, partition);
        let from = ground.cluster.primary_of(slot).await;
        let to = ground.primaries().await.into_iter().find(|to| *to != from).unwrap();
        if partition % 2 == 1 && moves_atomically() {
            ground.cluster.move_slot_atomically(slot, to).await;
        } else {
            ground.cluster.move_slot(slot, to).await;
        }
        ground.published(&ground.one.client(), partition, json!(partition)).await;
        let woken = poll.answer("the poll", WOKEN).await.expect("woken").expect(200).json();
        assert_eq!(woken["messages"][0]["payload"], partition, "{woken}");
        other.ack_leased(&woken["messages"][0]).await.expect(204);
        wakes(&ground, (partition + 5) % PARTITIONS as u8).await;
    }
}

/// Leases one message at a time for some seconds, through both instances: how many were granted.
async fn lease_on(ground: &Ground, topic: &str) -> usize {
    let (begin, mut granted) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_secs(4) {
        for client in [&ground.one.client(), &ground.other.client()] {
            let want = json!({"lease_ms": 600_000, "wait_ms": 100});
            let answer = client.lease(topic, want).await;
            assert!([200, 503].contains(&answer.status), "{answer}");
            if answer.status == 200 {
                granted += answer.json()["messages"].as_array().unwrap().len();
            }
        }
    }
    granted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_cannot_be_counted_stops_no_leases_and_no_more_are_leased_than_may_be() {
    const MOST: usize = 40;
    let mut ground = Ground::start(on_disk()).await;
    let victims = [(ground.registry + 1) % 3, (ground.registry + 2) % 3];
    // Of one server the first partition, of the other one that is not.
    let victim = victims[usize::from(rand::random::<bool>())];
    let client = ground.one.client();
    let limited = ground.cluster.topic_on((ground.registry + 1) % 3, "limited").await;
    let config = json!({"partitions": PARTITIONS, "max_leased": MOST});
    client.new_topic(&limited, config).await;
    let messages: Vec<_> =
        (0..400).map(|n| json!({"payload": n, "key": format!("k{n}")})).collect();
    client.fill(&limited, &messages).await;
    let want = json!({"max_messages": 10, "lease_ms": 600_000});
    let held = client.leased(&limited, want).await.len();
    ground.lose(victim).await;
    let granted = lease_on(&ground, &limited).await;
    assert!(granted >= 5, "{granted} are granted while a server is away");
    assert!(held + granted <= MOST, "{held} and {granted}");
    ground.find_again(victim).await;
    eventually("all that may be", || async {
        let more = client.lease(&limited, json!({"lease_ms": 600_000, "max_messages": 100})).await;
        let leased = client.topic(&limited).await;
        assert!([200, 503].contains(&more.status), "{more}");
        let leased = (leased.status == 200).then(|| number(&leased.json()["counts"], "leased"))?;
        assert!(leased <= MOST as i64, "{leased}");
        (leased == MOST as i64).then_some(())
    })
    .await;
}
