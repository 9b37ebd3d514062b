//! listMessages: what is in a topic, state by state.

use super::{cursor::MessagesCursor, message::Message, prelude::*};
use crate::model::DEFAULT_PAGE;

/// Bytes of bodies on a page.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

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

answer! {
    /// A page of messages.
    pub struct MessageList<'a> {
        /// The messages, in the state's own order, without their events.
        items: Vec<Message<'a>>,
        /// Cursor for the next page. Absent on the last page.
        next_cursor: Option<String>,
    }
}

/// List a topic's messages.
///
/// Messages in one state: ready ones in the order in which they would be leased, dead and acked ones oldest first. Pass
/// `next_cursor` to get the next page.
#[utoipa::path(
    get, path = "/topics/{topic}/messages", tag = "messages", params(TopicPath, ListMessagesParams),
    responses((status = 200, description = "A page of messages", body = MessageList), TopicProblems, RedisProblems),
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
    Ok(json(&MessageList { items, next_cursor }))
}
