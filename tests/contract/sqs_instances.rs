//! A queue that one instance changes is another one's queue, too.

use serde_json::{Value, json};

use crate::access::scopes::KeyFile;
use crate::harness::*;
use crate::sqs_paths::action;

async fn new_queue(client: &Client, name: &str, attributes: Value) {
    let body = json!({"QueueName": name, "Attributes": attributes});
    action(client, "/sqs", "CreateQueue", body).await.expect(200);
}

async fn set(client: &Client, queue: &str, attributes: Value) {
    let body = json!({"QueueUrl": queue, "Attributes": attributes});
    action(client, "/sqs", "SetQueueAttributes", body).await.expect(200);
}

/// Sends one message alone and one in a batch; says whether both were taken.
async fn takes(client: &Client, queue: &str, bytes: usize) -> bool {
    let mut message = json!({"MessageBody": "x".repeat(bytes)});
    if queue.ends_with(".fifo") {
        message["MessageGroupId"] = json!("g");
    }
    let mut entry = message.clone();
    entry["Id"] = json!("1");
    message["QueueUrl"] = json!(queue);
    let sent = action(client, "/sqs", "SendMessage", message).await;
    let batch = json!({"QueueUrl": queue, "Entries": [entry]});
    let batch = action(client, "/sqs", "SendMessageBatch", batch).await;
    let is_whole = batch.status == 200 && batch.json().get("Failed").is_none();
    assert_eq!(is_whole, sent.status == 200, "{sent} {batch}");
    is_whole
}

#[tokio::test]
async fn what_another_instance_allows_is_not_refused() {
    let redis = Redis::start().await;
    let [here, other] = [Dueq::on(&redis).start().await, Dueq::on(&redis).start().await];
    let (here, other) = (here.client(), other.client());
    let (plain, fifo) = (topic("sqs-instances"), format!("{}.fifo", topic("sqs-instances")));
    new_queue(&here, &plain, json!({"MaximumMessageSize": "1024"})).await;
    assert!(takes(&other, &plain, 1024).await && !takes(&other, &plain, 1025).await);
    set(&here, &plain, json!({"MaximumMessageSize": "2048"})).await;
    assert!(takes(&other, &plain, 2048).await && !takes(&other, &plain, 2049).await);
    new_queue(&here, &fifo, json!({"FifoQueue": "true"})).await;
    assert!(!takes(&other, &fifo, 1).await);
    set(&here, &fifo, json!({"ContentBasedDeduplication": "true"})).await;
    assert!(takes(&other, &fifo, 1).await);
}

#[tokio::test]
async fn what_another_instance_made_or_deleted_is_seen() {
    let redis = Redis::start().await;
    let [here, other] = [Dueq::on(&redis).start().await, Dueq::on(&redis).start().await];
    let (here, other) = (here.client(), other.client());
    let (queue, dead) = (topic("sqs-instances"), topic("sqs-instances"));
    for name in [&dead, &queue] {
        new_queue(&here, name, json!({})).await;
        assert!(takes(&other, name, 1).await);
    }
    let arn = format!("arn:aws:sqs:us-east-1:000000000000:{dead}");
    let policy = json!({"deadLetterTargetArn": arn, "maxReceiveCount": 3}).to_string();
    set(&here, &queue, json!({"RedrivePolicy": policy})).await;
    let url = json!({"QueueUrl": dead});
    let sources = action(&other, "/sqs", "ListDeadLetterSourceQueues", url).await.expect(200);
    let named = sources.json()["queueUrls"][0].as_str().map(str::to_owned);
    assert!(named.is_some_and(|url| url.ends_with(&queue)), "{sources}");
    action(&other, "/sqs", "StartMessageMoveTask", json!({"SourceArn": arn})).await.expect(200);
    action(&here, "/sqs", "DeleteQueue", json!({"QueueUrl": queue})).await.expect(200);
    for (name, more) in [
        ("GetQueueUrl", json!({"QueueName": queue})),
        ("GetQueueAttributes", json!({"QueueUrl": queue, "AttributeNames": ["QueueArn"]})),
        ("ListQueueTags", json!({"QueueUrl": queue})),
        ("SendMessage", json!({"QueueUrl": queue, "MessageBody": "x"})),
    ] {
        let answer = action(&other, "/sqs", name, more).await.expect(400);
        assert!(answer.text("__type").ends_with("QueueDoesNotExist"), "{name}: {answer}");
    }
}

#[tokio::test]
async fn a_handle_of_a_queue_that_was_made_again_is_good_at_every_instance() {
    let redis = Redis::start().await;
    let [here, other] = [Dueq::on(&redis).start().await, Dueq::on(&redis).start().await];
    let (here, other) = (here.client(), other.client());
    for (name, batch) in [("DeleteMessage", false), ("DeleteMessageBatch", true)] {
        let queue = topic("sqs-instances");
        new_queue(&here, &queue, json!({})).await;
        assert!(takes(&other, &queue, 1).await);
        action(&here, "/sqs", "DeleteQueue", json!({"QueueUrl": queue})).await.expect(200);
        new_queue(&here, &queue, json!({})).await;
        let message = json!({"QueueUrl": queue, "MessageBody": "x"});
        action(&here, "/sqs", "SendMessage", message).await.expect(200);
        let url = json!({"QueueUrl": queue});
        let got = action(&here, "/sqs", "ReceiveMessage", url).await.expect(200);
        let mut delete = json!({"ReceiptHandle": got.json()["Messages"][0]["ReceiptHandle"]});
        if batch {
            delete["Id"] = json!("1");
            delete = json!({"Entries": [delete]});
        }
        delete["QueueUrl"] = json!(queue);
        let deleted = action(&other, "/sqs", name, delete).await.expect(200);
        assert!(deleted.json().get("Failed").is_none(), "{deleted}");
        assert_eq!(here.count(&queue, "leased").await, 0, "{name}");
    }
}

#[tokio::test]
async fn a_refused_move_names_no_queue_that_the_key_does_not_know() {
    let all = client().await;
    let (queue, dead) = (topic("sqs-secret"), topic("sqs-dead"));
    new_queue(&all, &dead, json!({})).await;
    let arn = format!("arn:aws:sqs:us-east-1:000000000000:{dead}");
    let policy = json!({"deadLetterTargetArn": arn, "maxReceiveCount": 3}).to_string();
    new_queue(&all, &queue, json!({"RedrivePolicy": policy})).await;
    let file = KeyFile::of(&[("operator", &format!("operate:{dead}"))]);
    let dueq = file.start().await;
    let operator = file.client(&dueq, "operator");
    let start = json!({"SourceArn": arn});
    let refused = action(&operator, "/sqs", "StartMessageMoveTask", start).await.expect(403);
    assert!(refused.text("message").contains("lacks publish"), "{refused}");
    assert!(!refused.text("message").contains(&queue), "{refused}");
}
