//! A growth of a topic that is cut off after each of its steps, as if its instance had been killed there, and some that are
//! killed: anyone who comes next completes it or takes it back, nothing is lost, and a paused topic stays paused.

use serde_json::{Value, json};

use crate::harness::*;
use crate::proof::proxy::Proxy;

/// Steps of one growth, at most.
const MANY: i64 = 100;

struct Ground {
    redis: Redis,
    proxy: Proxy,
    /// Behind the proxy.
    _cut: Dueq,
    _whole: Dueq,
    cut: Client,
    whole: Client,
}

impl Ground {
    async fn start() -> Ground {
        let redis = Redis::start().await;
        let proxy = Proxy::of(&redis).await;
        let hasty = ["--redis-timeout-ms", "1000"];
        let cut = Dueq::at(&proxy.url()).args(hasty).start().await;
        // Who publishes waits half of that for a growth that nobody goes on with.
        let whole = Dueq::on(&redis).args(["--redis-timeout-ms", "600"]).start().await;
        let (from, to) = (cut.client(), whole.client());
        Ground { redis, proxy, _cut: cut, _whole: whole, cut: from, whole: to }
    }

    /// Messages without a name, some of them for later: their ids.
    async fn fill(&self, topic: &str, count: usize) -> Vec<String> {
        let message = |n: usize| json!({"payload": n, "delay_ms": n % 2 * 3_600_000});
        let messages: Vec<Value> = (0..count).map(message).collect();
        self.whole.fill(topic, &messages).await
    }

    /// A growth that is cut off after so many calls of scripts, and what becomes of it. Returns whether it was cut off at all.
    async fn grow(&self, from: i64, to: i64, calls: i64, paused: bool) -> bool {
        let (topic, whole) = (topic("cut-growth"), &self.whole);
        whole.new_topic(&topic, json!({"partitions": from})).await;
        let mut sent = self.fill(&topic, 20).await;
        if paused {
            whole.pause_topic(&topic).await.expect(200);
        }
        self.cut.topic(&topic).await.expect(200);
        self.proxy.cut_after_calls(calls);
        let answer = self.cut.update_topic(&topic, json!({"partitions": to})).await;
        let was_cut = self.proxy.mend();
        assert!(answer.status == 200 || was_cut, "{answer}");
        let done = answer.status == 200;

        // The next one comes to publish, to consume, or to let it grow again.
        match calls % 3 {
            0 => sent.extend(self.fill(&topic, 150).await),
            1 => {
                let held = whole.leased(&topic, json!({"max_messages": 1})).await;
                assert_eq!(held.len(), usize::from(!paused), "after {calls} calls");
                for message in held {
                    whole.ack_leased(&message).await.expect(204);
                    sent.retain(|id| message["id"] != **id);
                }
            }
            _ => {}
        }
        self.complete(&topic, [from, to], calls, done).await;
        sent.extend(self.fill(&topic, 20).await);
        self.is_whole(&topic, to, paused, &sent).await;
        was_cut
    }

    /// The topic has grown by the next request, or as if nothing had been, and then it grows now.
    async fn complete(&self, topic: &str, [from, to]: [i64; 2], calls: i64, done: bool) {
        let seen = self.whole.topic(topic).await.expect(200).json();
        let partitions = seen["config"]["partitions"].as_i64().unwrap();
        let fits = partitions == to || (partitions == from && !done);
        assert!(fits, "{partitions} partitions after {calls} calls, done: {done}");
        if partitions == from {
            let grown = self.whole.update_topic(topic, json!({"partitions": to})).await.expect(200);
            assert_eq!(grown.json()["config"]["partitions"], to, "after {calls} calls");
        }
    }

    /// The instance that lets the topic grow is killed after so many calls of scripts, while others go on with what they know.
    async fn kill(&self, from: i64, to: i64, calls: i64) {
        let (topic, whole) = (topic("killed-growth"), &self.whole);
        whole.new_topic(&topic, json!({"partitions": from})).await;
        let mut sent = self.fill(&topic, 20).await;
        // It is not told of anything that happens meanwhile.
        self.cut.topic(&topic).await.expect(200);
        let mut dueq = Dueq::at(&self.proxy.url()).start().await;
        let client = dueq.client();
        client.topic(&topic).await.expect(200);
        self.proxy.cut_after_calls(calls);
        let path = format!("/topics/{topic}");
        let (kind, body) = ([("content-type", "application/json")], json!({"partitions": to}));
        let grown = client.try_send("PATCH", &path, &kind, Some(body.to_string().into_bytes()));
        let cut = eventually("a cut", || async { self.proxy.has_cut().then_some(()) });
        let done = tokio::select! {
            answer = grown => answer.is_ok_and(|answer| answer.status == 200),
            () = cut => false,
        };
        dueq.kill9();
        assert!(self.proxy.mend(), "a growth of less than {calls} calls");
        // Its connections may have been cut, too.
        works_again(&self.cut).await;

        // Anyone who comes next, by what they know of the topic: of one key there is one message.
        let named = json!({"payload": "named", "key": "k"});
        let first = whole.published(&topic, named.clone()).await;
        for client in [&self.cut, whole] {
            let again = client.publish(&topic, named.clone()).await.expect(200);
            assert_eq!(again.text("id"), first, "after {calls} calls");
        }
        whole.delete(&first).await.expect(204);
        self.complete(&topic, [from, to], calls, done).await;
        let back = self.cut.update_topic(&topic, json!({"partitions": from})).await;
        back.refused(422).field("partitions");
        for client in [&self.cut, whole] {
            let seen = client.topic(&topic).await.expect(200).json();
            assert_eq!(seen["config"]["partitions"], to, "after {calls} calls");
        }
        sent.extend(self.fill(&topic, 20).await);
        self.is_whole(&topic, to, false, &sent).await;
    }

    /// All of it is there, in a topic of so many partitions.
    async fn is_whole(&self, topic: &str, partitions: i64, paused: bool, sent: &[String]) {
        let whole = &self.whole;
        let seen = whole.topic(topic).await.expect(200).json();
        assert_eq!(seen["paused"], paused, "{seen}");
        if paused {
            assert!(whole.leased(topic, json!({})).await.is_empty());
            whole.resume_topic(topic).await.expect(200);
        }
        for id in sent.iter().step_by(17) {
            whole.get(id).await.expect(200);
        }
        let mut there = Vec::new();
        for state in ["ready", "delayed"] {
            let listed = whole.listed(topic, &format!("state={state}")).await;
            there.extend(listed.iter().map(|message| text(message, "id").to_owned()));
        }
        let mut sent = sent.to_vec();
        sent.sort();
        there.sort();
        assert!(there == sent, "{} are there, of {}", there.len(), sent.len());
        let ready = whole.count(topic, "ready").await;
        let wait_ms = if ready > 0 { 10_000 } else { 0 };
        let want = json!({"max_messages": 1000, "wait_ms": wait_ms});
        let held = whole.leased(topic, want).await;
        assert_eq!(i64::try_from(held.len()).unwrap(), ready);
        // Who looked for messages has looked everywhere.
        for partition in 0..partitions {
            let tag = tag_of_partition(topic, u8::try_from(partition).unwrap());
            let meta = format!("dueq:{{{tag}}}:meta");
            let known: Option<i64> = self.redis.command(&["HGET", &meta, "partitions"]).await;
            assert_eq!(known, Some(partitions), "what partition {partition} knows");
        }
    }

    /// After no call, one, two …, until it is not cut off any more: how many there are. The topic is paused every other time;
    /// whether it is so the first time, is said.
    async fn at_each_step(&self, from: i64, to: i64, paused: bool) -> i64 {
        for calls in 0..MANY {
            if !self.grow(from, to, calls, paused == (calls % 2 == 0)).await {
                return calls;
            }
        }
        panic!("a growth of more than {MANY} calls");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_growth_may_be_cut_off_anywhere() {
    let ground = Ground::start().await;
    for paused in [false, true] {
        let steps = ground.at_each_step(1, 4, paused).await;
        // The registry is written twice, and the partitions are told each time.
        assert!(steps >= 7, "{steps} steps");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_growth_may_be_cut_off_anywhere() {
    let steps = Ground::start().await.at_each_step(4, 16, true).await;
    assert!(steps >= 22, "{steps} steps");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lets_a_topic_grow_may_be_killed_anywhere() {
    let ground = Ground::start().await;
    for calls in [0, 1, 3, 5] {
        ground.kill(1, 4, calls).await;
    }
    for calls in [2, 9, 18] {
        ground.kill(4, 16, calls).await;
    }
}
