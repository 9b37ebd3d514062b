//! Connections to Redis that are closed while nothing is under way on them.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::harness::{Dueq, Redis, topic};
use crate::proof::bugs::between;
use crate::proof::proxy::Proxy;
use crate::proof::scenarios::findings::Findings;
use crate::proof::stage::{Report, Setting};

/// By then dueq can know that a connection was closed.
const CLOSED: Duration = Duration::from_millis(100);

/// What comes after Redis has closed all connections is served: nothing of it was sent before.
pub async fn closed(setting: Setting) -> Report {
    let mut findings = Findings::new("closed", &setting);
    let redis = Redis::start().await;
    let proxy = Proxy::of(&redis).await;
    proxy.set(between::mode(setting.bug));
    let hasty = ["--redis-timeout-ms", "1000"];
    let dueq = Dueq::at(&proxy.url()).args(hasty).bug(setting.bug).start().await;
    let (client, topic) = (dueq.client(), topic("closed"));
    client.published(&topic, json!({"payload": 0})).await;
    for payload in 1..=10 {
        let _: i64 = redis.command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
        sleep(CLOSED).await;
        let answer = client.publish(&topic, json!({"payload": payload})).await;
        findings.demand(answer.status == 201, "I15", || format!("nothing was sent: {answer}"));
    }
    findings.tally().published += 11;
    findings.report()
}
