//! Clients that hold a connection and give nothing for it: silent ones, half requests, unread answers. They are given up,
//! and meanwhile they keep nobody out.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use crate::harness::*;

const SOON: Duration = Duration::from_secs(10);

/// A connection whose system takes hardly anything in before its program reads.
async fn narrow(addr: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(addr.parse().unwrap()).await.unwrap()
}

/// Asks for this until nothing more goes out, and reads no answer.
async fn ask_and_never_read(addr: &str, path: &str) -> TcpStream {
    let mut stream = narrow(addr).await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(100);
    let stuck = Duration::from_millis(500);
    while let Ok(sent) = tokio::time::timeout(stuck, stream.write_all(request.as_bytes())).await {
        sent.expect("an open connection");
    }
    stream
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_given_up_after_30_s() {
    let client = client().await;
    let given_up = ["/healthz", "/openapi.json"].map(|path| {
        let addr = client.addr();
        async move {
            let mut stream = ask_and_never_read(&addr, path).await;
            let start = Instant::now();
            loop {
                // Room for this is there, however full the connection is, or the connection is gone.
                match tokio::time::timeout(Duration::from_millis(500), stream.write_all(b"x")).await
                {
                    Ok(Err(_)) => break,
                    _ => tokio::time::sleep(Duration::from_millis(500)).await,
                }
                assert!(start.elapsed() < Duration::from_secs(45), "{path}: still open");
            }
        }
    });
    futures_util::future::join_all(given_up).await;
}

#[tokio::test]
async fn who_keeps_silent_makes_room_for_whoever_comes() {
    let dueq = Dueq::on(&shared().await.redis).args(["--max-connections", "10"]).start().await;
    let topic = topic("crowd");
    let head = format!(
        "POST /topics/{topic}/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 100\r\n\r\n{{"
    );
    let mut silent = Vec::new();
    for n in 0..30 {
        let mut wire = Wire::connect(dueq.addr()).await;
        if n % 2 == 0 {
            wire.write(head.as_bytes()).await;
        }
        silent.push(wire);
    }
    let start = Instant::now();
    let client = dueq.client();
    client.get_path("/healthz").await.expect(200);
    client.published(&topic, json!({"payload": 1})).await;
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    eventually("a warning", || async {
        dueq.log().contains("as many connections as there may be").then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_waits_for_dueq_keeps_its_connection_while_others_are_closed() {
    let dueq = Dueq::on(&shared().await.redis).args(["--max-connections", "4"]).start().await;
    let (client, topic) = (dueq.client(), topic("crowd"));
    let mut poll = Wire::connect(dueq.addr()).await;
    let body = "{\"wait_ms\":30000}";
    let head = format!(
        "POST /topics/{topic}/lease HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}",
        body.len()
    );
    assert!(poll.request(&head, body.as_bytes()).await);
    waiters(&client, 1).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(Wire::connect(dueq.addr()).await);
    }
    dueq.client().published(&topic, json!({"payload": 1})).await;
    let answer = poll.answer("the poll", SOON).await.expect("an answer").expect(200);
    assert_eq!(answer.json()["messages"].as_array().unwrap().len(), 1);
}
