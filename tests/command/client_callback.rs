//! `dueq callback`: what it schedules, and what it refuses before it asks anybody. Nothing is called here: all of it is due
//! far in the future.

use serde_json::json;

use crate::client::{answer, done, failed};
use crate::harness::*;

/// A name of the documentation (RFC 2606): nobody is called even if something goes wrong.
const URL: &str = "https://callback.invalid/hook";

#[tokio::test]
async fn a_callback_is_scheduled_shown_and_deleted() {
    let words = ["callback", URL, r#"{"order": 42}"#, "--delay", "30m", "--method", "put"];
    let scheduled = answer(&[&words[..], &["--timeout", "20s"]].concat()).await;
    assert_eq!(
        (&scheduled["topic"], &scheduled["state"]),
        (&json!("_callbacks"), &json!("delayed"))
    );
    let id = text(&scheduled, "id");
    let shown = done(&["get", id]).await;
    for part in [&format!("PUT {URL}"), "within 20s", r#"{"order": 42}"#, "delayed", "(in 29m"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(done(&["delete", id]).await, format!("deleted {id}\n"));
}

#[tokio::test]
async fn a_callback_needs_no_payload_and_can_have_a_key() {
    let key = topic("key");
    let words = ["callback", URL, "--at", "2099-01-01T00:00:00Z", "--key", &key, "--header", "a=b"];
    let first = answer(&words).await;
    let again = answer(&words).await;
    assert_eq!((&again["id"], &again["duplicate"]), (&first["id"], &json!(true)));
    assert_eq!(answer(&["get", text(&first, "id")]).await["headers"], json!({"a": "b"}));
    done(&["delete", "--topic", "_callbacks", "--key", &key]).await;
}

#[tokio::test]
async fn a_url_that_cannot_be_called_is_refused_by_the_server() {
    for (url, told) in [
        ("ftp://callback.invalid/", "url"),
        ("http://169.254.169.254/", "callback_address_refused"),
    ] {
        let said = failed(1, &["callback", url, "--delay", "1h"]).await;
        assert!(said.starts_with("dueq: ") && said.contains(told), "{said}");
    }
}

#[tokio::test]
async fn wrong_usage_of_callback_ends_with_2() {
    for words in [
        &["callback"][..],
        &["callback", URL, "--method", "trace"],
        &["callback", URL, "--timeout", "soon"],
        &["callback", URL, "--delay", "1m", "--at", "2099-01-01T00:00:00Z"],
        &["callback", URL, "--header", "a"],
        &["callback", URL, "--file", "/not/there"],
    ] {
        failed(2, words).await;
    }
}

#[tokio::test]
async fn a_message_of_a_pushed_topic_names_its_own_url() {
    let topic = topic("client-pushed");
    client()
        .await
        .configure(&topic, json!({"push": {"url": "https://callback.invalid/all"}}))
        .await;
    let words = ["publish", &topic, "1", "--delay", "1h", "--callback", URL];
    let published = answer(&words).await;
    let shown = done(&["get", text(&published, "id")]).await;
    assert!(shown.contains(URL), "{shown}");
    let shown = done(&["topic", &topic]).await;
    assert!(shown.contains("pushed to  https://callback.invalid/all"), "{shown}");
}
