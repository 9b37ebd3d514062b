//! The tags of queues, which mean nothing to dueq.

use super::{
    Answer, Call, Fields, Queue, answer, done, fault::Fault, parts::Pairs, queues::change,
};
use dueq_model::TopicName;
use serde_json::json;
use std::collections::BTreeMap;

/// Tags of a queue, at most.
pub const MAX_TAGS: usize = 50;
const MAX_KEY: usize = 128;
const MAX_VALUE: usize = 256;

/// Reads and checks tags of this queue.
pub fn read(
    name: &TopicName,
    tags: Option<Pairs<String>>,
) -> Result<BTreeMap<String, String>, Fault> {
    let tags = tags.unwrap_or_default().0;
    let fits = |(key, value): &(String, String)| {
        (1..=MAX_KEY).contains(&key.chars().count()) && value.chars().count() <= MAX_VALUE
    };
    if tags.len() > MAX_TAGS {
        return Err(Fault::bad(format!("Too many tags added for queue {name}.")));
    }
    if !tags.iter().all(fits) {
        let message = "The key of a tag has 1 to 128 characters, and the value up to 256.";
        return Err(Fault::bad(message));
    }
    Ok(tags.into_iter().collect())
}

pub async fn list_queue_tags(_: &Call<'_>, queue: Queue, _: Fields) -> Answer {
    let sqs = queue.topic.settings.sqs.as_ref();
    match sqs.map(|sqs| &sqs.tags).filter(|tags| !tags.is_empty()) {
        Some(tags) => answer(&json!({"Tags": tags})),
        None => done(),
    }
}

pub async fn tag_queue(call: &Call<'_>, queue: Queue, fields: Fields) -> Answer {
    let tags = fields.tags.filter(|tags| !tags.0.is_empty());
    let tags = read(&queue.name, Some(tags.ok_or_else(|| Fault::missing("Tags"))?))?;
    change(call, &queue, |settings| {
        settings.sqs.get_or_insert_default().tags.extend(tags.clone());
    })
    .await
}

pub async fn untag_queue(call: &Call<'_>, queue: Queue, fields: Fields) -> Answer {
    let keys = fields.tag_keys.ok_or_else(|| Fault::missing("TagKeys"))?.0;
    if keys.is_empty() {
        return Err(Fault::bad("Tag keys must be between 1 and 128 characters in length."));
    }
    change(call, &queue, |settings| {
        settings.sqs.get_or_insert_default().tags.retain(|key, _| !keys.contains(key));
    })
    .await
}
