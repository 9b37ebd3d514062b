//! Data of schema version 1 are served, their live leases too; and a dueq of that version that still runs finds that the
//! data are not its own any more, and writes nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use deadpool_redis::redis;
use serde_json::{Value, json};

use crate::harness::{Client, Dueq, Launch, Redis, eventually, temp_dir, text, topic};

/// A file that a dueq of version 1 left.
fn left(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/version_1").join(name)
}

/// The commands of its append-only file, as Redis reads them. Each is a line of words; a character of a word is a byte.
fn commands() -> Vec<u8> {
    let mut all = Vec::new();
    for line in fs::read_to_string(left("commands.jsonl")).unwrap().lines() {
        let words: Vec<String> = serde_json::from_str(line).unwrap();
        all.extend(format!("*{}\r\n", words.len()).into_bytes());
        for word in words {
            let bytes: Vec<u8> = word.chars().map(|byte| u8::try_from(byte).unwrap()).collect();
            all.extend([format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat());
        }
    }
    all
}

/// A data directory that it left.
fn data_dir() -> PathBuf {
    let data = temp_dir("version_1");
    let files = data.join("appendonlydir");
    fs::create_dir(&files).unwrap();
    for file in ["appendonly.aof.1.base.rdb", "appendonly.aof.manifest"] {
        fs::copy(left(file), files.join(file)).unwrap();
    }
    fs::write(files.join("appendonly.aof.1.incr.aof"), commands()).unwrap();
    data
}

/// A Redis of any version with the data that it left.
async fn redis_with_its_data() -> Redis {
    let redis = Redis::start().await;
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
    stream.write_all(&commands()).unwrap();
    stream.write_all(b"PING loaded\r\n").unwrap();
    let mut answers = Vec::new();
    while !answers.ends_with(b"loaded\r\n") {
        let mut more = [0; 4096];
        let read = stream.read(&mut more).unwrap();
        answers.extend_from_slice(&more[..read]);
    }
    redis
}

/// A message and its token, by what was done with it.
fn held(name: &str) -> Value {
    let all: Value = serde_json::from_str(&fs::read_to_string(left("held.json")).unwrap()).unwrap();
    all[name].clone()
}

/// What the holders of its leases may still do, and what they may not.
async fn its_leases_live(client: &Client) {
    client.ack_leased(&held("first_run")).await.expect(204);
    client.ack_leased(&held("acked")).await.expect(204);
    client.extend_leased(&held("extended"), 60_000).await.expect(200);
    client.ack_leased(&held("extended")).await.expect(204);
    client.ack_leased(&held("over")).await.problem(409, "lease_lost");
    let hold = |name: &str| held(name);
    let acks = json!({"messages": [hold("plain"), hold("over"), hold("last")]});
    let acked = client.post("/messages/ack", &acks).await.expect(200).json();
    let status = |at: usize| acked["results"][at]["status"].as_str().unwrap().to_owned();
    assert_eq!([status(0), status(1), status(2)], ["ok", "lease_lost", "ok"]);
    client.nack_leased(&held("nacked"), json!({"delay_ms": 0})).await.expect(200);

    let mut again = client.leased("orders", json!({"max_messages": 9})).await;
    again.sort_by_key(|message| message["attempt"].as_i64());
    let payloads: Vec<_> = again.iter().map(|message| text(message, "payload")).collect();
    assert_eq!(payloads, ["ready", "nacked"]);
    client.ack_leased(&held("nacked")).await.problem(409, "lease_lost");
    // Tokens of before and after the upgrade in one call.
    let of = |m: &Value| json!({"id": m["id"], "lease_token": m["lease_token"]});
    let acks = [hold("again"), of(&again[0]), of(&again[1])];
    let acked = client.post("/messages/ack", &json!({"messages": acks})).await.expect(200).json();
    let good = acked["results"].as_array().unwrap().iter().all(|result| result["status"] == "ok");
    assert!(good, "{acked}");
    let seen = client.topic("orders").await.expect(200).json();
    assert_eq!(seen["counts"]["leased"], 0);
    assert_eq!(client.count("plain", "delayed").await, 1);
}

async fn schema(redis: &Redis) -> (Option<String>, bool) {
    let runs: i64 = redis.command(&["EXISTS", "dueq:{service}:runs"]).await;
    (redis.command(&["GET", "dueq:{service}:schema"]).await, runs == 1)
}

#[tokio::test]
async fn a_data_directory_of_version_1_is_served_and_its_leases_live() {
    let mut dueq = Dueq::embedded(&data_dir()).start().await;
    its_leases_live(&dueq.client()).await;
    assert_eq!(dueq.term().await, 0);
}

#[tokio::test]
async fn a_redis_with_data_of_version_1_is_served_and_its_leases_live() {
    let redis = redis_with_its_data().await;
    assert_eq!(schema(&redis).await, (Some("1".to_owned()), true));
    let drawn: String = redis.command(&["HGET", "dueq:{service}:runs", ":instances"]).await;
    let dueq = [Dueq::on(&redis).start().await, Dueq::on(&redis).start().await];
    assert_eq!(schema(&redis).await, (Some("2".to_owned()), false));
    let instances: i64 = redis.command(&["GET", "dueq:{service}:instances"]).await;
    assert!(instances > drawn.parse().unwrap(), "{instances} after {drawn}: ids are made of it");
    for name in ["orders", "plain"] {
        let word: String =
            redis.command(&["HGET", &format!("dueq:{{{name}:0}}:meta"), "topic"]).await;
        assert!(word.ends_with(" 2"), "{name}: {word}");
        // Version 1 did not note it: leases look at who has failed more often than is allowed now.
        let lowered: Option<String> =
            redis.command(&["HGET", &format!("dueq:{{{name}:0}}:meta"), "lowered"]).await;
        assert_eq!(lowered.as_deref(), Some("1"), "{name}");
    }
    its_leases_live(&dueq[1].client()).await;
}

#[tokio::test]
async fn migrate_upgrades_and_audit_refuses_what_it_may_not_change() {
    let redis = redis_with_its_data().await;
    let run = |verb: &'static str| Launch::command([verb, "--redis-url", &redis.url()]).finish();
    let refused = run("audit").await;
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("dueq migrate"), "{refused:?}");
    assert_eq!(schema(&redis).await, (Some("1".to_owned()), true), "an audit changes nothing");
    for _ in 0..2 {
        let migrated = run("migrate").await;
        assert_eq!(migrated.code, 0, "{migrated:?}");
        assert_eq!(schema(&redis).await, (Some("2".to_owned()), false));
    }
    // Its leases were moved to where none can end.
    let found = run("audit").await;
    let (lines, summary) = found.stdout.trim_end().rsplit_once('\n').unwrap_or_default();
    assert!(lines.lines().all(|line| line.contains(" wrong_time: ")), "{found:?}");
    assert!(summary.ends_with("6 found; --repair fixes them"), "{found:?}");
    its_leases_live(&Dueq::on(&redis).start().await.client()).await;
}

/// What a dueq of version 1 does that believes in a partition: it tells it the configuration, then works on it.
async fn opened_by_version_1(redis: &Redis, topic: &str, word: &str) -> redis::RedisResult<String> {
    let (number, revision) = word.split_once(' ').unwrap();
    let mut open = redis::cmd("EVAL");
    open.arg(fs::read_to_string(left("open_partition.lua")).unwrap()).arg(2);
    open.arg(format!("dueq:{{{topic}:0}}:meta")).arg(format!("dueq:{{{topic}:0}}:first_due"));
    open.arg(number).arg(revision).arg(10).arg("fixed 1000").arg(30_000).arg(",,,,,").arg("");
    open.query_async(&mut redis.connection().await).await
}

#[tokio::test]
async fn a_dueq_of_version_1_that_still_runs_gets_no_partition_back_and_what_it_makes_is_upgraded()
{
    let redis = redis_with_its_data().await;
    let meta = "dueq:{orders:0}:meta";
    let before: String = redis.command(&["HGET", meta, "topic"]).await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let after: String = redis.command(&["HGET", meta, "topic"]).await;
    assert_eq!(after, format!("{before} 2"));
    opened_by_version_1(&redis, "orders", &before).await.unwrap_err();
    let still: String = redis.command(&["HGET", meta, "topic"]).await;
    assert_eq!(still, after);

    // A topic that it makes now: the first request through a newer dueq takes it over.
    let name = topic("late");
    let entry = "9000 9000";
    for words in [
        ["HSET", "dueq:{topics}:registry", &name, entry],
        ["HSET", "dueq:{topics}:names", "9000", &name],
        ["ZADD", "dueq:{topics}:index", "0", &name],
    ] {
        let _: i64 = redis.command(&words).await;
    }
    assert_eq!(opened_by_version_1(&redis, &name, entry).await.unwrap(), "OK");
    client.published(&name, json!({"payload": 1})).await;
    let leased = client.lease_one(&name).await;
    client.ack_leased(&leased).await.expect(204);
    opened_by_version_1(&redis, &name, entry).await.unwrap_err();
}

#[tokio::test]
async fn data_of_a_newer_version_are_refused_also_by_a_dueq_that_runs() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let (client, name) = (dueq.client(), topic("newer"));
    client.published(&name, json!({"payload": 1})).await;
    let meta = format!("dueq:{{{name}:0}}:meta");
    let word: String = redis.command(&["HGET", &meta, "topic"]).await;
    let newer = format!("{} 3", word.strip_suffix(" 2").unwrap());
    let _: i64 = redis.command(&["HSET", &meta, "topic", &newer]).await;
    client.publish(&name, json!({"payload": 2})).await.problem(503, "redis_unavailable");
    client.lease(&name, json!({})).await.problem(503, "redis_unavailable");
    let _: () = redis.command(&["SET", "dueq:{service}:schema", "8"]).await;
    let refused = Launch::command(["serve", "--redis-url", &redis.url()]).finish().await;
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("schema version 8"), "{refused:?}");
}

#[tokio::test]
async fn a_redis_that_goes_back_to_version_1_is_upgraded_anew() {
    let redis = redis_with_its_data().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    // As an old snapshot that is restored: another epoch, and version 1 again.
    let words = ["SET", "dueq:{service}:schema", "1"];
    let _: () = redis.command(&words).await;
    let meta = "dueq:{orders:0}:meta";
    let word: String = redis.command(&["HGET", meta, "topic"]).await;
    let _: i64 = redis.command(&["HSET", meta, "topic", word.strip_suffix(" 2").unwrap()]).await;
    let _: () = redis.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let _: () = redis.command(&["REPLICAOF", "NO", "ONE"]).await;
    eventually("the upgrade", || async {
        (schema(&redis).await.0.as_deref() == Some("2")).then_some(())
    })
    .await;
    client.ack_leased(&held("plain")).await.expect(204);
}
