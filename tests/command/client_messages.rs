//! `dueq messages` on a real server.

use serde_json::{Value, json};

use crate::client::{done, dueq, failed};
use crate::harness::*;

/// A topic with a message in each state that lasts: their ids, in the order in which the states are listed.
async fn filled() -> (String, [String; 4]) {
    let (topic, client) = (topic("client-messages"), client().await);
    let dead = client.published(&topic, json!({"payload": 1})).await;
    let message = client.lease_one(&topic).await;
    let reason = json!({"dead": true, "reason": "no such order"});
    client.nack_leased(&message, reason).await.expect(200);
    let leased = client.published(&topic, json!({"payload": 2})).await;
    client.lease_one(&topic).await;
    let ready = client.published(&topic, json!({"payload": 3, "key": "order/42"})).await;
    let delayed = client.published(&topic, json!({"payload": 4, "delay_ms": 3_600_000})).await;
    (topic, [delayed, ready, leased, dead])
}

#[tokio::test]
async fn every_state_is_listed_as_a_table() {
    let (topic, ids) = filled().await;
    let table = done(&["messages", &topic]).await;
    let (head, rows) = table.split_once('\n').unwrap();
    for column in ["ID", "STATE", "DUE", "LEASE ENDS", "ATTEMPTS", "KEY", "DIED", "LAST ERROR"] {
        assert!(head.contains(column), "{column}: {table}");
    }
    let states = ["delayed", "ready", "leased", "dead"];
    assert_eq!(rows.lines().count(), states.len(), "{table}");
    for ((row, id), state) in rows.lines().zip(&ids).zip(states) {
        assert!(row.starts_with(&format!("{id}  {state} ")), "{row}");
    }
    assert!(rows.contains("(in 59m") && rows.contains("order/42"), "{table}");
    assert!(rows.contains("no such order"), "{table}");
}

#[tokio::test]
async fn one_state_is_listed_as_lines_of_json() {
    let (topic, [.., leased, dead]) = filled().await;
    let lines = done(&["messages", &topic, "--state", "dead,leased", "--json"]).await;
    let messages: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(messages.len(), 2, "{lines}");
    assert_eq!((&messages[0]["id"], &messages[0]["attempts"]), (&json!(dead), &json!(1)));
    assert_eq!((&messages[1]["id"], &messages[1]["state"]), (&json!(leased), &json!("leased")));
}

#[tokio::test]
async fn a_list_is_bounded_and_says_when_there_may_be_more() {
    let (topic, client) = (topic("client-messages"), client().await);
    client.published_batch(&topic, &vec![json!({"payload": 1}); 100]).await;
    assert_eq!(done(&["messages", &topic]).await.lines().count(), 101, "all of them: no warning");
    client.published(&topic, json!({"payload": 1})).await;
    let lines = |text: &str| text.lines().count();
    for (words, count) in [(&["--limit", "2"][..], 3), (&["--limit", "5000"], 102)] {
        assert_eq!(lines(&done(&[&["messages", &topic], words].concat()).await), count);
    }
    let finished = dueq(["messages", &topic]).await.finish().await;
    let told = "dueq: these are the first 100; --limit lists more\n";
    assert_eq!((lines(&finished.stdout), &*finished.stderr), (101, told), "{finished:?}");
    // The first hundred are all that are ready: what is left is in another state.
    client.lease_one(&topic).await;
    let finished = dueq(["messages", &topic, "--state", "ready,leased"]).await.finish().await;
    assert_eq!((lines(&finished.stdout), &*finished.stderr), (101, told), "{finished:?}");
}

#[tokio::test]
async fn nothing_to_list_is_said_and_wrong_usage_refused() {
    let (topic, _) = filled().await;
    assert_eq!(done(&["messages", &topic, "--state", "acked"]).await, "no messages\n");
    assert_eq!(done(&["messages", &topic, "--state", "acked", "--json"]).await, "");
    let told = failed(1, &["messages", "nobody-has-this"]).await;
    assert!(told.ends_with("(404 topic_not_found)\n"), "{told}");
    for words in [
        &["messages"][..],
        &["messages", "a", "--state", "done"],
        &["messages", "a", "--state"],
        &["messages", "a", "--limit", "0"],
        &["messages", "a", "--limit", "-1"],
        &["messages", "a", "b"],
    ] {
        failed(2, words).await;
    }
}
