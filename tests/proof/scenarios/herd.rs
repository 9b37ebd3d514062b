//! Many waiters and one message.

use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::crew::Crew;
use super::findings::{CONTRACT, Findings};
use crate::harness::{Client, number, text, topic, waiters};
use crate::proof::stage::{Report, Setting};

/// A waiter's place in the order of arrival, by block, and the messages it was answered with.
type Answered = (usize, Vec<serde_json::Value>);

/// A crowd (5,000 in the long form) waits in long polls for one message: one of them is granted it, and all others go on
/// waiting. When the rest comes, they get theirs in the order in which they arrived.
pub async fn herd(setting: Setting) -> Report {
    let mut findings = Findings::new("herd", &setting);
    let crew = Crew::start(&setting, 1).await;
    let (client, topic) = (crew.client(0), topic("herd"));
    // Who came first is known of blocks: within one all come at once.
    let (blocks, block) = if setting.messages > 0 { (50, 100) } else { (15, 20) };
    let all = blocks * block;
    let mut polls: JoinSet<Answered> = JoinSet::new();
    for number in 0..blocks {
        for _ in 0..block {
            polls.spawn(poll(client.clone(), topic.clone(), number));
        }
        waiters(&client, ((number + 1) * block) as u32).await;
    }
    client.published(&topic, json!({"payload": 0})).await;
    let first = polls.join_next().await.expect("a waiter").expect("an answer");
    sleep(Duration::from_millis(500)).await;
    let mut answers = vec![first];
    while let Some(early) = polls.try_join_next() {
        answers.push(early.expect("an answer"));
    }
    let granted = number(&client.topic(&topic).await.expect(200).json()["totals"], "granted");
    findings.demand(answers.len() == 1, "I4", || format!("one message answered {answers:?}"));
    findings.demand(granted == 1, "I4", || format!("one message was granted {granted} times"));
    waiters(&client, (all - answers.len()) as u32).await;
    findings.tell(format!("{} go on waiting", all - answers.len()));

    let rest: Vec<_> = (1..all).map(|n| json!({"payload": n})).collect();
    client.fill(&topic, &rest).await;
    while let Some(answer) = polls.join_next().await {
        answers.push(answer.expect("an answer"));
    }
    findings.tally().published += all as u64;
    let mut seen = vec![0; all];
    for (came, messages) in &answers {
        findings
            .demand(messages.len() == 1, "I12", || format!("a waiter was answered {messages:?}"));
        for message in messages {
            let n = number(message, "payload") as usize;
            findings.demand(n / block == *came, CONTRACT, || {
                format!("of {blocks} blocks the waiter of number {came} got message {n}")
            });
            seen[n] += 1;
            findings.tally().grants += 1;
        }
    }
    findings.tally().granted += seen.iter().filter(|times| **times > 0).count() as u64;
    for (n, times) in seen.iter().enumerate().filter(|(_, times)| **times != 1) {
        findings.broken("I4", format!("message {n} was granted to {times} waiters"));
    }
    let acks = answers.iter().flat_map(|(_, messages)| messages).map(
        |message| json!({"id": text(message, "id"), "lease_token": text(message, "lease_token")}),
    );
    for part in acks.collect::<Vec<_>>().chunks(1_000) {
        client.held_batch("ack", part).await;
    }
    findings.audit(&crew.redis, &client, &topic).await;
    findings.report()
}

/// One long poll for one message.
async fn poll(client: Client, topic: String, came: usize) -> Answered {
    let want = json!({"wait_ms": 60_000, "lease_ms": 60_000});
    (came, client.leased(&topic, want).await)
}
