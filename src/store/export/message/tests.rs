//! Messages on their way into a dump and back.

use super::*;
use crate::fuzz::partition;
use dueq_model::TopicSettings;

fn stored(set: i64, score: i64, extra: &str, body: &[u8]) -> Stored {
    Stored {
        member: Bytes::from_static(b"\x01\x9a\xb0\0\0\x01abcde"),
        body: Bytes::copy_from_slice(body),
        set,
        score,
        extra: Bytes::copy_from_slice(extra.as_bytes()),
        events: Bytes::new(),
        expires: None,
        first_due: None,
        untold: None,
    }
}

fn message(stored: &Stored) -> Option<Message> {
    Message::of(stored, &partition(TopicSettings::default()), 20)
}

#[test]
fn a_message_comes_back_as_it_was() {
    let long = format!("{{\"c\":\"a\",\"q\":{{\"x\":\"{}\"}}}}", "1".repeat(100_000));
    for (extra, header) in [
        ("", "{\"c\":\"a\"}"),
        ("3,2,5,7,o60000,fixed;10,g,k", "{\"c\":\"a\"}"),
        ("0,0,,1,,schedule;1;2,f4.00000000002a,d,üa,b,c", &long),
    ] {
        let stored = stored(5, 17, extra, &Body::join(Some(header.as_bytes()), b"\0\xff"));
        let line = serde_json::to_string(&message(&stored).unwrap()).unwrap();
        let read: Message = serde_json::from_str(&line).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
        assert_eq!((read.extra(), read.check()), (extra.to_owned(), Ok(())), "{line}");
        assert_eq!(read.body().unwrap(), stored.body);
        assert_eq!(read.id().unwrap().0.member()[..], stored.member);
    }
}

#[test]
fn a_set_and_a_score_are_a_state_and_an_instant() {
    for (set, score, state, at) in [
        (1, 17 << 11 | 3, "leased", 17),
        (2, 17 << 11, "leased", 17),
        (3, 5 * RANK_BITS + 17, "ready", 17),
        (4, 21, "delayed", 21),
        (5, 20, "ready", 20),
        (7, 5, "dead", 5),
        (8, 5 << 11 | 1, "acked", 5),
    ] {
        let message = message(&stored(set, score, "", b"\x001")).unwrap();
        assert_eq!((&*message.state, message.at_ms), (state, at));
    }
}

#[test]
fn damage_is_no_message() {
    for (set, extra, body) in [
        (0, "", &b"\x001"[..]),
        (5, "", b"\x07"),
        (5, "1,x,,0", b"\x001"),
        (5, "0,0,,256", b"\x001"),
        (5, "0,0,,0,,what,,", b"\x001"),
        (5, "0,0,,0,,,9.00000000002a,a", b"\x001"),
        (6, "", b"\x001"),
    ] {
        assert!(message(&stored(set, 5, extra, body)).is_none(), "{extra}");
    }
}

#[test]
fn the_digest_is_of_what_time_does_not_change() {
    let digest = |set, extra, body| message(&stored(set, 5, extra, body)).unwrap().digest();
    let plain = digest(5, "", b"\x001");
    assert_eq!(digest(7, "3,3,,0", b"\x001"), plain);
    assert_ne!(digest(5, "", b"\x002"), plain);
    assert_ne!(digest(5, "0,0,,0,,,d,k", b"\x001"), plain);
}
