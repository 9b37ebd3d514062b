//! A topic whose answers wait for the replica, while that can confirm nothing: it is stopped, it has left, it takes over
//! itself. Nothing is answered then that it does not have.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::harness::{Cluster, Dueq, Redis, eventually, pair, text, topic};
use crate::proof::proxy::{Mode, Proxy};
use crate::proof::scenarios::failover::{Pair, caught_up};
use crate::proof::scenarios::findings::Findings;
use crate::proof::scenarios::replicas::follow_through_proxy;
use crate::proof::stage::{Report, Setting};

/// What nobody confirms is not answered.
pub async fn unconfirmed(setting: Setting) -> Report {
    let mut findings = Findings::new("unconfirmed", &setting);
    let mut pair = Pair::start(&setting).await;
    let hasty = ["--redis-timeout-ms", "1500"];
    let dueq = Dueq::at(&pair.address.url()).args(hasty).bug(setting.bug).start().await;
    let (client, topic) = (dueq.client(), topic("unconfirmed"));
    client.new_topic(&topic, json!({"durability": "replicated"})).await;
    for payload in 0..3 {
        client.published(&topic, json!({"payload": payload})).await;
    }
    let held = client.lease_one(&topic).await;
    let mut demand = |answer: &crate::harness::Answer, when: &str| {
        findings.demand(answer.status == 503, "I13", || format!("{when}: {answer}"));
    };

    // The primary is full, and its replica stopped: what frees memory is done, and the fence's own write is not to be refused.
    // Before that it confirms by itself, once a second, what it has.
    sleep(Duration::from_millis(1_500)).await;
    pair.replica.pause();
    let set = async |pair: &Pair, most: &str| -> () {
        pair.primary.command(&["CONFIG", "SET", "maxmemory", most]).await
    };
    set(&pair, "1").await;
    demand(&client.ack_leased(&held).await, "an ack that the replica does not have");
    set(&pair, "0").await;
    pair.replica.resume();
    pair.caught_up().await;

    // The primary is left alone.
    pair.cut_off().await;
    let message = json!({"payload": "alone"});
    demand(&client.publish(&topic, message.clone()).await, "a publish that no replica has");

    // The other one takes over while an answer waits, and the old primary becomes its replica.
    let (waiting, name) = (client.clone(), topic.clone());
    let late = tokio::spawn(async move { waiting.publish(&name, message).await });
    sleep(Duration::from_millis(100)).await;
    pair.switch().await;
    let late = late.await.expect("an answer");
    if late.status == 201 {
        let id = text(&late.json(), "id").to_owned();
        // The first connections may still lead to the old primary.
        let found = eventually("a list from the new primary", || async {
            let listed = client.list(&topic, "state=ready").await;
            (listed.status == 200).then(|| listed.json().to_string())
        });
        findings.demand(found.await.contains(&id), "I13", || {
            format!("{id} was answered 201 and is not there")
        });
    }
    findings.tally().published += 5;
    findings.report()
}

/// Of two replicas one lags, and is promoted by hand: where all are to confirm, it has what was answered.
pub async fn a_lagging_replica(setting: Setting) -> Report {
    let mut findings = Findings::new("a_lagging_replica", &setting);
    let [mut primary, _other] = pair(Redis::options()).await;
    let lagging = Redis::options().args(["--repl-diskless-sync-delay", "0"]).start().await;
    let link = follow_through_proxy(&lagging, &primary).await;
    let address = Proxy::of(&primary).await;
    let replicas = if setting.bug == Some("one replica is enough") { "1" } else { "all" };
    let args = ["--redis-timeout-ms", "1000", "--replicas", replicas];
    let dueq = Dueq::at(&address.url()).args(args).bug(setting.bug).start().await;
    let (client, topic) = (dueq.client(), topic("lagging"));
    client.new_topic(&topic, json!({"durability": "replicated"})).await;
    let mut taken = vec![client.published(&topic, json!({"payload": 0})).await];
    // Without this one replica may have confirmed even the topic alone.
    caught_up(&primary, &lagging).await;
    // It hears nothing more. If it were stopped, what was sent meanwhile would be there when it goes on.
    link.set(Mode::Swallow);
    for payload in 1..4 {
        let answer = client.publish(&topic, json!({"payload": payload})).await;
        if answer.status == 201 {
            taken.push(answer.text("id"));
        }
    }
    primary.kill9();
    let _: () = lagging.command(&["REPLICAOF", "NO", "ONE"]).await;
    address.lead_to(&lagging);
    // A list waits for no replica.
    let listed = eventually("a list from the new primary", || async {
        let listed = client.list(&topic, "state=ready").await;
        (listed.status == 200).then(|| listed.json().to_string())
    });
    let listed = listed.await;
    for id in taken {
        findings.demand(listed.contains(&id), "I13", || format!("{id} was answered and is lost"));
    }
    findings.report()
}

/// One replica of a Cluster is lost for good: a topic of many partitions goes on.
pub async fn a_lost_replica(setting: Setting) -> Report {
    let mut findings = Findings::new("a_lost_replica", &setting);
    let mut cluster = Cluster::options(3, 1).partial().start().await;
    let dueq = cluster.launch().bug(setting.bug).start().await;
    let (client, topic) = (dueq.client(), topic("lost-replica"));
    client.new_topic(&topic, json!({"durability": "replicated", "partitions": 16})).await;
    cluster.kill9(3);
    if setting.bug == Some("a shard that cannot confirm stops all") {
        cluster.kill9(4);
        cluster.kill9(5);
    }
    let mut served = 0;
    for payload in 0..6 {
        let answer = client.publish(&topic, json!({"payload": payload})).await;
        served += usize::from(answer.status == 201);
    }
    findings.demand(served >= 3, "I12", || format!("{served} of 6 publishes are served"));
    findings.report()
}
