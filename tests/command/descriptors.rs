//! A shortage of file descriptors: who takes them all is given up, and nothing of dueq itself ends for lack of one.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::*;

#[tokio::test]
async fn eighty_connections_that_read_nothing_do_not_lock_out_anybody_of_64_files() {
    let redis = &shared().await.redis;
    let launch = Dueq::on(redis).within(["sh", "-c", "ulimit -n 64; exec \"$@\"", "sh"]);
    let dueq = launch.start().await;
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(20);
    let mut held = Vec::new();
    for _ in 0..80 {
        if let Ok(mut stream) = TcpStream::connect(dueq.addr()).await {
            // However much of it goes out.
            let _ = tokio::time::timeout(
                Duration::from_millis(20),
                stream.write_all(request.as_bytes()),
            )
            .await;
            held.push(stream);
        }
    }
    let (start, client, topic) = (Instant::now(), dueq.client(), topic("files"));
    client.get_path("/healthz").await.expect(200);
    client.get_path("/readyz").await.expect(200);
    // Nobody waited before: the exact timers must not be made only now.
    for _ in 0..3 {
        client.published(&topic, json!({"payload": 1, "delay_ms": 500})).await;
        let asked = Instant::now();
        let message = client.lease_one_with(&topic, json!({"wait_ms": 10_000})).await;
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
        client.ack_leased(&message).await.expect(204);
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let log = dueq.log();
    let warnings = log.lines().filter(|line| line.contains("connection")).count() as u64;
    assert!(warnings <= 10 + start.elapsed().as_secs() * 3, "{warnings} lines:\n{log}");
    assert!(!log.contains("panicked"), "{log}");
}
