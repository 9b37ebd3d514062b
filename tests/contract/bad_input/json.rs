//! Bodies that are no JSON, no object, or of another media type; fields that nobody knows or that come
//! twice.

use serde_json::json;

use super::{Ground, with, with_field};
use crate::facts::unprocessable;
use crate::harness::*;

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
            if route.name != "lease" || !body.contains("null") {
                unprocessable(ground.post(route, body).await, "(body)");
            }
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn null_is_no_body_where_the_body_may_be_left_out() {
    let (client, topic) = (client().await, topic("null"));
    for tail in ["lease", "pause", "resume", "redrive"] {
        let path = format!("/topics/{topic}/{tail}");
        for body in ["null", " null\r\n\t", "{}", ""] {
            client.published(&topic, json!({"payload": 1})).await;
            client.post_text(&path, body).await.expect(200);
        }
        for body in ["nul", "nullx", "null,", "null null", "NULL", "\u{c}null", "\u{feff}null"] {
            client.post_text(&path, body).await.refused(400);
        }
        for body in ["[]", "[null]", "\"null\"", "false", "0"] {
            unprocessable(client.post_text(&path, body).await, "(body)");
        }
        client.post_bytes(&path, Some("text/plain"), b"null".to_vec()).await.refused(415);
    }
    assert_eq!(client.total(&topic, "granted").await, 4, "a lease of one each");
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
