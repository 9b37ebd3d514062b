//! Many who want something at once: what they want must not keep others from what they need.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::sleep;

use crate::harness::{Client, Dueq, Redis, Wire, eventually, topic, waiters};
use crate::proof::proxy::{Mode, Proxy};

/// Calls of scripts so far.
async fn calls(redis: &Redis) -> i64 {
    let stats: String = redis.command(&["INFO", "commandstats"]).await;
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// The same once nobody calls any more.
async fn calls_at_rest(redis: &Redis) -> i64 {
    eventually("rest", || async {
        let before = calls(redis).await;
        sleep(Duration::from_millis(150)).await;
        (calls(redis).await == before).then_some(before)
    })
    .await
}

/// A Redis that is so far away, and an instance that works on it.
async fn far_away(by: Duration) -> (Redis, Proxy, Dueq) {
    let redis = Redis::start().await;
    let line = Proxy::of(&redis).await;
    let dueq = Dueq::at(&line.url()).start().await;
    line.set(Mode::Delay(by));
    (redis, line, dueq)
}

#[tokio::test]
async fn batch_consumers_that_find_little_share_calls_and_acks_do_not_wait_behind_them() {
    let (redis, _line, dueq) = far_away(Duration::from_millis(50)).await;
    let (client, topic) = (dueq.client(), topic("overload"));
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    let before = calls(&redis).await;
    let consumers =
        join_all((0..200).map(|_| client.leased(&topic, json!({"max_messages": 1000}))));
    let ack = async {
        // After them, so that it finds them all in its way.
        sleep(Duration::from_millis(30)).await;
        let start = Instant::now();
        client.ack_leased(&held).await.expect(204);
        start.elapsed()
    };
    let (granted, acked) = tokio::join!(consumers, ack);
    assert!(granted.iter().all(Vec::is_empty));
    assert!(acked < Duration::from_millis(1500), "{acked:?} for an ack");
    let calls = calls(&redis).await - before;
    assert!(calls < 100, "{calls} calls for 200 leases that found nothing");
}

#[tokio::test]
async fn a_crowd_of_batch_consumers_gets_all_there_is() {
    let (_redis, _line, dueq) = far_away(Duration::from_millis(5)).await;
    let (client, topic) = (dueq.client(), topic("overload"));
    for _ in 0..2 {
        for _ in 0..3 {
            let messages: Vec<_> = (0..400).map(|n| json!({"payload": n})).collect();
            client.published_batch(&topic, &messages).await;
        }
        let want = json!({"max_messages": 100, "wait_ms": 5_000});
        let leases = join_all((0..30).map(|_| client.leased(&topic, want.clone()))).await;
        let granted: usize = leases.iter().map(Vec::len).sum();
        assert_eq!(granted, 1_200, "no consumer of 30 comes back short while messages are ready");
    }
}

#[tokio::test]
async fn a_message_costs_one_call_however_much_those_who_wait_for_it_want() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let (client, topic) = (dueq.client(), topic("overload"));
    client.published(&topic, json!({"payload": 0})).await;
    client.lease_one(&topic).await;
    let polls: Vec<_> = (0..64)
        .map(|_| {
            let (client, topic) = (client.clone(), topic.clone());
            let want = json!({"max_messages": 100, "wait_ms": 30_000});
            tokio::spawn(async move { client.leased(&topic, want).await })
        })
        .collect();
    waiters(&client, 64).await;
    let before = calls_at_rest(&redis).await;
    client.published(&topic, json!({"payload": 1})).await;
    waiters(&client, 63).await;
    let calls = calls_at_rest(&redis).await - before;
    // Its publish, its grant, and some look of housekeeping.
    assert!(calls <= 8, "{calls} calls for one message");
    polls.into_iter().for_each(|poll| poll.abort());
}

#[tokio::test]
async fn a_page_of_topics_is_looked_at_a_few_at_a_time() {
    let (redis, line, dueq) = far_away(Duration::ZERO).await;
    let client = dueq.client();
    let name = topic("overload");
    join_all((0..300).map(|n| {
        let (client, topic) = (client.clone(), format!("{name}-{n}"));
        async move { client.published(&topic, json!({"payload": n})).await }
    }))
    .await;
    line.set(Mode::Delay(Duration::from_millis(150)));
    let before = calls_at_rest(&redis).await;
    let page = {
        let client = client.clone();
        tokio::spawn(async move { client.get_path("/topics?limit=1000").await.expect(200).json() })
    };
    // All that were sent together are here at once, and the next ones only after an answer.
    let (mut seen, mut most) = (before, 0);
    while !page.is_finished() {
        let now = calls(&redis).await;
        most = most.max(now - seen);
        seen = now;
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(page.await.unwrap()["items"].as_array().unwrap().len(), 300);
    assert!(most <= 150, "{most} calls of one request at once");
}

/// A request of which nobody will read the answer.
async fn publish_by_hand(client: &Client, topic: &str) -> Wire {
    let mut wire = Wire::connect(&client.addr()).await;
    let head = format!(
        "POST /topics/{topic}/messages HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         content-length: 13",
        client.addr(),
    );
    assert!(wire.request(&head, b"{\"payload\":1}").await);
    wire
}

#[tokio::test]
async fn what_waits_to_be_sent_for_clients_that_have_gone_is_not_sent() {
    let mut redis = Redis::start().await;
    let dueq = Dueq::on(&redis).args(["--redis-timeout-ms", "30000"]).start().await;
    let (client, topic) = (dueq.client(), topic("overload"));
    client.published(&topic, json!({"payload": 0})).await;
    redis.pause();
    let mut patient = Vec::new();
    for _ in 0..3 {
        let (client, topic) = (client.clone(), topic.clone());
        patient.push(tokio::spawn(async move {
            client.published(&topic, json!({"payload": 0})).await;
        }));
        // One for each lane, and nobody sees from outside when it has been sent; nor when it was noticed that a client has gone.
        sleep(Duration::from_millis(200)).await;
    }
    let gone = join_all((0..20).map(|_| publish_by_hand(&client, &topic))).await;
    sleep(Duration::from_millis(400)).await;
    drop(gone);
    sleep(Duration::from_millis(400)).await;
    redis.resume();
    for publish in patient {
        publish.await.unwrap();
    }
    client.published(&topic, json!({"payload": 0})).await;
    assert_eq!(client.total(&topic, "published").await, 5, "what nobody waited for was published");
}

#[tokio::test]
async fn a_batch_of_one_key_a_hundred_times_waits_once_for_a_redis_that_hangs() {
    let mut redis = Redis::start().await;
    let dueq = Dueq::on(&redis).args(["--redis-timeout-ms", "1000"]).start().await;
    let (client, topic) = (dueq.client(), topic("overload"));
    client.published(&topic, json!({"payload": 0})).await;
    redis.pause();
    // Each repeat of a key is told what the publish before it did, so it goes to Redis by itself.
    let messages = vec![json!({"payload": 1, "key": "one"}); 100];
    let began = Instant::now();
    let path = format!("/topics/{topic}/messages/batch");
    let answer = client.post(&path, &json!({"messages": messages})).await;
    let took = began.elapsed();
    redis.resume();
    assert!(took < Duration::from_secs(5), "{took:?}");
    let results = answer.json();
    let status = |at: usize| results["results"][at]["status"].clone();
    assert_eq!((status(0), status(1)), (json!("outcome_unknown"), json!("redis_unavailable")));
    assert_eq!(results["results"].as_array().map(Vec::len), Some(100));
}
