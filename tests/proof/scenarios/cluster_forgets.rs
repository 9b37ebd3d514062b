//! The servers of a Cluster that have the list of topics and dueq's own data lose their last moments: topics, changes and
//! deletions, and the numbers that instances drew. The others lose nothing, so that partitions know what the list does not.
//! Every topic works again at every instance, and no id is given out twice. What nobody can know any more: how many partitions
//! a new topic had, if its first one is forgotten too.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{File, read_dir};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::findings::Findings;
use super::ground::redis;
use crate::harness::{
    Client, Cluster, Dueq, Redis, eventually, partition_of, slot, text, topic, works_again,
};
use crate::proof::audit::member_of;
use crate::proof::stage::{Durability, Report, Setting};

/// Where the list of topics lies, and what belongs to no topic.
const FORGETFUL: [&str; 2] = ["dueq:{topics}", "dueq:{service}"];
const PARTITIONS: u16 = 16;
/// How long a topic may be of no use after the loss.
const SOON: Duration = Duration::from_secs(5);

/// The logs of a server and their lengths at some moment.
struct Moment(Vec<(PathBuf, u64)>);

impl Moment {
    /// Now, with all that was answered.
    async fn of(redis: &Redis) -> Moment {
        eventually("all is written", || async {
            (redis.info("aof_buffer_length").await == 0).then_some(())
        })
        .await;
        let files = read_dir(redis.dir().join("appendonlydir")).expect("a log").flatten();
        let length = |path: &PathBuf| path.metadata().expect("a file of the log").len();
        Moment(files.map(|file| file.path()).map(|path| (path.clone(), length(&path))).collect())
    }

    /// Takes from the logs of a server that has ended what came later.
    fn restore(self) {
        for (path, length) in self.0 {
            let file = File::options().write(true).open(path).expect("a file of the log");
            file.set_len(length).expect("cutting a file of the log");
        }
    }
}

/// What is known of all ids so far: their topics.
#[derive(Default)]
struct Ids(HashMap<String, String>);

impl Ids {
    fn note(&mut self, topic: &str, ids: Vec<String>, findings: &mut Findings) {
        for id in ids {
            findings.tally().published += 1;
            let before = self.0.insert(id.clone(), topic.to_owned());
            findings.demand(before.is_none(), "I2 no duplicates", || {
                format!("the id {id} was given out twice, for {before:?} and {topic}")
            });
        }
    }
}

/// Each time with other topics.
pub async fn cluster_forgets(setting: Setting) -> Report {
    let mut findings = Findings::new("cluster_forgets", &setting);
    let logged = match setting.durability {
        Durability::Memory => Setting { durability: Durability::Everysec, ..setting.clone() },
        _ => setting.clone(),
    };
    let mut cluster = Cluster::options(3, 0).partial().redis(redis(&logged)).start().await;
    let mut ids = Ids::default();
    for _ in 0..setting.rounds {
        forget(&mut cluster, &setting, &mut ids, &mut findings).await;
    }
    findings.report()
}

async fn forget(cluster: &mut Cluster, setting: &Setting, ids: &mut Ids, findings: &mut Findings) {
    let mut forgetful = BTreeSet::new();
    for key in FORGETFUL {
        forgetful.insert(cluster.primary_of(slot(key)).await);
    }
    let sure = (0..3).find(|node| !forgetful.contains(node)).expect("a node that forgets nothing");
    let (one, other) = (start(cluster, setting).await, start(cluster, setting).await);
    let mut clients = vec![one.client(), other.client()];
    let mut topics = Vec::new();
    for name in ["kept", "changed", "deleted"] {
        topics.push(cluster.topic_on(sure, name).await);
    }
    topics.extend([topic("kept-split"), topic("paused-split")]);
    for (index, name) in topics.iter().enumerate() {
        let partitions = if index < 3 { 1 } else { PARTITIONS };
        clients[0].new_topic(name, json!({"partitions": partitions})).await;
        for client in &clients {
            ids.note(name, fill(client, name).await, findings);
        }
    }
    let mut moments = Vec::new();
    for node in &forgetful {
        moments.push((*node, Moment::of(cluster.node(*node)).await));
    }

    // What will be forgotten.
    let third = start(cluster, setting).await;
    clients.push(third.client());
    let new = [cluster.topic_on(sure, "new").await, topic("new-split")];
    clients[2].new_topic(&new[1], json!({"partitions": PARTITIONS})).await;
    for name in &new {
        ids.note(name, fill(&clients[2], name).await, findings);
    }
    for name in [&topics[1], &topics[3]] {
        clients[0].update_topic(name, json!({"lease_ms": 31_000})).await.expect(200);
    }
    clients[0].delete_topic(&topics[2], "?force=true").await.expect(204);
    clients[0].pause_topic(&topics[4]).await.expect(200);
    ids.0.retain(|_, name| *name != topics[2]);

    let begin = Instant::now();
    for (node, moment) in moments {
        cluster.kill9(node);
        moment.restore();
    }
    for node in &forgetful {
        cluster.restart(*node).await;
    }
    cluster.is_whole().await;
    // One that knows nothing of what was forgotten, and makes something new.
    let fourth = start(cluster, setting).await;
    clients.push(fourth.client());
    for client in &clients {
        works_again(client).await;
    }
    findings.tell(format!("the servers were back within {:?}", begin.elapsed()));
    let fresh = [cluster.topic_on(sure, "fresh").await, topic("fresh-split")];
    clients[3].new_topic(&fresh[1], json!({"partitions": PARTITIONS})).await;
    topics.extend(new.clone());
    topics.extend(fresh);
    clients[3].resume_topic(&topics[4]).await.expect(200);
    for name in &topics {
        for client in &clients {
            let begin = Instant::now();
            works(client, name, ids, findings).await;
            let took = begin.elapsed();
            findings.demand(took < SOON, "I12 liveness", || {
                format!("{name} works only after {took:?} at {}", client.addr())
            });
        }
    }
    // All at once, so that their ids are of the same milliseconds.
    for name in &topics {
        let all = join_all(clients.iter().map(|client| fill(client, name))).await;
        all.into_iter().for_each(|new| ids.note(name, new, findings));
    }
    agree(&clients, &topics, findings).await;
    stay(cluster, sure, &clients, &topics, &new, ids, findings).await;
}

async fn start(cluster: &Cluster, setting: &Setting) -> Dueq {
    cluster.launch().bug(setting.bug).start().await
}

/// Publishes some messages in one call: their ids.
async fn fill(client: &Client, topic: &str) -> Vec<String> {
    let messages: Vec<Value> = (0..50).map(|n| json!({"payload": n})).collect();
    client.fill(topic, &messages).await
}

/// Waits until this topic takes and gives out messages here.
async fn works(client: &Client, topic: &str, ids: &mut Ids, findings: &mut Findings) {
    let id = eventually(&format!("{topic} takes messages"), || async {
        let answer = client.publish(topic, json!({"payload": "again"})).await;
        assert!(answer.status == 201 || answer.status == 503, "{answer}");
        (answer.status == 201).then(|| answer.text("id"))
    })
    .await;
    ids.note(topic, vec![id], findings);
    let held = eventually(&format!("{topic} gives out messages"), || async {
        let answer = client.lease(topic, json!({"wait_ms": 1_000})).await;
        assert!(answer.status == 200 || answer.status == 503, "{answer}");
        let held = answer.json()["messages"][0].take();
        (!held.is_null()).then_some(held)
    })
    .await;
    client.ack_leased(&held).await.expect(204);
    // Its topic may have got another number than its id says.
    let member = member_of(text(&held, "id"));
    ids.0.retain(|id, of| of != topic || member_of(id) != member);
}

/// All instances show the same of each topic, and a change of it is seen by all.
async fn agree(clients: &[Client], topics: &[String], findings: &mut Findings) {
    for name in topics {
        let begin = Instant::now();
        clients[1].update_topic(name, json!({"lease_ms": 32_000})).await.expect(200);
        let revision = clients[1].topic(name).await.expect(200).json()["revision"].clone();
        eventually(&format!("one configuration of {name}"), || async {
            for client in clients {
                let seen = client.topic(name).await.expect(200).json();
                if seen["revision"] != revision || seen["config"]["lease_ms"] != 32_000 {
                    return None;
                }
            }
            Some(())
        })
        .await;
        let took = begin.elapsed();
        findings.demand(took < SOON, "I13 honest 2xx", || {
            format!("the instances agreed on {name} only after {took:?}")
        });
    }
}

/// What lies on the server that forgot nothing is there, in its own topic. So it is under its id, unless the list has forgotten
/// the topic: another client may have got its number since.
async fn stay(
    cluster: &Cluster,
    sure: usize,
    clients: &[Client],
    topics: &[String],
    new: &[String],
    ids: &Ids,
    findings: &mut Findings,
) {
    let mut looked_at = 0;
    for (index, name) in topics.iter().enumerate() {
        let here = cluster.partitions_on(sure, name, PARTITIONS).await;
        let kept = ids.0.iter().filter(|(id, of)| *of == name && here.contains(&partition_of(id)));
        // Not always the same instance.
        let client = &clients[index % clients.len()];
        let listed = client.listed(name, "state=ready").await;
        let there: HashSet<String> = listed.iter().map(|it| member_of(text(it, "id"))).collect();
        let shown = client.topic(name).await.expect(200).json();
        if *name == new[1] && shown["config"]["partitions"] == 1 {
            // The list and its first partition forgot how many it has: the others are out of sight.
            let count = kept.filter(|(id, _)| partition_of(id) > 0).count() as u64;
            findings.tally().lost += count;
            findings.tell(format!("{count} messages of {name} are out of sight"));
            continue;
        }
        for (id, _) in kept {
            looked_at += 1;
            let well = there.contains(&member_of(id));
            findings.tally().lost += u64::from(!well);
            findings.demand(well, "I1 no loss", || format!("{id} of {name} is gone"));
            if looked_at % 10 == 0 && !new.contains(name) {
                let seen = client.get(id).await;
                let well = seen.status == 200 && seen.text("topic") == *name;
                findings.demand(well, "I1 no loss", || format!("{id} of {name}: {seen}"));
            }
        }
    }
    findings.tell(format!("{looked_at} messages looked at"));
}
