//! Contents and signatures of requests.

use super::*;
use dueq_model::{Callback, MessageId, PartitionNumber, Route, TopicNumber};
use standardwebhooks::Webhook;

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn headers(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn url(text: &str) -> CallUrl {
    CallUrl::parse(text).unwrap()
}

fn secrets(texts: &[&str]) -> Vec<SigningSecret> {
    texts.iter().map(|text| SigningSecret::parse(text).unwrap()).collect()
}

fn push() -> Push {
    Push { url: Some(url("http://example.com/hook")), ..Push::default() }
}

fn json() -> Body {
    Body::new(Content::Json(Bytes::from_static(b"{\"a\": 1.0}")), BTreeMap::new())
}

fn bytes(data: &'static [u8], content_type: &str) -> Body {
    let content =
        Content::Bytes { data: Bytes::from_static(data), content_type: content_type.to_owned() };
    Body::new(content, BTreeMap::new())
}

fn now() -> Millis {
    std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as Millis
}

fn of(body: &Body, push: &Push, instance: &[SigningSecret], now: Millis) -> CallRequest {
    let route = Route { topic: TopicNumber(3), partition: PartitionNumber(0) };
    let id = MessageId::new(1_763_700_000_123, route, 7);
    let topic = TopicName::parse("orders").unwrap();
    build(&id.to_string(), &topic, Some(3), body, push, instance, now).unwrap()
}

/// The headers, sorted by name, without `webhook-*` and `user-agent`.
fn listed(request: &CallRequest) -> Vec<String> {
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
    };
    let mut lines: Vec<String> = request.headers.iter().map(line).collect();
    lines.retain(|line| !line.starts_with("webhook-") && !line.starts_with("user-agent"));
    lines.sort();
    lines
}

#[test]
fn a_request_carries_the_payload_its_type_the_topic_attempt_and_id() {
    let request = of(&json(), &push(), &[], 1_763_700_000_999);
    assert_eq!(request.url, url("http://example.com/hook"));
    assert_eq!(
        (request.method, request.timeout),
        (CallMethod::Post, Duration::from_millis(15_000))
    );
    assert_eq!(&request.body[..], b"{\"a\": 1.0}");
    assert_eq!(
        listed(&request),
        ["content-type: application/json", "dueq-attempt: 3", "dueq-topic: orders"]
    );
    let id = request.headers["webhook-id"].to_str().unwrap();
    assert!(MessageId::parse(id).is_ok());
    assert_eq!(request.headers["webhook-timestamp"], "1763700000");
    assert_eq!(request.headers["user-agent"], concat!("dueq/", env!("CARGO_PKG_VERSION")));
    assert!(!request.headers.contains_key("webhook-signature"), "no secret signs");
}

#[test]
fn bytes_are_sent_with_their_type_and_an_absent_payload_without_one() {
    let request = of(&bytes(b"\xff", "image/png"), &push(), &[], 0);
    assert_eq!(&request.body[..], b"\xff");
    assert_eq!(request.headers["content-type"], "image/png");
    let request = of(&bytes(b"", "application/octet-stream"), &push(), &[], 0);
    assert_eq!(request.headers["content-type"], "application/octet-stream");
    let request = of(&Body::new(Content::nothing(), BTreeMap::new()), &push(), &[], 0);
    assert!(request.body.is_empty() && !request.headers.contains_key("content-type"));
}

#[test]
fn the_callback_of_a_message_overrides_the_push_of_its_topic() {
    let part = Callback::to(url("https://example.org/"));
    let retry = |never: &str| Some(Retry { never: vec![never.to_owned()], ..Retry::default() });
    let whole = Callback {
        method: Some(CallMethod::Put),
        timeout_ms: Some(100),
        connect_timeout_ms: Some(50),
        retry: retry("400"),
        ..part.clone()
    };
    let (connect_timeout_ms, of_topic) = (Some(90), retry("5xx"));
    let method = CallMethod::Patch;
    let push = Push { method, timeout_ms: 900, connect_timeout_ms, retry: of_topic, ..push() };
    for (callback, method, ms, connect_ms, never) in
        [(whole, CallMethod::Put, 100, 50, "400"), (part, CallMethod::Patch, 900, 90, "5xx")]
    {
        let request = of(&Body { callback: Some(callback), ..json() }, &push, &[], 0);
        assert_eq!(request.url, url("https://example.org/"));
        assert_eq!((request.method, request.timeout), (method, Duration::from_millis(ms)));
        assert_eq!(request.connect_timeout, Some(Duration::from_millis(connect_ms)));
        assert_eq!(request.retry, retry(never));
    }
}

#[test]
fn without_a_url_there_is_no_request() {
    let id = MessageId::parse("5f0c2b0e-9a53-4d0e-8a57-3a6c1f0e9d11").unwrap();
    let topic = TopicName::callbacks();
    let built = build(&id.to_string(), &topic, Some(1), &json(), &Push::of_callbacks(), &[], 0);
    assert_eq!(built.map(|request| request.url), Err(NoUrl));
}

#[test]
fn headers_of_a_message_override_those_of_its_topic_and_neither_overrides_dueq_s_own() {
    let push = Push {
        headers: headers(&[("X-A", "push"), ("x-b", "push"), ("User-Agent", "me")]),
        ..push()
    };
    let mut body = json();
    body.headers = headers(&[
        ("x-a", "message"),
        ("X-C", "é"),
        ("Host", "evil"),
        ("Content-Length", "0"),
        ("Content-Type", "text/plain"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close"),
        ("Webhook-Id", "1"),
        ("webhook-anything", "1"),
        ("DUEQ-Attempt", "9"),
        ("dueq-x", "1"),
        ("not a name", "1"),
        ("x-broken", "a\r\nb: c"),
    ]);
    let request = of(&body, &push, &[], 0);
    assert_eq!(
        listed(&request),
        [
            "content-type: application/json",
            "dueq-attempt: 3",
            "dueq-topic: orders",
            "x-a: message",
            "x-b: push",
            "x-c: é"
        ]
    );
    assert_eq!(request.headers["user-agent"], "me");
}

#[test]
fn secrets_are_sent_only_to_the_origin_that_they_were_stored_for() {
    let named = headers(&[("Authorization", "push"), ("x-token", "push"), ("x-a", "push")]);
    let secret_headers = vec!["X-Token".to_owned()];
    let push = Push { headers: named, secrets: secrets(&[NEW]), secret_headers, ..push() };
    let of = |body: &Body, push: &Push| of(body, push, &secrets(&[OLD]), now());
    let signed_by = |request: &CallRequest, secret: &str| {
        Webhook::new(secret).unwrap().verify(&request.body, &request.headers).is_ok()
    };
    let to = |text: &str| Some(Callback::to(url(text)));
    for (callback, same) in [
        (None, true),
        (to("http://EXAMPLE.com:80/other"), true),
        (to("https://example.com/hook"), false),
        (to("http://example.com:81/hook"), false),
        (to("http://example.org/hook"), false),
    ] {
        let said = format!("{callback:?}");
        let request = of(&Body { callback, ..json() }, &push);
        let has = |name: &str| request.headers.contains_key(name);
        assert_eq!(
            (has("authorization"), has("x-token"), has("x-a")),
            (same, same, true),
            "{said}"
        );
        assert_eq!((signed_by(&request, NEW), signed_by(&request, OLD)), (same, !same), "{said}");
    }
    // The secret headers of a message belong to the origin that it had when they were stored.
    let mut body = json();
    body.headers = headers(&[("cookie", "message"), ("X-TOKEN", "message"), ("x-b", "message")]);
    body.mark_secrets(&push);
    let moved =
        Push { url: Some(url("http://example.org/")), headers: headers(&[]), ..push.clone() };
    for (push, same) in [(&push, true), (&moved, false)] {
        let request = of(&body, push);
        let has = |name: &str| request.headers.contains_key(name);
        assert_eq!((has("cookie"), has("x-token"), has("x-b")), (same, same, true));
    }
    // Without a URL, a topic sends secret headers to no origin, and its secrets sign for all.
    let nowhere = Push { url: None, ..push };
    let request = of(&Body { callback: to("http://example.com/"), ..json() }, &nowhere);
    assert!(!request.headers.contains_key("authorization") && signed_by(&request, NEW));
    let secret = SigningSecret::parse(OLD).ok();
    let own = Callback { secret, ..Callback::to(url("http://example.com/")) };
    let request = of(&Body { callback: Some(own), ..json() }, &nowhere);
    assert!(signed_by(&request, OLD) && !signed_by(&request, NEW), "its own wins");
}

#[test]
fn a_request_can_be_printed_without_its_secrets() {
    let push = Push { headers: headers(&[("Authorization", "Bearer sesame")]), ..push() };
    let request = of(&json(), &push, &[], 0);
    assert_eq!(request.headers["authorization"], "Bearer sesame");
    assert!(!format!("{request:?}").contains("sesame"));
}

#[test]
fn the_standard_webhooks_library_verifies_the_signature() {
    let request = of(&json(), &push(), &secrets(&[OLD]), now());
    Webhook::new(OLD).unwrap().verify(&request.body, &request.headers).unwrap();
    let forged = Webhook::new(OLD).unwrap().verify(b"{\"a\": 2.0}", &request.headers);
    assert!(forged.is_err());
    assert!(Webhook::new(NEW).unwrap().verify(&request.body, &request.headers).is_err());
}

#[test]
fn with_two_secrets_either_verifies_and_secrets_of_the_topic_replace_those_of_the_instance() {
    let push = Push { secrets: secrets(&[NEW, OLD]), ..push() };
    let request = of(&bytes("ä.b".as_bytes(), "x/y"), &push, &[], now());
    for secret in [OLD, NEW] {
        Webhook::new(secret).unwrap().verify(&request.body, &request.headers).unwrap();
    }
    let push = Push { secrets: secrets(&[NEW]), ..push };
    let request = of(&json(), &push, &secrets(&[OLD]), now());
    assert!(Webhook::new(OLD).unwrap().verify(&request.body, &request.headers).is_err());
    Webhook::new(NEW).unwrap().verify(&request.body, &request.headers).unwrap();
}
