//! Quotas: how many topics a key may make, and how much the topics may hold that it may publish to.

use serde_json::{Value, json};

use super::scopes::KeyFile;
use crate::harness::*;

/// What `GET /keys` says of a key.
async fn listed(ops: &Client, name: &str) -> Value {
    let all = ops.get_path("/keys").await.expect(200).json();
    let mut items = all["items"].as_array().unwrap().iter();
    items.find(|item| item["name"] == name).unwrap().clone()
}

fn payloads(count: usize) -> Vec<Value> {
    (0..count).map(|number| json!({"payload": number})).collect()
}

#[tokio::test]
async fn a_key_makes_as_many_topics_as_its_line_says_on_all_instances_and_a_deletion_gives_one_back()
 {
    let mine = topic("made");
    let mut file = KeyFile::new();
    let verbs = ["publish", "configure", "operate", "consume", "read"];
    let scopes = verbs.map(|verb| format!("{verb}:{mine}.*"));
    let mut words: Vec<_> = scopes.iter().map(String::as_str).collect();
    words.push("topics=3");
    file.add(&mine, &words);
    file.add("ops", &["admin"]);
    let (one, other) = (file.start().await, file.start().await);
    let (a, b) = (file.client(&one, &mine), file.client(&other, &mine));
    let ops = file.client(&one, "ops");
    let name = |number: usize| format!("{mine}.{number}");
    // Topics of others, and messages in topics that are there, are free.
    ops.publish(&name(9), json!({"payload": 1})).await.expect(201);
    a.publish(&name(0), json!({"payload": 1})).await.expect(201);
    b.publish_batch(&name(1), &payloads(2)).await.expect(200);
    b.put_topic(&name(2), json!({})).await.expect(201);
    b.put_topic(&name(2), json!({"lease_ms": 5000})).await.expect(200);
    a.publish(&name(9), json!({"payload": 1})).await.expect(201);
    let refused = a.publish(&name(3), json!({"payload": 1})).await.problem(429, "too_many_topics");
    assert!(refused.text("detail").contains("as many topics as it may, 3"));
    assert_eq!(refused.header("retry-after"), "1");
    b.publish_batch(&name(3), &payloads(2)).await.problem(429, "too_many_topics");
    b.publish_raw(&name(3), "", None, b"x").await.problem(429, "too_many_topics");
    a.put_topic(&name(3), json!({})).await.problem(429, "too_many_topics");
    ops.topic(&name(3)).await.problem(404, "topic_not_found");
    // A schedule's topic is made by whoever puts the schedule.
    let schedule = format!("/schedules/{mine}");
    let soon = json!({"every_ms": 1000, "topic": name(3), "message": {"payload": 1}});
    a.send_json("PUT", &schedule, &soon).await.expect(201);
    let trigger = a.send("POST", &format!("{schedule}/trigger"), &[], None).await;
    trigger.problem(429, "too_many_topics");
    eventually("a tick is refused", || async {
        let schedule = a.get_path(&schedule).await.expect(200).json();
        schedule["last_error"].as_str().filter(|it| it.contains("as many topics")).map(|_| ())
    })
    .await;
    assert_eq!(listed(&ops, &mine).await["topics"], 3);
    b.delete_topic(&name(0), "?force=true").await.expect(204);
    eventually("the next tick makes it", || async {
        (ops.topic(&name(3)).await.status == 200).then_some(())
    })
    .await;
    a.publish(&name(4), json!({"payload": 1})).await.problem(429, "too_many_topics");
    let key = listed(&ops, &mine).await;
    assert_eq!((&key["topics"], &key["max_topics"]), (&json!(3), &json!(3)));
    assert_eq!(listed(&ops, "ops").await["max_topics"], Value::Null, "as many as it likes");
    a.send("DELETE", &schedule, &[], None).await.expect(204);
}

#[tokio::test]
async fn a_topic_made_for_deaths_counts_for_the_key_that_made_the_one_in_which_they_died() {
    let mine = topic("deaths");
    let file =
        KeyFile::of(&[(&mine, "publish:* configure:* consume:* topics=1"), ("ops", "admin")]);
    let dueq = file.start().await;
    let (key, ops) = (file.client(&dueq, &mine), file.client(&dueq, "ops"));
    let dead = format!("{mine}.dead");
    key.put_topic(&mine, json!({"dead_topic": dead})).await.expect(201);
    key.publish(&mine, json!({"payload": 1})).await.expect(201);
    let leased = key.lease_one(&mine).await;
    key.nack_leased(&leased, json!({"dead": true})).await.expect(200);
    eventually("the death is told of", || async {
        (ops.topic(&dead).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(listed(&ops, &mine).await["topics"], 2);
    ops.delete_topic(&dead, "?force=true").await.expect(204);
    ops.delete_topic(&mine, "?force=true").await.expect(204);
    assert_eq!(listed(&ops, &mine).await["topics"], 0);
}

#[tokio::test]
async fn a_topic_that_is_named_for_completions_counts_for_the_key_that_names_it() {
    let mine = topic("completions");
    let file =
        KeyFile::of(&[(&mine, "publish:* configure:* consume:* topics=2"), ("ops", "admin")]);
    let dueq = file.start().await;
    let (key, ops) = (file.client(&dueq, &mine), file.client(&dueq, "ops"));
    ops.configure(&mine, json!({})).await;
    let to = |number: i32| json!({"topic": format!("{mine}.{number}")});
    key.publish(&mine, json!({"payload": 1, "on_done": to(1)})).await.expect(201);
    let batch = [json!({"payload": 1, "on_dead": to(2)})];
    key.publish_batch(&mine, &batch).await.expect(200);
    assert_eq!(listed(&ops, &mine).await["topics"], 2);
    let third = json!({"payload": 1, "on_done": to(3)});
    key.publish(&mine, third.clone()).await.problem(429, "too_many_topics");
    let call = json!({"url": "http://example.com/", "on_done": to(3), "delay_ms": 60_000});
    key.post("/callbacks", &call).await.problem(429, "too_many_topics");
    let tick = json!({"cron": "0 0 1 1 *", "topic": mine, "message": third});
    let put = key.send_json("PUT", &format!("/schedules/{mine}"), &tick).await;
    put.problem(429, "too_many_topics");
    let path = format!("/topics/{mine}");
    let patched = key.send_json("PATCH", &path, &json!({"on_done": to(3)})).await;
    patched.problem(429, "too_many_topics");
    assert_eq!(ops.topic(&format!("{mine}.3")).await.status, 404);
}

#[tokio::test]
async fn a_key_stores_as_many_messages_as_its_line_says_over_all_topics_that_it_may_publish_to() {
    let mine = topic("stored");
    let mut file = KeyFile::new();
    let publish = format!("publish:{mine}.*");
    file.add(&mine, &[&publish, "configure:*", "messages=500"]);
    file.add("ops", &["admin"]);
    let dueq = file.start().await;
    let (key, ops) = (file.client(&dueq, &mine), file.client(&dueq, "ops"));
    let names: Vec<_> = (0..3).map(|number| format!("{mine}.{number}")).collect();
    ops.configure(&names[1], json!({"partitions": 4})).await;
    ops.publish_batch(&names[0], &payloads(100)).await.expect(200);
    let mut stored = 100;
    loop {
        let answer = key.publish(&names[stored % 3], json!({"payload": stored})).await;
        if answer.status != 201 {
            let problem = answer.problem(429, "too_many_messages");
            assert!(problem.text("detail").contains("and it may store 500"), "{problem:?}");
            break;
        }
        stored += 1;
    }
    assert!((495..=505).contains(&stored), "{stored}");
    key.publish_batch(&names[0], &payloads(20)).await.problem(429, "too_many_messages");
    let key_now = listed(&ops, &mine).await;
    assert_eq!((&key_now["messages"], &key_now["max_messages"]), (&json!(stored), &json!(500)));
    // Others are not held up, nor is what lies elsewhere counted.
    ops.publish(&names[0], json!({"payload": 1})).await.expect(201);
    ops.publish(&format!("{mine}-other"), json!({"payload": 1})).await.expect(201);
    // What is leased and dead counts, and what is gone does not.
    let held = ops.leased(&names[0], json!({"max_messages": 50, "wait_ms": 10_000})).await;
    ops.nack_leased(&held[0], json!({"dead": true})).await.expect(200);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    key.publish(&names[2], json!({"payload": 1})).await.problem(429, "too_many_messages");
    for message in &held[1..] {
        ops.ack_leased(message).await.expect(204);
    }
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    key.publish_batch(&names[2], &payloads(40)).await.expect(200);
    ops.purge(&names[2], &["ready"]).await.expect(200);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    key.publish_batch(&names[1], &payloads(60)).await.expect(200);
}

#[tokio::test]
async fn two_instances_together_store_no_more_than_a_hundredth_above_the_quota() {
    let mine = topic("two");
    let file = KeyFile::of(&[(&mine, &format!("publish:{mine} messages=1000")), ("ops", "admin")]);
    let (one, other) = (file.start().await, file.start().await);
    let publish = async |client: Client| {
        let mut stored = 0;
        while client.publish(&mine, json!({"payload": 1})).await.status == 201 {
            stored += 1;
        }
        stored
    };
    let clients = [&one, &other].map(|dueq| file.client(dueq, &mine));
    let [a, b, c, d] = [0, 1, 0, 1].map(|at: usize| publish(clients[at].clone()));
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    let stored = a + b + c + d;
    assert!((990..=1010).contains(&stored), "{stored}");
}

#[tokio::test]
async fn a_key_stores_as_many_bytes_as_its_line_says() {
    let mine = topic("bytes");
    let file = KeyFile::of(&[(&mine, &format!("publish:{mine} bytes=200000")), ("ops", "admin")]);
    let dueq = file.start().await;
    let (key, ops) = (file.client(&dueq, &mine), file.client(&dueq, "ops"));
    let held = async || listed(&ops, &mine).await["bytes"].as_i64().unwrap();
    // In all forms of a publish.
    let messages: Vec<_> = (0..10).map(|_| json!({"payload": "x".repeat(998)})).collect();
    key.publish_batch(&mine, &messages).await.expect(200);
    key.publish_raw(&mine, "?priority=7&key=k", None, &[7; 20_000]).await.expect(201);
    let raw = held().await;
    assert!((30_000..30_200).contains(&raw), "{raw}");
    let mut stored = raw;
    loop {
        let answer = key.publish(&mine, json!({"payload": "x".repeat(4998)})).await;
        if answer.status != 201 {
            answer.problem(429, "too_many_bytes");
            break;
        }
        stored += 5_000;
    }
    assert!((193_000..=202_000).contains(&stored), "{stored}");
    assert_eq!(held().await, stored);
    // A changed body counts as it is, and what is gone does not, however it went.
    ops.update_by_key(&mine, "k", json!({"payload": "small"})).await.expect(200);
    let less = stored - (raw - 10_000) + 7;
    assert_eq!(held().await, less);
    let replaced = json!({"payload": "x".repeat(98), "key": "k", "on_duplicate": "replace"});
    ops.publish(&mine, replaced).await.expect(200);
    assert_eq!(held().await, less + 93);
    ops.delete_by_key(&mine, "k", "").await.expect(204);
    let leased = ops.leased(&mine, json!({"max_messages": 8})).await;
    for message in &leased {
        ops.ack_leased(message).await.expect(204);
    }
    assert_eq!(held().await, less - 7 - 8_000);
    ops.purge(&mine, &["ready"]).await.expect(200);
    assert_eq!(held().await, 0);
    key.publish(&mine, json!({"payload": "x".repeat(100_000)})).await.expect(201);
    key.publish(&mine, json!({"payload": "x".repeat(100_000)}))
        .await
        .problem(429, "too_many_bytes");
}

#[tokio::test]
async fn instances_share_what_is_left_where_many_partitions_make_counts_rare() {
    let mine = topic("wide");
    let file = KeyFile::of(&[(&mine, &format!("publish:{mine} messages=2000")), ("ops", "admin")]);
    let all = [file.start().await, file.start().await, file.start().await];
    let ops = file.client(&all[0], "ops");
    ops.configure(&mine, json!({"partitions": 256})).await;
    let publish = async |client: Client, each: usize| {
        while client.publish_batch(&mine, &payloads(each)).await.status == 200 {}
    };
    let clients = all.iter().flat_map(|dueq| [1, 1, 1, 2].map(|each| (dueq, each)));
    let clients = clients.map(|(dueq, each)| publish(file.client(dueq, &mine), each));
    futures_util::future::join_all(clients).await;
    let stored = listed(&ops, &mine).await["messages"].as_i64().unwrap();
    assert!((1980..=2020).contains(&stored), "{stored}");
}

#[tokio::test]
async fn a_repeat_is_answered_where_the_quota_is_full() {
    for partitions in [1, 4] {
        let mine = topic("repeat");
        let fifo = format!("{mine}.fifo");
        let file = KeyFile::of(&[
            (&mine, &format!("publish:{mine}* operate:* messages=4")),
            ("ops", "admin"),
        ]);
        let dueq = file.start().await;
        let (key, ops) = (file.client(&dueq, &mine), file.client(&dueq, "ops"));
        ops.configure(&mine, json!({"partitions": partitions})).await;
        let sqs = async |client: &Client, action: &str, body: Value| {
            let target = format!("AmazonSQS.{action}");
            let kind = ("content-type", "application/x-amz-json-1.0");
            let body = Some(body.to_string().into_bytes());
            client.send("POST", "/sqs", &[("x-amz-target", &target), kind], body).await
        };
        let queue = json!({"QueueName": fifo, "Attributes": {"FifoQueue": "true"}});
        sqs(&ops, "CreateQueue", queue).await.expect(200);
        let send = |id: &str| {
            json!({"QueueUrl": format!("http://x/sqs/{fifo}"), "MessageBody": "x",
                "MessageGroupId": "g", "MessageDeduplicationId": id})
        };
        let once = json!({"payload": 1, "idempotency_key": "once"});
        let named = json!({"payload": 2, "key": "named"});
        let first = key.publish(&mine, once.clone()).await.expect(201).text("id");
        let second = key.publish(&mine, named.clone()).await.expect(201).text("id");
        key.publish(&mine, json!({"payload": 3})).await.expect(201);
        let sent = sqs(&key, "SendMessage", send("d")).await.expect(200).json();
        let refused = |answer: Answer| answer.problem(429, "too_many_messages");
        for new in [
            json!({"payload": 1}),
            json!({"payload": 1, "idempotency_key": "other"}),
            json!({"payload": 1, "key": "other"}),
            json!({"payload": 1, "key": "named", "on_duplicate": "replace"}),
        ] {
            refused(key.publish(&mine, new).await);
        }
        // What is there answers, whatever became of it.
        let again = key.publish(&mine, once.clone()).await.expect(200).json();
        assert_eq!((&again["id"], &again["duplicate"]), (&json!(first), &json!(true)));
        let by_header = key.publish_with_header(&mine, "once", json!({"payload": 1})).await;
        assert_eq!(by_header.expect(200).text("id"), first);
        let other = json!({"payload": 9, "idempotency_key": "once"});
        key.publish(&mine, other).await.problem(422, "idempotency_key_reused");
        assert_eq!(key.publish(&mine, named.clone()).await.expect(200).text("id"), second);
        let reject = json!({"payload": 2, "key": "named", "on_duplicate": "reject"});
        key.publish(&mine, reject).await.problem(409, "duplicate_key");
        let again = sqs(&key, "SendMessage", send("d")).await.expect(200).json();
        assert_eq!(again["MessageId"], sent["MessageId"]);
        let both = key.publish_batch(&mine, &[once.clone(), named.clone()]).await;
        let both = both.expect(200).json();
        let ids = [&both["results"][0], &both["results"][1]].map(|it| &it["message"]["id"]);
        assert_eq!(ids, [&json!(first), &json!(second)]);
        refused(key.publish_batch(&mine, &[once.clone(), json!({"payload": 7})]).await);
        // A repeat takes nothing of the room of what is new.
        ops.delete_by_key(&mine, "named", "").await.expect(204);
        let mixed = [once.clone(), json!({"payload": 7})];
        eventually("room for one", || async {
            (key.publish_batch(&mine, &mixed).await.status == 200).then_some(())
        })
        .await;
        refused(key.publish(&mine, json!({"payload": 8})).await);
        assert_eq!(key.publish(&mine, once).await.expect(200).text("id"), first);
    }
}
