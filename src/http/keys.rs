//! listKeys: which API keys are let in, and what each may do.

use super::{access::KeyEntry, prelude::*};

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
/// Returns the names and scopes of all API keys that the instance that is asked lets in, and neither the keys nor their
/// hashes.
#[utoipa::path(
    get, path = "/keys", tag = "service",
    responses((status = 200, description = "The keys", body = ApiKeyList)),
)]
pub async fn list_keys(State(state): State<AppState>, _: NoQuery) -> Result<Response, Problem> {
    let item = |entry: KeyEntry| ApiKey {
        scopes: entry.scopes.words(),
        publish_per_s: entry.rate.map(i64::from),
        name: entry.name,
    };
    let items = state.access.key_entries().into_iter().map(item).collect();
    Ok(json(&ApiKeyList { items }))
}
