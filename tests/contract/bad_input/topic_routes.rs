//! The routes of a topic with queries and bodies that they cannot have, and methods that they do not
//! know.

use serde_json::json;

use crate::facts::unprocessable;
use crate::harness::*;
use crate::topic_facts::topic_has;

/// A query of a route of a topic, and the field that `errors` names.
const QUERIES: &[(&str, &str, &str)] = &[
    ("GET", "/messages", "state"),
    ("GET", "/messages?limit=1", "state"),
    ("GET", "/messages?state", "state"),
    ("GET", "/messages?state=", "state"),
    ("GET", "/messages?state=Ready", "state"),
    ("GET", "/messages?state=expired", "state"),
    ("GET", "/messages?state=ready,dead", "state"),
    ("GET", "/messages?state=ready%20", "state"),
    ("GET", "/messages?state=ready&state=ready", "state"),
    ("GET", "/messages?state=ready&state=dead", "state"),
    ("GET", "/messages?state=ready&limit=0", "limit"),
    ("GET", "/messages?state=ready&limit=1001", "limit"),
    ("GET", "/messages?state=ready&limit=-1", "limit"),
    ("GET", "/messages?state=ready&limit=1.0", "limit"),
    ("GET", "/messages?state=ready&limit=ten", "limit"),
    ("GET", "/messages?state=ready&limit=", "limit"),
    ("GET", "/messages?state=ready&limit=1&limit=1", "limit"),
    ("GET", "/messages?state=ready&payload=1", "payload"),
    ("GET", "/messages?state=ready&payload=yes", "payload"),
    ("GET", "/messages?state=ready&payload=True", "payload"),
    ("GET", "/messages?state=ready&payload=", "payload"),
    ("GET", "/messages?state=ready&payload=true&payload=true", "payload"),
    ("GET", "/messages?state=ready&cursor=not-from-here", "cursor"),
    ("GET", "/messages?state=ready&cursor=%ff%00", "cursor"),
    ("GET", "/messages?state=ready&cursor=0", "cursor"),
    ("GET", "/messages?state=ready&cursor=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "cursor"),
    ("GET", "/messages?state=ready&cursor=e30", "cursor"),
    ("GET", "/messages?state=ready&nope=1", "nope"),
    ("GET", "/messages?state=ready&states=dead", "states"),
    ("GET", "/forecast", "bucket_ms"),
    ("GET", "/forecast", "buckets"),
    ("GET", "/forecast?bucket_ms=1000", "buckets"),
    ("GET", "/forecast?buckets=10", "bucket_ms"),
    ("GET", "/forecast?bucket_ms=0&buckets=10", "bucket_ms"),
    ("GET", "/forecast?bucket_ms=-1&buckets=10", "bucket_ms"),
    ("GET", "/forecast?bucket_ms=1.5&buckets=10", "bucket_ms"),
    ("GET", "/forecast?bucket_ms=1s&buckets=10", "bucket_ms"),
    ("GET", "/forecast?bucket_ms=&buckets=10", "bucket_ms"),
    ("GET", "/forecast?bucket_ms=9223372036854775808&buckets=10", "bucket_ms"),
    ("GET", "/forecast?bucket_ms=1&bucket_ms=1&buckets=10", "bucket_ms"),
    ("GET", "/forecast?bucket_ms=1&buckets=0", "buckets"),
    ("GET", "/forecast?bucket_ms=1&buckets=1001", "buckets"),
    ("GET", "/forecast?bucket_ms=1&buckets=-5", "buckets"),
    ("GET", "/forecast?bucket_ms=1&buckets=ten", "buckets"),
    ("GET", "/forecast?bucket_ms=1&buckets=10&nope", "nope"),
    ("GET", "/history?step_ms=0", "step_ms"),
    ("GET", "/history?step_ms=1000", "step_ms"),
    ("GET", "/history?step_ms=-60000", "step_ms"),
    ("GET", "/history?step_ms=60000.0", "step_ms"),
    ("GET", "/history?step_ms=1e4", "step_ms"),
    ("GET", "/history?step_ms=10s", "step_ms"),
    ("GET", "/history?step_ms=", "step_ms"),
    ("GET", "/history?step_ms=10000&step_ms=10000", "step_ms"),
    ("GET", "/history?step_ms=99999999999999999999", "step_ms"),
    ("GET", "/history?points=0", "points"),
    ("GET", "/history?points=-1", "points"),
    ("GET", "/history?points=1441", "points"),
    ("GET", "/history?points=1.5", "points"),
    ("GET", "/history?points=ten", "points"),
    ("GET", "/history?points=", "points"),
    ("GET", "/history?points=1&points=1", "points"),
    ("GET", "/history?points=18446744073709551616", "points"),
    ("GET", "/history?step_ms=10000&points=361", "points"),
    ("GET", "/history?step_ms=60000&points=1441", "points"),
    ("GET", "/history?nope=1", "nope"),
    ("GET", "/history?step=10000", "step"),
    ("GET", "?nope=1", "nope"),
    ("PUT", "?nope=1", "nope"),
    ("PATCH", "?force=true", "force"),
    ("DELETE", "?nope=1", "nope"),
    ("DELETE", "?force=1", "force"),
    ("DELETE", "?force=yes", "force"),
    ("DELETE", "?force=", "force"),
    ("DELETE", "?force=true&force=true", "force"),
    ("POST", "/pause?nope=1", "nope"),
    ("POST", "/resume?for_ms=1000", "for_ms"),
    ("POST", "/purge?states=ready", "states"),
];

/// A body of a route of a topic, and the field that `errors` names.
const BODIES: &[(&str, &str, &str)] = &[
    ("/purge", "{}", "states"),
    ("/purge", "{\"states\":null}", "states"),
    ("/purge", "{\"states\":[]}", "states"),
    ("/purge", "{\"states\":\"ready\"}", "states"),
    ("/purge", "{\"states\":{}}", "states"),
    ("/purge", "{\"states\":1}", "states"),
    ("/purge", "{\"states\":[\"ready\",\"leased\"]}", "states"),
    ("/purge", "{\"states\":[\"leased\"],\"force\":false}", "states"),
    ("/purge", "{\"states\":[\"leased\"],\"force\":true,\"q\":\"error:x\"}", "states"),
    ("/purge", "{\"states\":[\"leased\"],\"force\":1}", "force"),
    ("/purge", "{\"states\":[\"acked\"]}", "states"),
    ("/purge", "{\"states\":[\"Ready\"]}", "states"),
    ("/purge", "{\"states\":[\"\"]}", "states"),
    ("/purge", "{\"states\":[\"all\"]}", "states"),
    ("/purge", "{\"states\":[null]}", "states"),
    ("/purge", "{\"states\":[1]}", "states"),
    ("/purge", "{\"states\":[\"dead\",\"dead\"]}", "states"),
    ("/purge", "{\"states\":[\"dead\"],\"nope\":1}", "nope"),
    ("/purge", "{\"states\":[\"dead\"],\"states\":[\"dead\"]}", "states"),
    ("/purge", "[]", "(body)"),
    ("/purge", "[\"dead\"]", "(body)"),
    ("/purge", "null", "(body)"),
    ("/purge", "{\"states\":[\"dead\"],\"q\":1}", "q"),
    ("/purge", "{\"states\":[\"dead\"],\"dry_run\":\"yes\"}", "dry_run"),
    ("/purge", "{\"states\":[\"dead\"],\"cursor\":\"AAAA\"}", "cursor"),
    ("/purge", "{\"states\":[\"dead\"],\"max_messages\":1}", "max_messages"),
    ("/redrive", "{\"dry_run\":1}", "dry_run"),
    ("/redrive", "{\"cursor\":\"\"}", "cursor"),
    ("/redrive", "{\"states\":[\"dead\"]}", "states"),
    ("/run", "{\"states\":[]}", "states"),
    ("/run", "{\"states\":[\"ready\"]}", "states"),
    ("/run", "{\"states\":[\"delayed\",\"delayed\"]}", "states"),
    ("/run", "{\"spread_ms\":-1}", "spread_ms"),
    ("/run", "{\"max_messages\":0}", "max_messages"),
    ("/run", "{\"max_messages\":1000001}", "max_messages"),
    ("/run", "{\"dry_run\":\"true\"}", "dry_run"),
    ("/run", "{\"cursor\":\"AAAA\"}", "cursor"),
    ("/run", "{\"nope\":1}", "nope"),
    ("/pause", "{\"nope\":1}", "nope"),
    ("/pause", "{\"paused\":true}", "paused"),
    ("/pause", "[]", "(body)"),
    ("/resume", "{\"at\":null}", "at"),
    ("/resume", "1", "(body)"),
];

/// A topic with one ready message that must stay there, not paused.
async fn kept() -> (Client, String) {
    let (client, topic) = (client().await, topic("bad"));
    client.published(&topic, json!({"payload": 1})).await;
    (client, topic)
}

async fn unchanged(client: &Client, topic: &str) {
    let seen = topic_has(client, topic, json!({"counts": {"ready": 1}, "totals": {"purged": 0}}));
    assert_eq!(seen.await["paused"], false);
}

/// `field` itself, or a place inside it.
#[track_caller]
fn names(answer: Answer, field: &str) {
    let answer = answer.refused(422);
    let errors = answer.json()["errors"].as_array().cloned().unwrap_or_default();
    let said: Vec<&str> = errors.iter().map(|error| text(error, "field")).collect();
    let named = |said: &&str| *said == field || said.starts_with(&format!("{field}["));
    assert!(said.iter().any(named), "not {field:?} but {said:?}: {answer}");
}

#[tokio::test]
async fn a_query_that_a_route_cannot_have_is_422_and_named() {
    let (client, topic) = kept().await;
    for (method, tail, field) in QUERIES {
        let json = [("content-type", "application/json")];
        let body = match *method {
            "GET" | "DELETE" => None,
            _ if tail.starts_with("/purge") => Some(b"{\"states\":[\"ready\"]}".to_vec()),
            _ => Some(b"{}".to_vec()),
        };
        let headers: &[(&str, &str)] = if body.is_some() { &json } else { &[] };
        let path = format!("/topics/{topic}{tail}");
        unprocessable(client.send(method, &path, headers, body).await, field);
    }
    unchanged(&client, &topic).await;
}

#[tokio::test]
async fn a_forecast_far_beyond_every_due_time_is_answered_or_refused() {
    let (client, topic) = kept().await;
    for bucket_ms in [i64::MAX, i64::MAX / 1000, 253_402_300_800_000, 315_360_000_000] {
        for buckets in [1, 2, 1000] {
            let answer = client.forecast(&topic, bucket_ms, buckets).await;
            assert!(matches!(answer.status, 200 | 422), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_body_that_a_route_cannot_have_is_422_and_named() {
    let (client, topic) = kept().await;
    for (tail, body, field) in BODIES {
        let mut answer = client.post_text(&format!("/topics/{topic}{tail}"), body).await;
        answer.request.push_str(&format!(" with {body}"));
        names(answer, field);
    }
    unchanged(&client, &topic).await;
}

#[tokio::test]
async fn a_body_that_is_no_json_is_400_and_of_another_type_415() {
    let (client, topic) = kept().await;
    for tail in ["/purge", "/pause", "/resume"] {
        let path = format!("/topics/{topic}{tail}");
        for body in ["{", "{}x", "nul", "{\"states\":}", "\u{feff}{}"] {
            client.post_text(&path, body).await.refused(400);
        }
        for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
            client.post_bytes(&path, kind, b"{\"states\":[\"ready\"]}".to_vec()).await.refused(415);
        }
    }
    client.post_text(&format!("/topics/{topic}/purge"), "").await.refused(400);
    unchanged(&client, &topic).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_told_before_the_topic_is_missed() {
    let (client, none) = (client().await, topic("bad"));
    let json = [("content-type", "application/json")];
    for (method, tail, field) in QUERIES {
        if *method == "GET" && !tail.contains("cursor") {
            unprocessable(client.get_path(&format!("/topics/{none}{tail}")).await, field);
        }
    }
    for (tail, body, field) in BODIES {
        names(client.post_text(&format!("/topics/{none}{tail}"), body).await, field);
    }
    for (method, body) in [("PATCH", "{\"nope\":1}"), ("PATCH", "{\"lease_ms\":1}")] {
        let path = format!("/topics/{none}");
        client.send(method, &path, &json, Some(body.into())).await.refused(422);
        client.send(method, &path, &[], Some(body.into())).await.refused(415);
    }
}

#[tokio::test]
async fn a_topic_that_is_no_name_is_400_on_every_route() {
    let client = client().await;
    let body = "{\"nope\":1}";
    for name in ["a..b", "%00", "%2e%2e", "a%0d%0ab", "a%20b", "*", "-a", &"x".repeat(129)] {
        for (method, tail) in [
            ("PUT", ""),
            ("PATCH", ""),
            ("DELETE", ""),
            ("DELETE", "?force=true"),
            ("POST", "/pause"),
            ("POST", "/resume"),
            ("POST", "/purge"),
            ("POST", "/redrive"),
            ("POST", "/messages/batch"),
            ("GET", "/messages?state=nope"),
            ("GET", "/forecast"),
            ("GET", "/keys/k"),
        ] {
            let mut wire = Wire::connect(&client.addr()).await;
            let request = format!("{method} /topics/{name}{tail}");
            let head = format!(
                "{request} HTTP/1.1\r\nhost: {}\r\ncontent-type: text/plain\r\ncontent-length: {}",
                client.addr(),
                body.len()
            );
            assert!(wire.request(&head, body.as_bytes()).await);
            let answer = wire.answer(&request, std::time::Duration::from_secs(5)).await;
            answer.unwrap_or_else(|| panic!("{request}: closed")).check().refused(400);
        }
    }
}

#[tokio::test]
async fn a_method_that_a_route_does_not_know_is_405_with_those_it_does() {
    let (client, topic) = kept().await;
    for (tail, known, unknown) in [
        ("", &["GET", "PUT", "PATCH", "DELETE"][..], &["POST"][..]),
        ("/pause", &["POST"], &["GET", "PUT", "DELETE", "PATCH"]),
        ("/resume", &["POST"], &["GET", "PUT", "DELETE"]),
        ("/purge", &["POST"], &["GET", "DELETE"]),
        ("/messages", &["GET", "POST"], &["PUT", "DELETE", "PATCH"]),
        ("/forecast", &["GET"], &["POST", "DELETE"]),
    ] {
        for method in unknown {
            let path = format!("/topics/{topic}{tail}");
            let answer = client.send(method, &path, &[], None).await.refused(405);
            for known in known {
                let allowed = answer.header("allow").split(',').any(|word| word.trim() == *known);
                assert!(allowed, "{method} does not tell of {known}: {answer}");
            }
        }
    }
    unchanged(&client, &topic).await;
}
