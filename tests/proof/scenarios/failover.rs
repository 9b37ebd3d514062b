//! A primary and its replica behind one address, as a managed Redis, a proxy or a name has it: the replica takes over, and
//! the old primary takes over again.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::findings::Findings;
use super::ground::{Run, redis};
use crate::harness::{Client, Dueq, Redis, eventually, text, topic, works_again};
use crate::proof::bugs::between;
use crate::proof::clients::Mix;
use crate::proof::history::{FaultKind, Ms, now};
use crate::proof::proxy::Proxy;
use crate::proof::stage::{Report, Setting};

/// How old (ms) what a replica has may be on a busy machine.
const LAG: Ms = 1_000;

/// Two servers, and the address that leads to the primary.
pub struct Pair {
    pub primary: Redis,
    pub replica: Redis,
    pub address: Proxy,
}

impl Pair {
    /// A primary and a replica that has all of it.
    pub async fn start(setting: &Setting) -> Pair {
        // A replica is served at once, not with others that might come.
        let at_once = ["--repl-diskless-sync-delay", "0"];
        let primary = redis(setting).args(at_once).start().await;
        let replica = redis(setting).args(at_once).start().await;
        let address = Proxy::of(&primary).await;
        let pair = Pair { primary, replica, address };
        pair.follow().await;
        let info: String = pair.primary.command(&["INFO", "replication"]).await;
        let id = info.lines().find_map(|line| line.strip_prefix("master_replid:"));
        pair.address.set(between::mode(setting.bug, id.unwrap_or_default()));
        pair
    }

    /// The replica follows the primary.
    async fn follow(&self) {
        let port = self.primary.port().to_string();
        let _: String = self.replica.command(&["REPLICAOF", "127.0.0.1", &port]).await;
        eventually("a replica that follows", || async {
            let info: String = self.replica.command(&["INFO", "replication"]).await;
            info.contains("master_link_status:up").then_some(())
        })
        .await;
    }

    /// Waits until the replica has all that the primary has by now.
    pub async fn caught_up(&self) {
        caught_up(&self.primary, &self.replica).await;
    }

    /// The replica hears no more of the primary: what that takes from now on will be lost.
    pub async fn cut_off(&self) {
        let _: String = self.replica.command(&["REPLICAOF", "NO", "ONE"]).await;
    }

    /// The replica, cut off before, takes over: the primary becomes its replica, and then the address leads to it.
    pub async fn switch(&mut self) {
        std::mem::swap(&mut self.primary, &mut self.replica);
        let port = self.primary.port().to_string();
        let _: String = self.replica.command(&["REPLICAOF", "127.0.0.1", &port]).await;
        self.address.lead_to(&self.primary);
        self.follow().await;
    }

    /// Does every instance go from the replica soon? Subscriptions apart: it passes on what is published at its primary.
    /// The connections that stay, one a line.
    async fn left_alone(&self) -> Result<(), String> {
        let begin = Instant::now();
        // The one that asks, and the watch.
        let ours = |line: &str| ["cmd=client", "cmd=slowlog"].iter().any(|cmd| line.contains(cmd));
        loop {
            let list: String = self.replica.command(&["CLIENT", "LIST", "TYPE", "normal"]).await;
            let stay: Vec<&str> = list.lines().filter(|line| !ours(line)).collect();
            if stay.is_empty() {
                return Ok(());
            }
            if begin.elapsed() > Duration::from_secs(10) {
                return Err(stay.join("\n"));
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Waits until the replica has all that the primary has by now.
pub async fn caught_up(primary: &Redis, replica: &Redis) {
    let wanted = primary.info("master_repl_offset").await;
    eventually("a replica that has it all", || async {
        (replica.info("slave_repl_offset").await >= wanted).then_some(())
    })
    .await;
}

/// Failover and failback under load. Alongside it a lease that only the old primary knew of: once that is primary again, the
/// token must not fit the grant that another client has got meanwhile.
pub async fn failover(setting: Setting) -> Report {
    let mut pair = Pair::start(&setting).await;
    let at = |pair: &Pair| Dueq::at(&pair.address.url()).bug(setting.bug);
    let dueq = [at(&pair).start().await, at(&pair).start().await];
    let clients: Vec<Client> = dueq.iter().map(Dueq::client).collect();
    let mut run = Run::configured("failover", &setting, &clients, Mix::varied()).await;
    for round in 0..setting.rounds {
        run.pace(round, 500).await;
        let topic = topic("failover-lost-grant");
        let id = clients[0].published(&topic, json!({"payload": 1})).await;
        pair.caught_up().await;

        let mut from = now();
        pair.cut_off().await;
        let want = json!({"lease_ms": 600_000, "wait_ms": 5_000});
        let lost = clients[0].lease_one_with(&topic, want.clone()).await;
        sleep(Duration::from_millis(200)).await;
        over(&mut run, &mut pair, from, &clients).await;
        run.recovers(20_000 + 2 * round as u64, Duration::from_secs(3)).await;

        pair.caught_up().await;
        from = now();
        pair.cut_off().await;
        over(&mut run, &mut pair, from, &clients).await;
        run.recovers(20_001 + 2 * round as u64, Duration::from_secs(3)).await;

        let held = clients[1].lease_one_with(&topic, want).await;
        run.bit(text(&held, "id") == id, || format!("another message: {held}"));
        run.bit(held["attempt"] == lost["attempt"], || format!("the lost grant is known: {held}"));
        let late = clients[0].ack_leased(&lost).await;
        run.demand(late.status == 409, "I5 fencing", || format!("a lost grant's token: {late}"));
        let now = clients[1].ack_leased(&held).await;
        run.demand(now.status == 204, "I5 fencing", || format!("the holder's ack: {now}"));
    }
    let refused = run.ended("never");
    run.bit(refused > 0, || "no request met the failovers".into());
    run.report(&pair.address.url()).await
}

/// Switches to the server that was cut off at `from`, and waits until the instances are there.
async fn over(run: &mut Run, pair: &mut Pair, from: Ms, clients: &[Client]) {
    let begin = now();
    pair.switch().await;
    for client in clients {
        works_again(client).await;
    }
    run.fault(FaultKind::PowerLost(run.setting.lost(begin - from + LAG)), begin);
    let left = pair.left_alone().await;
    run.demand(left.is_ok(), "I12 liveness", || format!("lanes stay at the replica: {left:?}"));
}

/// The same where nothing is asked meanwhile: lanes leave by themselves, so that the first requests find the primary.
pub async fn failover_idle(setting: Setting) -> Report {
    let mut findings = Findings::new("failover_idle", &setting);
    let mut pair = Pair::start(&setting).await;
    let dueq = Dueq::at(&pair.address.url()).bug(setting.bug).start().await;
    let (client, topic) = (dueq.client(), topic("failover-idle"));
    client.published(&topic, json!({"payload": 1})).await;
    pair.caught_up().await;
    pair.cut_off().await;
    pair.switch().await;
    let left = pair.left_alone().await;
    findings.demand(left.is_ok(), "I12", || format!("idle lanes stay at the replica: {left:?}"));
    // Whichever lane takes these.
    for _ in 0..10 {
        let answer = client.publish(&topic, json!({"payload": 2})).await;
        findings.demand(answer.status == 201, "I12", || format!("after a failover: {answer}"));
    }
    findings.tally().published += 11;
    findings.report()
}
