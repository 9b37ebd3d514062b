//! Answers, which write themselves: byte for byte as serde_json writes them.

use crate::{
    input::Flat,
    openapi::answer::{Written, answer},
};
use dueq_fuzz::{cases, text};
use dueq_model::{Instant, MessageId, State, TopicName};
use proptest::{collection::vec, option, prelude::*};

answer! {
    /// A part, which may be empty.
    pub struct Part<'a> {
        /// A text.
        text: Option<&'a str>,
        /// A number.
        number: Option<i64>,
        /// A time.
        at: Option<Instant>,
    }
}

answer! {
    /// All kinds of fields.
    pub struct Whole<'a> {
        #[serde(flatten)]
        first: Flat<Part<'a>>,
        /// An id.
        id: MessageId,
        /// A topic.
        topic: &'a TopicName,
        /// A word.
        state: State,
        /// A list.
        parts: Vec<Part<'a>>,
        /// A condition.
        holds: bool,
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn answers_are_written_as_serde_json_writes_them(
        parts in vec((option::of(text()), option::of(any::<i64>()), option::of(any::<i64>())), 1..4),
        (id, holds) in any::<(u32, bool)>(),
    ) {
        let topic = TopicName::parse("a.b-c_9").unwrap();
        let id = MessageId::parse(&format!("019ab000-0000-8000-8000-0000{id:08x}")).unwrap();
        let part = |(text, number, millis): (_, _, Option<i64>)| {
            // Of all times there are, and of this century.
            let at = |at: i64| if holds { at } else { at.rem_euclid(4_000_000_000_000) };
            Part { text, number, at: millis.map(|millis| Instant(at(millis))) }
        };
        let parts = parts.iter().map(|(text, number, at)| (text.as_deref(), *number, *at));
        let mut all: Vec<_> = parts.map(part).collect();
        let first = Flat(all.remove(0));
        let whole = Whole { first, id, topic: &topic, state: State::Ready, parts: all, holds };
        let mut written = Vec::new();
        whole.write(&mut written).unwrap();
        prop_assert_eq!(String::from_utf8(written).unwrap(), serde_json::to_string(&whole).unwrap());
    }
}
