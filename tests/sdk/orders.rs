//! The order service that each SDK has as its example: publish, move, cancel, refuse, batch, work, bury, redrive, call back.

use crate::{
    harness::*,
    program::{Program, SIGNING_SECRET},
};

const LINES: [&str; 11] = [
    "published order/1",
    "moved true",
    "cancelled true then false",
    "refused duplicate_key",
    "repeated the same message",
    "batch 3",
    "worked 10 11",
    "dead 12",
    "redriven 1",
    r#"callback {"order":10}"#,
    "unreachable http://127.0.0.1:1",
];

pub async fn served(language: &str) {
    let redis = Redis::start().await;
    let flags = ["--callback-allow", "127.0.0.0/8", "--signing-secret", SIGNING_SECRET];
    let dueq = Dueq::on(&redis).args(flags).start().await;
    let mut program = Program::start(language, &dueq.url(), &["orders"]);
    assert_eq!(program.finished().await, LINES, "{language}");
    let client = dueq.client();
    assert_eq!(client.count("work", "dead").await, 0);
    assert_eq!(client.total("payments", "published").await, 1);
    assert_eq!(client.total("orders", "deleted").await, 1);
}
