//! Clients that hold a connection and give nothing for it: silent ones, half requests, unread answers. They are given up,
//! and meanwhile they keep nobody out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use serde_json::json;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

use crate::harness::*;
use crate::tls::started;

const SOON: Duration = Duration::from_secs(10);

/// A connection whose system takes hardly anything in before its program reads.
pub async fn narrow(addr: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(addr.parse().unwrap()).await.unwrap()
}

/// Asks for this until nothing more goes out, and reads no answer.
pub async fn ask_and_never_read<S: AsyncWrite + Unpin>(mut stream: S, path: &str) -> S {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").repeat(100);
    let stuck = Duration::from_millis(500);
    while let Ok(sent) = tokio::time::timeout(stuck, stream.write_all(request.as_bytes())).await {
        sent.expect("an open connection");
    }
    stream
}

/// A TLS connection that is only written, whose system takes hardly anything in.
async fn written_only(addr: &str, config: Arc<ClientConfig>) -> impl AsyncWrite + Unpin + use<> {
    let name = "localhost".try_into().unwrap();
    let stream = TlsConnector::from(config).connect(name, narrow(addr).await).await.unwrap();
    tokio::io::split(stream).1
}

/// Asks for this, reads nothing, and waits until the connection is gone: there is always room for a little more.
async fn given_up<S: AsyncWrite + Unpin>(stream: S, path: &str) {
    let mut stream = ask_and_never_read(stream, path).await;
    let start = Instant::now();
    loop {
        let more = stream.write_all(&[b'x'; 4096]);
        match tokio::time::timeout(Duration::from_millis(500), more).await {
            Ok(Err(_)) => break,
            _ => tokio::time::sleep(Duration::from_millis(500)).await,
        }
        assert!(start.elapsed() < Duration::from_secs(50), "{path}: still open");
    }
    assert!(start.elapsed() > Duration::from_secs(10), "{path}: a slow client has some time");
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_given_up_after_30_s_with_tls_and_without() {
    mostly_waits();
    let client = client().await;
    let (dueq, config) = started(&[]).await;
    let all = ["/healthz", "/openapi.json"].map(async |path| {
        let plain = given_up(narrow(&client.addr()).await, path);
        tokio::join!(plain, given_up(written_only(dueq.addr(), config.clone()).await, path));
    });
    futures_util::future::join_all(all).await;
}

#[tokio::test]
async fn who_keeps_silent_makes_room_for_whoever_comes() {
    mostly_waits();
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
        dueq.log().contains("the limit of connections").then_some(())
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

#[tokio::test]
async fn who_goes_on_sending_keeps_its_connection_while_others_keep_silent() {
    let dueq = Dueq::on(&shared().await.redis).args(["--max-connections", "4"]).start().await;
    let topic = topic("crowd");
    let mut upload = Wire::connect(dueq.addr()).await;
    let head = format!(
        "POST /topics/{topic}/messages/raw HTTP/1.1\r\nhost: localhost\r\ncontent-length: 200000"
    );
    assert!(upload.request(&head, b"").await);
    let mut silent = Vec::new();
    for _ in 0..25 {
        for _ in 0..2 {
            silent.push(Wire::connect(dueq.addr()).await);
        }
        assert!(upload.write(&[b'x'; 8_000]).await, "closed after {} others", silent.len());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    upload.answer("the upload", SOON).await.expect("an answer").expect(201);
}

#[tokio::test]
async fn where_all_places_are_long_polls_the_oldest_ends_for_whoever_comes() {
    let dueq = Dueq::on(&shared().await.redis).args(["--max-connections", "3"]).start().await;
    let topic = topic("crowd");
    let body = "{\"wait_ms\":60000}";
    let head = format!(
        "POST /topics/{topic}/lease HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}",
        body.len()
    );
    let mut polls = Vec::new();
    for _ in 0..3 {
        let mut poll = Wire::connect(dueq.addr()).await;
        assert!(poll.request(&head, body.as_bytes()).await);
        polls.push(poll);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let start = Instant::now();
    dueq.client().get_path("/healthz").await.expect(200);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let answer = polls[0].answer("the oldest", SOON).await.expect("an answer").expect(200);
    assert_eq!(answer.json()["messages"], json!([]));
    assert_eq!(answer.header("connection"), "close");
    let others = polls[2].closes_within(Duration::from_millis(300)).await;
    assert!(!others, "one place was wanted");
}

#[tokio::test]
async fn a_refusal_is_seen_by_who_sends_its_whole_body_first() {
    let redis = &shared().await.redis;
    let open = Dueq::on(redis).start().await;
    let closed =
        Dueq::on(redis).args(["--api-key", "a-key-of-thirty-two-characters-ab"]).start().await;
    let body = vec![b' '; 8_000_000];
    for (dueq, request, more, status) in [
        (&closed, "POST /topics/t/messages", "", 401),
        (&open, "POST /topics/t/messages", "\r\norigin: http://elsewhere", 403),
        (&open, "POST /topics/_t/messages", "", 403),
        (&open, "POST /nothing", "", 404),
        (&open, "PUT /topics/t/messages", "", 405),
        (&open, "POST /topics/a..b/messages", "", 400),
    ] {
        let mut wire = Wire::connect(dueq.addr()).await;
        let head = format!(
            "{request} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}{more}",
            body.len()
        );
        assert!(wire.request(&head, &body).await, "{status} {request}: closed meanwhile");
        let answer = wire.answer(request, SOON).await.expect("an answer");
        assert_eq!(answer.status, status, "{request}: {answer}");
    }
}

/// Bytes that the system holds of what was written to this client.
fn unread(dueq: &Dueq, client: &TcpStream) -> u64 {
    let hex = |port: &str| format!(":{:04X}", port.parse::<u16>().unwrap());
    let local = hex(dueq.addr().rsplit(':').next().unwrap());
    let remote = hex(&client.local_addr().unwrap().port().to_string());
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let fields = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut held = fields.filter(|f| f[1].ends_with(&local) && f[2].ends_with(&remote));
    held.next().map_or(0, |f| u64::from_str_radix(f[4].split(':').next().unwrap(), 16).unwrap())
}

#[tokio::test]
async fn the_system_holds_little_of_an_answer_so_that_reading_it_is_seen() {
    let dueq = Dueq::on(&shared().await.redis).start().await;
    let (client, topic) = (dueq.client(), topic("unread"));
    let large = "x".repeat(250_000);
    for _ in 0..16 {
        client.published(&topic, json!({"payload": large})).await;
    }
    let mut stream = narrow(dueq.addr()).await;
    let path = format!("/topics/{topic}/messages?state=ready&payload=true");
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let held = eventually("the answer stands still", || async {
        let before = unread(&dueq, &stream);
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = unread(&dueq, &stream);
        (now > 0 && now == before).then_some(now)
    })
    .await;
    assert!(held <= 300 * 1024, "{held}");
}
