//! Which bodies are the same publish, and which are not.

use super::*;
use bytes::Bytes;
use dueq_model::{Backoff, Body, CallUrl, Callback, Retry, SigningSecret};
use dueq_store::{MessageKey, MessageOptions};

fn json(text: &str) -> NewMessage {
    let content = Content::Json(Bytes::copy_from_slice(text.as_bytes()));
    NewMessage {
        body: Body::new(content, Default::default()),
        due: Due::After(0),
        options: MessageOptions::default(),
    }
}

fn of(text: &str) -> u64 {
    fingerprint(&json(text))
}

#[test]
fn payloads_that_say_the_same_are_the_same() {
    for (a, b) in [
        (r#"{"a":1,"b":[true,null]}"#, "{ \"b\" : [ true , null ] ,\n \"a\" : 1.0 }"),
        (r#"{"\u0061":"\u00e9\n"}"#, "{\"a\":\"é\\u000a\"}"),
        ("[1e2, -0, 0.5]", "[100,0,5e-1]"),
        (
            "12345678901234567890123456789012345678901",
            "12345678901234567890123456789012345678901.0",
        ),
        ("{}", " { } "),
        ("[]", "[ ]"),
        (r#"{"a":{"x":1,"y":2}}"#, r#"{"a":{"y":2,"x":1}}"#),
    ] {
        assert_eq!(of(a), of(b), "{a} {b}");
    }
}

#[test]
fn payloads_that_say_other_things_are_others() {
    let all = [
        "{}",
        "[]",
        "null",
        "true",
        "false",
        "0",
        "\"\"",
        "\"0\"",
        "\"null\"",
        "[0]",
        "[[]]",
        "[[],[]]",
        "[[[]]]",
        "[1,2]",
        "[2,1]",
        "[12]",
        "{\"a\":1}",
        "{\"a\":2}",
        "{\"b\":1}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":2,\"a\":1}",
        "9007199254740992",
        "9007199254740993",
        "1e400",
        "1e401",
        "0.1",
        "0.2",
        "\"a\\\"\"",
        "\"a\\\\\"",
        "[\"a\",\"b\"]",
        "[\"ab\"]",
        "[{\"a\":1},{}]",
        "[{},{\"a\":1}]",
        "\"\\ud800\"",
        "-1",
        "1",
    ];
    for (i, a) in all.iter().enumerate() {
        for b in &all[..i] {
            assert_ne!(of(a), of(b), "{a} {b}");
        }
    }
}

#[test]
fn everything_but_the_idempotency_key_counts() {
    let plain = json("1");
    let change = |change: &dyn Fn(&mut NewMessage)| {
        let mut message = plain.clone();
        change(&mut message);
        fingerprint(&message)
    };
    let key = |on_duplicate, until| {
        Some(MessageKey { name: "k".into(), on_duplicate, until, max_wait_ms: None })
    };
    let url = |text| CallUrl::parse(text).unwrap();
    let call = |method, timeout_ms| {
        Some(Callback { method, timeout_ms, ..Callback::to(url("http://example.com/")) })
    };
    let retry = |on: Option<&[&str]>, never: &[&str]| {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let retry = Retry { on: on.map(list), never: list(never), ..Retry::default() };
        let retry = Some(retry);
        let callback = Callback { retry, ..Callback::to(url("http://example.com/")) };
        change(&|m| m.body.callback = Some(callback.clone()))
    };
    assert_eq!(
        retry(Some(&["400", "401"]), &["402", "403"]),
        retry(Some(&["401", "400"]), &["403", "402"])
    );
    let bytes = |data: &'static [u8], content_type: &str| Content::Bytes {
        data: Bytes::from_static(data),
        content_type: content_type.into(),
    };
    let all = [
        fingerprint(&plain),
        change(&|m| m.due = Due::After(1)),
        change(&|m| m.due = Due::At(1)),
        change(&|m| m.options.priority = 1),
        change(&|m| m.options.max_attempts = Some(1)),
        change(&|m| m.options.ttl_ms = Some(1)),
        change(&|m| m.options.backoff = Some(Backoff::default())),
        change(&|m| m.options.key = key(OnDuplicate::Return, KeyUntil::Done)),
        change(&|m| m.options.key = key(OnDuplicate::Reject, KeyUntil::Done)),
        change(&|m| m.options.key = key(OnDuplicate::Return, KeyUntil::Granted)),
        change(&|m| drop(m.body.headers.insert("a".into(), "b".into()))),
        change(&|m| m.body.content = bytes(b"1", "text/plain")),
        change(&|m| m.body.content = bytes(b"1", "text/html")),
        change(&|m| m.body.callback = call(None, None)),
        change(&|m| m.body.callback = call(Some(CallMethod::Post), None)),
        change(&|m| m.body.callback = call(None, Some(100))),
        change(&|m| {
            let callback = Callback::to(url("http://example.com/"));
            m.body.callback = Some(Callback { connect_timeout_ms: Some(100), ..callback });
        }),
        retry(None, &[]),
        retry(None, &["400"]),
        retry(Some(&["400"]), &[]),
        retry(Some(&["400"]), &["401"]),
        retry(Some(&["400", "401"]), &[]),
        change(&|m| {
            let callback = Callback::to(url("http://example.com/"));
            let secret_headers = vec!["x-a".to_owned()];
            m.body.callback = Some(Callback { secret_headers, ..callback });
        }),
        change(&|m| {
            let callback = Callback::to(url("http://example.com/"));
            let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").ok();
            m.body.callback = Some(Callback { secret, ..callback });
        }),
        change(&|m| {
            m.body.callback = call(None, None);
            m.options.key = key(OnDuplicate::Return, KeyUntil::Done);
        }),
    ];
    for (i, a) in all.iter().enumerate() {
        assert!(!all[..i].contains(a), "{i}");
    }
}

#[test]
fn where_an_end_is_published_makes_another_request() {
    let of = |done: Option<&str>, dead: Option<&str>, is_url: bool| {
        let to = |text: &str| {
            let url = CallUrl::parse(text).ok().filter(|_| is_url);
            let topic = TopicName::parse(text).ok().filter(|_| !is_url);
            Box::new(Completion { url, topic, ..Completion::default() })
        };
        let mut message = json("1");
        (message.body.on_done, message.body.on_dead) = (done.map(to), dead.map(to));
        fingerprint(&message)
    };
    let (url, topic) = ("http://a.test/", "a");
    let all = [
        of(None, None, true),
        of(Some(url), None, true),
        of(None, Some(url), true),
        of(Some(url), Some(url), true),
        of(Some(topic), None, false),
        of(None, Some(topic), false),
        of(Some("b"), None, false),
    ];
    let others: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(others.len(), all.len());
    assert_eq!(of(None, None, true), super::fingerprint(&json("1")));
}

#[test]
fn the_number_stays_the_same_from_version_to_version() {
    assert_eq!(of(r#"{"a":[1,"x"]}"#), 6_150_317_524_817_582_876);
}
