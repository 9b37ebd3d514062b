//! `dueq load` where others work meanwhile, where time goes on, and where the place is a Cluster.

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    audit::{audit, clean},
    harness::*,
    moving::{dueq, dump},
};

#[tokio::test]
async fn a_load_does_not_go_on_where_others_have_made_one_of_its_topics() {
    let redis = Redis::start().await;
    let there = Dueq::on(&redis).start().await;
    for name in ["one", "two"] {
        there.client().published(name, json!({"payload": 1})).await;
    }
    let (dir, other) = (temp_dir("meanwhile"), Redis::start().await);
    let file = dump(&redis, &dir).await;
    let text = fs::read_to_string(&file).unwrap();
    let mut load = Command::new(binary());
    load.args(["load", "-", "--redis-url", &other.url()]).stdin(Stdio::piped());
    let mut load = load.spawn().unwrap();
    let mut pipe = load.stdin.take().unwrap();
    let begun: String = text.lines().take(4).map(|line| format!("{line}\n")).collect();
    assert!(begun.ends_with("}}}\n"), "a message: {begun}");
    pipe.write_all(begun.as_bytes()).unwrap();
    let metas = ["EXISTS", "dueq:{one:0}:meta", "dueq:{two:0}:meta"];
    let made = async || (other.command::<i64>(&metas).await == 2).then_some(());
    eventually("the topics are made", made).await;
    load.kill().unwrap();
    load.wait().unwrap();

    let to = Dueq::on(&other).start().await;
    to.client().delete_topic("two", "?force=true").await.expect(204);
    to.client().published("two", json!({"payload": "of others"})).await;
    let again = dueq(&["load", file.to_str().unwrap(), "--redis-url", &other.url()]).await;
    assert_eq!((again.code, &*again.stdout), (1, ""), "{again:?}");
    assert!(again.stderr.contains("the place is not free: it has the topics two;"), "{again:?}");
}

#[tokio::test]
async fn what_expires_after_the_dump_is_no_difference() {
    let redis = Redis::start().await;
    let there = Dueq::on(&redis).start().await;
    there.client().published("orders", json!({"payload": 1})).await;
    there.client().published("orders", json!({"payload": 2, "ttl_ms": 1_000})).await;
    let (dir, other) = (temp_dir("expires"), Redis::start().await);
    let (file, over) = (dump(&redis, &dir).await, redis.time_ms().await + 1_000);
    let is_over = async || (other.time_ms().await > over).then_some(());
    eventually("its TTL is over", is_over).await;
    let words = ["load", file.to_str().unwrap(), "--redis-url", &other.url(), "--verify"];
    let loaded = dueq(&words).await;
    assert_eq!((loaded.code, &*loaded.stderr), (0, ""), "{loaded:?}");
    let to = Dueq::on(&other).start().await;
    assert_eq!(to.client().count("orders", "ready").await, 1);
    assert_eq!(to.client().total("orders", "expired").await, 1);
}

#[tokio::test]
async fn a_message_that_is_twice_in_a_dump_is_stored_once() {
    let redis = Redis::start().await;
    let there = Dueq::on(&redis).start().await;
    there.client().published("orders", json!({"payload": 1})).await;
    let (dir, other) = (temp_dir("twice"), Redis::start().await);
    let file = dump(&redis, &dir).await;
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let again = lines[2].replace("\"ready\"", "\"dead\"");
    let begun = format!("{}\n{again}\n", lines[..3].join("\n"));
    let digest = ring::digest::digest(&ring::digest::SHA256, begun.as_bytes());
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut end: Value = serde_json::from_str(lines[3]).unwrap();
    (end["end"]["messages"], end["end"]["sha256"]) = (json!(2), json!(hex));
    fs::write(&file, format!("{begun}{end}\n")).unwrap();
    let loaded = dueq(&["load", file.to_str().unwrap(), "--redis-url", &other.url()]).await;
    assert!(loaded.stdout.contains("loaded 1 messages"), "{loaded:?}");
    clean(&audit(&["--redis-url", &other.url()]).await);
}

#[tokio::test]
async fn messages_of_a_group_that_were_in_flight_together_come_back_in_order() {
    let redis = Redis::start().await;
    let there = Dueq::on(&redis).start().await;
    let sqs = async |client: &Client, action: &str, body: Value| {
        let target = format!("AmazonSQS.{action}");
        let headers = [("x-amz-target", &*target), ("content-type", "application/x-amz-json-1.0")];
        client.send("POST", "/sqs", &headers, Some(body.to_string().into_bytes())).await.expect(200)
    };
    let client = there.client();
    let attributes = json!({"FifoQueue": "true", "ContentBasedDeduplication": "true"});
    let queue = json!({"QueueName": "orders.fifo", "Attributes": attributes});
    sqs(&client, "CreateQueue", queue).await;
    for n in 0..6 {
        let message = json!({"QueueUrl": "/sqs/orders.fifo", "MessageBody": format!("m{n}"), "MessageGroupId": "g"});
        sqs(&client, "SendMessage", message).await;
    }
    let receive = async |client: &Client, most: usize| {
        let want = json!({"QueueUrl": "/sqs/orders.fifo", "MaxNumberOfMessages": most, "VisibilityTimeout": 2});
        let received = sqs(client, "ReceiveMessage", want).await.json();
        let bodies = received["Messages"].as_array().cloned().unwrap_or_default();
        bodies.iter().map(|it| text(it, "Body").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(receive(&client, 5).await, ["m0", "m1", "m2", "m3", "m4"]);
    let (dir, other) = (temp_dir("in-flight"), Redis::start().await);
    let file = dump(&redis, &dir).await;
    let loaded = dueq(&["load", file.to_str().unwrap(), "--redis-url", &other.url()]).await;
    assert_eq!(loaded.code, 0, "{loaded:?}");
    let to = Dueq::on(&other).start().await;
    let all = eventually("they come back", async || {
        Some(receive(&to.client(), 10).await).filter(|bodies| !bodies.is_empty())
    });
    assert_eq!(all.await, ["m0", "m1", "m2", "m3", "m4", "m5"]);
    clean(&audit(&["--redis-url", &other.url()]).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dump_of_one_redis_is_loaded_into_a_cluster() {
    let redis = Redis::start().await;
    let there = Dueq::on(&redis).start().await;
    let (client, names) = (there.client(), ["one", "two", "three", "split"]);
    client.configure("split", json!({"partitions": 8})).await;
    for name in names {
        for n in 0..30 {
            let message =
                json!({"payload": n, "key": n.to_string(), "idempotency_key": n.to_string()});
            client.published(name, message).await;
        }
    }
    let schedule = json!({"every_ms": 3_600_000, "topic": "one", "message": {"payload": 1}});
    client.send_json("PUT", "/schedules/hourly", &schedule).await.expect(201);
    let dir = temp_dir("into-a-cluster");
    let file = dump(&redis, &dir).await;
    let (path, cluster) = (file.to_str().unwrap(), Cluster::start(3, 0).await);
    let urls = cluster.urls();
    let loaded = dueq(&["load", path, "--redis-url", &urls, "--verify"]).await;
    assert_eq!((loaded.code, &*loaded.stderr), (0, ""), "{loaded:?}");
    clean(&audit(&["--redis-url", &urls]).await);
    let to = cluster.launch().start().await;
    let client = to.client();
    for name in names {
        let again = json!({"payload": 7, "key": "7", "idempotency_key": "7"});
        assert_eq!(client.publish(name, again).await.expect(200).json()["duplicate"], true);
        let mut held = Vec::new();
        while held.len() < 30 {
            let some = client.leased(name, json!({"max_messages": 30, "wait_ms": 10_000})).await;
            assert!(!some.is_empty(), "{name}: {}", held.len());
            held.extend(some);
        }
        for message in &held {
            client.ack_leased(message).await.expect(204);
        }
        assert_eq!(client.count(name, "ready").await, 0);
    }
    client.get_path("/schedules/hourly").await.expect(200);
}

#[tokio::test]
async fn copies_publish_and_move_into_copies_and_call_nothing() {
    let (redis, receiver) = (Redis::start().await, Receiver::start().await);
    let there = Dueq::calling(&redis).start().await;
    let (client, to) = (there.client(), |path: &str| json!({"url": receiver.url(path)}));
    let named = |name: &str| json!({"topic": name});
    for name in ["ord-dead", "ord-done", "ord-own"] {
        client.new_topic(name, json!({})).await;
    }
    let config = json!({"on_done": named("ord-done"), "on_dead": to("/topic"), "max_attempts": 1,
        "dead_topic": "ord-dead", "dead_form": "raw"});
    client.new_topic("ord", config).await;
    let dead = json!({"payload": "dead", "on_done": to("/moved"), "on_dead": named("ord-own")});
    client.published("ord", dead).await;
    client.nack_leased(&client.lease_one("ord").await, json!({})).await.expect(200);
    client.published("ord", json!({"payload": "plain"})).await;
    client.published("ord", json!({"payload": "own", "on_done": to("/own")})).await;
    let message = json!({"payload": 1, "on_done": named("ord-own"), "on_dead": to("/tick")});
    let hourly = json!({"every_ms": 3_600_000, "topic": "ord", "message": message});
    client.send_json("PUT", "/schedules/hourly", &hourly).await.expect(201);
    let of_originals = async || {
        let mut totals = Vec::new();
        for name in ["ord", "ord-dead", "ord-done", "ord-own"] {
            totals.push(client.total(name, "published").await);
        }
        totals
    };
    let are = [3, 1, 0, 1];
    eventually("the death is published", async || (of_originals().await == are).then_some(()))
        .await;

    let file = temp_dir("copies").join("dump.ndjson");
    let (file, url) = (file.to_str().unwrap(), redis.url());
    let words = ["dump", "--redis-url", &url, "--topics", "ord,ord-dead", "-o", file];
    assert_eq!(dueq(&words).await.code, 0);
    let loaded = dueq(&["load", file, "--redis-url", &url, "--into", "copy-", "--verify"]).await;
    assert_eq!(loaded.code, 0, "{loaded:?}");
    for of in [
        "the topic copy-ord",
        "2 of the messages in copy-ord",
        "1 of the messages in copy-ord-dead",
        "the schedule copy-hourly",
    ] {
        let line = format!("on_done and on_dead with a URL are left out of {of}, so that nothing");
        assert!(loaded.stdout.contains(&line), "{line}: {loaded:?}");
    }
    let config = client.topic("copy-ord").await.expect(200).json()["config"].take();
    let names = [&config["dead_topic"], &config["on_done"], &config["on_dead"]];
    assert_eq!(names, [&json!("copy-ord-dead"), &named("copy-ord-done"), &Value::Null]);
    let schedule = client.get_path("/schedules/copy-hourly").await.expect(200).json();
    assert_eq!(schedule["message"]["on_done"], named("copy-ord-own"), "{schedule}");
    assert!(schedule["message"].get("on_dead").is_none(), "{schedule}");

    for name in ["copy-ord-done", "copy-ord-own"] {
        client.new_topic(name, json!({})).await;
    }
    let moved = client.redrive_topic("copy-ord-dead", json!({})).await.expect(200);
    assert_eq!((moved.number("redriven"), moved.number("remaining")), (1, 0));
    for held in client.leased("copy-ord", json!({"max_messages": 3})).await {
        match held["payload"].as_str() {
            Some("dead") => drop(client.nack_leased(&held, json!({})).await.expect(200)),
            _ => drop(client.ack_leased(&held).await.expect(204)),
        }
    }
    let of_copies = async || {
        let [done, own] = ["copy-ord-done", "copy-ord-own"];
        (client.total(done, "published").await, client.total(own, "published").await)
    };
    eventually("completions", async || (of_copies().await == (1, 1)).then_some(())).await;
    eventually("it dies again", async || {
        (client.count("copy-ord-dead", "ready").await == 1).then_some(())
    })
    .await;
    // A second or two later, sweeps would have published what is left.
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    assert_eq!(of_copies().await, (1, 1));
    assert_eq!((of_originals().await, receiver.count()), (are.to_vec(), 0));
}
