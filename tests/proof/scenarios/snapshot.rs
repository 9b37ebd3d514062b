//! A Redis that was restarted from an older snapshot: messages, the registry and schedules go back, and with them whatever
//! an instance still remembers of the time after.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::ground::Run;
use crate::harness::{Client, Dueq, Redis, etag, eventually, number, text, topic, works_again};
use crate::proof::actor::Fleet;
use crate::proof::history::{FaultKind, now};
use crate::proof::stage::{Report, Setting};

/// What two instances may take to agree.
const SOON: Duration = Duration::from_secs(1);

/// Under load, and alongside it: no instance goes on with a configuration that Redis lost, no revision is given out twice, a
/// lost grant's token fits no later grant, and schedules are as they were.
pub async fn snapshot_restored(setting: Setting) -> Report {
    // Nothing but the snapshot is on disk.
    let mut redis = Redis::options().start().await;
    let dueq = [
        Dueq::on(&redis).bug(setting.bug).start().await,
        Dueq::on(&redis).bug(setting.bug).start().await,
    ];
    let clients: Vec<Client> = dueq.iter().map(Dueq::client).collect();
    let mut run = Run::begin("snapshot_restored", &setting, &Fleet::new(clients.clone()));
    for round in 0..setting.rounds {
        run.pace(round, 500).await;
        let scene = Scene::before(&clients).await;
        let saved = now();
        let _: String = redis.command(&["SAVE"]).await;
        let lost = scene.after(&clients).await;
        sleep(Duration::from_millis(300)).await;
        let from = now();
        redis.restart().await;
        for client in &clients {
            works_again(client).await;
        }
        run.fault(FaultKind::PowerLost(from - saved + 100), from);
        scene.demand(&mut run, &clients, &lost).await;
        run.recovers(20_000 + round as u64, Duration::from_secs(3)).await;
    }
    run.report(&redis.url()).await
}

/// A topic, a message in it and schedules.
struct Scene {
    topic: String,
    id: String,
    kept: String,
    made: String,
    deleted: String,
}

/// What happened after the snapshot.
struct Lost {
    topic: Value,
    grant: Value,
}

fn schedule(topic: &str) -> Value {
    json!({"every_ms": 3_600_000, "topic": topic, "message": {"payload": 1}})
}

impl Scene {
    async fn before(clients: &[Client]) -> Scene {
        let topic = topic("snapshot");
        clients[0].put_topic(&topic, json!({"lease_ms": 1_000})).await.expect(201);
        let id = clients[0].published(&topic, json!({"payload": 1})).await;
        let name = |what: &str| format!("{topic}-{what}");
        let (kept, made, deleted) = (name("kept"), name("made"), name("deleted"));
        for name in [&kept, &deleted] {
            put_schedule(&clients[0], name, &topic).await;
        }
        Scene { topic, id, kept, made, deleted }
    }

    async fn after(&self, clients: &[Client]) -> Lost {
        let [one, other] = clients else { panic!("two instances") };
        let topic = one.update_topic(&self.topic, json!({"lease_ms": 600_000})).await.expect(200);
        // Both know it.
        let grant = other.lease_one(&self.topic).await;
        put_schedule(one, &self.made, &self.topic).await;
        let path = format!("/schedules/{}", self.deleted);
        one.send("DELETE", &path, &[], None).await.expect(204);
        Lost { topic: topic.json(), grant }
    }

    async fn demand(&self, run: &mut Run, clients: &[Client], lost: &Lost) {
        let [one, other] = clients else { panic!("two instances") };
        let begin = Instant::now();
        let agreed = eventually("one configuration", || async {
            let seen = [self.seen(one).await, self.seen(other).await];
            (seen[0] == seen[1] && seen[0].1 == 1_000).then_some(seen[0].0.clone())
        })
        .await;
        let took = begin.elapsed();
        let what = || format!("the instances agreed only after {took:?}");
        run.demand(took < SOON, "I13 honest 2xx", what);

        let guarded = one
            .topic_if("PATCH", &self.topic, Some(&etag(&lost.topic)), &json!({"lease_ms": 2_000}))
            .await;
        let passed = guarded.status != 412;
        run.demand(!passed, "I13 honest 2xx", || format!("a lost revision matches: {guarded}"));
        let changed = other.update_topic(&self.topic, json!({"lease_ms": 5_000})).await.expect(200);
        let changed = changed.json();
        let twice = etag(&changed) == etag(&lost.topic) || etag(&changed) == agreed;
        run.demand(!twice, "I13 honest 2xx", || {
            format!("a revision was given out twice: {changed}")
        });
        let guarded = one
            .topic_if("PATCH", &self.topic, Some(&etag(&lost.topic)), &json!({"lease_ms": 2_000}))
            .await;
        let passed = guarded.status != 412;
        run.demand(!passed, "I13 honest 2xx", || format!("a lost revision matches: {guarded}"));

        // The lease of the message is among what was lost.
        let grant = one.lease_one(&self.topic).await;
        run.bit(text(&grant, "id") == self.id, || format!("another message: {grant}"));
        let fresh = (4_000..=5_000).contains(&number(&grant, "lease_ms"));
        run.demand(fresh, "I13 honest 2xx", || format!("a lease by a lost configuration: {grant}"));
        let late = other.ack_leased(&lost.grant).await;
        run.demand(late.status == 409, "I5 fencing", || format!("a lost grant's token: {late}"));
        one.ack_leased(&grant).await.expect(204);

        for (name, status) in [(&self.kept, 200), (&self.deleted, 200), (&self.made, 404)] {
            for client in clients {
                let seen = client.get_path(&format!("/schedules/{name}")).await;
                run.demand(seen.status == status, "I13 honest 2xx", || format!("{name}: {seen}"));
            }
        }
    }

    /// Revision and `lease_ms` of the topic as this instance shows it.
    async fn seen(&self, client: &Client) -> (String, i64) {
        let topic = client.topic(&self.topic).await.expect(200).json();
        (etag(&topic), number(&topic["config"], "lease_ms"))
    }
}

async fn put_schedule(client: &Client, name: &str, topic: &str) {
    client.send_json("PUT", &format!("/schedules/{name}"), &schedule(topic)).await.expect(201);
}
