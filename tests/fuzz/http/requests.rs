//! The bodies of every route that takes one, and the query strings.

use super::{
    AUTHS, BOOLEANS, DELAYS, IDS, Known, MESSAGE, METHODS, PAYLOAD, RETRIES, TIMEOUTS, TOKENS,
    URLS, body, by_the_book, object, read,
};
use crate::{
    callbacks::ScheduleCallbackRequest,
    input::{Batch, Fields, Flat, LeaseMs, MediaType, request},
    leases::hold::NackFields,
    leases::lease::{LeaseAck, LeaseFromTopicsRequest},
    messages::fields::take_idempotency_header,
    messages::fingerprint::fingerprint,
    messages::publish::{PublishBatchRequest, PublishRawParams, PublishRequest},
    messages::{UpdateMessageRequest, search::ListMessagesParams},
    topics::bulk::{PurgeRequest, RunRequest},
};
use axum::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use dueq_fuzz::{cases, spoilt, text};
use dueq_model::{
    Body, Content, LEASE_CAP_MS, MAX_DELAY_MS, MAX_KEY_CHARS, MAX_TOPICS_LIMIT, MIN_LEASE_MS,
    TOKEN_MAX_CHARS,
};
use dueq_store::{self as store, Due, NackKind, NewMessage};
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
    ("result", &["null", "{\"a\": [1]}", "1E400"]),
    ("delay_ms", DELAYS),
    ("reason", &[r#""no""#, r#""\n\u0000""#]),
    ("dead", BOOLEANS),
    ("release", BOOLEANS),
];

const CALL: &[Known] = &[
    ("url", URLS),
    ("method", METHODS),
    ("timeout_ms", TIMEOUTS),
    ("connect_timeout_ms", TIMEOUTS),
    ("retry", RETRIES),
    ("auth", AUTHS),
];

request! {
    /// All that the holder of a lease can say.
    pub struct Holder {
        pub ack: Flat<LeaseAck>,
        pub nack: Flat<NackFields>,
        /// How long it wants the lease.
        pub lease_ms: LeaseMs,
    }
}

request! {
    /// Several of them.
    pub struct Holders {
        /// The holders.
        pub messages: Batch<Holder>,
    }
}

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
    fn a_publish_is_refused_or_is_stored_as_it_was_sent(body in body(&[PAYLOAD], &MESSAGE), key in prop::option::of(text())) {
        let header = key.and_then(|key| HeaderValue::from_str(&key).ok());
        let mut headers = HeaderMap::new();
        header.into_iter().for_each(|value| drop(headers.insert("idempotency-key", value)));
        let body_bytes = Bytes::copy_from_slice(&body);
        let message = Fields::of_json(&body_bytes).and_then(|mut fields| {
            take_idempotency_header(&mut fields, &headers);
            fields.read().map(PublishRequest::into_message)
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
    fn a_callback_is_refused_or_is_a_message_with_a_url(body in body(CALL, &MESSAGE)) {
        match read(&body).map(ScheduleCallbackRequest::into_message) {
            Ok(message) => {
                prop_assert!(message.body.callback.is_some());
                sound(&message, &body)?;
            }
            Err(problem) => by_the_book(problem)?,
        }
    }

    #[test]
    fn a_batch_is_refused_or_has_all_its_messages(
        items in vec(object(&[PAYLOAD], &MESSAGE), 0..5),
        odd in select(vec!["", ",1", ",null", ",[]", ","]),
        spoils in any::<bool>(),
        junk in spoilt(Just("{}")),
    ) {
        let mut body = format!("{{\"messages\":[{}{odd}]}}", items.join(",")).into_bytes();
        if spoils {
            body.splice(1..1, junk);
        }
        match read::<PublishBatchRequest>(&body) {
            Ok(PublishBatchRequest { messages }) => {
                let messages: Vec<_> = messages.0.into_iter().map(PublishRequest::into_message).collect();
                prop_assert_eq!(messages.len(), items.len());
                messages.iter().try_for_each(|message| sound(message, &body))?;
            }
            Err(problem) => by_the_book(problem)?,
        }
    }

    #[test]
    fn an_update_is_refused_or_is_within_bounds(body in body(&[], &MESSAGE)) {
        match read(&body).map(UpdateMessageRequest::into_update) {
            Ok(update) => {
                if let Some(content) = update.body.content {
                    let message = Body::new(content, update.body.headers.unwrap_or_default());
                    prop_assert_eq!(Body::decode(message.encode()).unwrap(), message);
                }
            }
            Err(problem) => by_the_book(problem)?,
        }
    }

    #[test]
    fn a_lease_request_is_refused_or_is_within_bounds(body in body(&[TOPICS], LEASE)) {
        match read::<LeaseFromTopicsRequest>(&body) {
            Ok(asked) => prop_assert!((1..=MAX_TOPICS_LIMIT).contains(&asked.topics.0.len())),
            Err(problem) => by_the_book(problem)?,
        }
    }

    #[test]
    fn what_a_holder_says_is_refused_or_is_within_bounds(body in body(HOLDER, HOLD)) {
        match read::<Holder>(&body) {
            Ok(Holder { ack, nack, lease_ms }) => {
                let nack = store::NackRequest::from(nack.0);
                prop_assert!((1..=TOKEN_MAX_CHARS).contains(&ack.lease.lease_token.chars().count()));
                prop_assert!(nack.kind != NackKind::Dead || nack.delay_ms.is_none());
                prop_assert!((MIN_LEASE_MS..=LEASE_CAP_MS).contains(&lease_ms.get()));
            }
            Err(problem) => by_the_book(problem)?,
        }
    }

    #[test]
    fn batches_of_holders_are_refused_or_whole(items in vec(object(HOLDER, HOLD), 0..5)) {
        let body = format!("{{\"messages\":[{}]}}", items.join(","));
        match read::<Holders>(body.as_bytes()) {
            Ok(holders) => prop_assert_eq!(holders.messages.0.len(), items.len()),
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
            "state=dead&q=error%3A%22timeout%20*%22+payload.%24.a%5B0%5D%3A%3E1&dry_run=true",
        ])),
    ) {
        let pairs: Vec<_> = form_urlencoded::parse(&query).collect();
        match Fields::of_query(&pairs).read::<PublishRawParams>() {
            Ok(params) => {
                let media_type = MediaType::parse("text/plain").unwrap();
                sound(&params.into_message(Bytes::from_static(b"x"), media_type), b"x")?;
            }
            Err(problem) => by_the_book(problem)?,
        }
        for problem in [
            Fields::of_query(&pairs).read::<ListMessagesParams>().err(),
            Fields::of_query(&pairs).read::<PurgeRequest>().err(),
            Fields::of_query(&pairs).read::<RunRequest>().err(),
            Fields::of_query(&pairs).read::<PublishRequest>().err(),
        ] {
            problem.map_or(Ok(()), by_the_book)?;
        }
    }
}
