//! getTopic, deleteTopic and listTopics.

pub(crate) mod actions;
pub(crate) mod backoff;
pub(crate) mod bulk;
pub(crate) mod config;
pub(crate) mod groups;
pub(crate) mod history;
pub(crate) mod push_secret;
pub(crate) mod push_settings;
pub(crate) mod settings;

use crate::{messages::DeleteParams, prelude::*, request::cursor};
use axum::http::header;
use config::TopicConfig;
use dueq_model::{DEFAULT_PAGE, TopicName};
use dueq_store::{Store, TOTALS, TopicSnapshot};
use futures_util::{StreamExt, stream};

/// Topics that a request looks at together, at most: a page must not crowd out what others ask for.
const LOOKS: usize = 32;

answer! {
    /// A topic, as a consistent snapshot.
    pub struct Topic<'a> {
        /// Its name.
        #[example = "orders"]
        name: &'a TopicName,
        /// Changes with every change of the configuration and is never used again. Send it as `If-Match`.
        revision: i64,
        /// Its configuration, for messages that do not override it.
        config: TopicConfig<'a>,
        /// True while the topic is paused: nothing is leased.
        paused: bool,
        /// How many messages are in each state now.
        counts: TopicCounts,
        /// What happened since the topic was created.
        totals: TopicTotals,
        /// How long the oldest ready message has been due, ms. Absent if there is none.
        oldest_ready_age_ms: Option<i64>,
        /// When the next delayed message is due, RFC 3339 in UTC with ms. Absent if there is none.
        next_due_at: Option<Instant>,
    }
}

answer! {
    /// Messages by state.
    pub struct TopicCounts {
        /// Not due yet.
        delayed: i64,
        /// Due, or their lease has ended.
        ready: i64,
        /// Held by consumers.
        leased: i64,
        /// Their attempts are used up.
        dead: i64,
        /// Kept after their ack.
        acked: i64,
        /// Waiting for earlier messages of their group.
        blocked: i64,
    }
}

macro_rules! totals {
    ($($(#[doc = $doc:expr])* $name:ident),*) => {
        answer! {
            /// What happened in a topic.
            pub struct TopicTotals {
                $($(#[doc = $doc])* $name: i64,)*
            }
        }

        impl TopicTotals {
            fn of(totals: &[i64; TOTALS.len()]) -> Self {
                let total = |name| TOTALS.iter().position(|known| *known == name).map_or(0, |at| totals[at]);
                Self { $($name: total(stringify!($name)),)* }
            }
        }
    };
}

totals! {
    /// Messages stored.
    published,
    /// Leases given.
    granted,
    /// Messages acknowledged.
    acked,
    /// Leases given back as failed.
    nacked,
    /// Leases given back without work.
    released,
    /// Leases that ended by themselves.
    lease_expired,
    /// Messages whose attempts were used up.
    dead,
    /// Messages whose time to live or retention ended.
    expired,
    /// Messages deleted.
    deleted,
    /// Messages purged.
    purged,
    /// Dead messages made ready again.
    redriven,
    /// Messages replaced in place.
    replaced,
    /// Leases taken back because the client was gone.
    returned,
    /// Part of `deleted` and `purged`: those that were leased.
    deleted_leased
}

answer! {
    /// A topic in a list.
    pub struct TopicItem {
        /// Its name.
        #[example = "orders"]
        name: String,
        /// True while the topic is paused: nothing is leased.
        paused: bool,
        /// How many messages are in each state now.
        counts: TopicCounts,
    }
}

answer! {
    /// A page of topics.
    pub struct TopicList {
        /// The topics, by name.
        items: Vec<TopicItem>,
        /// Cursor for the next page. Absent on the last page.
        next_cursor: Option<String>,
    }
}

request! {
    /// Query parameters of listTopics.
    pub struct ListTopicsParams {
        /// Only topics whose names begin with this.
        pub prefix: Option<Text<0, 128>>,
        /// Items per page, 1 to 1000.
        pub limit: PageSize = PageSize::new(DEFAULT_PAGE),
        /// The `next_cursor` of the previous page.
        pub cursor: Option<Cursor>,
    }
}

impl From<&TopicSnapshot> for TopicCounts {
    fn from(snapshot: &TopicSnapshot) -> Self {
        let TopicSnapshot { delayed, ready, leased, dead, acked, blocked, .. } = *snapshot;
        Self { delayed, ready, leased, dead, acked, blocked }
    }
}

/// Answers with the topic, under the revision of its configuration; `map` converts an error.
pub async fn answer_with_topic(
    state: &AppState,
    name: &TopicName,
    map: impl FnOnce(Error) -> Error,
) -> Result<Response, Problem> {
    let (topic, snapshot) = state.store.topic(name).await.map_err(map)?;
    let answer = Topic {
        name,
        revision: topic.revision,
        config: TopicConfig::of(&topic.settings),
        paused: snapshot.paused,
        counts: (&snapshot).into(),
        totals: TopicTotals::of(&snapshot.totals),
        oldest_ready_age_ms: snapshot.oldest_ready_age_ms,
        next_due_at: snapshot.next_due_at.map(Instant),
    };
    let tag = [(header::ETAG, format!("\"{}\"", topic.revision))];
    Ok((tag, json(&answer)).into_response())
}

/// Get a topic.
///
/// Returns the configuration, and counts and totals as one snapshot.
#[utoipa::path(
    get, path = "/topics/{topic}", tag = "topics", params(TopicPath),
    responses(
        (status = 200, description = "The topic, with counts and totals as one snapshot", body = Topic,
            headers(("ETag" = String, description = "The revision of its configuration"))),
        TopicProblems, RedisProblems,
    ),
)]
pub async fn get_topic(cx: Context, TopicPath(name): TopicPath, _: NoQuery) -> Answer {
    answer_with_topic(&cx, &name, |error| error).await
}

/// Delete a topic.
///
/// Deletes a topic that holds nothing but retained acknowledged messages, or any topic with `force`, which also needs the
/// scope `operate`.
#[utoipa::path(
    delete, path = "/topics/{topic}", tag = "topics", params(TopicPath, DeleteParams),
    responses((status = 204, description = "The topic is deleted"), TopicProblems, DeleteTopicProblems, RedisProblems),
)]
pub async fn delete_topic(
    cx: Context,
    PublicTopic(name): PublicTopic,
    Query(DeleteParams { force }): Query<DeleteParams>,
) -> Result<StatusCode, Problem> {
    if force {
        cx.caller.check_verb(Verb::Operate, &name)?;
    }
    let messages = cx.store.delete_topic(&name, force).await?;
    cx.caller.changed(messages);
    Ok(StatusCode::NO_CONTENT)
}

/// List topics.
///
/// In order of their names, with their counts: those that the API key may read. Pass `next_cursor` to get the next page.
#[utoipa::path(
    get, path = "/topics", tag = "topics", params(ListTopicsParams),
    responses((status = 200, description = "A page of topics, by name", body = TopicList), RedisProblems),
)]
pub async fn list_topics(
    cx: Context,
    Query(ListTopicsParams { prefix, limit, cursor }): Query<ListTopicsParams>,
) -> Answer {
    let (prefix, limit) = (prefix.as_deref().unwrap_or_default(), limit.get() as usize);
    let list = ["topics", prefix];
    let after: Option<String> = open_cursor(cursor, |cursor| cursor::open(&list, cursor))?;
    let mut names = readable(&cx.store, &cx.caller, prefix, after.as_deref(), limit + 1).await?;
    let more = names.len() > limit;
    names.truncate(limit);
    let next_cursor =
        names.last().filter(|_| more).map(|last| cursor::seal(&list, &last.to_string()));
    let looks = stream::iter(names).map(|name| {
        let store = cx.store.clone();
        async move { (store.topic(&name).await, name) }
    });
    let mut looks = looks.buffered(LOOKS);
    let mut items = Vec::new();
    while let Some((look, name)) = looks.next().await {
        match look {
            Ok((_, snapshot)) => {
                let paused = snapshot.paused;
                items.push(TopicItem {
                    name: name.to_string(),
                    paused,
                    counts: (&snapshot).into(),
                });
            }
            // Deleted between the list and the look.
            Err(Error::TopicNotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(json(&TopicList { items, next_cursor }))
}

/// Names of topics that the caller may read, in order: those that begin with `prefix` and come after `after`, at most `limit`.
pub async fn readable(
    store: &Store,
    caller: &Caller,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<TopicName>, Error> {
    let mut readable = Vec::new();
    for (text, is_whole) in caller.ranges(prefix) {
        let wanted = if is_whole { 1 } else { limit - readable.len() };
        let names = store.topic_names(&text, after, wanted).await?.into_iter();
        readable.extend(names.filter(|name| !is_whole || name.as_str() == text));
        if readable.len() == limit {
            break;
        }
    }
    Ok(readable)
}
