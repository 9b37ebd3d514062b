//! What a query selects of a topic for a bulk operation: found as a list is searched, a bounded number a request, and then
//! changed by id, each only if it is still in a state that was meant.

use super::list::{Listing, MAX_SCANNED, Search};
use crate::{
    Store,
    change::Change,
    turns::Round,
    types::{Due, ListCursor, MessageSnapshot},
};
use dueq_model::{MessageId, MessageQuery, Millis, State, TopicName, error::Error};

/// May messages move back to this topic?
pub type MovesBack<'a> = &'a (dyn Fn(&TopicName) -> bool + Sync);

/// What a bulk operation is to work through.
pub struct Selection<'a> {
    /// The topic.
    pub topic: &'a TopicName,
    /// The states, one after another.
    pub states: &'a [State],
    /// What a message must be like.
    pub query: &'a MessageQuery,
    /// Of ready messages, only those that came here as they were when they died, in a topic of which this says yes.
    pub back: Option<MovesBack<'a>>,
    /// Messages, at most.
    pub most: u64,
    /// Where to go on: the index of a state, and after what in it.
    pub from: (usize, Option<ListCursor>),
    /// The request that selects them.
    pub round: &'a Round,
}

/// What was selected.
pub struct Selected {
    /// The messages, state by state in the order of its list.
    pub matched: Vec<MessageId>,
    /// Messages that were looked at.
    pub scanned: u64,
    /// Where to go on, if there is more.
    pub next: Option<(usize, Option<ListCursor>)>,
}

impl Store {
    /// Selects messages.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn select(&self, selection: Selection<'_>) -> Result<Selected, Error> {
        let Selection { topic, states, query, back, most, round, .. } = selection;
        let (first, mut after) = selection.from;
        let (mut search, mut matched, mut next) = (Search::new(), Vec::new(), None);
        for (at, state) in states.iter().enumerate().skip(first) {
            let left = most.saturating_sub(matched.len() as u64);
            if left == 0 || (search.scanned > 0 && search.is_over()) {
                next = Some((at, None));
                break;
            }
            let back = back.filter(|_| *state == State::Ready);
            let listing = Listing {
                state: *state,
                after: after.as_ref(),
                limit: if back.is_some() { MAX_SCANNED } else { left },
                bodies: back.is_some(),
                urls: false,
                most_bytes: usize::MAX,
                query: Some(query),
                round,
            };
            // Only the ids are kept: keys and errors of ten thousand messages would be many megabytes.
            let select = |found: MessageSnapshot| {
                let origin = found.body.and_then(|body| body.origin);
                if back.is_none_or(|may| origin.is_some_and(|origin| may(&origin.topic))) {
                    matched.push(found.id);
                }
            };
            let (_, rest) = self.search(topic, listing, &mut search, select).await?;
            if let Some(rest) = rest {
                next = Some((at, Some(rest)));
                break;
            }
            after = None;
        }
        matched.truncate(most as usize);
        Ok(Selected { matched, scanned: search.scanned, next })
    }

    /// Does this to selected messages that are still in one of these states. They fall due evenly over a time, of which the first
    /// `from` of `of` messages have had their part. Returns how many it did it to: what was changed or taken meanwhile stays
    /// as it is.
    ///
    /// Errors: `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn change_selected(
        &self,
        round: &Round,
        change: Change,
        states: &[State],
        messages: &[MessageId],
        (spread_ms, from, of): (Millis, i64, i64),
    ) -> Result<i64, Error> {
        let (spread, of) = (i128::from(spread_ms), i128::from(of.max(1)));
        // None sooner than asked for.
        let due = |at: usize| {
            let at = (i128::from(from) + at as i128).min(of);
            Due::After(((spread * at + of - 1) / of) as Millis)
        };
        let messages: Vec<_> = messages.iter().enumerate().map(|(at, id)| (*id, due(at))).collect();
        let outcomes = self.change_messages(Some(round), change, states, &messages).await;
        let done = outcomes.iter().filter(|outcome| **outcome == Ok(true)).count() as i64;
        let failed = outcomes.into_iter().filter_map(Result::err).find(|error| {
            matches!(error, Error::RedisUnavailable | Error::OutcomeUnknown | Error::Internal)
        });
        match failed {
            None => Ok(done),
            Some(error) => Err(error.after(done > 0)),
        }
    }
}
