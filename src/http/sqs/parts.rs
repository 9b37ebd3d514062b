//! What requests and answers of SQS are made of: batches, and objects of a bounded size.

use super::{
    super::input::json::Items,
    fault::{Fault, Kind},
};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, MapAccess, Visitor},
};
use std::{fmt, marker::PhantomData, ops::RangeInclusive};

/// Entries of a batch, at most.
const MAX_ENTRIES: usize = 10;
/// Entries of an object that are kept, at most: one more than any may have.
const MAX_PAIRS: usize = 51;

/// The fields of actions that are seldom asked for; those of messages have their own.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Fields {
    pub queue_url: Option<String>,
    pub queue_name: Option<String>,
    pub queue_name_prefix: Option<String>,
    pub max_results: Option<i64>,
    pub next_token: Option<String>,
    pub attribute_names: Option<Items<String>>,
    pub attributes: Option<Pairs<String>>,
    #[serde(alias = "tags")]
    pub tags: Option<Pairs<String>>,
    pub tag_keys: Option<Items<String>>,
    pub label: Option<String>,
    #[serde(rename = "AWSAccountIds")]
    pub account_ids: Option<Items<String>>,
    pub actions: Option<Items<String>>,
    pub source_arn: Option<String>,
    pub destination_arn: Option<String>,
    pub max_number_of_messages_per_second: Option<i64>,
    pub task_handle: Option<String>,
}

/// The items of a list, none where it was left out.
pub fn items<T>(given: Option<Items<T>>) -> Vec<T> {
    given.map(|given| given.0).unwrap_or_default()
}

/// The number, if it is in the range. `must`: what the refusal says of it.
pub fn in_range(
    value: i64,
    range: RangeInclusive<i64>,
    name: &str,
    must: &str,
) -> Result<i64, Fault> {
    match range.contains(&value) {
        true => Ok(value),
        false => Err(Fault::invalid(value, name, &format!("Must be {must}, if provided."))),
    }
}

/// Is this text of the characters that names of queues and IDs of entries have?
pub fn is_plain(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !text.is_empty() && text.bytes().all(is_good)
}

/// The entries of a batch, with IDs that are good and distinct.
pub fn entries<T>(
    entries: Option<Items<T>>,
    id: impl Fn(&T) -> &str,
    what: &str,
) -> Result<Vec<T>, Fault> {
    let entries = items(entries);
    if entries.is_empty() {
        let message = format!("There should be at least one {what} in the request.");
        return Kind::EmptyBatchRequest.refuse(message);
    }
    let many = entries.len();
    if many > MAX_ENTRIES {
        return Kind::TooManyEntriesInBatchRequest.refuse(format!(
            "Maximum number of entries per request are {MAX_ENTRIES}. You have sent {many}."
        ));
    }
    for (at, entry) in entries.iter().enumerate() {
        let name = id(entry);
        if name.len() > 80 || !is_plain(name) {
            let message = "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at \
                most 80 letters long.";
            return Kind::InvalidBatchEntryId.refuse(message);
        }
        if entries[..at].iter().any(|other| id(other) == name) {
            return Kind::BatchEntryIdsNotDistinct.refuse(format!("Id {name} repeated."));
        }
    }
    Ok(entries)
}

/// The answer to a batch: what came of each entry.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BatchAnswer<T> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    successful: Vec<T>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<FailedEntry>,
}

/// An entry that failed.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct FailedEntry {
    id: String,
    sender_fault: bool,
    code: &'static str,
    message: String,
}

impl<T: Serialize> BatchAnswer<T> {
    /// Of what came of each entry, by its ID.
    pub fn of(outcomes: impl IntoIterator<Item = (String, Result<T, Fault>)>) -> Self {
        let mut this = Self { successful: Vec::new(), failed: Vec::new() };
        for (id, outcome) in outcomes {
            match outcome {
                Ok(done) => this.successful.push(done),
                Err(fault) => {
                    let (code, message, sender_fault) = fault.entry();
                    let message = message.to_owned();
                    this.failed.push(FailedEntry { id, sender_fault, code, message });
                }
            }
        }
        this
    }
}

/// The first entries of an object, whose cost does not grow with what was sent. Of equal names the last counts.
#[derive(Debug, Default)]
pub struct Pairs<T>(pub Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
            type Value = Pairs<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs: Vec<(String, T)> = Vec::new();
                while pairs.len() < MAX_PAIRS
                    && let Some((name, value)) = map.next_entry::<String, T>()?
                {
                    pairs.retain(|(other, _)| *other != name);
                    pairs.push((name, value));
                }
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Object(PhantomData))
    }
}
