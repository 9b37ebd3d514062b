//! What dead letters of SQS's queues move back by: StartMessageMoveTask and its kind, and a redrive.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::access::scopes::KeyFile;
use crate::harness::*;
use crate::sqs_paths::action;
use crate::topic_facts::topic_has;

fn arn(queue: &str) -> String {
    format!("arn:aws:sqs:us-east-1:000000000000:{queue}")
}

async fn new_queue(client: &Client, dead: Option<&str>) -> String {
    let queue = topic("sqs-moves");
    let policy = |dead| json!({"deadLetterTargetArn": arn(dead), "maxReceiveCount": 1}).to_string();
    let attributes = dead.map_or(json!({}), |dead| json!({"RedrivePolicy": policy(dead)}));
    let body = json!({"QueueName": queue, "Attributes": attributes});
    action(client, "/sqs", "CreateQueue", body).await.expect(200);
    queue
}

/// Publishes so many messages, each of which dies at once.
async fn die(client: &Client, queue: &str, dead: &str, many: usize) {
    let before = client.total(dead, "published").await;
    for n in 0..many {
        let attributes = json!({"n": {"DataType": "Number", "StringValue": "7"}});
        let body = json!({"QueueUrl": queue, "MessageBody": format!("{queue} {n}"), "MessageAttributes": attributes,
            "MessageGroupId": "tenant"});
        action(client, "/sqs", "SendMessage", body).await.expect(200);
    }
    eventually("all have died", || async {
        let body = json!({"QueueUrl": queue, "MaxNumberOfMessages": 10, "VisibilityTimeout": 0});
        action(client, "/sqs", "ReceiveMessage", body).await.expect(200);
        let moved = client.total(dead, "published").await - before;
        (moved == many as i64).then_some(())
    })
    .await;
}

/// Receives all that is ready, for good.
async fn drain(client: &Client, queue: &str) -> Vec<Value> {
    let mut all = Vec::new();
    loop {
        let body = json!({"QueueUrl": queue, "MaxNumberOfMessages": 10, "AttributeNames": ["All"],
            "MessageAttributeNames": ["All"], "VisibilityTimeout": 600});
        let received = action(client, "/sqs", "ReceiveMessage", body).await.expect(200).json();
        match received["Messages"].as_array() {
            Some(some) => all.extend(some.clone()),
            None => return all,
        }
    }
}

async fn start(client: &Client, dead: &str, mut more: Value) -> Answer {
    more["SourceArn"] = json!(arn(dead));
    action(client, "/sqs", "StartMessageMoveTask", more).await
}

async fn tasks(client: &Client, dead: &str) -> Vec<Value> {
    let body = json!({"SourceArn": arn(dead), "MaxResults": 10});
    let listed = action(client, "/sqs", "ListMessageMoveTasks", body).await.expect(200).json();
    listed["Results"].as_array().unwrap().clone()
}

/// The latest task once it is in this state.
async fn latest(client: &Client, dead: &str, state: &str) -> Value {
    eventually(state, || async {
        let task = tasks(client, dead).await.swap_remove(0);
        (task["Status"] == state).then_some(task)
    })
    .await
}

#[tokio::test]
async fn dead_letters_go_back_to_their_queues_as_new_messages() {
    let (_redis, _dueq, client) = alone().await;
    let dead = new_queue(&client, None).await;
    let queues = [new_queue(&client, Some(&dead)).await, new_queue(&client, Some(&dead)).await];
    assert!(tasks(&client, &dead).await.is_empty());
    for queue in &queues {
        die(&client, queue, &dead, 12).await;
    }
    let started = start(&client, &dead, json!({})).await.expect(200).json();
    assert!(started["TaskHandle"].is_string(), "{started}");
    let task = latest(&client, &dead, "COMPLETED").await;
    let numbers = ["ApproximateNumberOfMessagesMoved", "ApproximateNumberOfMessagesToMove"];
    assert_eq!(numbers.map(|name| &task[name]), [24, 24], "{task}");
    topic_has(&client, &dead, json!({"totals": {"deleted": 24, "acked": 0}})).await;
    assert_eq!(task["SourceArn"], arn(&dead));
    for absent in ["TaskHandle", "DestinationArn", "MaxNumberOfMessagesPerSecond", "FailureReason"]
    {
        assert!(task.get(absent).is_none(), "{task}");
    }
    for queue in &queues {
        let all = drain(&client, queue).await;
        let bodies: BTreeSet<_> = all.iter().map(|it| text(it, "Body").to_owned()).collect();
        assert_eq!(bodies, (0..12).map(|n| format!("{queue} {n}")).collect());
        for message in &all {
            let attributes = &message["Attributes"];
            assert_eq!(attributes["ApproximateReceiveCount"], "1", "{message}");
            assert_eq!(attributes["MessageGroupId"], "tenant", "{message}");
            assert!(attributes.get("DeadLetterQueueSourceArn").is_none(), "{message}");
            assert_eq!(message["MessageAttributes"]["n"]["StringValue"], "7", "{message}");
        }
    }
    assert!(drain(&client, &dead).await.is_empty());
    // Those of a queue of this name that was deleted are not its own.
    action(&client, "/sqs", "DeleteQueue", json!({"QueueUrl": dead})).await.expect(200);
    action(&client, "/sqs", "CreateQueue", json!({"QueueName": dead})).await.expect(200);
    assert!(tasks(&client, &dead).await.is_empty());
}

#[tokio::test]
async fn a_task_keeps_its_rate_and_can_be_cancelled() {
    let (_redis, _dueq, client) = alone().await;
    let dead = new_queue(&client, None).await;
    let (queue, to) = (new_queue(&client, Some(&dead)).await, new_queue(&client, None).await);
    die(&client, &queue, &dead, 9).await;
    let slow = json!({"DestinationArn": arn(&to), "MaxNumberOfMessagesPerSecond": 2});
    let started = start(&client, &dead, slow.clone()).await.expect(200).json();
    let again = start(&client, &dead, slow).await;
    assert_eq!(again.status, 400);
    assert!(again.text("message").starts_with("There is already a task running."), "{again}");
    eventually("four", || async { (client.count(&to, "ready").await == 4).then_some(()) }).await;
    let task = tasks(&client, &dead).await.swap_remove(0);
    assert_eq!((&task["Status"], &task["TaskHandle"]), (&json!("RUNNING"), &started["TaskHandle"]));
    assert_eq!(
        (&task["DestinationArn"], &task["MaxNumberOfMessagesPerSecond"]),
        (&json!(arn(&to)), &json!(2))
    );
    let handle = json!({"TaskHandle": started["TaskHandle"]});
    let cancelled =
        action(&client, "/sqs", "CancelMessageMoveTask", handle.clone()).await.expect(200);
    assert!(cancelled.number("ApproximateNumberOfMessagesMoved") <= 4, "{cancelled}");
    let task = latest(&client, &dead, "CANCELLED").await;
    let moved = client.count(&to, "ready").await;
    assert!(moved < 9 && task["ApproximateNumberOfMessagesMoved"] == moved, "{task}");
    assert_eq!(client.count(&dead, "ready").await, 9 - moved);
    let over = action(&client, "/sqs", "CancelMessageMoveTask", handle).await;
    assert_eq!(over.status, 400, "{over}");
    assert_eq!(over.text("message"), "Only active tasks can be cancelled.");
    // The latest comes first.
    start(&client, &dead, json!({})).await.expect(200);
    latest(&client, &dead, "COMPLETED").await;
    let states: Vec<_> =
        tasks(&client, &dead).await.iter().map(|it| it["Status"].clone()).collect();
    assert_eq!(states, ["COMPLETED", "CANCELLED"]);
}

#[tokio::test]
async fn a_task_fails_where_a_message_has_no_place_to_go() {
    let (_redis, _dueq, client) = alone().await;
    let dead = new_queue(&client, None).await;
    let (queue, to) = (new_queue(&client, Some(&dead)).await, new_queue(&client, None).await);
    action(&client, "/sqs", "SendMessage", json!({"QueueUrl": dead, "MessageBody": "x"}))
        .await
        .expect(200);
    die(&client, &queue, &dead, 3).await;
    let slow = json!({"DestinationArn": arn(&to), "MaxNumberOfMessagesPerSecond": 1});
    start(&client, &dead, slow).await.expect(200);
    action(&client, "/sqs", "DeleteQueue", json!({"QueueUrl": to})).await.expect(200);
    let task = latest(&client, &dead, "FAILED").await;
    assert_eq!(task["FailureReason"], "AWS.SimpleQueueService.NonExistentQueue");
    let left = client.count(&dead, "ready").await;
    assert!(left >= 3, "{left} are left");
    start(&client, &dead, json!({})).await.expect(200);
    let task = latest(&client, &dead, "FAILED").await;
    assert_eq!(task["FailureReason"], "CouldNotDetermineMessageSource");
    assert!(task.get("TaskHandle").is_none(), "{task}");
    assert_eq!(client.count(&queue, "ready").await + client.count(&dead, "ready").await, left);
}

#[tokio::test]
async fn a_message_that_is_refused_stays_and_the_others_move() {
    let (_redis, _dueq, client) = alone().await;
    let dead = new_queue(&client, None).await;
    let to = new_queue(&client, None).await;
    new_queue(&client, Some(&dead)).await;
    // The first makes a lot of its own.
    for bytes in [1_048_576, 2_000, 1, 2] {
        let body = json!({"QueueUrl": dead, "MessageBody": "x".repeat(bytes)});
        action(&client, "/sqs", "SendMessage", body).await.expect(200);
    }
    let small = json!({"QueueUrl": to, "Attributes": {"MaximumMessageSize": "1024"}});
    action(&client, "/sqs", "SetQueueAttributes", small).await.expect(200);
    start(&client, &dead, json!({"DestinationArn": arn(&to)})).await.expect(200);
    let task = latest(&client, &dead, "FAILED").await;
    assert_eq!(task["ApproximateNumberOfMessagesMoved"], 2, "{task}");
    assert_eq!(client.count(&to, "ready").await, 2);
    eventually("two are left", || async {
        (client.count(&dead, "ready").await == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn wrong_move_tasks_are_refused_as_by_aws() {
    let client = client().await;
    let (dead, plain) = (new_queue(&client, None).await, new_queue(&client, None).await);
    new_queue(&client, Some(&dead)).await;
    let (good, missing) = (arn(&dead), arn("sqs-moves-missing"));
    let unknown = |task: &str, source: &str| {
        use base64::Engine as _;
        let text = json!({"taskId": task, "sourceArn": source}).to_string();
        json!({"TaskHandle": base64::engine::general_purpose::STANDARD.encode(text)})
    };
    const FORM: &str = "You must use this format to specify the";
    const GONE: &str = "The resource that you specified for the";
    const RATE: &str = "MaxNumberOfMessagesPerSecond is invalid";
    for (name, body, status, words) in [
        ("StartMessageMoveTask", json!({}), 400, "SourceArn"),
        ("StartMessageMoveTask", json!({"SourceArn": "x"}), 400, FORM),
        ("StartMessageMoveTask", json!({"SourceArn": "arn:aws:sns:r:1:x"}), 400, FORM),
        ("StartMessageMoveTask", json!({"SourceArn": 7}), 400, ""),
        ("StartMessageMoveTask", json!({"SourceArn": missing}), 404, GONE),
        (
            "StartMessageMoveTask",
            json!({"SourceArn": arn(&plain)}),
            400,
            "Source queue must be configured",
        ),
        ("StartMessageMoveTask", json!({"SourceArn": good, "DestinationArn": missing}), 404, GONE),
        ("StartMessageMoveTask", json!({"SourceArn": good, "DestinationArn": "x"}), 400, FORM),
        (
            "StartMessageMoveTask",
            json!({"SourceArn": good, "DestinationArn": good}),
            400,
            "cannot be the same",
        ),
        (
            "StartMessageMoveTask",
            json!({"SourceArn": good, "MaxNumberOfMessagesPerSecond": 0}),
            400,
            RATE,
        ),
        (
            "StartMessageMoveTask",
            json!({"SourceArn": good, "MaxNumberOfMessagesPerSecond": 501}),
            400,
            RATE,
        ),
        ("ListMessageMoveTasks", json!({}), 400, "SourceArn"),
        ("ListMessageMoveTasks", json!({"SourceArn": "x"}), 400, FORM),
        ("ListMessageMoveTasks", json!({"SourceArn": missing}), 404, GONE),
        (
            "ListMessageMoveTasks",
            json!({"SourceArn": good, "MaxResults": 0}),
            400,
            "MaxResults is invalid",
        ),
        (
            "ListMessageMoveTasks",
            json!({"SourceArn": good, "MaxResults": 11}),
            400,
            "MaxResults is invalid",
        ),
        ("CancelMessageMoveTask", json!({}), 400, "TaskHandle"),
        ("CancelMessageMoveTask", json!({"TaskHandle": "foobared"}), 400, "TaskHandle is invalid"),
        ("CancelMessageMoveTask", json!({"TaskHandle": "é"}), 400, "TaskHandle is invalid"),
        ("CancelMessageMoveTask", json!({"TaskHandle": "e30="}), 400, "TaskHandle is invalid"),
        ("CancelMessageMoveTask", unknown("0", &missing), 404, GONE),
        ("CancelMessageMoveTask", unknown("0", &good), 404, "Task does not exist."),
    ] {
        let refused = action(&client, "/sqs", name, body.clone()).await;
        let says = refused.text("message");
        assert!(refused.status == status && says.contains(words), "{name} {body}: {refused}");
    }
}

#[tokio::test]
async fn a_key_needs_to_operate_on_the_source_and_to_publish_to_the_targets() {
    let all = client().await;
    let dead = new_queue(&all, None).await;
    let (queue, to) = (new_queue(&all, Some(&dead)).await, new_queue(&all, None).await);
    let other = new_queue(&all, Some(&dead)).await;
    let file = KeyFile::of(&[
        ("operator", &format!("operate:{dead} publish:{to} publish:{other}")),
        ("reader", &format!("read:{dead} publish:*")),
        ("owner", "admin"),
    ]);
    let dueq = file.start().await;
    let (operator, reader) = (file.client(&dueq, "operator"), file.client(&dueq, "reader"));
    die(&all, &queue, &dead, 2).await;
    assert_eq!(start(&reader, &dead, json!({})).await.status, 403);
    assert_eq!(start(&operator, &dead, json!({})).await.status, 403);
    // A redrive leaves what it may not move.
    let redriven = operator.redrive_topic(&dead, json!({})).await.expect(200);
    assert_eq!((redriven.number("redriven"), all.count(&dead, "ready").await), (0, 2));
    // Where the messages came from counts, not only which queues send theirs now.
    let policy = json!({"QueueUrl": queue, "Attributes": {"RedrivePolicy": ""}});
    let owner = file.client(&dueq, "owner");
    action(&owner, "/sqs", "SetQueueAttributes", policy).await.expect(200);
    start(&operator, &dead, json!({})).await.expect(200);
    latest(&reader, &dead, "FAILED").await;
    eventually("both are left", || async { (all.count(&dead, "ready").await == 2).then_some(()) })
        .await;
    start(&operator, &dead, json!({"DestinationArn": arn(&to)})).await.expect(200);
    latest(&reader, &dead, "COMPLETED").await;
    assert_eq!(all.count(&to, "ready").await, 2);
}

#[tokio::test]
async fn a_redrive_moves_back_what_came_by_raw() {
    let client = client().await;
    let (here, dead) = (topic("raw-from"), topic("raw-dead"));
    client.new_topic(&dead, json!({})).await;
    let config =
        json!({"dead_topic": dead, "dead_form": "raw", "max_attempts": 1, "max_payload_bytes": 64});
    client.new_topic(&here, config).await;
    // What was published there stays.
    client.published(&dead, json!({"payload": "stays"})).await;
    for n in 0..30 {
        client.published(&here, json!({"payload": n, "priority": 7, "headers": {"a": "b"}})).await;
    }
    for held in client.leased(&here, json!({"max_messages": 100})).await {
        client.nack_leased(&held, json!({})).await.expect(200);
    }
    eventually("all have moved", || async {
        (client.count(&dead, "ready").await == 31).then_some(())
    })
    .await;
    let some = client.redrive_topic(&dead, json!({"max_messages": 10})).await.expect(200);
    assert_eq!((some.number("redriven"), some.number("remaining")), (10, 21));
    let rest = client.redrive_topic(&dead, json!({"spread_ms": 60_000})).await.expect(200);
    assert_eq!((rest.number("redriven"), rest.number("remaining")), (20, 0));
    assert!(client.count(&here, "delayed").await >= 18, "they are spread");
    client.post(&format!("/topics/{here}/run"), &json!({})).await.expect(200);
    let back = client.leased(&here, json!({"max_messages": 100})).await;
    let payloads: BTreeSet<_> = back.iter().map(|it| it["payload"].as_i64()).collect();
    assert_eq!(payloads, (0..30).map(Some).collect());
    for message in &back {
        let kept = (&message["priority"], &message["headers"]["a"], &message["attempt"]);
        assert_eq!(kept, (&json!(7), &json!("b"), &json!(1)), "{message}");
    }
    assert_eq!(client.lease_one(&dead).await["payload"], "stays");
}

#[tokio::test]
async fn another_instance_goes_on_where_one_was_killed() {
    let redis = Redis::start().await;
    let mut first = Dueq::on(&redis).start().await;
    let client = first.client();
    let dead = new_queue(&client, None).await;
    let (queue, to) = (new_queue(&client, Some(&dead)).await, new_queue(&client, None).await);
    die(&client, &queue, &dead, 40).await;
    let slow = json!({"DestinationArn": arn(&to), "MaxNumberOfMessagesPerSecond": 20});
    start(&client, &dead, slow).await.expect(200);
    eventually("some", || async { (client.count(&to, "ready").await > 0).then_some(()) }).await;
    first.kill9();
    let second = Dueq::on(&redis).start().await;
    let client = second.client();
    latest(&client, &dead, "COMPLETED").await;
    let all = drain(&client, &to).await;
    let bodies: BTreeSet<_> = all.iter().map(|it| text(it, "Body").to_owned()).collect();
    assert_eq!((all.len(), bodies.len()), (40, 40));
    assert!(drain(&client, &dead).await.is_empty());
}
