//! Clients that hold a connection by TLS and give nothing for it are given up as those without TLS are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::*;
use crate::tls::started;

const SOON: Duration = Duration::from_secs(10);

/// Whether the server has closed this within the time.
async fn closed(stream: &TcpStream, limit: Duration) -> bool {
    let gone = async {
        loop {
            match stream.peek(&mut [0]).await {
                Ok(0) | Err(_) => return,
                Ok(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(limit, gone).await.is_ok()
}

#[tokio::test]
async fn a_handshake_that_is_not_finished_is_given_up() {
    let (dueq, _) = started(&[]).await;
    let start = Instant::now();
    let beginnings: [&[u8]; 3] = [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"];
    let given_up = beginnings.map(|bytes| {
        let addr = dueq.addr().to_owned();
        async move {
            let mut stream = TcpStream::connect(addr).await.unwrap();
            stream.write_all(bytes).await.unwrap();
            assert!(closed(&stream, Duration::from_secs(20)).await, "{bytes:?}");
        }
    });
    futures_util::future::join_all(given_up).await;
    assert!(start.elapsed() > Duration::from_secs(5), "a slow client has some time");
}

#[tokio::test]
async fn handshakes_that_stand_still_make_room_for_whoever_comes() {
    let (dueq, config) = started(&["--max-connections", "10"]).await;
    let mut silent = Vec::new();
    for n in 0..30 {
        let mut stream = TcpStream::connect(dueq.addr()).await.unwrap();
        if n % 2 == 0 {
            stream.write_all(b"\x16\x03\x01\x02\x00").await.unwrap();
        }
        silent.push(stream);
    }
    let start = Instant::now();
    Wire::get_tls(dueq.addr(), &config, "/healthz").await.unwrap().expect(200);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

/// How many long polls wait.
async fn waiting(dueq: &Dueq, config: &Arc<ClientConfig>) -> Option<String> {
    let metrics = Wire::get_tls(dueq.addr(), config, "/metrics").await.unwrap();
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    text.lines().find_map(|line| line.strip_prefix("dueq_waiters ").map(str::to_owned))
}

#[tokio::test]
async fn a_consumer_that_is_gone_is_noticed_however_it_goes() {
    let (dueq, config) = started(&[]).await;
    let body = "{\"wait_ms\":30000}";
    // The second sends more than hyper takes, so that hyper does not look for the end.
    for (more, polite) in
        [("", true), ("", false), ("\r\n", true), ("GET / HTTP/1.1\r\n\r\n", false)]
    {
        let topic = topic("gone");
        let stream = TcpStream::connect(dueq.addr()).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let mut stream = TlsConnector::from(config.clone()).connect(name, stream).await.unwrap();
        let request = format!(
            "POST /topics/{topic}/lease HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}{more}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        eventually("it waits", || async { (waiting(&dueq, &config).await? == "1").then_some(()) })
            .await;
        if polite {
            stream.shutdown().await.unwrap();
        }
        drop(stream);
        let start = Instant::now();
        eventually("nobody waits", || async {
            (waiting(&dueq, &config).await? == "0").then_some(())
        })
        .await;
        assert!(start.elapsed() < Duration::from_secs(5), "{more:?} {polite}");
    }
}

#[tokio::test]
async fn a_refusal_is_seen_by_who_sends_its_whole_body_first() {
    let (dueq, config) = started(&["--api-key", "a-key-of-thirty-two-characters-ab"]).await;
    let body = vec![b' '; 8_000_000];
    let mut wire = Wire::tls(dueq.addr(), &config).await.unwrap();
    let head = format!(
        "POST /topics/t/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}",
        body.len()
    );
    assert!(wire.request(&head, &body).await, "closed meanwhile");
    let answer = wire.answer("a refusal", SOON).await.expect("an answer");
    assert_eq!(answer.status, 401, "{answer}");
}

#[tokio::test]
async fn large_bodies_go_both_ways() {
    let (dueq, config) = started(&[]).await;
    let topic = topic("large");
    let body = format!("{{\"payload\": \"{}\"}}", "x".repeat(200_000));
    let mut wire = Wire::tls(dueq.addr(), &config).await.unwrap();
    for _ in 0..5 {
        let head = format!(
            "POST /topics/{topic}/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}",
            body.len()
        );
        assert!(wire.request(&head, body.as_bytes()).await);
        wire.answer("a publish", SOON).await.unwrap().expect(201);
    }
    let want = "{\"max_messages\": 3}";
    let head = format!(
        "POST /topics/{topic}/lease HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}",
        want.len()
    );
    assert!(wire.request(&head, want.as_bytes()).await);
    let leased = wire.answer("a lease", SOON).await.unwrap().expect(200).json();
    let messages = leased["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3);
    assert!(messages.iter().all(|m| m["payload"] == json!("x".repeat(200_000))));
}
