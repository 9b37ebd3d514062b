//! Cursors: where a page of a list ended, opaque to clients. A cursor belongs to its list: what another list gave out,
//! or nobody, is refused. There is nothing secret in it; the check only keeps mistakes from looking like an empty page.

use crate::{
    access::Seal,
    input::Text,
    problem::{FieldError, Problem},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use dueq_model::{ScheduleName, State, TopicName};
use dueq_store::ListCursor;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// Characters of a cursor, at most: the name of a host is the longest thing in one.
pub(crate) const MAX_CURSOR: usize = 384;

/// A query's `cursor` before it is opened.
pub(crate) type Cursor = Text<1, MAX_CURSOR>;

const CHECK: usize = 8;

/// Opens a query's `cursor`, which must be one that its list gave out. Errors: 422.
pub(crate) fn open_cursor<T>(
    cursor: Option<Cursor>,
    open: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Problem> {
    let Some(cursor) = cursor else { return Ok(None) };
    let refuse = || {
        let reason = "is not a cursor that this list gave out".into();
        Problem::invalid(vec![FieldError { field: "cursor".to_owned(), reason }])
    };
    open(&cursor).map(Some).ok_or_else(refuse)
}

/// The list of topics that begin with a prefix.
pub(crate) struct TopicsCursor<'a>(pub &'a str);

/// The list of schedules. That of a key that may not read them all may end at one that it may not know of: then the name is
/// encrypted.
pub(crate) struct SchedulesCursor(pub Option<Seal>);

/// The list of a topic's groups.
pub(crate) struct GroupsCursor<'a>(pub &'a TopicName);

/// The list of the hosts of callbacks.
pub(crate) struct HostsCursor;

/// The list of a topic's messages in one state, of all or of those that a query matches.
pub(crate) struct MessagesCursor<'a>(pub &'a TopicName, pub State, pub &'a str);

/// Where a bulk operation goes on that works through the messages of several states which a query matches: its name, the topic,
/// the states and the query.
pub(crate) struct BulkCursor<'a>(pub &'a str, pub &'a TopicName, pub &'a [State], pub &'a str);

impl TopicsCursor<'_> {
    /// The cursor after the topic `last`.
    pub fn seal(&self, last: &TopicName) -> String {
        seal(&["topics", self.0], last.as_str().as_bytes())
    }

    /// The name of the topic that the cursor stands after.
    pub fn open(&self, cursor: &str) -> Option<String> {
        let place = open(&["topics", self.0], cursor)?;
        let name = TopicName::parse(std::str::from_utf8(&place).ok()?).ok()?;
        Some(name.to_string())
    }
}

impl SchedulesCursor {
    /// The cursor after the schedule `last`.
    pub fn seal(&self, last: &ScheduleName) -> Option<String> {
        let place = last.as_str().as_bytes();
        Some(match &self.0 {
            None => seal(&["schedules"], place),
            Some(veil) => seal(&["schedules", "some"], &veil.hide(b"schedules", place)?),
        })
    }

    /// The schedule that the cursor stands after.
    pub fn open(&self, cursor: &str) -> Option<ScheduleName> {
        let place = match &self.0 {
            None => open(&["schedules"], cursor)?,
            Some(veil) => veil.show(b"schedules", &open(&["schedules", "some"], cursor)?)?,
        };
        ScheduleName::parse(std::str::from_utf8(&place).ok()?).ok()
    }
}

impl GroupsCursor<'_> {
    /// The cursor after the group of this ID.
    pub fn seal(&self, last: &str) -> String {
        seal(&["groups", self.0.as_str()], last.as_bytes())
    }

    /// The ID that the cursor stands after.
    pub fn open(&self, cursor: &str) -> Option<String> {
        String::from_utf8(open(&["groups", self.0.as_str()], cursor)?).ok()
    }
}

impl HostsCursor {
    /// The cursor after the host `last`.
    pub fn seal(&self, last: &str) -> String {
        seal(&["hosts"], last.as_bytes())
    }

    /// The host that the cursor stands after.
    pub fn open(&self, cursor: &str) -> Option<String> {
        String::from_utf8(open(&["hosts"], cursor)?).ok()
    }
}

impl MessagesCursor<'_> {
    fn list(&self) -> [&str; 4] {
        let Self(topic, state, query) = self;
        ["messages", topic.as_str(), state.word(), query]
    }

    /// The cursor of what comes next.
    pub fn seal(&self, next: &ListCursor) -> String {
        seal(&self.list(), &bytes_of(next))
    }

    /// Where the list goes on.
    pub fn open(&self, cursor: &str) -> Option<ListCursor> {
        place_of(&open(&self.list(), cursor)?)
    }
}

impl BulkCursor<'_> {
    fn states(&self) -> String {
        self.2.iter().map(|state| format!("{},", state.word())).collect()
    }

    /// The cursor of what comes next: the index of a state, and after what in it, if after anything.
    pub fn seal(&self, (state, next): (usize, Option<&ListCursor>)) -> String {
        let Self(operation, topic, _, query) = self;
        let place = next.map(bytes_of).unwrap_or_default();
        let place = [&[state as u8], &place[..]].concat();
        seal(&[operation, topic.as_str(), &self.states(), query], &place)
    }

    /// Where the operation goes on.
    pub fn open(&self, cursor: &str) -> Option<(usize, Option<ListCursor>)> {
        let Self(operation, topic, states, query) = self;
        let place = open(&[operation, topic.as_str(), &self.states(), query], cursor)?;
        let (state, place) = place.split_first()?;
        let state = Some(usize::from(*state)).filter(|state| *state < states.len())?;
        Some((state, if place.is_empty() { None } else { Some(place_of(place)?) }))
    }
}

fn bytes_of(next: &ListCursor) -> Vec<u8> {
    [&[next.part], &next.score.to_be_bytes()[..], &next.member].concat()
}

fn place_of(place: &[u8]) -> Option<ListCursor> {
    let (part, rest) = place.split_first()?;
    let (score, member) = rest.split_first_chunk()?;
    let (score, member) = (i64::from_be_bytes(*score), member.try_into().ok()?);
    Some(ListCursor { part: *part, score, member })
}

fn seal(list: &[&str], place: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode([&check(list, place)[..], place].concat())
}

fn open(list: &[&str], cursor: &str) -> Option<Vec<u8>> {
    let mut bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let place = bytes.split_off(bytes.len().min(CHECK));
    (bytes == check(list, &place)).then_some(place)
}

fn check(list: &[&str], place: &[u8]) -> [u8; CHECK] {
    let mut hasher = SipHasher13::new();
    for part in list {
        hasher.write(part.as_bytes());
        hasher.write(&[0xff]);
    }
    hasher.write(place);
    hasher.finish().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dueq_model::MAX_HOST_CHARS;

    #[test]
    fn a_cursor_opens_for_its_own_list_only() {
        let (a, b) = (TopicName::parse("a").unwrap(), TopicName::parse("b").unwrap());
        let next = ListCursor { part: 1, score: -5, member: *b"elevenbytes" };
        let list = MessagesCursor(&a, State::Ready, "");
        let cursor = list.seal(&next);
        assert!(cursor.len() <= MAX_CURSOR);
        assert_eq!(list.open(&cursor), Some(next));
        assert_eq!(MessagesCursor(&b, State::Ready, "").open(&cursor), None);
        assert_eq!(MessagesCursor(&a, State::Dead, "").open(&cursor), None);
        assert_eq!(MessagesCursor(&a, State::Ready, "key:x").open(&cursor), None);
        assert_eq!(TopicsCursor("").open(&cursor), None);
        assert_eq!(SchedulesCursor(None).open(&cursor), None);
        let states = [State::Ready, State::Dead];
        let bulk = BulkCursor("purge", &a, &states, "key:x");
        for place in
            [(0, None), (1, Some(&ListCursor { part: 0, score: 7, member: *b"elevenbytes" }))]
        {
            let cursor = bulk.seal(place);
            assert!(cursor.len() <= MAX_CURSOR);
            assert_eq!(bulk.open(&cursor), Some((place.0, place.1.cloned())));
            assert_eq!(BulkCursor("run", &a, &states, "key:x").open(&cursor), None);
            assert_eq!(BulkCursor("purge", &a, &states[..1], "key:x").open(&cursor), None);
            assert_eq!(BulkCursor("purge", &a, &states, "").open(&cursor), None);
        }
        let name = ScheduleName::parse(&"x".repeat(128)).unwrap();
        let seal = |secret: u8| SchedulesCursor(Seal::new(&[secret; 32]));
        let hidden = seal(1).seal(&name).unwrap();
        assert!(hidden.len() <= MAX_CURSOR);
        assert_eq!(seal(1).open(&hidden), Some(name.clone()));
        assert_eq!(seal(2).open(&hidden).or(SchedulesCursor(None).open(&hidden)), None);
        let cursor = SchedulesCursor(None).seal(&name).unwrap();
        assert_eq!(seal(1).open(&cursor), None);
        assert!(cursor.len() <= MAX_CURSOR);
        assert_eq!(SchedulesCursor(None).open(&cursor), Some(name));
        assert_eq!(TopicsCursor("").open(&cursor), None);

        let host = "x".repeat(MAX_HOST_CHARS);
        let cursor = HostsCursor.seal(&host);
        assert!(cursor.len() <= MAX_CURSOR);
        assert_eq!(HostsCursor.open(&cursor), Some(host));
        assert_eq!(SchedulesCursor(None).open(&cursor), None);

        let long = TopicName::parse(&"x".repeat(128)).unwrap();
        let cursor = TopicsCursor("x").seal(&long);
        assert!(cursor.len() <= MAX_CURSOR);
        assert_eq!(TopicsCursor("x").open(&cursor), Some(long.to_string()));
        assert_eq!(TopicsCursor("").open(&cursor), None);
        assert_eq!(list.open(&cursor), None);
    }

    #[test]
    fn garbage_and_changed_cursors_are_refused() {
        let a = TopicName::parse("a").unwrap();
        let cursor = TopicsCursor("").seal(&a);
        for at in 0..cursor.len() - 1 {
            let mut changed = cursor.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(TopicsCursor("").open(&changed), None, "{changed}");
        }
        for garbage in ["", "x", "!", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", &cursor[1..]] {
            assert_eq!(TopicsCursor("").open(garbage), None, "{garbage}");
            assert_eq!(MessagesCursor(&a, State::Ready, "").open(garbage), None, "{garbage}");
        }
    }
}
