//! What queries match, and what is no query.

use super::*;
use bytes::Bytes;
use std::collections::BTreeMap;

const NOTHING: Subject<'_> = Subject {
    error: None,
    key: None,
    group: None,
    attempts: 0,
    priority: 0,
    at: 0,
    published: 0,
    body: None,
};

fn json_body(json: &'static str) -> Body {
    let headers = BTreeMap::from([("Tenant".to_owned(), "42".to_owned())]);
    Body::new(Content::Json(Bytes::from_static(json.as_bytes())), headers)
}

fn holds(query: &str, json: &'static str) -> bool {
    let body = json_body(json);
    let message = Subject {
        error: Some("Timeout after 30 s"),
        key: Some("cart/7"),
        group: Some("customer 5"),
        attempts: 4,
        priority: 9,
        // 2026-11-20T12:00:00Z
        at: 1_795_176_000_000,
        published: 1_795_089_600_000,
        body: Some(&body),
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
    ] {
        assert!(holds(query, json), "{query}");
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
    ] {
        assert!(!holds(query, json), "{query}");
    }
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
    let message = Subject { body: Some(&body), ..NOTHING };
    let matches = |query: &str| MessageQuery::parse(query).unwrap().matches(message, |_| false);
    assert!(matches("payload:\"a\"") && matches(r#"reason:"""#));
    assert!(!matches("payload.$.a:1") && !matches("error:*") && !matches("key:*"));
}

#[test]
fn secrets_match_nothing() {
    let body = json_body("1");
    let query = MessageQuery::parse("header.tenant:4*").unwrap();
    let message = Subject { body: Some(&body), ..NOTHING };
    assert!(query.needs_body());
    assert!(query.matches(message, |_| false));
    assert!(!query.matches(message, |name| name == "Tenant"));
}

#[test]
fn what_cannot_be_read_is_refused() {
    for (query, reason) in [
        ("timeout", "has the term timeout without a name"),
        ("error: x", "has a term without a value"),
        ("a b:c", "has the term a without a name"),
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
    ] {
        let refused = MessageQuery::parse(query).unwrap_err();
        assert!(refused.starts_with(reason), "{query}: {refused}");
    }
    assert!(MessageQuery::parse(&"key:a ".repeat(16)).is_ok());
    assert!(MessageQuery::parse(&"key:a ".repeat(17)).unwrap_err().contains("more than 16"));
    assert!(MessageQuery::parse(&"x".repeat(4097)).unwrap_err().contains("at most 4096"));
}
