//! Sessions of dueq's own pages: what they are for, and everything with which they are none.

use std::time::Duration;

use serde_json::json;

use super::scopes::KeyFile;
use crate::harness::*;

/// Logs in with the key of this name: the cookie, `name=value`.
async fn log_in(file: &KeyFile, dueq: &Dueq, name: &str) -> String {
    let answer =
        dueq.client().post("/session", &json!({"api_key": file.key(name)})).await.expect(204);
    let cookie = answer.header("set-cookie").to_owned();
    let (session, rest) = cookie.split_once("; ").unwrap();
    assert_eq!(rest, "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict");
    assert!(session.starts_with("dueq_session=") && !session.contains("dq_"), "{cookie}");
    session.to_owned()
}

/// GET of a path by a page with this cookie and these further headers.
async fn get(dueq: &Dueq, path: &str, cookie: &str, more: &[(&str, &str)]) -> Answer {
    let headers = [&[("dueq-ui", "1"), ("cookie", cookie)], more].concat();
    dueq.client().send("GET", path, &headers, None).await
}

#[tokio::test]
async fn a_session_is_its_key_on_every_instance_until_the_key_is_revoked() {
    let mut file = KeyFile::of(&[("reader", "read:orders.* publish:orders"), ("other", "read:*")]);
    let (one, two) = (file.start().await, file.start().await);
    let cookie = log_in(&file, &one, "reader").await;
    for dueq in [&one, &two] {
        let answer = get(dueq, "/session", &cookie, &[]).await.expect(200);
        assert_eq!(
            answer.json(),
            json!({"name": "reader", "scopes": ["read:orders.*", "publish:orders"]})
        );
        get(dueq, "/openapi.json", &cookie, &[]).await.expect(200);
        get(dueq, "/topics/invoices", &cookie, &[]).await.problem(403, "not_allowed");
    }
    let ours = [("origin", one.url()), ("sec-fetch-site", "same-origin".to_owned())];
    let ours = ours.each_ref().map(|(name, value)| (*name, value.as_str()));
    get(&one, "/session", &cookie, &ours).await.expect(200);
    // A key in the header counts, whatever the cookie says.
    let other = format!("Bearer {}", file.key("other"));
    let answer = get(&one, "/session", &cookie, &[("authorization", &other)]).await.expect(200);
    assert_eq!(answer.text("name"), "other");
    get(&one, "/session", &cookie, &[("authorization", "Bearer x")])
        .await
        .problem(401, "unauthorized");
    file.remove("reader");
    file.write();
    for dueq in [&one, &two] {
        eventually("the session is over", || async {
            (get(dueq, "/session", &cookie, &[]).await.status == 401).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn what_is_no_session_of_this_server_s_page_is_401_and_nothing_else() {
    let file = KeyFile::of(&[("reader", "read:*")]);
    let dueq = file.start().await;
    let cookie = log_in(&file, &dueq, "reader").await;
    get(&dueq, "/topics", &cookie, &[]).await.expect(200);
    // Not from the page, or not from this server's.
    let client = dueq.client();
    client.send("GET", "/topics", &[("cookie", &cookie)], None).await.problem(401, "unauthorized");
    for headers in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "none"),
        ("cookie", cookie.as_str()),
    ] {
        get(&dueq, "/topics", &cookie, &[headers]).await.problem(401, "unauthorized");
    }
    // Forged, cut, or of a server with another secret.
    let redis = Redis::start().await;
    let elsewhere = Dueq::on(&redis).args(["--api-key-file"]).args([&file.path]).start().await;
    let foreign = log_in(&file, &elsewhere, "reader").await;
    let turned: String = cookie.chars().rev().collect();
    for wrong in [
        &cookie[..cookie.len() - 1],
        &format!("{cookie}A"),
        "dueq_session=",
        "dueq_session=x",
        &foreign,
        &turned,
    ] {
        let answer = get(&dueq, "/topics", wrong, &[]).await;
        assert!([401, 429].contains(&answer.status), "{wrong}: {answer}");
        assert_eq!(answer.header("set-cookie"), "");
    }
}

#[tokio::test]
async fn logging_in_takes_a_right_key_from_this_origin() {
    let file = KeyFile::of(&[("reader", "read:*")]);
    let dueq = file.start().await;
    let client = dueq.client();
    let kind = ("content-type", "application/json");
    let body = json!({"api_key": file.key("reader")}).to_string().into_bytes();
    for foreign in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        let answer = client.send("POST", "/session", &[kind, foreign], Some(body.clone())).await;
        assert_eq!(answer.problem(401, "unauthorized").header("set-cookie"), "");
    }
    client.post("/session", &json!({"api_key": "wrong"})).await.problem(401, "unauthorized");
    client.post("/session", &json!({})).await.field("api_key");
    client.post("/session", &json!({"api_key": ""})).await.field("api_key");
    client.post("/session", &json!({"api_key": "x".repeat(257)})).await.field("api_key");
    client.post("/session", &json!({"api_key": "x", "more": 1})).await.field("more");
    client
        .post_bytes("/session", Some("text/plain"), body)
        .await
        .problem(415, "unsupported_media_type");
    client.get_path("/session").await.problem(401, "unauthorized");
    client.send("DELETE", "/session", &[], None).await.problem(401, "unauthorized");
    let cookie = log_in(&file, &dueq, "reader").await;
    let headers = [("dueq-ui", "1"), ("cookie", cookie.as_str())];
    let answer = client.send("DELETE", "/session", &headers, None).await.expect(204);
    assert_eq!(
        answer.header("set-cookie"),
        "dueq_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"
    );
    let mut slowed = false;
    for number in 0..100 {
        let answer = client.post("/session", &json!({"api_key": format!("wrong-{number}")})).await;
        slowed |= answer.status == 429;
    }
    assert!(slowed, "wrong keys are slowed down here, too");
}

/// The head of a request to log in that declares so many bytes.
fn head(length: usize) -> String {
    format!(
        "POST /session HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}"
    )
}

#[tokio::test]
async fn strangers_send_little_and_soon() {
    mostly_waits();
    let file = KeyFile::of(&[("reader", "read:*")]);
    let (keys, open) = (file.start().await, Dueq::on(&shared().await.redis).start().await);
    for dueq in [&keys, &open] {
        let mut declared = Wire::connect(dueq.addr()).await;
        assert!(declared.request(&head(4097), b"").await);
        let answer = declared.answer("4097", Duration::from_secs(3)).await.expect("an answer");
        answer.check().problem(413, "body_too_large");
        let mut sent = Wire::connect(dueq.addr()).await;
        let chunked = head(0).replace("content-length: 0", "transfer-encoding: chunked");
        let body = format!("1400\r\n{}", "x".repeat(5120));
        assert!(sent.request(&chunked, body.as_bytes()).await);
        let answer = sent.answer("5120", Duration::from_secs(3)).await.expect("an answer");
        answer.check().problem(413, "body_too_large");
        let mut trickle = Wire::connect(dueq.addr()).await;
        assert!(trickle.request(&head(4096), b"{").await);
        let answer = trickle.answer("trickle", Duration::from_secs(9)).await.expect("an answer");
        answer.check().problem(408, "request_timeout");
    }
}

#[tokio::test]
async fn without_keys_everybody_is_anonymous_and_may_do_everything() {
    let client = client().await;
    let answer = client.post("/session", &json!({"api_key": "any"})).await.expect(204);
    assert_eq!(answer.header("set-cookie"), "");
    let answer = client.get_path("/session").await.expect(200);
    assert_eq!(answer.json(), json!({"name": "anonymous", "scopes": ["admin"]}));
    client.send("DELETE", "/session", &[], None).await.expect(204);
    client
        .send("GET", "/session", &[("host", "evil.example")], None)
        .await
        .problem(403, "host_not_allowed");
}

#[tokio::test]
async fn pages_may_run_no_code_but_their_own() {
    let file = KeyFile::of(&[("reader", "read:*")]);
    let dueq = file.start().await;
    let client = dueq.client();
    for (path, scripts) in [
        ("/guide", "default-src 'none'; script-src 'self'; style-src 'self';"),
        ("/guide/style.css", "default-src 'none'; script-src 'self'; style-src 'self';"),
        ("/docs/", "default-src 'none'; script-src 'self'; style-src 'self'"),
        ("/docs/swagger-ui.css", "default-src 'none'; script-src 'self'; style-src 'self'"),
    ] {
        let answer = client.get_path(path).await.expect(200);
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with(scripts), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("cross-origin-opener-policy"), "same-origin");
    }
    for (path, kind) in [("swagger-initializer.js", "text/javascript"), ("index.css", "text/css")] {
        let answer = client.get_path(&format!("/docs/{path}")).await.expect(200);
        assert!(answer.header("content-type").starts_with(kind), "{answer}");
    }
    client.get_path("/openapi.json").await.problem(401, "unauthorized");
}
