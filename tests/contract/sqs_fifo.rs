//! FIFO queues of SQS: a receive takes several messages of a group, in order, and none is received while an earlier one is in flight.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::harness::*;
use crate::sqs_paths::action;

async fn new_queue(client: &Client, attributes: Value) -> String {
    let queue = format!("{}.fifo", topic("sqs-fifo"));
    let mut all = json!({"FifoQueue": "true", "VisibilityTimeout": "30"});
    all.as_object_mut().unwrap().extend(attributes.as_object().unwrap().clone());
    let body = json!({"QueueName": queue, "Attributes": all});
    action(client, "/sqs", "CreateQueue", body).await.expect(200);
    queue
}

/// Sends these, each as `group number`, and with a body of so many bytes more.
async fn send(client: &Client, queue: &str, names: &[String], padding: usize) {
    for some in names.chunks(10) {
        let entries = some.iter().enumerate().map(|(n, name)| {
            let group = name.split(' ').next();
            json!({"Id": n.to_string(), "MessageBody": format!("{name}{}", " ".repeat(padding)), "MessageGroupId": group,
                "MessageDeduplicationId": name.replace(' ', "-")})
        });
        let batch = json!({"QueueUrl": queue, "Entries": entries.collect::<Vec<_>>()});
        let sent = action(client, "/sqs", "SendMessageBatch", batch).await.expect(200).json();
        assert!(sent.get("Failed").is_none(), "{sent}");
    }
}

fn named(group: &str, numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|n| format!("{group} {n}")).collect()
}

/// Receives: bodies, and receipt handles.
async fn receive(
    client: &Client,
    queue: &str,
    most: usize,
    more: Value,
) -> (Vec<String>, Vec<String>) {
    let mut body = json!({"QueueUrl": queue, "MaxNumberOfMessages": most});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let received = action(client, "/sqs", "ReceiveMessage", body).await.expect(200).json();
    let messages = received["Messages"].as_array().cloned().unwrap_or_default();
    let of = |name: &str| messages.iter().map(|it| text(it, name).trim().to_owned()).collect();
    (of("Body"), of("ReceiptHandle"))
}

async fn delete(client: &Client, queue: &str, handles: &[String]) {
    for handle in handles {
        let body = json!({"QueueUrl": queue, "ReceiptHandle": handle});
        action(client, "/sqs", "DeleteMessage", body).await.expect(200);
    }
}

async fn show(client: &Client, queue: &str, handle: &str, seconds: i64) {
    let body = json!({"QueueUrl": queue, "ReceiptHandle": handle, "VisibilityTimeout": seconds});
    action(client, "/sqs", "ChangeMessageVisibility", body).await.expect(200);
}

#[tokio::test]
async fn a_group_is_received_ten_at_a_time_and_in_order() {
    let client = client().await;
    // Plain bodies, and some that leases look at the size of.
    for padding in [0, 3_000] {
        let queue = new_queue(&client, json!({})).await;
        send(&client, &queue, &named("a", 0..40), padding).await;
        for round in 0..4 {
            let (bodies, handles) = receive(&client, &queue, 10, json!({})).await;
            assert_eq!(bodies, named("a", round * 10..round * 10 + 10));
            // Until all are deleted there is nothing.
            assert!(receive(&client, &queue, 10, json!({})).await.0.is_empty());
            delete(&client, &queue, &handles[1..]).await;
            assert!(receive(&client, &queue, 10, json!({})).await.0.is_empty());
            delete(&client, &queue, &handles[..1]).await;
        }
        assert!(receive(&client, &queue, 10, json!({})).await.0.is_empty());
    }
}

#[tokio::test]
async fn groups_fill_a_receive_one_after_another() {
    let client = client().await;
    let queue = new_queue(&client, json!({})).await;
    let all = ["a 0", "b 0", "a 1", "c 0", "b 1", "a 2"].map(str::to_owned);
    send(&client, &queue, &all, 0).await;
    assert_eq!(receive(&client, &queue, 4, json!({})).await.0, ["a 0", "a 1", "a 2", "b 0"]);
    assert_eq!(receive(&client, &queue, 4, json!({})).await.0, ["c 0"]);
    // A consumer of dueq's own API gets one of a group, as ever, and so does anyone where a group has more at a time.
    for (own, concurrency) in [(true, 1), (false, 2)] {
        let topic = new_queue(&client, json!({})).await;
        client.reconfigure(&topic, json!({"group_concurrency": concurrency})).await;
        send(&client, &topic, &named("a", 0..5), 0).await;
        let got = match own {
            true => client.leased(&topic, json!({"max_messages": 10})).await.len(),
            false => receive(&client, &topic, 10, json!({})).await.0.len(),
        };
        assert_eq!(got, concurrency);
        assert!(receive(&client, &topic, 10, json!({})).await.0.is_empty());
    }
}

#[tokio::test]
async fn what_times_out_or_dies_comes_first_or_makes_room() {
    let client = client().await;
    let dead = new_queue(&client, json!({})).await;
    let arn = format!("arn:aws:sqs:us-east-1:000000000000:{dead}");
    let policy = json!({"deadLetterTargetArn": arn, "maxReceiveCount": 2}).to_string();
    let queue = new_queue(&client, json!({"RedrivePolicy": policy, "DelaySeconds": "1"})).await;
    send(&client, &queue, &named("a", 0..12), 0).await;
    assert!(receive(&client, &queue, 10, json!({})).await.0.is_empty());
    let patient = json!({"WaitTimeSeconds": 5});
    let (bodies, handles) = receive(&client, &queue, 4, patient.clone()).await;
    assert_eq!(bodies, named("a", 0..4));
    // The first and the third time out; the last is in flight for longer.
    delete(&client, &queue, &handles[1..2]).await;
    for n in [0, 2] {
        show(&client, &queue, &handles[n], 1).await;
    }
    let one_left = async || (client.count(&queue, "leased").await == 1).then_some(());
    eventually("the end of two timeouts", one_left).await;
    let again = receive(&client, &queue, 10, json!({})).await;
    assert_eq!(again.0, ["a 0", "a 2"]);
    // With its second receive, it is dead. The others go on without it.
    show(&client, &queue, &again.1[1], 0).await;
    delete(&client, &queue, &again.1[..1]).await;
    assert!(receive(&client, &queue, 10, json!({})).await.0.is_empty());
    show(&client, &queue, &handles[3], 0).await;
    let rest = receive(&client, &queue, 10, json!({"VisibilityTimeout": 0})).await;
    assert_eq!(rest.0, named("a", 3..12));
    assert_eq!(receive(&client, &queue, 10, json!({})).await.0, named("a", 4..12));
    // What comes back is the last of its group. A purge takes what is in flight with it.
    let moved = async || (client.count(&dead, "blocked").await == 1).then_some(());
    eventually("both dead letters", moved).await;
    let received = receive(&client, &dead, 10, json!({})).await;
    assert_eq!(received.0, ["a 2", "a 3"]);
    action(&client, "/sqs", "PurgeQueue", json!({"QueueUrl": queue})).await.expect(200);
    send(&client, &queue, &named("a", 12..14), 0).await;
    assert_eq!(receive(&client, &queue, 10, patient).await.0, named("a", 12..14));
}

/// What is known of a queue: the numbers of each group's messages, and the handles of those in flight.
type Groups = BTreeMap<&'static str, BTreeMap<usize, Option<String>>>;

/// A receive returned just what it may: of each group, in order, all before the first message in flight.
fn fits(known: &Groups, most: usize, paused: bool, bodies: &[String]) -> bool {
    let free = |(group, its): (&&str, &BTreeMap<usize, Option<String>>)| {
        let free = its.iter().take_while(|(_, handle)| handle.is_none());
        let free = free.filter(|_| !(paused && *group == "a"));
        free.map(|(n, _)| format!("{group} {n}")).collect::<Vec<_>>()
    };
    let mut lines: Vec<_> = known.iter().map(free).filter(|line| !line.is_empty()).collect();
    let mut rest = bodies;
    while let Some(first) = rest.first() {
        let Some(at) = lines.iter().position(|line| line[0] == *first) else { return false };
        let line = lines.remove(at);
        let taken = line.len().min(rest.len());
        if line[..taken] != rest[..taken] {
            return false;
        }
        rest = &rest[taken..];
    }
    bodies.len() == most || bodies.len() < most && lines.is_empty()
}

#[tokio::test]
async fn whatever_happens_no_message_overtakes_another_of_its_group() {
    let redis = Redis::start().await;
    let instances = [Dueq::on(&redis).start().await, Dueq::on(&redis).start().await];
    let clients = instances.each_ref().map(Dueq::client);
    let queue = new_queue(&clients[0], json!({})).await;
    let (mut known, mut next, mut paused) = (Groups::new(), 0, false);
    let mut random = StdRng::seed_from_u64(38);
    for step in 0..600 {
        let client = &clients[random.random_range(0..2)];
        let pick = |from: Vec<(&'static str, usize, String)>, random: &mut StdRng| {
            (!from.is_empty()).then(|| from[random.random_range(0..from.len())].clone())
        };
        let held = known.iter().flat_map(|(group, its)| {
            its.iter().filter_map(|(n, handle)| Some((*group, *n, handle.clone()?)))
        });
        let held = held.collect::<Vec<_>>();
        match random.random_range(0..10) {
            0..2 => {
                let group = ["a", "b", "c"][random.random_range(0..3)];
                let many = random.random_range(1..5);
                send(client, &queue, &named(group, next..next + many), 0).await;
                known.entry(group).or_default().extend((next..next + many).map(|n| (n, None)));
                next += many;
            }
            2..4 => {
                let most = random.random_range(1..=10);
                let (bodies, handles) = receive(client, &queue, most, json!({})).await;
                assert!(fits(&known, most, paused, &bodies), "{step}: {bodies:?} of {known:?}");
                for (body, handle) in bodies.iter().zip(handles) {
                    let (group, n) = body.split_once(' ').unwrap();
                    let of_group = known.get_mut(group).unwrap();
                    of_group.insert(n.parse().unwrap(), Some(handle));
                }
            }
            kind => {
                let Some((group, n, handle)) = pick(held, &mut random) else { continue };
                let (id, token) = handle.split_once('.').unwrap();
                let its = known.get_mut(group).unwrap();
                match kind {
                    4..6 => delete(client, &queue, &[handle]).await,
                    6 => drop(client.delete_by_force(id).await.expect(204)),
                    7 => {
                        let dead = json!({"dead": true});
                        client.nack(id, token, dead).await.expect(200);
                    }
                    8 => show(client, &queue, &handle, 0).await,
                    _ => {
                        paused = !paused;
                        client.pause_group(&queue, "a", paused).await.expect(200);
                        continue;
                    }
                }
                its.remove(&n);
                if kind == 8 {
                    its.insert(n, None);
                }
            }
        }
    }
    let url = redis.url();
    let audited = Launch::command(["audit", "--redis-url", &url]).finish().await;
    assert_eq!(audited.code, 0, "{}{}", audited.stdout, audited.stderr);
}

#[tokio::test]
async fn an_attempt_is_repeated_as_long_as_it_holds_its_messages() {
    let client = client().await;
    let queue = new_queue(&client, json!({})).await;
    send(&client, &queue, &named("a", 0..4), 0).await;
    let attempt = json!({"ReceiveRequestAttemptId": "try-{1}:x"});
    let first = receive(&client, &queue, 2, attempt.clone()).await;
    assert_eq!(first.0, ["a 0", "a 1"]);
    // Also while its timeout is another one by now.
    show(&client, &queue, &first.1[0], 1).await;
    assert_eq!(receive(&client, &queue, 2, attempt.clone()).await, first);
    assert!(
        receive(&client, &queue, 2, json!({"ReceiveRequestAttemptId": "other"})).await.0.is_empty()
    );
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(client.count(&queue, "leased").await, 2, "it begins again");
    delete(&client, &queue, &first.1[..1]).await;
    assert!(receive(&client, &queue, 2, attempt.clone()).await.0.is_empty());
    delete(&client, &queue, &first.1[1..]).await;
    let next = receive(&client, &queue, 2, attempt).await;
    assert_eq!(next.0, ["a 2", "a 3"]);
    for (queue, wrong) in [(queue.as_str(), ""), (&queue, "a b"), (&queue, &"x".repeat(129))] {
        let body = json!({"QueueUrl": queue, "ReceiveRequestAttemptId": wrong});
        let refused = action(&client, "/sqs", "ReceiveMessage", body).await;
        assert!(
            refused.status == 400 && refused.text("message").contains("AttemptId"),
            "{refused}"
        );
    }
    let standard = topic("sqs-standard");
    action(&client, "/sqs", "CreateQueue", json!({"QueueName": standard})).await.expect(200);
    let body = json!({"QueueUrl": standard, "ReceiveRequestAttemptId": "a"});
    let refused = action(&client, "/sqs", "ReceiveMessage", body).await;
    assert!(refused.text("message").contains("not valid for this queue type"), "{refused}");
}

#[tokio::test]
async fn the_scope_of_deduplication_changes_after_a_while_and_a_limit_by_group_needs_its_scope() {
    let client = client().await;
    let send = async |queue: &str, group: &str| {
        let body = json!({"QueueUrl": queue, "MessageBody": group, "MessageGroupId": group, "MessageDeduplicationId": "d"});
        action(&client, "/sqs", "SendMessage", body).await.expect(200);
        client.total(queue, "published").await
    };
    let set = async |queue: &str, attributes: Value| {
        let body = json!({"QueueUrl": queue, "Attributes": attributes});
        action(&client, "/sqs", "SetQueueAttributes", body).await
    };
    let high =
        json!({"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"});
    let queue = new_queue(&client, json!({})).await;
    assert_eq!((send(&queue, "a").await, send(&queue, "b").await), (1, 1));
    set(&queue, high.clone()).await.expect(200);
    assert_eq!(send(&queue, "c").await, 1, "not yet");
    let by_group = new_queue(&client, high).await;
    assert_eq!(
        (send(&by_group, "a").await, send(&by_group, "b").await, send(&by_group, "b").await),
        (1, 2, 2)
    );
    let body = json!({"QueueUrl": queue, "AttributeNames": ["All"]});
    let shown = action(&client, "/sqs", "GetQueueAttributes", body).await.expect(200).json();
    assert_eq!(shown["Attributes"]["DeduplicationScope"], "messageGroup");
    assert!(!shown.to_string().contains("dueq.scope"), "{shown}");
    // The scope that would go with the limit.
    for wrong in [
        json!({"DeduplicationScope": "queue"}),
        json!({"FifoThroughputLimit": "x"}),
        json!({"DeduplicationScope": "x"}),
    ] {
        assert_eq!(set(&queue, wrong.clone()).await.status, 400, "{wrong}");
    }
    let alone = json!({"QueueName": format!("{}.fifo", topic("sqs-fifo")),
        "Attributes": {"FifoQueue": "true", "FifoThroughputLimit": "perMessageGroupId"}});
    assert_eq!(action(&client, "/sqs", "CreateQueue", alone).await.status, 400);
}
