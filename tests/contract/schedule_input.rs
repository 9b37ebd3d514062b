//! What no schedule can be: refused by name, and nothing comes into being.

use serde_json::json;

use crate::facts::unprocessable;
use crate::harness::*;
use crate::schedules::path;

/// Bodies that are refused, and the field that `errors` names. `T` and `M` stand for a topic and a message.
const BODIES: &[(&str, &str)] = &[
    (r#"{"topic":T,"message":M}"#, "cron"),
    (r#"{"cron":null,"every_ms":null,"topic":T,"message":M}"#, "cron"),
    (r#"{"cron":"* * * * *","every_ms":1000,"topic":T,"message":M}"#, "every_ms"),
    (r#"{"cron":"","topic":T,"message":M}"#, "cron"),
    (r#"{"cron":5,"topic":T,"message":M}"#, "cron"),
    (r#"{"cron":"* * * *","topic":T,"message":M}"#, "cron"),
    (r#"{"cron":"* * * * * * 2030","topic":T,"message":M}"#, "cron"),
    (r#"{"cron":"@reboot","topic":T,"message":M}"#, "cron"),
    (r#"{"cron":"0 , * * * *","topic":T,"message":M}"#, "cron"),
    (r#"{"cron":", * * * *","topic":T,"message":M}"#, "cron"),
    (r#"{"cron":"1,,2 * * * *","topic":T,"message":M}"#, "cron"),
    (r#"{"cron":"JAN 9 * * *","topic":T,"message":M}"#, "cron"),
    (r#"{"cron":"0 9 * * FEB","topic":T,"message":M}"#, "cron"),
    (r#"{"cron":"0 9 * * MON,L","topic":T,"message":M}"#, "cron"),
    (r#"{"cron":"*/90 * * * *","topic":T,"message":M}"#, "cron"),
    (r#"{"cron":"60 * * * *","topic":T,"message":M}"#, "cron"),
    (r#"{"cron":"* * * * MOO","topic":T,"message":M}"#, "cron"),
    (r#"{"cron":"0 0 30 2 *","topic":T,"message":M}"#, "cron"),
    (r#"{"cron":"* * * * *","timezone":"","topic":T,"message":M}"#, "timezone"),
    (r#"{"cron":"* * * * *","timezone":"Europe/Berlinn","topic":T,"message":M}"#, "timezone"),
    (r#"{"cron":"* * * * *","timezone":"+02:00","topic":T,"message":M}"#, "timezone"),
    (r#"{"cron":"* * * * *","timezone":"../zoneinfo/UTC","topic":T,"message":M}"#, "timezone"),
    (r#"{"cron":"* * * * *","timezone":"Etc/Unknown","topic":T,"message":M}"#, "timezone"),
    (r#"{"every_ms":1000,"timezone":"UTC","topic":T,"message":M}"#, "timezone"),
    (r#"{"every_ms":999,"topic":T,"message":M}"#, "every_ms"),
    (r#"{"every_ms":315360000001,"topic":T,"message":M}"#, "every_ms"),
    (r#"{"every_ms":1000.5,"topic":T,"message":M}"#, "every_ms"),
    (r#"{"every_ms":"1000","topic":T,"message":M}"#, "every_ms"),
    (r#"{"every_ms":1000,"message":M}"#, "topic"),
    (r#"{"every_ms":1000,"topic":"a b","message":M}"#, "topic"),
    (r#"{"every_ms":1000,"topic":"_callbacks","message":M}"#, "topic"),
    (
        r#"{"every_ms":1000,"topic":T,"callback":{"url":"http://example.com/"},"message":M}"#,
        "callback",
    ),
    (r#"{"every_ms":1000,"callback":{}}"#, "callback.url"),
    (r#"{"every_ms":1000,"callback":{"url":"ftp://example.com/"}}"#, "callback.url"),
    (
        r#"{"every_ms":1000,"callback":{"url":"http://example.com/","method":"HEAD"}}"#,
        "callback.method",
    ),
    (
        r#"{"every_ms":1000,"callback":{"url":"http://example.com/","timeout_ms":99}}"#,
        "callback.timeout_ms",
    ),
    (
        r#"{"every_ms":1000,"callback":{"url":"http://example.com/","payload":1}}"#,
        "callback.payload",
    ),
    (
        r#"{"every_ms":1000,"callback":{"url":"http://a/"},"message":{"callback":{"url":"http://a/"}}}"#,
        "message.callback",
    ),
    (
        r#"{"every_ms":1000,"callback":{"url":"http://a/"},"message":{"headers":{"webhook-id":"1"}}}"#,
        "message.headers.webhook-id",
    ),
    (r#"{"every_ms":1000,"topic":T}"#, "message"),
    (r#"{"every_ms":1000,"topic":T,"message":[]}"#, "message"),
    (r#"{"every_ms":1000,"topic":T,"message":{}}"#, "message.payload"),
    (r#"{"every_ms":1000,"topic":T,"message":{"payload":1,"delay_ms":1}}"#, "message.delay_ms"),
    (
        r#"{"every_ms":1000,"topic":T,"message":{"payload":1,"deliver_at":"2030-01-01T00:00:00Z"}}"#,
        "message.deliver_at",
    ),
    (
        r#"{"every_ms":1000,"topic":T,"message":{"payload":1,"idempotency_key":"a"}}"#,
        "message.idempotency_key",
    ),
    (r#"{"every_ms":1000,"topic":T,"message":{"payload":1,"priority":256}}"#, "message.priority"),
    (r#"{"every_ms":1000,"topic":T,"message":{"payload":1,"payload":2}}"#, "message.payload"),
    (r#"{"every_ms":1000,"topic":T,"message":M,"catch_up":"two"}"#, "catch_up"),
    (r#"{"every_ms":1000,"topic":T,"message":M,"paused":true}"#, "paused"),
    (r#"{"every_ms":1000,"topic":T,"message":M,"name":"a"}"#, "name"),
];

#[tokio::test]
async fn a_schedule_that_cannot_be_is_422_by_name_and_not_made() {
    let (client, name) = (client().await, topic("bad-schedule"));
    let json = [("content-type", "application/json")];
    for (body, field) in BODIES {
        let body = body.replace(":T", &format!(":\"{name}\"")).replace(":M", ":{\"payload\":1}");
        let answer = client.send("PUT", &path(&name), &json, Some(body.clone().into_bytes())).await;
        let named = answer.json()["errors"][0]["field"].clone();
        assert_eq!(named, *field, "{body}: {answer}");
        unprocessable(answer, field);
    }
    client.get_path(&path(&name)).await.problem(404, "schedule_not_found");
    client.topic(&name).await.problem(404, "topic_not_found");
}

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
async fn queries_bodies_and_media_types_are_as_strict_as_elsewhere() {
    let (client, name) = (client().await, topic("bad-schedule"));
    let here = path(&name);
    for query in ["?limit=0", "?limit=1001", "?limit=x", "?limit=1&limit=1"] {
        unprocessable(client.get_path(&format!("/schedules{query}")).await, "limit");
    }
    for query in ["?cursor=", "?cursor=x", "?cursor=AAAAAAAAAAAAAAAAAAAA"] {
        unprocessable(client.get_path(&format!("/schedules{query}")).await, "cursor");
    }
    let topics = client.get_path("/topics?limit=1").await.json();
    if let Some(cursor) = topics["next_cursor"].as_str() {
        unprocessable(client.get_path(&format!("/schedules?cursor={cursor}")).await, "cursor");
    }
    unprocessable(client.get_path("/schedules?prefix=a").await, "prefix");
    let many: Vec<_> = (0..300).map(|n| format!("{n:x}")).collect();
    let answer = client.get_path(&format!("/schedules?{}", many.join("&"))).await.refused(422);
    assert!(answer.to_string().contains("more than 256 fields"), "{answer}");
    for (method, tail) in [("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/trigger")] {
        let path = format!("{here}{tail}?nope=1");
        unprocessable(client.send(method, &path, &[], None).await, "nope");
    }
    for verb in ["pause", "resume", "trigger"] {
        let path = format!("{here}/{verb}");
        unprocessable(client.post(&path, &json!({"nope": 1})).await, "nope");
        client.post_bytes(&path, Some("text/plain"), b"{}".to_vec()).await.refused(415);
        client.post_text(&path, "{").await.refused(400);
        client.post(&path, &json!({})).await.problem(404, "schedule_not_found");
    }
    client
        .send("PUT", &here, &[("content-type", "text/plain")], Some(b"{}".to_vec()))
        .await
        .refused(415);
    client.send("PUT", &here, &[], None).await.refused(400);
    client.send("PATCH", &here, &[], None).await.refused(405);
    client.post(&here, &json!({})).await.refused(405);
    client.get_path(&format!("{here}/trigger")).await.refused(405);
}

#[tokio::test]
async fn a_payload_that_could_never_be_published_is_413() {
    let client = client().await;
    let callback = json!({"url": "http://nowhere.invalid/"});
    for (to, target, bytes) in [("topic", json!("t"), 1_048_577), ("callback", callback, 262_145)] {
        let payload = "x".repeat(bytes - 2);
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
