//! Requests that nobody would send on purpose: bytes on the wire that are none, for some seconds, and whatever the OpenAPI
//! document allows or forbids, for a minute.

use crate::harness::{Dueq, Redis};
use crate::proof::fuzz::{schema, wire};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fuzz_wire() {
    let seed = std::env::var("DUEQ_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let report = wire::wire(4, seed).await;
    assert!(report.answers > 20 && report.connections > 20, "{report:?}");
    println!("{report:?}");
}

#[tokio::test]
async fn whatever_the_document_allows_or_forbids_is_answered_as_it_says() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).args(["--no-dispatch"]).start().await;
    let walked = schema::walk(&dueq, None, || {}).await;
    assert!(walked.failure.is_none(), "{}", walked.failure.unwrap_or_default());
    println!("{}", walked.shown);
}
