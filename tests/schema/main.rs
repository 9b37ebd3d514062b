//! The OpenAPI document walked by schemathesis for a minute; `tests/proof/fuzz/schema.rs` says how.
//!
//! What is asked of each answer, and what is not, stands in `schemathesis.toml` beside this file.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../proof/fuzz/mod.rs"]
mod fuzz;
#[path = "../harness/mod.rs"]
mod harness;

use crate::harness::*;

#[tokio::test]
async fn whatever_the_document_allows_or_forbids_is_answered_as_it_says() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).args(["--no-dispatch"]).start().await;
    let walked = fuzz::schema::walk(&dueq, None, || {}).await;
    assert!(walked.failure.is_none(), "{}", walked.failure.unwrap_or_default());
    println!("{}", walked.shown);
}
