//! What is in a topic, as a whole: purging, redriving, listing, forecasting. Each works through any number of messages
//! by calls of a bounded size.

use super::{
    Store,
    bulk::{PurgeSome, RedriveSome},
    counts::Forecast,
    list::{ListSome, Listed},
    registry::Topic,
    topics::LOOKS,
    types::{ListCursor, MessagePage, Purged, Redriven},
};
use crate::{
    error::Error,
    model::{Millis, State, TopicName},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Messages of one call that purges, and of one that redrives or lists.
const PURGE_MESSAGES: u64 = 128;
const REDRIVE_MESSAGES: u64 = 64;
const LIST_MESSAGES: u64 = 256;
const FORECAST_BUCKETS: u64 = 128;
/// Bytes of bodies in one call that lists.
const LIST_BYTES: usize = 256 * 1024;
/// A request that works through many messages ends after this long, and says what remains.
const LONGEST: Duration = Duration::from_secs(20);

impl Store {
    /// Removes the messages of these states (delayed, ready, dead). Those that come meanwhile may stay.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn purge_topic(&self, name: &TopicName, states: &[State]) -> Result<Purged, Error> {
        let started = Instant::now();
        let (mut purged, mut most) = (0, None);
        loop {
            let purge = async |topic| {
                let some = PurgeSome { states: states.to_vec(), limit: PURGE_MESSAGES };
                self.lanes.submit_alone(&topic, some).await
            };
            let (_, some) = self.of_topic(name, purge).await.map_err(|error| match purged {
                0 => error,
                _ => error.after_change(),
            })?;
            purged += some.purged;
            // As many as there were: whoever publishes faster than this purges does not hold it up for ever.
            let most = *most.get_or_insert(some.purged + some.left);
            if some.left == 0 || some.purged == 0 || purged >= most || started.elapsed() > LONGEST {
                return Ok(Purged { purged, remaining: some.left });
            }
        }
    }

    /// Makes dead messages live again, longest dead first, at most `most`; at once or spread over `spread_ms`.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn redrive_topic(
        &self,
        name: &TopicName,
        most: u64,
        spread_ms: Millis,
    ) -> Result<Redriven, Error> {
        let started = Instant::now();
        let (mut redriven, mut skip) = (0, 0);
        let (mut base, mut of) = (None, None);
        loop {
            let redrive = async |topic| {
                let limit = REDRIVE_MESSAGES;
                let some = RedriveSome { limit, skip, base, index: redriven, of, spread_ms, most };
                self.lanes.submit_alone(&topic, some).await
            };
            let (_, some) = self.of_topic(name, redrive).await.map_err(|error| match redriven {
                0 => error,
                _ => error.after_change(),
            })?;
            redriven += some.redriven;
            skip += some.skipped;
            base.get_or_insert(some.base);
            of.get_or_insert(some.of);
            let over = some.redriven + some.skipped == 0 || redriven >= some.of;
            if over || some.left <= skip || started.elapsed() > LONGEST {
                return Ok(Redriven { redriven, remaining: some.left });
            }
        }
    }

    /// A page of the messages of one state, at most `limit`; with payloads it ends before so many bytes of them, but never
    /// without a message where there is one.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn list_messages(
        &self,
        name: &TopicName,
        state: State,
        after: Option<&ListCursor>,
        limit: u64,
        payload_bytes: Option<usize>,
    ) -> Result<(Arc<Topic>, MessagePage), Error> {
        // What time has brought is carried out before the first page, so that it stands where it belongs.
        if after.is_none() {
            for _ in 0..LOOKS {
                let swept = self.sweep_topic(name).await?.ok_or(Error::TopicNotFound)?;
                if !swept.more {
                    break;
                }
            }
        }
        let mut last = after.cloned();
        let most_bytes = payload_bytes.unwrap_or(usize::MAX);
        let (mut items, mut bytes) = (Vec::new(), 0);
        loop {
            let list = async |topic| {
                let some = ListSome {
                    state,
                    limit: LIST_MESSAGES.min(limit - items.len() as u64),
                    after: last.clone(),
                    body_bytes: payload_bytes.map(|most| LIST_BYTES.min(most - bytes)),
                };
                self.lanes.submit_alone(&topic, some).await
            };
            let (topic, some) = self.of_topic(name, list).await?;
            let (mut more, before) = (some.more, items.len());
            for Listed { message, cursor, bytes: size } in some.items {
                if !items.is_empty() && bytes + size > most_bytes {
                    more = true;
                    break;
                }
                bytes += size;
                items.push(message);
                last = Some(cursor);
            }
            let full = items.len() as u64 >= limit || bytes >= most_bytes;
            if !more || full || items.len() == before {
                let next = last.filter(|_| more && !items.is_empty());
                return Ok((topic, MessagePage { items, next }));
            }
        }
    }

    /// How many messages fall due in each of the coming `buckets` of `bucket_ms`; and where the first begins.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn forecast_topic(
        &self,
        name: &TopicName,
        bucket_ms: Millis,
        buckets: u64,
    ) -> Result<(Millis, Vec<i64>), Error> {
        let mut counts = Vec::new();
        let mut from = None;
        loop {
            let done = counts.len() as u64;
            let forecast = async |topic| {
                let from = from.map(|from| from + bucket_ms * done as Millis);
                let buckets = FORECAST_BUCKETS.min(buckets - done);
                self.lanes.submit_alone(&topic, Forecast { from, bucket_ms, buckets }).await
            };
            let (_, (begun, some)) = self.of_topic(name, forecast).await?;
            let from = *from.get_or_insert(begun);
            counts.extend(some);
            if counts.len() as u64 >= buckets {
                return Ok((from, counts));
            }
        }
    }
}
