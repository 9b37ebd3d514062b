//! Who may: the keys. The names in Host and Origin, which count without keys, are in `hosts`.

mod audit;
mod guesses;
mod hosts;
mod listed;
mod matrix;
mod quota;
mod quotas;
mod reload;
pub mod scopes;
mod session;

use std::time::Duration;

use serde_json::json;

use crate::harness::*;

const KEY: &str = "kQ7-first.of_the~keys+0123/==";
const OTHER: &str = "the-other-key-of-this-test";
const OPEN: [&str; 5] = ["/", "/healthz", "/readyz", "/docs/", "/docs/swagger-ui.css"];

/// An instance with two keys.
async fn locked() -> Dueq {
    let launch = Dueq::on(&shared().await.redis);
    launch.args(["--api-key", KEY, "--api-key", OTHER]).start().await
}

/// Method and path of every operation of the document, its parameters filled in, and what the document does not
/// name: the page, and what the router refuses by itself.
fn routes() -> Vec<(String, String)> {
    let operations = Document::committed().operations();
    let mut routes: Vec<_> =
        operations.map(|(method, path, _)| (method.to_uppercase(), filled_in(path))).collect();
    assert!(routes.len() >= 13, "{routes:?}");
    let more = "GET /docs/|GET /docs/swagger-ui.css|GET /nowhere|GET /|GET /healthz/|GET /%68ealthz|PUT /messages/x/ack|\
        OPTIONS /topics|HEAD /topics|GET /messages/no-uuid|GET /topics?unknown=1";
    for (method, path) in more.split('|').filter_map(|route| route.split_once(' ')) {
        routes.push((method.to_owned(), path.to_owned()));
    }
    routes
}

#[test]
fn the_document_says_of_every_operation_whether_it_wants_a_key() {
    let document = Document::committed();
    assert_eq!(document.0["security"], json!([{}, {"bearer": []}]));
    let bearer = &document.0["components"]["securitySchemes"]["bearer"];
    assert_eq!((&bearer["type"], &bearer["scheme"]), (&json!("http"), &json!("bearer")));
    for (method, path, operation) in document.operations() {
        let is_open = (method, path) == ("post", "/session") || OPEN.contains(&path);
        let open = is_open.then_some(json!([{}]));
        assert_eq!(operation.get("security"), open.as_ref(), "{method} {path}");
        for (status, code) in [("401", "unauthorized"), ("403", "host_not_allowed")] {
            let said = operation["responses"][status]["description"].as_str();
            assert!(said.is_some_and(|said| said.contains(code)), "{method} {path} {status}");
        }
    }
}

/// The path with an id for `{id}` and a name of nothing for every other parameter.
fn filled_in(path: &str) -> String {
    let part = |part: &str| match part {
        "{id}" => unknown_id(),
        part if part.starts_with('{') => "access-no-such".to_owned(),
        part => part.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// Asks with these `Authorization` headers.
async fn ask(client: &Client, method: &str, path: &str, authorization: &[&str]) -> Answer {
    let headers: Vec<_> = authorization.iter().map(|value| ("authorization", *value)).collect();
    client.send(method, path, &headers, None).await
}

#[tokio::test]
async fn with_keys_no_route_but_healthz_and_readyz_answers_without_one() {
    let dueq = locked().await;
    let client = dueq.client();
    let long = format!("Bearer {}", "x".repeat(8000));
    let one_off = format!("Bearer {}x", &KEY[..KEY.len() - 1]);
    let (shorter, longer) = (format!("Bearer {}", &KEY[..KEY.len() - 1]), format!("Bearer {KEY}="));
    let (basic, joined) = (format!("Basic {KEY}"), format!("Bearer {KEY},{OTHER}"));
    let (twice, upper) = (format!("Bearer {KEY} {KEY}"), format!("Bearer {}", KEY.to_uppercase()));
    let right = format!("Bearer {KEY}");
    let wrong: [&[&str]; 16] = [
        &[],
        &[""],
        &["Bearer"],
        &["Bearer "],
        &["Bearer wrong"],
        &[&shorter],
        &[&longer],
        &[&one_off],
        &[&upper],
        &[&basic],
        &[KEY],
        &[&joined],
        &[&twice],
        &[&long],
        &[&right, &right],
        &["Bearer wrong", &right],
    ];
    for (method, path) in routes() {
        // It brings a key in its body.
        if (method.as_str(), path.as_str()) == ("POST", "/session") {
            continue;
        }
        for authorization in wrong {
            let answer = ask(&client, &method, &path, authorization).await;
            if OPEN.contains(&path.as_str()) {
                answer.expect(200);
                continue;
            }
            // So many wrong keys are slowed down.
            if answer.status == 429 {
                continue;
            }
            let answer = answer.expect(401);
            assert_eq!(answer.header("www-authenticate"), "Bearer", "{answer}");
            if method != "HEAD" {
                answer.problem(401, "unauthorized");
            }
        }
    }
}

#[tokio::test]
async fn with_a_right_key_every_route_answers_as_it_would_without_keys() {
    let dueq = locked().await;
    let (client, open) = (dueq.client(), client().await);
    for (method, path) in routes() {
        let wanted = open.send(&method, &path, &[], None).await;
        for scheme in ["Bearer", "bearer", "BEARER ", "bEaReR"] {
            for key in [KEY, OTHER] {
                let answer = ask(&client, &method, &path, &[&format!("{scheme} {key}")]).await;
                assert_eq!(answer.status, wanted.status, "{answer}\nopen: {wanted}");
                assert!(![401, 403].contains(&answer.status), "{answer}");
            }
        }
    }
}

#[tokio::test]
async fn the_key_comes_before_everything_else_that_may_be_wrong() {
    let dueq = locked().await;
    let client = dueq.client();
    let kind = [("content-type", "application/xml")];
    for (path, body) in [
        ("/topics/_own/messages", b"{".to_vec()),
        ("/topics/a..b/messages", b"{".to_vec()),
        ("/messages/no-uuid/ack", b"\xff".to_vec()),
        ("/topics/t/messages/raw?nope=1", vec![b'x'; 2_000_000]),
        (&format!("/topics/{}/lease", "x".repeat(9000)), b"{}".to_vec()),
    ] {
        let sent = client.try_send("POST", path, &kind, Some(body)).await;
        // The connection may be closed under a body that nobody reads.
        if let Ok(answer) = sent {
            answer.problem(401, "unauthorized");
        }
    }
}

#[tokio::test]
async fn with_keys_any_host_and_origin_will_do() {
    let dueq = locked().await;
    let key = format!("authorization: Bearer {KEY}\r\n");
    for names in ["host: queue.example.com", "host: x\r\norigin: https://example.com", "x: y"] {
        let head = format!("GET /topics HTTP/1.1\r\n{key}{names}");
        status(dueq.addr(), &head, 200).await;
    }
}

#[tokio::test]
async fn a_key_is_in_no_line_of_the_log_whatever_happens_to_it() {
    let file = temp_dir("keys").join("keys");
    std::fs::write(&file, "# ours\n\n  filed-key-of-this-test  \r\n").unwrap();
    let redis = Redis::start().await;
    let launch = Dueq::on(&redis).args(["--log", "trace", "--api-key-file"]).args([&file]);
    let mut dueq = launch.env("DUEQ_API_KEYS", format!("{KEY},{OTHER},brief-1")).start().await;
    let client = dueq.client();
    for key in [KEY, OTHER, "brief-1", "filed-key-of-this-test"] {
        let bearer = format!("Bearer {key}");
        ask(&client, "GET", "/topics", &[&bearer]).await.expect(200);
        ask(&client, "GET", "/nowhere", &[&bearer]).await.expect(404);
        ask(&client, "GET", "/topics", &[&bearer, &bearer]).await.expect(401);
        ask(&client, "GET", "/topics", &[&format!("Basic {key}")]).await.expect(401);
    }
    ask(&client, "GET", "/topics", &["Bearer a-stranger's-key"]).await.expect(401);
    assert_eq!(dueq.term().await, 0);
    let log = dueq.log();
    assert!(log.contains("DEBUG") && log.contains("unauthorized"), "{log}");
    for key in [KEY, OTHER, "brief-1", "filed-key-of-this-test", "stranger"] {
        assert!(!log.contains(key), "{key} is logged");
    }
}

/// Demands this status for a request of this head, 403 as `host_not_allowed`.
async fn status(addr: &str, head: &str, wanted: u16) {
    let mut wire = Wire::connect(addr).await;
    assert!(wire.request(head, b"").await);
    let request = head.lines().next().unwrap();
    let answer = wire.answer(request, Duration::from_secs(5)).await;
    let answer = answer.unwrap_or_else(|| panic!("{head:?}: closed"));
    assert_eq!(answer.status, wanted, "{head:?}: {answer}");
    if wanted == 403 {
        answer.problem(403, "host_not_allowed");
    }
}

#[tokio::test]
async fn what_is_refused_has_no_effect() {
    let (open, topic) = (client().await, topic("access"));
    let path = format!("/topics/{topic}/messages/raw");
    let form = [("content-type", "text/plain"), ("origin", "http://evil.example")];
    open.send("POST", &path, &form, Some(b"x".to_vec())).await.problem(403, "host_not_allowed");
    let dueq = locked().await;
    dueq.client().publish(&topic, json!({"payload": 1})).await.problem(401, "unauthorized");
    open.topic(&topic).await.problem(404, "topic_not_found");
}
