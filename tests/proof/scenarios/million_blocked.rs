//! Many messages that wait for others of their group.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::crew::Crew;
use super::findings::{BITE, Findings};
use crate::harness::{Client, text, topic};
use crate::proof::stage::{Report, Setting};

/// Of each of the other groups so many messages.
const DEEP: usize = 17;
/// How long all of the other groups may take to let more go, in the long form, on a busy machine.
const RAISED_WITHIN: Duration = Duration::from_secs(10);

/// Alongside `setting.messages` messages of one group (1,000,000 are meant), and 1,200 other groups, everything that clients can
/// do is done: no script takes long, which the watch over all scenarios sees. The short form puts 3,000 there, and 40 groups.
pub async fn million_blocked(setting: Setting) -> Report {
    let mut findings = Findings::new("million_blocked", &setting);
    let long = setting.messages > 0;
    let (messages, groups) = if long { (setting.messages, 1_200) } else { (3_000, 40) };
    let crew = Crew::start(&setting, 1).await;
    let (client, topic) = (crew.client(0), topic("blocked"));
    let of = |group: &str| json!({"payload": "x".repeat(100), "group": group});
    client.new_topic(&topic, json!({"group_concurrency": 1})).await;
    let batch = vec![of("all"); 1_000];
    stream::iter(0..messages.div_ceil(1_000))
        .for_each_concurrent(8, |_| async { drop(client.published_batch(&topic, &batch).await) })
        .await;
    let others: Vec<Value> = (0..groups * DEEP).map(|n| of(&format!("g{}", n % groups))).collect();
    for batch in others.chunks(1_000) {
        client.published_batch(&topic, batch).await;
    }
    let blocked = client.count(&topic, "blocked").await as usize;
    findings.demand(blocked >= messages, BITE, || format!("only {blocked} are blocked"));
    findings.tally().published += blocked as u64;

    look(&client, &topic).await;
    work(&client, &topic, &of).await;
    let begin = Instant::now();
    client.update_topic(&topic, json!({"group_concurrency": 2 * DEEP})).await.expect(200);
    let all = async {
        // What is left to wait is of the one group.
        while client.get_path(&format!("/topics/{topic}/groups/g0")).await.json()["blocked"] != 0
            || client.count(&topic, "ready").await < (groups * (DEEP - 8)) as i64
        {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let raised = timeout(RAISED_WITHIN * 3, all).await.is_ok();
    let took = begin.elapsed();
    findings.tell(format!("{groups} groups of {DEEP} let go within {took:?}"));
    findings.demand(raised && took < RAISED_WITHIN, "I12 liveness", || {
        format!("{groups} groups let more go only after {took:?}")
    });
    look(&client, &topic).await;
    work(&client, &topic, &of).await;
    // Some outlive their time, the others are purged.
    let expired = client.total(&topic, "expired").await;
    client.update_topic(&topic, json!({"ttl_ms": 1})).await.expect(200);
    while client.total(&topic, "expired").await < expired + 1_000 {
        sleep(Duration::from_millis(20)).await;
    }
    client.update_topic(&topic, json!({"ttl_ms": null})).await.expect(200);
    client.purge(&topic, &["ready"]).await.expect(200);
    while client.purge(&topic, &["delayed", "blocked", "ready"]).await.json()["remaining"] != 0 {}
    findings.audit(&crew.redis, &client, &topic).await;
    findings.report()
}

/// Everything that shows blocked messages.
async fn look(client: &Client, topic: &str) {
    for query in [
        "messages?state=blocked&limit=1000",
        "groups?limit=1000",
        "groups/all",
        "forecast?bucket_ms=1000&buckets=5",
    ] {
        client.get_path(&format!("/topics/{topic}/{query}")).await.expect(200);
    }
}

/// Everything that adds to groups, or takes from them.
async fn work(client: &Client, topic: &str, of: &impl Fn(&str) -> Value) {
    let ids = client.fill(topic, &vec![of("all"); 100]).await;
    for id in &ids[..20] {
        client.update(id, json!({"delay_ms": 60_000})).await.expect(200);
        client.delete(id).await.expect(204);
    }
    let spread: Vec<Value> = (0..100).map(|n| of(&format!("g{}", n % 40))).collect();
    client.published_batch(topic, &spread).await;
    for verb in ["nack", "ack", "delete"] {
        let held = client.leased(topic, json!({"max_messages": 100})).await;
        let one = |message: &Value| {
            let (id, token) = (&message["id"], &message["lease_token"]);
            json!({"id": id, "lease_token": token, "dead": true})
        };
        match verb {
            "nack" => {
                drop(client.held_batch(verb, &held.iter().map(one).collect::<Vec<_>>()).await)
            }
            "ack" => {
                for message in &held {
                    client.ack_leased(message).await.expect(204);
                }
            }
            _ => {
                for message in &held {
                    client.delete_by_force(text(message, "id")).await.expect(204);
                }
            }
        }
    }
    client.post(&format!("/topics/{topic}/redrive"), &json!({})).await.expect(200);
}
