//! Names, ids and queries that cannot be, and which mistake is told first.

use serde_json::json;

use super::Ground;
use crate::facts::unprocessable;
use crate::harness::*;

#[tokio::test]
async fn a_topic_that_is_no_name_is_400() {
    let client = client().await;
    let long = "x".repeat(129);
    let names = [
        "..",
        ".",
        "%2e%2e",
        "%2E%2e",
        ".%2e",
        "a..b",
        "a%2e.b",
        "%00",
        "a%00",
        "%0d%0a",
        "a%0d%0ab",
        "a%0a",
        "%7Ba%7D",
        "a%7Db",
        "*",
        "%2a",
        "a%20b",
        "%20",
        "a+b",
        "-a",
        ".a",
        "%2fa",
        "a%2Fb",
        "a%5cb",
        "a:b",
        "a~b",
        "a@b",
        "a$b",
        "a,b",
        "%D0%B0",
        "%C3%A9",
        "%F0%9F%98%80",
        "%ef%bc%a1",
        "%ff",
        "%c3",
        "%",
        "%2",
        "%zz",
        "a%",
        &long,
    ];
    let body = "{\"payload\":1}";
    for name in names {
        for (method, tail) in
            [("POST", "/messages"), ("POST", "/messages/raw"), ("POST", "/lease"), ("GET", "")]
        {
            let mut wire = Wire::connect(&client.addr()).await;
            let head = format!(
                "{method} /topics/{name}{tail} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\
                 \r\ncontent-length: {}",
                body.len()
            );
            assert!(wire.request(&head, body.as_bytes()).await);
            let request = format!("{method} /topics/{name}{tail}");
            let answer = wire.answer(&request, std::time::Duration::from_secs(5)).await;
            answer.unwrap_or_else(|| panic!("{request}: closed")).check().refused(400);
        }
    }
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
async fn an_id_that_is_no_uuid_is_400() {
    let client = client().await;
    let body = json!({"lease_token": "x", "lease_ms": 1000});
    let unknown = unknown_id();
    for id in [
        "x",
        "1",
        "..%2f..",
        "%00",
        "%20",
        "*",
        "not-a-uuid",
        &unknown[..35],
        &format!("{unknown}0"),
        &unknown.replace('-', ""),
        &format!("%7B{unknown}%7D"),
        &unknown.replace('-', "_"),
        "gggggggg-gggg-8ggg-8ggg-gggggggggggg",
        "%ff",
        "%D0%B0",
    ] {
        let path = format!("/messages/{id}");
        client.get_path(&path).await.refused(400);
        client.send("DELETE", &path, &[], None).await.refused(400);
        for verb in ["ack", "nack", "extend"] {
            client.post(&format!("{path}/{verb}"), &body).await.refused(400);
        }
    }
}

#[tokio::test]
async fn an_unknown_or_repeated_query_parameter_is_422_and_named() {
    let ground = Ground::new().await;
    let (client, id) = (&ground.client, text(&ground.held, "id"));
    for route in &ground.routes {
        let path = format!("{}?nope=1", route.path);
        unprocessable(client.post(&path, &route.good).await, "nope");
    }
    for (method, path) in [
        ("GET", format!("/messages/{id}")),
        ("DELETE", format!("/messages/{id}")),
        ("GET", format!("/topics/{}", ground.topic)),
        ("GET", "/topics".to_owned()),
        ("GET", "/openapi.json".to_owned()),
        ("GET", "/openapi-3.0.json".to_owned()),
    ] {
        for (query, field) in [("nope=1", "nope"), ("a%20b=", "a b"), ("nope", "nope")] {
            let answer = client.send(method, &format!("{path}?{query}"), &[], None).await;
            unprocessable(answer, field);
        }
    }
    let twice = client.get_path("/topics?prefix=a&prefix=a").await;
    unprocessable(twice, "prefix");
    ground.unchanged().await;
}

#[tokio::test]
async fn errors_come_in_the_order_path_media_type_body_existence() {
    let client = client().await;
    let id = unknown_id();
    let plain = Some("text/plain");
    let bad_path = "/messages/no-uuid/ack";
    client.post_bytes(bad_path, plain, b"{".to_vec()).await.refused(400);
    client.post_bytes("/topics/a..b/messages", plain, b"[]".to_vec()).await.refused(400);
    client.post_bytes("/topics/_own/messages", plain, b"[]".to_vec()).await.refused(403);
    for verb in ["ack", "nack", "extend"] {
        let path = format!("/messages/{id}/{verb}");
        client.post_bytes(&path, plain, b"{".to_vec()).await.refused(415);
        client.post_text(&path, "{").await.refused(400);
        client.post_text(&path, "{\"x\":1}").await.refused(422);
        let good = json!({"lease_token": "x"});
        let good =
            if verb == "extend" { json!({"lease_token": "x", "lease_ms": 1000}) } else { good };
        client.post(&path, &good).await.problem(404, "message_not_found");
    }
}
