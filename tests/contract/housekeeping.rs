//! Housekeeping, seen from outside: on a topic that nobody consumes, what is over goes within a
//! second or two, and every look at the counters finds them conserved.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::*;
use crate::topic_facts::{topic_becomes, topic_has};

/// A second or two, on a machine that runs other tests as well.
const SOON: Duration = Duration::from_secs(5);

/// Waits for these numbers, which have to come between so many ms and [`SOON`] after that.
async fn becomes_after(client: &Client, topic: &str, least_ms: u64, want: Value) {
    let start = Instant::now();
    topic_becomes(client, topic, want.clone()).await;
    let (took, least) = (start.elapsed(), Duration::from_millis(least_ms));
    assert!(took + Duration::from_millis(500) >= least, "{want} after {took:?}");
    assert!(took <= least + SOON, "{want} after {took:?}");
}

#[tokio::test]
async fn a_message_whose_time_to_live_is_over_expires() {
    let (client, topic) = (client().await, topic("keep"));
    let mut ids = Vec::new();
    for priority in [0, 7] {
        let message = json!({"payload": 1, "ttl_ms": 1000, "priority": priority, "key": priority.to_string()});
        ids.push(client.published(&topic, message).await);
    }
    client.published(&topic, json!({"payload": 1})).await;
    let want = json!({"counts": {"ready": 1}, "totals": {"expired": 2, "dead": 0}});
    becomes_after(&client, &topic, 1000, want).await;
    for (id, key) in ids.iter().zip(["0", "7"]) {
        client.get(id).await.problem(404, "message_not_found");
        client.published(&topic, json!({"payload": 2, "key": key})).await;
    }
}

#[tokio::test]
async fn a_time_to_live_begins_when_the_message_falls_due() {
    let (client, topic) = (client().await, topic("keep"));
    let message = json!({"payload": 1, "ttl_ms": 500, "delay_ms": 1500});
    client.published(&topic, message).await;
    becomes_after(&client, &topic, 2000, json!({"totals": {"expired": 1}})).await;
}

#[tokio::test]
async fn the_topics_time_to_live_is_that_of_messages_that_name_none() {
    let (client, topic) = (client().await, topic("keep"));
    client.new_topic(&topic, json!({"ttl_ms": 800})).await;
    client.published(&topic, json!({"payload": 1})).await;
    let id = client.published(&topic, json!({"payload": 1, "ttl_ms": 600_000})).await;
    let want = json!({"counts": {"ready": 1}, "totals": {"expired": 1}});
    becomes_after(&client, &topic, 800, want).await;
    assert_eq!(client.state(&id).await, "ready");
}

#[tokio::test]
async fn a_leased_message_outlives_its_time_to_live_until_its_lease_ends() {
    let (client, topic) = (client().await, topic("keep"));
    for n in 0..2 {
        client.published(&topic, json!({"payload": n, "ttl_ms": 500})).await;
    }
    let held = client.leased(&topic, json!({"max_messages": 2, "lease_ms": 1500})).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    topic_has(&client, &topic, json!({"counts": {"leased": 2}, "totals": {"expired": 0}})).await;
    client.ack_leased(&held[0]).await.expect(204);
    let want = json!({
        "counts": {"leased": 0, "ready": 0}, "totals": {"expired": 1, "lease_expired": 1, "acked": 1},
    });
    becomes_after(&client, &topic, 700, want).await;
    client.get(text(&held[1], "id")).await.problem(404, "message_not_found");
    client.ack_leased(&held[1]).await.problem(404, "message_not_found");
}

#[tokio::test]
async fn leases_that_end_show_as_ready_and_the_last_ones_as_dead() {
    let (client, topic) = (client().await, topic("keep"));
    client.fill(&topic, &vec![json!({"payload": 1}); 3]).await;
    client.fill(&topic, &vec![json!({"payload": 1, "max_attempts": 1}); 2]).await;
    client.leased(&topic, json!({"max_messages": 5, "lease_ms": 1000})).await;
    let want = json!({
        "counts": {"leased": 0, "ready": 3, "dead": 2}, "totals": {"lease_expired": 5, "dead": 2},
    });
    becomes_after(&client, &topic, 1000, want).await;
    for item in client.listed(&topic, "state=dead").await {
        let seen = client.get(text(&item, "id")).await.expect(200).json();
        assert_eq!((&seen["state"], &seen["attempts"]), (&json!("dead"), &json!(1)));
    }
}

#[tokio::test]
async fn a_lease_that_ends_leads_through_death_to_oblivion() {
    let (client, topic) = (client().await, topic("keep"));
    client.new_topic(&topic, json!({"max_attempts": 1, "retention": {"dead_ms": 1000}})).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    let want = json!({
        "counts": {"leased": 0, "ready": 0, "dead": 0},
        "totals": {"lease_expired": 1, "dead": 1, "expired": 1},
    });
    becomes_after(&client, &topic, 2000, want).await;
    client.get(&id).await.problem(404, "message_not_found");
}

#[tokio::test]
async fn a_paused_topic_is_kept_as_well() {
    let (client, topic) = (client().await, topic("keep"));
    client.published(&topic, json!({"payload": 1, "max_attempts": 1})).await;
    client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    client.pause_topic(&topic).await.expect(200);
    client.published(&topic, json!({"payload": 1, "ttl_ms": 300})).await;
    let want = json!({"counts": {"leased": 0, "ready": 0, "dead": 1}, "totals": {"expired": 1}});
    becomes_after(&client, &topic, 1000, want).await;
}

#[tokio::test]
async fn thousands_expire_in_a_few_seconds() {
    let (client, topic) = (client().await, topic("keep"));
    let message = |n: i64| json!({"payload": n, "ttl_ms": 1000, "priority": n % 2});
    let messages: Vec<Value> = (0..3000).map(message).collect();
    client.fill(&topic, &messages).await;
    let want = json!({"counts": {"ready": 0}, "totals": {"expired": 3000}});
    let start = Instant::now();
    topic_becomes(&client, &topic, want).await;
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    client.delete_topic(&topic, "").await.expect(204);
}

#[tokio::test]
async fn many_topics_are_kept_side_by_side() {
    let (client, prefix) = (client().await, topic("keep"));
    let names: Vec<String> = (0..50).map(|n| format!("{prefix}-{n}")).collect();
    for name in &names {
        client.published(name, json!({"payload": 1, "ttl_ms": 500})).await;
    }
    for name in &names {
        topic_becomes(&client, name, json!({"totals": {"expired": 1}})).await;
    }
}

#[tokio::test]
async fn another_instance_keeps_what_a_killed_one_took() {
    let redis = Redis::start().await;
    let mut first = Dueq::on(&redis).start().await;
    let (second, topic) = (Dueq::on(&redis).start().await, topic("keep"));
    let client = first.client();
    client.new_topic(&topic, json!({"retention": {"dead_ms": 1000}})).await;
    client.published(&topic, json!({"payload": 1, "max_attempts": 1})).await;
    client.lease_one_with(&topic, json!({"lease_ms": 1000})).await;
    client.published(&topic, json!({"payload": 1, "ttl_ms": 1500})).await;
    first.kill9();
    let want = json!({
        "counts": {"leased": 0, "ready": 0, "dead": 0}, "totals": {"dead": 1, "expired": 2},
    });
    topic_becomes(&second.client(), &topic, want).await;
}

#[tokio::test]
async fn an_instance_that_stops_gives_back_what_it_has_claimed() {
    let redis = Redis::start().await;
    let mut first = Dueq::on(&redis).start().await;
    let (client, topics) = (first.client(), (0..100).map(|_| topic("keep")));
    let topics: Vec<String> = topics.collect();
    let message = json!({"payload": 1, "ttl_ms": 1500});
    let publishes = topics.iter().map(|topic| client.published(topic, message.clone()));
    futures_util::future::join_all(publishes).await;
    // A claim lasts half a minute; nothing else is due so late.
    let claimed = async || -> i64 {
        let late = (redis.time_ms().await + 10_000).to_string();
        redis.command(&["ZCOUNT", "dueq:{sweeps}:index", &late, "+inf"]).await
    };
    eventually("a claim", || async { (claimed().await > 0).then_some(()) }).await;
    assert_eq!(first.term().await, 0);
    assert_eq!(claimed().await, 0);
    let second = Dueq::on(&redis).start().await;
    for topic in &topics {
        topic_becomes(&second.client(), topic, json!({"totals": {"expired": 1}})).await;
    }
}

#[tokio::test]
async fn what_was_over_while_no_instance_ran_goes_once_one_runs() {
    let redis = Redis::start().await;
    let (mut first, topic) = (Dueq::on(&redis).start().await, topic("keep"));
    let client = first.client();
    client.published(&topic, json!({"payload": 1, "ttl_ms": 300})).await;
    client.published(&topic, json!({"payload": 1, "delay_ms": 600_000})).await;
    first.kill9();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let second = Dueq::on(&redis).start().await;
    let want = json!({"counts": {"ready": 0, "delayed": 1}, "totals": {"expired": 1}});
    becomes_after(&second.client(), &topic, 0, want).await;
}

#[tokio::test]
async fn a_thousand_idle_topics_cost_redis_next_to_nothing() {
    let redis = Redis::start().await;
    let (first, second) = (Dueq::on(&redis).start().await, Dueq::on(&redis).start().await);
    let (clients, prefix) = ([first.client(), second.client()], topic("idle"));
    let names: Vec<String> = (0..1000).map(|n| format!("{prefix}-{n}")).collect();
    for part in names.chunks(50) {
        let message = json!({"payload": 1, "ttl_ms": 600_000, "delay_ms": 600_000});
        let sends = part
            .iter()
            .enumerate()
            .map(|(n, name)| clients[n % 2].published(name, message.clone()));
        futures_util::future::join_all(sends).await;
    }
    let commands = || async { redis.info("total_commands_processed").await };
    eventually("at most 50 commands a second", || async {
        let before = commands().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        (commands().await - before <= 100).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_is_over_goes_whichever_instance_swept_before() {
    let redis = Redis::start().await;
    let (publisher, _other) = (Dueq::on(&redis).start().await, Dueq::on(&redis).start().await);
    let client = publisher.client();
    let topics: Vec<String> = (0..12).map(|_| topic("keep")).collect();
    for _ in 0..2 {
        for topic in &topics {
            client.published(topic, json!({"payload": 1, "ttl_ms": 200})).await;
            // Their moments lie apart, so that the instances share the sweeps.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let published = Instant::now();
        for topic in &topics {
            // Whoever asks dueq about a topic has it swept, so Redis is asked.
            let messages = format!("dueq:{{{topic}:0}}:messages");
            eventually("a topic without messages", || async {
                let left: i64 = redis.command(&["HLEN", &messages]).await;
                (left == 0).then_some(())
            })
            .await;
        }
        assert!(published.elapsed() <= SOON, "{:?}", published.elapsed());
    }
}

#[tokio::test]
async fn settings_of_a_large_group_are_soon_in_force_and_no_other_group_is_gone_through() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let (client, topic) = (dueq.client(), topic("large"));
    client.new_topic(&topic, json!({"group_concurrency": 600})).await;
    let messages: Vec<_> = (0..600).map(|n| json!({"payload": n, "group": "a"})).collect();
    client.fill(&topic, &messages).await;
    let meta = format!("dueq:{{{topic}:0}}:meta");
    let marked = async || redis.command::<Option<String>>(&["HGET", &meta, "raised"]).await;
    let counts = |ready: i64| json!({"counts": {"ready": ready, "blocked": 600 - ready}});
    for concurrency in [1, 500] {
        client.put_group(&topic, "a", json!({"concurrency": concurrency})).await.expect(200);
        assert_eq!(marked().await, None, "{concurrency}");
        topic_has(&client, &topic, counts(concurrency)).await;
    }
    // As if the instance had died that changed it.
    let fields: Vec<String> = redis.command(&["HKEYS", &meta]).await;
    let own = fields.iter().find(|field| field.starts_with("group:")).expect("its settings");
    let line: String = redis.command(&["HGET", &meta, own]).await;
    for concurrency in [2, 400] {
        let changed = line.replacen(",500,", &format!(",{concurrency},"), 1);
        let mark = own.replace("group:", "o1");
        let _: i64 = redis.command(&["HSET", &meta, own, &changed, "raised", &mark]).await;
        topic_becomes(&client, &topic, counts(concurrency)).await;
        assert_eq!(marked().await, None, "{concurrency}");
    }
}
