//! Messages on their way into a dump and back.

use super::*;
use dueq_model::TopicSettings;
use dueq_store::fuzz::partition;

fn stored(set: i64, score: i64, extra: &str, body: &'static [u8]) -> Stored {
    Stored {
        member: Bytes::from_static(b"\x01\x9a\xb0\0\0\x01abcde"),
        body: Bytes::from_static(body),
        set,
        score,
        extra: Bytes::copy_from_slice(extra.as_bytes()),
        events: Bytes::new(),
        expires: None,
        first_due: None,
        untold: None,
    }
}

#[test]
fn what_a_message_says_of_itself_comes_back_as_it_was() {
    let partition = partition(TopicSettings::default());
    for extra in [
        "",
        "3,2,,7",
        "1,1,5,0",
        "0,0,,0,,,d,a,b,c",
        "3,2,5,7,o60000,fixed;10,g,k",
        "0,0,,0,5,exponential;1000;2.5;3600000;0.1,,",
        "0,0,,0,,,4.00000000002a,d,ü",
        "0,0,,1,,schedule;1;2,f4.00000000002a,d,üa,b,c",
    ] {
        let stored = stored(5, 17, extra, b"\x01\0\x09{\"c\":\"a\"}\0\xff");
        let message = Message::of(&stored, &partition, 20).unwrap();
        let line = serde_json::to_string(&message).unwrap();
        let read: Message = serde_json::from_str(&line).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
        assert_eq!((read.extra(), read.check()), (extra.to_owned(), Ok(())), "{line}");
        assert_eq!(read.body().unwrap(), stored.body);
        assert_eq!(read.id().unwrap().0.member()[..], stored.member);
    }
}

#[test]
fn a_header_of_more_than_64_kib_comes_back_as_it_was() {
    let header = format!("{{\"c\":\"a\",\"q\":{{\"x\":\"{}\"}}}}", "1".repeat(100_000));
    let body = Body::join(Some(header.as_bytes()), b"\0\xff");
    let stored = Stored { body: body.clone(), ..stored(5, 17, "", b"") };
    let message = Message::of(&stored, &partition(TopicSettings::default()), 20).unwrap();
    assert_eq!(
        (message.header.as_ref().map(|header| header.get()), message.body()),
        (Some(&*header), Ok(body))
    );
}

#[test]
fn a_set_and_a_score_are_a_state_and_an_instant() {
    let partition = partition(TopicSettings::default());
    for (set, score, state, at) in [
        (1, 17 << 11 | 3, "leased", 17),
        (2, 17 << 11, "leased", 17),
        (3, 5 * RANK_BITS + 17, "ready", 17),
        (4, 21, "delayed", 21),
        (5, 20, "ready", 20),
        (7, 5, "dead", 5),
        (8, 5 << 11 | 1, "acked", 5),
    ] {
        let message = Message::of(&stored(set, score, "", b"\x001"), &partition, 20).unwrap();
        assert_eq!((&*message.state, message.at_ms), (state, at));
    }
}

#[test]
fn damage_is_no_message() {
    let partition = partition(TopicSettings::default());
    for (set, extra, body) in [
        (0, "", &b"\x001"[..]),
        (5, "", b"\x07"),
        (5, "1,x,,0", b"\x001"),
        (5, "0,0,,256", b"\x001"),
        (5, "0,0,,0,,what,,", b"\x001"),
        (5, "0,0,,0,,,9.00000000002a,a", b"\x001"),
        (6, "", b"\x001"),
    ] {
        assert!(Message::of(&stored(set, 5, extra, body), &partition, 20).is_none(), "{extra}");
    }
}

#[test]
fn the_digest_is_of_what_time_does_not_change() {
    let partition = partition(TopicSettings::default());
    let digest = |set, extra, body| {
        Message::of(&stored(set, 5, extra, body), &partition, 20).unwrap().digest()
    };
    let plain = digest(5, "", b"\x001");
    assert_eq!(digest(7, "3,3,,0", b"\x001"), plain);
    assert_ne!(digest(5, "", b"\x002"), plain);
    assert_ne!(digest(5, "0,0,,0,,,d,k", b"\x001"), plain);
}
