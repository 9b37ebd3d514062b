//! What is read back from Redis: bodies, events, configurations, policies, ids, tokens.

use crate::{backoff, body, cases, headers, number, spoilt, spoilt_text, text};
use bytes::Bytes;
use dueq_model::*;
use proptest::{collection::vec, prelude::*, sample::select};

fn id() -> impl Strategy<Value = MessageId> {
    any::<u128>().prop_map(|bits| {
        let hex = format!("{bits:032x}");
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        MessageId::parse(&parts.join("-")).unwrap()
    })
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_body_comes_back_as_it_was_stored(body in body()) {
        prop_assert_eq!(Body::decode(body.encode()).unwrap(), body);
    }

    #[test]
    fn a_damaged_body_is_refused_or_is_one(stored in spoilt(body().prop_map(|b| b.encode()))) {
        if let Ok(body) = Body::decode(Bytes::from(stored)) {
            prop_assert_eq!(Body::decode(body.encode()).unwrap(), body);
        }
    }

    #[test]
    fn any_bytes_are_refused_as_a_body_or_are_one(tag in 0..3_u8, length in any::<u16>(), rest in vec(any::<u8>(), 0..90)) {
        // The length of the header is mostly a wrong one.
        let short = (length % 100).to_be_bytes();
        for length in [length.to_be_bytes(), short] {
            let _ = Body::decode([&[tag], &length[..], &rest].concat().into());
        }
        let _ = Body::decode(rest.into());
    }

    #[test]
    fn events_come_back_and_damaged_lines_are_left_out(
        written in vec(("[gGnrxudvc]", number(), 0..9_u32, prop::option::of(text())), 0..30),
        noise in text(),
    ) {
        let line = |(letter, at, attempt, reason): &(String, i64, u32, Option<String>)| match reason {
            Some(reason) => format!("{letter} {at} {attempt} {}\n", serde_json::to_string(reason).unwrap()),
            None => format!("{letter} {at} {attempt}\n"),
        };
        let lines: String = written.iter().map(line).collect();
        let read = Event::read_all(&lines);
        prop_assert_eq!(read.len(), written.len());
        for (event, (_, at, attempt, reason)) in read.iter().zip(&written) {
            prop_assert_eq!(event.at, *at);
            prop_assert_eq!(event.attempt.unwrap_or(0), *attempt);
            prop_assert_eq!(&event.reason, reason);
        }
        let all = Event::read_all(&format!("{noise}\n{lines}{noise}"));
        prop_assert!(all.len() >= written.len() && all.len() <= written.len() + 2 * (noise.lines().count() + 1));
    }

    #[test]
    fn damaged_events_are_read_as_far_as_they_go(
        lines in spoilt_text(Just("n 1700000000000 1 \"no\"\nG 1 2\nc 5 3 {\"status\":500,\"duration_ms\":7}\n")),
    ) {
        prop_assert!(Event::read_all(&lines).len() <= lines.lines().count());
    }

    #[test]
    fn a_policy_comes_back_from_its_text_and_from_json(policy in backoff()) {
        let script = policy.to_script();
        prop_assert_eq!(Backoff::from_script(&script), Some(policy.clone()));
        let json = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(serde_json::from_str::<Backoff>(&json).unwrap(), policy);
    }

    #[test]
    fn a_damaged_policy_is_refused_or_is_one(script in spoilt_text(backoff().prop_map(|policy| policy.to_script()))) {
        if let Some(policy) = Backoff::from_script(&script) {
            let again = Backoff::from_script(&policy.to_script());
            // NaN is not itself.
            prop_assert_eq!(format!("{:?}", again), format!("{:?}", Some(policy)));
        }
    }

    #[test]
    fn a_damaged_configuration_is_refused_or_is_one(
        backoff in backoff(),
        numbers in vec(number(), 5),
        push in any::<bool>(),
        rate in prop::option::of(0.01..=100_000.0),
        headers in headers(),
        spoils in any::<u64>(),
        damaged in spoilt(Just(r#"{"lease_ms":1000,"retention":{"acked_ms":1},"push":{"url":"http://a.example","secrets":["x"]}}"#)),
    ) {
        let settings = TopicSettings {
            backoff,
            lease_ms: numbers[0],
            ttl_ms: Some(numbers[1]).filter(|_| spoils % 2 == 0),
            max_messages: Some(numbers[2]).filter(|_| spoils % 3 == 0),
            retention: Retention {
                acked_ms: numbers[3],
                acked_max: numbers[2],
                dead_ms: numbers[4],
                dead_max: numbers[0],
                ..Retention::default()
            },
            push: push.then(|| Push { rate_per_s: rate, headers, ..Push::default() }),
            ..TopicSettings::default()
        };
        let json = serde_json::to_string(&settings).unwrap();
        prop_assert_eq!(serde_json::from_str::<TopicSettings>(&json).unwrap(), settings);
        let _ = serde_json::from_slice::<TopicSettings>(&damaged);
    }

    #[test]
    fn an_id_comes_back_from_its_text_and_from_its_member(id in id()) {
        prop_assert_eq!(MessageId::parse(&id.to_string()), Ok(id));
        prop_assert_eq!(MessageId::parse(&id.to_string().to_uppercase()), Ok(id));
        if let Some(route) = id.route() {
            prop_assert_eq!(MessageId::from_member(&id.member(), route), id);
            prop_assert!(route.topic.0 <= TopicNumber::MOST);
        }
        prop_assert!((0..1 << 48).contains(&id.published()));
    }

    #[test]
    fn a_spoilt_id_is_refused_or_is_one(text in spoilt_text(id().prop_map(|id| id.to_string()))) {
        if let Ok(id) = MessageId::parse(&text) {
            prop_assert_eq!(id.to_string(), text.to_lowercase());
        }
    }

    #[test]
    fn a_token_opens_for_its_own_message_only(
        secret in any::<[u8; 16]>(),
        (id, other) in (id(), id()),
        attempt in any::<u32>(),
        id_of_epoch in "[0-9a-f]{40}",
        granted_at in 0..1_i64 << 48,
        last in any::<bool>(),
    ) {
        let epoch = Epoch::parse(&id_of_epoch).unwrap();
        let (key, claims) = (TokenKey::new(secret), LeaseClaims { attempt, epoch, granted_at, last });
        let token = key.seal(&id, &claims);
        prop_assert!(token.len() <= TOKEN_MAX_CHARS);
        prop_assert_eq!(key.open(&id, &token), Some(claims));
        prop_assert!(other == id || key.open(&other, &token).is_none());
        prop_assert_eq!(TokenKey::new(secret.map(|byte| !byte)).open(&id, &token), None);
    }

    #[test]
    fn a_forged_token_does_not_open(id in id(), forged in spoilt_text(Just("AAAAAZr2nVoBmi3FQ1YAAM0xJ8yfHqJv")), spoils in any::<u64>()) {
        let key = TokenKey::new(*b"sixteen bytes of");
        prop_assert_eq!(key.open(&id, &forged), None);
        let claims = LeaseClaims { attempt: 1, epoch: Epoch::of_run("2"), granted_at: 3, last: false };
        let mut token = key.seal(&id, &claims).into_bytes();
        let at = spoils as usize % token.len();
        token[at] = if token[at] == b'A' { b'B' } else { b'A' };
        prop_assert_eq!(key.open(&id, std::str::from_utf8(&token).unwrap()), None);
    }

    #[test]
    fn what_is_masked_comes_back_where_it_is_put_back(headers in headers(), other in headers()) {
        let shown = masked(&headers, is_credential);
        let secret = |name: &str| ["authorization", "cookie"].contains(&name.to_lowercase().as_str());
        prop_assert!(shown.iter().all(|(name, value)| !secret(name) || value == MASK));
        prop_assert_eq!(unmasked(&shown, &headers, is_credential, false), Ok(headers));
        if let Ok(kept) = unmasked(&other, &shown, is_credential, false) {
            prop_assert_eq!(kept.len(), other.len());
        }
    }

    #[test]
    fn a_name_of_a_topic_has_the_characters_of_one(name in prop_oneof![text(), spoilt_text(Just("orders-eu.v2_x"))]) {
        let fits = (1..=128).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b))
            && !name.starts_with(['.', '-'])
            && !name.contains("..");
        prop_assert_eq!(TopicName::parse(&name).is_ok(), fits);
        prop_assert_eq!(ScheduleName::parse(&name).is_ok(), fits && !name.starts_with('_'));
        let json = serde_json::to_string(&name).unwrap();
        prop_assert_eq!(serde_json::from_str::<TopicName>(&json).is_ok(), fits);
    }

    #[test]
    fn a_secret_is_kept_whole_and_never_shown(bytes in vec(any::<u8>(), 0..80), spoils in select(vec!["", "=", " ", "_", "whsec_"])) {
        use base64::{Engine, engine::general_purpose::STANDARD};
        let text = format!("whsec_{}", STANDARD.encode(&bytes));
        match SigningSecret::parse(&text) {
            Ok(secret) => {
                prop_assert_eq!(secret.key(), Some(bytes.clone()));
                prop_assert_eq!(format!("{secret:?}"), "SigningSecret(***)");
            }
            Err(_) => prop_assert!(!(24..=64).contains(&bytes.len())),
        }
        if !spoils.is_empty() {
            let spoilt = spoils.to_owned() + &text;
            prop_assert!(SigningSecret::parse(&spoilt).is_err());
        }
    }
}
