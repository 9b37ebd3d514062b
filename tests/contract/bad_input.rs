//! The bad-input table of the guarantees, every row on every route that it concerns. Each refusal is
//! a problem that names the field, and changes nothing.

use serde_json::{Value, json};

use crate::facts::unprocessable;
use crate::harness::*;

/// A route that takes JSON, with the shortest body that it would accept.
struct Route {
    name: &'static str,
    path: String,
    good: Value,
}

/// The routes on a fresh topic with one leased message, and that message.
struct Ground {
    client: Client,
    topic: String,
    held: Value,
    routes: [Route; 5],
}

impl Ground {
    async fn new() -> Ground {
        let (client, topic) = (client().await, topic("bad"));
        client.published(&topic, json!({"payload": 1})).await;
        let held = client.lease_one(&topic).await;
        let id = text(&held, "id");
        let token = &held["lease_token"];
        let route = |name, path, good| Route { name, path, good };
        let of_message =
            |name: &'static str, good| route(name, format!("/messages/{id}/{name}"), good);
        let routes = [
            route("publish", format!("/topics/{topic}/messages"), json!({"payload": 1})),
            route("lease", format!("/topics/{topic}/lease"), json!({"max_messages": 1})),
            of_message("ack", json!({"lease_token": token})),
            of_message("nack", json!({"lease_token": token})),
            of_message("extend", json!({"lease_token": token, "lease_ms": 60_000})),
        ];
        Ground { client, topic, held, routes }
    }

    /// Posts this text to a route; what comes back is shown with it.
    async fn post(&self, route: &Route, body: &str) -> Answer {
        let mut answer = self.client.post_text(&route.path, body).await;
        answer.request.push_str(&format!(" with {}", &body[..body.len().min(200)]));
        answer
    }

    /// Nothing was published, granted, or done to the leased message.
    async fn unchanged(&self) {
        let seen = self.client.topic(&self.topic).await.expect(200).json();
        assert_eq!(seen["totals"]["published"], 1);
        assert_eq!(seen["totals"]["granted"], 1);
        let message = self.client.get(text(&self.held, "id")).await.expect(200).json();
        assert_eq!(message["lease_expires_at"], self.held["lease_expires_at"]);
        self.client.ack_leased(&self.held).await.expect(204);
    }
}

/// `good` with further members appended as text, so that it may break the rules of JSON.
fn with(good: &Value, more: &str) -> String {
    let text = good.to_string();
    format!("{},{more}}}", &text[..text.len() - 1])
}

/// `good` with this field's value replaced by (or added as) this text.
fn with_field(good: &Value, field: &str, value: &str) -> String {
    let mut rest = good.as_object().unwrap().clone();
    rest.remove(field);
    let rest = Value::Object(rest).to_string();
    let comma = if rest == "{}" { "" } else { "," };
    format!("{}{comma}\"{field}\":{value}}}", &rest[..rest.len() - 1])
}

#[tokio::test]
async fn what_is_not_json_is_400() {
    let ground = Ground::new().await;
    for route in &ground.routes {
        let good = route.good.to_string();
        let mut bodies: Vec<Vec<u8>> = [
            " ",
            "{",
            "}",
            "{\"",
            "nul",
            "{'a':1}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":01}",
            "{\"a\":+1}",
            "{\"a\":.5}",
            "{\"a\":1.}",
            "{\"a\":0x1}",
            "{\"a\":NaN}",
            "{\"a\":Infinity}",
            "{\"a\":\"\n\"}",
            "{\"a\":\"\\x\"}",
            "{\"a\":\"\\u12\"}",
            "{\"a\":\"open}",
            "{\"a\":[1}",
            "/**/{}",
            "{}//",
            "[",
            "\u{feff}{}",
        ]
        .map(|text| text.as_bytes().to_vec())
        .into();
        for trailing in ["x", "}", "{}", ",", "\0", "null"] {
            bodies.push(format!("{good}{trailing}").into_bytes());
        }
        bodies.push(good.as_bytes()[..good.len() - 1].to_vec());
        if route.name != "lease" {
            bodies.push(Vec::new());
        }
        for body in bodies {
            let sent = String::from_utf8_lossy(&body).into_owned();
            let answer =
                ground.client.post_bytes(&route.path, Some("application/json"), body).await;
            assert_eq!(answer.status, 400, "{} {sent:?}: {answer}", route.name);
            answer.refused(400);
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn what_is_not_utf8_is_400() {
    let ground = Ground::new().await;
    let broken: [&[u8]; 6] =
        [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\x80"];
    for route in &ground.routes {
        for bytes in broken {
            for (before, after) in [("\"x\":\"", "\""), ("\"", "\":1"), ("\"payload\":\"", "\"")] {
                let good = route.good.to_string();
                let mut body = good.as_bytes()[..good.len() - 1].to_vec();
                body.extend_from_slice(b",");
                body.extend_from_slice(before.as_bytes());
                body.extend_from_slice(bytes);
                body.extend_from_slice(after.as_bytes());
                body.extend_from_slice(b"}");
                let sent = body.escape_ascii().to_string();
                let answer =
                    ground.client.post_bytes(&route.path, Some("application/json"), body).await;
                assert_eq!(answer.status, 400, "{} {sent}: {answer}", route.name);
            }
        }
    }
    let mut payload = b"{\"payload\":\"".to_vec();
    payload.extend_from_slice(b"\xff\"}");
    let path = &ground.routes[0].path;
    ground.client.post_bytes(path, Some("application/json"), payload).await.refused(400);
    ground.unchanged().await;
}

#[tokio::test]
async fn nesting_deeper_than_64_is_400() {
    let ground = Ground::new().await;
    for route in &ground.routes {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            for levels in [64, 65, 200, 20_000] {
                let inner = if open == "[" { "" } else { "1" };
                let deep = format!("{}{inner}{}", open.repeat(levels), close.repeat(levels));
                let field = if route.name == "publish" { "payload" } else { "x" };
                let answer = ground.post(route, &with_field(&route.good, field, &deep)).await;
                assert_eq!(answer.status, 400, "{} {levels} levels: {answer}", route.name);
                answer.refused(400);
            }
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn json_that_is_no_object_is_422() {
    let ground = Ground::new().await;
    for route in &ground.routes {
        for body in ["[]", "[{}]", "\"x\"", "1", "-0.5", "true", "null", " null ", "[1,2]"] {
            ground.post(route, body).await.refused(422);
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn an_unknown_field_is_422_and_named() {
    let ground = Ground::new().await;
    for route in &ground.routes {
        for field in ["nope", "Payload", "delay", "lease-ms", "maxMessages", "payload ", "é"] {
            for value in ["1", "null", "{\"a\":[]}", "\"x\""] {
                let body = with(&route.good, &format!("\"{field}\":{value}"));
                unprocessable(ground.post(route, &body).await, field);
            }
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn a_duplicate_field_is_422_and_named() {
    let ground = Ground::new().await;
    for route in &ground.routes {
        for (field, value) in route.good.as_object().unwrap() {
            for name in [field.clone(), format!("\\u{:04x}{}", field.as_bytes()[0], &field[1..])] {
                let body = with(&route.good, &format!("\"{name}\":{value}"));
                unprocessable(ground.post(route, &body).await, field);
            }
        }
    }
    let publish = &ground.routes[0];
    for (more, field) in [
        ("\"delay_ms\":1,\"delay_ms\":1", "delay_ms"),
        ("\"delay_ms\":null,\"delay_ms\":1", "delay_ms"),
        ("\"priority\":1,\"priority\":2", "priority"),
        ("\"headers\":{},\"headers\":{}", "headers"),
    ] {
        unprocessable(ground.post(publish, &with(&publish.good, more)).await, field);
    }
    for headers in ["{\"a\":\"1\",\"a\":\"1\"}", "{\"a\":\"1\",\"\\u0061\":\"2\"}"] {
        ground.post(publish, &with_field(&publish.good, "headers", headers)).await.refused(422);
    }
    let ack = "{\"acks\":[{\"id\":\"x\",\"id\":\"y\",\"lease_token\":\"z\"}]}";
    ground.post(&ground.routes[1], ack).await.refused(422);
    ground.unchanged().await;
}

/// Wrong values of a whole number in a range.
fn wrong_numbers(least: i64, most: i64) -> Vec<String> {
    let mut wrong: Vec<String> = [
        "\"5\"",
        "1.5",
        "1e999",
        "-1e999",
        "-1",
        "true",
        "[]",
        "{}",
        "\"\"",
        "[5]",
        "1e-1",
        "9223372036854775808",
        "18446744073709551616",
        "-9223372036854775809",
        "1e30",
    ]
    .map(String::from)
    .into();
    wrong.push((least - 1).to_string());
    wrong.push((most + 1).to_string());
    wrong
}

#[tokio::test]
async fn a_number_of_the_wrong_type_or_range_is_422_and_named() {
    let ground = Ground::new().await;
    let delay = 315_360_000_000;
    for (name, field, least, most) in [
        ("publish", "delay_ms", 0, delay),
        ("publish", "priority", 0, 255),
        ("publish", "max_attempts", 1, 1000),
        ("lease", "max_messages", 1, 1000),
        ("lease", "max_bytes", 1, 16_777_216),
        ("lease", "lease_ms", 1000, 43_200_000),
        ("lease", "wait_ms", 0, 60_000),
        ("nack", "delay_ms", 0, delay),
        ("extend", "lease_ms", 1000, 43_200_000),
    ] {
        let route = ground.routes.iter().find(|route| route.name == name).unwrap();
        for value in wrong_numbers(least, most) {
            let body = with_field(&route.good, field, &value);
            unprocessable(ground.post(route, &body).await, field);
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn a_value_of_the_wrong_type_or_form_is_422_and_named() {
    let ground = Ground::new().await;
    let text: &[&str] = &["1", "true", "[]", "{}", "1.5"];
    let tables: &[(&str, &str, &[&str])] = &[
        ("publish", "deliver_at", text),
        ("publish", "content_type", text),
        ("publish", "headers", &["1", "\"x\"", "[]", "true", "{\"a\":1}", "{\"a\":[\"b\"]}"]),
        ("publish", "headers", &["{\"a\":{}}", "{\"a\":true}", "{\"\":\"x\"}", "{\"a b\":\"x\"}"]),
        ("publish", "headers", &["{\"a:\":\"x\"}", "{\"é\":\"x\"}", "{\"a\":\"x\\ny\"}"]),
        (
            "publish",
            "headers",
            &["{\"a\":\"x\\r\\nb: c\"}", "{\"a\":\"\\u0000\"}", "{\"a\\n\":\"\"}"],
        ),
        ("publish", "deliver_at", &["\"tomorrow\"", "\"\"", "\"2026-01-01\"", "\"1763662500\""]),
        ("publish", "deliver_at", &["\"2026-01-01T00:00:00\"", "\"2026-13-01T00:00:00Z\""]),
        ("publish", "deliver_at", &["\"10000-01-01T00:00:00Z\"", "\"2026-01-01T24:00:01Z\""]),
        ("publish", "deliver_at", &["\"+12026-01-01T00:00:00Z\"", "\"2026-02-30T00:00:00Z\""]),
        ("lease", "acks", &["1", "\"x\"", "{}", "true"]),
        ("ack", "lease_token", text),
        ("nack", "lease_token", text),
        ("extend", "lease_token", text),
    ];
    for (name, field, values) in tables {
        let route = ground.routes.iter().find(|route| route.name == *name).unwrap();
        for value in *values {
            let body = with_field(&route.good, field, value);
            let answer = ground.post(route, &body).await.refused(422);
            let named = answer.json()["errors"].to_string();
            assert!(named.contains(&format!("\"field\":\"{field}")), "{answer}");
        }
    }
    for missing in ["lease_token", "lease_ms"] {
        let extend = &ground.routes[4];
        let mut body = extend.good.clone();
        body.as_object_mut().unwrap().remove(missing);
        unprocessable(ground.post(extend, &body.to_string()).await, missing);
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn a_message_has_exactly_one_payload() {
    let ground = Ground::new().await;
    let publish = &ground.routes[0];
    for body in [
        "{}",
        "{\"delay_ms\":1}",
        "{\"payload_base64\":null}",
        "{\"payload\":1,\"payload_base64\":\"AA==\"}",
        "{\"payload\":null,\"payload_base64\":\"AA==\"}",
    ] {
        let answer = ground.post(publish, body).await.refused(422);
        let named = answer.json()["errors"].to_string();
        assert!(named.contains("\"field\":\"payload"), "{answer}");
    }
    unprocessable(
        ground.post(publish, "{\"payload\":1,\"content_type\":\"text/plain\"}").await,
        "content_type",
    );
    for bad in
        ["\"%%%%\"", "\"A\"", "\"AA=A\"", "\"AA==AA==\"", "\"A A=\"", "\"AA==\\n\"", "\"é\"", "7"]
    {
        let body = format!("{{\"payload_base64\":{bad}}}");
        unprocessable(ground.post(publish, &body).await, "payload_base64");
    }
    for bad in ["\"\"", "\"text\"", "\"a/b\\r\\nx: y\"", "\"a/b\\u0000\"", "\"é/b\""] {
        let body = format!("{{\"payload_base64\":\"AA==\",\"content_type\":{bad}}}");
        unprocessable(ground.post(publish, &body).await, "content_type");
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn delay_ms_and_deliver_at_exclude_each_other() {
    let ground = Ground::new().await;
    let publish = &ground.routes[0];
    let more = "\"delay_ms\":0,\"deliver_at\":\"2100-01-01T00:00:00Z\"";
    let answer = ground.post(publish, &with(&publish.good, more)).await.refused(422);
    let fields = answer.json()["errors"].to_string();
    assert!(fields.contains("delay_ms") || fields.contains("deliver_at"), "{answer}");
    ground.unchanged().await;
}

#[tokio::test]
async fn an_ack_inside_a_lease_request_is_as_strict() {
    let ground = Ground::new().await;
    let (id, token) = (&ground.held["id"], &ground.held["lease_token"]);
    let good = json!({"id": id, "lease_token": token});
    let with_id = |value: Value| json!({"id": value, "lease_token": token});
    for (ack, field) in [
        (json!(1), "acks[1]"),
        (json!(null), "acks[1]"),
        (json!([]), "acks[1]"),
        (json!("x"), "acks[1]"),
        (json!({"id": id}), "acks[1].lease_token"),
        (json!({"lease_token": token}), "acks[1].id"),
        (with_id(json!("no-uuid")), "acks[1].id"),
        (with_id(json!("")), "acks[1].id"),
        (with_id(json!(7)), "acks[1].id"),
        (with_id(json!(null)), "acks[1].id"),
        (json!({"id": id, "lease_token": 7}), "acks[1].lease_token"),
        (json!({"id": id, "lease_token": token, "x": 1}), "acks[1].x"),
    ] {
        let body = json!({"acks": [good, ack]});
        let answer = ground.post(&ground.routes[1], &body.to_string()).await;
        unprocessable(answer, field); // and the good one beside it was not done: see `unchanged`
    }
    let many = json!({"acks": vec![with_id(json!(unknown_id())); 1001]});
    unprocessable(ground.post(&ground.routes[1], &many.to_string()).await, "acks");
    ground.unchanged().await;
}

#[tokio::test]
async fn another_content_type_or_none_is_415() {
    let ground = Ground::new().await;
    for route in &ground.routes {
        for kind in [
            None,
            Some("text/plain"),
            Some("application/x-www-form-urlencoded"),
            Some("text/json"),
            Some("application/jsonp"),
            Some("application/json-seq"),
            Some("application/json; charset=latin1"),
            Some("application/json, text/plain"),
            Some("json"),
            Some(""),
            Some("image/svg+xml"),
            Some("text/x+json"),
        ] {
            let body = route.good.to_string().into_bytes();
            let answer = ground.client.post_bytes(&route.path, kind, body).await;
            assert_eq!(answer.status, 415, "{} as {kind:?}: {answer}", route.name);
            answer.refused(415);
        }
    }
    ground.unchanged().await;
}

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
                "{method} /topics/{name}{tail} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\
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
        let head = format!("GET /topics/{name} HTTP/1.1\r\nhost: x");
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

#[tokio::test]
async fn several_mistakes_are_told_at_once_or_one_by_one_but_each_with_its_field() {
    let ground = Ground::new().await;
    let body = "{\"payload\":1,\"delay_ms\":-1,\"priority\":256,\"max_attempts\":0}";
    let answer = ground.post(&ground.routes[0], body).await.refused(422);
    let errors = answer.json()["errors"].as_array().cloned().unwrap_or_default();
    let known = ["delay_ms", "priority", "max_attempts"];
    assert!(!errors.is_empty(), "{answer}");
    assert!(errors.iter().all(|error| known.contains(&text(error, "field"))), "{answer}");
    ground.unchanged().await;
}
