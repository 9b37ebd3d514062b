//! Heads of requests: media types, `If-Match`, cursors.

use super::{Known, by_the_book, object};
use crate::{
    input::MediaType,
    request::{
        cursor::{MAX_CURSOR, open, seal},
        extract::{IfMatch, Payload},
    },
    server::budget::Budget,
};
use axum::http::{HeaderMap, HeaderValue, header};
use dueq_fuzz::{cases, number, spoilt, spoilt_text, text};
use dueq_model::{MEMBER_BYTES, State, TopicName};
use dueq_store::ListCursor;
use proptest::{collection::vec, prelude::*, sample::select};

const NOTHING: &[Known] = &[];

const STATES: [State; 6] =
    [State::Delayed, State::Ready, State::Blocked, State::Leased, State::Dead, State::Acked];

fn names() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9][a-zA-Z0-9_-]{0,40}"
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_body_of_another_type_is_refused_before_it_is_read(
        kind in spoilt(select(vec!["application/json; charset=utf-8", "application/x+json", "text/plain", "application/json;q"])),
        body in object(&[], NOTHING),
    ) {
        let Ok(value) = HeaderValue::from_bytes(&kind) else { return Ok(()) };
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, value)]);
        let _hold = Budget::new(0).hold();
        let payload = Payload { headers, bytes: body.into_bytes().into(), activity: None, _hold };
        let kind = kind.trim_ascii().to_ascii_lowercase();
        let json = kind.starts_with(b"application/") && kind.windows(4).any(|w| w == b"json");
        for read in [payload.json(), payload.json_or_none()] {
            match read {
                Ok(_) => prop_assert!(json),
                Err(problem) => by_the_book(problem)?,
            }
        }
    }

    #[test]
    fn a_media_type_that_is_taken_can_stand_in_a_header(kind in prop_oneof![text(), spoilt_text(Just("text/plain; charset=\"utf-8\""))]) {
        if MediaType::parse(&kind).is_some() {
            prop_assert!(HeaderValue::from_str(&kind).is_ok() && kind.contains('/') && kind.len() <= 255);
        }
    }

    #[test]
    fn if_match_has_the_revisions_that_it_names(
        revisions in vec(number(), 1..5),
        weak in any::<bool>(),
        junk in vec(spoilt(Just("\"7\", W/\"8\" , *")), 0..3),
    ) {
        let tags: Vec<_> = revisions.iter().map(|n| format!("\"{n}\"")).collect();
        let mut headers = HeaderMap::new();
        let line = if weak { format!("W/\"1\",, \"07\" , {}", tags.join(", ")) } else { tags.join(",") };
        headers.append(header::IF_MATCH, HeaderValue::from_str(&line).unwrap());
        prop_assert_eq!(IfMatch::of(&headers), IfMatch::OneOf(revisions.clone()));
        for junk in &junk {
            if let Ok(value) = HeaderValue::from_bytes(junk) {
                headers.append(header::IF_MATCH, value);
            }
        }
        match IfMatch::of(&headers) {
            IfMatch::None => prop_assert!(false, "it is there"),
            IfMatch::Any => prop_assert!(!junk.is_empty()),
            IfMatch::OneOf(all) => prop_assert!(all.starts_with(&revisions)),
        }
    }

    #[test]
    fn a_cursor_leads_back_to_its_place(
        (name, prefix) in (names(), names()),
        part in 0..2_u8,
        score in number(),
        member in any::<[u8; MEMBER_BYTES]>(),
        state in select(&STATES[..]),
    ) {
        let topic = TopicName::parse(&name).unwrap();
        let next = ListCursor { part, score, member };
        let list = ["messages", topic.as_str(), state.word(), ""];
        let cursor = seal(&list, &next);
        prop_assert!(cursor.len() <= MAX_CURSOR);
        prop_assert_eq!(open(&list, &cursor), Some(next));
        let cursor = seal(&["topics", &prefix], &name);
        prop_assert_eq!(open(&["topics", &prefix], &cursor), Some(name));
    }

    #[test]
    fn a_cursor_that_no_list_gave_out_opens_none(
        cursor in spoilt_text(Just("kS6c9ZfNn2gxMjM0NTY3ODkwYWJjZGVmZ2hpamts")),
        state in select(&STATES[..]),
    ) {
        let list = ["messages", "orders", state.word(), ""];
        prop_assert!(open::<ListCursor>(&list, &cursor).is_none());
        prop_assert_eq!(open::<String>(&["topics", ""], &cursor), None);
    }
}
