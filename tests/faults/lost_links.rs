//! Connections that Redis closes while nothing is under way on them: the next request is served, since nothing of it was
//! sent before.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;

use crate::harness::*;

async fn cut(redis: &Redis) {
    let _: i64 = redis.command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_request_after_a_connection_was_closed_is_served() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let (client, name) = (dueq.client(), &topic("closed"));
    client.new_topic(name, json!({})).await;
    for round in 0..20 {
        cut(&redis).await;
        // As many as there are lanes, and more: every lane has a request.
        let all = join_all((0..8).map(|_| client.publish(name, json!({"payload": round})))).await;
        all.into_iter().for_each(|answer| drop(answer.expect(201)));
        cut(&redis).await;
        let leased = client.lease_one(name).await;
        cut(&redis).await;
        client.ack_leased(&leased).await.expect(204);
        cut(&redis).await;
        client.update_topic(name, json!({"lease_ms": 1_000 + round})).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_cut_connections_leaves_none_that_the_next_request_meets() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let (client, name) = (dueq.client(), &topic("burst"));
    client.published(name, json!({"payload": 0})).await;
    for round in 0..5 {
        let publish = async {
            for _ in 0..100 {
                let answer = client.publish(name, json!({"payload": round})).await;
                assert!([201, 503].contains(&answer.status), "{answer}");
            }
        };
        let cuts = async {
            for _ in 0..20 {
                cut(&redis).await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::join!(join_all([publish]), cuts);
        client.lease(name, json!({})).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_is_ready_after_a_restart_of_redis_serves_the_next_requests() {
    let mut redis = Redis::options().appendonly().start().await;
    let dueq = Dueq::on(&redis).args(["--lanes", "4"]).start().await;
    let client = dueq.client();
    client.new_topic(&topic("restarted"), json!({})).await;
    for round in 0..3 {
        redis.kill9();
        eventually("it is not ready", || async {
            (client.get_path("/readyz").await.status == 503).then_some(())
        })
        .await;
        redis.restart().await;
        eventually("it is ready", || async {
            (client.get_path("/readyz").await.status == 200).then_some(())
        })
        .await;
        let names: Vec<String> = (0..8).map(|n| topic(&format!("restarted-{round}-{n}"))).collect();
        join_all(names.iter().map(|name| client.new_topic(name, json!({})))).await;
    }
}
