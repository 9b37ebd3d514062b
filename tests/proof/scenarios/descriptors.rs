//! File descriptors used up: connections wait or are refused, and nothing stops for good.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::findings::{BITE, Findings};
use super::ground;
use crate::harness::{Client, Dueq, eventually, topic};
use crate::proof::stage::{Report, Setting};

/// What a request may take in the middle of a shortage before nobody waits for it.
const LONG: Duration = Duration::from_secs(5);

/// More connections than the instance may have descriptors, from the moment of its start on, so that nothing in it has
/// slept or dialled before. Once they are gone it serves, and wakes waiters on time.
pub async fn descriptors_used_up(setting: Setting) -> Report {
    let mut findings = Findings::new("descriptors_used_up", &setting);
    let redis = ground::redis(&setting).start().await;
    for _ in 0..setting.rounds {
        let few = ["sh", "-c", "ulimit -n 64 && exec \"$@\"", "sh"];
        let launch = Dueq::on(&redis).bug(setting.bug).within(few);
        let mut dueq = launch.start().await;
        let client = dueq.client();
        let topic = topic("descriptors");
        client.published(&topic, json!({"payload": 1, "delay_ms": 500})).await;

        let mut taken = Vec::new();
        for _ in 0..200 {
            taken.extend(TcpStream::connect(dueq.addr()).await);
        }
        let files = format!("/proc/{}/fd", dueq.pid());
        let open = || std::fs::read_dir(&files).map_or(0, Iterator::count);
        let end = Instant::now() + Duration::from_secs(2);
        while open() < 32 && Instant::now() < end {
            sleep(Duration::from_millis(5)).await;
        }
        findings.demand(open() >= 32, BITE, || format!("{} descriptors are open", open()));
        // The first that sleeps for anything, on a connection from before; it may be closed to make room.
        let (lease, want) = (format!("/topics/{topic}/lease"), json!({"wait_ms": 2_000}));
        let met = timeout(LONG, client.try_send("POST", &lease, &JSON, body(&want))).await;
        findings.tell(format!("in the middle of it: {met:?}"));
        drop(taken);

        let begin = Instant::now();
        let client = eventually("an answer after the shortage", || async {
            let client = dueq.client();
            let ready = client.try_send("GET", "/readyz", &[], None).await;
            ready.is_ok_and(|answer| answer.status == 200).then_some(client)
        })
        .await;
        let took = begin.elapsed();
        findings.demand(took < Duration::from_secs(5), "I12", || format!("back after {took:?}"));
        woken_on_time(&mut findings, &client).await;
        findings.demand(dueq.process.ended().is_none(), "I12", || "dueq ended".into());
    }
    findings.report()
}

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

fn body(value: &Value) -> Option<Vec<u8>> {
    Some(value.to_string().into_bytes())
}

/// A message that falls due while a client waits for it is granted then.
async fn woken_on_time(findings: &mut Findings, client: &Client) {
    let topic = topic("descriptors-after");
    client.published(&topic, json!({"payload": 1, "delay_ms": 500})).await;
    let begin = Instant::now();
    let granted = client.leased(&topic, json!({"wait_ms": 10_000})).await.len();
    let took = begin.elapsed();
    let on_time = granted == 1 && took < Duration::from_millis(1_500);
    findings.demand(on_time, "I12", || format!("{granted} granted after {took:?}, due in 500 ms"));
    findings.tally().published += 1;
}
