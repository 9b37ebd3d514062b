//! Names, ids and methods that cannot be, and which mistake is told first.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::Ground;
use crate::harness::*;

/// Parts of a path that are no names of topics.
const NO_TOPICS: &str = "a..b a%2e.b %00 a%00 %0d%0a a%0d%0ab a%0a %7Ba%7D a%7Db * %2a a%20b %20 a+b -a .a %2fa a%2Fb a%5cb a:b a~b \
    a@b a$b a,b %D0%B0 %C3%A9 %F0%9F%98%80 %ef%bc%a1 %ff %c3 % %2 %zz a%";
/// Those that clients take for a part of the way, which only some routes are left with.
const DOTS: &str = ".. . %2e%2e %2E%2e .%2e";

/// Demands 400 for this request line, which a well-behaved client would not send.
async fn is_400(client: &Client, line: &str) {
    let mut wire = Wire::connect(&client.addr()).await;
    let body = "{\"nope\":1}";
    let head = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: {}",
        body.len()
    );
    assert!(wire.request(&head, body.as_bytes()).await);
    let answer = wire.answer(line, Duration::from_secs(5)).await;
    answer.unwrap_or_else(|| panic!("{line}: closed")).check().refused(400);
}

#[tokio::test]
async fn a_topic_that_is_no_name_is_400_on_every_route() {
    let ground = Ground::new().await;
    let long = "x".repeat(129);
    for place in ground.places().iter().filter(|place| place.path.contains(&ground.topic)) {
        let names = NO_TOPICS.split_whitespace().chain([long.as_str()]);
        let dots = DOTS.split(' ').filter(|_| place.id.starts_with("publish"));
        for name in names.chain(dots) {
            let path = place.path.replace(&ground.topic, name);
            is_400(&ground.client, &format!("{} {path}", place.method)).await;
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn an_id_that_is_no_uuid_is_400_on_every_route() {
    let ground = Ground::new().await;
    let unknown = unknown_id();
    for place in ground.places() {
        let Some(id) = [text(&ground.held, "id"), &ground.delayed]
            .into_iter()
            .find(|id| place.path.contains(*id))
        else {
            continue;
        };
        let bad =
            "x 1 ..%2f.. %00 %20 * not-a-uuid gggggggg-gggg-8ggg-8ggg-gggggggggggg %ff %D0%B0";
        let like = [
            unknown[..35].to_owned(),
            format!("{unknown}0"),
            unknown.replace('-', ""),
            format!("%7B{unknown}%7D"),
            unknown.replace('-', "_"),
        ];
        for bad in bad.split(' ').chain(like.iter().map(String::as_str)) {
            is_400(&ground.client, &format!("{} {}", place.method, place.path.replace(id, bad)))
                .await;
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn a_path_that_no_uri_may_have_is_400() {
    let client = client().await;
    for name in
        ["a b", "{a}", "a\u{0}", "é", "а", "a\tb", "\"a\"", "<a>", "a\\b", "a|b", "a^b", "`a`"]
    {
        let mut wire = Wire::connect(&client.addr()).await;
        let head = format!("GET /topics/{name} HTTP/1.1\r\nhost: localhost");
        assert!(wire.request(&head, b"").await);
        let answer = wire.answer(name, std::time::Duration::from_secs(5)).await.expect("an answer");
        // What the HTTP library cannot parse at all it answers itself, without a body.
        assert_eq!(answer.status, 400, "{name:?}: {answer}");
        if !answer.body.is_empty() {
            answer.check().refused(400);
        }
    }
}

#[tokio::test]
async fn a_method_that_a_route_does_not_know_is_405_with_those_it_does() {
    let ground = Ground::new().await;
    let mut routes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for place in ground.places().into_iter().filter(|it| !it.path.contains("topics/bad-absent")) {
        let path = place.path.replace(&ground.delayed, text(&ground.held, "id"));
        routes.entry(path).or_default().push(place.method);
    }
    assert!(routes.len() > 40, "{routes:?}");
    for (path, known) in routes {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "OPTIONS", "BREW"] {
            if known.iter().any(|it| it == method) {
                continue;
            }
            let answer = ground.client.send(method, &path, &[], None).await.refused(405);
            let allowed: Vec<_> = answer.header("allow").split(',').map(str::trim).collect();
            assert!(known.iter().all(|it| allowed.contains(&it.as_str())), "{answer}");
            assert!(!allowed.contains(&method), "{answer}");
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn errors_come_in_the_order_path_media_type_body_existence() {
    let client = client().await;
    let plain = Some("text/plain");
    client.post_bytes("/topics/_own/messages", plain, b"[]".to_vec()).await.refused(403);
    let of = |verb: &str| format!("/messages/{}{verb}", unknown_id());
    for (method, path, good) in [
        ("POST", of("/ack"), json!({"lease_token": "x"})),
        ("POST", of("/nack"), json!({"lease_token": "x"})),
        ("POST", of("/extend"), json!({"lease_token": "x", "lease_ms": 1000})),
        ("PATCH", of(""), json!({"priority": 1})),
        ("PATCH", by_key("no-such-topic", "k"), json!({"priority": 1})),
        ("POST", of("/redrive"), json!({})),
        ("POST", "/topics/no-such-topic/redrive".to_owned(), json!({})),
        ("POST", "/topics/no-such-topic/pause".to_owned(), json!({})),
        ("POST", "/schedules/no-such-schedule/trigger".to_owned(), json!({})),
    ] {
        let good = good.to_string();
        for (kind, body, status) in [
            ("text/plain", "{", 415),
            ("application/json", "{", 400),
            ("application/json", "[]", 422),
            ("application/json", "{\"nope\":1}", 422),
            ("application/json", &good, 404),
        ] {
            let headers = [("content-type", kind)];
            let answer = client.send(method, &path, &headers, Some(body.as_bytes().to_vec())).await;
            assert_eq!(answer.status, status, "{body} as {kind}: {answer}");
        }
    }
}
