//! The worker, while the server and the worker itself are killed and stopped.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::*;
use crate::program::Program;

const MESSAGES: usize = 2_000;
/// The last message falls due this long after the first, so that something is always to do.
const SPREAD_MS: usize = 10_000;
const LEASE_MS: i64 = 2_000;

/// Starts the worker of this language and waits until it works.
async fn worker(language: &str, server: &str, topic: &str) -> Program {
    let words = ["work", "--topic", topic, "--concurrency", "16", "--prefetch", "20"];
    let mut program = Program::start(language, server, &words);
    program.until("ready", |program| program.lines().iter().any(|line| line == "ready")).await;
    program
}

/// The distinct messages that these workers handled.
fn handled(programs: &[&Program]) -> HashSet<String> {
    programs.iter().flat_map(|program| program.said("handled")).collect()
}

/// 2,000 messages, of which 5 % fail once; the server killed and restarted, the worker stopped,
/// another killed: every message is handled, none was acked before it was, and the counts add up.
pub async fn killed(language: &str) {
    let redis = Redis::start().await;
    let address = format!("127.0.0.1:{}", free_port());
    let mut dueq = Dueq::on(&redis).listen(&address).start().await;
    let (client, server, topic) = (dueq.client(), dueq.url(), topic(language));
    let config = json!({"lease_ms": LEASE_MS, "backoff": {"kind": "fixed", "base_ms": 100}});
    client.new_topic(&topic, config).await;
    // Its folder is made before the clock runs.
    let first = worker(language, &server, &topic).await;
    let messages: Vec<Value> = (0..MESSAGES)
        .map(|n| json!({"payload": {"n": n}, "delay_ms": n * SPREAD_MS / MESSAGES}))
        .collect();
    let ids: HashSet<String> = client.fill(&topic, &messages).await.into_iter().collect();

    let mut first = first;
    first.until("300 handled", |program| program.said("handled").len() >= 300).await;
    let before = first.said("handled").len();
    dueq.kill9();
    sleep(Duration::from_millis(500)).await;
    let dueq = Dueq::on(&redis).listen(&address).start().await;
    let client = dueq.client();
    let goes_on = |program: &Program| program.said("handled").len() > before + 100;
    first.until("it went on after the restart", goes_on).await;
    // What the dead server had granted and could not say is leased until its time is over.
    sleep(Duration::from_millis(LEASE_MS as u64 + 500)).await;
    first.stopped().await;
    assert_eq!(client.count(&topic, "leased").await, 0, "a stopped worker of {language} holds");
    no_ack_before_its_handler(&client, &topic, &[&first]).await;

    let mut second = worker(language, &server, &topic).await;
    second.until("100 handled", |program| program.said("handled").len() >= 100).await;
    second.killed();
    no_ack_before_its_handler(&client, &topic, &[&first, &second]).await;

    let mut third = worker(language, &server, &topic).await;
    eventually("every message acked", || async {
        (client.total(&topic, "acked").await == MESSAGES as i64).then_some(())
    })
    .await;
    third.stopped().await;

    let programs = [&first, &second, &third];
    assert_eq!(handled(&programs), ids, "messages of {language} handled, and published");
    let failed: HashSet<String> = programs.iter().flat_map(|p| p.said("failed")).collect();
    assert!(failed.len() > MESSAGES / 20 / 2, "{language}: {} failed once", failed.len());
    let counted = client.topic(&topic).await.expect(200).json();
    for (state, count) in counted["counts"].as_object().expect("counts") {
        assert_eq!(count, 0, "{state} in the end: {counted}");
    }
    assert_eq!(counted["totals"]["published"], MESSAGES);
    assert!(number(&counted["totals"], "nacked") > (MESSAGES / 20 / 2) as i64, "{counted}");
    let audit = Launch::command(["audit", "--redis-url", &redis.url()]).finish().await;
    assert_eq!(audit.code, 0, "{}{}", audit.stdout, audit.stderr);
}

/// A handler prints its line before it returns, so what is acked must have been said.
async fn no_ack_before_its_handler(client: &Client, topic: &str, programs: &[&Program]) {
    let acked = client.total(topic, "acked").await;
    let said = handled(programs).len() as i64;
    assert!(acked <= said, "{acked} acked, {said} handled");
}

/// A message that goes away while its handler works: the handler is told. One that takes several
/// times its lease is handled once, because its lease is extended meanwhile.
pub async fn lost(language: &str) {
    let client = client().await;
    let server = shared().await.dueq.url();
    let topic = topic(&format!("lose-{language}"));
    client.new_topic(&topic, json!({"retention": {"acked_ms": 60_000}})).await;
    let gone = client.published(&topic, json!({"payload": {"n": 1}})).await;
    let long = client.published(&topic, json!({"payload": {"long": true}})).await;
    let mut program = Program::start(language, &server, &["lose", "--topic", &topic]);
    program_holds(&client, &topic).await;
    client.delete_by_force(&gone).await.expect(204);
    program.until("told", |program| program.said("cancelled") == [gone.clone()]).await;
    program.until("done", |program| program.said("long") == [long.clone()]).await;
    eventually("it is acked", || async { (client.state(&long).await == "acked").then_some(()) })
        .await;
    assert_eq!(client.get(&long).await.number("attempts"), 1, "{language} kept the lease");
    program.stopped().await;
}

/// Waits until both messages are leased; the first run of a language prepares its folder.
async fn program_holds(client: &Client, topic: &str) {
    for _ in 0..1200 {
        if client.count(topic, "leased").await == 2 {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("two minutes passed, and nobody leased from {topic}");
}

/// What a real server seldom does: the worker's hard parts, in the language's own tests.
pub async fn hard(language: &str) {
    let server = shared().await.dueq.url();
    if language == "java" {
        for what in ["hard", "payloads"] {
            let topic = topic(what);
            Program::start(language, &server, &[what, "--topic", &topic]).finished().await;
        }
    } else {
        Program::start(language, &server, &["unit"]).finished().await;
    }
}
