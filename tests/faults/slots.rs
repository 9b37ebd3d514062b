//! Ready for Redis Cluster: every call's keys lie in one slot, and scripts touch no key that was
//! not passed to them. Shown of everything that dueq sends while a workload visits every route, on
//! a Redis in cluster mode, which refuses calls across slots by itself.

use std::collections::BTreeSet;

use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{self, RedisResult};
use serde_json::{Value, json};

use crate::harness::{
    Answer, Client, Cluster, Dueq, Launch, Receiver, Reply, eventually, slot, text, topic,
};
use crate::monitor::{Call, MARKER, Monitor};

mod moves;

/// Commands that name no key, as a client or inside a script.
const KEYLESS: [&str; 17] = [
    "WAIT",
    "SCAN",
    "TIME",
    "ROLE",
    "PING",
    "INFO",
    "SCRIPT",
    "PUBLISH",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "CLIENT",
    "CONFIG",
    "HELLO",
    "COMMAND",
    "UNWATCH",
    "CLUSTER",
    "ECHO",
];

/// Every route, and every script with what branches it has over keys.
async fn visit_everything(one: &Client, other: &Client) {
    let (here, there) = (&topic("slots"), &topic("slots-other"));
    let plain = one.published(here, json!({"payload": 1})).await;
    one.published(here, json!({"payload": 2, "priority": 7})).await;
    one.published(here, json!({"payload": 3, "priority": 8, "delay_ms": 30})).await;
    one.published(here, json!({"payload": 4, "delay_ms": 60_000, "headers": {"a": "b"}})).await;
    one.published(here, json!({"payload": "x".repeat(9_000)})).await;
    other.published(there, json!({"payload": 1, "max_attempts": 1})).await;
    one.publish_raw(there, "?delay_ms=10", Some("text/plain"), b"raw").await.expect(201);
    for path in [format!("/topics/{here}"), "/topics".into(), format!("/messages/{plain}")] {
        one.get_path(&path).await.expect(200);
    }

    // Held, given back, prolonged, acked alone and with a lease, refused.
    let first = one.lease_one(here).await;
    one.extend_leased(&first, 60_000).await.expect(200);
    one.get(text(&first, "id")).await.expect(200);
    one.delete(text(&first, "id")).await.problem(409, "message_leased");
    one.nack_leased(&first, json!({"delay_ms": 20})).await.expect(200);
    one.ack_leased(&first).await.problem(409, "lease_lost");
    one.ack(text(&first, "id"), "forged").await.problem(409, "lease_lost");
    let second = other.lease_one_with(here, json!({"max_bytes": 100})).await;
    other.nack_leased(&second, json!({})).await.expect(200);
    let third = other.lease_one(here).await;
    let ack = json!({"id": third["id"], "lease_token": third["lease_token"]});
    let fourth = other.lease_one_with(here, json!({"acks": [ack]})).await;
    other.ack_leased(&fourth).await.expect(204);
    let last = one.lease_one(there).await;
    one.nack_leased(&last, json!({})).await.expect(200);
    assert_eq!(one.state(text(&last, "id")).await, "dead");
    one.delete(text(&last, "id")).await.expect(204);

    // Leases that end by themselves, the last one too; a waiter that the other instance wakes.
    let brief = topic("slots-brief");
    for fields in [json!({"payload": 1}), json!({"payload": 2, "max_attempts": 1, "priority": 1})] {
        let id = one.published(&brief, fields).await;
        one.lease_one_with(&brief, json!({"lease_ms": 1_000})).await;
        eventually("its end", || async { (one.state(&id).await != "leased").then_some(()) }).await;
        one.leased(&brief, json!({"max_messages": 9})).await;
    }
    let waited = topic("slots-waited");
    let (leased, ()) = tokio::join!(one.lease_one(&waited), async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        other.published(&waited, json!({"payload": 1})).await;
    });
    one.ack_leased(&leased).await.expect(204);
    one.delete(&plain).await;
    for path in ["/healthz", "/readyz", "/metrics", "/topics?limit=1"] {
        one.get_path(path).await.expect(200);
    }
    visit_limits(one).await;
    visit_options(one).await;
    visit_pushed(one).await;
    visit_topics(one, other).await;
    visit_schedules(one).await;
}

/// A group, and a limit that consumers keep together.
async fn visit_limits(one: &Client) {
    let here = &topic("slots-limits");
    one.put_topic(here, json!({"max_leased": 1, "rate_per_s": 50})).await.expect(201);
    for n in 0..3 {
        one.published(here, json!({"payload": n, "group": "customer-7"})).await;
    }
    let held = one.lease_one_with(here, json!({"wait_ms": 5_000})).await;
    assert!(one.leased(here, json!({})).await.is_empty());
    one.extend_leased(&held, 60_000).await.expect(200);
    one.get_path(&format!("/topics/{here}/groups")).await.expect(200);
    one.get_path(&format!("/topics/{here}/groups/customer-7")).await.expect(200);
    // Settings of its own, in force for what waits, in both orders.
    for order in ["strict", "fair"] {
        one.reconfigure(here, json!({"group_order": order})).await;
        for settings in [json!({"paused": true}), json!({"paused": false, "rate_per_s": 1000})] {
            one.put_group(here, "customer-7", settings).await.expect(200);
        }
    }
    one.reconfigure(here, json!({"group_order": "strict"})).await;
    one.delete_group(here, "customer-7").await.expect(204);
    one.ack_leased(&held).await.expect(204);
    let held = one.lease_one_with(here, json!({"wait_ms": 5_000})).await;
    one.nack_leased(&held, json!({"dead": true})).await.expect(200);
    one.post(&format!("/topics/{here}/purge"), &json!({"states": ["blocked", "ready"]})).await;
}

/// Sends JSON.
async fn send(client: &Client, method: &str, path: &str, body: Value) -> Answer {
    let kind = [("content-type", "application/json")];
    client.send(method, path, &kind, Some(body.to_string().into_bytes())).await
}

/// Whatever a message can name, and what can be done with one.
async fn visit_options(one: &Client) {
    let here = &topic("slots-options");
    let all = json!({"payload": 1, "key": "k", "ttl_ms": 60_000, "priority": 3, "headers": {"a": "b"},
        "idempotency_key": "i", "backoff": {"kind": "fixed", "base_ms": 10}, "delay_ms": 60_000});
    let id = one.published(here, all.clone()).await;
    one.publish(here, all).await.expect(200);
    for on_duplicate in ["return", "replace"] {
        let again = json!({"payload": 2, "key": "k", "on_duplicate": on_duplicate});
        one.publish(here, again).await.expect(200);
    }
    let by_key = format!("/topics/{here}/keys/k");
    one.get_path(&by_key).await.expect(200);
    let change = json!({"payload": "new", "delay_ms": 0, "ttl_ms": 60_000});
    send(one, "PATCH", &by_key, change).await.expect(200);
    let held = one.lease_one(here).await;
    one.nack_leased(&held, json!({"dead": true, "reason": "why"})).await.expect(200);
    send(one, "PATCH", &format!("/messages/{id}"), json!({"priority": 0})).await.expect(200);
    send(one, "POST", &format!("/messages/{id}/redrive"), json!({})).await.expect(200);
    let held = one.lease_one(here).await;
    one.delete_by_force(text(&held, "id")).await.expect(204);
    let once = json!({"payload": 1, "key": "once", "key_until": "granted", "ttl_ms": 1_000});
    let batch = json!({"messages": [once, {"payload": 2}, {"payload": 3, "ttl_ms": 30}]});
    send(one, "POST", &format!("/topics/{here}/messages/batch"), batch).await.expect(200);
    one.lease_one(here).await;
}

/// What dueq sends itself: delivered and kept, failed, and passed because there is no place for it.
async fn visit_pushed(one: &Client) {
    let here = &topic("slots-pushed");
    let receiver = Receiver::start().await;
    // Slow calls at first, so that messages are parked for longer than is needed, and fetched.
    receiver.answer_next("/", [Reply::status(500), Reply::never(), Reply::never()]);
    let push = json!({"url": receiver.url("/"), "rate_per_s": 1_000, "max_in_flight_per_host": 1, "timeout_ms": 400});
    let config = json!({"push": push, "backoff": {"kind": "fixed", "base_ms": 10},
        "retention": {"acked_ms": 60_000}});
    send(one, "PUT", &format!("/topics/{here}"), config).await.expect(201);
    for payload in 0..24 {
        let key = payload.to_string();
        one.published(here, json!({"payload": payload, "key": key, "key_until": "granted"})).await;
    }
    receiver.wait_for(27).await;
    visit_hosts(one, &receiver).await;
}

/// A host that is paused, and how calls to it went as an instance wrote it down.
async fn visit_hosts(one: &Client, receiver: &Receiver) {
    let host = format!("/callbacks/hosts/{}", receiver.addr());
    for verb in ["pause", "resume"] {
        send(one, "POST", &format!("{host}/{verb}"), json!({})).await.expect(200);
    }
    let (ill, topic) = (Receiver::start().await, &topic("slots-failing"));
    ill.answer(Reply::status(500));
    let push = json!({"url": ill.url("/"), "failing_after": 1, "failing_over_ms": 100});
    let backoff = json!({"kind": "fixed", "base_ms": 50});
    let config = json!({"push": push, "backoff": backoff, "max_attempts": 100});
    send(one, "PUT", &format!("/topics/{topic}"), config).await.expect(201);
    for _ in 0..3 {
        one.published(topic, json!({"payload": 1})).await;
    }
    eventually("it fails", || async {
        let list = one.get_path("/callbacks/hosts").await.expect(200).json();
        let mut items = list["items"].as_array()?.iter();
        items.find(|it| it["failing"] == true && it["waiting"] == 3).map(drop)
    })
    .await;
    ill.answer(Reply::status(200));
    eventually("it answers", || async { (one.total(topic, "acked").await == 3).then_some(()) })
        .await;
    eventually("a report", || async {
        let list = one.get_path("/callbacks/hosts").await.expect(200).json();
        list["items"].as_array().is_some_and(|items| !items.is_empty()).then_some(())
    })
    .await;
}

/// Whatever a topic can be told, and what can be done with all that is in one.
async fn visit_topics(one: &Client, other: &Client) {
    let (here, dead) = (&topic("slots-topics"), &topic("slots-dead"));
    let path = &format!("/topics/{here}");
    let config = json!({"ttl_ms": 50_000, "max_messages": 3, "on_full": "drop_oldest", "max_attempts": 1,
        "dead_topic": dead, "retention": {"acked_ms": 60_000, "dead_max": 2}});
    send(one, "PUT", path, config).await.expect(201);
    for priority in [0, 0, 7, 8, 9] {
        other.published(here, json!({"payload": 1, "priority": priority})).await;
    }
    let held = one.lease_one(here).await;
    one.ack_leased(&held).await.expect(204);
    other.ack_leased(&held).await.expect(204);
    for _ in 0..2 {
        let held = one.lease_one(here).await;
        one.nack_leased(&held, json!({})).await.expect(200);
    }
    eventually("what died is told of", || async {
        (one.topic(dead).await.status == 200).then_some(())
    })
    .await;
    send(one, "POST", &format!("{path}/redrive"), json!({"spread_ms": 10_000})).await.expect(200);
    one.published(here, json!({"payload": 1, "delay_ms": 60_000})).await;
    for state in ["delayed", "ready", "leased", "dead", "acked"] {
        one.get_path(&format!("{path}/messages?state={state}&payload=true")).await.expect(200);
    }
    one.get_path(&format!("{path}/forecast?bucket_ms=1000&buckets=10")).await.expect(200);
    send(one, "PATCH", path, json!({"ttl_ms": null})).await.expect(200);
    send(one, "POST", &format!("{path}/pause"), json!({})).await.expect(200);
    other.leased(here, json!({})).await;
    send(one, "POST", &format!("{path}/resume"), json!({})).await.expect(200);
    let purge = json!({"states": ["delayed", "ready", "dead"]});
    send(one, "POST", &format!("{path}/purge"), purge).await.expect(200);
    // Housekeeping comes by itself: a topic with a lease that ends soon, and the walk over all.
    let brief = topic("slots-swept");
    one.published(&brief, json!({"payload": 1, "max_attempts": 1})).await;
    one.lease_one_with(&brief, json!({"lease_ms": 1_000})).await;
    eventually("the sweep", || async {
        let metrics = one.get_path("/metrics").await.expect(200);
        let swept = "dueq_group_size_count{script=\"sweep\"}";
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        let count = text.lines().find_map(|line| line.strip_prefix(swept));
        count.and_then(|count| count.trim().parse::<u64>().ok()).filter(|count| *count > 3)
    })
    .await;
    one.send("DELETE", &format!("{path}?force=true"), &[], None).await.expect(204);
}

/// Whatever can be done with a schedule; it ticks, too.
async fn visit_schedules(one: &Client) {
    let path = "/schedules/slots";
    let every = json!({"every_ms": 1_000, "topic": "slots-schedule", "message": {"payload": 1}});
    send(one, "PUT", path, every.clone()).await.expect(201);
    eventually("a tick", || async {
        one.get_path(path).await.expect(200).json().get("last_at").cloned()
    })
    .await;
    send(one, "PUT", path, every).await.expect(200);
    one.get_path("/schedules?limit=1").await.expect(200);
    for verb in ["trigger", "pause", "resume"] {
        send(one, "POST", &format!("{path}/{verb}"), json!({})).await.expect(200);
    }
    one.send("DELETE", path, &[], None).await.expect(204);
}

/// The keys of each of these commands, as Redis itself finds them.
async fn keys_of<'a>(
    connection: &mut MultiplexedConnection,
    commands: impl Iterator<Item = &'a Vec<String>>,
) -> Vec<BTreeSet<String>> {
    let commands: Vec<&Vec<String>> = commands.collect();
    let names_keys = |words: &[String]| !KEYLESS.contains(&words[0].to_uppercase().as_str());
    let mut asked = redis::pipe();
    for words in commands.iter().filter(|words| names_keys(words)) {
        asked.cmd("COMMAND").arg("GETKEYS").arg(words);
    }
    let keys: RedisResult<Vec<Vec<String>>> = match asked.is_empty() {
        true => Ok(Vec::new()),
        false => asked.query_async(connection).await,
    };
    let keys = keys.unwrap_or_else(|error| panic!("the keys of {commands:?}: {error}"));
    let mut keys = keys.into_iter();
    let each = |words: &&Vec<String>| match names_keys(words) {
        true => keys.next().expect("an answer").into_iter().collect(),
        false => BTreeSet::new(),
    };
    commands.iter().map(each).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_stays_in_one_slot_and_every_key_is_declared() {
    // A single node that has all slots.
    let cluster = Cluster::start(1, 0).await;
    let redis = cluster.node(0);
    let monitor = Monitor::start(redis.port()).await;
    let (one, other) = (Dueq::calling(redis).start().await, Dueq::calling(redis).start().await);
    visit_everything(&one.client(), &other.client()).await;
    let client = one.client();
    let noted = topic("slots-noted");
    let id = client.published(&noted, json!({"payload": 1, "delay_ms": 60_000})).await;
    client.post("/messages/run", &json!({"ids": [id]})).await.expect(200);
    // By the instances, once the step is over; then a reader has it noted.
    let history = format!("dueq:{{{noted}:0}}:history");
    eventually("it is noted", || async {
        let there: i64 = redis.command(&["EXISTS", &history]).await;
        (there == 1).then_some(())
    })
    .await;
    client.get_path(&format!("/topics/{noted}/history")).await.expect(200);
    moves::visit_sqs(&client).await;
    moves::visit_moves(&client, redis).await;
    moves::visit_dead(&client).await;
    moves::visit_split_limit(&client).await;
    moves::visit_quotas(redis).await;
    // A place without a body, for the audit to find and to mend.
    let damaged = topic("slots-damaged");
    one.client().published(&damaged, json!({"payload": 1, "key": "k", "ttl_ms": 60_000})).await;
    let place = format!("dueq:{{{damaged}:0}}:delayed");
    let _: i64 = redis.command(&["ZADD", &place, "1", "no member.."]).await;
    let audit = Launch::command(["audit", "--repair", "--redis-url", &redis.url()]).finish().await;
    assert_eq!(audit.code, 1, "{audit:?}");
    let _: String = redis.command(&["ECHO", MARKER]).await;
    let calls = monitor.calls().await;

    let mut scripts = BTreeSet::new();
    let mut connection = redis.connection().await;
    for Call { words, inner } in &calls {
        let all = keys_of(&mut connection, [words].into_iter().chain(inner)).await;
        let (keys, touched) = all.split_first().unwrap();
        let slots: BTreeSet<u16> = keys.iter().map(|key| slot(key)).collect();
        assert!(slots.len() <= 1, "{words:?} has keys in slots {slots:?}");
        if words[0].to_uppercase().starts_with("EVAL") {
            scripts.insert(words[1].clone());
        }
        for (command, touched) in inner.iter().zip(touched) {
            let undeclared: Vec<_> = touched.difference(keys).collect();
            assert!(undeclared.is_empty(), "{command:?} touches {undeclared:?} within {words:?}");
        }
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations-lua/scripts");
    let files = std::fs::read_dir(folder).unwrap().count();
    // All but `fence`, which has nothing to do without a replica.
    assert_eq!(scripts.len(), files - 1, "scripts that the workload ran, of all that there are");
    assert!(calls.len() > 50, "{} commands", calls.len());
    for redis_says_no in ["CROSSSLOT", "MOVED", "non local key"] {
        let logs = one.log() + &other.log();
        assert!(!logs.contains(redis_says_no), "{redis_says_no} in {logs}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_works_over_three_primaries() {
    let cluster = Cluster::start(3, 0).await;
    let calling = || cluster.launch().args(["--callback-allow", "127.0.0.0/8"]);
    let (one, other) = (calling().start().await, calling().start().await);
    visit_everything(&one.client(), &other.client()).await;
    for redis_says_no in ["CROSSSLOT", "MOVED", "non local key"] {
        let logs = one.log() + &other.log();
        assert!(!logs.contains(redis_says_no), "{redis_says_no} in {logs}");
    }
}

#[tokio::test]
async fn slots_are_computed_as_redis_does() {
    // A single node that has all slots.
    let cluster = Cluster::start(1, 0).await;
    let redis = cluster.node(0);
    for key in ["dueq:{orders:0}:delayed", "a", "{}b", "x{y}{z}", "dueq:{topics}:names", "a}b{c"] {
        let wanted: u16 = redis.command(&["CLUSTER", "KEYSLOT", key]).await;
        assert_eq!(slot(key), wanted, "{key}");
    }
}
