//! `--threads`: connections are spread over the threads, and all threads share the lanes, the wake-ups and the stop.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::harness::*;
use crate::stopping::finishes_requests;

const THREADS: usize = 4;
/// Two connections for each thread.
const CONNECTIONS: usize = 2 * THREADS;
const LIMIT: Duration = Duration::from_secs(10);

async fn many_threads() -> Dueq {
    let redis = &shared().await.redis;
    Dueq::on(redis).args(["--threads", &THREADS.to_string()]).start().await
}

/// CPU time that each of the threads with runtimes has used, in ticks.
fn ticks(dueq: &Dueq) -> Vec<u64> {
    let tasks = fs::read_dir(format!("/proc/{}/task", dueq.pid())).unwrap();
    let stats = tasks.map(|task| text_of(&task.unwrap().path().join("stat")));
    let workers = stats.filter(|stat| stat.contains("(tokio-rt-worker)"));
    workers.map(|stat| cpu_hundredths(&stat)).collect()
}

#[tokio::test]
async fn every_thread_serves_connections() {
    let dueq = many_threads().await;
    let mut wires = Vec::new();
    for _ in 0..CONNECTIONS {
        wires.push(Wire::connect(dueq.addr()).await);
        // What comes and goes between them does not decide where they are served.
        dueq.client().get_path("/healthz").await.expect(200);
    }
    let end = Instant::now() + LIMIT;
    while ticks(&dueq).contains(&0) {
        assert!(Instant::now() < end, "a thread has served nothing: {:?}", ticks(&dueq));
        for wire in &mut wires {
            wire.request("GET /guide HTTP/1.1\r\nhost: localhost", b"").await;
            wire.answer("/guide", LIMIT).await.expect("an answer").expect(200);
        }
    }
    assert_eq!(ticks(&dueq).len(), THREADS);
}

#[tokio::test]
async fn a_publish_on_one_thread_wakes_long_polls_on_all() {
    let mut dueq = many_threads().await;
    let topic = topic("threads");
    let polls: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (client, topic) = (Client::new(&dueq.url()), topic.clone());
            tokio::spawn(async move { client.lease_one_with(&topic, json!({})).await })
        })
        .collect();
    waiters(&dueq.client(), CONNECTIONS as u32).await;
    let client = dueq.client();
    for n in 0..CONNECTIONS {
        client.published(&topic, json!({"payload": n})).await;
    }
    for poll in polls {
        client.ack_leased(&poll.await.unwrap()).await.expect(204);
    }
    assert_eq!(client.total(&topic, "acked").await, CONNECTIONS as i64);
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
}

#[tokio::test]
async fn a_stop_finishes_the_requests_of_all_threads() {
    finishes_requests(many_threads().await, CONNECTIONS).await;
}

#[tokio::test]
async fn a_large_body_holds_up_nobody_else() {
    let redis = &shared().await.redis;
    let dueq = Dueq::on(redis).args(["--threads", "1"]).start().await;
    let (topic, numbers) = (topic("threads"), "1,".repeat(7_000));
    let message = format!("{{\"payload\":[{numbers}1],\"unknown\":1}}");
    let body = format!("{{\"messages\":[{}]}}", vec![message; 900].join(","));
    let (client, path) = (dueq.client(), format!("/topics/{topic}/messages/batch"));
    let start = Instant::now();
    let large = tokio::spawn(async move {
        client.post_text(&path, &body).await.expect(422);
        start.elapsed()
    });
    let (client, mut slowest) = (Client::new(&dueq.url()), Duration::ZERO);
    while !large.is_finished() {
        let start = Instant::now();
        client.published(&topic, json!({"payload": 1})).await;
        slowest = slowest.max(start.elapsed());
    }
    let large = large.await.unwrap();
    assert!(slowest < large / 2, "{slowest:?} while a large body took {large:?}");
}
