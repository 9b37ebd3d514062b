//! A plain request of a hot operation is answered without hyper and the router. Any header that the short way does not know
//! sends the same request the long way: both are answered alike, byte for byte.

use std::time::Duration;

use serde_json::json;

use crate::harness::*;

const SOON: Duration = Duration::from_secs(10);
/// No header of dueq's.
const LONG: &str = "x-long-way: 1\r\n";

/// What came over the wire, without what differs from answer to answer.
fn masked(text: &str) -> String {
    let is_own = |line: &&str| !line.starts_with("date: ") && !line.starts_with("x-request-id: ");
    let lines: String = text.split_inclusive('\n').filter(is_own).collect();
    let mut parts = lines.split("\"lease_token\":\"");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| &part[part.find('"').unwrap()..]);
    let plain = rest.fold(first, |all, part| all + "\"lease_token\":\"" + part);
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
