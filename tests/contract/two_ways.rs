//! A plain request of a hot operation, or of SQS's, is answered without hyper and the router. Any header that the short way does
//! not know sends the same request the long way: both are answered alike, byte for byte.

use std::time::Duration;

use serde_json::json;

use crate::access::scopes::KeyFile;
use crate::harness::*;
use crate::sqs_paths::action;

const SOON: Duration = Duration::from_secs(10);
/// No header of dueq's.
const LONG: &str = "x-long-way: 1\r\n";

/// What came over the wire, without what differs from answer to answer.
fn masked(text: &str) -> String {
    let own = ["date: ", "x-request-id: ", "x-amzn-requestid: "];
    let is_own = |line: &&str| own.iter().any(|name| line.starts_with(name));
    let lines: String = text.split_inclusive('\n').filter(|line| !is_own(line)).collect();
    let plain = ["\"lease_token\":\"", "\"ReceiptHandle\":\""].iter().fold(lines, |lines, name| {
        let mut parts = lines.split(name);
        let first = parts.next().unwrap_or_default().to_owned();
        let rest = parts.map(|part| &part[part.find('"').unwrap()..]);
        rest.fold(first, |all, part| all + name + part)
    });
    let (mut masked, mut last) = (String::new(), ' ');
    for letter in plain.chars() {
        // Ids, instants and numbers differ in their digits only.
        let shown = if letter.is_ascii_hexdigit() { 'x' } else { letter };
        if !(shown == 'x' && last == 'x') {
            masked.push(shown);
        }
        last = shown;
    }
    masked
}

/// All that the server answers to these bytes until it closes, for which the last request asks.
async fn answers(addr: &str, parts: &[String]) -> String {
    let mut wire = Wire::connect(addr).await;
    for part in parts {
        assert!(wire.write(part.as_bytes()).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    String::from_utf8(wire.rest(SOON).await).unwrap()
}

/// A request with this body; `more` are headers.
fn request(path: &str, more: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{more}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn both_ways_answer_alike() {
    let client = client().await;
    let topic = topic("two-ways");
    let messages = format!("/topics/{topic}/messages");
    let held = crate::harness::topic("two-ways");
    let lease = format!("/topics/{held}/lease");
    let same = vec![json!({"payload": 1}); 60];
    client
        .post(&format!("/topics/{held}/messages/batch"), &json!({"messages": same}))
        .await
        .expect(200);
    let id = unknown_id();
    let path = |verb: &str| format!("/messages/{id}/{verb}");
    let token = json!({"lease_token": "AAAAAZr2nVoBmi3FQ1YAAM0xJ8yfHqJv"}).to_string();
    let items = json!({"messages": [{"id": id, "lease_token": "x"}]}).to_string();
    let many = json!({"messages": [{"payload": 1}, {"payload": 2, "key": "k"}]}).to_string();
    let mut cases: Vec<(String, &str, String)> = Vec::new();
    let bodies =
        ["", "{", "{}", "null", "[]", r#"{"payload":1,"payload":2}"#, r#"{"unknown":1}"#, "\u{0}"];
    for body in bodies {
        for path in [
            &*messages,
            &lease,
            "/lease",
            "/callbacks",
            &path("ack"),
            "/messages/ack",
            "/topics/a..b/lease",
        ] {
            cases.push((path.to_owned(), "", body.to_owned()));
        }
    }
    for (at, body) in [
        (messages.clone(), json!({"payload": "a", "priority": 3}).to_string()),
        (messages.clone(), json!({"payload": "a".repeat(9_000)}).to_string()),
        (messages.clone(), json!({"payload": "a".repeat(40_000)}).to_string()),
        (format!("{messages}/raw?priority=7"), "text".to_owned()),
        (format!("{messages}/raw?priority=300"), "text".to_owned()),
        (format!("{messages}/batch"), many),
        (format!("{messages}?x=1"), "{}".to_owned()),
        (lease.clone(), json!({"max_messages": 1}).to_string()),
        (lease.clone(), json!({"max_messages": 1, "wait_ms": 1}).to_string()),
        ("/lease".to_owned(), json!({"topics": [held]}).to_string()),
        (path("ack"), token.clone()),
        (path("nack"), token.clone()),
        (path("extend"), json!({"lease_token": "x", "lease_ms": 1000}).to_string()),
        ("/messages/ack".to_owned(), items.clone()),
        ("/messages/nack".to_owned(), items),
        ("/topics/a%ffb/lease".to_owned(), "{}".to_owned()),
        ("/topics//lease".to_owned(), "{}".to_owned()),
        (format!("{lease}/"), "{}".to_owned()),
        ("/callbacks".to_owned(), json!({"url": "http://10.0.0.1/", "payload": 1}).to_string()),
        (messages.clone(), json!({"payload": 1}).to_string()),
    ] {
        cases.push((at.clone(), "idempotency-key: a\r\naccept: */*\r\n", body.clone()));
        cases.push((at, "", body));
    }
    for (path, headers, body) in cases {
        // All but the first on the same connection, which the last closes.
        let ask = |way: &str| {
            let last = request("/topics/none/lease", "connection: close\r\n", "{}");
            vec![request(&path, &format!("{headers}{way}"), &body) + &last]
        };
        // Both, twice: an idempotent repeat is answered otherwise than what it repeats.
        let short = answers(&client.addr(), &ask("")).await;
        let long = answers(&client.addr(), &ask(LONG)).await;
        let again = answers(&client.addr(), &ask("")).await;
        let (short, long, again) = (masked(&short), masked(&long), masked(&again));
        assert!(long == short || long == again, "{path} {body}\n{short}\n{long}\n{again}");
        assert_eq!(short.matches("HTTP/x.x").count(), 2, "{path} {body}: {short}");
    }
}

/// The router has no route that ends in a slash, and finds out itself that a request there is one of SQS's.
#[tokio::test]
async fn requests_of_sqs_are_answered_alike_with_and_without_the_router() {
    let client = client().await;
    let queue = topic("two-ways");
    action(&client, "/sqs", "CreateQueue", json!({"QueueName": queue})).await.expect(200);
    let send = |id: &str| json!({"Id": id, "MessageBody": "x", "DelaySeconds": 0});
    let ten = json!({"Entries": (0..10).map(|n| send(&n.to_string())).collect::<Vec<_>>()});
    for _ in 0..4 {
        action(&client, &format!("/sqs/{queue}"), "SendMessageBatch", ten.clone())
            .await
            .expect(200);
    }
    let unknown = format!("{}.x", unknown_id());
    let large = json!({"MessageBody": "a".repeat(20_000)});
    let of_user = json!({"a": {"DataType": "Number", "StringValue": "7"}});
    let all = json!({"AttributeNames": ["All"], "MaxNumberOfMessages": 1});
    let several = json!({"Entries": [{"Id": "a", "ReceiptHandle": unknown}, {"Id": "b"}]});
    let cases = [
        ("SendMessage", json!({"MessageBody": "x", "MessageAttributes": of_user})),
        ("SendMessage", large),
        ("SendMessage", json!({"MessageBody": "x", "QueueUrl": "none"})),
        ("SendMessageBatch", json!({"Entries": [send("a"), {"Id": "b"}]})),
        ("SendMessageBatch", json!({"Entries": [send("a"), send("a")]})),
        ("ReceiveMessage", all),
        ("ReceiveMessage", json!({"QueueUrl": "none", "WaitTimeSeconds": 1})),
        ("ReceiveMessage", json!({"MaxNumberOfMessages": 11})),
        ("DeleteMessage", json!({"ReceiptHandle": unknown})),
        ("DeleteMessageBatch", several.clone()),
        ("ChangeMessageVisibilityBatch", several),
        ("GetQueueUrl", json!({"QueueName": queue})),
        ("CreateQueue", json!({"QueueName": queue})),
        ("Nonsense", json!({})),
    ];
    let broken = ["", "{", "null", "[]", "{}", "{\"MessageBody\":1}"]
        .map(|body| ("SendMessage", body.to_owned()));
    let keys = KeyFile::of(&[("sender", &format!("publish:{queue}"))]);
    let (open, guarded) = (client.addr(), keys.start().await);
    let cases = cases.map(|(name, body)| (name, body.to_string())).into_iter().chain(broken);
    let mut all: Vec<_> =
        cases.map(|(name, body)| (name, body, open.as_str(), "", "x-amz-json-1.0")).collect();
    for (name, key) in
        [("SendMessage", "sender"), ("ReceiveMessage", "sender"), ("SendMessage", "wrong")]
    {
        let key = if key == "wrong" { key } else { keys.key(key) };
        let body = json!({"MessageBody": "x"}).to_string();
        all.push((name, body.clone(), guarded.addr(), key, "x-amz-json-1.0"));
        all.push((name, body, guarded.addr(), key, "json"));
    }
    for (name, body, addr, key, kind) in all {
        let ask = |path: &str, way: &str| {
            let headers = format!(
                "{way}x-amz-target: AmazonSQS.{name}\r\nx-amz-date: 20261126T000000Z\r\nauthorization: AWS4-HMAC-SHA256 \
                    Credential={key}/20261126/eu-west-1/sqs/aws4_request, SignedHeaders=host, Signature=0\r\n"
            );
            let asked = request(path, &headers, &body).replace("/json", &format!("/{kind}"));
            vec![asked + &request("/topics/none/lease", "connection: close\r\n", "{}")]
        };
        let path = format!("/sqs/000000000000/{queue}");
        let (short, routed) = (ask(&path, ""), ask(&format!("{path}/"), LONG));
        let (short, routed) = tokio::join!(answers(addr, &short), answers(addr, &routed));
        let (short, routed) = (masked(&short), masked(&routed));
        assert_eq!(short, routed, "{name} {body}");
        assert_eq!(short.matches("HTTP/x.x").count(), 2, "{name} {body}: {short}");
    }
}

#[tokio::test]
async fn a_request_in_pieces_and_several_at_once_are_answered_in_order() {
    let client = client().await;
    let topic = topic("two-ways");
    let path = format!("/topics/{topic}/messages");
    let body = |n: usize| json!({"payload": n}).to_string();
    let close = request(&path, "connection: close\r\n", &body(9));
    for way in ["", LONG] {
        let one = request(&path, way, &body(1));
        let (head, rest) = one.split_at(one.len() - 5);
        let (begin, middle) = head.split_at(30);
        let two = request(&path, way, &body(2));
        for parts in [
            vec![one.clone() + &two + &close],
            vec![one.clone() + &two[..40], two[40..].to_owned() + &close],
            vec![head.to_owned(), rest.to_owned() + &two + &close],
            vec![begin.to_owned(), middle.to_owned(), rest.to_owned(), two.clone(), close.clone()],
        ] {
            let before = ready(&client, &topic).await;
            let all = answers(&client.addr(), &parts).await;
            assert_eq!(all.matches("HTTP/1.1 201 Created\r\n").count(), 3, "{way}{parts:?}: {all}");
            assert_eq!(ready(&client, &topic).await, before + 3, "{way}{parts:?}");
        }
    }
}

async fn ready(client: &Client, topic: &str) -> i64 {
    let found = client.topic(topic).await;
    if found.status == 404 { 0 } else { found.json()["counts"]["ready"].as_i64().unwrap() }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up_and_a_client_that_leaves_takes_no_message() {
    let client = client().await;
    let topic = topic("two-ways");
    let path = format!("/topics/{topic}/messages");
    // The rest comes after the short way has lost patience.
    let one = request(&path, "", &json!({"payload": 1}).to_string());
    let (head, rest) = one.split_at(one.len() - 3);
    let mut wire = Wire::connect(&client.addr()).await;
    wire.write(head.as_bytes()).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    wire.write(rest.as_bytes()).await;
    assert_eq!(wire.answer("late", SOON).await.unwrap().status, 201);
    client.leased(&topic, json!({})).await;
    // A long poll whose client has gone is granted nothing.
    drop(Wire::long_poll(&client.addr(), &topic).await);
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.published(&topic, json!({"payload": 2})).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(ready(&client, &topic).await, 1);
}
