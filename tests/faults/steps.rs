//! No script holds Redis for long, whatever clients send or configure: what each call does in Redis is counted, in
//! commands and in bytes, so that a busy machine changes nothing. 1,000 commands take about 1.5 ms, and so do 500 KB.

use serde_json::{Value, json};

use crate::harness::*;
use crate::monitor::{Call, MARKER, Monitor};

/// Commands of one script call: with keys, dead letters and times to live some 2,200 in 128 nacks.
const MOST_COMMANDS: usize = 2_500;
/// Bytes that one script call gets and writes: a group's 256 KiB, events of 256 KiB and one message's more.
const MOST_BYTES: usize = 1024 * 1024;

fn bytes(call: &Call) -> usize {
    let words = call.words.iter().chain(call.inner.iter().flatten());
    // MONITOR shows a byte that is no ASCII as `\xff`.
    words.map(|word| word.len() - 3 * word.matches("\\x").count()).sum()
}

/// Messages whose bodies one script call frees.
fn freed(call: &Call) -> usize {
    let freed = |words: &&Vec<String>| words[0] == "HDEL" && words[1].ends_with(":messages");
    call.inner.iter().filter(freed).map(|words| words.len() - 2).sum()
}

/// What the scripts do while `work` is done, all within the bounds. Returns of how many messages one call frees the bodies.
async fn bounded(redis: &Redis, what: &str, work: impl Future<Output = ()>) -> usize {
    let monitor = Monitor::start(redis.port()).await;
    work.await;
    let _: String = redis.command(&["ECHO", MARKER]).await;
    let calls = monitor.calls().await;
    let scripts: Vec<&Call> = calls.iter().filter(|call| !call.inner.is_empty()).collect();
    assert!(!scripts.is_empty());
    let commands = scripts.iter().map(|call| call.inner.len()).max().unwrap();
    let most = scripts.iter().map(|call| bytes(call)).max().unwrap();
    assert!(commands <= MOST_COMMANDS, "{what}: a call of {commands} commands");
    assert!(most <= MOST_BYTES, "{what}: a call of {most} bytes");
    scripts.iter().map(|call| freed(call)).max().unwrap()
}

/// An instance that waits for a Redis that writes down all it is asked, on a machine that runs many tests.
async fn patient(redis: &Redis) -> Dueq {
    Dueq::on(redis).args(["--redis-timeout-ms", "10000"]).start().await
}

fn of_every_priority(count: usize) -> Vec<Value> {
    (0..count).map(|n| json!({"payload": n, "priority": n % 255 + 1})).collect()
}

#[tokio::test]
async fn a_full_topic_of_every_priority_makes_room_in_bounded_steps() {
    let redis = Redis::start().await;
    let dueq = patient(&redis).await;
    let (client, topic) = (dueq.client(), "full");
    let bound = |most: usize| json!({"max_messages": most, "on_full": "drop_oldest"});
    client.new_topic(topic, bound(1500)).await;
    client.fill(topic, &of_every_priority(1500)).await;
    let batch = of_every_priority(100);
    bounded(&redis, "at the bound", async { drop(client.fill(topic, &batch).await) }).await;
    assert_eq!(client.total(topic, "expired").await, 100);
    client.update_topic(topic, bound(10)).await.expect(200);
    bounded(&redis, "below the bound", async {
        client.fill(topic, &batch).await;
        client.published(topic, json!({"payload": 1})).await;
    })
    .await;
    // By and by the bound is reached.
    for _ in 0..50 {
        client.published(topic, json!({"payload": 1})).await;
    }
    assert_eq!(client.count(topic, "ready").await, 10);
}

#[tokio::test]
async fn what_expires_in_every_priority_leaves_in_bounded_steps() {
    let redis = Redis::start().await;
    let dueq = patient(&redis).await;
    let (client, topic) = (dueq.client(), "expires");
    client.fill(topic, &of_every_priority(4000)).await;
    bounded(&redis, "a ttl over a backlog", async {
        client.update_topic(topic, json!({"ttl_ms": 1})).await.expect(200);
        eventually("all are gone", || async {
            (client.total(topic, "expired").await == 4000).then_some(())
        })
        .await;
    })
    .await;
}

/// Leases 128 messages, and nacks them all for this reason.
async fn fail_all(client: &Client, topic: &str, reason: String) {
    let held = client.leased(topic, json!({"max_messages": 128, "wait_ms": 5000})).await;
    assert_eq!(held.len(), 128);
    let nack = |message: &Value| {
        let (id, token) = (&message["id"], &message["lease_token"]);
        json!({"id": id, "lease_token": token, "delay_ms": 0, "reason": reason})
    };
    let nacks: Vec<Value> = held.iter().map(nack).collect();
    for outcome in client.held_batch("nack", &nacks).await {
        assert_eq!(outcome["status"], json!("ok"), "{outcome}");
    }
}

#[tokio::test]
async fn long_reasons_are_kept_in_bounded_steps() {
    let redis = Redis::start().await;
    let dueq = patient(&redis).await;
    let (client, topic) = (dueq.client(), "reasons");
    client.new_topic(topic, json!({"max_attempts": 1000})).await;
    let messages: Vec<Value> = (0..128).map(|n| json!({"payload": n})).collect();
    client.fill(topic, &messages).await;
    bounded(&redis, "reasons", async {
        for reason in ["r", "\u{1}", "\u{1f980}", "r"] {
            for _ in 0..2 {
                fail_all(&client, topic, reason.repeat(1024)).await;
            }
        }
        // Leases that end by themselves add to the same events.
        let want = json!({"max_messages": 128, "wait_ms": 20_000, "lease_ms": 1000});
        assert_eq!(client.leased(topic, want).await.len(), 128);
        let want = json!({"max_messages": 128, "wait_ms": 20_000, "lease_ms": 60_000});
        let mut again = 0;
        while again < 128 {
            again += client.leased(topic, want.clone()).await.len();
        }
    })
    .await;
    let listed = client.listed(topic, "state=leased").await;
    for message in listed.iter().take(3) {
        let events = client.get(text(message, "id")).await.expect(200).json()["events"].clone();
        let reasons =
            events.as_array().unwrap().iter().filter(|event| event.get("reason").is_some());
        assert_eq!(reasons.count(), 8, "{events}");
    }
}

#[tokio::test]
async fn what_has_failed_more_often_than_is_allowed_now_dies_in_bounded_steps() {
    let redis = Redis::start().await;
    let dueq = patient(&redis).await;
    let (client, topic) = (dueq.client(), "lowered");
    client.new_topic(topic, json!({"max_attempts": 1000})).await;
    let messages: Vec<Value> = (0..128).map(|n| json!({"payload": n})).collect();
    client.fill(topic, &messages).await;
    for _ in 0..2 {
        fail_all(&client, topic, "\u{1}".repeat(1024)).await;
    }
    client.update_topic(topic, json!({"max_attempts": 1})).await.expect(200);
    bounded(&redis, "deaths", async {
        eventually("all are dead", || async {
            assert!(client.leased(topic, json!({"max_messages": 128})).await.is_empty());
            (client.count(topic, "dead").await == 128).then_some(())
        })
        .await;
    })
    .await;
}

/// Publishes messages of 1 MB, so many of each priority.
async fn fill_with_large(client: &Client, topic: &str, of_priorities: [usize; 3], delay_ms: i64) {
    client.new_topic(topic, json!({"max_payload_bytes": 1_048_576})).await;
    let payload = "x".repeat(1_000_000);
    for (priority, count) in of_priorities.into_iter().enumerate() {
        for _ in 0..count {
            let message = json!({"payload": payload, "priority": priority, "delay_ms": delay_ms});
            client.published(topic, message).await;
        }
    }
}

/// To free 24 MiB takes 2 ms.
const MOST_LARGE: usize = 26;

#[tokio::test]
async fn large_messages_are_purged_in_bounded_steps() {
    let redis = Redis::start().await;
    let dueq = patient(&redis).await;
    let (client, topic) = (dueq.client(), "purged");
    fill_with_large(&client, topic, [30, 30, 0], 600_000).await;
    let freed = bounded(&redis, "a purge", async {
        let states = json!({"states": ["delayed"]});
        let purged = client.post(&format!("/topics/{topic}/purge"), &states).await.expect(200);
        assert_eq!(purged.json()["purged"], 60);
    })
    .await;
    assert!(freed <= MOST_LARGE, "a call frees {freed} MB");
}

#[tokio::test]
async fn large_messages_expire_in_bounded_steps() {
    let redis = Redis::start().await;
    let dueq = patient(&redis).await;
    let (client, topic) = (dueq.client(), "expires");
    fill_with_large(&client, topic, [30, 15, 15], 0).await;
    let freed = bounded(&redis, "a ttl over large messages", async {
        client.update_topic(topic, json!({"ttl_ms": 1})).await.expect(200);
        eventually("all are gone", || async {
            (client.total(topic, "expired").await == 60).then_some(())
        })
        .await;
    })
    .await;
    assert!(freed <= MOST_LARGE, "a call frees {freed} MB");
}

#[tokio::test]
async fn large_messages_make_room_in_bounded_steps() {
    let redis = Redis::start().await;
    let dueq = patient(&redis).await;
    let (client, topic) = (dueq.client(), "room");
    fill_with_large(&client, topic, [60, 0, 0], 0).await;
    let bound = json!({"max_messages": 1, "on_full": "drop_oldest"});
    client.update_topic(topic, bound).await.expect(200);
    let freed = bounded(&redis, "room", async {
        for _ in 0..5 {
            client.published(topic, json!({"payload": 1})).await;
        }
    })
    .await;
    assert!(freed <= MOST_LARGE, "a call frees {freed} MB");
    assert_eq!(client.count(topic, "ready").await, 1);
}
