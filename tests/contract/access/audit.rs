//! The audit log: every change by whom, every request that was turned away, and no secrets.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::scopes::{KeyFile, bearer};
use crate::harness::*;

fn records(path: &Path) -> Vec<Value> {
    text_of(path).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The last record of this operation, once there is one: records are written after the answer.
async fn last(path: &Path, operation: &str) -> Value {
    let find =
        || async { records(path).into_iter().rfind(|record| record["operation"] == operation) };
    eventually(operation, find).await
}

/// Waits for so many records.
async fn have(path: &Path, count: usize) -> Vec<Value> {
    let find = || async { Some(records(path)).filter(|records| records.len() >= count) };
    let records = eventually("as many records", find).await;
    assert_eq!(records.len(), count, "{records:?}");
    records
}

#[tokio::test]
async fn changes_and_refusals_are_kept_with_who_what_and_how_many() {
    let mine = topic("audit");
    let file =
        KeyFile::of(&[("boss", "admin"), ("ops", &format!("operate:{mine} configure:{mine}"))]);
    let log = file.path.with_extension("audit");
    let launch = file.launch().await.args(["--audit-log"]).args([&log]);
    let dueq = launch.start().await;
    let (boss, ops) = (file.client(&dueq, "boss"), file.client(&dueq, "ops"));
    ops.put_topic(&mine, json!({})).await.expect(201);
    let id = boss.published(&mine, json!({"payload": "sesame", "key": "k"})).await;
    boss.get(&id).await.expect(200);
    boss.lease("audit-nothing", json!({})).await.expect(200);
    let put = last(&log, "putTopic").await;
    for (field, value) in [
        ("key", json!("ops")),
        ("peer", json!("127.0.0.1")),
        ("path", json!(format!("/topics/{mine}"))),
        ("topic", json!(mine)),
        ("outcome", json!("ok")),
    ] {
        assert_eq!(put[field], value, "{put}");
    }
    assert!(
        instant_ms(text(&put, "at")) > 1_700_000_000_000 && put.get("count").is_none(),
        "{put}"
    );
    // By its id, and whoever does it: the topic is kept.
    boss.update(&id, json!({"priority": 1})).await.expect(200);
    let update = last(&log, "updateMessage").await;
    // Reading, publishing and consuming are not.
    have(&log, 2).await;
    assert_eq!(
        (&update["key"], &update["topic"], &update["count"]),
        (&json!("boss"), &json!(mine), &json!(1))
    );
    for number in 0..4 {
        boss.published(&mine, json!({"payload": number})).await;
    }
    ops.purge(&mine, &["ready"]).await.expect(200);
    assert_eq!(last(&log, "purgeTopic").await["count"], 5);
    ops.delete(&id).await.problem(404, "message_not_found");
    let delete = last(&log, "deleteMessage").await;
    assert_eq!(
        (&delete["outcome"], delete.get("count")),
        (&json!("message_not_found"), None),
        "{delete}"
    );
    ops.publish(&mine, json!({"payload": "sesame"})).await.problem(403, "not_allowed");
    let publish = last(&log, "publishMessage").await;
    assert_eq!(publish["detail"], format!("the key ops lacks publish:{mine}"));
    let wrong = bearer("sesame-open-sesame");
    let headers = [("authorization", wrong.as_str()), ("x-request-id", "the-wrong-one")];
    dueq.client().send("GET", "/topics?prefix=sesame", &headers, None).await.expect(401);
    let list = last(&log, "listTopics").await;
    assert_eq!((&list["outcome"], list.get("key")), (&json!("unauthorized"), None), "{list}");
    assert_eq!((&list["path"], &list["request_id"]), (&json!("/topics"), &json!("the-wrong-one")));
    // Who may replace a message may change it.
    let replace = json!({"payload": "sesame", "key": "one", "on_duplicate": "replace"});
    for (status, count) in [(201, 0), (200, 1)] {
        boss.publish(&mine, replace.clone()).await.expect(status);
        let is_it =
            |record: &Value| record["operation"] == "publishMessage" && record["count"] == count;
        let find = || async { records(&log).into_iter().rfind(is_it) };
        assert_eq!(eventually("a record", find).await["topic"], json!(mine));
    }
    let daily = json!({"cron": "0 0 1 1 *", "topic": mine, "message": {"payload": "sesame"}});
    boss.send_json("PUT", &format!("/schedules/{mine}"), &daily).await.expect(201);
    boss.send("DELETE", &format!("/schedules/{mine}"), &[], None).await.expect(204);
    assert_eq!(last(&log, "deleteSchedule").await["topic"], json!(mine));
    assert!(last(&log, "putSchedule").await.get("from_topic").is_none(), "it is new");
    boss.delete_topic(&mine, "?force=true").await.expect(204);
    assert_eq!(last(&log, "deleteTopic").await["count"], 1);
    assert!(
        !text_of(&log).contains("sesame") && !text_of(&log).contains("dq_"),
        "{}",
        text_of(&log)
    );
}

#[tokio::test]
async fn sighup_opens_the_file_anew() {
    let mine = topic("audit");
    let file = KeyFile::of(&[("boss", "admin")]);
    let (log, old) = (file.path.with_extension("audit"), file.path.with_extension("old"));
    let mut dueq = file.launch().await.args(["--audit-log"]).args([&log]).start().await;
    let boss = file.client(&dueq, "boss");
    boss.put_topic(&mine, json!({})).await.expect(201);
    std::fs::rename(&log, &old).unwrap();
    boss.pause_topic(&mine).await.expect(200);
    // The file is written on wherever it is.
    have(&old, 2).await;
    dueq.process.signal(Signal::HUP);
    eventually("a new file", || async { log.exists().then_some(()) }).await;
    boss.resume_topic(&mine).await.expect(200);
    have(&log, 1).await;
    have(&old, 2).await;
}

#[tokio::test]
async fn without_a_file_records_go_to_the_log_where_there_are_keys() {
    let mine = topic("audit");
    let file = KeyFile::of(&[("boss", "admin")]);
    let (kept, off) =
        (file.start().await, file.launch().await.args(["--log", "info,audit=off"]).start().await);
    for dueq in [&kept, &off] {
        file.client(dueq, "boss").put_topic(&mine, json!({})).await;
    }
    let find =
        || async { kept.log().lines().find(|line| line.contains(" audit: ")).map(str::to_owned) };
    let line = eventually("a record in the log", find).await;
    assert!(line.contains("\"operation\":\"putTopic\""), "{line}");
    assert!(!off.log().contains("putTopic"), "{}", off.log());
    let open = instance().await;
    open.client().pause_topic(&mine).await.expect(200);
    open.client().resume_topic(&mine).await.expect(200);
    assert!(!open.log().contains("audit"), "{}", open.log());
}

#[tokio::test]
async fn strangers_are_summed_up_and_cannot_fill_the_disk() {
    let file = KeyFile::of(&[("boss", "admin")]);
    let log = file.path.with_extension("audit");
    let dueq = file.launch().await.args(["--audit-log"]).args([&log]).start().await;
    let long = format!("/{}", "x".repeat(20_000));
    let stranger = dueq.client();
    for number in 0..100 {
        stranger.get_path(&long).await.expect(401);
        let wrong = bearer(&format!("wrong-{number}"));
        stranger.send("GET", "/topics", &[("authorization", &wrong)], None).await;
    }
    let find = || async {
        let records = records(&log);
        let count = |record: &Value| record["count"].as_i64().unwrap_or(1);
        let of = |outcome: &str| -> i64 {
            records.iter().filter(|record| record["outcome"] == outcome).map(count).sum()
        };
        let (refused, slowed) = (of("unauthorized"), of("too_many_attempts"));
        (slowed > 0 && refused + slowed == 200).then_some(records.clone())
    };
    let records = eventually("all are summed up", find).await;
    assert!(records.len() < 50, "{}", records.len());
    let longest = text_of(&log).lines().map(str::len).max();
    assert!(longest.is_some_and(|longest| longest < 600), "{longest:?}");
}

#[tokio::test]
async fn a_schedule_that_moves_names_both_topics_and_a_stop_loses_no_record() {
    let (one, other) = (topic("audit"), topic("audit"));
    let file = KeyFile::of(&[("boss", "admin")]);
    let log = file.path.with_extension("audit");
    let mut dueq = file.launch().await.args(["--audit-log"]).args([&log]).start().await;
    let boss = file.client(&dueq, "boss");
    for (topic, status) in [(&one, 201), (&other, 200)] {
        let daily = json!({"cron": "0 0 1 1 *", "topic": topic, "message": {"payload": 1}});
        boss.send_json("PUT", &format!("/schedules/{one}"), &daily).await.expect(status);
    }
    for _ in 0..50 {
        boss.pause_topic(&one).await;
    }
    dueq.process.signal(Signal::TERM);
    assert_eq!(dueq.exit().await, 0);
    let records = records(&log);
    assert_eq!(records.len(), 52);
    assert_eq!((&records[1]["topic"], &records[1]["from_topic"]), (&json!(other), &json!(one)));
}

#[tokio::test]
async fn a_pipe_that_takes_the_place_of_the_file_is_not_written_to() {
    let file = KeyFile::of(&[("boss", "admin")]);
    let (log, pipe) = (file.path.with_extension("audit"), file.path.with_extension("pipe"));
    fifo(&pipe);
    let mut dueq = file.launch().await.args(["--audit-log"]).args([&log]).start().await;
    let old = file.path.with_extension("old");
    std::fs::rename(&log, &old).unwrap();
    std::fs::rename(&pipe, &log).unwrap();
    dueq.process.signal(Signal::HUP);
    let said = || async { dueq.log().contains("the old file is written on").then_some(()) };
    eventually("the log says so", said).await;
    file.client(&dueq, "boss").put_topic(&topic("audit"), json!({})).await.expect(201);
    have(&old, 1).await;
}

#[tokio::test]
async fn a_log_that_nobody_reads_holds_up_no_request_and_tells_what_it_lost() {
    let mine = topic("audit");
    let file = KeyFile::of(&[("boss", "admin")]);
    let launch = file.launch().await.within(["sh", "-c", "exec \"$@\" 2> pipe", "sh"]);
    let pipe = launch.dir().join("pipe");
    fifo(&pipe);
    // Opened for both, so that neither side waits for the other.
    let reader = File::options().read(true).write(true).open(&pipe).unwrap();
    let mut dueq = launch.start().await;
    let boss = file.client(&dueq, "boss");
    let lost = async || {
        let metrics = boss.get_path("/metrics").await.expect(200);
        let metrics = String::from_utf8(metrics.body).unwrap();
        let line = metrics.lines().find_map(|line| line.strip_prefix("dueq_audit_lost_total "));
        line.unwrap().parse::<u64>().unwrap()
    };
    boss.put_topic(&mine, json!({})).await.expect(201);
    // A pipe takes 64 KiB, and 8,192 records are queued.
    let flood = (0..16).map(async |_| {
        let boss = file.client(&dueq, "boss");
        for _ in 0..600 {
            boss.resume_topic(&mine).await.expect(200);
        }
    });
    join_all(flood).await;
    assert!(lost().await > 0);
    // What dueq has to say of itself meanwhile holds up nobody either.
    for _ in 0..8 {
        dueq.process.signal(Signal::HUP);
        sleep(Duration::from_millis(20)).await;
    }
    dueq.client().get_path("/healthz").await.expect(200);
    boss.published(&mine, json!({"payload": 1})).await;
    boss.ack_leased(&boss.lease_one(&mine).await).await.expect(204);
    let lost = lost().await;
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(reader).lines().map_while(Result::ok) {
            let number =
                line.split("\"lost\":").nth(1).map(|rest| rest.trim_end_matches('}').parse());
            number.map(|number: Result<u64, _>| tell.send(number.unwrap()));
        }
    });
    assert_eq!(eventually("it is told", || async { told.try_recv().ok() }).await, lost);
    assert_eq!(dueq.term().await, 0);
}

#[tokio::test]
async fn a_log_in_is_kept_and_a_dead_topic_is_not_where_anything_came_from() {
    let (mine, dead) = (topic("audit"), topic("audit-dead"));
    let file = KeyFile::of(&[("boss", "admin")]);
    let log = file.path.with_extension("audit");
    let dueq = file.launch().await.args(["--audit-log"]).args([&log]).start().await;
    let login = json!({"api_key": file.key("boss")});
    dueq.client().post("/session", &login).await.expect(204);
    let record = last(&log, "createSession").await;
    assert_eq!((&record["key"], &record["outcome"]), (&json!("boss"), &json!("ok")), "{record}");
    let wrong = json!({"api_key": "dq_wrong-key-of-nobody-at-all"});
    dueq.client().post("/session", &wrong).await.expect(401);
    let refused = |record: &Value| record["outcome"] == "unauthorized";
    let find = || async { records(&log).into_iter().rfind(refused) };
    let record = eventually("a record", find).await;
    assert_eq!((&record["operation"], record.get("key")), (&json!("createSession"), None));
    file.client(&dueq, "boss").put_topic(&mine, json!({"dead_topic": dead})).await.expect(201);
    let record = last(&log, "putTopic").await;
    assert_eq!((&record["topic"], record.get("from_topic")), (&json!(mine), None), "{record}");
}
