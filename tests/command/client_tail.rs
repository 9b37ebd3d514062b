//! `dueq tail` on a real server: what it sees, what it bears, how it ends.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::dueq;
use crate::harness::*;

#[tokio::test]
async fn a_tail_ends_well_on_ctrl_c_and_waits_for_its_topic() {
    let mut tail = dueq(["tail", &topic("client-tail")]).await.spawn();
    eventually("it waits", || async { tail.log().contains("waiting for it").then_some(()) }).await;
    tail.process.signal_group(Signal::INT);
    assert_eq!(tail.exit().await, 0, "{}", tail.log());
}

#[tokio::test]
async fn a_tail_sees_what_happens_and_takes_nothing() {
    let topic = topic("client-tail");
    let client = client().await;
    client.published(&topic, json!({"payload": 1, "delay_ms": 3_600_000})).await;
    let mut tail = dueq(["tail", &topic]).await.spawn();
    let sees = |what: &'static str| {
        let tail = &tail;
        async move {
            eventually(what, || async { tail.log().contains(what).then_some(()) }).await;
        }
    };
    sees("delayed 1").await;
    client.published(&topic, json!({"payload": 2})).await;
    sees("published +1").await;
    let message = client.lease_one(&topic).await;
    client.ack_leased(&message).await.expect(204);
    sees("acked +1").await;
    tail.process.signal_group(Signal::INT);
    assert_eq!(tail.exit().await, 0, "{}", tail.log());
    assert_eq!(client.total(&topic, "granted").await, 1);
}

#[tokio::test]
async fn a_tail_outlives_a_server_that_goes_away() {
    let topic = topic("client-tail");
    let mut server = instance().await;
    server.client().published(&topic, json!({"payload": 1})).await;
    let mut tail = Launch::command(["tail", &topic, "--server", &server.url()]).spawn();
    eventually("a line", || async { tail.log().contains("ready 1").then_some(()) }).await;
    server.kill9();
    eventually("the reason", || async { tail.log().contains("nothing listens").then_some(()) })
        .await;
    tail.process.signal(Signal::INT);
    assert_eq!(tail.exit().await, 0, "{}", tail.log());
}

#[tokio::test]
async fn a_tail_in_json_prints_each_answer_as_a_line() {
    let topic = topic("client-tail");
    let client = client().await;
    client.published(&topic, json!({"payload": 1})).await;
    let tail = dueq(["tail", &topic, "--json"]).await.spawn();
    eventually("a line", || async { tail.log().contains('\n').then_some(()) }).await;
    client.published(&topic, json!({"payload": 1})).await;
    eventually("two lines", || async { (tail.log().lines().count() == 2).then_some(()) }).await;
    let published = |line: &str| {
        let answer: Value = serde_json::from_str(line).unwrap();
        number(&answer["totals"], "published")
    };
    assert_eq!(tail.log().lines().map(published).collect::<Vec<_>>(), [1, 2]);
}
