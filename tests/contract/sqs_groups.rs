//! `MessageGroupId` in standard queues of SQS: it names a tenant, and tenants take turns.

use serde_json::{Value, json};

use crate::harness::*;
use crate::sqs_paths::action;

async fn new_queue(client: &Client, name: &str, attributes: Value) {
    let body = json!({"QueueName": name, "Attributes": attributes});
    action(client, "/sqs", "CreateQueue", body).await.expect(200);
}

async fn send(client: &Client, queue: &str, group: &Value) -> Answer {
    let body = json!({"QueueUrl": queue, "MessageBody": "x", "MessageGroupId": group});
    action(client, "/sqs", "SendMessage", body).await
}

/// Receives up to ten messages: the tenant of each, null for none.
async fn receive(client: &Client, queue: &str, more: Value) -> Vec<Value> {
    let mut body = json!({"QueueUrl": queue, "MaxNumberOfMessages": 10, "AttributeNames": ["All"]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let received = action(client, "/sqs", "ReceiveMessage", body).await.expect(200).json();
    let messages = received["Messages"].as_array().cloned().unwrap_or_default();
    messages.iter().map(|message| message["Attributes"]["MessageGroupId"].clone()).collect()
}

async fn order(client: &Client, topic: &str) -> Value {
    client.topic(topic).await.expect(200).json()["config"]["group_order"].clone()
}

#[tokio::test]
async fn tenants_of_a_new_standard_queue_take_turns() {
    let (client, queue) = (client().await, topic("sqs-fair"));
    new_queue(&client, &queue, json!({})).await;
    for _ in 0..4 {
        let entry =
            |id: i64| json!({"Id": id.to_string(), "MessageBody": "x", "MessageGroupId": "noisy"});
        let batch = json!({"QueueUrl": queue, "Entries": (0..10).map(entry).collect::<Vec<_>>()});
        let sent = action(&client, "/sqs", "SendMessageBatch", batch).await.expect(200).json();
        assert_eq!(sent["Successful"].as_array().unwrap().len(), 10, "{sent}");
        assert!(sent["Successful"][0].get("SequenceNumber").is_none(), "{sent}");
    }
    send(&client, &queue, &json!("quiet")).await.expect(200);
    send(&client, &queue, &json!(null)).await.expect(200);
    // No message waits for others of its tenant, and none for all of another tenant.
    let got = receive(&client, &queue, json!({})).await;
    for (tenant, many) in [(json!("noisy"), 8), (json!("quiet"), 1), (json!(null), 1)] {
        assert_eq!(got.iter().filter(|it| **it == tenant).count(), many, "{got:?}");
    }
    let groups = client.get_path(&format!("/topics/{queue}/groups/noisy")).await.expect(200);
    assert_eq!((groups.number("leased"), groups.number("waiting")), (8, 32));
    assert_eq!(client.lease_one(&queue).await["group"], "noisy");
    assert_eq!(order(&client, &queue).await, "fair");
    let fifo = format!("{queue}.fifo");
    new_queue(&client, &fifo, json!({"FifoQueue": "true"})).await;
    assert_eq!(order(&client, &fifo).await, "strict");
}

#[tokio::test]
async fn a_queue_that_was_made_otherwise_keeps_its_order() {
    let (client, queue) = (client().await, topic("sqs-strict"));
    client.put_topic(&queue, json!({"max_payload_bytes": 1_048_576})).await.expect(201);
    new_queue(&client, &queue, json!({})).await;
    assert_eq!(order(&client, &queue).await, "strict");
    for _ in 0..2 {
        send(&client, &queue, &json!("tenant")).await.expect(200);
    }
    assert_eq!(client.count(&queue, "blocked").await, 0);
    assert_eq!(receive(&client, &queue, json!({})).await, ["tenant", "tenant"]);
}

#[tokio::test]
async fn a_dead_letter_keeps_its_tenant_and_waits_for_no_other() {
    let client = client().await;
    for strict in [false, true] {
        let (queue, dead) = (topic("sqs-tenant"), topic("sqs-dead"));
        new_queue(&client, &dead, json!({})).await;
        if strict {
            client.reconfigure(&dead, json!({"group_order": "strict"})).await;
        }
        let arn = format!("arn:aws:sqs:us-east-1:000000000000:{dead}");
        let policy = json!({"deadLetterTargetArn": arn, "maxReceiveCount": 1}).to_string();
        new_queue(&client, &queue, json!({"RedrivePolicy": policy})).await;
        for _ in 0..3 {
            send(&client, &queue, &json!("tenant")).await.expect(200);
        }
        assert_eq!(receive(&client, &queue, json!({"VisibilityTimeout": 0})).await.len(), 3);
        eventually("all have moved", || async {
            (client.total(&dead, "published").await == 3).then_some(())
        })
        .await;
        assert_eq!(client.count(&dead, "blocked").await, 0);
        assert_eq!(receive(&client, &dead, json!({})).await, ["tenant"; 3]);
    }
}

#[tokio::test]
async fn a_tenant_has_a_name_as_with_aws() {
    let (client, queue) = (client().await, topic("sqs-names"));
    new_queue(&client, &queue, json!({})).await;
    for wrong in ["", "a b", "é", "a\n", "\u{7f}", &"x".repeat(129)] {
        let refused = send(&client, &queue, &json!(wrong)).await;
        let rule = "MessageGroupId can only include";
        assert!(refused.status == 400 && refused.text("message").contains(rule), "{refused}");
        let entry =
            |id: &str, group: &str| json!({"Id": id, "MessageBody": "x", "MessageGroupId": group});
        let batch =
            json!({"QueueUrl": queue, "Entries": [entry("bad", wrong), entry("good", "a")]});
        let sent = action(&client, "/sqs", "SendMessageBatch", batch).await.expect(200).json();
        assert_eq!(
            (&sent["Failed"][0]["Id"], &sent["Successful"][0]["Id"]),
            (&json!("bad"), &json!("good"))
        );
    }
    assert_eq!(send(&client, &queue, &json!(7)).await.status, 400);
    assert_eq!(client.total(&queue, "published").await, 6, "of what was refused nothing is stored");
    let odd: String = ('!'..='~').chain(['a'; 34]).collect();
    send(&client, &queue, &json!(odd)).await.expect(200);
    assert!(receive(&client, &queue, json!({})).await.contains(&json!(odd)));
}

#[tokio::test]
async fn a_queue_can_be_made_while_an_older_instance_runs() {
    let (redis, _dueq, client) = alone().await;
    let now = redis.time_ms().await;
    let older = format!("00000000000000aa {now} 0.0.9+schema.5");
    let alive = "dueq:{service}:alive";
    let _: i64 = redis.command(&["ZADD", alive, &(now + 30_000).to_string(), &older]).await;
    new_queue(&client, "before", json!({})).await;
    assert_eq!(order(&client, "before").await, "strict");
    assert_eq!(redis.command::<i64>(&["ZREM", alive, &older]).await, 1);
    new_queue(&client, "after", json!({})).await;
    assert_eq!(order(&client, "after").await, "fair");
}

/// It may come back until the upgrade is finished.
#[tokio::test]
async fn an_older_version_that_made_the_data_knows_their_queues_until_the_upgrade_is_finished() {
    let redis = Redis::start().await;
    drop(Dueq::on(&redis).start().await);
    assert_eq!(redis.command::<i64>(&["DEL", "dueq:{service}:began"]).await, 1);
    for (queue, wanted) in [("before", "strict"), ("after", "fair")] {
        let dueq = Dueq::on(&redis).start().await;
        new_queue(&dueq.client(), queue, json!({})).await;
        assert_eq!(order(&dueq.client(), queue).await, wanted);
        drop(dueq);
        let finish = ["migrate", "--finish", "--redis-url", &redis.url()];
        assert_eq!(Launch::command(finish).finish().await.code, 0);
    }
}
