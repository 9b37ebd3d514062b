//! `dueq update` and `dueq topic set` on a real server.

use serde_json::json;

use crate::client::{answer, done, failed};
use crate::harness::*;

#[tokio::test]
async fn a_message_is_changed_in_place() {
    let topic = topic("client-update");
    let words = ["publish", &topic, "1", "--delay", "1h", "--ttl", "2h", "--header", "a=b"];
    let published = answer(&words).await;
    let id = text(&published, "id");
    let changes = ["--payload", r#"{"n": 1.50}"#, "--delay", "150m30s", "--priority", "7"];
    let more = ["--header", "c=d", "--max-attempts", "3", "--reset", "ttl"];
    let shown = done(&[&["update", id], &changes[..], &more].concat()).await;
    for part in [id, r#"{"n": 1.50}"#, "(in 2h 30m)", "7", "c: d", "0 (3 left)", "updated"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let message = answer(&["get", id]).await;
    assert_eq!((&message["headers"], message.get("ttl_ms")), (&json!({"c": "d"}), None));
}

#[tokio::test]
async fn a_message_is_changed_by_its_key_and_from_a_file() {
    let topic = topic("client-update");
    done(&["publish", &topic, "1", "--key", "a/b", "--delay", "1h"]).await;
    let file = temp_dir("payload").join("file");
    std::fs::write(&file, b"\xff\x00").unwrap();
    let by_key = ["update", "--topic", &topic, "--key", "a/b"];
    let to = ["--file", file.to_str().unwrap(), "--at", "2000-01-01T00:00:00Z"];
    let message = answer(&[&by_key, &to[..]].concat()).await;
    assert_eq!((&message["payload_base64"], &message["state"]), (&json!("/wA="), &json!("ready")));
}

#[tokio::test]
async fn what_cannot_be_changed_is_refused() {
    let topic = topic("client-update");
    let id = text(&answer(&["publish", &topic, "1"]).await, "id").to_owned();
    let told = failed(1, &["update", &id, "--priority", "256"]).await;
    assert!(told.contains("priority: "), "{told}");
    answer(&["lease", &topic, "--wait", "5s"]).await;
    let told = failed(1, &["update", &id, "--delay", "1h"]).await;
    assert!(told.ends_with("(409 message_leased)\n"), "{told}");
    let told = failed(2, &["update", &id]).await;
    assert_eq!(told, "dueq: nothing to change: see dueq update --help\n");
    for words in [
        &["update"][..],
        &["update", "--delay", "1h"],
        &["update", &id, "--delay", "1h", "--at", "2030-01-01T00:00:00Z"],
        &["update", &id, "--file", "/not/there"],
        &["update", &id, "--reset", "payload"],
        &["update", &id, "--ttl", "1h", "--reset", "ttl"],
    ] {
        failed(2, words).await;
    }
}

#[tokio::test]
async fn settings_of_a_topic_are_changed_and_reset() {
    let topic = topic("client-set");
    done(&["publish", &topic, "1"]).await;
    let set =
        ["max_attempts=5", "lease_ms=1m30s", "dead_topic=failed", r#"retention={"acked_ms":5}"#];
    let shown = done(&[&["topic", "set", &topic], &set[..]].concat()).await;
    for part in ["1m 30s", "failed", r#""acked_ms":5"#] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let after = answer(&["topic", "set", &topic, "lease_ms=null"]).await;
    let config = &after["config"];
    assert_eq!((&config["lease_ms"], &config["max_attempts"]), (&json!(30_000), &json!(5)));
    // As the help says, an object is replaced as a whole.
    let help = done(&["topic", "set", "--help"]).await;
    assert!(help.contains("backoff, retention and push are replaced as a whole"), "{help}");
    let after = answer(&["topic", "set", &topic, r#"retention={"dead_ms":7777777}"#]).await;
    assert_eq!(after["config"]["retention"]["acked_ms"], 0, "{after}");
}

#[tokio::test]
async fn wrong_settings_are_refused() {
    let topic = topic("client-set");
    done(&["publish", &topic, "1"]).await;
    for (setting, field) in [
        ("max_attempts=0", "max_attempts"),
        ("max_attempts=five", "max_attempts"),
        ("nobody=1", "nobody"),
        ("backoff={kind: fixed}", "backoff"),
    ] {
        let told = failed(1, &["topic", "set", &topic, setting]).await;
        assert!(told.contains(&format!("{field}: ")), "{told}");
    }
    // The last is how to show a topic that is called `set`.
    for words in [&["topic", "set", "nobody-has-this", "lease_ms=1m"][..], &["topic", "--", "set"]]
    {
        let told = failed(1, words).await;
        assert!(told.ends_with("(404 topic_not_found)\n"), "{told}");
    }
    for words in [&["topic"][..], &["topic", "set", "a"], &["topic", "set", "a", "lease_ms"]] {
        failed(2, words).await;
    }
    let told = failed(2, &["topic", "set", "a", "lease_ms=soon"]).await;
    assert!(told.contains("a duration looks like 10m"), "{told}");
}
