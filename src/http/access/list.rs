//! listKeys: which API keys are let in, and what each may do.

use crate::prelude::*;

answer! {
    /// An API key.
    pub struct ApiKey {
        /// Its name. A key without one is named by where it stands, such as `(line 4)` of the key file or `(--api-key 1)`.
        #[example = "billing"]
        name: String,
        /// What it may do: `admin`, or a verb and the topics of a pattern.
        #[example = json!(["publish:orders.*", "read:*"])]
        scopes: Vec<String>,
        /// How many messages a second it may publish at each instance. Absent: any number.
        publish_per_s: Option<i64>,
        /// How many topics it may make. Absent: any number, as for other `max_` fields.
        max_topics: Option<i64>,
        /// How many topics it has made that are there. Absent if that is not limited, or Redis does not answer, as for
        /// `messages` and `bytes`.
        topics: Option<i64>,
        /// How many messages the topics that it may publish to may hold for it to publish more.
        max_messages: Option<i64>,
        /// How many messages they hold that are not acknowledged.
        messages: Option<i64>,
        /// How many bytes of payloads and headers they may hold for it to publish more.
        max_bytes: Option<i64>,
        /// How many bytes they hold.
        bytes: Option<i64>,
    }
}

answer! {
    /// The API keys of an instance.
    pub struct ApiKeyList {
        /// The keys, by name. Empty if the server has none.
        items: Vec<ApiKey>,
    }
}

/// List API keys.
///
/// Returns the names, scopes and quotas of all API keys that the instance that is asked lets in, and neither the keys nor
/// their hashes.
#[utoipa::path(
    get, path = "/keys", tag = "service",
    responses((status = 200, description = "The keys", body = ApiKeyList)),
)]
pub async fn list_keys(cx: Context, _: NoQuery) -> Answer {
    let keys = cx.access.keys();
    let made: Vec<_> = keys.iter().filter_map(|it| it.maker.as_ref()).map(|it| &*it.key).collect();
    let mut made = cx.store.topics_made(&made).await.unwrap_or_default().into_iter();
    let mut items = Vec::with_capacity(keys.len());
    for key in keys {
        let [max_messages, max_bytes] = key.room.as_ref().map_or([None; 2], |room| room.most);
        let stored = match key.room {
            None => None,
            Some(_) => {
                let ranges = key.entry.scopes.ranges(Verb::Publish, "");
                cx.store.stored(&ranges, max_bytes.is_some()).await.ok()
            }
        };
        items.push(ApiKey {
            name: key.entry.name.clone(),
            scopes: key.entry.scopes.words(),
            publish_per_s: key.entry.rate.map(i64::from),
            max_topics: key.maker.as_ref().map(|maker| maker.topics),
            topics: key.maker.as_ref().and_then(|_| made.next()),
            max_messages,
            messages: stored.filter(|_| max_messages.is_some()).map(|stored| stored.messages),
            max_bytes,
            bytes: stored.filter(|_| max_bytes.is_some()).map(|stored| stored.bytes),
        });
    }
    Ok(json(&ApiKeyList { items }))
}
