//! `dead_form: raw`: what dies in a topic moves to another as it is, once; and it is in one of them only, whatever is done to it
//! at that moment.

use std::time::Duration;

use serde_json::{Value, json};

use crate::facts::{ids, killed, topic_in_balance};
use crate::harness::*;
use crate::topic_facts::{topic_becomes, topic_has};

/// A new topic with this configuration whose dead move to another new one.
async fn mortal(client: &Client, mut config: Value) -> (String, String) {
    let (here, there) = (topic("mortal"), topic("dead"));
    config["dead_topic"] = json!(there);
    config["dead_form"] = json!("raw");
    client.new_topic(&there, json!({})).await;
    client.new_topic(&here, config).await;
    (here, there)
}

/// Fails all that is ready in a topic, for good.
async fn fail_all(client: &Client, topic: &str) {
    for held in client.leased(topic, json!({"max_messages": 100})).await {
        client.nack_leased(&held, json!({"dead": true})).await.expect(200);
    }
}

#[tokio::test]
async fn the_message_itself_moves() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({"max_attempts": 1})).await;
    let text = r#"{"payload": { "z":1E400 }, "headers": {"X-a": "b"}, "priority": 7, "group": "g", "ttl_ms": 60000}"#;
    client.post_text(&format!("/topics/{here}/messages"), text).await.expect(201);
    client.publish_raw(&here, "", Some("image/png"), &[0, 255]).await.expect(201);
    fail_all(&client, &here).await;
    topic_becomes(&client, &there, json!({"counts": {"ready": 2}})).await;
    // They are nowhere twice.
    let gone = json!({"counts": {"dead": 0, "ready": 0}, "totals": {"dead": 2, "deleted": 2}});
    topic_becomes(&client, &here, gone).await;
    let got = client.lease(&there, json!({"max_messages": 2})).await.expect(200);
    let text = String::from_utf8_lossy(&got.body).into_owned();
    assert!(text.contains(r#""payload":{ "z":1E400 }"#), "{text}");
    let held = got.json()["messages"].take();
    assert_eq!((&held[0]["headers"], &held[0]["priority"]), (&json!({"X-a": "b"}), &json!(7)));
    assert_eq!((&held[0]["group"], &held[0]["attempt"]), (&json!("g"), &json!(1)));
    assert_eq!(held[1]["payload_base64"], "AP8=");
    assert_eq!(held[1]["content_type"], "image/png");
}

#[tokio::test]
async fn what_came_from_a_dead_topic_is_not_forwarded_again() {
    let client = client().await;
    // A circle of three, of which one sends letters.
    let circle = [topic("circle"), topic("circle"), topic("circle")];
    for (n, form) in ["raw", "raw", "letter"].into_iter().enumerate() {
        let next = &circle[(n + 1) % 3];
        let config = json!({"dead_topic": next, "dead_form": form, "max_attempts": 1});
        client.new_topic(&circle[n], config).await;
    }
    for (n, from) in circle.iter().enumerate() {
        let to = &circle[(n + 1) % 3];
        let before = client.total(to, "published").await;
        killed(&client, from, json!({"payload": from})).await;
        topic_becomes(&client, to, json!({"totals": {"published": before + 1}})).await;
        let moved = client.lease_one(to).await;
        client.nack_leased(&moved, json!({})).await.expect(200);
        // A redrive makes it no other.
        client.redrive(text(&moved, "id")).await.expect(200);
        fail_all(&client, to).await;
        assert_eq!(client.state(text(&moved, "id")).await, "dead");
    }
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    for name in &circle {
        topic_has(&client, name, json!({"totals": {"published": 2}})).await;
    }
}

#[tokio::test]
async fn a_message_that_is_redriven_as_it_dies_is_in_one_topic_only() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({})).await;
    let (mut acked, mut moved) = (0, 0);
    for n in 0..60 {
        let id = killed(&client, &here, json!({"payload": n})).await;
        tokio::time::sleep(Duration::from_micros(n % 12 * 150)).await;
        match client.redrive(&id).await {
            answer if answer.status == 200 => {
                client.ack_leased(&client.lease_one(&here).await).await.expect(204);
                acked += 1;
            }
            answer => {
                answer.problem(404, "message_not_found");
                moved += 1;
            }
        }
    }
    topic_becomes(&client, &there, json!({"counts": {"ready": moved}})).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    topic_has(&client, &there, json!({"totals": {"published": moved}})).await;
    let want = json!({"totals": {"acked": acked, "deleted": moved}, "counts": {"dead": 0}});
    topic_has(&client, &here, want).await;
    eprintln!("{acked} were redriven, {moved} had moved");
}

#[tokio::test]
async fn what_is_deleted_purged_or_redriven_before_it_moves_stays_what_it_is() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({})).await;
    let deleted = |answer: &Answer| matches!(answer.status, 204 | 404);
    let mut left = 0;
    for n in 0..40 {
        let id = killed(&client, &here, json!({"payload": n})).await;
        match n % 4 {
            0 => {
                let answer = client.delete(&id).await;
                assert!(deleted(&answer), "{answer}");
                left += i64::from(answer.status == 204);
            }
            1 => {
                let body = json!({"ids": [id]});
                let answer = client.post("/messages/delete", &body).await.expect(200).json();
                left += i64::from(answer["results"][0]["status"] == "ok");
            }
            2 => left += client.purge(&here, &["dead"]).await.expect(200).number("purged"),
            _ => {
                let body = json!({"ids": [id]});
                let answer = client.post("/messages/redrive", &body).await.expect(200).json();
                if answer["results"][0]["status"] == "ok" {
                    let held = client.lease_one(&here).await;
                    client.ack_leased(&held).await.expect(204);
                    left += 1;
                }
            }
        }
    }
    topic_becomes(&client, &there, json!({"counts": {"ready": 40 - left}})).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    topic_has(&client, &there, json!({"totals": {"published": 40 - left}})).await;
    topic_in_balance(&client, &here).await;
    client.delete_topic(&here, "").await.expect(204);
}

#[tokio::test]
async fn a_change_is_never_lost_on_the_way() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({})).await;
    let mut payloads = Vec::new();
    for n in 0..40 {
        let id = killed(&client, &here, json!({"payload": format!("first {n}")})).await;
        let changed = client.update(&id, json!({"payload": format!("second {n}")})).await;
        let word = if changed.status == 200 { "second" } else { "first" };
        payloads.push(format!("{word} {n}"));
    }
    topic_becomes(&client, &there, json!({"counts": {"ready": 40}})).await;
    let mut moved: Vec<String> = Vec::new();
    for message in client.listed(&there, "state=ready&payload=true&limit=100").await {
        moved.push(text(&message, "payload").to_owned());
    }
    moved.sort();
    payloads.sort();
    assert_eq!(moved, payloads);
}

#[tokio::test]
async fn a_full_topic_takes_what_moves_there_and_a_redrive_does_not() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({})).await;
    client.update_topic(&there, json!({"max_messages": 1})).await.expect(200);
    for n in 0..3 {
        killed(&client, &here, json!({"payload": n})).await;
    }
    topic_becomes(&client, &there, json!({"counts": {"ready": 3}})).await;
    let held = client.leased(&there, json!({"max_messages": 3})).await;
    for message in &held {
        client.nack_leased(message, json!({"dead": true})).await.expect(200);
    }
    let answer = client.redrive_topic(&there, json!({})).await.expect(200);
    assert_eq!((answer.number("redriven"), answer.number("remaining")), (1, 2));
    client.redrive(&ids(&held)[2]).await.problem(429, "topic_full");
}

#[tokio::test]
async fn what_a_message_said_for_itself_holds_again_once_it_is_back() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({"max_attempts": 5})).await;
    let (done, of_there) = (topic("done"), topic("done-there"));
    client.new_topic(&done, json!({})).await;
    client.new_topic(&of_there, json!({})).await;
    let of_topic = json!({"topic": of_there});
    client
        .update_topic(&there, json!({"on_done": of_topic, "on_dead": of_topic}))
        .await
        .expect(200);
    let own = json!({"max_attempts": 1, "ttl_ms": 600_000, "on_done": {"topic": done},
        "backoff": {"kind": "schedule", "delays_ms": [7, 8]}});
    let mut message = own.clone();
    message["payload"] = json!(1);
    client.published(&here, message).await;
    client.published(&here, json!({"payload": 2})).await;
    fail_all(&client, &here).await;
    topic_becomes(&client, &there, json!({"counts": {"ready": 2}})).await;
    for letter in client.listed(&there, "state=ready&payload=true").await {
        for name in ["max_attempts", "ttl_ms", "backoff", "expires_at"] {
            assert!(letter.get(name).is_none(), "{name}: {letter}");
        }
        assert_eq!((&letter["on_done"], &letter["on_dead"]), (&of_topic, &of_topic), "{letter}");
    }
    let moved = client.redrive_topic(&there, json!({})).await.expect(200);
    assert_eq!((moved.number("redriven"), moved.number("remaining")), (2, 0));
    for held in client.leased(&here, json!({"max_messages": 2})).await {
        let shown = client.get(text(&held, "id")).await.expect(200).json();
        for (name, value) in own.as_object().unwrap() {
            let value = Some(value).filter(|_| held["payload"] == 1);
            assert_eq!(shown.get(name), value, "{name}: {shown}");
        }
        assert!(shown.get("on_dead").is_none(), "{shown}");
        client.ack_leased(&held).await.expect(204);
    }
    let completed = client.lease_one(&done).await;
    assert_eq!(completed["payload"]["message"]["payload"], 1, "{completed}");
    topic_has(&client, &done, json!({"totals": {"published": 1}})).await;
}

#[tokio::test]
async fn what_moves_back_is_deleted_there_and_not_acknowledged() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({})).await;
    let done = topic("done");
    client.new_topic(&done, json!({})).await;
    let config = json!({"on_done": {"topic": done}, "retention": {"acked_ms": 600_000}});
    client.update_topic(&there, config).await.expect(200);
    for n in 0..40 {
        killed(&client, &here, json!({"payload": n, "group": format!("g{}", n % 3)})).await;
    }
    topic_becomes(&client, &there, json!({"totals": {"published": 40}})).await;
    let moved = client.redrive_topic(&there, json!({})).await.expect(200);
    assert_eq!((moved.number("redriven"), moved.number("remaining")), (40, 0));
    let want = json!({"totals": {"deleted": 40, "acked": 0}, "counts": {"ready": 0, "acked": 0, "leased": 0}});
    topic_has(&client, &there, want).await;
    topic_has(&client, &here, json!({"totals": {"published": 80}})).await;
    // A completion would be published by the next sweep at the latest.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    topic_has(&client, &done, json!({"totals": {"published": 0}})).await;
    client.delete_topic(&there, "").await.expect(204);
}

#[tokio::test]
async fn a_dry_run_counts_what_would_move_back_and_moves_nothing() {
    let client = client().await;
    let (here, there) = mortal(&client, json!({})).await;
    killed(&client, &there, json!({"payload": "dead there"})).await;
    for n in 0..3 {
        killed(&client, &here, json!({"payload": n})).await;
    }
    client.published(&there, json!({"payload": "of its own"})).await;
    let counts = json!({"counts": {"ready": 4, "dead": 1}});
    topic_becomes(&client, &there, counts.clone()).await;
    let dry = async |mut want: Value| {
        want["dry_run"] = json!(true);
        loop {
            let answer = client.redrive_topic(&there, want.clone()).await.expect(200).json();
            assert_eq!(answer["redriven"], 0, "{answer}");
            // A slow machine cuts it short.
            if answer.get("next_cursor").is_none() {
                return (number(&answer, "matched"), number(&answer, "remaining"));
            }
        }
    };
    assert_eq!(dry(json!({})).await, (4, 4));
    assert_eq!(dry(json!({"max_messages": 2})).await.0, 2);
    // A query is about what is dead.
    assert_eq!(dry(json!({"q": "-error:timeout"})).await, (1, 1));
    client.pause_topic(&there).await.expect(200);
    assert_eq!(dry(json!({})).await, (1, 1), "nothing moves while it is paused");
    client.post(&format!("/topics/{there}/resume"), &json!({})).await.expect(200);
    topic_has(&client, &there, counts).await;
    let redriven = client.redrive_topic(&there, json!({})).await.expect(200).json();
    assert_eq!(redriven["redriven"], 4, "{redriven}");
    topic_has(&client, &here, json!({"counts": {"ready": 3}})).await;
}
