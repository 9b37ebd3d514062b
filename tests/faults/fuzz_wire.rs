//! Bytes on the wire that are no requests, for some seconds.

use crate::proof::fuzz::wire;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fuzz_wire() {
    let seed = std::env::var("DUEQ_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let report = wire::wire(4, seed).await;
    assert!(report.answers > 20 && report.connections > 20, "{report:?}");
    println!("{report:?}");
}
