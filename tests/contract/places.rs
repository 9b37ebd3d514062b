//! What a lease says of where its messages were: their ids and due times, exact in every kind of topic.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::facts::ids;
use crate::harness::*;

/// A topic of these settings, with five messages that fell due at different instants: its name, and their instants by id.
async fn filled(
    client: &Client,
    config: &Value,
    more: &[Value; 5],
) -> (String, Vec<(String, i64)>) {
    let redis = &shared().await.redis;
    loop {
        let topic = topic("places");
        client.new_topic(&topic, config.clone()).await;
        let soon = redis.time_ms().await + 300;
        let dues = [9, 2, 31, 4, 17].map(|ms| soon + ms);
        let messages = dues.iter().zip(more).map(|(due, more)| {
            let mut message = json!({"payload": "p".repeat(40), "deliver_at": instant(*due)});
            message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            message
        });
        let ids = client.fill(&topic, &messages.collect::<Vec<_>>()).await;
        // What comes after its instant is due when it comes.
        let in_time = redis.time_ms().await < soon;
        eventually("all are due", || async { (redis.time_ms().await > soon + 40).then_some(()) })
            .await;
        if in_time {
            let mut published: Vec<_> = ids.into_iter().zip(dues).collect();
            published.sort();
            return (topic, published);
        }
    }
}

#[tokio::test]
async fn a_lease_says_exactly_when_messages_fell_due() {
    let client = client().await;
    let plain = [(); 5].map(|()| json!({}));
    let ranked = [0, 9, 0, 255, 9].map(|priority| json!({"priority": priority}));
    let grouped = ["a", "b", "c", "d", "e"].map(|group| json!({"group": group}));
    let mut mixed = ranked.clone();
    mixed[1] = json!({"group": "a", "priority": 3});
    mixed[2] = json!({"group": "a"});
    let mut large = plain.clone();
    large[3] = json!({"payload": "p".repeat(3000)});
    for (config, messages) in [
        (json!({}), &plain),
        (json!({"ttl_ms": 60_000}), &plain),
        (json!({"partitions": 2}), &plain),
        (json!({}), &ranked),
        (json!({}), &large),
        (json!({}), &grouped),
        (json!({"group_rate_per_s": 1000}), &grouped),
        (json!({"group_order": "fair"}), &grouped),
        (json!({"group_order": "fair"}), &mixed),
    ] {
        for want in [json!({}), json!({"max_bytes": 100_000})] {
            let (topic, mut left) = filled(&client, &config, messages).await;
            // Several leases may be needed where there are several partitions.
            while !left.is_empty() {
                let mut want = want.clone();
                (want["max_messages"], want["wait_ms"]) = (json!(5), json!(10_000));
                let granted = client.leased(&topic, want.clone()).await;
                assert!(!granted.is_empty(), "{config} {want}: {left:?} were not granted");
                for message in granted {
                    let place = (text(&message, "id").into(), instant_ms(text(&message, "due_at")));
                    let at = left.iter().position(|one| *one == place);
                    left.remove(
                        at.unwrap_or_else(|| panic!("{config} {want}: {left:?} {message}")),
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn ids_contain_any_byte() {
    let (client, topic) = (client().await, topic("places"));
    client.fill(&topic, &vec![json!({"payload": 1}); 256]).await;
    // Five bytes of a member are no time.
    let script = "local found = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
        for i = 1, 256 do
          local old, score = found[2 * i - 1], found[2 * i]
          local new = string.sub(old, 1, 6) .. string.rep(string.char(i - 1), 5)
          redis.call('HSET', KEYS[2], new, redis.call('HGET', KEYS[2], old))
          redis.call('ZADD', KEYS[1], score, new)
          redis.call('HDEL', KEYS[2], old)
          redis.call('ZREM', KEYS[1], old)
        end";
    let key = |name: &str| format!("dueq:{{{topic}:0}}:{name}");
    let (delayed, messages) = (key("delayed"), key("messages"));
    shared().await.redis.command::<()>(&["EVAL", script, "2", &delayed, &messages]).await;
    let mut granted = Vec::new();
    while granted.len() < 256 {
        let more = client.leased(&topic, json!({"max_messages": 256})).await;
        assert!(!more.is_empty(), "{} messages were granted", granted.len());
        granted.extend(more);
    }
    let tails = ids(&granted).iter().map(|id| id[26..].to_owned()).collect::<BTreeSet<_>>();
    let wanted = (0..256).map(|byte| format!("{byte:02x}").repeat(5)).collect::<BTreeSet<_>>();
    assert_eq!(tails, wanted);
    for message in &granted {
        client.ack_leased(message).await.expect(204);
    }
    assert_eq!(client.count(&topic, "leased").await, 0);
}
