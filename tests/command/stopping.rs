//! How it stops: what is under way is finished, what is new is refused, and it ends with 0.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::harness::*;

#[tokio::test]
async fn sigterm_and_ctrl_c_end_with_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut dueq = instance().await;
        dueq.client().published(&topic("stop"), json!({"payload": 1})).await;
        let start = Instant::now();
        dueq.process.signal(signal);
        assert_eq!(dueq.exit().await, 0, "{}", dueq.log());
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn sighup_ends_nothing() {
    let mut dueq = instance().await;
    for _ in 0..3 {
        dueq.process.signal(Signal::HUP);
    }
    eventually("a line in the log", || async { dueq.log().contains("SIGHUP").then_some(()) }).await;
    dueq.client().published(&topic("stop"), json!({"payload": 1})).await;
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
}

#[tokio::test]
async fn idle_connections_do_not_hold_it_up() {
    let mut dueq = instance().await;
    let mut idle = Vec::new();
    for _ in 0..5 {
        let mut wire = Wire::connect(dueq.addr()).await;
        wire.request("GET /healthz HTTP/1.1\r\nhost: localhost", b"").await;
        wire.answer("/healthz", Duration::from_secs(5)).await.expect("an answer").expect(200);
        idle.push(wire);
        idle.push(Wire::connect(dueq.addr()).await); // never says anything
    }
    let start = Instant::now();
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    for wire in &mut idle {
        assert!(wire.closes_within(Duration::from_secs(1)).await);
    }
}

#[tokio::test]
async fn a_request_under_way_is_finished() {
    finishes_requests(instance().await, 1).await;
}

/// On so many connections half of a publish has come when it is stopped; the other halves come later.
pub async fn finishes_requests(mut dueq: Dueq, connections: usize) {
    let (addr, topic) = (dueq.addr().to_owned(), topic("stop"));
    let head = format!(
        "POST /topics/{topic}/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 13\r\n\r\n{{\"payl"
    );
    let mut wires = Vec::new();
    for _ in 0..connections {
        let mut wire = Wire::connect(&addr).await;
        assert!(wire.write(head.as_bytes()).await);
        wires.push(wire);
    }
    // The heads must have been read before the stop: another request on another connection says so.
    dueq.client().get_path("/healthz").await.expect(200);
    tokio::time::sleep(Duration::from_millis(100)).await;
    dueq.process.signal(Signal::TERM);
    eventually("no new connections", || async {
        tokio::net::TcpStream::connect(&addr).await.is_err().then_some(())
    })
    .await;
    for wire in &mut wires {
        assert!(wire.write(b"oad\":1}").await);
        let answer = wire.answer(&topic, Duration::from_secs(5)).await.expect("an answer");
        answer.check().expect(201);
    }
    assert_eq!(dueq.exit().await, 0, "{}", dueq.log());
    assert_eq!(client().await.count(&topic, "ready").await, connections as i64);
}

#[tokio::test]
async fn a_request_that_never_ends_is_given_up_after_the_drain_timeout() {
    let redis = &shared().await.redis;
    let mut dueq = Dueq::on(redis).args(["--drain-timeout-ms", "700"]).start().await;
    let mut wire = Wire::connect(dueq.addr()).await;
    let head = "POST /topics/t/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 13\r\n\r\n{\"payl";
    assert!(wire.write(head.as_bytes()).await);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let start = Instant::now();
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    let took = start.elapsed();
    assert!((500..5000).contains(&(took.as_millis() as u64)), "{took:?}");
}

#[tokio::test]
async fn everything_answered_2xx_before_a_stop_under_load_is_stored() {
    let mut dueq = instance().await;
    let topic = topic("stop");
    let senders: Vec<_> = (0..16)
        .map(|_| {
            let (client, topic) = (dueq.client(), topic.clone());
            tokio::spawn(async move {
                let mut stored = 0;
                let body = || Some(b"{\"payload\":1}".to_vec());
                let path = format!("/topics/{topic}/messages");
                let kind = [("content-type", "application/json")];
                while let Ok(answer) = client.try_send("POST", &path, &kind, body()).await {
                    match answer.status {
                        201 => stored += 1,
                        503 => {}
                        _ => panic!("{answer}"),
                    }
                }
                stored
            })
        })
        .collect();
    let other = client().await;
    eventually("some load", || async {
        let answer = other.topic(&topic).await;
        (answer.status == 200 && answer.json()["totals"]["published"].as_i64() > Some(200))
            .then_some(())
    })
    .await;
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    let mut answered = 0;
    for sender in senders {
        answered += sender.await.unwrap();
    }
    assert_eq!(other.total(&topic, "published").await, answered, "no more and no less");
}

#[tokio::test]
async fn a_redis_that_hangs_does_not_hold_it_up() {
    let mut redis = Redis::start().await;
    let mut dueq = Dueq::on(&redis).args(["--drain-timeout-ms", "1000"]).start().await;
    let client = dueq.client();
    client.published(&topic("stop"), json!({"payload": 1})).await;
    let waiting = tokio::spawn(async move {
        let _ = client.lease(&topic("stop"), json!({"wait_ms": 30_000})).await;
    });
    waiters(&dueq.client(), 1).await;
    redis.pause();
    let start = Instant::now();
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    waiting.abort();
}

#[tokio::test]
async fn a_stop_in_the_middle_of_the_start_leaves_nothing_behind() {
    for after_ms in [0, 10, 20, 40, 60, 80, 120] {
        let data = temp_dir("data");
        let launch = Launch::command(["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        let mut dueq = launch.args([&data]).spawn();
        tokio::time::sleep(Duration::from_millis(after_ms)).await; // any moment will do
        dueq.process.signal(Signal::TERM);
        let code = dueq.exit().await;
        assert!([0, 128 + 15].contains(&code), "{code} after {after_ms} ms: {}", dueq.log());
        let redis = || text_of(&data.join("redis.pid")).trim().parse::<u32>().ok();
        eventually("its Redis ends", || async { (!redis().is_some_and(lives)).then_some(()) })
            .await;
    }
}
