//! The typed client: the steps of `steps.md`, and payloads there and back.

use serde_json::{Value, json};

use crate::harness::*;
use crate::program::Program;

/// Each step printed what `steps.jsonl` says.
pub async fn taken(language: &str) {
    let topic = topic(&format!("steps-{language}"));
    let server = shared().await.dueq.url();
    let lines = Program::start(language, &server, &["steps", "--topic", &topic]).finished().await;
    let wanted: Vec<Value> = include_str!("steps.jsonl").lines().map(parsed).collect();
    for (line, wanted) in lines.iter().zip(&wanted) {
        assert_eq!(&parsed(line), wanted, "a step of {language}");
    }
    assert_eq!(lines.len(), wanted.len(), "steps of {language}: {lines:#?}");
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Payloads of every kind, none with a spelling that a language might change.
const PAYLOADS: [&str; 13] = [
    "null",
    "false",
    "0",
    "\"\"",
    "[]",
    "{}",
    r#"{"a":[null,true,{"b":{"c":[1,2,{"d":null}]}}],"e":""}"#,
    r#""\u0000 ü € 😀 \\ \" /""#,
    "1.5",
    "9007199254740991",
    "-9223372036854775808",
    "123456789012345678901234567890",
    "1e400",
];

/// The largest whole number that JavaScript holds exactly.
const SAFE: f64 = 9_007_199_254_740_991.0;

/// What no double holds; JavaScript has nothing else, and there it becomes null on its way.
const HUGE: [&str; 3] = ["1e400", "1E400", "1E+400"];

/// What the typed client leased it published again, and it is the same value.
pub async fn echoed(language: &str) {
    let client = client().await;
    let server = shared().await.dueq.url();
    let (from, to) = (topic(&format!("echo-{language}")), topic(&format!("echoed-{language}")));
    for payload in PAYLOADS {
        let body = format!(r#"{{"payload": {payload}, "headers": {{"as": "sent"}}}}"#);
        client.post_text(&format!("/topics/{from}/messages"), &body).await.expect(201);
    }
    let words = ["echo", "--topic", &from, "--to", &to];
    Program::start(language, &server, &words).finished().await;
    let answer = client.lease(&to, json!({"max_messages": 100})).await.expect(200);
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    let leased = answer.json()["messages"].take();
    let leased = leased.as_array().expect("messages");
    assert_eq!(leased.len(), PAYLOADS.len(), "{language} published again: {leased:?}");
    for (message, text) in leased.iter().zip(PAYLOADS) {
        assert_eq!(message["headers"], json!({"as": "sent"}), "{language}");
        if HUGE.contains(&text) {
            let held = HUGE.iter().any(|huge| body.contains(&format!("\"payload\":{huge}")));
            assert!(held || language == "typescript", "{language} holds {text}: {body}");
            continue;
        }
        let sent = parsed(text);
        let beyond = sent.as_f64().is_some_and(|number| number.abs() > SAFE);
        if language == "typescript" && beyond {
            assert_eq!(message["payload"].as_f64(), sent.as_f64(), "as near as a number gets");
        } else {
            assert_eq!(message["payload"], sent, "{language}");
            // What a test's number cannot hold either is compared digit by digit.
            assert!(!beyond || body.contains(&format!("\"payload\":{text}")), "{language}: {text}");
        }
    }
}
