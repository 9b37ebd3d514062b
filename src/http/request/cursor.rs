//! Cursors: where a page of a list ended, opaque to clients. A cursor belongs to its list: one from another list,
//! or one that dueq did not make, is refused. There is nothing secret in it; the check only keeps mistakes from looking like an empty page.

use crate::{
    input::Text,
    problem::{FieldError, Problem},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use dueq_store::ListCursor;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// Characters of a cursor, at most: the name of a host is the longest thing in one.
pub(crate) const MAX_CURSOR: usize = 384;

/// A query's `cursor` before it is opened.
pub(crate) type Cursor = Text<1, MAX_CURSOR>;

const CHECK: usize = 8;

/// What tells a list from others: its name, whose it is, and what it is of.
pub(crate) type List<'a> = [&'a str];

/// Where a page of a list ends.
pub(crate) trait Place: Sized {
    /// As a cursor has it.
    fn to_bytes(&self) -> Vec<u8>;

    /// Reads it.
    fn of_bytes(bytes: &[u8]) -> Option<Self>;
}

/// The cursor of this place in the list.
pub(crate) fn seal(list: &List<'_>, place: &impl Place) -> String {
    let place = place.to_bytes();
    URL_SAFE_NO_PAD.encode([&check(list, &place)[..], &place].concat())
}

/// The place of a cursor that this list gave out.
pub(crate) fn open<P: Place>(list: &List<'_>, cursor: &str) -> Option<P> {
    let mut bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let place = bytes.split_off(bytes.len().min(CHECK));
    (bytes == check(list, &place)).then(|| P::of_bytes(&place)).flatten()
}

/// Opens a query's `cursor`, which must be one that its list gave out. Errors: 422.
pub(crate) fn open_cursor<P>(
    cursor: Option<Cursor>,
    open: impl Fn(&str) -> Option<P>,
) -> Result<Option<P>, Problem> {
    let Some(cursor) = cursor else { return Ok(None) };
    let refuse = || {
        let reason = "is not a cursor that this list gave out".into();
        Problem::invalid(vec![FieldError { field: "cursor".to_owned(), reason }])
    };
    open(&cursor).map(Some).ok_or_else(refuse)
}

impl Place for Vec<u8> {
    fn to_bytes(&self) -> Vec<u8> {
        self.clone()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}

/// The names of topics, schedules, groups and hosts.
impl Place for String {
    fn to_bytes(&self) -> Vec<u8> {
        self.clone().into_bytes()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Self::from_utf8(bytes.to_vec()).ok()
    }
}

impl Place for ListCursor {
    fn to_bytes(&self) -> Vec<u8> {
        [&[self.part], &self.score.to_be_bytes()[..], &self.member].concat()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (part, rest) = bytes.split_first()?;
        let (score, member) = rest.split_first_chunk()?;
        let (score, member) = (i64::from_be_bytes(*score), member.try_into().ok()?);
        Some(Self { part: *part, score, member })
    }
}

/// The index of a state, and after what in it, if after anything.
impl Place for (usize, Option<ListCursor>) {
    fn to_bytes(&self) -> Vec<u8> {
        let place = self.1.as_ref().map(Place::to_bytes).unwrap_or_default();
        [&[self.0 as u8], &place[..]].concat()
    }

    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (state, place) = bytes.split_first()?;
        let after = if place.is_empty() { None } else { Some(Place::of_bytes(place)?) };
        Some((usize::from(*state), after))
    }
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
        let next = ListCursor { part: 1, score: -5, member: *b"elevenbytes" };
        let (list, others) = (
            ["messages", "a", "ready", ""],
            [["messages", "b", "ready", ""], ["messages", "a", "ready", "q"]],
        );
        let cursor = seal(&list, &next);
        assert_eq!(open(&list, &cursor), Some(next.clone()));
        assert!(others.iter().all(|other| open::<ListCursor>(other, &cursor).is_none()));
        assert_eq!(open::<String>(&["topics", ""], &cursor), None);
        for place in [(0, None), (1, Some(next))] {
            assert_eq!(open(&list, &seal(&list, &place)), Some(place));
        }
        let host = "x".repeat(MAX_HOST_CHARS);
        let cursor = seal(&["hosts"], &host);
        assert!(cursor.len() <= MAX_CURSOR);
        assert_eq!(open(&["hosts"], &cursor), Some(host));
    }

    #[test]
    fn garbage_and_changed_cursors_are_refused() {
        let list = ["topics", ""];
        let cursor = seal(&list, &"a".to_owned());
        for at in 0..cursor.len() - 1 {
            let mut changed = cursor.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(open::<String>(&list, &changed), None, "{changed}");
        }
        for garbage in ["", "x", "!", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", &cursor[1..]] {
            assert_eq!(open::<String>(&list, garbage), None, "{garbage}");
        }
    }
}
