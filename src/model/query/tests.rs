//! What queries match, and what is no query.

use super::*;
use bytes::Bytes;
use std::collections::BTreeMap;

fn nothing() -> Subject<'static> {
    Subject {
        id: MessageId::parse("019ab000-0000-8000-8000-00000000000f").unwrap(),
        status: None,
        url: None,
        error: None,
        key: None,
        group: None,
        attempts: 0,
        priority: 0,
        at: 0,
        published: 0,
        body: None,
    }
}

fn json_body(json: &'static str) -> Body {
    let headers = BTreeMap::from([("Tenant".to_owned(), "42".to_owned())]);
    Body::new(Content::Json(Bytes::from_static(json.as_bytes())), headers)
}

fn holds(query: &str, json: &'static str) -> bool {
    let body = json_body(json);
    let url = CallUrl::parse("https://API.example.com/Hooks?shop=7").unwrap();
    let message = Subject {
        status: Some(503),
        url: Some(&url),
        error: Some("Timeout after 30 s"),
        key: Some("cart/7"),
        group: Some("customer 5"),
        attempts: 4,
        priority: 9,
        // 2026-11-20T12:00:00Z
        at: 1_795_176_000_000,
        published: 1_795_089_600_000,
        body: Some(&body),
        ..nothing()
    };
    MessageQuery::parse(query).unwrap().matches(message, |_| false)
}

#[test]
fn terms_hold_together() {
    let json = r#"{"order":{"id":42,"note":"Two  Boxes","items":[{"sku":"a-1"}],"paid":false},"total":9.5}"#;
    for query in [
        "",
        "  ",
        "error:timeout",
        r#"error:"TIMEOUT after * s""#,
        r#"reason:"Timeout after * s""#,
        "key:cart/*",
        "key:cart/7",
        r#"group:"customer 5""#,
        "header.tenant:42",
        "header.TENANT:4*",
        "payload:boxes",
        r#"payload:"two  boxes""#,
        "payload.$.order.id:42",
        "payload.$.order.id:>41",
        "payload.$.order.items[0].sku:a-*",
        "payload.$.order.paid:false",
        "payload.$.total:9.5",
        "attempts:>3",
        "attempts:4 priority:>=9",
        "attempts:<=4",
        "at:2026-11-20",
        "at:>2026-11-19",
        "at:<2026-11-21",
        "at:>=2026-11-20T12:00:00Z",
        "published:2026-11-19 error:timeout",
        "status:503 status:>=500 status:5xx",
        "id:019AB000-*",
        "url:api.example.com/hooks*7",
        "host:api.example.com",
        "host:*.EXAMPLE.com:443",
        "TIMEOUT art/7 42 boxes",
        r#""two  boxes""#,
        "-error:refused",
        "-status:4xx -host:example.com -word",
        "error:refused OR timeout",
        "error:timeout key:other OR key:cart/7 -other",
        r#""OR" -"-x""#,
    ] {
        assert!(holds(query, json), "{query}");
        if !query.contains(' ') && !query.starts_with('-') && !query.is_empty() {
            assert!(!holds(&format!("-{query}"), json), "-{query}");
        }
    }
    for query in [
        "error:refused",
        "reason:Timeout",
        r#"reason:"""#,
        r#"reason:"Timeout after 30 s""#,
        "error:\"s * timeout\"",
        "key:cart",
        "key:Cart/7",
        "key:cart/7*7",
        "group:customer",
        "header.tenant:4",
        "header.other:42",
        "payload:box*two",
        "payload.$.order.id:4",
        "payload.$.order.id:>42",
        "payload.$.order:42",
        "payload.$.order.items[1].sku:*",
        "payload.$.missing:*",
        "attempts:>4",
        "attempts:<4",
        "at:>2026-11-20",
        "at:<2026-11-20",
        "at:>2026-11-20T12:00:00Z",
        "error:timeout key:other",
        "status:4xx",
        "status:500",
        "id:019ab000",
        "url:other",
        "host:example.com",
        "host:api.example.com:80",
        "customer",
        "-timeout",
        "timeout other OR -boxes OR refused",
        r#"timeout "-error:refused""#,
    ] {
        assert!(!holds(query, json), "{query}");
        if !query.contains(' ') && !query.starts_with('-') {
            assert!(holds(&format!("-{query}"), json), "-{query}");
        }
    }
}

#[test]
fn words_are_found_behind_escapes() {
    let json = r#"{"name":"\u674e \ud83d\ude00","path":"https:\/\/a\"b","no":"\\u674f"}"#;
    for word in ["李", "😀", r#""//a\"b""#, r"\u674e", "payload:李", r"\u674f"] {
        assert!(holds(word, json) && !holds(&format!("-{word}"), json), "{word}");
    }
    assert!(!holds("杏", json) && holds("-杏 -payload:杏", json));
}

#[test]
fn what_is_unknown_is_found_by_no_term_and_no_negation() {
    let matches = |query: &str, message: Subject<'_>| {
        MessageQuery::parse(query).unwrap().matches(message, |name| name == "Tenant")
    };
    let damaged = Body::damaged(Bytes::from_static(b"\x01"));
    let message = Subject { body: Some(&damaged), ..nothing() };
    for term in ["word", "payload:x", "payload.$.a:1", "header.a:b"] {
        for query in [term.to_owned(), format!("-{term}")] {
            assert!(!matches(&query, message) && !matches(&query, nothing()), "{query}");
        }
    }
    let body = json_body("1");
    let message = Subject { body: Some(&body), ..nothing() };
    assert!(!matches("header.tenant:42", message) && !matches("-header.tenant:42", message));
    assert!(matches("-42 -header.other:42 -error:* -status:>0 -url:* -host:*", message));
}

#[test]
fn a_field_is_what_was_written() {
    let json = r#"{"huge":1E400,"a":5,"id":9007199254740993,"deep":{"list":[0,{"x":null},"y"]},
        "a":{"b":1.50},"n\u00e4me":"caf\u00e9","s":"7","no":1e5}"#;
    for query in [
        "payload.$.id:9007199254740993",
        "payload.$.huge:1E400",
        "payload.$.huge:>1",
        "payload.$.a.b:1.50",
        "payload.$.a.b:1.5",
        "payload.$.no:100000",
        "payload.$.deep.list[1].x:null",
        "payload.$.deep.list[2]:y",
        "payload.$.näme:café",
        "payload.$.s:7",
    ] {
        assert!(holds(query, json), "{query}");
    }
    for query in [
        "payload.$.id:9007199254740992",
        "payload.$.a:5",
        "payload.$.s:>1",
        "payload.$.s.x:7",
        "payload.$.deep.list[3]:*",
        "payload.$.deep.list.x:*",
        "payload.$.deep.list[1]:*",
        "payload.$.huge:inf",
        "payload.$.näme:>0",
    ] {
        assert!(!holds(query, json), "{query}");
    }
    assert!(holds("payload.$:4*", "42") && holds("payload.$[1]:x", r#"[1,"x"]"#));
}

#[test]
fn values_may_be_quoted() {
    assert!(holds(r#"payload.$.a:"x \"y\" z" error:timeout"#, r#"{"a":"x \"y\" z"}"#));
    assert!(holds(r#"payload.$.a:"""#, r#"{"a":""}"#));
    assert!(!holds(r#"payload.$.a:"""#, r#"{"a":"x"}"#));
}

#[test]
fn a_payload_that_is_no_json_has_no_fields() {
    let raw =
        Content::Bytes { data: Bytes::from_static(b"{\"a\":1}"), content_type: String::new() };
    let body = Body::new(raw, BTreeMap::new());
    let message = Subject { body: Some(&body), ..nothing() };
    let matches = |query: &str| MessageQuery::parse(query).unwrap().matches(message, |_| false);
    assert!(matches("payload:\"a\"") && matches(r#"reason:"""#));
    assert!(!matches("payload.$.a:1") && !matches("error:*") && !matches("key:*"));
}

#[test]
fn secrets_match_nothing() {
    let body = json_body("1");
    let query = MessageQuery::parse("header.tenant:4*").unwrap();
    let message = Subject { body: Some(&body), ..nothing() };
    assert!(query.needs_body());
    assert!(query.matches(message, |_| false));
    assert!(!query.matches(message, |name| name == "Tenant"));
}

#[test]
fn what_cannot_be_read_is_refused() {
    for (query, reason) in [
        ("error: x", "has a term without a value"),
        ("a b:c", "has the unknown term b"),
        ("eror:x", "has the unknown term eror"),
        ("header.:x", "has the unknown term header."),
        ("payload.order:1", "has the unknown term payload.order"),
        ("payload.$order:1", "has the path $order"),
        ("payload.$.a..b:1", "has the path $.a..b"),
        ("payload.$.a[0:1", "has the path $.a[0"),
        ("payload.$.a[x]:1", "has the path $.a[x]"),
        ("payload.$.a]:1", "has the path $.a]"),
        ("attempts:many", "attempts must be a number"),
        ("attempts:>", "attempts must be a number"),
        ("priority:inf", "priority must be a number"),
        ("at:yesterday", "at must be an instant or a day"),
        ("published:>2026-13-01", "published must be an instant"),
        ("error:\"x", "has a quotation mark that is not closed"),
        ("error:\"x\"key:a", "needs a space"),
        ("\"x\"y", "needs a space"),
        ("\"x\":y", "needs a space"),
        ("\"\"", "has an empty word"),
        ("-\"\"", "has an empty word"),
        ("OR", "has OR without a term"),
        ("OR a", "has OR without a term"),
        ("a OR ", "has OR without a term"),
        ("a OR OR b", "has OR without a term"),
        ("a -OR b", "has -OR"),
        ("a -", "has -, where"),
        ("- a", "has -, where"),
        ("--a", "has --a, where"),
        ("-:a", "has the unknown term :"),
        ("http://a", "has the unknown term http:"),
        ("status:6xx", "status must be a status"),
        ("status:", "has a term without a value"),
    ] {
        let refused = MessageQuery::parse(query).unwrap_err();
        assert!(refused.starts_with(reason), "{query}: {refused}");
    }
    assert!(MessageQuery::parse(&"key:a ".repeat(16)).is_ok());
    assert!(MessageQuery::parse(&"-a OR ".repeat(17)).unwrap_err().contains("more than 16"));
    assert!(MessageQuery::parse(&"key:a ".repeat(17)).unwrap_err().contains("more than 16"));
    assert!(MessageQuery::parse(&"x".repeat(4097)).unwrap_err().contains("at most 4096"));
}
