//! redriveBatch, deleteBatch, runBatch: what is done to many messages by their ids.

use crate::prelude::*;
use dueq_model::MessageId;
use dueq_store::{Change, Due};

request! {
    /// Messages by their ids.
    pub struct IdsRequest {
        /// 1 to 1000 ids, from any topics.
        pub ids: Batch<MessageId>,
    }
}

answer! {
    /// What came of one message.
    pub struct IdResult {
        /// The message.
        id: MessageId,
        /// `ok`, or why nothing was done: `message_not_found`, `message_not_dead`, `duplicate_key`, `topic_full`,
        /// `message_leased`, `message_dead`, `message_acked`, `not_allowed`, `redis_unavailable`, `outcome_unknown`.
        #[example = "ok"]
        status: &'static str,
    }
}

answer! {
    /// What came of the messages.
    pub struct IdsResponse {
        /// One result for each id, in the order of the request.
        results: Vec<IdResult>,
    }
}

/// Redrive messages.
///
/// Up to 1000 dead messages, from any topic, each as by `redriveMessage`. `results` has one entry for each; none fails the others.
#[utoipa::path(
    post, path = "/messages/redrive", tag = "messages",
    request_body(content = IdsRequest, description = "The messages"),
    responses((status = 200, description = "The result for each", body = IdsResponse)),
)]
pub async fn redrive_batch(cx: Context, JsonBody(request, _): JsonBody<IdsRequest>) -> Response {
    change_by_ids(&cx, Change::Redrive, request).await
}

/// Delete messages.
///
/// Up to 1000 messages, from any topic, each as by `deleteMessage` without `force`. `results` has one entry for each; none fails
/// the others.
#[utoipa::path(
    post, path = "/messages/delete", tag = "messages",
    request_body(content = IdsRequest, description = "The messages"),
    responses((status = 200, description = "The result for each", body = IdsResponse)),
)]
pub async fn delete_batch(cx: Context, JsonBody(request, _): JsonBody<IdsRequest>) -> Response {
    change_by_ids(&cx, Change::Delete, request).await
}

/// Make messages due.
///
/// Up to 1000 delayed messages, from any topic, are due now. Those that are due already stay as they are, and those that wait for
/// earlier ones of their group go on waiting. `results` has one entry for each; none fails the others.
#[utoipa::path(
    post, path = "/messages/run", tag = "messages",
    request_body(content = IdsRequest, description = "The messages"),
    responses((status = 200, description = "The result for each", body = IdsResponse)),
)]
pub async fn run_batch(cx: Context, JsonBody(request, _): JsonBody<IdsRequest>) -> Response {
    change_by_ids(&cx, Change::Run, request).await
}

async fn change_by_ids(cx: &Context, change: Change, request: IdsRequest) -> Response {
    let (ids, round) = (request.ids.0, cx.round());
    let work = async |ids: Vec<MessageId>| {
        let messages: Vec<_> = ids.into_iter().map(|id| (id, Due::After(0))).collect();
        cx.store.change_messages(Some(&round), change, &[], &messages).await
    };
    let outcomes = cx.caller.on_permitted(&cx.store, ids.clone(), |id| *id, work).await;
    cx.caller.changed(outcomes.iter().filter(|outcome| outcome.is_ok()).count() as i64);
    let result = |(id, outcome)| IdResult { id, status: outcome_of(&outcome) };
    json(&IdsResponse { results: ids.into_iter().zip(outcomes).map(result).collect() })
}
