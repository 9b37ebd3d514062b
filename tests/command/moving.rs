//! `dueq dump` and `dueq load`: what was in one Redis is in another, down to the byte, wherever that is; a load that was killed
//! goes on; and what is no whole dump is refused before anything is written.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    audit::{audit, clean, fill},
    harness::*,
};

pub async fn dueq(words: &[&str]) -> Finished {
    Launch::command(words).finish().await
}

/// Dumps all of a Redis; returns the file.
pub async fn dump(redis: &Redis, dir: &Path) -> PathBuf {
    let file = dir.join(format!("{}.ndjson", redis.port()));
    let words = ["dump", "--redis-url", &redis.url(), "-o", file.to_str().unwrap()];
    let finished = dueq(&words).await;
    assert_eq!((finished.code, &*finished.stdout), (0, ""), "{finished:?}");
    assert!(!finished.stderr.contains("fuzzy"), "{finished:?}");
    file
}

/// The lines of a dump that do not tell of the dump itself; those of topics without their settings, which the registry may
/// say in other words.
fn contents(file: &Path) -> BTreeSet<String> {
    let lines = fs::read_to_string(file).unwrap();
    let about = |line: &&str| line.starts_with("{\"dump\"") || line.starts_with("{\"end\"");
    let bare = |line: &str| match line.starts_with("{\"topic\"") {
        true => line.split(",\"settings\"").next().unwrap().trim_end_matches('}').to_owned(),
        false => line.to_owned(),
    };
    lines.lines().filter(|line| !about(line)).map(bare).collect()
}

/// A Redis with everything in it: messages of every kind in one partition and in four, groups, bytes of all values, a
/// schedule, a paused topic and a paused host.
async fn full() -> (Redis, Dueq) {
    let redis = Redis::start().await;
    let dueq = Dueq::calling(&redis).start().await;
    let client = dueq.client();
    fill(&client, "every-kind").await;
    client.configure("split", json!({"partitions": 4, "ttl_ms": 3_600_000})).await;
    for n in 0..40 {
        let message = json!({"payload": {"n": n}, "key": format!("k{n}"), "idempotency_key": format!("i{n}")});
        client.published("split", message).await;
    }
    client.lease_one("split").await;
    client
        .configure(
            "grouped",
            json!({"group_concurrency": 2, "dead_topic": "gone", "dead_form": "raw"}),
        )
        .await;
    for n in 0..12 {
        let group = format!("g,{}", n % 2);
        client
            .published("grouped", json!({"payload": n, "group": group, "key": n.to_string()}))
            .await;
    }
    client.lease_one("grouped").await;
    client.pause_group("grouped", "g,1", true).await.expect(200);
    let own = json!({"concurrency": 1, "rate_per_s": 0.3, "burst": 2});
    client.put_group("grouped", "g,0", own).await.expect(200);
    client.put_group("split", "a%2Fb", json!({"concurrency": 7})).await.expect(200);
    client.pause_topic("grouped").await.expect(200);
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    let kind = Some("application/x-all");
    client.post_bytes("/topics/bytes/messages/raw", kind, bytes).await.expect(201);
    client
        .post_text("/topics/bytes/messages", "{\"payload\": {\"a\" :\n 1E400, \"a\":\"\u{e9}\" }}")
        .await
        .expect(201);
    let target =
        [("content-type", "application/x-amz-json-1.0"), ("x-amz-target", "AmazonSQS.SendMessage")];
    let large = json!({"n": {"DataType": "Number", "StringValue": "1".repeat(100_000)}});
    let send = json!({"QueueUrl": "bytes", "MessageBody": "x", "MessageAttributes": large});
    client.send("POST", "/sqs", &target, Some(send.to_string().into())).await.expect(200);
    let callback = json!({
        "url": "http://127.0.0.1:9/x", "delay_ms": 600_000, "headers": {"authorization": "Bearer s"},
        "connect_timeout_ms": 500, "retry": {"on": ["5xx"], "never": ["501"]},
    });
    client.post("/callbacks", &callback).await.expect(201);
    let auth = json!({"kind": "basic", "username": "a", "password": "s"});
    let callback = json!({"url": "http://127.0.0.1:9/x", "delay_ms": 600_000, "auth": auth});
    client.post("/callbacks", &callback).await.expect(201);
    client.post("/callbacks/hosts/127.0.0.1:9/pause", &json!({})).await.expect(200);
    let schedule = json!({"every_ms": 3_600_000, "topic": "split", "message": {"payload": 1}});
    client.send_json("PUT", "/schedules/hourly", &schedule).await.expect(201);
    (redis, dueq)
}

#[tokio::test]
async fn what_was_dumped_is_loaded_as_it_was() {
    let (redis, mut from) = full().await;
    let dir = temp_dir("dump");
    let file = dump(&redis, &dir).await;
    let path = file.to_str().unwrap();
    assert!(!dir.join(format!("{}.ndjson.partial", redis.port())).exists());

    let other = Redis::start().await;
    let url = other.url();
    let trial = dueq(&["load", path, "--redis-url", &url, "--dry-run"]).await;
    assert_eq!(
        (trial.code, other.command::<i64>(&["EXISTS", "dueq:{topics}:names"]).await),
        (0, 0)
    );
    let loaded = dueq(&["load", path, "--redis-url", &url, "--verify"]).await;
    assert_eq!((loaded.code, &*loaded.stderr), (0, ""), "{loaded:?}");
    clean(&audit(&["--redis-url", &url]).await);
    assert_eq!(contents(&dump(&other, &dir).await), contents(&file));
    // No dueq works on it that does not know of all that is there.
    assert_eq!(other.command::<i64>(&["GET", "dueq:{service}:min_reader"]).await, 6);

    // The ids are kept, and lead to the same answers; also the names do, and keys that make a publish safe to repeat.
    let to = Dueq::on(&other).start().await;
    let (client, before) = (to.client(), from.client());
    for line in fs::read_to_string(&file).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(id) =
            line["message"]["id"].as_str().filter(|_| line["message"]["state"] != "untold")
        {
            let (is, was) =
                (client.get(id).await.expect(200).json(), before.get(id).await.expect(200).json());
            assert_eq!(is, was);
        }
    }
    let again = json!({"payload": {"n": 7}, "key": "k7", "idempotency_key": "i7"});
    assert_eq!(client.publish("split", again).await.expect(200).json()["duplicate"], true);
    assert_eq!(client.topic("grouped").await.expect(200).json()["paused"], true);
    client.resume_topic("grouped").await.expect(200);
    // Of one group a message is leased, and it may have no more; the other is paused.
    assert_eq!(client.leased("grouped", json!({"max_messages": 10})).await.len(), 0);
    for (topic, group) in [("grouped", "g,0"), ("grouped", "g,1"), ("split", "a%2Fb")] {
        assert_eq!(client.group(topic, group).await, before.group(topic, group).await);
        client.delete_group(topic, group).await.expect(204);
    }
    assert_eq!(client.leased("grouped", json!({"max_messages": 10})).await.len(), 3);
    assert_eq!(
        client.get_path("/callbacks/hosts").await.expect(200).json()["items"][0]["paused"],
        true
    );
    assert_eq!(
        client.get_path("/schedules/hourly").await.expect(200).json(),
        before.get_path("/schedules/hourly").await.expect(200).json()
    );

    for topic in ["every-kind", "split", "grouped", "bytes"] {
        let (is, was) =
            (client.topic(topic).await.expect(200), before.topic(topic).await.expect(200));
        assert_eq!(is.json()["config"], was.json()["config"]);
    }

    // The place is not empty any more, and is compared with the dump.
    let refused = dueq(&["load", path, "--redis-url", &url]).await;
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains(
            "the place is not empty: it has the topics _callbacks, bytes, every-kind and"
        ),
        "{refused:?}"
    );
    client.purge("split", &["ready"]).await.expect(200);
    let differs = dueq(&["load", path, "--redis-url", &url, "--verify", "--dry-run"]).await;
    assert_eq!((differs.code, &*differs.stdout), (1, "split: 1 messages, not 40\n"), "{differs:?}");
    from.term().await;
}

#[tokio::test]
async fn beside_what_is_there_messages_get_new_ids() {
    let (redis, dueq_there) = full().await;
    let (dir, client, url) = (temp_dir("beside"), dueq_there.client(), redis.url());
    let file = dir.join("some.ndjson");
    let words = ["dump", "--redis-url", &url, "--topics", "split,gro*"];
    let dumped = dueq(&words).await;
    assert_eq!(dumped.code, 0, "{dumped:?}");
    fs::write(&file, &dumped.stdout).unwrap();
    let (path, map) = (file.to_str().unwrap(), dir.join("map"));
    let words = [
        "load",
        path,
        "--redis-url",
        &url,
        "--into",
        "copy-",
        "--map",
        map.to_str().unwrap(),
        "--verify",
    ];
    let loaded = dueq(&words).await;
    assert_eq!((loaded.code, &*loaded.stderr), (0, ""), "{loaded:?}");
    assert!(loaded.stdout.contains("the schedule copy-hourly is paused"), "{loaded:?}");
    clean(&audit(&["--redis-url", &url]).await);
    let map = fs::read_to_string(&map).unwrap();
    assert_eq!(map.lines().count(), 40 + 12);
    for line in map.lines() {
        let (was, is) = line.split_once('\t').unwrap();
        let (was, is) =
            (client.get(was).await.expect(200).json(), client.get(is).await.expect(200).json());
        assert_eq!(json!(format!("copy-{}", text(&was, "topic"))), is["topic"]);
        assert_eq!(
            (&was["payload"], &was["state"], &was["key"]),
            (&is["payload"], &is["state"], &is["key"])
        );
    }
    let config = client.topic("copy-grouped").await.expect(200).json();
    assert_eq!(
        (&config["config"]["dead_topic"], &config["paused"]),
        (&json!("copy-gone"), &json!(true))
    );
    let again = dueq(&words).await;
    assert_eq!(again.code, 1);
    assert!(again.stderr.contains("choose another prefix"), "{again:?}");
    let nothing = dueq(&["dump", "--redis-url", &url, "--topics", "split,no-such"]).await;
    assert_eq!((nothing.code, &*nothing.stderr), (1, "dueq: there is no topic no-such\n"));
}

#[tokio::test]
async fn a_load_that_was_killed_goes_on_without_duplicates() {
    let redis = Redis::start().await;
    let there = Dueq::on(&redis).start().await;
    for batch in 0..10 {
        let message = |n: i32| json!({"payload": batch * 100 + n, "priority": n % 3, "key": format!("{batch}-{n}")});
        let messages: Vec<_> = (0..100).map(message).collect();
        there.client().published_batch("orders", &messages).await;
    }
    let (dir, other) = (temp_dir("killed"), Redis::start().await);
    let file = dump(&redis, &dir).await;
    let text = fs::read(&file).unwrap();
    let half = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(700).unwrap().0 + 1;

    // By a pipe it cannot know that more is to come, and has loaded what it got when it is killed.
    let mut load = Command::new(binary());
    load.args(["load", "-", "--redis-url", &other.url()]).stdin(Stdio::piped());
    let mut load = load.spawn().unwrap();
    let mut pipe = load.stdin.take().unwrap();
    pipe.write_all(&text[..half]).unwrap();
    pipe.flush().unwrap();
    let count = async || other.command::<i64>(&["HLEN", "dueq:{orders:0}:messages"]).await;
    eventually("some are loaded", async || (count().await >= 256).then_some(())).await;
    load.kill().unwrap();
    load.wait().unwrap();
    let to = Dueq::on(&other).start().await;
    assert_eq!(to.client().topic("orders").await.expect(200).json()["paused"], true);
    let path = file.to_str().unwrap();
    let loaded = dueq(&["load", path, "--redis-url", &other.url(), "--verify"]).await;
    assert_eq!((loaded.code, &*loaded.stderr), (0, ""), "{loaded:?}");
    assert!(loaded.stdout.contains("were there before"), "{loaded:?}");
    assert_eq!(count().await, 1_000);
    assert_eq!(to.client().total("orders", "published").await, 1_000);
    clean(&audit(&["--redis-url", &other.url()]).await);
    assert_eq!(contents(&dump(&other, &dir).await), contents(&file));
    assert_eq!(to.client().topic("orders").await.expect(200).json()["paused"], false);
}

#[tokio::test]
async fn what_is_no_whole_dump_is_refused_before_anything_is_written() {
    let redis = Redis::start().await;
    let there = Dueq::on(&redis).start().await;
    for n in 0..3 {
        there.client().published("orders", json!({"payload": n})).await;
    }
    let daily = json!({"cron": "0 9 * * *", "topic": "orders", "message": {"payload": 1}});
    there.client().send_json("PUT", "/schedules/daily", &daily).await.expect(201);
    let (dir, other) = (temp_dir("bad"), Redis::start().await);
    let text = fs::read_to_string(dump(&redis, &dir).await).unwrap();
    let bad = dir.join("bad.ndjson");
    let cut = text[..text.len() / 2].to_owned();
    let (cut_at, lines) = (cut.lines().count(), text.lines().count());
    for (bad_text, reason) in [
        (String::new(), "line 1: this is no dump: it is empty".to_owned()),
        (cut, format!("line {cut_at}: the dump is cut")),
        (
            text.replacen("\"text\":\"1\"", "\"text\":\"2\"", 1),
            format!("line {lines}: the dump was edited: its lines do not have this hash"),
        ),
        (
            text.lines()
                .filter(|line| !line.contains("\"text\":\"1\""))
                .map(|line| format!("{line}\n"))
                .collect(),
            format!("line {}: the dump was edited: it has 2 messages, not 3", lines - 1),
        ),
        (
            text.replacen("\"format\":2", "\"format\":3", 1),
            "line 1: the dump has format 3, as dueq".to_owned(),
        ),
        (format!("{text}{text}"), format!("line {}: something follows the last line", lines + 1)),
    ] {
        fs::write(&bad, bad_text).unwrap();
        let refused = dueq(&["load", bad.to_str().unwrap(), "--redis-url", &other.url()]).await;
        assert_eq!((refused.code, &*refused.stdout), (1, ""), "{refused:?}");
        assert!(refused.stderr.contains(&reason), "{refused:?}, not {reason}");
        assert_eq!(other.command::<i64>(&["DBSIZE"]).await, 0, "{reason}");
    }
}
