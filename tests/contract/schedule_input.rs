//! What no schedule can be: refused by name, and nothing comes into being.

use serde_json::json;

use crate::facts::unprocessable;
use crate::harness::*;
use crate::schedules::path;

#[tokio::test]
async fn what_is_wrong_with_an_expression_is_named_and_takes_no_time_to_find() {
    let (client, name) = (client().await, topic("bad-cron"));
    for (cron, field, item) in [
        ("0 , * * * *", "minute", "empty"),
        ("0 9 2MON * *", "day of the month", "`2MON`"),
        ("0 9 * FRI *", "month", "`FRI`"),
        ("1,60 * * * *", "minute", "`60`"),
        ("0 9 * * MON-", "day of the week", "empty"),
    ] {
        let began = std::time::Instant::now();
        let body = json!({"cron": cron, "topic": name, "message": {"payload": 1}});
        let answer = client.send_json("PUT", &path(&name), &body).await;
        let reason = answer.json()["errors"][0]["reason"].as_str().unwrap_or_default().to_owned();
        assert!(reason.contains(&format!("the {field} `")) && reason.contains(item), "{answer}");
        unprocessable(answer, "cron");
        assert!(began.elapsed() < std::time::Duration::from_secs(1), "{cron}");
    }
}

#[tokio::test]
async fn what_other_crons_take_is_taken_and_what_quartz_means_otherwise_is_warned_of() {
    let (client, name) = (client().await, topic("other-cron"));
    for (cron, timezone, zone, warns) in [
        ("@daily", "europe/berlin", "Europe/Berlin", false),
        ("0 22-2 * NOV-FEB friday-MON", "AMERICA/NEW_YORK", "America/New_York", false),
        ("0 0/5 9 ? * MON-FRI", "utc", "UTC", false),
        ("0 5/15 9 ? * 2-6", "Asia/Calcutta", "Asia/Calcutta", true),
    ] {
        let body =
            json!({"cron": cron, "timezone": timezone, "topic": name, "message": {"payload": 1}});
        let put = client.send_json("PUT", &path(&name), &body).await.json();
        assert_eq!((&put["cron"], &put["timezone"]), (&json!(cron), &json!(zone)), "{put}");
        let warnings = put["warnings"].to_string();
        assert_eq!(warnings.contains("1 is Sunday"), warns, "{put}");
        assert_eq!(client.get_path(&path(&name)).await.json(), put);
    }
    client.send("DELETE", &path(&name), &[], None).await.expect(204);
}

#[tokio::test]
async fn the_name_of_a_schedule_is_that_of_a_topic_but_none_is_reserved() {
    let client = client().await;
    let long = "x".repeat(129);
    let body = json!({"every_ms": 60_000, "topic": "t", "message": {"payload": 1}});
    for name in
        ["_own", "-a", ".a", "a..b", "%00", "a%20b", "%7Ba%7D", "*", "%C3%A9", ":revision", &long]
    {
        client.send_json("PUT", &path(name), &body).await.problem(400, "invalid_schedule_name");
        client.get_path(&path(name)).await.problem(400, "invalid_schedule_name");
        client.send("DELETE", &path(name), &[], None).await.problem(400, "invalid_schedule_name");
        for verb in ["pause", "resume", "trigger"] {
            let answer = client.post(&format!("{}/{verb}", path(name)), &json!({})).await;
            answer.problem(400, "invalid_schedule_name");
        }
    }
}

#[tokio::test]
async fn a_payload_that_could_never_be_published_is_413() {
    let client = client().await;
    let callback = json!({"url": "http://nowhere.invalid/"});
    for (to, target) in [("topic", json!("t")), ("callback", callback)] {
        let payload = "x".repeat(1_048_577 - 2);
        let schedule = json!({"every_ms": 600_000, to: target, "message": {"payload": payload}});
        let name = topic("too-large");
        client.put_schedule(&name, &schedule).await.problem(413, "payload_too_large");
        client.get_path(&path(&name)).await.problem(404, "schedule_not_found");
    }
}

#[tokio::test]
async fn a_group_and_a_key_are_refused_where_each_tick_would_fail() {
    let client = client().await;
    let topic = crate::partitions::split(&client, 4, json!({})).await;
    let message = json!({"payload": 1, "group": "g", "key": "k"});
    let schedule = json!({"every_ms": 600_000, "topic": topic, "message": message});
    let refused = client.put_schedule(&topic, &schedule).await;
    refused.problem(422, "invalid_input").field("message.group");
    client.get_path(&path(&topic)).await.problem(404, "schedule_not_found");
}
