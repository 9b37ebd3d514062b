//! `dueq serve` without a Redis: it brings its own, keeps it, and takes it along.

use std::path::Path;
use std::time::Duration;

use deadpool_redis::redis;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::harness::*;

/// One command on the embedded Redis, by its socket.
async fn ask(data_dir: &Path, words: &[&str]) -> Vec<String> {
    let url = format!("redis+unix://{}", data_dir.join("redis.sock").display());
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    redis::cmd(words[0]).arg(&words[1..]).query_async(&mut connection).await.unwrap()
}

/// The embedded Redis of this instance.
fn redis_of(dueq: &Dueq) -> u32 {
    let of = children(dueq.pid());
    assert_eq!(of.len(), 1, "one child: {of:?}");
    of[0]
}

async fn ends(pid: u32) {
    eventually("its Redis ends", || async { (!lives(pid)).then_some(()) }).await;
}

#[tokio::test]
async fn a_directory_is_all_it_needs() {
    let data = temp_dir("data").join("made/by/dueq");
    let dueq = Dueq::embedded(&data).start().await;
    let (client, topic) = (dueq.client(), topic("embedded"));
    client.published(&topic, json!({"payload": 1, "delay_ms": 50})).await;
    let held = client.lease_one(&topic).await;
    client.ack_leased(&held).await.expect(204);
}

#[tokio::test]
async fn without_any_argument_the_directory_is_dueq_data_where_it_was_started() {
    let launch = Launch::command(["serve"]);
    let data = launch.dir().join("dueq-data");
    let _dueq = launch.start().await;
    assert!(data.join("redis.sock").exists());
}

#[tokio::test]
async fn it_is_durable_private_and_never_evicts() {
    for (fsync, is) in
        [(None, "everysec"), (Some("everysec"), "everysec"), (Some("always"), "always")]
    {
        let data = temp_dir("data");
        let launch = Dueq::embedded(&data);
        let _dueq = match fsync {
            Some(fsync) => launch.args(["--fsync", fsync]).start().await,
            None => launch.start().await,
        };
        for (name, value) in [
            ("appendonly", "yes"),
            ("appendfsync", is),
            ("maxmemory-policy", "noeviction"),
            ("port", "0"),
        ] {
            assert_eq!(ask(&data, &["CONFIG", "GET", name]).await, [name, value]);
        }
    }
}

#[tokio::test]
async fn its_redis_has_half_of_the_machines_memory_or_what_it_is_told() {
    let memory = |data: &Path| {
        let data = data.to_owned();
        async move { ask(&data, &["CONFIG", "GET", "maxmemory"]).await[1].parse::<u64>().unwrap() }
    };
    let data = temp_dir("data");
    let _dueq = Dueq::embedded(&data).start().await;
    let info = std::fs::read_to_string("/proc/meminfo").unwrap();
    let kib = info.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    let machine = kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024;
    let share = memory(&data).await;
    assert!(share > 0 && share <= machine / 2, "{share} of {machine}");
    for (told, bytes) in [("64mb", 64 << 20), ("0", 0)] {
        let data = temp_dir("data");
        let _dueq = Dueq::embedded(&data).args(["--redis-maxmemory", told]).start().await;
        assert_eq!(memory(&data).await, bytes);
    }
    for bad in ["", "half", "-1", "1tb", "1.5gb"] {
        let told = format!("--redis-maxmemory={bad}");
        let finished = Dueq::embedded(&temp_dir("data")).args([&told]).finish().await;
        assert_eq!(finished.code, 2, "{finished:?}");
        assert!(finished.stderr.contains("--redis-maxmemory"), "{finished:?}");
    }
}

#[tokio::test]
async fn a_full_queue_is_an_answer_and_acks_make_room_again() {
    let data = temp_dir("data");
    let dueq = Dueq::embedded(&data).args(["--redis-maxmemory", "8mb"]).start().await;
    let (client, topic) = (dueq.client(), topic("full"));
    let message = json!({"payload": "x".repeat(200_000)});
    let full = eventually("it is full", || async {
        let answer = client.publish(&topic, message.clone()).await;
        (answer.status != 201).then_some(answer)
    })
    .await;
    assert!(full.problem(503, "redis_unavailable").header("retry-after").parse::<u32>().is_ok());
    for _ in 0..5 {
        client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    }
    eventually("room again", || async {
        (client.publish(&topic, message.clone()).await.status == 201).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_second_start_on_the_same_directory_is_refused() {
    let data = temp_dir("data");
    let mut dueq = Dueq::embedded(&data).start().await;
    let second = Dueq::embedded(&data).args(["--listen", "127.0.0.1:0"]).finish().await;
    crate::refusals::one_line(&second, &[&data.display().to_string()]);
    let client = dueq.client();
    client.published(&topic("embedded"), json!({"payload": 1})).await;
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    Dueq::embedded(&data).start().await;
}

#[tokio::test]
async fn after_a_stop_and_a_start_everything_is_there() {
    let data = temp_dir("data");
    let mut dueq = Dueq::embedded(&data).start().await;
    let (client, topic) = (dueq.client(), topic("embedded"));
    let leased = client.published(&topic, json!({"payload": "held"})).await;
    let held = client.lease_one(&topic).await;
    let doomed = client.published(&topic, json!({"payload": "d", "max_attempts": 1})).await;
    let last = client.lease_one(&topic).await;
    client.nack_leased(&last, json!({})).await.expect(200);
    let delayed = client
        .published(&topic, json!({"payload": "later", "delay_ms": 600_000, "priority": 3}))
        .await;
    let ready = client.published(&topic, json!({"payload": "now", "headers": {"a": "b"}})).await;
    let mut before = Vec::new();
    for id in [&leased, &doomed, &delayed, &ready] {
        before.push(client.get(id).await.expect(200).json());
    }
    let counted = client.topic(&topic).await.expect(200).json();
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());

    let dueq = Dueq::embedded(&data).start().await;
    let client = dueq.client();
    for (id, before) in [&leased, &doomed, &delayed, &ready].into_iter().zip(before) {
        assert_eq!(client.get(id).await.expect(200).json(), before);
    }
    let after = client.topic(&topic).await.expect(200).json();
    assert_eq!((&after["counts"], &after["totals"]), (&counted["counts"], &counted["totals"]));
    client.ack_leased(&held).await.expect(204);
    let message = client.lease_one(&topic).await;
    assert_eq!(message["id"], ready);
    client.ack_leased(&message).await.expect(204);
    assert!(!client.published(&topic, json!({"payload": 1})).await.is_empty());
}

#[tokio::test]
async fn its_redis_stops_with_it() {
    let mut dueq = Dueq::embedded(&temp_dir("data")).start().await;
    let redis = redis_of(&dueq);
    assert_eq!(dueq.term().await, 0, "{}", dueq.log());
    assert!(!lives(redis), "it waits for its Redis before it ends");
}

#[tokio::test]
async fn its_redis_dies_with_a_killed_parent_and_the_next_start_finds_the_data() {
    let data = temp_dir("data");
    let mut dueq = Dueq::embedded(&data).start().await;
    let (client, topic) = (dueq.client(), topic("embedded"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    let redis = redis_of(&dueq);
    dueq.kill9();
    // Not waited for: the next start must cope with a Redis that is just about to end.
    let dueq = Dueq::embedded(&data).start().await;
    ends(redis).await;
    assert_eq!(dueq.client().state(&id).await, "ready");
}

#[tokio::test]
async fn its_redis_outlives_ctrl_c_until_the_drain_is_done() {
    let data = temp_dir("data");
    let mut dueq = Dueq::embedded(&data).start().await;
    let (client, topic) = (dueq.client(), topic("embedded"));
    let held_topic = format!("{topic}-polled");
    let poller = client.clone();
    let poll = tokio::spawn(async move {
        poller.lease(&held_topic, json!({"wait_ms": 30_000})).await.expect(200).json()
    });
    waiters(&client, 1).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    let redis = redis_of(&dueq);
    dueq.process.signal_group(Signal::INT);
    assert_eq!(dueq.exit().await, 0, "{}", dueq.log());
    assert_eq!(poll.await.unwrap()["messages"], json!([]), "the poll was answered");
    assert!(!lives(redis));
    let dueq = Dueq::embedded(&data).start().await;
    assert_eq!(dueq.client().state(&id).await, "ready");
}

#[tokio::test]
async fn its_redis_is_started_again_when_it_ends_by_itself() {
    let data = temp_dir("data");
    let dueq = Dueq::embedded(&data).args(["--fsync", "always"]).start().await;
    let (client, topic) = (dueq.client(), topic("embedded"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    let redis = Pid::from_raw(redis_of(&dueq) as i32).unwrap();
    kill_process(redis, Signal::KILL).unwrap();
    eventually("readyz 200 on the next one", || async {
        let ready = client.get_path("/readyz").await.status == 200;
        // Readiness may be a second old; the message is asked for.
        let found = client.get(&id).await.status == 200;
        let next = children(dueq.pid());
        let another = next.len() == 1 && next[0] as i32 != redis.as_raw_nonzero().get();
        (ready && found && another).then_some(())
    })
    .await;
    assert_eq!(client.state(&id).await, "ready");
    client.published(&topic, json!({"payload": 2})).await;
}

#[tokio::test]
async fn ready_in_a_moment() {
    let data = temp_dir("data");
    // Otherwise it would wait for it in the time that is measured.
    turn().await;
    let start = std::time::Instant::now();
    Dueq::embedded(&data).start().await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// SIGKILL for an instance and its Redis at once, as when the power fails.
async fn power_off(dueq: &mut Dueq) {
    let redis = redis_of(dueq);
    dueq.pause(); // so that it does not start another
    kill_process(Pid::from_raw(redis as i32).unwrap(), Signal::KILL).unwrap();
    dueq.kill9();
    ends(redis).await;
}

#[tokio::test]
async fn half_a_change_at_the_end_of_the_log_is_never_applied() {
    let data = temp_dir("data");
    let mut dueq = Dueq::embedded(&data).args(["--fsync", "always"]).start().await;
    let name = topic("torn");
    for n in 0..2 {
        dueq.client().published(&name, json!({"payload": n, "delay_ms": 600_000})).await;
    }
    power_off(&mut dueq).await;
    // Of the last change its EXEC is gone, and a part of what it did.
    let log =
        if is_redis_6() { "appendonly.aof" } else { "appendonlydir/appendonly.aof.1.incr.aof" };
    let log = data.join(log);
    let log = std::fs::File::options().write(true).open(log).unwrap();
    log.set_len(log.metadata().unwrap().len() - 30).unwrap();
    for n in 0..2 {
        let mut dueq = Dueq::embedded(&data).args(["--fsync", "always"]).start().await;
        let seen = dueq.client().topic(&name).await.expect(200).json();
        assert_eq!(seen["counts"]["delayed"], 1 + n, "{seen}");
        assert_eq!(seen["totals"]["published"], 1 + n, "{seen}");
        assert_eq!(dueq.log().contains("in the middle of a change"), n == 0, "{}", dueq.log());
        dueq.client().published(&name, json!({"payload": n, "delay_ms": 600_000})).await;
        power_off(&mut dueq).await;
    }
    let dueq = Dueq::embedded(&data).start().await;
    let ids = dueq.client().listed(&name, "state=delayed").await;
    assert_eq!(ids.len(), 3, "{ids:?}");
    assert_eq!(dueq.client().total(&name, "published").await, 3);
}
