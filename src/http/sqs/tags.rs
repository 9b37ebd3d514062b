//! The tags of queues, which mean nothing to dueq.

use super::{
    super::input::json::Items,
    Call, answer, done,
    fault::{Fault, Kind},
    parts::Pairs,
    queues::{OneQueue, change},
};
use axum::{body::Body, http::Response};
use dueq_model::TopicName;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;

/// Tags of a queue, at most.
pub const MAX_TAGS: usize = 50;
const MAX_KEY: usize = 128;
const MAX_VALUE: usize = 256;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TagQueue {
    queue_url: Option<String>,
    tags: Option<Pairs<String>>,
    tag_keys: Option<Items<String>>,
}

/// Reads and checks tags of this queue.
pub fn read(
    name: &TopicName,
    tags: Option<Pairs<String>>,
) -> Result<BTreeMap<String, String>, Fault> {
    let tags = tags.map(|tags| tags.0).unwrap_or_default();
    let fits = |(key, value): &(String, String)| {
        (1..=MAX_KEY).contains(&key.chars().count()) && value.chars().count() <= MAX_VALUE
    };
    if tags.len() > MAX_TAGS {
        let message = format!("Too many tags added for queue {name}.");
        return Err(Fault::new(Kind::InvalidParameterValue, message));
    }
    if !tags.iter().all(fits) {
        let message = "The key of a tag has 1 to 128 characters, and the value up to 256.";
        return Err(Fault::new(Kind::InvalidParameterValue, message));
    }
    Ok(tags.into_iter().collect())
}

pub async fn list_queue_tags(call: &Call<'_>, request: OneQueue) -> Result<Response<Body>, Fault> {
    let queue = request.queue(call).await?;
    let topic = call.state.store.fresh_topic(&queue.name).await?.ok_or_else(Fault::no_queue)?;
    match topic.settings.sqs.as_ref().map(|sqs| &sqs.tags).filter(|tags| !tags.is_empty()) {
        Some(tags) => answer(&json!({"Tags": tags})),
        None => done(),
    }
}

pub async fn tag_queue(call: &Call<'_>, request: TagQueue) -> Result<Response<Body>, Fault> {
    let queue = call.queue(request.queue_url.as_deref()).await?;
    let tags = request.tags.filter(|tags| !tags.0.is_empty());
    let tags = read(&queue.name, Some(tags.ok_or_else(|| Fault::missing("Tags"))?))?;
    change(call, &queue, |settings| {
        let known = &mut settings.sqs.get_or_insert_default().tags;
        known.extend(tags.clone());
    })
    .await
}

pub async fn untag_queue(call: &Call<'_>, request: TagQueue) -> Result<Response<Body>, Fault> {
    let queue = call.queue(request.queue_url.as_deref()).await?;
    let keys = request.tag_keys.ok_or_else(|| Fault::missing("TagKeys"))?.0;
    if keys.is_empty() {
        let message = "Tag keys must be between 1 and 128 characters in length.";
        return Err(Fault::new(Kind::InvalidParameterValue, message));
    }
    change(call, &queue, |settings| {
        let known = &mut settings.sqs.get_or_insert_default().tags;
        known.retain(|key, _| !keys.contains(key));
    })
    .await
}
