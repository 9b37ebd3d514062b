//! Schedules tick: one message a tick whatever the number of instances, on time, and none while they are paused.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::*;

/// When the messages of this topic were published, in order; they must be as many.
pub async fn published_at(client: &Client, topic: &str) -> Vec<i64> {
    let query = format!("/topics/{topic}/messages?state=ready&limit=1000");
    let answer = client.get_path(&query).await;
    if answer.status == 404 {
        return Vec::new();
    }
    let page = answer.expect(200).json();
    let items = page["items"].as_array().unwrap();
    let mut all: Vec<_> = items.iter().map(|item| instant_ms(text(item, "published_at"))).collect();
    all.sort_unstable();
    all
}

async fn until_published(client: &Client, topic: &str, count: usize) -> Vec<i64> {
    eventually("the ticks", || async {
        Some(published_at(client, topic).await).filter(|all| all.len() >= count)
    })
    .await
}

#[tokio::test]
async fn two_instances_publish_one_message_a_tick() {
    let (one, other) = (instance().await, instance().await);
    let (client, topic) = (one.client(), topic("ticks"));
    let every = json!({"every_ms": 1000, "topic": topic, "message": {"payload": 1}});
    let first = other.client().put_schedule(&topic, &every).await.expect(201).instant("next_at");
    let ticks = until_published(&client, &topic, 5).await;
    client.delete_schedule(&topic).await.expect(204);
    let last = (*ticks.last().unwrap() - first) / 1_000;
    assert_eq!(ticks.len() as i64, last + 1, "{ticks:?} from {first}");
    for (n, at) in (0..).zip(&ticks) {
        let late = at - (first + 1_000 * n);
        assert!((-20..300).contains(&late), "tick {n} came {late} ms late");
    }
    sleep(Duration::from_millis(1_200)).await;
    assert_eq!(published_at(&client, &topic).await.len(), ticks.len(), "after it was deleted");
}

#[tokio::test]
async fn an_expression_with_seconds_ticks_on_the_second() {
    let (client, topic) = (client().await, topic("ticks"));
    let cron = json!({"cron": "* * * * * *", "timezone": "Asia/Kathmandu", "topic": topic,
        "message": {"payload": {"n": 1}, "headers": {"a": "b"}, "priority": 0}});
    client.put_schedule(&topic, &cron).await.expect(201);
    let ticks = until_published(&client, &topic, 4).await;
    let schedule = client.schedule(&topic).await;
    client.delete_schedule(&topic).await.expect(204);
    for at in &ticks {
        // `published_at` may be some ms before Redis's clock.
        assert!((at + 20).rem_euclid(1_000) < 320, "{ticks:?}");
    }
    assert!(
        ticks.windows(2).all(|two| (two[0] + 20) / 1_000 + 1 == (two[1] + 20) / 1_000),
        "{ticks:?}"
    );
    let last = instant_ms(text(&schedule, "last_at"));
    assert_eq!(last % 1_000, 0);
    let message = client.get(text(&schedule, "last_message_id")).await.expect(200).json();
    assert_eq!((&message["payload"], &message["headers"]), (&json!({"n": 1}), &json!({"a": "b"})));
    assert!(instant_ms(text(&schedule, "next_at")) > last, "{schedule}");
}

#[tokio::test]
async fn while_it_is_paused_no_tick_comes_and_none_is_made_up_for() {
    let (client, topic) = (client().await, topic("ticks"));
    let every =
        json!({"every_ms": 1000, "topic": topic, "message": {"payload": 1}, "catch_up": "all"});
    client.put_schedule(&topic, &every).await.expect(201);
    until_published(&client, &topic, 1).await;
    client.schedule_does(&topic, "pause").await;
    let before = published_at(&client, &topic).await.len();
    sleep(Duration::from_millis(2_500)).await;
    assert_eq!(published_at(&client, &topic).await.len(), before);
    let resumed = client.schedule_does(&topic, "resume").await;
    let all = until_published(&client, &topic, before + 1).await;
    client.delete_schedule(&topic).await.expect(204);
    assert_eq!(all.len(), before + 1);
    assert!(all[before] + 20 >= instant_ms(text(&resumed, "next_at")), "{all:?} {resumed}");
}

#[tokio::test]
async fn a_tick_that_is_refused_is_noted_and_the_next_one_comes() {
    let (client, topic) = (client().await, topic("ticks"));
    client.configure(&topic, json!({"max_messages": 1})).await;
    let every = json!({"every_ms": 1000, "topic": topic, "message": {"payload": 1}});
    client.put_schedule(&topic, &every).await.expect(201);
    let noted = |error: bool| {
        let (client, topic) = (client.clone(), topic.clone());
        async move {
            eventually("the note", || async {
                let schedule = client.schedule(&topic).await;
                let known = schedule.get("last_message_id").is_some();
                Some(schedule).filter(|s| known && s.get("last_error").is_some() == error)
            })
            .await
        }
    };
    let full: Value = noted(true).await;
    assert!(text(&full, "last_error").contains("the topic is full"), "{full}");
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    let again = noted(false).await;
    assert_ne!(again["last_message_id"], full["last_message_id"]);
    client.delete_schedule(&topic).await.expect(204);
}

#[tokio::test]
async fn ticks_need_no_window_of_the_topics_own() {
    let (client, topic) = (client().await, topic("ticks"));
    client.configure(&topic, json!({"idempotency_window_ms": 0})).await;
    let every = json!({"every_ms": 1000, "topic": topic, "message": {"payload": 1, "key": "k"}});
    client.put_schedule(&topic, &every).await.expect(201);
    until_published(&client, &topic, 1).await;
    // Further ticks find the message of the first one.
    eventually("a second tick", || async {
        let last = client.schedule(&topic).await;
        let first = published_at(&client, &topic).await[0];
        (instant_ms(text(&last, "last_at")) > first + 500).then_some(())
    })
    .await;
    assert_eq!(published_at(&client, &topic).await.len(), 1);
    client.delete_schedule(&topic).await.expect(204);
}
