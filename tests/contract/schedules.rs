//! Schedules as they are put, looked at, listed, paused, resumed, triggered and deleted. When they tick is in
//! `schedule_ticks`, what they cannot be in `schedule_input`.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::access::scopes::KeyFile;
use crate::harness::*;

/// A schedule's path.
pub fn path(name: &str) -> String {
    format!("/schedules/{name}")
}

/// A schedule that publishes into this topic once in a blue moon.
fn rare(topic: &str) -> Value {
    json!({"cron": "0 0 29 2 *", "topic": topic, "message": {"payload": 1}})
}

impl Client {
    /// putSchedule.
    pub async fn put_schedule(&self, name: &str, schedule: &Value) -> Answer {
        self.send_json("PUT", &path(name), schedule).await
    }

    /// getSchedule that must succeed.
    pub async fn schedule(&self, name: &str) -> Value {
        self.get_path(&path(name)).await.expect(200).json()
    }

    /// pauseSchedule, resumeSchedule or triggerSchedule, which must succeed.
    pub async fn schedule_does(&self, name: &str, verb: &str) -> Value {
        self.post_bytes(&format!("{}/{verb}", path(name)), None, vec![]).await.expect(200).json()
    }

    /// deleteSchedule.
    pub async fn delete_schedule(&self, name: &str) -> Answer {
        self.send("DELETE", &path(name), &[], None).await
    }
}

#[tokio::test]
async fn a_schedule_is_made_shown_and_replaced() {
    let (client, name) = (client().await, topic("schedule"));
    let schedule = json!({"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin", "topic": name,
        "message": {"payload": {"a": 1}, "priority": 5, "key": "k", "on_duplicate": "replace", "ttl_ms": 60_000,
            "max_attempts": 3, "backoff": {"kind": "fixed", "base_ms": 10}, "headers": {"x": "y"}}});
    let made = client.put_schedule(&name, &schedule).await.expect(201).json();
    assert_eq!(made, client.schedule(&name).await);
    for (field, value) in
        schedule.as_object().unwrap().iter().filter(|(field, _)| *field != "message")
    {
        assert_eq!(&made[field], value, "{field}");
    }
    for (field, value) in schedule["message"].as_object().unwrap() {
        assert_eq!(&made["message"][field], value, "{field}");
    }
    assert_eq!((&made["catch_up"], &made["paused"]), (&json!("one"), &json!(false)));
    assert_eq!(made["message"]["key_until"], "done");
    // Every weekday at 7 or 8 o'clock in UTC.
    assert!(text(&made, "next_at").ends_with(":00:00.000Z"), "{made}");
    assert!(made.get("last_at").is_none() && made.get("every_ms").is_none(), "{made}");

    let other =
        json!({"every_ms": 60_000, "topic": name, "message": {"payload": null}, "catch_up": "all"});
    let replaced = client.put_schedule(&name, &other).await.expect(200).json();
    assert_eq!(replaced["every_ms"], 60_000);
    assert!(replaced.get("cron").is_none() && replaced.get("timezone").is_none(), "{replaced}");
    assert_eq!(replaced["message"], json!({"payload": null, "priority": 0, "headers": {}}));
    assert_eq!(
        (&replaced["catch_up"], &replaced["created_at"]),
        (&json!("all"), &made["created_at"])
    );
    client.delete_schedule(&name).await.expect(204);
    client.get_path(&path(&name)).await.problem(404, "schedule_not_found");
    client.delete_schedule(&name).await.problem(404, "schedule_not_found");
}

#[tokio::test]
async fn a_payload_is_shown_byte_for_byte() {
    let (client, name) = (client().await, topic("schedule"));
    let payload = r#"{ "z" : 1.50, "a":[1E400 ,null] }"#;
    let body =
        format!(r#"{{"every_ms":60000,"topic":"{name}","message":{{"payload":{payload}}}}}"#);
    let json = [("content-type", "application/json")];
    client.send("PUT", &path(&name), &json, Some(body.into_bytes())).await.expect(201);
    let shown = client.get_path(&path(&name)).await.expect(200);
    let shown = String::from_utf8(shown.body).unwrap();
    assert!(shown.contains(&format!("\"payload\":{payload}")), "{shown}");
    client.delete_schedule(&name).await.expect(204);
}

#[tokio::test]
async fn even_distances_keep_their_ticks_when_put_again() {
    let (client, name) = (client().await, topic("schedule"));
    let mut schedule = json!({"every_ms": 60_000, "topic": name, "message": {"payload": 1}});
    let made = client.put_schedule(&name, &schedule).await.expect(201);
    assert_eq!(made.instant("next_at"), made.instant("created_at") + 60_000);
    schedule["message"] = json!({"payload": 2});
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let again = client.put_schedule(&name, &schedule).await.expect(200);
    assert_eq!(
        (again.text("next_at"), again.json()["message"]["payload"].clone()),
        (made.text("next_at"), json!(2))
    );
    schedule["every_ms"] = json!(61_000);
    let other = client.put_schedule(&name, &schedule).await.expect(200);
    assert!(other.instant("next_at") >= made.instant("next_at") + 1_020, "{other}");
    client.delete_schedule(&name).await.expect(204);
}

#[tokio::test]
async fn a_paused_schedule_has_no_next_tick_and_stays_paused_when_put() {
    let (client, name) = (client().await, topic("schedule"));
    let made = client.put_schedule(&name, &rare(&name)).await.expect(201).json();
    let paused = client.schedule_does(&name, "pause").await;
    assert_eq!((&paused["paused"], paused.get("next_at")), (&json!(true), None));
    assert_eq!(client.schedule_does(&name, "pause").await, paused);
    let put = json!({"cron": "0 0 * * *", "topic": name, "message": {"payload": 1}});
    let put = client.put_schedule(&name, &put).await.expect(200).json();
    assert_eq!((&put["paused"], put.get("next_at")), (&json!(true), None));
    client.put_schedule(&name, &rare(&name)).await.expect(200);
    let resumed = client.schedule_does(&name, "resume").await;
    assert_eq!((&resumed["paused"], &resumed["next_at"]), (&json!(false), &made["next_at"]));
    client.delete_schedule(&name).await.expect(204);
}

#[tokio::test]
async fn a_trigger_publishes_now_paused_or_not_and_changes_no_tick() {
    let (client, name) = (client().await, topic("schedule"));
    let made = client.put_schedule(&name, &rare(&name)).await.expect(201).json();
    for pause in [false, true] {
        if pause {
            client.schedule_does(&name, "pause").await;
        }
        let after = client.schedule_does(&name, "trigger").await;
        let message = client.lease_one(&name).await;
        assert_eq!((&message["id"], &message["payload"]), (&after["last_message_id"], &json!(1)));
        let late = instant_ms(text(&after, "last_at")) - instant_ms(text(&message, "published_at"));
        assert!((0..1_000).contains(&late), "{after} {message}");
        assert_eq!(after.get("next_at"), made.get("next_at").filter(|_| !pause));
        client.ack_leased(&message).await.expect(204);
    }
    client.delete_schedule(&name).await.expect(204);
}

#[tokio::test]
async fn a_trigger_that_is_refused_says_why() {
    let (client, name) = (client().await, topic("schedule"));
    let keyed = json!({"payload": 1, "key": "k", "on_duplicate": "reject"});
    let schedule = json!({"cron": "0 0 29 2 *", "topic": name, "message": keyed});
    client.put_schedule(&name, &schedule).await.expect(201);
    client.schedule_does(&name, "trigger").await;
    let trigger = format!("{}/trigger", path(&name));
    client.post(&trigger, &json!({})).await.problem(409, "duplicate_key");
    client.configure(&name, json!({"max_messages": 1})).await;
    let mut other = rare(&name);
    other["message"]["payload"] = json!(2);
    client.put_schedule(&name, &other).await.expect(200);
    client.post(&trigger, &json!({})).await.problem(429, "topic_full");
    client.delete_schedule(&name).await.expect(204);
    client.post(&trigger, &json!({})).await.problem(404, "schedule_not_found");
}

#[tokio::test]
async fn secrets_of_headers_are_never_read_back_and_kept_by_the_mask() {
    let (client, name) = (client().await, topic("schedule"));
    let with = |authorization: &str| {
        let headers = json!({"Authorization": authorization, "x-plain": "a"});
        json!({"cron": "0 0 29 2 *", "topic": name, "message": {"payload": 1, "headers": headers}})
    };
    let nothing = client.put_schedule(&name, &with("***")).await.problem(422, "invalid_input");
    nothing.field("message.headers.Authorization");
    for authorization in ["Bearer secret", "***"] {
        let shown = client.put_schedule(&name, &with(authorization)).await.json();
        assert_eq!(shown["message"]["headers"], json!({"Authorization": "***", "x-plain": "a"}));
        client.schedule_does(&name, "trigger").await;
        let message = client.lease_one(&name).await;
        assert_eq!(message["headers"]["Authorization"], "Bearer secret");
        client.ack_leased(&message).await.expect(204);
    }
    client.delete_schedule(&name).await.expect(204);
}

#[tokio::test]
async fn a_callback_schedule_publishes_to_dueqs_own_topic() {
    let (client, name) = (client().await, topic("schedule"));
    let callback = json!({
        "url": "https://example.com/hook", "method": "PUT", "timeout_ms": 5000, "connect_timeout_ms": 500,
        "retry": {"never": ["4xx"]},
    });
    let schedule = json!({"every_ms": 315_360_000_000_i64, "callback": callback});
    let made = client.put_schedule(&name, &schedule).await.expect(201).json();
    assert_eq!(made["callback"], callback);
    let empty = json!({"payload_base64": "", "content_type": "application/octet-stream", "priority": 0, "headers": {}});
    assert_eq!((&made["message"], made.get("topic")), (&empty, None));
    client.delete_schedule(&name).await.expect(204);
}

#[tokio::test]
async fn schedules_are_listed_by_name_page_by_page() {
    // Nobody else's are in between.
    let (_redis, _dueq, client) = alone().await;
    let list =
        async |query: &str| client.get_path(&format!("/schedules{query}")).await.expect(200).json();
    assert_eq!(list("").await, json!({"items": []}));
    let mut names: Vec<_> = ["a", "A", "b.1", "b-1", "b_1", "B", "0"].map(str::to_owned).to_vec();
    for name in &names {
        client.put_schedule(name, &rare("t")).await.expect(201);
    }
    names.sort();
    for limit in [1, 3, 7, 100] {
        let (mut seen, mut query) = (Vec::new(), format!("?limit={limit}"));
        loop {
            let page = list(&query).await;
            let items = page["items"].as_array().unwrap();
            assert!((1..=limit).contains(&items.len()), "{page}");
            seen.extend(items.iter().map(|item| text(item, "name").to_owned()));
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            query = format!("?limit={limit}&cursor={cursor}");
        }
        assert_eq!(seen, names, "by {limit}");
    }
    // Pages of large payloads end early.
    for name in &names[..6] {
        let payload = "x".repeat(900_000);
        let large = json!({"cron": "0 0 29 2 *", "topic": "t", "message": {"payload": payload}});
        client.put_schedule(name, &large).await.expect(200);
    }
    let first = list("").await;
    let items = first["items"].as_array().unwrap().len();
    assert!((2..6).contains(&items), "{items}");
    let rest = list(&format!("?cursor={}", text(&first, "next_cursor"))).await;
    assert_eq!(items + rest["items"].as_array().unwrap().len(), 7);
}

#[tokio::test]
async fn a_page_of_a_key_that_may_read_few_schedules_looks_at_a_bounded_number_and_names_no_other()
{
    let redis = Redis::start().await;
    let file = KeyFile::of(&[("narrow", "read:mine"), ("ops", "admin")]);
    file.write();
    let dueq = Dueq::on(&redis).args(["--api-key-file"]).args([&file.path]).start().await;
    let (narrow, ops) = (file.client(&dueq, "narrow"), file.client(&dueq, "ops"));
    let put = async |number: usize| {
        let topic = if number == 2_150 { "mine" } else { "others" };
        ops.put_schedule(&format!("hidden-{number:05}"), &rare(topic)).await.expect(201);
    };
    for begin in (0..2_200).step_by(50) {
        futures_util::future::join_all((begin..begin + 50).map(put)).await;
    }
    let (mut query, mut sizes) = ("?limit=1".to_owned(), Vec::new());
    loop {
        let page = narrow.get_path(&format!("/schedules{query}")).await.expect(200).json();
        sizes.push(page["items"].as_array().unwrap().len());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        let readable = URL_SAFE_NO_PAD.decode(cursor).unwrap();
        assert!(!String::from_utf8_lossy(&readable).contains("hidden"), "{cursor}");
        ops.get_path(&format!("/schedules?cursor={cursor}")).await.expect(422);
        query = format!("?limit=1&cursor={cursor}");
    }
    assert_eq!(sizes, [0, 0, 1], "1000 are looked at for a page");
}
