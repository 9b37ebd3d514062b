//! A replica is promoted, and the old primary promoted again: what was granted where nobody knows of it any more gives no
//! right to what is granted afterwards (I13). The connections of dueq live through it all.

use deadpool_redis::redis;
use serde_json::{Value, json};

use crate::harness::{Client, Dueq, Redis, eventually, text, topic};

/// Replicates at once, not after the usual five seconds.
async fn redis() -> Redis {
    Redis::options().args(["--repl-diskless-sync-delay", "0"]).start().await
}

async fn replicate(replica: &Redis, primary: &Redis) {
    let port = primary.port().to_string();
    let _: () = replica.command(&["REPLICAOF", "127.0.0.1", &port]).await;
    eventually("the replica has everything", || async {
        let info: String = replica.command(&["INFO", "replication"]).await;
        let own: i64 = primary.info("master_repl_offset").await;
        let offset = format!("slave_repl_offset:{own}");
        (info.contains("master_link_status:up") && info.contains(&offset)).then_some(())
    })
    .await;
}

async fn promote(redis: &Redis) {
    let _: () = redis.command(&["REPLICAOF", "NO", "ONE"]).await;
}

async fn works(client: &Client) {
    eventually("dueq works again", || async {
        let name = topic("probe");
        let sent = client.publish(&name, json!({"payload": 1})).await.status == 201;
        (sent && client.get_path("/readyz").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_a_lost_grant_holds_nothing_after_failover_and_failback() {
    let (a, b) = (redis().await, redis().await);
    let dueq = [Dueq::on(&a).start().await, Dueq::on(&a).start().await];
    let [one, other] = [dueq[0].client(), dueq[1].client()];
    let name = &topic("lost");
    let kept = one.published(name, json!({"payload": "leased before"})).await;
    let survivor = one.lease_one(name).await;
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(one.published(name, json!({"payload": n})).await);
    }
    replicate(&b, &a).await;
    // From here on B knows nothing of what A grants.
    promote(&b).await;
    let lost = other.leased(name, json!({"max_messages": 3, "lease_ms": 600_000})).await;
    assert_eq!(lost.len(), 3);
    replicate(&a, &b).await;
    promote(&a).await;
    for client in [&one, &other] {
        works(client).await;
    }
    let again = one.leased(name, json!({"max_messages": 3, "lease_ms": 600_000})).await;
    let facts = |messages: &[serde_json::Value]| -> Vec<_> {
        messages.iter().map(|m| (text(m, "id").to_owned(), m["attempt"].clone())).collect()
    };
    assert_eq!(facts(&again), facts(&lost), "Redis does not know better");
    for client in [&one, &other] {
        client.ack_leased(&lost[0]).await.problem(409, "lease_lost");
        client.nack_leased(&lost[1], json!({})).await.problem(409, "lease_lost");
        client.extend_leased(&lost[2], 60_000).await.problem(409, "lease_lost");
    }
    let hold = |m: &serde_json::Value| json!({"id": m["id"], "lease_token": m["lease_token"]});
    let mixed = [&survivor, &lost[0], &again[1]].map(hold);
    let acked = other.post("/messages/ack", &json!({"messages": mixed})).await.expect(200).json();
    let results = acked["results"].as_array().unwrap();
    let status: Vec<_> = results.iter().map(|result| text(result, "status")).collect();
    assert_eq!(status, ["ok", "lease_lost", "ok"], "{kept} outlived both");
    other.ack_leased(&again[0]).await.expect(204);
    one.ack_leased(&again[2]).await.expect(204);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_each_partition_the_64_newest_epochs_are_known() {
    let redis = redis().await;
    let dueq = Dueq::on(&redis).start().await;
    let (client, name) = (dueq.client(), &topic("epochs"));
    let meta = format!("dueq:{{{name}:0}}:meta");
    let mut held = Vec::new();
    for _ in 0..66 {
        // A lane that met the replica a moment ago refuses what it is given.
        client.published_again(name, json!({"payload": 1})).await;
        let lease = || client.lease(name, json!({"lease_ms": 600_000, "wait_ms": 10_000}));
        let leased = eventually("a lease", || async {
            let answer = lease().await;
            (answer.status == 200).then(|| answer.json()["messages"][0].clone())
        });
        held.push(leased.await);
        let _: () = redis.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
        promote(&redis).await;
        let client = &client;
        eventually("it takes writes", || async {
            (client.get_path("/readyz").await.status == 200).then_some(())
        })
        .await;
    }
    let fields: Vec<String> = redis.command(&["HKEYS", &meta]).await;
    assert_eq!(fields.iter().filter(|field| field.starts_with("epoch:")).count(), 64);
    for (n, held) in held.iter().enumerate() {
        let acked = eventually("an answer", || async {
            let answer = client.ack_leased(held).await;
            (answer.status != 503).then_some(answer)
        });
        let acked = acked.await;
        if n < 2 {
            acked.problem(409, "lease_lost")
        } else {
            acked.expect(204)
        };
    }
}

/// A dueq whose Redis lets this user do everything but INFO.
async fn without_info(redis: &Redis) -> Dueq {
    let rule = ["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-info"];
    let _: () = redis.command(&rule).await;
    let url = redis.url().replace("redis://", "redis://app:secret@");
    Dueq::at(&url).start().await
}

#[tokio::test]
async fn a_redis_that_refuses_info_is_served_and_warned_of() {
    let redis = redis().await;
    let dueq = without_info(&redis).await;
    let (client, name) = (dueq.client(), &topic("hidden"));
    let ready = client.get_path("/readyz").await.expect(200).json();
    let warnings = ready["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning.as_str().unwrap().contains("lease token")));
    assert!(warnings.iter().any(|warning| warning.as_str().unwrap().contains("maxmemory-policy")));
    assert_eq!(ready["status"], "ok");
    for warning in warnings {
        assert!(dueq.log().contains(warning.as_str().unwrap()), "{}", dueq.log());
    }
    client.published(name, json!({"payload": 1})).await;
    let leased = client.lease_one(name).await;
    client.extend_leased(&leased, 60_000).await.expect(200);
    client.ack_leased(&leased).await.expect(204);
    let healthy = client.get_path("/healthz").await.expect(200).json();
    assert_eq!(healthy, json!({"status": "ok"}));
}

#[tokio::test]
async fn leases_outlive_a_change_of_what_redis_shows() {
    let redis = redis().await;
    let (open, hidden) = (Dueq::on(&redis).start().await, without_info(&redis).await);
    let ready = open.client().get_path("/readyz").await.expect(200).json();
    assert_eq!((&ready["status"], &ready["warnings"]), (&json!("ok"), &Value::Null));
    let name = &topic("shown");
    for (here, there) in [(&open, &hidden), (&hidden, &open)] {
        here.client().published(name, json!({"payload": 1})).await;
        let leased = here.client().lease_one(name).await;
        there.client().ack_leased(&leased).await.expect(204);
    }
    let unknown: redis::RedisResult<String> =
        redis::cmd("INFO").query_async(&mut redis.connection().await).await;
    assert!(unknown.is_ok(), "the default user may");
}
