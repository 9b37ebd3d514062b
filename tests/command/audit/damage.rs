//! Each kind of damage, done by hand in Redis: found by its name, mended, gone.

use std::collections::BTreeSet;

use deadpool_redis::redis;
use serde_json::{Value, json};

use super::{audit, clean, report};
use crate::harness::*;

/// What must be true of the message once all is mended.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// It can be leased and acked.
    Leased,
    /// It is in this state.
    In(&'static str),
    /// It is not there any more.
    Gone,
    /// Its topic works; its old id may lead nowhere.
    New,
}
use Then::*;

/// What is published, what is then done to it in Lua, what is found, what becomes of the message. In the Lua `member` and
/// `topic` are the message's, `key(name)` is a key of its partition, `call` is redis.call.
type Damage = (&'static str, &'static str, &'static str, Then);

/// To a message itself.
const MESSAGES: &[Damage] = &[
    ("no_place", "{}", "call('ZREM', key('delayed'), member)", Leased),
    ("no_place", r#"{"priority": 9}"#, "call('ZREM', key('ready'), member)", Leased),
    (
        "no_place",
        r#"{"key": "a", "ttl_ms": 60000}"#,
        "call('DEL', key('delayed'), key('expires'), key('keys'))",
        Leased,
    ),
    ("no_body", "{}", "call('HDEL', key('messages'), member)", Gone),
    (
        "no_body",
        r#"{"key": "b", "priority": 2, "ttl_ms": 9000}"#,
        "call('HDEL', key('messages'), member)",
        Gone,
    ),
    ("many_places", "{}", "call('ZADD', key('dead'), 1, member)", Leased),
    (
        "many_places",
        "{}",
        "call('ZADD', key('acked'), 1, member)\ncall('ZADD', key('ready'), 1, member)",
        Leased,
    ),
    ("many_places", "{}", "call('ZADD', key('unack'), '9000000000000000', member)", In("leased")),
    (
        "wrong_place",
        "{}",
        "call('ZREM', key('delayed'), member)\ncall('ZADD', key('ready'), 5, member)",
        Leased,
    ),
    (
        "wrong_place",
        r#"{"priority": 9}"#,
        "call('ZREM', key('ready'), member)\ncall('ZADD', key('delayed'), 5, member)",
        Leased,
    ),
    ("wrong_place", r#"{"priority": 9}"#, "call('ZADD', key('ready'), 5, member)", Leased),
    ("wrong_place", "{}", "call('ZADD', key('delayed'), '-inf', member)", Leased),
    (
        "bad_id",
        "{}",
        "call('HSET', key('messages'), 'abc', '\\0001')\ncall('ZADD', key('dead'), 1, 'abc')",
        Leased,
    ),
    ("bad_body", "{}", "call('HSET', key('messages'), member, '')", Gone),
    ("bad_body", "{}", "call('HSET', key('messages'), member, '\\1\\0\\3{x}')", Gone),
    (
        "bad_body",
        r#"{"headers": {"a": "b"}}"#,
        "call('HSET', key('messages'), member, '\\7')\ncall('ZREM', key('delayed'), member)",
        Gone,
    ),
    ("bad_extra", "{}", "call('HSET', key('extra'), member, 'x')", Leased),
    (
        "bad_extra",
        r#"{"priority": 3, "key": "c"}"#,
        "call('HSET', key('extra'), member, '1,1,,900')",
        Leased,
    ),
];

/// To what lies beside messages, and to counts.
const BESIDE: &[Damage] = &[
    ("stray_extra", "{}", "call('HSET', key('extra'), 'elevenbytes', '1,1,,0')", Leased),
    ("stray_events", "{}", "call('HSET', key('events'), 'elevenbytes', 'n 1 1\\n')", Leased),
    ("stray_expires", "{}", "call('ZADD', key('expires'), 9e15, 'elevenbytes')", Leased),
    ("stray_expires", "{}", "call('ZADD', key('expires'), 9e15, member)", Leased),
    ("stray_first_due", "{}", "call('ZADD', key('first_due'), 9e15, 'elevenbytes')", Leased),
    (
        "no_expires",
        r#"{"ttl_ms": 60000, "delay_ms": 100}"#,
        "call('ZREM', key('expires'), member)",
        Leased,
    ),
    ("lost_key", r#"{"key": "d"}"#, "call('HDEL', key('keys'), 'd')", Leased),
    ("lost_key", r#"{"key": "e"}"#, "call('HSET', key('keys'), 'e', 'elevenbytes')", Leased),
    ("wrong_line", r#"{"group": "l"}"#, "call('DEL', key('heads'))", Leased),
    (
        "stuck_group",
        r#"{"group": "m"}"#,
        "call('ZREM', key('delayed'), member)\ncall('ZADD', key('blocked'), 1, member)
        call('RENAME', key('heads'), key('queued'))",
        Leased,
    ),
    (
        "stray_heads",
        "{}",
        "call('ZADD', key('heads'), 0, string.rep('0', 28) .. 'elevenbytes')",
        Leased,
    ),
    (
        "stray_queued",
        "{}",
        "call('ZADD', key('queued'), 0, string.rep('0', 28) .. 'elevenbytes')",
        Leased,
    ),
    ("stray_key", "{}", "call('HSET', key('keys'), 'f', member)", Leased),
    ("stray_key", r#"{"key": "g"}"#, "call('HSET', key('keys'), 'h', member)", Leased),
    ("bad_idem", r#"{"idempotency_key": "i"}"#, "call('HSET', key('idem'), 'i', 'x')", Leased),
    ("no_idem_due", r#"{"idempotency_key": "j"}"#, "call('ZREM', key('idem_due'), 'j')", Leased),
    ("stray_idem_due", r#"{"idempotency_key": "k"}"#, "call('HDEL', key('idem'), 'k')", Leased),
    ("counts", "{}", "call('ZADD', key('delayed'), 5, 'elevenbytes')", Leased),
    ("totals", "{}", "call('HINCRBY', key('meta'), 'published', -1)", Leased),
    ("totals", "{}", "call('HINCRBY', key('meta'), 'published', 3)", Leased),
    ("totals", "{}", "call('HINCRBY', key('meta'), 'acked', -3)", Leased),
    ("totals", "{}", "call('HSET', key('meta'), 'granted', 'x')", Leased),
];

/// To topics.
const TOPICS: &[Damage] = &[
    ("partition", "{}", "call('HSET', key('meta'), 'topic', 'x')", Leased),
    ("partition", "{}", "call('HSET', key('meta'), 'topic', '9000 1')", Leased),
    ("partition", "{}", "call('HSET', key('meta'), 'topic', '-' .. number)", Leased),
    ("partition", "{}", "call('HDEL', key('meta'), 'max_attempts')", Leased),
    ("bad_entry", "{}", "call('HSET', registry, topic, 'x')", Leased),
    (
        "bad_entry",
        "{}",
        "call('HSET', registry, topic, call('HGET', registry, topic) .. ' {')",
        Leased,
    ),
    ("no_number", "{}", "call('HDEL', names, number)", Leased),
    ("second_number", "{}", "call('HSET', names, '0', topic)", Leased),
    (
        "taken_number",
        "{}",
        "call('HSET', registry, topic, '1 ' .. call('HGET', names, 'revision'))\ncall('HDEL', names, number)",
        New,
    ),
    ("not_in_index", "{}", "call('ZREM', index, topic)", Leased),
    ("not_in_registry", "{}", "call('HDEL', registry, topic)", Leased),
    ("not_in_registry", "{}", "call('HDEL', registry, topic)\ncall('HDEL', names, number)", New),
    ("late_counter", "{}", "call('HSET', names, 'next', 0)", Leased),
    ("late_counter", "{}", "call('HDEL', names, 'revision')", Leased),
    ("bad_name", "{}", "call('ZADD', index, 0, 'a b')", Leased),
    ("bad_name", "{}", "call('HSET', registry, '..', '5 5')", Leased),
    ("bad_name", "{}", "call('HSET', names, '900', '')", Leased),
    ("bad_name", "{}", "call('ZADD', sweeps, 9e15, 'a b')", Leased),
];

/// Defects that show something about the topic, or about no message that was published.
const ABOUT_OTHERS: &[&str] = &["bad_name", "late_counter"];

async fn damage(redis: &Redis, topic: &str, id: &str, code: &str) {
    let script = format!(
        "local member, topic, prefix = ARGV[1], ARGV[2], ARGV[3]
         local call = redis.call
         local function key(name) return 'dueq:{{' .. topic .. ':0}}:' .. name end
         local registry, names, index = 'dueq:{{topics}}:registry', 'dueq:{{topics}}:names', 'dueq:{{topics}}:index'
         local sweeps = 'dueq:{{sweeps}}:index'
         local number = string.match(call('HGET', registry, topic), '%d+')
         -- The slow walk over all topics would sweep some of what is broken here before the audit sees it.
         call('HSET', names, 'walk_at', call('TIME')[1] * 1000 + 9900)
         {code}"
    );
    let digits = id.replace('-', "");
    let member: Vec<u8> = (0..11)
        .map(|at| {
            let at = if at < 6 { 2 * at } else { 2 * at + 10 };
            u8::from_str_radix(&digits[at..at + 2], 16).unwrap()
        })
        .collect();
    let mut eval = redis::cmd("EVAL");
    eval.arg(script).arg(0).arg(member).arg(topic);
    let done: redis::RedisResult<()> = eval.query_async(&mut redis.connection().await).await;
    done.unwrap_or_else(|error| panic!("{code}: {error}"));
}

/// Does each of them, and audits, repairs and audits.
async fn found_and_mended(damages: &[Damage]) {
    let redis = Redis::start().await;
    let url = redis.url();
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    client.published("first", json!({"payload": 1, "delay_ms": 600_000})).await;
    for (at, (defect, message, code, then)) in damages.iter().enumerate() {
        let case = format!("{defect} by {code}");
        let topic = format!("damaged-{at}");
        let mut message: Value = serde_json::from_str(message).unwrap();
        message["payload"] = json!(at);
        let id = client.published(&topic, message.clone()).await;
        damage(&redis, &topic, &id, code).await;

        let found = audit(&["--redis-url", &url]).await;
        assert_eq!(found.code, 1, "{case}: {found:?}");
        let (findings, _) = report(&found);
        let hit = findings.iter().find(|finding| finding["defect"] == *defect);
        let hit = hit.unwrap_or_else(|| panic!("{case}: {found:?}"));
        assert!(hit["topic"] == topic || ABOUT_OTHERS.contains(defect), "{case}: {found:?}");
        if hit.get("message_id").is_some() && !code.contains("elevenbytes") {
            assert_eq!(hit["message_id"], id, "{case}: {found:?}");
        }
        assert!(
            findings.iter().all(|finding| finding.get("mended").is_none()),
            "{case}: {found:?}"
        );

        let mended = audit(&["--redis-url", &url, "--repair"]).await;
        assert_eq!(mended.code, 1, "{case}: {mended:?}");
        let (findings, _) = report(&mended);
        assert!(findings.iter().all(|finding| finding["mended"].is_string()), "{case}: {mended:?}");
        let again = audit(&["--redis-url", &url]).await;
        assert_eq!(again.code, 0, "{case}: {mended:?}, then {again:?}");
        clean(&again);

        match then {
            Leased => {
                let held = client.lease_one(&topic).await;
                assert_eq!((&held["id"], &held["payload"]), (&json!(id), &json!(at)), "{case}");
                client.ack_leased(&held).await.expect(204);
            }
            New => {
                let held = client.lease_one(&topic).await;
                assert_eq!(held["payload"], at, "{case}");
                client.ack_leased(&held).await.expect(204);
            }
            In(state) => {
                assert_eq!(client.state(&id).await, *state, "{case}");
                client.delete_by_force(&id).await.expect(204);
            }
            Gone => {
                client.get(&id).await.problem(404, "message_not_found");
                assert_eq!(client.total(&topic, "deleted").await, 1, "{case}");
                // Its key is free again.
                client.published(&topic, message).await;
                client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
            }
        }
        clean(&audit(&["--redis-url", &url]).await);
        let path = format!("/topics/{topic}?force=true");
        client.send("DELETE", &path, &[], None).await.expect(204);
    }
    clean(&audit(&["--redis-url", &url]).await);
}

#[tokio::test]
async fn damage_to_messages_is_found_by_its_name_and_mended() {
    found_and_mended(MESSAGES).await;
}

#[tokio::test]
async fn damage_beside_messages_is_found_by_its_name_and_mended() {
    found_and_mended(BESIDE).await;
}

#[tokio::test]
async fn damage_to_topics_is_found_by_its_name_and_mended() {
    found_and_mended(TOPICS).await;
}

#[tokio::test]
async fn a_report_for_people_names_message_member_and_defect() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let id = dueq.client().published("people", json!({"payload": 1})).await;
    damage(&redis, "people", &id, "call('ZREM', key('delayed'), member)").await;
    let url = redis.url();
    let run = async |more: &[&str]| {
        let finished = Launch::command(["audit", "--redis-url", &url]).args(more).finish().await;
        assert_eq!((finished.code, finished.stderr.as_str()), (1, ""), "{finished:?}");
        finished.stdout
    };
    let digits = id.replace('-', "");
    let hex: Vec<char> = [&digits[..12], &digits[22..]].concat().chars().collect();
    let member: String = hex.chunks(2).map(|pair| format!("\\x{}{}", pair[0], pair[1])).collect();
    let printed = run(&[]).await;
    assert!(printed.contains(&format!("people {id} \"{member}\" no_place: ")), "{printed}");
    assert!(printed.ends_with("--repair fixes them\n"), "{printed}");
    let printed = run(&["--repair"]).await;
    assert!(printed.contains("no_place: ") && printed.contains("; it is ready\n"), "{printed}");
}

#[tokio::test]
async fn a_waiting_consumer_gets_what_a_repair_makes_ready() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let id = client.published("waiting", json!({"payload": 1})).await;
    damage(&redis, "waiting", &id, "call('ZREM', key('delayed'), member)").await;
    let other = dueq.client();
    let waiting = async { other.lease_one("waiting").await };
    let repair = async {
        waiters(&client, 1).await;
        audit(&["--redis-url", &redis.url(), "--repair"]).await
    };
    let (held, repaired) = tokio::join!(waiting, repair);
    assert_eq!(held["id"], id);
    assert_eq!(repaired.code, 1, "{repaired:?}");
}

#[test]
fn every_defect_is_done_once_at_least() {
    let done: BTreeSet<&str> =
        [MESSAGES, BESIDE, TOPICS].concat().iter().map(|damage| damage.0).collect();
    let known = include_str!("../../../src/cli/audit/finding.rs");
    let table = known.split("const DEFECTS").nth(1).unwrap().split("];").next().unwrap();
    for line in table.lines() {
        if let Some(name) = line.trim().strip_prefix("(\"") {
            let name = name.split('"').next().unwrap();
            assert!(done.contains(name), "no test breaks {name}");
        }
    }
}
