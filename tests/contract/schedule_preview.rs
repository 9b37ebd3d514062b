//! previewSchedule: the ticks that a schedule would have, and the refusals that it would get.

use serde_json::{Value, json};

use crate::harness::*;
use crate::schedules::path;

impl Client {
    /// previewSchedule with these parameters.
    async fn preview(&self, timing: &Value, count: Option<u32>) -> Answer {
        let value = |value: &Value| match value {
            Value::String(text) => encoded(text),
            other => other.to_string(),
        };
        let timing = timing.as_object().unwrap().iter();
        let mut query: Vec<_> = timing.map(|(name, it)| format!("{name}={}", value(it))).collect();
        query.extend(count.map(|count| format!("count={count}")));
        self.get_path(&format!("/schedules/preview?{}", query.join("&"))).await
    }
}

/// A schedule with this timing.
fn with(timing: &Value) -> Value {
    let mut schedule = json!({"topic": "previews", "message": {"payload": 1}});
    schedule.as_object_mut().unwrap().extend(timing.as_object().unwrap().clone());
    schedule
}

#[tokio::test]
async fn a_preview_begins_with_the_next_tick_of_the_schedule_put_with_it() {
    let (client, name) = (client().await, topic("preview"));
    for (timing, description) in [
        (
            json!({"cron": "15 4 29 2 *"}),
            Some("at 04:15 on day 29 of the month in February in UTC"),
        ),
        (
            json!({"cron": "30 2 * * *", "timezone": "Europe/Berlin"}),
            Some("every day at 02:30 in Europe/Berlin"),
        ),
        (json!({"cron": "0 9 * * MON#1", "timezone": "America/New_York"}), None),
        (json!({"cron": "0 0 9 L * *", "timezone": "Pacific/Auckland"}), None),
        (
            json!({"cron": "0 9 ? * 2-6", "timezone": "europe/berlin"}),
            Some("at 09:00 on Tuesday to Saturday in Europe/Berlin"),
        ),
    ] {
        let preview = client.preview(&timing, None).await.expect(200).json();
        let schedule = client.put_schedule(&name, &with(&timing)).await.check().json();
        let next: Vec<_> =
            preview["next"].as_array().unwrap().iter().map(Value::to_string).collect();
        assert_eq!((preview["next"][0].clone(), next.len()), (schedule["next_at"].clone(), 5));
        assert!(next.is_sorted_by(|a, b| a < b), "{preview}");
        assert_eq!(preview.get("warnings"), schedule.get("warnings"), "{preview}");
        for shown in [&preview, &schedule] {
            assert_eq!(shown.get("description").and_then(Value::as_str), description, "{shown}");
        }
    }
    client.delete_schedule(&name).await.expect(204);
}

#[tokio::test]
async fn an_interval_is_previewed_from_now() {
    let client = client().await;
    let before = shared().await.redis.time_up_ms().await;
    let preview = client.preview(&json!({"every_ms": 90_000}), Some(3)).await.expect(200).json();
    assert_eq!(preview["description"], "every 90 seconds");
    let next = preview["next"].as_array().unwrap();
    let at: Vec<_> = next.iter().map(|at| instant_ms(at.as_str().unwrap())).collect();
    assert_eq!(at[1..], [at[0] + 90_000, at[0] + 180_000]);
    assert!((at[0] - before - 90_000).abs() < 5_000, "{preview}");
}

#[tokio::test]
async fn a_preview_refuses_what_putting_refuses_in_the_same_words() {
    let (client, name) = (client().await, topic("preview"));
    for timing in [
        json!({}),
        json!({"cron": ""}),
        json!({"cron": "* * * *"}),
        json!({"cron": "60 * * * *"}),
        json!({"cron": "0 0 30 2 *"}),
        json!({"cron": "* * * * MOO", "timezone": "Europe/Nowhere"}),
        json!({"cron": "* * * * *", "timezone": ""}),
        json!({"cron": "* * * * *", "every_ms": 1000}),
        json!({"every_ms": 1000, "timezone": "UTC"}),
        json!({"every_ms": 999}),
        json!({"every_ms": 315_360_000_001_i64}),
        json!({"every_ms": 1000.5}),
        json!({"cron": "x".repeat(257)}),
    ] {
        let refused = client.preview(&timing, None).await.problem(422, "invalid_input").json();
        let put = client.put_schedule(&name, &with(&timing)).await.problem(422, "invalid_input");
        assert_eq!(refused["errors"], put.json()["errors"], "{timing}");
    }
}

#[tokio::test]
async fn a_preview_is_bounded() {
    let client = client().await;
    let timing = json!({"cron": "* * * * * *"});
    for count in [1, 100] {
        let preview = client.preview(&timing, Some(count)).await.expect(200).json();
        assert_eq!(preview["next"].as_array().unwrap().len(), count as usize);
    }
}

#[tokio::test]
async fn no_schedule_can_be_called_preview_but_one_of_before_is_warned_of_and_can_be_deleted() {
    let (redis, dueq, client) = alone().await;
    let schedule = with(&json!({"every_ms": 3_600_000}));
    client.put_schedule("preview", &schedule).await.refused(405);
    let refused = client.put_schedule("%70review", &schedule).await;
    refused.problem(400, "invalid_schedule_name");
    client.delete_schedule("preview").await.refused(405);
    assert!(!dueq.log().contains("called `preview`"), "{}", dueq.log());
    // As an earlier version stored it.
    client.put_schedule("other", &schedule).await.expect(201);
    for part in ["entries", "states"] {
        let key = format!("dueq:{{schedules}}:{part}");
        let stored: String = redis.command(&["HGET", &key, "other"]).await;
        redis.command::<i64>(&["HSET", &key, "preview", &stored]).await;
    }
    for part in ["index", "due"] {
        let key = format!("dueq:{{schedules}}:{part}");
        let score: String = redis.command(&["ZSCORE", &key, "other"]).await;
        redis.command::<i64>(&["ZADD", &key, &score, "preview"]).await;
    }
    let later = Dueq::on(&redis).start().await;
    eventually("a warning", || async {
        later.log().contains("a schedule is called `preview`").then_some(())
    })
    .await;
    assert_eq!(client.schedule("%70review").await["name"], "preview");
    client.post(&format!("{}/pause", path("preview")), &json!({})).await.expect(200);
    client.delete_schedule("%70review").await.expect(204);
    client.delete_schedule("%70review").await.problem(404, "schedule_not_found");
    client.get_path("/schedules/%70review").await.problem(404, "schedule_not_found");
    client.schedule("other").await;
    client.get_path("/schedules/preview?every_ms=1000").await.expect(200);
}
