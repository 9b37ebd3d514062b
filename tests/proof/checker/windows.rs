//! Spans of time, and whether any of them touches a given one: asked for every message, so it must
//! not cost a look at each.

use crate::proof::history::Ms;

/// Spans in the order of their beginnings.
#[derive(Default)]
pub(super) struct Windows {
    spans: Vec<(Ms, Ms)>,
    /// The latest end among the first so many.
    ends: Vec<Ms>,
}

impl Windows {
    pub fn new(mut spans: Vec<(Ms, Ms)>) -> Windows {
        spans.sort_unstable();
        let latest = |latest: &mut Ms, (_, end): &(Ms, Ms)| {
            *latest = (*latest).max(*end);
            Some(*latest)
        };
        let ends = spans.iter().scan(Ms::MIN, latest).collect();
        Windows { spans, ends }
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Does any of them touch this span, ends included?
    pub fn touch(&self, from: Ms, until: Ms) -> bool {
        self.latest_end(until).is_some_and(|end| end >= from)
    }

    /// The latest end of those that begin by then.
    pub fn latest_end(&self, until: Ms) -> Option<Ms> {
        let begun = self.spans.partition_point(|(start, _)| *start <= until);
        begun.checked_sub(1).map(|last| self.ends[last])
    }

    /// The earliest beginning at or after this instant, or of one that lasts until then.
    pub fn first_from(&self, from: Ms) -> Option<Ms> {
        let at = self.spans.partition_point(|(start, _)| *start < from);
        if self.touch(from, from) {
            return Some(from);
        }
        self.spans.get(at).map(|(start, _)| *start)
    }
}
