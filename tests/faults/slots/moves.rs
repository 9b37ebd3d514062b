//! Calls of what moves messages: SQS's clients, dumps and loads.

use serde_json::{Value, json};

use ring::digest::{SHA256, digest};

use crate::harness::{Client, Dueq, Launch, Redis, eventually, temp_dir, topic};

/// What SQS's protocol has a script for: a receipt handle that is used after its time.
pub async fn visit_sqs(client: &Client) {
    let call = async |action: &str, body: Value| {
        let target = format!("AmazonSQS.{action}");
        let headers = [("content-type", "application/x-amz-json-1.0"), ("x-amz-target", &*target)];
        let answer = client.send("POST", "/sqs", &headers, Some(body.to_string().into())).await;
        serde_json::from_slice::<Value>(&answer.expect(200).body).unwrap_or_default()
    };
    let url = call("CreateQueue", json!({"QueueName": topic("slots-sqs")})).await;
    call("SendMessage", json!({"QueueUrl": url["QueueUrl"], "MessageBody": "1"})).await;
    let received = call("ReceiveMessage", json!({"QueueUrl": url["QueueUrl"]})).await;
    let held = json!({"QueueUrl": url["QueueUrl"], "ReceiptHandle": received["Messages"][0]["ReceiptHandle"]});
    let mut release = held.clone();
    release["VisibilityTimeout"] = json!(0);
    call("ChangeMessageVisibility", release).await;
    call("DeleteMessage", held).await;
    // And a move task, which begins with nothing to move.
    let arn = |url: &Value| {
        let name = url["QueueUrl"]
            .as_str()
            .unwrap_or_default()
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        format!("arn:aws:sqs:us-east-1:000000000000:{name}")
    };
    let policy = json!({"deadLetterTargetArn": arn(&url), "maxReceiveCount": 1}).to_string();
    let source = json!({"QueueName": topic("slots-sqs"), "Attributes": {"RedrivePolicy": policy}});
    call("CreateQueue", source).await;
    call("StartMessageMoveTask", json!({"SourceArn": arn(&url)})).await;
    eventually("its end", || async {
        let listed = call("ListMessageMoveTasks", json!({"SourceArn": arn(&url)})).await;
        (listed["Results"][0]["Status"] == "COMPLETED").then_some(())
    })
    .await;
}

/// A dump, and its load alongside what is there.
pub async fn visit_moves(client: &Client, redis: &Redis) {
    let every = json!({"every_ms": 3_600_000, "topic": "slots-moved", "message": {"payload": 1}});
    client.send_json("PUT", "/schedules/slots-moved", &every).await.expect(201);
    client.published("slots-moved", json!({"payload": 1})).await;
    let file = temp_dir("moved").join("dump");
    let (url, file) = (redis.url(), file.to_str().unwrap());
    for words in [
        ["dump", "-o", file, "--topics", "slots-moved", "--redis-url", &url],
        ["load", file, "--into", "copy-", "--verify", "--redis-url", &url],
    ] {
        let moved = Launch::command(words).finish().await;
        assert_eq!(moved.code, 0, "{moved:?}");
    }
}

/// A message that dies and moves, and two whose acks are published: in their own topic, and in one that may lie elsewhere.
pub async fn visit_dead(client: &Client) {
    let (here, there) = (&topic("slots-dying"), topic("slots-dead"));
    let moves = json!({"dead_topic": there, "dead_form": "raw"});
    client.put_topic(here, moves).await.expect(201);
    for to in [here, &there] {
        client.published(here, json!({"payload": 1, "on_done": {"topic": to}})).await;
        client.ack_leased(&client.lease_one(here).await).await.expect(204);
    }
    client
        .ack_leased(&client.lease_one_with(here, json!({"wait_ms": 5_000})).await)
        .await
        .expect(204);
    client.published(here, json!({"payload": 1})).await;
    let held = client.lease_one(here).await;
    client.nack_leased(&held, json!({"dead": true})).await.expect(200);
    eventually("its move, and the completion", || async {
        let listed = client.list(&there, "state=ready").await;
        (listed.status == 200 && listed.json()["items"][1].is_object()).then_some(())
    })
    .await;
}

/// A publish with a key that has a quota of bytes.
pub async fn visit_quotas(redis: &Redis) {
    let file = temp_dir("quotas").join("keys");
    let hash = hex::encode(digest(&SHA256, b"dq_key-of-quotas-in-tests"));
    std::fs::write(&file, format!("quotas sha256:{hash} publish:* bytes=100000\n")).unwrap();
    let dueq = Dueq::on(redis).args(["--api-key-file", file.to_str().unwrap()]).start().await;
    let client = dueq.client().with_key("dq_key-of-quotas-in-tests");
    client.published(&topic("slots-quotas"), json!({"payload": 1})).await;
}

/// Leases that are counted over two partitions.
pub async fn visit_split_limit(client: &Client) {
    let split = &topic("slots-split-limits");
    client.put_topic(split, json!({"max_leased": 1, "partitions": 2})).await.expect(201);
    for n in 0..3 {
        client.published(split, json!({"payload": n})).await;
    }
    client.lease_one_with(split, json!({"wait_ms": 5_000})).await;
    assert!(client.leased(split, json!({})).await.is_empty());
}
