//! Memory that stays above Redis's bound: nothing new comes in, and all that frees memory or restores delivery passes.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::findings::{BITE, CONTRACT, Findings};
use super::ground;
use crate::harness::{Answer, Client, Dueq, Redis, number, topic};
use crate::proof::stage::{Report, Setting};

/// Topics that are set up while there is room, and operated while there is none.
struct Scene {
    /// Paused, with a rule, so that its partition has more to remember than the pause.
    paused: String,
    /// One message is dead and would be kept for two weeks, another is about to expire.
    stale: String,
    /// Its message is leased for the last time when there is no room any more.
    held: String,
    /// Where `delayed` is not due for an hour.
    later: String,
    delayed: String,
    /// The path of a schedule.
    schedule: String,
}

impl Scene {
    async fn set(client: &Client) -> Scene {
        let [paused, stale, held, later] = ["paused", "stale", "held", "later"].map(topic);
        client.new_topic(&paused, json!({"ttl_ms": 600_000})).await;
        client.published(&paused, json!({"payload": 1})).await;
        client.pause_topic(&paused).await.expect(200);
        client.new_topic(&stale, json!({"max_attempts": 1})).await;
        client.published(&stale, json!({"payload": 1})).await;
        let last = client.lease_one(&stale).await;
        client.nack_leased(&last, json!({})).await.expect(200);
        client.published(&stale, json!({"payload": 2, "ttl_ms": 1_500})).await;
        client.published(&held, json!({"payload": 1, "max_attempts": 1})).await;
        let hour = json!({"payload": "waits", "delay_ms": 3_600_000});
        let delayed = client.published(&later, hour).await;
        let schedule = format!("/schedules/{later}");
        let hourly = json!({"every_ms": 3_600_000, "topic": later, "message": {"payload": 1}});
        client.send_json("PUT", &schedule, &hourly).await.expect(201);
        Scene { paused, stale, held, later, delayed, schedule }
    }

    /// What brings something new.
    async fn refused(&self, client: &Client, findings: &mut Findings) {
        let longer = json!({"payload": "waits, and says more"});
        let cron = json!({"cron": "0 9 * * *", "topic": self.later, "message": {"payload": 1}});
        for (what, answer) in [
            ("publish", client.publish(&self.later, json!({"payload": 1})).await),
            ("a new topic", client.put_topic(&topic("new"), json!({})).await),
            ("a body that grows", client.update(&self.delayed, longer).await),
            ("a schedule", client.send_json("PUT", &self.schedule, &cron).await),
        ] {
            let never = answer.status == 503 && answer.text("code") == "redis_unavailable";
            findings.demand(never, CONTRACT, || format!("{what} at maxmemory: {answer}"));
        }
    }

    /// What restores delivery, or lets what is there be kept for less time.
    async fn passed(&self, client: &Client, findings: &mut Findings) {
        passes(findings, "resume", client.resume_topic(&self.paused).await);
        granted(findings, client.lease(&self.paused, json!({"wait_ms": 2_000})).await);
        passes(findings, "pause", client.pause_topic(&self.paused).await);
        let put = client.put_topic(&self.paused, json!({"ttl_ms": 1_000})).await;
        passes(findings, "PUT of a topic that is there", put);
        let shorter = json!({"retention": {"dead_ms": 500}});
        passes(findings, "PATCH of a topic", client.update_topic(&self.stale, shorter).await);
        let due = client.update(&self.delayed, json!({"delay_ms": 0})).await;
        passes(findings, "an earlier due time", due);
        let shorter = client.update(&self.delayed, json!({"payload": 0})).await;
        passes(findings, "a shorter body", shorter);
        for verb in ["pause", "resume"] {
            let path = format!("{}/{verb}", self.schedule);
            passes(findings, verb, client.post_bytes(&path, None, vec![]).await);
        }
        let deleted = client.send("DELETE", &self.schedule, &[], None).await;
        passes(findings, "deleting a schedule", deleted);
    }

    /// What time brings where nobody looks: Redis itself is asked.
    async fn carried_out(&self, redis: &Redis, findings: &mut Findings) {
        for (command, topic, key, wanted) in
            [("HLEN", &self.stale, "messages", 0), ("ZCARD", &self.held, "dead", 1)]
        {
            let key = format!("dueq:{{{topic}:0}}:{key}");
            let begin = Instant::now();
            let mut seen = redis.command::<i64>(&[command, &key]).await;
            while seen != wanted && begin.elapsed() < Duration::from_secs(10) {
                sleep(Duration::from_millis(50)).await;
                seen = redis.command(&[command, &key]).await;
            }
            let what = || format!("{command} {key} at maxmemory: {seen}, not {wanted}");
            findings.demand(seen == wanted, CONTRACT, what);
        }
    }
}

/// Everything that has to pass, in one round after another.
pub async fn memory_stays(setting: Setting) -> Report {
    let mut findings = Findings::new("memory_stays", &setting);
    let redis = ground::redis(&setting).start().await;
    let dueq = Dueq::on(&redis).bug(setting.bug).start().await;
    let client = dueq.client();
    for _ in 0..setting.rounds {
        let scene = Scene::set(&client).await;
        let _: String = redis.command(&["CONFIG", "SET", "maxmemory", "1mb"]).await;
        scene.refused(&client, &mut findings).await;
        granted(&mut findings, client.lease(&scene.held, json!({"lease_ms": 1_000})).await);
        scene.passed(&client, &mut findings).await;
        scene.carried_out(&redis, &mut findings).await;
        passes(&mut findings, "purge", client.purge(&scene.held, &["dead"]).await);
        passes(&mut findings, "deleting a message", client.delete(&scene.delayed).await);
        let deleted = client.delete_topic(&scene.paused, "?force=true").await;
        passes(&mut findings, "deleting a topic", deleted);
        let full = client.publish(&scene.later, json!({"payload": 1})).await.status;
        findings.demand(full == 503, BITE, || "there was room at the end".into());

        let _: String = redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
        let stale = client.topic(&scene.stale).await.expect(200).json();
        let expired = number(&stale["totals"], "expired");
        findings.demand(expired == 2, CONTRACT, || format!("{expired} of 2 expired: {stale}"));
        client.published(&scene.later, json!({"payload": 1})).await;
        findings.tally().published += 6;
        for topic in [&scene.stale, &scene.held, &scene.later] {
            findings.audit(&redis, &client, topic).await;
        }
    }
    findings.report()
}

fn passes(findings: &mut Findings, what: &str, answer: Answer) {
    let passed = (200..300).contains(&answer.status);
    findings.demand(passed, CONTRACT, || format!("{what} at maxmemory: {answer}"));
}

fn granted(findings: &mut Findings, answer: Answer) {
    let leased: Value = answer.expect(200).json();
    let one = leased["messages"].as_array().is_some_and(|messages| messages.len() == 1);
    findings.demand(one, CONTRACT, || format!("a lease at maxmemory: {leased}"));
}
