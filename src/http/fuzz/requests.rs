//! The bodies of every route that takes one, and the query strings.

use super::{
    BOOLEANS, DELAYS, IDS, Known, MESSAGE, METHODS, PAYLOAD, TIMEOUTS, TOKENS, URLS, body,
    by_the_book, object, read,
};
use crate::http::{
    callbacks,
    fields::Fields,
    fingerprint::fingerprint,
    hold::{read_lease_ms, read_nack},
    lease::{Asked, read_ack},
    lease_topics::read_topics,
    message_fields::{read_idempotency_header, read_message, read_raw_message},
    update::read_update,
};
use crate::model::fuzz::{cases, spoilt, text};
use crate::model::{
    Body, Content, LEASE_CAP_MS, MAX_DELAY_MS, MAX_KEY_CHARS, MAX_MESSAGES_LIMIT, MAX_TOPICS_LIMIT,
    MIN_LEASE_MS, TOKEN_MAX_CHARS,
};
use crate::store::{Due, NackKind, NewMessage};
use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use proptest::{collection::vec, prelude::*, sample::select};

const TOPICS: Known = ("topics", &[r#"["a"]"#, r#"["a","b"]"#, r#"["a","a"]"#, "[]"]);

const LEASE: &[Known] = &[
    ("max_messages", &["1", "1000"]),
    ("max_bytes", &["1", "16777216"]),
    ("lease_ms", &["1000", "43200000"]),
    ("wait_ms", &["0", "60000"]),
    (
        "acks",
        &["[]", r#"[{"id":"019ab000-0000-8000-8000-000000000000","lease_token":"x"}]"#, "[{}]"],
    ),
];

const HOLDER: &[Known] =
    &[("id", IDS), ("lease_token", TOKENS), ("lease_ms", &["1000", "43200000"])];

const HOLD: &[Known] = &[
    ("delay_ms", DELAYS),
    ("reason", &[r#""no""#, r#""\n\u0000""#]),
    ("dead", BOOLEANS),
    ("release", BOOLEANS),
];

const CALL: &[Known] = &[("url", URLS), ("method", METHODS), ("timeout_ms", TIMEOUTS)];

/// What a message that was taken must keep: its body as it will be stored, its options within the contract's bounds.
fn sound(message: &NewMessage, sent: &[u8]) -> Result<(), TestCaseError> {
    let NewMessage { body, due, options } = message;
    prop_assert_eq!(&Body::decode(body.encode()).unwrap(), body);
    if let Content::Json(json) = &body.content {
        prop_assert!(serde_json::from_slice::<&serde_json::value::RawValue>(json).is_ok());
        prop_assert!(sent.windows(json.len()).any(|part| part == &json[..]));
    }
    if let Due::After(delay) = due {
        prop_assert!((0..=MAX_DELAY_MS as i64).contains(delay));
    }
    prop_assert!(options.max_attempts.is_none_or(|most| (1..=1_000).contains(&most)));
    prop_assert!(options.ttl_ms.is_none_or(|ttl| (1..=MAX_DELAY_MS as i64).contains(&ttl)));
    if let Some(key) = &options.key {
        prop_assert!((1..=MAX_KEY_CHARS).contains(&key.name.chars().count()));
    }
    prop_assert!(
        body.headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() <= 8_192
    );
    prop_assert_eq!(fingerprint(message), fingerprint(&message.clone()));
    Ok(())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_publish_is_refused_or_is_stored_as_it_was_sent(body in body(&[PAYLOAD], MESSAGE), key in prop::option::of(text())) {
        let header = key.and_then(|key| HeaderValue::from_str(&key).ok());
        let mut headers = HeaderMap::new();
        header.into_iter().for_each(|value| drop(headers.insert("idempotency-key", value)));
        let message = read(&body, |fields, bytes| {
            let key = read_idempotency_header(fields, &headers);
            read_message(fields, bytes, key)
        });
        match message {
            Ok(message) => {
                sound(&message, &body)?;
                prop_assert!(headers.is_empty() || message.options.idempotency.is_some());
            }
            Err(problem) => by_the_book(problem)?,
        }
    }

    #[test]
    fn a_callback_is_refused_or_is_a_message_with_a_url(body in body(CALL, MESSAGE)) {
        match read(&body, |fields, bytes| callbacks::read(fields, bytes, None)) {
            Ok(message) => {
                prop_assert!(message.body.callback.is_some());
                sound(&message, &body)?;
            }
            Err(problem) => by_the_book(problem)?,
        }
    }

    #[test]
    fn a_batch_is_refused_or_has_all_its_messages(
        items in vec(object(&[PAYLOAD], MESSAGE), 0..5),
        odd in select(vec!["", ",1", ",null", ",[]", ","]),
        spoils in any::<bool>(),
        junk in spoilt(Just("{}")),
    ) {
        let mut body = format!("{{\"messages\":[{}{odd}]}}", items.join(",")).into_bytes();
        if spoils {
            body.splice(1..1, junk);
        }
        let read_one = |bytes: &Bytes, fields: &mut Fields<'_>| Some(read_message(fields, bytes, None));
        match read(&body, |fields, bytes| fields.batch(|fields| read_one(bytes, fields))) {
            Ok(messages) => {
                prop_assert_eq!(messages.len(), items.len());
                messages.iter().try_for_each(|message| sound(message, &body))?;
            }
            Err(problem) => by_the_book(problem)?,
        }
    }

    #[test]
    fn an_update_is_refused_or_is_within_bounds(body in body(&[], MESSAGE)) {
        match read(&body, read_update) {
            Ok(update) => {
                if let Some(content) = update.content {
                    let message = Body::new(content, update.headers.unwrap_or_default());
                    prop_assert_eq!(Body::decode(message.encode()).unwrap(), message);
                }
            }
            Err(problem) => by_the_book(problem)?,
        }
    }

    #[test]
    fn a_lease_request_is_refused_or_is_within_bounds(body in body(&[TOPICS], LEASE)) {
        let asked = read(&body, |fields, _| {
            let topics = read_topics(fields);
            Asked::read(fields);
            topics
        });
        match asked {
            Ok(topics) => prop_assert!((1..=MAX_TOPICS_LIMIT).contains(&topics.len())),
            Err(problem) => by_the_book(problem)?,
        }
    }

    #[test]
    fn what_a_holder_says_is_refused_or_is_within_bounds(body in body(HOLDER, HOLD)) {
        let held = read(&body, |fields, _| (read_ack(fields), read_nack(fields), read_lease_ms(fields)));
        match held {
            Ok((holder, nack, lease_ms)) => {
                let (_, token) = holder.unwrap();
                prop_assert!((1..=TOKEN_MAX_CHARS).contains(&token.chars().count()));
                prop_assert!(nack.kind != NackKind::Dead || nack.delay_ms.is_none());
                prop_assert!((MIN_LEASE_MS..=LEASE_CAP_MS).contains(&lease_ms.unwrap()));
            }
            Err(problem) => by_the_book(problem)?,
        }
    }

    #[test]
    fn batches_of_holders_are_refused_or_whole(items in vec(object(HOLDER, HOLD), 0..5)) {
        let body = format!("{{\"messages\":[{}]}}", items.join(","));
        let batch = read(body.as_bytes(), |fields, _| {
            fields.batch(|fields| {
                let (holder, _, lease_ms) = (read_ack(fields), read_nack(fields), read_lease_ms(fields));
                holder.zip(lease_ms)
            })
        });
        match batch {
            Ok(holders) => prop_assert_eq!(holders.len(), items.len()),
            Err(problem) => by_the_book(problem)?,
        }
    }

    #[test]
    fn a_query_is_refused_or_is_within_bounds(
        query in spoilt(select(vec![
            "delay_ms=1&priority=3&key=a%2Cb&on_duplicate=replace&max_attempts=9",
            "deliver_at=2100-01-01T02%3A00%3A00%2B02%3A00&ttl_ms=5&idempotency_key=x",
            "state=ready&payload=true&limit=1000&cursor=AAAA&states=dead&force=true",
            "bucket_ms=1&buckets=1000&prefix=%ff&max_messages=7",
        ])),
    ) {
        let pairs: Vec<(String, String)> = form_urlencoded::parse(&query).into_owned().collect();
        let mut fields = Fields::of_query(&pairs);
        let content = Content::Json(Bytes::from_static(b"null"));
        let message = read_raw_message(&mut fields, content, None);
        match fields.finish() {
            Ok(()) => sound(&message, b"null")?,
            Err(problem) => by_the_book(problem)?,
        }
        let mut fields = Fields::of_query(&pairs);
        let limit = fields.integer("limit", 1..=MAX_MESSAGES_LIMIT);
        prop_assert!(limit.is_none_or(|limit| (1..=MAX_MESSAGES_LIMIT).contains(&limit)));
        fields.boolean("payload");
        fields.raw("cursor");
        fields.choices::<u8>("states", &[("dead", 1)]);
        fields.string_map("key");
        fields.number("ttl_ms", 0.0..=1.0);
        if let Err(problem) = fields.finish() {
            by_the_book(problem)?;
        }
    }
}
