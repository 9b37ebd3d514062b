//! The nodes of a Cluster have clocks that differ by seconds: each partition goes by its own, nothing comes early or late for
//! it, no id is given out twice, and nobody asks more often than where all clocks agree.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::findings::Findings;
use super::ground::redis;
use crate::harness::{Client, Cluster, Dueq, text, topic};
use crate::proof::history::{Ms, now};
use crate::proof::shim::Shim;
use crate::proof::stage::{Report, Setting};

/// How far the clock of each node is ahead.
const AHEAD: [Ms; 3] = [0, 5_000, -5_000];
const PARTITIONS: u16 = 16;
/// Messages of one measurement, one every so many ms, and the longest delay of one, ms.
const MESSAGES: usize = 100;
const EVERY: u64 = 10;
const DELAY: usize = 300;
/// What a busy machine adds to a delay.
const SLACK: Ms = 2_000;
/// How long a consumer waits for what does not come.
const PATIENCE: Duration = Duration::from_secs(5);
/// By how much an instance may misjudge a node's clock, ms.
const OFF: Ms = 50;

struct Ground {
    cluster: Cluster,
    shims: Vec<Shim>,
    clients: [Client; 2],
    topic: String,
    _dueq: [Dueq; 2],
}

/// The same work with clocks that agree and clocks that do not, in turns.
pub async fn cluster_clocks(setting: Setting) -> Report {
    let mut findings = Findings::new("cluster_clocks", &setting);
    let shims: Vec<Shim> = AHEAD.iter().map(|_| Shim::new()).collect();
    let each = shims.iter().map(|shim| shim.redis(redis(&setting))).collect();
    let cluster = Cluster::options(3, 0).partial().redis_each(each).start().await;
    let launch = || cluster.launch().bug(setting.bug);
    let dueq = [launch().start().await, launch().start().await];
    let (clients, topic) = (dueq.each_ref().map(Dueq::client), topic("cluster_clocks"));
    clients[0].new_topic(&topic, json!({"partitions": PARTITIONS})).await;
    let ground = Ground { cluster, shims, clients, topic, _dueq: dueq };
    let mut ids = HashSet::new();
    for _ in 0..setting.rounds {
        let agreed = ground.measure([0; 3], &mut ids, &mut findings).await;
        let apart = ground.measure(AHEAD, &mut ids, &mut findings).await;
        findings.tell(format!("{agreed} commands with clocks that agree, {apart} without"));
        findings.demand(apart <= 2 * agreed, "I12 liveness", || {
            format!("{apart} commands where {agreed} are enough")
        });
    }
    findings.report()
}

impl Ground {
    /// Sets the clocks, waits until all know, and works: how many commands that took.
    async fn measure(
        &self,
        ahead: [Ms; 3],
        ids: &mut HashSet<String>,
        findings: &mut Findings,
    ) -> i64 {
        for (index, (shim, ahead)) in self.shims.iter().zip(ahead).enumerate() {
            shim.set_clock(ahead);
            let off = self.cluster.node(index).time_ms().await - now() - ahead;
            findings.demand(off.abs() < 1_000, "the harness", || format!("a clock {off} ms off"));
        }
        self.work(MESSAGES / 3, ids, findings).await;
        let before = self.commands().await;
        self.work(MESSAGES, ids, findings).await;
        self.commands().await - before
    }

    async fn commands(&self) -> i64 {
        let nodes = (0..3).map(|index| self.cluster.node(index).info("total_commands_processed"));
        join_all(nodes).await.into_iter().sum()
    }

    /// Publishes delayed messages by both instances, to consumers of both.
    async fn work(&self, messages: usize, ids: &mut HashSet<String>, findings: &mut Findings) {
        let missing = AtomicUsize::new(messages);
        let publish = async {
            let (mut due, mut next) = (HashMap::new(), Instant::now());
            for n in 0..messages {
                let delay = n * 7 % DELAY;
                let message = json!({"payload": n, "delay_ms": delay});
                let before = now();
                let id = self.clients[n % 2].published(&self.topic, message).await;
                due.insert(id, (before + delay as Ms, now() + delay as Ms));
                next += Duration::from_millis(EVERY);
                sleep_until(next).await;
            }
            due
        };
        let consumers = join_all((0..4).map(|n| self.consume(&self.clients[n % 2], &missing)));
        let (due, granted) = tokio::join!(publish, consumers);
        let mut granted: HashMap<String, Vec<Ms>> =
            granted.into_iter().flatten().fold(HashMap::new(), |mut all, (id, at)| {
                all.entry(id).or_default().push(at);
                all
            });
        for (id, (earliest, latest)) in due {
            findings.tally().published += 1;
            findings.demand(ids.insert(id.clone()), "I2 no duplicates", || {
                format!("the id {id} was given out twice")
            });
            let at = granted.remove(&id).unwrap_or_default();
            findings.tally().grants += at.len() as u64;
            match at[..] {
                [at] => {
                    findings.tally().granted += 1;
                    let early = at + OFF < earliest;
                    findings.tally().early += u64::from(early);
                    findings.demand(!early, "I3 never early", || {
                        format!("{id} came {} ms early", earliest - at)
                    });
                    findings.demand(at < latest + SLACK, "I12 liveness", || {
                        format!("{id} came {} ms late", at - latest)
                    });
                }
                [] => {
                    findings.tally().lost += 1;
                    findings.broken("I1 no loss", format!("{id} did not come"));
                }
                _ => findings.broken("I4 one holder", format!("{id} came {} times", at.len())),
            }
        }
        findings.demand(granted.is_empty(), "I1 no loss", || format!("strangers: {granted:?}"));
    }

    /// Leases and acks until nothing is missing, or nothing has come for long, and then waits once in vain.
    async fn consume(&self, client: &Client, missing: &AtomicUsize) -> Vec<(String, Ms)> {
        let (mut got, mut last, mut over) = (Vec::new(), Instant::now(), false);
        while !over {
            over = missing.load(Relaxed) == 0 || last.elapsed() > PATIENCE;
            let want = json!({"max_messages": 4, "wait_ms": 500, "lease_ms": 60_000});
            let held: Vec<Value> = client.leased(&self.topic, want).await;
            let at = now();
            for message in &held {
                client.ack_leased(message).await.expect(204);
                got.push((text(message, "id").to_owned(), at));
                missing.fetch_sub(1, Relaxed);
                last = Instant::now();
            }
        }
        got
    }
}
