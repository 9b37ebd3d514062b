//! What a call costs that gets no answer: `cargo test --test push -- --ignored --nocapture call_memory`.

use std::time::Duration;

use dueq_loops::callbacks::CallRequest;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{caller, carried_out, request};

const CALLS: usize = 2_000;

/// Resident memory of this process, bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1_024
}

#[tokio::test]
#[ignore = "a measurement: it wants the process for itself"]
async fn a_call_that_is_never_answered_costs_well_below_64_kib() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (accepted, mut count) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        // Held, never read: the same process pays for it, so what is measured is more than the calls.
        let mut held = Vec::with_capacity(CALLS);
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
            let _ = accepted.send(());
        }
    });
    let caller = caller(&["127.0.0.0/8"], None);
    let before = resident();
    let calls: Vec<_> = (0..CALLS)
        .map(|_| {
            let (caller, request) = (caller.clone(), request(&url));
            let request = CallRequest { timeout: Duration::from_secs(60), ..request };
            tokio::spawn(async move { carried_out(&caller, request).await })
        })
        .collect();
    for _ in 0..CALLS {
        count.recv().await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let each = (resident() - before) / CALLS;
    println!("{each} bytes a call");
    assert!(each < 32 * 1_024, "{each} bytes a call");
    calls.iter().for_each(tokio::task::JoinHandle::abort);
}
