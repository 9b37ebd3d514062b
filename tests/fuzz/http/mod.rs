//! Requests made up from what routes know, right, half right and spoilt: every reader takes them or refuses them with
//! one of the contract's statuses, in an answer that does not grow with what was sent.

mod answers;
mod heads;
mod names;
mod requests;
mod settings;

use super::{
    input::{Fields, Request},
    messages::publish::PublishRequest,
    openapi::describe::{Declared, Description},
    problem::Problem,
};
use axum::{http::StatusCode, response::IntoResponse};
use bytes::Bytes;
use dueq_fuzz::{cases, piece, soon, spoilt, text};
use proptest::{collection::vec, prelude::*, sample::select, sample::subsequence};
use std::sync::LazyLock;

/// A field and its possible values.
type Known = (&'static str, &'static [&'static str]);

const BACKOFFS: &[&str] = &[
    "{}",
    r#"{"kind":"fixed","base_ms":5}"#,
    r#"{"kind":"exponential","factor":1.1,"jitter":0,"max_ms":1e3}"#,
    r#"{"kind":"schedule","delays_ms":[1,2,315360000000]}"#,
];
const HEADERS: &[&str] = &[
    "{}",
    r#"{"x":"y","Cookie":"***"}"#,
    r#"{"authorization":"Bearer a","Authorization":"***","caf\u00e9":"1"}"#,
    r#"{"webhook-id":"1"}"#,
];
const DELAYS: &[&str] = &["0", "1", "60000", "1.0", "1e3", "315360000000"];
const INSTANTS: &[&str] = &[
    r#""2100-01-01T00:00:00Z""#,
    r#""1969-12-31T23:59:60.9999+14:00""#,
    r#""9999-12-31t23:59:59z""#,
];
const URLS: &[&str] = &[
    r#""https://a.example/""#,
    r#""http://[::1]:1/x""#,
    r#""HTTP://0x7f.1""#,
    r#""http://b\u00fc.example/?q#f""#,
];
const METHODS: &[&str] = &[r#""POST""#, r#""DELETE""#, "null"];
const TIMEOUTS: &[&str] = &["100", "1800000"];
const RETRIES: &[&str] =
    &[r#"{"on":["5xx","timeout"],"never":["501"]}"#, r#"{"on":["5xx","5xx"]}"#, "{}"];
const AUTHS: &[&str] = &[
    r#"{"kind":"basic","username":"a","password":"b"}"#,
    r#"{"kind":"oauth2","token_url":"https://a.example","client_id":"a","client_secret":"***"}"#,
    r#"{"kind":"oauth2","token_url":"https://a.example","client_id":"a","client_secret":"b","scope":"c"}"#,
    r#"{"kind":"basic","client_id":"a"}"#,
];
const COMPLETIONS: &[&str] =
    &[r#"{"url":"https://a.example/done"}"#, r#"{"topic":"done"}"#, r#"{"topic":"_pushed"}"#, "{}"];
const CALLBACKS: &[&str] = &[
    r#"{"url":"https://a.example"}"#,
    r#"{"url":"http://8.8.8.8","method":"GET","timeout_ms":100}"#,
    "null",
    "{}",
];
const IDS: &[&str] = &[r#""019ab000-0000-8000-8000-000000000000""#, r#""x""#];
const TOKENS: &[&str] = &[r#""AAAAAZr2nVoBmi3FQ1YAAM0xJ8yfHqJv""#, r#""""#];
const BOOLEANS: &[&str] = &["true", "false", "null"];
const KEYS: &[&str] = &[r#""order-42""#, r#""\u0000""#, r#""\ud83d\ude00""#, r#""a,b;c""#];

const PAYLOAD: Known =
    ("payload", &["1", "null", r#"{"a":[1,"x"],"a":2}"#, "-0", "1E400", r#""\ud800""#]);

/// The fields of a request, each with the edges of what its schema allows; `given` has those of which it does not say enough,
/// or, without values, those that are left out.
fn fields_of<T: Declared>(given: &[Known]) -> &'static [Known] {
    let object = Description::of::<T>();
    let json = |schema| serde_json::to_value(schema).unwrap();
    let known = object.properties.iter().filter_map(|property| {
        let name = property.name;
        if let Some(known) = given.iter().find(|(given, _)| *given == name) {
            return Some(*known).filter(|(_, values)| !values.is_empty());
        }
        let mut schema = json(&property.schema);
        if let Some(component) = schema["$ref"].as_str().and_then(|it| it.rsplit('/').next()) {
            let mut components = object.components.iter();
            schema = json(&components.find(|(name, _)| name == component).unwrap().1);
        }
        let edges = ["minimum", "maximum"].map(|edge| schema[edge].clone()).into_iter();
        let words = schema["enum"].as_array().cloned().unwrap_or_default();
        let mut values: Vec<_> = edges.filter(|edge| !edge.is_null()).chain(words).collect();
        assert!(!values.is_empty(), "give values of {name}");
        values.push(serde_json::Value::Null);
        let values = values.iter().map(|value| &*value.to_string().leak());
        Some((name, &*values.collect::<Vec<_>>().leak()))
    });
    known.collect::<Vec<_>>().leak()
}

/// The fields of a message, its payload apart.
static MESSAGE: LazyLock<&'static [Known]> = LazyLock::new(|| {
    fields_of::<PublishRequest>(&[
        ("payload", &[]),
        ("delay_ms", DELAYS),
        ("deliver_at", INSTANTS),
        (
            "debounce",
            &[r#"{"key":"k","delay_ms":1,"max_wait_ms":2}"#, r#"{"key":"k","delay_ms":0}"#],
        ),
        ("throttle", &[r#"{"key":"k","every_ms":1}"#, r#"{"key":"","every_ms":1}"#]),
        ("once", &[r#"{"key":"k","for_ms":1}"#, r#"{"key":"k"}"#]),
        ("key", KEYS),
        ("group", KEYS),
        ("idempotency_key", KEYS),
        (
            "traceparent",
            &[r#""00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01""#, r#""x""#],
        ),
        ("backoff", BACKOFFS),
        ("headers", HEADERS),
        ("callback", CALLBACKS),
        ("on_done", COMPLETIONS),
        ("on_dead", COMPLETIONS),
        ("payload_base64", &[r#""aGVsbG8=""#, r#""""#, r#""aGVsbG8""#]),
        ("content_type", &[r#""image/png""#, r#""text/plain; charset=utf-8""#, r#""x""#]),
    ])
});

/// A JSON value as people might write it.
fn value() -> impl Strategy<Value = String> {
    let numbers = [
        "0",
        "-0",
        "1",
        "-1",
        "1.5",
        "1e3",
        "1e999",
        "-1e-999",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "0.1e1",
        "00",
        "0x1",
        "+1",
        "NaN",
        "12345678901234567890123456789012345678901",
    ];
    let leaf = prop_oneof![
        select(numbers.to_vec()).prop_map(str::to_owned),
        select(vec!["null", "true", "false", "\"\"", "\"\\ud800\"", "\"5\""])
            .prop_map(str::to_owned),
        text().prop_map(|text| serde_json::to_string(&text).unwrap()),
        piece(),
    ];
    let nested = leaf.prop_recursive(4, 24, 4, |inner| {
        let member = (text(), inner.clone());
        prop_oneof![
            vec(inner, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
            vec(member, 0..4).prop_map(|all| {
                let member = |(name, value): &(String, String)| {
                    format!("{}:{value}", serde_json::to_string(name).unwrap())
                };
                format!("{{{}}}", all.iter().map(member).collect::<Vec<_>>().join(", "))
            }),
        ]
    });
    let deep = (select(vec![("[", "]"), ("{\"a\":", "}")]), 50..80_usize).prop_map(
        |((open, close), levels)| format!("{}1{}", open.repeat(levels), close.repeat(levels)),
    );
    prop_oneof![20 => nested, 1 => deep]
}

/// An object of the fields that are `needed` and some that are `known`: mostly with their possible values, now and then
/// with something else, one twice, one missing, or one that nobody knows.
fn object(needed: &'static [Known], known: &'static [Known]) -> impl Strategy<Value = String> {
    let some = subsequence(known.to_vec(), 0..=known.len().min(4));
    let all = (some, 0..40_u8).prop_map(|(some, lacking)| {
        let needed = needed.iter().copied().skip((lacking == 0).into());
        needed.chain(some).collect::<Vec<_>>()
    });
    let members = all.prop_shuffle().prop_flat_map(|fields| {
        let member = |(name, values): Known| {
            let value = prop_oneof![30 => select(values).prop_map(str::to_owned), 1 => value()];
            value.prop_map(move |value| format!("\"{name}\": {value}"))
        };
        fields.into_iter().map(member).collect::<Vec<_>>()
    });
    let odd = (text(), value())
        .prop_map(|(name, value)| format!("{}:{value}", serde_json::to_string(&name).unwrap()));
    let odd = prop_oneof![19 => Just(None), 1 => odd.prop_map(Some)];
    (members, odd, 0..40_u8).prop_map(|(mut members, odd, twice)| {
        members.extend(odd);
        members.extend(members.first().cloned().filter(|_| twice == 0));
        format!("{{{}}}", members.join(",\n "))
    })
}

/// The same as a body, whole or spoilt.
fn body(needed: &'static [Known], known: &'static [Known]) -> impl Strategy<Value = Vec<u8>> {
    let whole = object(needed, known).prop_map(String::into_bytes);
    prop_oneof![2 => whole, 1 => spoilt(object(needed, known))]
}

/// Reads a body as a route does.
fn read<T: Request>(body: &[u8]) -> Result<T, Problem> {
    soon(|| Fields::of_json(&Bytes::copy_from_slice(body))?.read())
}

/// A refusal is one of those that bad input may have, and says what is wrong in a bounded answer.
fn by_the_book(problem: Problem) -> Result<(), TestCaseError> {
    let answer = serde_json::to_vec(&problem.body("id")).unwrap();
    prop_assert!(answer.len() < 200_000, "{} bytes", answer.len());
    let status = problem.into_response().status();
    let known = [
        StatusCode::BAD_REQUEST,
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        StatusCode::UNPROCESSABLE_ENTITY,
    ];
    prop_assert!(known.contains(&status), "{status}");
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_body_is_taken_as_an_object_exactly_where_it_is_one(body in prop_oneof![body(&[PAYLOAD], &MESSAGE), spoilt(value())]) {
        let parsed = serde_json::from_slice::<serde_json::Value>(&body);
        let bytes = Bytes::copy_from_slice(&body);
        match soon(|| Fields::of_json(&bytes)) {
            Ok(_) => {
                // Lone surrogates and numbers beyond every double are JSON all the same.
                let text = std::str::from_utf8(&body).unwrap();
                prop_assert!(parsed.is_ok_and(|value| value.is_object()) || text.contains("\\u") || text.contains(['e', 'E']));
            }
            Err(problem) => {
                prop_assert!(!parsed.is_ok_and(|value| value.is_object() && levels(&value) <= 64));
                by_the_book(problem)?;
            }
        }
    }
}

/// Levels of nesting of a value.
fn levels(value: &serde_json::Value) -> usize {
    use serde_json::Value::{Array, Object};
    match value {
        Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Object(members) => 1 + members.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}
