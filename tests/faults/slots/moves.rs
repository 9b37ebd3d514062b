//! Calls of what moves messages: SQS's clients, dumps and loads.

use serde_json::{Value, json};

use crate::harness::{Client, Launch, Redis, temp_dir, topic};

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
}

/// A dump, and its load beside what is there.
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
