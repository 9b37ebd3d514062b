//! getTopic and listTopics.

use super::{
    AppState,
    extract::{Query, TopicPath},
    problem::{CommonProblems, Problem, ProblemBody, RedisProblems},
};
use crate::{
    error::Error,
    model::{TopicName, TopicSettings, format_instant},
    store::{TOTALS, TopicSnapshot},
};
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::future::join_all;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

/// What the opaque cursor of a list of topics begins with, before it is encoded.
const CURSOR_MARK: &str = "topics:";

/// A topic: one consistent look.
#[derive(Serialize, ToSchema)]
pub struct Topic<'a> {
    /// Its name.
    #[schema(value_type = String, example = "orders")]
    name: &'a TopicName,
    /// Changes with every change of its configuration.
    revision: i64,
    /// How it treats messages that do not say so themselves.
    config: &'a TopicSettings,
    /// No grants while paused.
    paused: bool,
    /// How many messages are in each state now.
    counts: TopicCounts,
    /// What happened since the topic came into being.
    totals: TopicTotals,
    /// How long the oldest ready message has been due, ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    oldest_ready_age_ms: Option<i64>,
    /// When the next delayed message falls due.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    next_due_at: Option<String>,
}

/// Messages by state.
#[derive(Serialize, ToSchema)]
pub struct TopicCounts {
    /// Not due yet.
    delayed: i64,
    /// Due, or their lease is over.
    ready: i64,
    /// Held by consumers.
    leased: i64,
    /// Their attempts are used up.
    dead: i64,
    /// Kept after their ack.
    acked: i64,
}

macro_rules! totals {
    ($($(#[$doc:meta])* $name:ident),*) => {
        /// What happened in a topic.
        #[derive(Serialize, ToSchema)]
        pub struct TopicTotals {
            $($(#[$doc])* $name: i64,)*
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
    /// Leases given back unworked.
    released,
    /// Leases that ended by themselves.
    lease_expired,
    /// Messages whose attempts were used up.
    dead,
    /// Messages whose time was over.
    expired,
    /// Messages deleted.
    deleted,
    /// Messages purged.
    purged,
    /// Dead messages made ready again.
    redriven,
    /// Messages replaced in place.
    replaced,
    /// Grants taken back because the client was gone.
    returned,
    /// Part of `deleted`: those that were leased.
    deleted_leased
}

/// A topic in a list.
#[derive(Serialize, ToSchema)]
pub struct TopicItem {
    /// Its name.
    #[schema(value_type = String, example = "orders")]
    name: TopicName,
    /// No grants while paused.
    paused: bool,
    /// How many messages are in each state now.
    counts: TopicCounts,
}

/// A page of topics.
#[derive(Serialize, ToSchema)]
pub struct TopicList {
    /// The topics, by name.
    items: Vec<TopicItem>,
    /// For the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// Query parameters of listTopics.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "describes the query; it is read field by field")]
pub struct ListTopicsParams {
    /// Only topics whose names begin like this.
    prefix: Option<String>,
    /// Items on a page.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
}

impl From<&TopicSnapshot> for TopicCounts {
    fn from(snapshot: &TopicSnapshot) -> Self {
        let TopicSnapshot { delayed, ready, leased, dead, .. } = *snapshot;
        Self { delayed, ready, leased, dead, acked: 0 }
    }
}

/// Look at a topic.
#[utoipa::path(
    get, path = "/topics/{topic}", operation_id = "getTopic", tag = "topics",
    params(super::extract::TopicParams),
    responses(
        (status = 200, description = "The topic, with counts and totals of one instant", body = Topic),
        (status = 404, description = "There is no such topic", body = ProblemBody,
            content_type = "application/problem+json"),
        CommonProblems, RedisProblems,
    ),
)]
pub async fn get_topic(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    query: Query,
) -> Result<Response, Problem> {
    query.none()?;
    let (topic, snapshot) = state.store.topic(&name).await?;
    let answer = Topic {
        name: &name,
        revision: topic.revision,
        config: &topic.settings,
        paused: false,
        counts: (&snapshot).into(),
        totals: TopicTotals::of(&snapshot.totals),
        oldest_ready_age_ms: snapshot.oldest_ready_age_ms,
        next_due_at: snapshot.next_due_at.map(format_instant),
    };
    Ok(super::json(&answer).into_response())
}

/// List topics.
#[utoipa::path(
    get, path = "/topics", operation_id = "listTopics", tag = "topics",
    params(ListTopicsParams),
    responses(
        (status = 200, description = "A page of topics, by name", body = TopicList),
        CommonProblems, RedisProblems,
    ),
)]
pub async fn list_topics(State(state): State<AppState>, query: Query) -> Result<Response, Problem> {
    let mut fields = query.fields();
    let prefix = fields.string("prefix", 0..=128).unwrap_or_default();
    let limit = fields.integer("limit", 1..=1000).unwrap_or(100) as usize;
    let after = fields.string("cursor", 1..=1024).map(|cursor| open_cursor(&cursor));
    if after == Some(None) {
        fields.refuse("cursor", "is none that a list of topics gave out");
    }
    fields.finish()?;
    let after = after.flatten();
    let mut names = state.store.topic_names(&prefix, after.as_deref(), limit + 1).await?;
    let more = names.len() > limit;
    names.truncate(limit);
    let next_cursor = names.last().filter(|_| more).map(seal_cursor);
    let looks = join_all(names.iter().map(|name| state.store.topic(name))).await;
    let mut items = Vec::with_capacity(names.len());
    for (name, look) in names.into_iter().zip(looks) {
        match look {
            Ok((_, snapshot)) => {
                items.push(TopicItem { name, paused: false, counts: (&snapshot).into() });
            }
            // Deleted between the list and the look.
            Err(Error::TopicNotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(super::json(&TopicList { items, next_cursor }).into_response())
}

fn seal_cursor(after: &TopicName) -> String {
    URL_SAFE_NO_PAD.encode(format!("{CURSOR_MARK}{after}"))
}

fn open_cursor(cursor: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let name = std::str::from_utf8(&bytes).ok()?.strip_prefix(CURSOR_MARK)?;
    TopicName::parse(name).ok().map(|name| name.to_string())
}
