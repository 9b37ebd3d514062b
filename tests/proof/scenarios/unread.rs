//! Clients that never read, and never end what they say; receivers that do the same.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::crew::Crew;
use super::findings::{BITE, Findings};
use crate::harness::{Client, Receiver, topic};
use crate::proof::history::Ms;
use crate::proof::stage::{Report, Setting};

/// Connections of each kind.
const CROWD: usize = 25;
/// An answer that nobody reads for 30 s ends its connection; so does a request that stops half way.
const ENDS: Duration = Duration::from_secs(45);
/// What others may have to wait, beyond what they ask for; answers that nobody reads cost a debug build on two busy cores seconds.
const MOST: Ms = 10_000;

/// Crowds send half a request, or many requests whose answers they never read, and stay; and messages are called out to
/// receivers that never answer, never end, or say `100 Continue` for ever. Others are served meanwhile, well receivers are
/// called, what is called in vain dies when its attempts are over, and the watch looks at memory and descriptors. In the
/// long form the crowds' connections are closed in the end.
pub async fn unread(setting: Setting) -> Report {
    let mut findings = Findings::new("unread", &setting);
    let crew = Crew::start(&setting, 2).await;
    let load = crew.load("unread");
    let client = crew.client(0);
    let mut crowd = crowd(&client).await;
    called_in_vain(&mut findings, &client).await;
    if setting.messages > 0 {
        sleep(ENDS).await;
        let closed = join_all(crowd.iter_mut().map(closed)).await;
        let open = closed.iter().filter(|closed| !**closed).count();
        findings.demand(open == 0, "no growth", || {
            format!("{open} of {} connections that nobody reads are open", closed.len())
        });
    }
    let (slowest, op) = load.recorder.slowest();
    findings.demand(slowest < MOST, "I12", || format!("{slowest} ms passed: {op:?}"));
    drop(crowd);
    findings.add(crew.finish(load).await);
    findings.report()
}

/// Connections that are in the middle of something, for good.
async fn crowd(client: &Client) -> Vec<TcpStream> {
    let addr = client.addr();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: {addr}\r\n\r\n");
    let half = format!(
        "POST /topics/unread/messages HTTP/1.1\r\nhost: {addr}\r\ncontent-type: application/json\r\n\
         content-length: 60000\r\n\r\n{{\"payload\":\""
    );
    let kinds = [
        get("/openapi.json").repeat(40),
        get("/healthz").repeat(400),
        half,
        get("/healthz")[..20].to_owned(),
    ];
    let mut crowd = Vec::new();
    for words in &kinds {
        for _ in 0..CROWD {
            let mut stream = TcpStream::connect(&addr).await.expect("a connection");
            // What does not fit is not sent: nobody reads the answers to what came before.
            let _ = tokio::time::timeout(
                Duration::from_millis(100),
                stream.write_all(words.as_bytes()),
            )
            .await;
            crowd.push(stream);
        }
    }
    crowd
}

/// Has the other side closed this connection? Whatever lies unread in it is read first.
async fn closed(stream: &mut TcpStream) -> bool {
    let mut sink = vec![0; 1 << 16];
    let read = async {
        loop {
            match stream.read(&mut sink).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(5), read).await.is_ok()
}

/// Callbacks to receivers that never come to an end, among others to one that is well.
async fn called_in_vain(findings: &mut Findings, client: &Client) {
    let (topic, well) = (topic("unread-calls"), Receiver::start().await);
    let mut endless = JoinSet::new();
    let mut urls = Vec::new();
    for words in [
        "",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx-more: ",
        "HTTP/1.1 200 OK\r\n\r\nx",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        urls.push(format!("http://{}/", listener.local_addr().expect("its address")));
        endless.spawn(say_for_ever(listener, words.as_bytes().to_vec()));
    }
    let config = json!({
        "push": {"timeout_ms": 1_000}, "max_attempts": 2, "backoff": {"kind": "fixed", "base_ms": 10},
    });
    client.configure(&topic, config).await;
    let message = |url: &str| json!({"payload": 1, "callback": {"url": url}});
    let bad: Vec<_> = urls.iter().flat_map(|url| vec![message(url); 6]).collect();
    client.fill(&topic, &bad).await;
    let good = vec![message(&well.url("/")); 20];
    let begin = Instant::now();
    client.fill(&topic, &good).await;
    well.wait_for(good.len()).await;
    let took = begin.elapsed();
    findings.demand(took < Duration::from_secs(5), "I12", || {
        format!("a receiver that is well was called only after {took:?}")
    });
    let end = Instant::now() + Duration::from_secs(20);
    while client.count(&topic, "dead").await + client.total(&topic, "acked").await
        < (bad.len() + good.len()) as i64
        && Instant::now() < end
    {
        sleep(Duration::from_millis(50)).await;
    }
    let answer = client.topic(&topic).await.expect(200).json();
    let done = answer["counts"]["dead"].as_i64().unwrap_or(0)
        + answer["totals"]["acked"].as_i64().unwrap_or(0);
    findings.demand(done == (bad.len() + good.len()) as i64, "I7", || {
        format!("calls that never end do not fail: {answer}")
    });
    findings.demand(well.count() == good.len(), BITE, || "the well receiver was not called".into());
    findings.tally().published += (bad.len() + good.len()) as u64;
}

/// Accepts anyone who comes and says this again and again, or nothing.
async fn say_for_ever(listener: TcpListener, words: Vec<u8>) {
    let mut connections = JoinSet::new();
    while let Ok((mut stream, _)) = listener.accept().await {
        let words = words.clone();
        connections.spawn(async move {
            while !words.is_empty() && stream.write_all(&words).await.is_ok() {
                sleep(Duration::from_millis(1)).await;
            }
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        });
    }
}
