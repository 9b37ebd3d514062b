//! What has nothing on a primary that is away goes on, whatever else is asked for meanwhile.

use serde_json::json;

use crate::harness::{Cluster, eventually, instant_ms, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_while_the_first_partition_is_away_stops_no_other() {
    let mut cluster = Cluster::options(3, 0).partial().start().await;
    let (one, other) = (cluster.launch().start().await, cluster.launch().start().await);
    // dueq's own data are on the other two.
    let topic = cluster.topic_on(2, "changed").await;
    one.client().new_topic(&topic, json!({"partitions": 16})).await;
    other.client().published(&topic, json!({"payload": 0})).await;
    cluster.kill9(2);
    let changed = one.client().update_topic(&topic, json!({"lease_ms": 31_000})).await;
    changed.problem(503, "outcome_unknown");
    let third = cluster.launch().start().await;
    for client in [one.client(), other.client(), third.client()] {
        for n in 0..20 {
            client.published(&topic, json!({"payload": n})).await;
        }
        let held = client.leased(&topic, json!({"max_messages": 20, "wait_ms": 5000})).await;
        assert!(!held.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_of_a_topic_on_a_frozen_primary_cost_no_other_schedule_a_tick() {
    const PERIOD: i64 = 2_000;
    let mut cluster = Cluster::options(3, 0).partial().start().await;
    let dueq = cluster.launch().start().await;
    let client = dueq.client();
    let (frozen, live) = (cluster.topic_on(2, "frozen").await, cluster.topic_on(0, "live").await);
    for topic in [&frozen, &live] {
        client.published(topic, json!({"payload": "first", "delay_ms": 600_000})).await;
    }
    cluster.freeze(2);
    for (name, topic) in (0..40).map(|n| (format!("f{n}"), &frozen)).chain([("live".into(), &live)])
    {
        let schedule = json!({"topic": topic, "every_ms": PERIOD, "message": {"payload": 1}});
        client.send_json("PUT", &format!("/schedules/{name}"), &schedule).await.expect(201);
    }
    let ticks = eventually("some ticks", || async {
        let held = client.listed(&live, "state=ready").await;
        (held.len() >= 5).then_some(held)
    })
    .await;
    let mut ticks: Vec<i64> = ticks.iter().map(|it| instant_ms(text(it, "due_at"))).collect();
    ticks.sort_unstable();
    let gaps: Vec<i64> = ticks.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.iter().all(|gap| *gap < 2 * PERIOD), "{gaps:?}");
    cluster.thaw(2);
}
