//! getPushSecret: what receivers check signatures with.

use crate::prelude::*;
use axum::http::header;
use dueq_model::{derived, is_shared};

answer! {
    /// The secrets that are derived of the server's for a topic.
    pub struct PushSecrets {
        /// The secrets per Standard Webhooks, one for each of the server's, in its order. Empty if the server has no
        /// `--signing-secret`.
        #[example = json!(["whsec_Tr/Q5zpukhI2M3KzOAi2LQ+NbvdRm/+Z7YyVN4T9+wY="])]
        secrets: Vec<String>,
        /// False if the topic has `push.secrets`, which sign in their place.
        in_use: bool,
    }
}

/// Get a topic's signing secrets.
///
/// Returns what receivers check signatures with: the secrets that are derived for the topic of the server's `--signing-secret`. For
/// `_callbacks` they are those of the API key that asks, which sign what it publishes. Secrets that were set by `push.secrets` or in a
/// callback are never shown. That they were read is noted in the audit log.
#[utoipa::path(
    get, path = "/topics/{topic}/push/secret", tag = "topics", params(TopicPath),
    responses((status = 200, description = "The secrets", body = PushSecrets), TopicProblems, RedisProblems),
)]
pub async fn get_push_secret(cx: Context, TopicPath(name): TopicPath, _: NoQuery) -> Answer {
    let topic = cx.store.known_topic(&name).await?;
    // dueq's own comes into being with its first message.
    if topic.is_none() && !name.is_callbacks() {
        return Err(Error::TopicNotFound.into());
    }
    let push = topic.as_ref().and_then(|topic| topic.settings.push.as_ref());
    let own = push.map(|push| push.secrets.as_slice()).filter(|secrets| !secrets.is_empty());
    let shared = own.filter(|_| is_shared(&name, cx.caller.owner()));
    let in_use = own.is_none() || shared.is_some();
    let secrets = match shared {
        Some(secrets) => derived(secrets, &name, cx.caller.owner()),
        None => derived(&cx.signing.borrow(), &name, cx.caller.owner()),
    };
    let secrets = secrets.iter().map(|secret| secret.reveal().to_owned()).collect();
    let no_store = [(header::CACHE_CONTROL, "no-store")];
    Ok((no_store, json(&PushSecrets { secrets, in_use })).into_response())
}
