//! getPushSecret, getCallbackPublicKey: what receivers check signatures with.

use crate::prelude::*;
use axum::http::header;
use dueq_model::{CallUrl, SigningKey, TopicName, derived, is_shared, signing_keys};

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

answer! {
    /// The public keys of what signs calls of a topic to an origin.
    pub struct PublicKeys {
        /// The keys of Ed25519 per Standard Webhooks, one for each `--signing-secret`, in its order. Empty if the server has none.
        #[example = json!(["whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="])]
        keys: Vec<String>,
        /// Whether calls are signed by their key pairs: `--callback-signature` is `ed25519` or `both`.
        in_use: bool,
    }
}

request! {
    /// Query parameters of getCallbackPublicKey.
    pub struct PublicKeyParams {
        /// The origin that is called, or any URL of it.
        #[example = "https://example.com"]
        pub origin: CallUrl,
        /// The topic. Default: `_callbacks`.
        pub topic: Option<TopicName>,
    }
}

/// Get the public keys of calls.
///
/// Returns what receivers check the `v1a` signatures of a topic's calls to one origin with. For `_callbacks` they are the keys of
/// what the API key that asks publishes. They are no secret, and exist for every name.
#[utoipa::path(
    get, path = "/callbacks/public-key", tag = "callbacks", params(PublicKeyParams),
    responses((status = 200, description = "The public keys", body = PublicKeys), RedisProblems),
)]
pub async fn get_callback_public_key(
    cx: Context,
    Query(PublicKeyParams { origin, topic }): Query<PublicKeyParams>,
) -> Answer {
    let (topic, owner) = (topic.unwrap_or_else(TopicName::callbacks), cx.caller.owner());
    let known = match is_shared(&topic, owner) {
        true => cx.store.known_topic(&topic).await?,
        false => None,
    };
    let own =
        known.as_ref().and_then(|topic| Some(topic.settings.push.as_ref()?.secrets.as_slice()));
    let origin = origin.origin().unwrap_or_default();
    let keys = match own.filter(|secrets| !secrets.is_empty()) {
        Some(secrets) => signing_keys(secrets, &topic, owner, &origin),
        None => signing_keys(&cx.signing.borrow(), &topic, owner, &origin),
    };
    let keys = keys.iter().map(SigningKey::public).collect();
    Ok(json(&PublicKeys { keys, in_use: cx.signs_by_keys }).into_response())
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
