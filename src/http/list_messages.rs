//! listMessages: what is in a topic, state by state.

use super::{
    AppState,
    cursor::{Cursor, MessagesCursor, open_cursor},
    extract::{Query, TopicPath},
    input::{PageSize, request, words},
    message::Message,
    problem::{CommonProblems, Problem, RedisProblems, TopicProblems},
};
use crate::model::{DEFAULT_PAGE, State as MessageState};
use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Bytes of bodies on a page.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// A state to list messages by. `delayed`: not due yet. `ready`: due. `leased`: held by consumers. `dead`: attempts
/// used up. `acked`: kept after their ack.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
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

words!(ListedState);

impl From<ListedState> for MessageState {
    fn from(state: ListedState) -> Self {
        match state {
            ListedState::Delayed => Self::Delayed,
            ListedState::Ready => Self::Ready,
            ListedState::Leased => Self::Leased,
            ListedState::Dead => Self::Dead,
            ListedState::Acked => Self::Acked,
        }
    }
}

request! {
    /// Query parameters of listMessages.
    pub struct ListMessagesParams {
        /// The state to list.
        pub state: ListedState,
        /// Include payloads and headers. A page then ends before it exceeds 4 MiB.
        pub payload: bool = false,
        /// Items per page, 1 to 1000.
        pub limit: PageSize = PageSize::new(DEFAULT_PAGE),
        /// The `next_cursor` of the previous page.
        pub cursor: Option<Cursor>,
    }
}

/// A page of messages.
#[derive(Serialize, ToSchema)]
pub struct MessageList<'a> {
    /// The messages, in the state's own order, without their events.
    items: Vec<Message<'a>>,
    /// Cursor for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// List a topic's messages.
///
/// Messages in one state: ready ones in the order in which they would be leased, dead and acked ones oldest first. Pass
/// `next_cursor` to get the next page.
#[utoipa::path(
    get, path = "/topics/{topic}/messages", operation_id = "listMessages", tag = "messages",
    params(super::extract::TopicPath, ListMessagesParams),
    responses(
        (status = 200, description = "A page of messages", body = MessageList),
        TopicProblems, CommonProblems, RedisProblems,
    ),
)]
pub async fn list_messages(
    State(state): State<AppState>,
    TopicPath(name): TopicPath,
    Query(params): Query<ListMessagesParams>,
) -> Result<Response, Problem> {
    let ListMessagesParams { state: listed, payload, limit, cursor } = params;
    let (listed, limit) = (listed.into(), limit.get());
    let list = MessagesCursor(&name, listed);
    let after = open_cursor(cursor, |cursor| list.open(cursor))?;
    let bytes = payload.then(|| PAGE_BYTES.min(state.budget.largest_answer()));
    let listing = state.store.list_messages(&name, listed, after.as_ref(), limit, bytes);
    let (topic, page) = listing.await?;
    let items = page.items.iter().map(|found| Message::listed(&topic, found));
    let items = items.collect::<Result<_, _>>()?;
    let next_cursor = page.next.as_ref().map(|next| list.seal(next));
    Ok(super::json(&MessageList { items, next_cursor }).into_response())
}
