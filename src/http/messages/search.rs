//! listMessages and listDeadReasons: what is in a topic, state by state, what of it a query finds, and why messages died.

use crate::{messages::view::Message, prelude::*, request::cursor};
use dueq_model::{MessageId, MessageQuery, State as MessageState};
use dueq_store::{Listing, Reason};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{sync::oneshot, time::timeout};

/// Bytes of bodies and errors on a page.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Searches at once. Each holds a few megabytes, and keeps Redis and a processor busy while it runs.
const MAX_SEARCHES: usize = 8;
/// How long a search waits for others to end.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The searches under way, and those that wait. A turn goes to the key with the fewest searches under way, and among those to
/// the one that has waited longest, so that no key's searches hold up another's. What those under way ask of Redis takes turns as
/// well ([`Store::round`](dueq_store::Store::round)).
#[derive(Default)]
pub struct Searches(Arc<Mutex<Turns>>);

#[derive(Default)]
struct Turns {
    /// How many of each key.
    under_way: HashMap<String, usize>,
    waiting: Vec<(String, oneshot::Sender<Turn>)>,
}

/// A search under way, until this is dropped.
pub(crate) struct Turn {
    turns: Arc<Mutex<Turns>>,
    key: String,
}

impl Searches {
    /// Waits until one more of the caller's may begin. Errors: 503 `overloaded`.
    pub(crate) async fn begin(&self, caller: &Caller) -> Result<Turn, Problem> {
        let begun = timeout(MAX_WAIT, self.turn_of(caller.name())).await;
        let busy =
            || Problem::new(Code::Overloaded, "too many searches are under way; nothing happened");
        begun.ok().and_then(Result::ok).ok_or_else(|| busy().retry_after(1))
    }

    fn turn_of(&self, key: &str) -> oneshot::Receiver<Turn> {
        let (sender, turn) = oneshot::channel();
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.waiting.push((key.to_owned(), sender));
        drop(turns);
        Turns::next(&self.0);
        turn
    }
}

impl Turns {
    /// Gives a turn to whom it belongs, if one is free.
    fn next(this: &Arc<Mutex<Self>>) {
        let mut turns = this.lock().unwrap_or_else(PoisonError::into_inner);
        turns.waiting.retain(|(_, sender)| !sender.is_closed());
        if turns.under_way.values().sum::<usize>() >= MAX_SEARCHES {
            return;
        }
        let count = |key: &str| turns.under_way.get(key).copied().unwrap_or(0);
        let waiting = turns.waiting.iter().enumerate();
        let Some((at, _)) = waiting.min_by_key(|(_, (key, _))| count(key)) else { return };
        let (key, sender) = turns.waiting.remove(at);
        *turns.under_way.entry(key.clone()).or_default() += 1;
        drop(turns);
        // A client that has left meanwhile gives it back.
        let _ = sender.send(Turn { turns: this.clone(), key });
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = turns.under_way.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                turns.under_way.remove(&self.key);
            }
        }
        drop(turns);
        Turns::next(&self.turns);
    }
}

request! {
    /// Query parameters of listMessages.
    pub struct ListMessagesParams {
        /// The state to list.
        pub state: ListedState,
        /// Include payloads and headers.
        pub payload: bool = false,
        pub page: Flat<PageParams>,
        /// Only messages for which all terms hold, separated by spaces: `error:timeout`, `reason:"timeout after * s"`,
        /// `status:5xx`, `id:019ab000-*`, `key:cart/*`, `group:x`, `url:/hooks`, `host:example.com`, `header.tenant:42`, `payload:text`, `payload.$.order.id:42`, `attempts:>3`, `priority:0`, `at:>2026-11-20`,
        /// `published:2026-11-20`. `*` stands for any characters, and `"…"` quotes a value with spaces.
        /// A word without a name is searched in the error, the key, the headers and the payload. `-term` finds those for which the
        /// term does not hold, and `a b OR c` those for which `a` and `b` hold, or `c`.
        #[example = "error:timeout attempts:>3"]
        pub q: Option<MessageQuery>,
    }
}

answer! {
    /// A page of messages.
    pub struct MessageList<'a> {
        /// The messages, in the state's own order, without their events.
        items: Vec<Message<'a>>,
        /// Cursor for the next page. Absent on the last page.
        next_cursor: Option<String>,
        /// With `q`: how many messages the search looked at for this page.
        scanned: Option<i64>,
    }
}

/// List a topic's messages.
///
/// Messages in one state: ready ones in the order in which they would be leased, dead and acked ones oldest first. Pass
/// `next_cursor` to get the next page. A page ends early at about 4 MiB of payloads and errors. With `q`, a page also ends when
/// 10,000 messages or 16 MiB of payloads have been searched, or after 250 ms: it may be empty and still have a `next_cursor`.
#[utoipa::path(
    get, path = "/topics/{topic}/messages", tag = "messages", params(TopicPath, ListMessagesParams),
    responses((status = 200, description = "A page of messages", body = MessageList), TopicProblems, RedisProblems),
)]
pub async fn list_messages(
    cx: Context,
    TopicPath(name): TopicPath,
    Query(params): Query<ListMessagesParams>,
) -> Answer {
    let ListMessagesParams { state: listed, payload: bodies, page, q: query } = params;
    let PageParams { limit, cursor } = page.0;
    let (listed, query) = (MessageState::from(listed), query.as_ref());
    let text = query.map_or("", MessageQuery::text);
    let list = ["messages", name.as_str(), listed.word(), text];
    let after = open_cursor(cursor, |cursor| cursor::open(&list, cursor))?;
    let most_bytes = PAGE_BYTES.min(cx.budget.largest_answer());
    let (after, limit) = (after.as_ref(), limit.get());
    let _search = match query {
        Some(_) => Some(cx.searches.begin(&cx.caller).await?),
        None => None,
    };
    let round = &cx.round();
    let listing =
        Listing { state: listed, after, limit, bodies, urls: false, most_bytes, query, round };
    let (topic, page) = cx.store.list_messages(&name, listing).await?;
    let items = page.items.iter().map(|found| Message::listed(&topic, found)).collect();
    let next_cursor = page.next.as_ref().map(|next| cursor::seal(&list, next));
    let scanned = query.map(|_| page.scanned as i64);
    Ok(json(&MessageList { items, next_cursor, scanned }))
}

answer! {
    /// Why messages died.
    pub struct DeadReasons {
        /// The reasons, the most frequent first, at most 200.
        items: Vec<DeadReason>,
        /// How many dead messages were looked at: the newest 10,000, at most.
        scanned: i64,
    }
}

answer! {
    /// A reason, and the dead messages that have it.
    pub struct DeadReason {
        /// Their `last_error`, with `*` for numbers, UUIDs and hexadecimal digits. Absent if none was given. As a value of
        /// `reason:`
        /// in `q` it finds them, and `reason:""` finds those without one.
        #[example = "timeout after * s"]
        reason: Option<String>,
        /// The one that died last.
        example_id: MessageId,
        /// How many they are.
        count: i64,
        /// When the first of them died, RFC 3339 in UTC with ms.
        first_at: Instant,
        /// When the last of them died.
        last_at: Instant,
    }
}

/// Group dead messages by reason.
///
/// Looks at the newest 10,000 dead messages of the topic, an equal share of each partition.
#[utoipa::path(
    get, path = "/topics/{topic}/dead/reasons", tag = "messages", params(TopicPath),
    responses((status = 200, description = "The reasons", body = DeadReasons), TopicProblems, RedisProblems),
)]
pub async fn list_dead_reasons(cx: Context, TopicPath(name): TopicPath, _: NoQuery) -> Answer {
    let _search = cx.searches.begin(&cx.caller).await?;
    let (reasons, scanned) = cx.store.dead_reasons(&cx.round(), &name).await?;
    let item = |Reason { reason, example, count, first_at, last_at }| DeadReason {
        reason,
        example_id: example,
        count: count as i64,
        first_at: Instant(first_at),
        last_at: Instant(last_at),
    };
    let items = reasons.into_iter().map(item).collect();
    Ok(json(&DeadReasons { items, scanned: scanned as i64 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_waits_for_those_of_other_keys_no_longer_than_for_one() {
        let searches = Searches::default();
        let mut busy: Vec<_> = (0..100).map(|_| searches.turn_of("busy")).collect();
        let mut under_way: Vec<_> =
            busy.iter_mut().filter_map(|turn| turn.try_recv().ok()).collect();
        assert_eq!(under_way.len(), MAX_SEARCHES);
        let (mut other, gone) = (searches.turn_of("other"), searches.turn_of("gone"));
        drop(gone);
        assert!(other.try_recv().is_err());
        drop(under_way.pop());
        let other = other.try_recv().unwrap();
        assert!(!busy.iter_mut().any(|turn| turn.try_recv().is_ok()));
        drop(other);
        let next: Vec<_> = busy.iter_mut().filter_map(|turn| turn.try_recv().ok()).collect();
        assert_eq!(next.len(), 1);
        drop((busy, next, under_way));
        let turns = searches.0.lock().unwrap();
        assert_eq!((turns.under_way.len(), turns.waiting.len()), (0, 0));
    }
}
