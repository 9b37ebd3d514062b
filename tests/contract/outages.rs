//! What the log says of a Redis that cannot be used for a while.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::*;

/// How many lines of the log say this.
fn lines(dueq: &Dueq, words: &str) -> usize {
    dueq.log().lines().filter(|line| line.contains(words)).count()
}

#[tokio::test]
async fn each_outage_is_a_line_in_the_log_and_its_end_another_however_soon_the_next_one_comes() {
    let (mut redis, dueq, client) = alone().await;
    let topic = topic("outages");
    client.published(&topic, json!({"payload": 1})).await;
    let set = async |redis: &Redis, name: &str, value: &str| {
        redis.command::<()>(&["CONFIG", "SET", name, value]).await;
    };
    for number in 1..=6 {
        match number {
            1 | 2 => redis.kill9(),
            3 | 4 => set(&redis, "min-replicas-to-write", "1").await,
            // What ends messages is done all the same.
            _ => set(&redis, "maxmemory", "1").await,
        }
        eventually("the outage", || async {
            client.lease(&topic, json!({})).await;
            client.publish(&topic, json!({"payload": 1})).await;
            (lines(&dueq, "Redis cannot be used") == number).then_some(())
        })
        .await;
        for _ in 0..3 {
            client.publish(&topic, json!({"payload": 1})).await.expect(503);
            client.lease(&topic, json!({})).await;
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
        let ended = Instant::now();
        match number {
            1 | 2 => redis.restart().await,
            3 | 4 => set(&redis, "min-replicas-to-write", "0").await,
            _ => set(&redis, "maxmemory", "0").await,
        }
        eventually("its end", || async {
            (lines(&dueq, "Redis can be used again") == number).then_some(())
        })
        .await;
        assert!(ended.elapsed() < Duration::from_secs(4), "{:?}", ended.elapsed());
        assert_eq!(lines(&dueq, "Redis cannot be used"), number);
    }
}
