//! A heap of messages whose time is over: a consumer is answered in time all the same.

use std::time::{Duration, Instant};

use deadpool_redis::redis;
use serde_json::json;

use crate::harness::*;

/// Messages that expired long ago, with a key each, as if published by somebody.
const HEAP: &str = "
local member = string.rep('x', 5)
for i = ARGV[1], ARGV[2] do
  local name = member .. string.format('%06d', i)
  redis.call('HSET', KEYS[1], name, '\\0' .. '1')
  redis.call('ZADD', KEYS[2], 1700000000000, name)
end
return redis.call('HINCRBY', KEYS[3], 'published', ARGV[2] - ARGV[1] + 1)";

#[tokio::test]
async fn a_lease_is_answered_in_time_however_much_has_expired() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let (client, topic) = (dueq.client(), "heap");
    client.new_topic(topic, json!({"ttl_ms": 1000})).await;
    let keys = ["messages", "delayed", "meta"].map(|name| format!("dueq:{{{topic}:0}}:{name}"));
    let mut connection = redis.connection().await;
    for part in 0..15 {
        let mut heap = redis::cmd("EVAL");
        heap.arg(HEAP).arg(3).arg(&keys[..]).arg(part * 10_000).arg(part * 10_000 + 9_999);
        heap.exec_async(&mut connection).await.unwrap();
    }
    for wait_ms in [100, 0] {
        let asked = Instant::now();
        let answer = client.lease(topic, json!({"wait_ms": wait_ms})).await.expect(200);
        let took = asked.elapsed();
        assert_eq!(answer.json()["messages"], json!([]));
        // 0.35 s by design; without a bound this takes 4 s and more.
        assert!(took < Duration::from_secs(3), "answered after {took:?}");
    }
    client.published(topic, json!({"payload": 1, "ttl_ms": 600_000})).await;
    let held = client.leased(topic, json!({"wait_ms": 60_000})).await;
    assert_eq!(held.len(), 1, "what is behind the heap is granted at last");
}
