//! listMessages: what is in a topic, state by state.

use super::{
    AppState,
    cursor::{MessagesCursor, read_cursor},
    extract::{Query, TopicPath},
    message::Message,
    problem::{CommonProblems, Problem, RedisProblems, TopicProblems},
};
use crate::model::{DEFAULT_PAGE, MAX_PAGE, State as MessageState};
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

/// Bytes of bodies on a page.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// A state that messages are listed by: `delayed`, not due yet; `ready`, due; `leased`, held by consumers; `dead`, their
/// attempts used up; `acked`, kept after their ack.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code, reason = "describes the parameter; it is read as a word")]
pub enum ListedState {
    /// Not due yet.
    Delayed,
    /// Due, in the order in which they would be granted.
    Ready,
    /// Held by consumers.
    Leased,
    /// Dead, the oldest first.
    Dead,
    /// Kept after their ack, the oldest first.
    Acked,
}

const STATES: [(&str, MessageState); 5] = [
    ("delayed", MessageState::Delayed),
    ("ready", MessageState::Ready),
    ("leased", MessageState::Leased),
    ("dead", MessageState::Dead),
    ("acked", MessageState::Acked),
];

/// Query parameters of listMessages.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code, reason = "describes the query; it is read field by field")]
pub struct ListMessagesParams {
    /// Lists the messages that are in this state.
    state: ListedState,
    /// With payloads and headers. A page of payloads ends early rather than pass 4 MiB.
    #[param(default = false)]
    payload: Option<bool>,
    /// Items on a page, 1…1000.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before.
    #[param(min_length = 1, max_length = 256)]
    cursor: Option<String>,
}

/// A page of messages.
#[derive(Serialize, ToSchema)]
pub struct MessageList<'a> {
    /// The messages, in the state's own order, without their events.
    items: Vec<Message<'a>>,
    /// For the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// List a topic's messages.
///
/// Those of one state, in its own order: ready ones as they would be granted, dead and acked ones oldest first. While
/// there is more, `next_cursor` asks for the next page.
#[utoipa::path(
    get, path = "/topics/{topic}/messages", operation_id = "listMessages", tag = "messages",
    params(super::extract::TopicParams, ListMessagesParams),
    responses(
        (status = 200, description = "A page of messages", body = MessageList),
        TopicProblems, CommonProblems, RedisProblems,
    ),
)]
pub async fn list_messages(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    query: Query,
) -> Result<Response, Problem> {
    let mut fields = query.fields();
    let listed = fields.choice("state", &STATES);
    let listed = fields.required("state", listed).unwrap_or(MessageState::Ready);
    let payload = fields.boolean("payload").unwrap_or(false);
    let limit = fields.integer("limit", 1..=MAX_PAGE).unwrap_or(DEFAULT_PAGE);
    let list = MessagesCursor(&name, listed);
    let after = read_cursor(&mut fields, |cursor| list.open(cursor));
    fields.finish()?;
    let bytes = payload.then(|| PAGE_BYTES.min(state.budget.largest_answer()));
    let listing = state.store.list_messages(&name, listed, after.as_ref(), limit, bytes);
    let (topic, page) = listing.await?;
    let items = page.items.iter().map(|found| Message::listed(&topic, found));
    let items = items.collect::<Result<_, _>>()?;
    let next_cursor = page.next.as_ref().map(|next| list.seal(next));
    Ok(super::json(&MessageList { items, next_cursor }).into_response())
}
