//! A topic whose answers wait for the replica, while that can confirm nothing: it is stopped, it has left, it takes over
//! itself. Nothing is answered then that it does not have.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::harness::{Dueq, eventually, text, topic};
use crate::proof::scenarios::failover::Pair;
use crate::proof::scenarios::findings::Findings;
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
