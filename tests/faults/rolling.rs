//! Instances of two versions on the same data: nothing is written that one of them could not read, what a newer one wrote
//! survives an older one's changes, and one that could not read the data does not work on them.

use std::time::Duration;

use deadpool_redis::redis;
use serde_json::{Value, json};

use crate::harness::{Client, Dueq, Finished, Launch, Redis, eventually, text, topic};

const ALIVE: &str = "dueq:{service}:alive";
const MIN_READER: &str = "dueq:{service}:min_reader";

/// Registers an instance that runs elsewhere; as it does, it is there for a minute.
async fn register(redis: &Redis, version: &str) -> String {
    let now = redis.time_ms().await;
    let member = format!("00000000000000aa {now} {version}");
    let _: i64 = redis.command(&["ZADD", ALIVE, &(now + 30_000).to_string(), &member]).await;
    member
}

async fn forget(redis: &Redis, member: &str) {
    assert_eq!(redis.command::<i64>(&["ZREM", ALIVE, member]).await, 1);
}

async fn finish(redis: &Redis) -> Finished {
    Launch::command(["migrate", "--finish", "--redis-url", &redis.url()]).finish().await
}

/// Is this refused as long as there is that instance?
async fn waits_for(redis: &Redis, version: &str, client: &Client, send: &Send<'_>) {
    let older = register(redis, version).await;
    let refused = send.to(client).await.problem(503, "upgrade_pending");
    assert!(refused.text("detail").contains("00000000000000aa (dueq 0.0.9)"), "{refused:?}");
    assert_eq!(refused.header("retry-after"), "1");
    forget(redis, &older).await;
}

/// A request with a body.
struct Send<'a>(&'a str, String, Value);

impl Send<'_> {
    async fn to(&self, client: &Client) -> crate::harness::Answer {
        client.send_json(self.0, &self.1, &self.2).await
    }
}

#[tokio::test]
async fn what_an_older_instance_cannot_read_waits_until_it_is_gone() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let (client, name) = (dueq.client(), topic("rolling"));
    let grouped = Send(
        "POST",
        format!("/topics/{name}/messages"),
        json!({"payload": 1, "group": "g", "idempotency_key": "once"}),
    );
    let split = Send("PUT", format!("/topics/{name}-split"), json!({"partitions": 4}));
    waits_for(&redis, "0.0.9+schema.3", &client, &grouped).await;
    waits_for(&redis, "0.0.9+schema.2", &client, &split).await;
    let fair = Send("PUT", format!("/topics/{name}-fair"), json!({"group_order": "fair"}));
    waits_for(&redis, "0.0.9+schema.5", &client, &fair).await;
    assert_eq!(client.topic(&name).await.expect(200).json()["counts"]["ready"], 0);

    // Each is stored as soon as nobody is in the way, and an instance that comes later leaves the topic alone.
    let knows_partitions = register(&redis, "0.0.9+schema.3").await;
    split.to(&client).await.expect(201);
    client.published(&name, json!({"payload": "plain"})).await;
    forget(&redis, &knows_partitions).await;
    let says_nothing = register(&redis, "0.0.9").await;
    assert_eq!(grouped.to(&client).await.expect(201).json()["duplicate"], false);
    let batch = [json!({"payload": 2, "group": "g"})];
    assert_eq!(client.published_batch(&name, &batch).await[0]["status"], "ok");

    // It does not say what it reads: the upgrade cannot be finished.
    let early = finish(&redis).await;
    assert_eq!(early.code, 1, "{early:?}");
    assert!(early.stderr.contains("00000000000000aa (dueq 0.0.9)"), "{early:?}");
    assert_eq!(early.stderr.lines().count(), 1, "{early:?}");
    let none: Option<String> = redis.command(&["GET", MIN_READER]).await;
    assert_eq!(none, None);
    forget(&redis, &says_nothing).await;
    // Nor does what a hand in Redis wrote count as an instance.
    let nonsense = ["ZADD", ALIVE, &redis.time_ms().await.to_string(), "nonsense"];
    let _: i64 = redis.command(&nonsense).await;
    for _ in 0..2 {
        let finished = finish(&redis).await;
        assert_eq!(finished.code, 0, "{finished:?}");
        let known: [String; 2] =
            redis.command(&["MGET", "dueq:{service}:schema", MIN_READER]).await;
        assert_eq!(known, ["7", "7"]);
    }
    let other = Dueq::on(&redis).start().await;
    other.client().published(&name, json!({"payload": 3})).await;
    assert_eq!(Launch::command(["audit", "--redis-url", &redis.url()]).finish().await.code, 0);
}

#[tokio::test]
async fn a_dead_message_moves_once_no_instance_runs_that_would_move_it_again() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let (client, here, there) = (dueq.client(), &topic("moving"), &topic("moved"));
    let config = json!({"dead_topic": there, "dead_form": "raw", "max_attempts": 1});
    client.new_topic(there, json!({})).await;
    client.new_topic(here, config).await;
    let older = register(&redis, "0.1.0+load.4.0..-3+schema.5").await;
    let id = client.published(here, json!({"payload": 1})).await;
    client.nack_leased(&client.lease_one(here).await, json!({})).await.expect(200);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(client.state(&id).await, "dead");
    let claimed = ["ZCOUNT", &format!("dueq:{{{here}:0}}:dead_out"), "-inf", "0"];
    assert_eq!(redis.command::<i64>(&claimed).await, 0);
    forget(&redis, &older).await;
    eventually("it moves", || async { (client.count(there, "ready").await == 1).then_some(()) })
        .await;
    client.get(&id).await.expect(404);
}

#[tokio::test]
async fn an_instance_that_cannot_read_the_data_any_more_stops_and_does_not_start_again() {
    let redis = Redis::start().await;
    let mut dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let name = topic("outdated");
    client.published(&name, json!({"payload": 1})).await;
    // Data that have something newer, which older instances may pass over, are served.
    let _: () = redis.command(&["SET", "dueq:{service}:schema", "9"]).await;
    let _: () = redis.command(&["SET", MIN_READER, "7"]).await;
    let mut other = Dueq::on(&redis).start().await;
    other.client().published(&name, json!({"payload": 2})).await;
    assert_eq!(other.term().await, 0);

    let _: () = redis.command(&["SET", MIN_READER, "8"]).await;
    let line = "need a dueq that reads schema version 8, and this one reads 7: use a newer dueq";
    assert_eq!(dueq.exit().await, 2, "{}", dueq.log());
    assert!(dueq.log().lines().last().unwrap().contains(line), "{}", dueq.log());
    for verb in ["serve", "migrate", "audit"] {
        let refused = Launch::command([verb, "--redis-url", &redis.url()]).finish().await;
        assert_eq!(refused.code, 2, "{verb}: {refused:?}");
        assert!(refused.stderr.contains(line), "{verb}: {refused:?}");
    }
    let left: Vec<String> = redis.command(&["ZRANGE", ALIVE, "0", "-1"]).await;
    assert!(left.is_empty(), "it has taken itself off: {left:?}");
}

/// A string of any bytes in Redis, changed: the field of a hash.
async fn rewritten(redis: &Redis, key: &str, field: &[u8], change: impl FnOnce(&mut Vec<u8>)) {
    let mut connection = redis.connection().await;
    let mut get = redis::cmd("HGET");
    let mut value: Vec<u8> = get.arg(key).arg(field).query_async(&mut connection).await.unwrap();
    change(&mut value);
    let mut set = redis::cmd("HSET");
    let _: i64 = set.arg(key).arg(field).arg(value).query_async(&mut connection).await.unwrap();
}

async fn stored(redis: &Redis, key: &str, field: &[u8]) -> Vec<u8> {
    let mut get = redis::cmd("HGET");
    get.arg(key).arg(field).query_async(&mut redis.connection().await).await.unwrap()
}

/// The key of a message in its partition's hashes.
fn member(id: &str) -> Vec<u8> {
    let hex: Vec<u8> = id.bytes().filter(|byte| *byte != b'-').collect();
    let hex = [&hex[..12], &hex[22..]].concat();
    let digits = hex.chunks(2).map(|two| std::str::from_utf8(two).unwrap());
    digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect()
}

/// The header of a stored body, as JSON, and the payload.
fn parts(body: &[u8]) -> (Value, Vec<u8>) {
    assert_eq!(body[0], 1);
    let end = 3 + usize::from(u16::from_be_bytes([body[1], body[2]]));
    (serde_json::from_slice(&body[3..end]).unwrap(), body[end..].to_vec())
}

fn put_together(header: &Value, payload: &[u8]) -> Vec<u8> {
    let header = serde_json::to_vec(header).unwrap();
    let length = u16::try_from(header.len()).unwrap().to_be_bytes();
    [&[1][..], &length, &header, payload].concat()
}

/// Puts `later` into an object.
fn add_later(object: &mut Value) {
    object["later"] = json!({"a": [1, 2.5, null], "b": "ü"});
}

fn has_later(object: &Value) {
    assert_eq!(object["later"], json!({"a": [1, 2.5, null], "b": "ü"}), "{object}");
}

#[tokio::test]
async fn what_a_newer_instance_wrote_survives_the_changes_of_an_older_one() {
    let redis = Redis::start().await;
    let name = topic("later");
    let keys = ["messages", "events"].map(|what| format!("dueq:{{{name}:0}}:{what}"));
    let (registry, schedules) = ("dueq:{topics}:registry", "dueq:{schedules}:entries");
    let retry = json!({"on": ["5xx"]});
    let push = json!({"url": "http://127.0.0.1:9/", "max_in_flight": 3, "retry": retry});
    let auth = json!({"kind": "basic", "username": "a", "password": "b"});
    let callback = json!({"url": "http://127.0.0.1:9/own", "retry": retry, "auth": auth});
    let mut dueq = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
    let client = dueq.client();
    let settings = json!({"push": push, "retention": {"dead_max": 50}, "max_attempts": 1});
    client.new_topic(&name, settings).await;
    let message =
        json!({"payload": 1, "headers": {"x": "y"}, "callback": callback, "delay_ms": 60_000});
    let id = client.published(&name, message).await;
    let every = json!({"every_ms": 3_600_000, "topic": name, "message": {"payload": 1}});
    client.send_json("PUT", "/schedules/later", &every).await.expect(201);
    assert_eq!(dueq.term().await, 0);

    // As a newer instance leaves them.
    rewritten(&redis, registry, name.as_bytes(), |entry| {
        let text = String::from_utf8(std::mem::take(entry)).unwrap();
        let (words, json) = text.split_at(text.find('{').unwrap());
        let mut json: Value = serde_json::from_str(json).unwrap();
        add_later(&mut json);
        add_later(&mut json["push"]);
        add_later(&mut json["retention"]);
        *entry = format!("{words}{json}").into_bytes();
    })
    .await;
    rewritten(&redis, &keys[0], &member(&id), |body| {
        let (mut header, payload) = parts(body);
        add_later(&mut header);
        add_later(&mut header["u"]);
        add_later(&mut header["u"]["r"]);
        add_later(&mut header["u"]["a"]);
        *body = put_together(&header, &payload);
    })
    .await;
    rewritten(&redis, schedules, b"later", |definition| {
        let mut json: Value = serde_json::from_slice(definition).unwrap();
        add_later(&mut json);
        *definition = json.to_string().into_bytes();
    })
    .await;
    let event = "Z 1700000000000 1 {\"new\":true}\n";
    let mut set = redis::cmd("HSET");
    set.arg(&keys[1]).arg(member(&id)).arg(event);
    let _: i64 = set.query_async(&mut redis.connection().await).await.unwrap();

    let dueq = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
    let client = dueq.client();
    client.update_topic(&name, json!({"lease_ms": 5_000})).await.expect(200);
    client
        .update_topic(&name, json!({"push": push, "retention": {"dead_max": 60}}))
        .await
        .expect(200);
    client.put_topic(&name, json!({"push": push, "max_attempts": 1})).await.expect(200);
    let entry = String::from_utf8(stored(&redis, registry, name.as_bytes()).await).unwrap();
    let settings: Value = serde_json::from_str(&entry[entry.find('{').unwrap()..]).unwrap();
    [&settings, &settings["push"], &settings["retention"]].into_iter().for_each(has_later);
    client.send_json("PUT", "/schedules/later", &every).await.expect(200);
    has_later(&serde_json::from_slice(&stored(&redis, schedules, b"later").await).unwrap());

    client.update(&id, json!({"payload": [2]})).await.expect(200);
    client.update(&id, json!({"headers": {"z": "y"}, "priority": 3})).await.expect(200);
    let (header, payload) = parts(&stored(&redis, &keys[0], &member(&id)).await);
    let callback = &header["u"];
    [&header, callback, &callback["r"], &callback["a"]].into_iter().for_each(has_later);
    assert_eq!((&header["h"], &payload[..]), (&json!({"z": "y"}), &b"[2]"[..]));
    let shown = client.get(&id).await.expect(200).json();
    let kinds: Vec<_> =
        shown["events"].as_array().unwrap().iter().map(|e| text(e, "kind")).collect();
    assert_eq!(kinds, ["published", "updated", "updated"], "what it does not know is not shown");

    // And what happens to the message afterwards: it dies and lives again.
    client.put_topic(&name, json!({"max_attempts": 1})).await.expect(200);
    client.update(&id, json!({"delay_ms": 0})).await.expect(200);
    let leased = client.lease_one(&name).await;
    client.nack_leased(&leased, json!({"reason": "no"})).await.expect(200);
    client.redrive(&id).await.expect(200);
    let (header, _) = parts(&stored(&redis, &keys[0], &member(&id)).await);
    [&header, &header["u"]].into_iter().for_each(has_later);
    let events = String::from_utf8(stored(&redis, &keys[1], &member(&id)).await).unwrap();
    assert!(events.starts_with(event) && events.contains("\nv "), "{events}");
    // However long what is unknown is, it is not cut.
    rewritten(&redis, &keys[0], &member(&id), |body| {
        let (mut header, payload) = parts(body);
        header["later"] = json!("x".repeat(60_000));
        *body = put_together(&header, &payload);
    })
    .await;
    client.update_topic(&name, json!({"push": push})).await.expect(200);
    let long = json!({"headers": {"x": "y".repeat(8_000)}});
    client.update(&id, long).await.expect(200);
    let body = stored(&redis, &keys[0], &member(&id)).await;
    assert!(String::from_utf8_lossy(&body).contains(&"x".repeat(60_000)));
}
