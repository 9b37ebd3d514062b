//! getTopicHistory: what happened in a topic, step by step, as exactly as the totals say it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::*;

const COUNTS: [&str; 6] = ["published", "granted", "acked", "nacked", "dead", "lease_expired"];

async fn points(client: &Client, topic: &str, query: &str) -> Vec<Value> {
    let answer = client.get_path(&format!("/topics/{topic}/history{query}")).await.expect(200);
    answer.json()["points"].as_array().cloned().unwrap()
}

/// What the points add up to.
fn sums(points: &[Value]) -> [i64; 6] {
    COUNTS.map(|name| points.iter().map(|point| number(point, name)).sum())
}

async fn totals(client: &Client, topic: &str) -> [i64; 6] {
    let totals = client.topic(topic).await.expect(200).json()["totals"].clone();
    COUNTS.map(|name| number(&totals, name))
}

async fn is_answered(client: &Client, path: &str, body: &Value) -> bool {
    let json = [("content-type", "application/json")];
    client.try_send("POST", path, &json, Some(body.to_string().into_bytes())).await.is_ok()
}

/// Everything that history counts, more than once.
async fn something_of_each(client: &Client, topic: &str) {
    client.fill(topic, &vec![json!({"payload": 1, "max_attempts": 2}); 9]).await;
    for n in 0..6 {
        let held = client.lease_one_with(topic, json!({"lease_ms": 1000})).await;
        match n {
            0..3 => {
                client.ack_leased(&held).await.expect(204);
            }
            3 => {
                client.nack_leased(&held, json!({"dead": true})).await.expect(200);
            }
            4 => {
                client.nack_leased(&held, json!({"delay_ms": 600_000})).await.expect(200);
            }
            _ => {}
        }
    }
    eventually("a lease expires", || async {
        (client.total(topic, "lease_expired").await == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_points_add_up_to_the_totals_at_once_and_after_they_were_noted() {
    // Where few topics are active, each is noted every 10 s.
    let ((redis, _dueq, client), topic) = (alone().await, topic("history"));
    something_of_each(&client, &topic).await;
    let wanted = [9, 6, 3, 2, 1, 1];
    assert_eq!(totals(&client, &topic).await, wanted);
    for query in ["", "?step_ms=10000", "?step_ms=60000&points=1440", "?step_ms=10000&points=360"] {
        assert_eq!(sums(&points(&client, &topic, query).await), wanted, "{query}");
    }
    let noted = format!("dueq:{{{topic}:0}}:history");
    eventually("it is noted", || async {
        let there: i64 = redis.command(&["EXISTS", &noted]).await;
        (there == 1).then_some(())
    })
    .await;
    for step in [10_000, 60_000] {
        let seen = points(&client, &topic, &format!("?step_ms={step}&points=60")).await;
        assert_eq!(sums(&seen), wanted, "{seen:?}");
    }
    client.published(&topic, json!({"payload": 1})).await;
    assert_eq!(sums(&points(&client, &topic, "").await), [10, 6, 3, 2, 1, 1]);
}

#[tokio::test]
async fn points_follow_each_other_up_to_now_and_idle_ones_are_zero() {
    let (client, topic) = (client().await, topic("history"));
    client.new_topic(&topic, json!({})).await;
    for (query, step, many) in [
        ("", 60_000, 60),
        ("?points=1", 60_000, 1),
        ("?step_ms=10000", 10_000, 60),
        ("?step_ms=10000&points=360", 10_000, 360),
        ("?points=1440&step_ms=60000", 60_000, 1440),
    ] {
        let before = shared().await.redis.time_ms().await;
        let answer = client.get_path(&format!("/topics/{topic}/history{query}")).await.expect(200);
        let after = shared().await.redis.time_up_ms().await;
        let body = answer.json();
        assert_eq!(number(&body, "step_ms"), step);
        let seen = body["points"].as_array().cloned().unwrap();
        assert_eq!(seen.len(), many, "{query}");
        let first = instant_ms(text(&seen[0], "at"));
        for (n, point) in seen.iter().enumerate() {
            assert_eq!(instant_ms(text(point, "at")), first + n as i64 * step);
            for name in ["lateness_p50_ms", "lateness_max_ms", "oldest_ready_age_ms"] {
                assert!(point.get(name).is_none(), "{point}");
            }
        }
        assert_eq!(sums(&seen), [0; 6]);
        let last = first + (many as i64 - 1) * step;
        assert!(last % step == 0 && (before - 2000 - step..=after).contains(&last), "{last}");
    }
    client.published(&topic, json!({"payload": 1})).await;
    client.get_path(&format!("/topics/{topic}/history")).await.expect(200);
}

#[tokio::test]
async fn a_topic_that_is_none_has_no_history() {
    let client = client().await;
    let none = topic("history");
    client.get_path(&format!("/topics/{none}/history")).await.problem(404, "topic_not_found");
    client.get_path("/topics/a..b/history").await.problem(400, "invalid_topic_name");
}

#[tokio::test]
async fn with_two_instances_and_one_killed_no_message_is_counted_twice_or_not_at_all() {
    let redis = Redis::start().await;
    let mut killed = Dueq::on(&redis).start().await;
    let stays = Dueq::on(&redis).start().await;
    let (topic, other) = (topic("history"), topic("history"));
    let load = async |client: Client, topic: String, seconds: u64| {
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut n = 0;
        while Instant::now() < end {
            n += 1;
            let message = json!({"payload": n, "max_attempts": 1});
            if !is_answered(&client, &format!("/topics/{topic}/messages"), &message).await {
                break;
            }
            let lease = format!("/topics/{topic}/lease");
            if n % 3 > 0 && !is_answered(&client, &lease, &json!({})).await {
                break;
            }
            // Others run beside this.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    // The second topic is used by the one that is killed only.
    let one = tokio::spawn(load(killed.client(), topic.clone(), 60));
    let two = tokio::spawn(load(killed.client(), other.clone(), 60));
    let three = tokio::spawn(load(stays.client(), topic.clone(), 22));
    tokio::time::sleep(Duration::from_secs(13)).await;
    killed.kill9();
    let _ = tokio::join!(one, two, three);
    let client = stays.client();
    for _ in 0..2 {
        for topic in [&topic, &other] {
            let wanted = totals(&client, topic).await;
            assert!(wanted[0] > 10 && wanted[1] > 5, "{wanted:?}");
            for query in ["?step_ms=10000", "?step_ms=60000"] {
                assert_eq!(sums(&points(&client, topic, query).await), wanted, "{query}");
            }
        }
        // Once more when all of it is noted.
        for topic in [&topic, &other] {
            eventually("all is noted", || async {
                let (meta, noted) = (format!("dueq:{{{topic}:0}}:meta"), "noted");
                let noted: String = redis.command(&["HGET", &meta, noted]).await;
                let published = totals(&client, topic).await[0].to_string();
                (noted.split(',').next() == Some(&published)).then_some(())
            })
            .await;
        }
    }
    let seen = points(&client, &topic, "?step_ms=10000").await;
    let used = seen.iter().filter(|point| number(point, "published") > 0).count();
    assert!(used >= 3, "20 s are at least three points: {seen:?}");
}

#[tokio::test]
async fn how_late_messages_are_granted_is_told_over_all_instances() {
    let redis = Redis::start().await;
    let (first, second) = (Dueq::on(&redis).start().await, Dueq::on(&redis).start().await);
    let (here, there, topic) = (first.client(), second.client(), topic("history"));
    here.fill(&topic, &vec![json!({"payload": 1}); 20]).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let begun = Instant::now();
    assert_eq!(here.leased(&topic, json!({"max_messages": 15})).await.len(), 15);
    tokio::time::sleep(Duration::from_millis(1600)).await;
    assert_eq!(there.leased(&topic, json!({"max_messages": 5})).await.len(), 5);
    let took = begun.elapsed().as_millis() as i64;
    let late = eventually("lateness of both", || async {
        let seen = points(&here, &topic, "").await;
        let max = seen.iter().filter_map(|point| point["lateness_max_ms"].as_i64()).max();
        (max >= Some(2000)).then_some(seen)
    })
    .await;
    let of = |name: &str| late.iter().filter_map(|point| point[name].as_i64()).collect::<Vec<_>>();
    let longest = of("lateness_max_ms").into_iter().max().unwrap();
    assert!((2000..=2000 + took + 1000).contains(&longest), "{longest}");
    if of("lateness_p50_ms").len() == 1 {
        // Three quarters waited for some 400 ms; a bucket is from 256 to 511.
        let (half, most) = (of("lateness_p50_ms")[0], of("lateness_p99_ms")[0]);
        assert!((200..1600).contains(&half) && (1024..=longest).contains(&most), "{late:?}");
    }
    assert_eq!(sums(&late)[1], 20);
}

#[tokio::test]
async fn the_partitions_of_a_topic_make_one_history() {
    // Where few topics are active, each is noted every 10 s.
    let ((redis, _dueq, client), topic) = (alone().await, topic("history"));
    client.new_topic(&topic, json!({"partitions": 4})).await;
    for n in 0..40 {
        let message = json!({"payload": n, "key": format!("k{n}")});
        client.published(&topic, message).await;
    }
    let held = client.leased(&topic, json!({"max_messages": 10, "wait_ms": 10_000})).await;
    for message in &held {
        client.ack_leased(message).await.expect(204);
    }
    let wanted = totals(&client, &topic).await;
    assert_eq!((wanted[0], wanted[1]), (40, held.len() as i64));
    for query in ["", "?step_ms=10000&points=360"] {
        assert_eq!(sums(&points(&client, &topic, query).await), wanted);
    }
    // All partitions have noted their own.
    eventually("it is noted", || async {
        let mut noted = 0_i64;
        for partition in 0..4 {
            let tag = tag_of_partition(&topic, partition);
            let key = format!("dueq:{{{tag}}}:recent");
            noted += redis.command::<i64>(&["EXISTS", &key]).await;
        }
        (noted == 4).then_some(())
    })
    .await;
    assert_eq!(sums(&points(&client, &topic, "").await), wanted);
}

#[tokio::test]
async fn the_history_of_a_topic_that_an_older_dueq_made_begins_with_the_upgrade() {
    mostly_waits();
    // Where few topics are active, each is noted every 10 s.
    let ((redis, _dueq, client), topic) = (alone().await, topic("history"));
    client.fill(&topic, &vec![json!({"payload": 1}); 5]).await;
    let meta = format!("dueq:{{{topic}:0}}:meta");
    let _: i64 = redis.command(&["HDEL", &meta, "noted"]).await;
    let lists = ["history", "recent"].map(|name| format!("dueq:{{{topic}:0}}:{name}"));
    let _: i64 = redis.command(&["DEL", &lists[0], &lists[1]]).await;
    assert_eq!(sums(&points(&client, &topic, "").await), [0; 6]);
    eventually("what there was is noted", || async {
        let noted: Option<String> = redis.command(&["HGET", &meta, "noted"]).await;
        noted.filter(|noted| noted.starts_with("5,"))
    })
    .await;
    client.published(&topic, json!({"payload": 1})).await;
    client.update_topic(&topic, json!({"lease_ms": 5000})).await.expect(200);
    assert_eq!(sums(&points(&client, &topic, "").await), [1, 0, 0, 0, 0, 0]);
    assert_eq!(client.total(&topic, "published").await, 6);
}

#[tokio::test]
async fn history_goes_with_its_topic_and_is_bounded() {
    // Where few topics are active, each is noted every 10 s.
    let ((redis, _dueq, client), topic) = (alone().await, topic("history"));
    client.published(&topic, json!({"payload": 1})).await;
    let lists = ["history", "recent"].map(|name| format!("dueq:{{{topic}:0}}:{name}"));
    let many: Vec<String> = (0..3000).map(|n| format!("{n},1,0,0,0,0,0,,")).collect();
    for list in &lists {
        let words = ["RPUSH", list].into_iter().chain(many.iter().map(String::as_str));
        let _: i64 = redis.command(&words.collect::<Vec<_>>()).await;
    }
    // What a hand in Redis has written is read as far as it can be.
    let _: i64 = redis.command(&["RPUSH", &lists[1], "nonsense"]).await;
    points(&client, &topic, "?step_ms=10000").await;
    for (list, most) in lists.iter().zip([1440, 360]) {
        eventually("bounded", || async {
            let length: i64 = redis.command(&["LLEN", list]).await;
            (length <= most).then_some(())
        })
        .await;
        let life: i64 = redis.command(&["PTTL", list]).await;
        assert!((1..=most * 60_000).contains(&life), "{life}");
    }
    assert_eq!(sums(&points(&client, &topic, "?points=1440").await)[0], 1);
    client.delete_topic(&topic, "?force=true").await.expect(204);
    let left: i64 = redis.command(&["EXISTS", &lists[0], &lists[1]]).await;
    assert_eq!(left, 0);
    client.new_topic(&topic, json!({})).await;
    assert_eq!(sums(&points(&client, &topic, "").await), [0; 6]);
}

#[tokio::test]
async fn the_age_of_the_oldest_ready_message_goes_on_while_nothing_happens() {
    mostly_waits();
    let (client, topic) = (client().await, topic("history"));
    client.published(&topic, json!({"payload": 1})).await;
    client.lease_one(&topic).await;
    client.published(&topic, json!({"payload": 2, "priority": 7})).await;
    let due = shared().await.redis.time_ms().await;
    tokio::time::sleep(Duration::from_secs(23)).await;
    let seen = points(&client, &topic, "?step_ms=10000&points=3").await;
    let now = shared().await.redis.time_up_ms().await;
    let ages: Vec<i64> = seen.iter().filter_map(|p| p["oldest_ready_age_ms"].as_i64()).collect();
    let last = *ages.last().unwrap();
    assert!(
        (now - due - 2000..=now - due + 2000).contains(&last),
        "{last} of {}: {seen:?}",
        now - due
    );
    assert!(ages.len() >= 2 && ages.is_sorted(), "{seen:?}");
}

#[tokio::test]
async fn idle_topics_write_nothing_and_looking_at_them_neither() {
    mostly_waits();
    // Where few topics are active, each is noted every 10 s.
    let ((redis, _dueq, client), topic) = (alone().await, topic("history"));
    client.new_topic(&topic, json!({})).await;
    for _ in 0..3 {
        client.topic(&topic).await.expect(200);
        points(&client, &topic, "?step_ms=10000").await;
        assert!(client.leased(&topic, json!({})).await.is_empty());
    }
    tokio::time::sleep(Duration::from_secs(12)).await;
    for pattern in ["*:history", "*:recent", "*{history}*"] {
        let keys: Vec<String> = redis.command(&["KEYS", pattern]).await;
        assert!(keys.is_empty(), "{keys:?}");
    }
}

#[tokio::test]
async fn a_lease_that_ends_while_somebody_looks_is_noted_in_its_step() {
    mostly_waits();
    // Where few topics are active, each is noted every 10 s.
    let ((redis, _dueq, client), topic) = (alone().await, topic("history"));
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.leased(&topic, json!({"lease_ms": 15_000})).await.remove(0);
    let end = instant_ms(text(&held, "lease_expires_at"));
    let left = end - redis.time_ms().await - 50;
    tokio::time::sleep(Duration::from_millis(left.max(0) as u64)).await;
    // Whoever asks for the message ends its lease, before any sweep.
    while client.state(text(&held, "id")).await == "leased" {}
    tokio::time::sleep(Duration::from_secs(22)).await;
    let seen = points(&client, &topic, "?step_ms=10000&points=6").await;
    let ended: Vec<_> = seen.iter().filter(|point| point["lease_expired"] == 1).collect();
    assert_eq!(ended.len(), 1, "{seen:?}");
    let at = instant_ms(text(ended[0], "at"));
    assert!((at..at + 12_500).contains(&end), "{end}: {seen:?}");
}
