//! Where clients of SQS's post to, and what they ask for that is not there.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::access::scopes::KeyFile;
use crate::harness::*;

/// Sends a request of SQS's.
pub async fn action(client: &Client, path: &str, action: &str, body: Value) -> Answer {
    let target = format!("AmazonSQS.{action}");
    let headers =
        [("x-amz-target", target.as_str()), ("content-type", "application/x-amz-json-1.0")];
    client.send("POST", path, &headers, Some(body.to_string().into_bytes())).await
}

#[tokio::test]
async fn a_request_is_taken_wherever_sdks_post_it() {
    let client = client().await;
    for place in ["/", "/000000000000/{}", "/queue/{}/", "/sqs", "/sqs/{}", "/sqs/123456789012/{}"]
    {
        let queue = topic("sqs-paths");
        action(&client, "/", "CreateQueue", json!({"QueueName": queue})).await.expect(200);
        let url = format!("https://sqs.eu-west-1.amazonaws.com/123456789012/{queue}");
        let path = place.replace("{}", &queue);
        let sent = json!({"QueueUrl": url, "MessageBody": "hello"});
        let sent = action(&client, &path, "SendMessage", sent).await.expect(200);
        assert!(sent.json()["MessageId"].is_string(), "{place}: {sent}");
        // A path that names the queue is enough.
        let body = if place.contains("{}") { json!({}) } else { json!({"QueueUrl": url}) };
        let received = action(&client, &path, "ReceiveMessage", body).await.expect(200);
        assert_eq!(received.json()["Messages"][0]["Body"], "hello", "{place}: {received}");
    }
}

#[tokio::test]
async fn other_requests_there_are_as_ever() {
    let client = client().await;
    let json = [("content-type", "application/json")];
    let body = || Some(b"{}".to_vec());
    client.send("POST", "/", &json, body()).await.problem(405, "method_not_allowed");
    client.send("POST", "/a/b", &json, body()).await.problem(404, "route_not_found");
    client.send("GET", "/a/b", &[], None).await.problem(404, "route_not_found");
    for path in ["/a", "/a/b/c"] {
        let answer = action(&client, path, "SendMessage", json!({})).await;
        answer.problem(404, "route_not_found");
    }
    // A route of dueq's own stays one, whatever the header says.
    let topic = topic("sqs-paths");
    client.published(&topic, json!({"payload": 1})).await;
    let listed = action(&client, "/messages/ack", "GetQueueUrl", json!({"messages": []})).await;
    listed.problem(415, "unsupported_media_type");
}

#[tokio::test]
async fn with_keys_a_signature_names_the_key_wherever_it_is_posted() {
    let queue = topic("sqs-paths");
    let file = KeyFile::of(&[("sender", &format!("publish:{queue}"))]);
    let dueq = file.start().await;
    shared().await.dueq.client().put_topic(&queue, json!({})).await.expect(201);
    let signed = format!(
        "AWS4-HMAC-SHA256 Credential={}/20261126/eu-west-1/sqs/aws4_request, SignedHeaders=host, Signature=0",
        file.key("sender")
    );
    for path in ["/".to_owned(), format!("/000000000000/{queue}"), format!("/sqs/0/{queue}")] {
        let send = async |action: &str, authorization: &str| {
            let body =
                json!({"QueueUrl": format!("http://x/{queue}"), "MessageBody": "x"}).to_string();
            let request = format!(
                "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-amz-target: AmazonSQS.{action}\r\n\
                    content-type: application/x-amz-json-1.0\r\nauthorization: {authorization}\r\n\
                    content-length: {}\r\n\r\n{body}",
                body.len()
            );
            let mut stream = TcpStream::connect(dueq.addr()).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer[9..12].to_owned()
        };
        assert_eq!(send("SendMessage", &signed).await, "200", "{path}");
        assert_eq!(send("ReceiveMessage", &signed).await, "403", "{path}");
        assert_eq!(send("SendMessage", "Bearer dq_wrong-key-of-nobody").await, "403", "{path}");
        assert_eq!(send("Nonsense", &signed).await, "400", "{path}");
    }
}

#[tokio::test]
async fn unknown_attributes_are_left_out_and_a_star_is_all() {
    let (client, queue) = (client().await, topic("sqs-attributes"));
    action(&client, "/sqs", "CreateQueue", json!({"QueueName": queue})).await.expect(200);
    let send = json!({
        "QueueUrl": queue, "MessageBody": "x",
        "MessageAttributes": {"a": {"DataType": "String", "StringValue": "1"}},
    });
    action(&client, "/sqs", "SendMessage", send).await.expect(200);
    for (field, name) in [("AttributeNames", "Nope"), ("MessageSystemAttributeNames", "x y")] {
        let body = json!({
            "QueueUrl": queue, field: ["SentTimestamp", name], "VisibilityTimeout": 0,
            "MessageAttributeNames": ["*"],
        });
        let received = action(&client, "/sqs", "ReceiveMessage", body).await.expect(200).json();
        let message = &received["Messages"][0];
        assert!(message["Attributes"]["SentTimestamp"].is_string(), "{received}");
        assert!(message["Attributes"].get(name).is_none(), "{received}");
        assert_eq!(message["MessageAttributes"]["a"]["StringValue"], "1", "{received}");
    }
}

#[tokio::test]
async fn empty_tags_wrong_policies_and_foreign_handles_are_refused_in_the_words_of_aws() {
    let (client, queue) = (client().await, topic("sqs-small"));
    let reuse = json!({"KmsDataKeyReusePeriodSeconds ": "300"});
    for _ in 0..2 {
        let body = json!({"QueueName": queue, "Attributes": reuse});
        action(&client, "/sqs", "CreateQueue", body).await.expect(200);
    }
    let all = json!({"QueueUrl": queue, "AttributeNames": ["All"]});
    let shown = action(&client, "/sqs", "GetQueueAttributes", all).await.expect(200);
    assert!(!shown.json().to_string().contains("Kms"), "{shown}");
    let many: serde_json::Map<_, _> = (0..51).map(|n| (format!("{n}"), json!("x"))).collect();
    let policy = |text: &str| json!({"QueueUrl": queue, "Attributes": {"Policy": text}});
    for (name, body, words) in [
        ("TagQueue", json!({"QueueUrl": queue, "Tags": {}}), "the parameter Tags"),
        ("TagQueue", json!({"QueueUrl": queue, "Tags": many}), "Too many tags"),
        ("UntagQueue", json!({"QueueUrl": queue, "TagKeys": []}), "between 1 and 128"),
        ("SetQueueAttributes", policy("{"), "the parameter Policy"),
        ("SetQueueAttributes", policy("[]"), "the parameter Policy"),
        (
            "DeleteMessage",
            json!({"QueueUrl": queue, "ReceiptHandle": "x"}),
            "The input receipt handle \"x\" is not a valid receipt handle.",
        ),
    ] {
        let refused = action(&client, "/sqs", name, body).await;
        assert!(
            refused.status == 400 && refused.text("message").contains(words),
            "{name}: {refused}"
        );
    }
    for good in ["{\"Version\": \"2012-10-17\"}", ""] {
        action(&client, "/sqs", "SetQueueAttributes", policy(good)).await.expect(200);
    }
}

#[tokio::test]
async fn permissions_are_kept_in_the_policy() {
    let (client, queue) = (client().await, topic("sqs-policy"));
    action(&client, "/sqs", "CreateQueue", json!({"QueueName": queue})).await.expect(200);
    let add = |label: &str, accounts: Value, actions: Value| json!({"QueueUrl": queue, "Label": label, "AWSAccountIds": accounts, "Actions": actions});
    let two = json!(["111111111111", "222222222222"]);
    let (one, receive) = (json!(["111111111111"]), json!(["ReceiveMessage"]));
    let labelled = |label: &str| json!({"QueueUrl": queue, "Label": label});
    let eight = json!(vec!["*"; 8]);
    for (name, body, status, words) in [
        ("AddPermission", add("a", two, json!(["SendMessage", "*"])), 200, ""),
        ("AddPermission", add("a", one.clone(), receive.clone()), 400, "Already exists."),
        ("AddPermission", add("b", one.clone(), json!([])), 400, "Actions"),
        ("AddPermission", add("b", one.clone(), json!(["DeleteQueue"])), 400, "SQS:DeleteQueue"),
        ("AddPermission", add("b", one.clone(), eight), 403, "8 Actions were found"),
        ("AddPermission", add("b", json!([]), receive.clone()), 400, "Value [] for"),
        ("AddPermission", add("b", json!(["me"]), receive.clone()), 400, "Value [me] for"),
        ("AddPermission", json!({"QueueUrl": queue}), 400, "Label"),
        ("AddPermission", add("a b", one.clone(), receive.clone()), 400, "hyphens"),
        ("AddPermission", add("b", one, receive), 200, ""),
        ("RemovePermission", labelled("c"), 400, "can't find label."),
        ("RemovePermission", labelled("a"), 200, ""),
    ] {
        let answer = action(&client, "/sqs", name, body.clone()).await;
        let says = String::from_utf8_lossy(&answer.body);
        assert!(answer.status == status && says.contains(words), "{name} {body}: {answer}");
    }
    let shown = async || {
        let all = json!({"QueueUrl": queue, "AttributeNames": ["Policy"]});
        action(&client, "/sqs", "GetQueueAttributes", all).await.expect(200).json()
    };
    let arn = format!("arn:aws:sqs:us-east-1:000000000000:{queue}");
    let policy: Value = serde_json::from_str(text(&shown().await["Attributes"], "Policy")).unwrap();
    let statement = json!({"Sid": "b", "Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
        "Action": "SQS:ReceiveMessage", "Resource": arn});
    let id = format!("{arn}/SQSDefaultPolicy");
    assert_eq!(policy, json!({"Version": "2008-10-17", "Id": id, "Statement": [statement]}));
    action(&client, "/sqs", "RemovePermission", labelled("b")).await.expect(200);
    assert_eq!(shown().await, json!({}));
}

#[tokio::test]
async fn flags_say_the_account_and_have_clients_wait_as_with_aws() {
    let args = ["--sqs-account", "123456789012", "--sqs-waits"];
    let dueq = Dueq::on(&shared().await.redis).args(args).start().await;
    let (client, queue) = (dueq.client(), topic("sqs-waits"));
    let (new, known) = (json!({"QueueName": queue}), json!({"QueueUrl": queue}));
    let arn = json!({"QueueUrl": queue, "AttributeNames": ["QueueArn"]});
    for (name, body, status, words) in [
        ("CreateQueue", &new, 200, format!("/sqs/123456789012/{queue}\"")),
        ("GetQueueAttributes", &arn, 200, format!(":123456789012:{queue}\"")),
        ("PurgeQueue", &known, 200, String::new()),
        ("PurgeQueue", &known, 403, format!("PurgeQueue operation on {queue} is allowed")),
        ("DeleteQueue", &known, 200, String::new()),
        ("CreateQueue", &new, 400, "QueueDeletedRecently".to_owned()),
    ] {
        let answer = action(&client, "/sqs", name, body.clone()).await;
        let says = String::from_utf8_lossy(&answer.body);
        assert!(answer.status == status && says.contains(&words), "{name}: {answer}");
    }
}
