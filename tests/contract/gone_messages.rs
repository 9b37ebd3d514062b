//! Messages that are gone: what their 404 says and to whom, and requests that wait until a message has ended.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::access::scopes::KeyFile;
use crate::facts::{killed, unprocessable};
use crate::harness::*;

/// The same id for another instant.
fn moved(id: &str) -> String {
    let last = if id.ends_with('0') { '1' } else { '0' };
    format!("{}{last}", &id[..id.len() - 1])
}

#[tokio::test]
async fn an_id_of_a_topic_says_which_and_when_it_was_published() {
    let (client, topic) = (client().await, topic("gone"));
    let sent = client.publish(&topic, json!({"payload": 1})).await.expect(201).json();
    let (id, held) = (text(&sent, "id"), client.lease_one(&topic).await);
    client.ack_leased(&held).await.expect(204);
    let token = text(&held, "lease_token");
    for answer in [
        client.get(id).await,
        client.get_path(&format!("/messages/{id}/payload")).await,
        client.delete(id).await,
        client.redrive(id).await,
        client.update(id, json!({"priority": 1})).await,
        client.ack(id, token).await,
        client.nack(id, token, json!({})).await,
        client.extend(id, token, 1_000).await,
    ] {
        let problem = answer.problem(404, "message_not_found").json();
        assert_eq!(problem["topic"], topic.as_str(), "{problem}");
        assert_eq!(problem["published_at"], sent["published_at"], "{problem}");
    }
    let never = client.get(&moved(id)).await.problem(404, "message_not_found").json();
    assert_eq!(never["topic"], topic.as_str(), "nobody knows whether it was there");
    client.published(&topic, json!({"payload": 1})).await;
    client.send("DELETE", &format!("/topics/{topic}?force=true"), &[], None).await.expect(204);
    for id in [id, "6ba7b810-9dad-11d1-80b4-00c04fd430c8"] {
        let problem = client.get(id).await.problem(404, "message_not_found").json();
        assert!(problem.get("topic").or(problem.get("published_at")).is_none(), "{problem}");
    }
}

#[tokio::test]
async fn a_key_that_may_not_read_the_topic_learns_nothing() {
    let (mine, other) = (topic("gone"), topic("gone"));
    let file = KeyFile::of(&[
        ("boss", "admin"),
        ("reader", &format!("read:{mine} consume:{mine}")),
        ("worker", &format!("consume:{mine} operate:{mine}")),
        ("stranger", &format!("read:{other}")),
    ]);
    let dueq = file.launch().await.start().await;
    let boss = file.client(&dueq, "boss");
    let id = boss.published(&mine, json!({"payload": 1})).await;
    let held = boss.lease_one(&mine).await;
    let token = text(&held, "lease_token").to_owned();
    boss.ack_leased(&held).await.expect(204);
    let problem = file.client(&dueq, "reader").get(&id).await.problem(404, "message_not_found");
    assert_eq!(problem.text("topic"), mine);
    let reader = file.client(&dueq, "reader").ack(&id, &token).await;
    assert_eq!(reader.problem(404, "message_not_found").text("topic"), mine);
    let worker = file.client(&dueq, "worker");
    for answer in [worker.ack(&id, &token).await, worker.delete(&id).await] {
        let problem = answer.problem(404, "message_not_found").json();
        assert!(problem.get("topic").or(problem.get("published_at")).is_none(), "{problem}");
    }
    for wait in ["", "?wait_ms=60000"] {
        let path = format!("/messages/{id}{wait}");
        file.client(&dueq, "worker").get_path(&path).await.problem(403, "not_allowed");
        let refused = file.client(&dueq, "stranger").get_path(&path).await;
        let refused = refused.problem(403, "not_allowed").json();
        assert!(!refused.to_string().contains(&mine), "{refused}");
    }
}

/// A request that waits for the end of a message, and how long it took.
fn wait(client: &Client, id: &str, ms: u64) -> tokio::task::JoinHandle<(Answer, Duration)> {
    let (client, path) = (client.clone(), format!("/messages/{id}?wait_ms={ms}"));
    tokio::spawn(async move {
        let begun = Instant::now();
        (client.get_path(&path).await, begun.elapsed())
    })
}

#[tokio::test]
async fn a_wait_is_answered_once_the_message_is_acked_dead_or_gone() {
    let (client, topic) = (client().await, topic("ends"));
    for end in ["ack", "kept", "dead", "delete", "expire"] {
        let acked_ms = if end == "kept" { 60_000 } else { 0 };
        client.configure(&topic, json!({"retention": {"acked_ms": acked_ms}})).await;
        let mut message = json!({"payload": end});
        if end == "expire" {
            message["ttl_ms"] = json!(700);
        }
        let id = client.published(&topic, message).await;
        let waiting = wait(&client, &id, 30_000);
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert!(!waiting.is_finished(), "{end}");
        if let "ack" | "kept" | "dead" = end {
            let held = client.lease_one(&topic).await;
            match end {
                "dead" => client.nack_leased(&held, json!({"dead": true})).await.expect(200),
                _ => client.ack_leased(&held).await.expect(204),
            };
        }
        if end == "delete" {
            client.delete(&id).await.expect(204);
        }
        let (answer, took) = waiting.await.unwrap();
        assert!(took < Duration::from_secs(5), "{end}: {took:?}");
        match end {
            "kept" => assert_eq!(answer.expect(200).text("state"), "acked"),
            "dead" => assert_eq!(answer.expect(200).text("state"), "dead"),
            _ => assert_eq!(answer.problem(404, "message_not_found").text("topic"), topic),
        }
    }
}

#[tokio::test]
async fn a_wait_for_what_has_ended_does_not_wait_and_for_others_no_longer_than_it_says() {
    let (client, topic) = (client().await, topic("ends"));
    let dead = killed(&client, &topic, json!({"payload": 1})).await;
    for id in [dead.as_str(), "01a1fd2d-54d0-8000-8001-000000100000"] {
        let (_, took) = wait(&client, id, 60_000).await.unwrap();
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
    let id = client.published(&topic, json!({"payload": 1})).await;
    let (answer, took) = wait(&client, &id, 0).await.unwrap();
    assert_eq!(answer.expect(200).text("state"), "ready");
    assert!(took < Duration::from_secs(2), "{took:?}");
    let (answer, took) = wait(&client, &id, 700).await.unwrap();
    let seen = answer.expect(200).json();
    assert_eq!((&seen["state"], &seen["payload"]), (&json!("ready"), &json!(1)), "what it is then");
    assert!((700..3_000).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test]
async fn a_wait_that_is_none_is_refused() {
    let (client, topic) = (client().await, topic("ends"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    for wait in ["60001", "-1", "1.5", "soon", ""] {
        let answer = client.get_path(&format!("/messages/{id}?wait_ms={wait}")).await;
        unprocessable(answer, "wait_ms");
    }
    let answer = client.get_path(&format!("/messages/{id}?wait=5")).await;
    unprocessable(answer, "wait");
    let answer = client.get_path(&format!("/messages/{id}?wait_ms=1&wait_ms=1")).await;
    unprocessable(answer, "wait_ms");
    client.get_path("/messages/x?wait_ms=5").await.problem(400, "invalid_message_id");
}

/// How many scripts Redis has run.
async fn evals(redis: &Redis) -> i64 {
    let stats: String = redis.command(&["INFO", "commandstats"]).await;
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn many_waits_ask_redis_little_and_leave_nothing_when_their_clients_go() {
    let redis = Redis::start().await;
    let mut dueq = Dueq::on(&redis).start().await;
    let (client, topic) = (dueq.client(), topic("ends"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    let waits: Vec<_> = (0..200).map(|_| wait(&client, &id, 60_000)).collect();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let calls = evals(&redis).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let looks = evals(&redis).await - calls;
    assert!((200..1_200).contains(&looks), "{looks} looks in 2 s");
    waits[..199].iter().for_each(tokio::task::JoinHandle::abort);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let calls = evals(&redis).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let looks = evals(&redis).await - calls;
    assert!(looks < 40, "{looks} looks in 2 s for one");
    // A stop answers what waits.
    let begun = Instant::now();
    assert_eq!(dueq.term().await, 0);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let (answer, _) = waits.into_iter().next_back().unwrap().await.unwrap();
    let seen: Value = answer.expect(200).json();
    assert_eq!(seen["state"], "ready");
}
