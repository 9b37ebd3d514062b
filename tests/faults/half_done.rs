//! An instance that dies half way leaves something that the next one finishes; what comes in between is not lost.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Dueq, Redis, Wire, etag, eventually, text, topic, waiters};
use crate::monitor::{Call, MARKER, Monitor};
use crate::proof::proxy::{Mode, Proxy};

/// What the registry says of a topic, to be put back as if its DELETE had died before it took the topic out.
struct Entry {
    name: String,
    entry: String,
    number: String,
}

impl Entry {
    async fn of(redis: &Redis, name: &str) -> Entry {
        let entry: String = redis.command(&["HGET", "dueq:{topics}:registry", name]).await;
        let number = entry.split(' ').next().unwrap().to_owned();
        Entry { name: name.to_owned(), entry, number }
    }

    async fn put_back(&self, redis: &Redis) {
        for words in [
            ["HSET", "dueq:{topics}:registry", &self.name, &self.entry],
            ["HSET", "dueq:{topics}:names", &self.number, &self.name],
            ["ZADD", "dueq:{topics}:index", "0", &self.name],
        ] {
            let _: i64 = redis.command(&words).await;
        }
    }
}

#[tokio::test]
async fn a_put_after_a_delete_that_died_half_way_makes_the_topic_anew() {
    let redis = Redis::start().await;
    let (dueq, second) = (Dueq::on(&redis).start().await, Dueq::on(&redis).start().await);
    let (client, name) = (dueq.client(), &topic("half"));
    for client in [&client, &second.client()] {
        let made = client.put_topic(name, json!({"lease_ms": 2000})).await.expect(201).json();
        let entry = Entry::of(&redis, name).await;
        client.send("DELETE", &format!("/topics/{name}"), &[], None).await.expect(204);
        entry.put_back(&redis).await;
        let put = client.put_topic(name, json!({"lease_ms": 5000})).await.expect(201).json();
        assert_eq!(put["config"]["lease_ms"], 5000);
        assert_ne!(put["revision"], made["revision"]);
        let seen = client.topic(name).await.expect(200).json();
        assert_eq!(seen["config"]["lease_ms"], 5000);
        client.published(name, json!({"payload": 1})).await;
        let leased = client.lease_one(name).await;
        client.ack_leased(&leased).await.expect(204);

        let entry = Entry::of(&redis, name).await;
        client.send("DELETE", &format!("/topics/{name}"), &[], None).await.expect(204);
        let config = json!({"lease_ms": 7000});
        entry.put_back(&redis).await;
        let guarded = client.topic_if("PUT", name, Some(&etag(&put)), &config).await;
        guarded.problem(412, "revision_mismatch");
        entry.put_back(&redis).await;
        client.update_topic(name, config).await.problem(404, "topic_not_found");
        client.topic(name).await.problem(404, "topic_not_found");
    }
}

#[tokio::test]
async fn a_configuration_whose_writer_died_half_way_holds_nothing_up_at_maxmemory() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let (client, name) = (dueq.client(), &topic("half"));
    client.put_topic(name, json!({"lease_ms": 60_000})).await.expect(201);
    for n in 0..2 {
        client.published(name, json!({"payload": n})).await;
    }
    let held = client.lease_one(name).await;
    let Entry { entry, .. } = Entry::of(&redis, name).await;
    let mut parts = entry.splitn(3, ' ');
    let (number, revision) = (parts.next().unwrap(), parts.next().unwrap());
    let later = revision.parse::<i64>().unwrap() + 1;
    let later = format!("{number} {later} {}", json!({"lease_ms": 90_000}));
    let _: i64 = redis.command(&["HSET", "dueq:{topics}:registry", name, &later]).await;
    let _: () = redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    // A new one knows what the registry says, and finds the partition behind it.
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    client.ack_leased(&held).await.expect(204);
    let held = client.lease_one(name).await;
    assert!(held["lease_ms"].as_i64().unwrap() > 80_000, "{held}");
    client.ack_leased(&held).await.expect(204);
}

#[tokio::test]
async fn a_registry_that_lost_a_change_catches_up_with_the_partition() {
    let redis = Redis::start().await;
    let (dueq, name) = (Dueq::on(&redis).start().await, &topic("behind"));
    let client = dueq.client();
    client.put_topic(name, json!({"lease_ms": 2000})).await.expect(201);
    let before = Entry::of(&redis, name).await;
    client.put_topic(name, json!({"lease_ms": 5000})).await.expect(200);
    client.published(name, json!({"payload": 1})).await;
    // As after a failover of the server that has the registry, while the partition is at another.
    before.put_back(&redis).await;
    let second = Dueq::on(&redis).start().await;
    for client in [&second.client(), &client] {
        client.published(name, json!({"payload": 2})).await;
        let leased = client.lease_one(name).await;
        client.ack_leased(&leased).await.expect(204);
        assert_eq!(client.topic(name).await.expect(200).json()["config"]["lease_ms"], 2000);
    }

    // It was deleted and made again, which the registry has forgotten.
    let before = Entry::of(&redis, name).await;
    client.send("DELETE", &format!("/topics/{name}?force=true"), &[], None).await.expect(204);
    client.published(name, json!({"payload": 3})).await;
    before.put_back(&redis).await;
    let third = Dueq::on(&redis).start().await;
    for client in [&third.client(), &client] {
        client.published(name, json!({"payload": 4})).await;
        let leased = client.lease_one(name).await;
        client.ack_leased(&leased).await.expect(204);
    }
}

#[tokio::test]
async fn a_topic_keeps_its_partitions_whoever_writes_its_configuration() {
    let redis = Redis::start().await;
    let (dueq, name) = (Dueq::on(&redis).start().await, &topic("split"));
    let client = dueq.client();
    client.put_topic(name, json!({"partitions": 8})).await.expect(201);
    let keyed = |n: usize| json!({"payload": n, "key": format!("order-{n}")});
    for n in 0..32 {
        client.published(name, keyed(n)).await;
    }
    // What a dueq writes that knows of one partition only. It would find that this one is of a newer version.
    let entry: String = redis.command(&["HGET", "dueq:{topics}:registry", name]).await;
    let mut words = entry.split(' ').map(|word| word.parse::<i64>().unwrap_or_default());
    let (number, revision) = (words.next().unwrap(), words.next().unwrap());
    let meta = format!("dueq:{{{name}:0}}:meta");
    let known: String = redis.command(&["HGET", &meta, "topic"]).await;
    assert_eq!(known, format!("{number} {revision} 3"));
    let written = format!("{number} {} {{\"lease_ms\":2000}}", revision + 1);
    let _: i64 = redis.command(&["HSET", "dueq:{topics}:registry", name, &written]).await;

    let second = Dueq::on(&redis).start().await;
    for client in [&second.client(), &client] {
        for n in 0..32 {
            client.publish(name, keyed(n)).await.expect(200);
        }
        let config = client.topic(name).await.expect(200).json()["config"].clone();
        assert_eq!((&config["partitions"], &config["lease_ms"]), (&json!(8), &json!(2000)));
    }

    // The registry forgets the topic, which is made again: a later one takes its place, or an earlier one comes back.
    let entry = Entry::of(&redis, name).await;
    let number: i64 = entry.number.parse().unwrap();
    for number in [number + 5, number + 2] {
        let _: i64 = redis.command(&["HDEL", "dueq:{topics}:names", &entry.number]).await;
        let next = (number - 1).to_string();
        let _: i64 = redis.command(&["HSET", "dueq:{topics}:names", "next", &next]).await;
        let _: i64 = redis.command(&["HDEL", "dueq:{topics}:registry", name]).await;
        let dueq = Dueq::on(&redis).start().await;
        let client = dueq.client();
        client.published(name, json!({"payload": 1})).await;
        let config = client.topic(name).await.expect(200).json()["config"].clone();
        assert_eq!(config["partitions"], 8);
    }
    assert_eq!(
        client.leased(name, json!({"max_messages": 100, "wait_ms": 10_000})).await.len(),
        34
    );
}

#[tokio::test]
async fn a_deletion_that_died_once_nothing_could_be_published_is_taken_back() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).args(["--redis-timeout-ms", "1000"]).start().await;
    let (client, name) = (dueq.client(), &topic("closing"));
    client.put_topic(name, json!({"partitions": 4})).await.expect(201);
    let entry: String = redis.command(&["HGET", "dueq:{topics}:registry", name]).await;
    let words: Vec<&str> = entry.splitn(3, ' ').collect();
    let mut settings: Value = serde_json::from_str(words[2]).unwrap();
    settings["closing"] = json!(true);
    let written = words[1].parse::<i64>().unwrap() + 1;
    let entry = format!("{} {written} {settings}", words[0]);
    let _: i64 = redis.command(&["HSET", "dueq:{topics}:registry", name, &entry]).await;
    let word = format!("{} {written} 3", words[0]);
    let metas: Vec<String> = redis.command(&["KEYS", &format!("dueq:{{{name}:*}}:meta")]).await;
    assert_eq!(metas.len(), 4);
    for meta in &metas {
        let _: i64 = redis.command(&["HSET", meta, "topic", &word]).await;
    }
    for n in 0..20 {
        client.published(name, json!({"payload": n, "key": format!("order-{n}")})).await;
    }
    assert_eq!(
        client.leased(name, json!({"max_messages": 100, "wait_ms": 10_000})).await.len(),
        20
    );
}

#[tokio::test]
async fn a_deletion_with_force_first_sees_to_it_that_nothing_is_published() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let (client, name) = (dueq.client(), &topic("forced"));
    client.put_topic(name, json!({"partitions": 4})).await.expect(201);
    client.published(name, json!({"payload": 1})).await;
    let monitor = Monitor::start(redis.port()).await;
    client.delete_topic(name, "?force=true").await.expect(204);
    let _: String = redis.command(&["ECHO", MARKER]).await;
    let calls = monitor.calls().await;
    let does = |call: &Call, command: &str| call.inner.iter().any(|words| words[0] == command);
    let closed = calls.iter().position(|call| does(call, "PEXPIRE")).unwrap();
    let told = |call: &Call| call.words.iter().any(|word| word.contains("\"closing\":true"));
    let told = calls.iter().position(told).unwrap();
    // Each partition knows of it before the first is closed.
    let opened = calls[told..closed].iter().filter(|call| does(call, "PERSIST")).count();
    assert_eq!(opened, 4);
}

#[tokio::test]
async fn the_walk_goes_on_after_the_clock_was_ahead_for_a_while() {
    let redis = Redis::start().await;
    let ahead = redis.time_ms().await + 86_400_000;
    let walk_at = ahead.to_string();
    let _: i64 = redis.command(&["HSET", "dueq:{topics}:names", "walk_at", &walk_at]).await;
    let _dueq = Dueq::on(&redis).start().await;
    eventually("a step of the walk", || async {
        let at: i64 = redis.command(&["HGET", "dueq:{topics}:names", "walk_at"]).await;
        (at < ahead).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_goes_back_whose_client_is_gone_and_whose_topic_has_changed() {
    let redis = Redis::start().await;
    let proxy = Proxy::of(&redis).await;
    let far = Dueq::at(&proxy.url()).args(["--redis-timeout-ms", "30000"]).start().await;
    let near = Dueq::on(&redis).start().await;
    let (client, name) = (near.client(), &topic("gone"));
    client.put_topic(name, json!({"lease_ms": 600_000})).await.expect(201);
    let wire = Wire::long_poll(far.addr(), name).await;
    waiters(&far.client(), 1).await;
    // The grant is made, and on its way while the topic changes and the client goes.
    proxy.set(Mode::Delay(Duration::from_secs(4)));
    let id = client.published(name, json!({"payload": 1})).await;
    let unack = format!("dueq:{{{name}:0}}:unack");
    eventually("the grant", || async {
        let leased: i64 = redis.command(&["ZCARD", &unack]).await;
        (leased == 1).then_some(())
    })
    .await;
    client.update_topic(name, json!({"max_attempts": 7})).await.expect(200);
    drop(wire);
    proxy.set(Mode::Pass);
    let mut again: Value = client.lease_one(name).await;
    assert_eq!(text(&again, "id"), id);
    assert_eq!(again["attempts_left"].take(), 6, "a grant that nobody saw does not count");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_are_leased_than_may_be_though_a_partition_does_not_say_what_it_granted() {
    let redis = Redis::start().await;
    let proxy = Proxy::of(&redis).await;
    let cut = Dueq::at(&proxy.url()).args(["--redis-timeout-ms", "1000"]).start().await;
    let whole = Dueq::on(&redis).start().await;
    let (client, other) = (cut.client(), whole.client());
    let config = json!({"partitions": 4, "max_leased": 1, "lease_ms": 3_600_000});
    let mut unsaid = 0;
    for (wait, calls) in [0, 300].into_iter().flat_map(|wait| (0..10).map(move |n| (wait, n))) {
        let topic = topic("lost-lease");
        other.new_topic(&topic, config.clone()).await;
        let named: Vec<_> =
            (0..16).map(|n| json!({"payload": n, "key": format!("k{n}")})).collect();
        other.fill(&topic, &named).await;
        client.topic(&topic).await.expect(200);
        proxy.lose_answer_after_calls(calls);
        let answer = client.lease(&topic, json!({"wait_ms": wait})).await;
        proxy.mend();
        let told = answer.json()["messages"].as_array().map_or(0, Vec::len);
        let leased = other.count(&topic, "leased").await;
        assert!(leased <= 1, "{leased} after {calls} calls, and {answer}");
        unsaid += usize::from(leased == 1 && told == 0);
    }
    assert!(unsaid > 0, "no answer to a lease was lost");
}
