//! Each kind of damage, done by hand in Redis: found by its name, mended, gone.

use std::collections::BTreeSet;

use deadpool_redis::redis;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::cases::{BESIDE, Damage, MESSAGES, TOPICS, Then::*};
use super::{audit, clean, report};
use crate::harness::*;

/// Defects that show something about the topic, or about no message that was published.
const ABOUT_OTHERS: &[&str] = &["bad_name", "late_counter", "leftover"];

async fn damage(redis: &Redis, topic: &str, id: &str, code: &str) {
    let script = format!(
        "local member, topic, prefix = ARGV[1], ARGV[2], ARGV[3]
         local call = redis.call
         local function key(name) return 'dueq:{{' .. topic .. ':0}}:' .. name end
         local registry, names, index = 'dueq:{{topics}}:registry', 'dueq:{{topics}}:names', 'dueq:{{topics}}:index'
         local sweeps = 'dueq:{{sweeps}}:index'
         local number = string.match(call('HGET', registry, topic), '%d+')
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

/// Does each of them, and audits, repairs and audits. An audit looks twice, some time apart, so parts of the cases run side by
/// side, each with a Redis of its own.
async fn found_and_mended(damages: &[Damage]) {
    join_all(damages.chunks(6).map(part_is_found_and_mended)).await;
}

async fn part_is_found_and_mended(damages: &[Damage]) {
    let redis = Redis::start().await;
    let url = redis.url();
    let mut dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    client.published("first", json!({"payload": 1, "delay_ms": 600_000})).await;
    for (at, (defect, message, code, then)) in damages.iter().enumerate() {
        let case = format!("{defect} by {code}");
        let topic = format!("damaged-{at}");
        let mut message: Value = serde_json::from_str(message).unwrap();
        message["payload"] = json!(at);
        let id = client.published(&topic, message.clone()).await;
        // What it does by itself now and then could meet the damage, and mend it, before the audit sees it.
        dueq.pause();
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
        dueq.resume();

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
    let known = include_str!("../../../src/store/audit/finding.rs");
    let table = known.split("const DEFECTS").nth(1).unwrap().split("];").next().unwrap();
    for line in table.lines() {
        if let Some(name) = line.trim().strip_prefix("(\"") {
            let name = name.split('"').next().unwrap();
            assert!(done.contains(name), "no test breaks {name}");
        }
    }
}
