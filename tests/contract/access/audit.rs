//! The audit log: every change by whom, every request that was turned away, and no secrets.

use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::scopes::{KeyFile, bearer};
use crate::harness::*;

fn records(path: &Path) -> Vec<Value> {
    text_of(path).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The last record of this operation.
fn last(path: &Path, operation: &str) -> Value {
    let found = records(path).into_iter().rfind(|record| record["operation"] == operation);
    found.unwrap_or_else(|| panic!("no {operation} in {}", text_of(path)))
}

#[tokio::test]
async fn changes_and_refusals_are_kept_with_who_what_and_how_many() {
    let mine = topic("audit");
    let mut file = KeyFile::new();
    file.add("boss", &["admin"]);
    file.add("ops", &[&format!("operate:{mine}"), &format!("configure:{mine}")]);
    let log = file.path.with_extension("audit");
    let launch = file.launch().await.args(["--audit-log"]).args([&log]);
    let dueq = launch.start().await;
    let (boss, ops) = (file.client(&dueq, "boss"), file.client(&dueq, "ops"));
    ops.put_topic(&mine, json!({})).await.expect(201);
    let id = boss.published(&mine, json!({"payload": "sesame", "key": "k"})).await;
    boss.get(&id).await.expect(200);
    boss.lease("audit-nothing", json!({})).await.expect(200);
    assert_eq!(
        records(&log).len(),
        1,
        "reading, publishing and consuming are not kept: {}",
        text_of(&log)
    );
    let put = last(&log, "putTopic");
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
    let update = last(&log, "updateMessage");
    assert_eq!(
        (&update["key"], &update["topic"], &update["count"]),
        (&json!("boss"), &json!(mine), &json!(1))
    );
    for number in 0..4 {
        boss.published(&mine, json!({"payload": number})).await;
    }
    ops.purge(&mine, &["ready"]).await.expect(200);
    assert_eq!(last(&log, "purgeTopic")["count"], 5);
    ops.delete(&id).await.problem(404, "message_not_found");
    let delete = last(&log, "deleteMessage");
    assert_eq!(
        (&delete["outcome"], delete.get("count")),
        (&json!("message_not_found"), None),
        "{delete}"
    );
    ops.publish(&mine, json!({"payload": "sesame"})).await.problem(403, "not_allowed");
    let publish = last(&log, "publishMessage");
    assert_eq!(publish["detail"], format!("the key ops lacks publish:{mine}"));
    let wrong = bearer("sesame-open-sesame");
    let headers = [("authorization", wrong.as_str()), ("x-request-id", "the-wrong-one")];
    dueq.client().send("GET", "/topics?prefix=sesame", &headers, None).await.expect(401);
    let list = last(&log, "listTopics");
    assert_eq!((&list["outcome"], list.get("key")), (&json!("unauthorized"), None), "{list}");
    assert_eq!((&list["path"], &list["request_id"]), (&json!("/topics"), &json!("the-wrong-one")));
    let daily = json!({"cron": "0 0 1 1 *", "topic": mine, "message": {"payload": "sesame"}});
    boss.send_json("PUT", &format!("/schedules/{mine}"), &daily).await.expect(201);
    boss.send("DELETE", &format!("/schedules/{mine}"), &[], None).await.expect(204);
    assert_eq!(last(&log, "deleteSchedule")["topic"], json!(mine));
    assert!(
        !text_of(&log).contains("sesame") && !text_of(&log).contains("dq_"),
        "{}",
        text_of(&log)
    );
}

#[tokio::test]
async fn sighup_opens_the_file_anew() {
    let mine = topic("audit");
    let mut file = KeyFile::new();
    file.add("boss", &["admin"]);
    let (log, old) = (file.path.with_extension("audit"), file.path.with_extension("old"));
    let mut dueq = file.launch().await.args(["--audit-log"]).args([&log]).start().await;
    let boss = file.client(&dueq, "boss");
    boss.put_topic(&mine, json!({})).await.expect(201);
    std::fs::rename(&log, &old).unwrap();
    boss.pause_topic(&mine).await.expect(200);
    assert_eq!(records(&old).len(), 2, "the file is written on wherever it is");
    dueq.process.signal(Signal::HUP);
    eventually("a new file", || async { log.exists().then_some(()) }).await;
    boss.resume_topic(&mine).await.expect(200);
    assert_eq!((records(&old).len(), records(&log).len()), (2, 1));
}

#[tokio::test]
async fn without_a_file_records_go_to_the_log_where_there_are_keys() {
    let mine = topic("audit");
    let mut file = KeyFile::new();
    file.add("boss", &["admin"]);
    let (kept, off) =
        (file.start().await, file.launch().await.args(["--log", "info,audit=off"]).start().await);
    for dueq in [&kept, &off] {
        file.client(dueq, "boss").put_topic(&mine, json!({})).await;
    }
    let line = kept.log().lines().find(|line| line.contains(" audit: ")).map(str::to_owned);
    assert!(line.is_some_and(|line| line.contains("\"operation\":\"putTopic\"")), "{}", kept.log());
    assert!(!off.log().contains("putTopic"), "{}", off.log());
    let open = instance().await;
    open.client().pause_topic(&mine).await.expect(200);
    open.client().resume_topic(&mine).await.expect(200);
    assert!(!open.log().contains("audit"), "{}", open.log());
}
