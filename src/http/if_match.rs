//! The `If-Match` header: a change that only goes through where nobody else changed things in between.

use axum::http::{HeaderMap, header};

/// What If-Match asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum IfMatch {
    /// Nothing: it is not there.
    None,
    /// That the topic exists.
    Any,
    /// One of these revisions; none where what it names can be none.
    OneOf(Vec<i64>),
}

impl IfMatch {
    /// Reads RFC 9110's list of entity tags. Weak tags and what is no tag of ours match nothing.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(header::IF_MATCH).iter().peekable();
        if values.peek().is_none() {
            return Self::None;
        }
        let mut revisions = Vec::new();
        for tag in values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')) {
            let tag = std::str::from_utf8(tag).unwrap_or_default().trim();
            if tag == "*" {
                return Self::Any;
            }
            let revision = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            let number = revision.and_then(|text| text.parse::<i64>().ok());
            // Tags are compared as they are written: "07" is not "7".
            revisions.extend(number.filter(|n| revision == Some(n.to_string().as_str())));
        }
        Self::OneOf(revisions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&'static str]) -> IfMatch {
        let value = |value: &&'static str| (header::IF_MATCH, value.parse().unwrap());
        IfMatch::of(&values.iter().map(value).collect())
    }

    #[test]
    fn tags_are_listed_in_one_header_or_several() {
        assert_eq!(of(&[]), IfMatch::None);
        assert_eq!(of(&["\"7\""]), IfMatch::OneOf(vec![7]));
        assert_eq!(of(&["\"7\" , \"8\"", "\"9\""]), IfMatch::OneOf(vec![7, 8, 9]));
        assert_eq!(of(&[" * "]), IfMatch::Any);
    }

    #[test]
    fn weak_and_broken_tags_match_nothing() {
        for broken in ["W/\"7\"", "7", "\"7", "\"07\"", "\"+7\"", "\"x\"", "\"\"", "", "\""] {
            assert_eq!(of(&[broken]), IfMatch::OneOf(vec![]), "{broken}");
        }
        assert_eq!(of(&["W/\"7\", \"8\""]), IfMatch::OneOf(vec![8]));
    }
}
