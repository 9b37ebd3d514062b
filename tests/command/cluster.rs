//! A Redis Cluster on the command line: how it is named, that all of it is used, and what is said of one that cannot be used.

use serde_json::json;

use crate::harness::*;
use crate::refusals::one_line;

/// `dueq serve` with these arguments, run to its end.
async fn serve(args: &[&str]) -> Finished {
    let short = ["serve", "--listen", "127.0.0.1:0", "--redis-timeout-ms", "1500"];
    Launch::command(short).args(args).finish().await
}

/// A topic on each of three primaries takes a message and gives it out.
async fn works_everywhere(cluster: &Cluster, dueq: &Dueq) {
    for index in 0..3 {
        let name = cluster.topic_on(index, "seeds").await;
        let id = dueq.client().published(&name, json!({"payload": index})).await;
        let held = dueq.client().lease_one(&name).await;
        assert_eq!(text(&held, "id"), id);
        dueq.client().ack_leased(&held).await.expect(204);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_seed_leads_to_the_whole_cluster() {
    let cluster = Cluster::start(3, 1).await;
    let dead = format!("redis://127.0.0.1:{}/", free_port());
    let (first, replica) = (cluster.node(0).url(), cluster.node(3).url());
    for launch in [
        cluster.launch(),
        Dueq::at(&first),
        Dueq::at(&first).args(["--redis-mode", "cluster"]),
        Dueq::at(&dead).args(["--redis-mode", "cluster", "--redis-url", &first]),
        Dueq::at(&first).args(["--redis-url", &dead]),
        // It may have been the primary yesterday.
        Dueq::at(&replica),
        Launch::command(["serve"]).env("DUEQ_REDIS_URL", cluster.urls().replace(',', " ")),
    ] {
        let dueq = launch.start().await;
        works_everywhere(&cluster, &dueq).await;
    }
    for words in [&["migrate"][..], &["audit"]] {
        let finished = Launch::command(words).args(["--redis-url", &cluster.urls()]).finish().await;
        assert_eq!(finished.code, 0, "{words:?}: {finished:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_topics_are_used_side_by_side() {
    let cluster = Cluster::start(3, 0).await;
    let calling = ["--callback-allow", "127.0.0.0/8"];
    let dueq = cluster.launch().args(calling).start().await;
    let other = cluster.launch().args(calling).start().await;
    let (one, other) = (dueq.client(), other.client());
    let receiver = Receiver::start().await;
    let mut topics = Vec::new();
    for index in 0..30 {
        topics.push(cluster.topic_on(index % 3, "thirty").await);
    }
    let each = topics.iter().map(|name| async {
        let key = json!({"payload": "keyed", "key": "k", "delay_ms": 600_000});
        one.published(name, key.clone()).await;
        assert_eq!(other.publish(name, key).await.expect(200).json()["duplicate"], true);
        let batch = [json!({"payload": 1}), json!({"payload": 2, "priority": 5})];
        assert_eq!(one.published_batch(name, &batch).await.len(), 2);
        let held = other.leased(name, json!({"max_messages": 10})).await;
        assert_eq!(held.len(), 2, "{held:?}");
        let hold = |message: &serde_json::Value| json!({"id": message["id"], "lease_token": message["lease_token"]});
        held.iter().map(hold).collect::<Vec<_>>()
    });
    let held: Vec<_> = futures_util::future::join_all(each).await.concat();
    // One batch over all topics, and so over all primaries.
    let results = one.held_batch("ack", &held).await;
    assert_eq!(results.len(), 60);
    assert!(results.iter().all(|result| result["status"] == "ok"), "{results:?}");
    for name in &topics {
        assert_eq!(other.count(name, "delayed").await, 1);
        assert_eq!(other.total(name, "acked").await, 2);
        one.list(name, "state=delayed").await.expect(200);
        one.delete_by_key(name, "k", "").await.expect(204);
    }
    // Pages over all primaries.
    let mut seen = std::collections::BTreeSet::new();
    let mut path = "/topics?limit=7".to_owned();
    loop {
        let page = one.get_path(&path).await.expect(200).json();
        let names = page["items"].as_array().unwrap().iter();
        seen.extend(names.map(|topic| text(topic, "name").to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("/topics?limit=7&cursor={next}");
    }
    assert!(topics.iter().all(|name| seen.contains(name)), "{seen:?}");
    // Callbacks and schedules.
    let url = receiver.url("/");
    one.post("/callbacks", &json!({"url": url, "payload": 1})).await.expect(201);
    for (index, name) in topics.iter().enumerate().take(3) {
        let schedule = json!({"every_ms": 1_000, "topic": name, "message": {"payload": index}});
        one.send_json("PUT", &format!("/schedules/thirty-{index}"), &schedule).await.expect(201);
    }
    receiver.wait_for(1).await;
    for name in &topics[..3] {
        let tick = other.lease_one(name).await;
        other.ack_leased(&tick).await.expect(204);
    }
    for name in &topics[3..] {
        one.delete_topic(name, "").await.expect(204);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_cannot_be_used_is_told() {
    let cluster = Cluster::options(3, 0).node_timeout(500).start().await;
    let redis = Redis::start().await;
    let (url, seed) = (redis.url(), cluster.node(0).url());
    let address = format!("127.0.0.1:{}", cluster.node(0).port());
    // Another kind than was said.
    one_line(&serve(&["--redis-url", &url, "--redis-mode", "cluster"]).await, &["--redis-mode"]);
    let alone = serve(&["--redis-url", &seed, "--redis-mode", "standalone"]).await;
    one_line(&alone, &["cluster mode", "--redis-mode"]);
    let mixed = ["--redis-url", &seed, "--redis-url", &url];
    let other = format!("127.0.0.1:{}", redis.port());
    one_line(&serve(&mixed).await, &[&other, "not in cluster mode"]);
    let sentinel = serve(&["--redis-url", &seed, "--redis-mode", "sentinel"]).await;
    one_line(&sentinel, &["no Sentinel but a Redis in cluster mode"]);
    for flags in [["--sentinel-master", "x"], ["--redis-db", "1"]] {
        let args = [&["--redis-url", &seed][..], &flags].concat();
        one_line(&serve(&args).await, &["no Sentinel but a Redis in cluster mode"]);
        let args = [&args[..], &["--redis-mode", "cluster"]].concat();
        one_line(&serve(&args).await, &["--redis-mode cluster takes"]);
    }
    // A cluster has one database.
    let second = format!("{seed}1");
    one_line(&serve(&["--redis-url", &second]).await, &["cluster mode"]);
    let finished = serve(&["--redis-url", &second, "--redis-mode", "cluster"]).await;
    one_line(&finished, &[&address, "no database but 0"]);
    // A node that knows no other, and a cluster without all slots.
    let lonely = Cluster::options(1, 0).with_a_hole().start().await;
    let finished = serve(&["--redis-url", &lonely.node(0).url()]).await;
    one_line(&finished, &["cannot serve", "1 of 16384 slots"]);
    let two = ["--redis-url", &seed, "--redis-url", &lonely.node(0).url()];
    one_line(&serve(&two).await, &["belong to different Clusters", &address]);
    // Nobody is there.
    let dead = [free_port(), free_port()].map(|port| format!("redis://127.0.0.1:{port}/"));
    let words = ["--redis-url", &dead[0], "--redis-url", &dead[1], "--redis-mode", "cluster"];
    one_line(&serve(&words).await, &["no node of the Cluster answers", &dead[0][8..23]]);
    // A password that the nodes do not take.
    let wrong = seed.replace("redis://", "redis://:somebody@");
    let finished = serve(&["--redis-url", &wrong]).await;
    one_line(&finished, &["authentication failed"]);
    assert!(!finished.stderr.contains("somebody"), "{finished:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_down_is_told() {
    let mut cluster = Cluster::options(3, 0).node_timeout(500).start().await;
    cluster.kill9(1);
    let node = cluster.node(0);
    eventually("the cluster is down", || async {
        let info: String = ask(node, &["CLUSTER", "INFO"]).await.ok()?;
        info.contains("cluster_state:fail").then_some(())
    })
    .await;
    let finished = serve(&["--redis-url", &node.url()]).await;
    one_line(&finished, &["cluster_state"]);
}
