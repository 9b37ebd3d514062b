//! Clients that go away while they wait for a message.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::crew::Crew;
use super::findings::{BITE, Findings};
use crate::harness::{Client, Wire, number, text, topic, waiters};
use crate::proof::stage::{Report, Setting};

/// Clients that vanish together.
const CROWD: usize = 60;
/// How soon another client must have what was granted to them.
const SOON: Duration = Duration::from_secs(1);
/// How long before they fall due their messages are published, ms.
const AHEAD: u64 = 400;

/// Crowds that wait in long polls go away while Redis is asked for the messages that they wait for: every message is ready
/// again at once, with all its attempts, and no waiter is left behind.
pub async fn client_gone(setting: Setting) -> Report {
    let mut findings = Findings::new("client_gone", &setting);
    let mut crew = Crew::start(&setting, 2).await;
    let topic = topic("client-gone");
    let (here, there) = (crew.client(0), crew.client(1));
    // A client who stays: no crowd may take this one along.
    let stays = seated(&here, &format!("{topic}-quiet")).await;
    waiters(&here, 1).await;
    for _ in 0..setting.rounds {
        let polls = (0..CROWD).map(|_| async { seated(&here, &topic).await });
        let crowd = join_all(polls).await;
        waiters(&here, 1 + CROWD as u32).await;
        // Redis stands still while the instance asks it for what has fallen due, and the crowd leaves in the middle of that.
        let message = json!({"payload": "for whoever is there", "delay_ms": AHEAD});
        let mut sent = there.fill(&topic, &vec![message; CROWD]).await;
        sleep(Duration::from_millis(AHEAD - 100)).await;
        crew.redis.pause();
        sleep(Duration::from_millis(250)).await;
        drop(crowd);
        sleep(Duration::from_millis(100)).await;
        crew.redis.resume();
        let resumed = Instant::now();
        let held = lease_all(&there, &topic, CROWD, resumed + 4 * SOON).await;
        let took = resumed.elapsed();
        findings.tally().published += CROWD as u64;
        findings.tally().grants += held.len() as u64;
        let mut got: Vec<String> = held.iter().map(|one| text(one, "id").to_owned()).collect();
        sent.sort();
        got.sort();
        findings.demand(got == sent, "I4", || {
            format!(
                "{} of {CROWD} messages granted to clients that are gone are kept back",
                CROWD - got.len()
            )
        });
        findings
            .demand(took < SOON, "I12", || format!("they were ready again only after {took:?}"));
        for one in held.iter().filter(|one| one["attempts_left"] != 9) {
            findings.broken("I7", format!("a grant that nobody saw counts: {one}"));
        }
        join_all(held.iter().map(|one| there.ack_leased(one))).await;
        waiters(&here, 1).await;
    }
    let seen = there.topic(&topic).await.expect(200).json();
    let returned = number(&seen["totals"], "returned");
    findings.tell(format!("{returned} grants were taken back"));
    findings
        .demand(returned > 0, BITE, || "no message was granted to a client that was gone".into());
    drop(stays);
    waiters(&here, 0).await;
    findings.audit(&crew.redis, &there, &topic).await;
    findings.report()
}

/// A long poll that has been sent, by hand, so that it can be dropped like a client that goes away.
async fn seated(client: &Client, topic: &str) -> Wire {
    let mut wire = Wire::connect(&client.addr()).await;
    let body = "{\"wait_ms\":60000}";
    let (addr, length) = (client.addr(), body.len());
    let head = format!(
        "POST /topics/{topic}/lease HTTP/1.1\r\nhost: {addr}\r\ncontent-type: application/json\r\n\
         content-length: {length}"
    );
    // What nobody asked for behind it must not hide that the client has gone.
    assert!(wire.request(&head, format!("{body}\r\n").as_bytes()).await);
    wire
}

/// Leases until it has so many, or the time is over.
async fn lease_all(client: &Client, topic: &str, count: usize, end: Instant) -> Vec<Value> {
    let mut held = Vec::new();
    while held.len() < count && Instant::now() < end {
        let want = json!({"max_messages": count - held.len(), "wait_ms": 200});
        held.extend(client.leased(topic, want).await);
    }
    held
}
