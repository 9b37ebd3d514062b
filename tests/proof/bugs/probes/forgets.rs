//! A registry that has forgotten its last changes, as after a failover of the server that has it, while the partitions know
//! of them.

use serde_json::json;

use crate::harness::{Dueq, topic};
use crate::proof::scenarios::findings::Findings;
use crate::proof::scenarios::ground::redis;
use crate::proof::stage::{Report, Setting};

const MESSAGES: usize = 40;

/// A topic that has grown since, and was paused then.
pub async fn a_registry_set_back(setting: Setting) -> Report {
    let mut findings = Findings::new("a_registry_set_back", &setting);
    let redis = redis(&setting).start().await;
    let launch = || Dueq::on(&redis).bug(setting.bug);
    let (dueq, topic) = (launch().start().await, topic("set-back"));
    let client = dueq.client();
    client.new_topic(&topic, json!({})).await;
    let registry = "dueq:{topics}:registry";
    let entry: String = redis.command(&["HGET", registry, &topic]).await;
    client.update_topic(&topic, json!({"partitions": 4})).await.expect(200);
    let grown: String = redis.command(&["HGET", registry, &topic]).await;
    // One after the other, so that they go to all partitions.
    for payload in 0..MESSAGES {
        client.published(&topic, json!({"payload": payload})).await;
    }
    client.pause_topic(&topic).await.expect(200);
    // One knows neither, another that it has grown.
    let mut leased = 0;
    for lost in [&grown, &entry] {
        let _: i64 = redis.command(&["HSET", registry, &topic, lost]).await;
        let second = launch().start().await;
        let answer = second.client().lease(&topic, json!({"max_messages": 100})).await;
        findings.demand(answer.status == 200, "I12", || format!("a lease: {answer}"));
        let held = answer.json()["messages"].as_array().map_or(0, Vec::len);
        findings.demand(held == 0, "I15", || format!("{held} granted of a paused topic"));
        leased += held;
    }
    let answer = client.resume_topic(&topic).await;
    findings.demand(answer.status == 200, "I12", || format!("a resume: {answer}"));
    let third = launch().start().await;
    let answer = third.client().lease(&topic, json!({"max_messages": 100})).await;
    findings.demand(answer.status == 200, "I12", || format!("a lease: {answer}"));
    leased += answer.json()["messages"].as_array().map_or(0, Vec::len);
    findings.demand(leased == MESSAGES, "I1", || format!("{leased} of {MESSAGES} were leased"));
    findings.tally().published += MESSAGES as u64;
    findings.report()
}
