//! The attributes of queues. Those that are settings of a topic are read from there and written to there, so that a queue
//! shows what dueq's own API has set. The others are kept with the topic, and some of them mean nothing to dueq: `Policy`,
//! `RedriveAllowPolicy` and the encryption.

use super::{
    super::access::Verb,
    Answer, Call, Fields, Queue, answer,
    fault::{Fault, Kind},
    parts::items,
    queue_of_arn,
};
use dueq_model::{DeadForm, MAX_DELAY_MS, SQS_UNLIMITED_ATTEMPTS, TopicName, TopicSettings};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Attributes by name.
pub type Attributes = BTreeMap<String, String>;

/// Numbers, and what they may be. All but the last always have a value.
const NUMBERS: [(&str, i64, i64); 6] = [
    ("VisibilityTimeout", 0, 43_200),
    ("MessageRetentionPeriod", 60, 1_209_600),
    ("MaximumMessageSize", 1_024, 1_048_576),
    // More than the 900 of AWS, as of a message.
    ("DelaySeconds", 0, (MAX_DELAY_MS / 1000) as i64),
    ("ReceiveMessageWaitTimeSeconds", 0, 20),
    (REUSE.0, 60, 86_400),
];
/// The last of them and its default, which is not shown.
const REUSE: (&str, &str) = ("KmsDataKeyReusePeriodSeconds", "300");
/// Words of which an attribute is one. The first is the default of a FIFO queue.
const WORDS: [(&str, [&str; 2]); 4] = [
    ("ContentBasedDeduplication", ["false", "true"]),
    (SCOPE, ["queue", "messageGroup"]),
    (LIMIT, ["perQueue", "perMessageGroupId"]),
    ("SqsManagedSseEnabled", ["false", "true"]),
];
/// Texts that dueq keeps and shows.
const TEXTS: [&str; 3] = ["Policy", "RedriveAllowPolicy", "KmsMasterKeyId"];
const COUNTS: [&str; 3] = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
];
const SCOPE: &str = "DeduplicationScope";
/// Kept, and not shown: until when (ms) another scope is in force, and which.
const SCOPE_BEFORE: &str = "dueq.scope";
/// How long the scope from before is in force after a change, ms. AWS says that a change takes so long at most.
const SCOPE_MS: i64 = 60_000;
const LIMIT: &str = "FifoThroughputLimit";
const FACTS: [&str; 3] = ["QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"];
const FIFO: &str = "FifoQueue";
const REDRIVE: &str = "RedrivePolicy";
/// Bytes of all that is kept with a topic, at most.
pub const MAX_KEPT: usize = 32 * 1024;

/// Where messages go that were received too often, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redrive {
    dead_topic: TopicName,
    max_attempts: i64,
}

/// Attributes to be set, checked.
#[derive(Debug, Default)]
pub struct Changes {
    given: Attributes,
    /// `Some(None)`: there is none any more.
    redrive: Option<Option<Redrive>>,
}

fn unknown(name: &str) -> Fault {
    Fault::new(Kind::InvalidAttributeName, format!("Unknown Attribute {name}."))
}

fn wrong(name: &str, reason: &str) -> Fault {
    let message = format!("Invalid value for the parameter {name}.{reason}");
    Fault::new(Kind::InvalidAttributeValue, message)
}

/// The scope of deduplication IDs at this instant (ms).
pub fn scope_in_force(attributes: &Attributes, now: i64) -> &str {
    let before = attributes.get(SCOPE_BEFORE).and_then(|text| text.split_once(' '));
    let before = before.filter(|(until, _)| until.parse().is_ok_and(|until: i64| now < until));
    let scope = || attributes.get(SCOPE).map_or("queue", String::as_str);
    before.map_or_else(scope, |(_, scope)| scope)
}

impl Changes {
    /// Checks attributes that are given for the queue of this name.
    pub async fn read(
        call: &Call<'_>,
        name: &TopicName,
        given: Attributes,
        creates: bool,
    ) -> Result<Self, Fault> {
        let is_fifo = super::is_fifo(name);
        let mut this = Self::default();
        for (attribute, mut value) in given {
            let known = attribute.trim();
            if let Some((_, least, most)) = NUMBERS.iter().find(|(name, ..)| *name == known) {
                let number = value.parse::<i64>().ok();
                number.filter(|it| (least..=most).contains(&it)).ok_or_else(|| wrong(known, ""))?;
            } else if let Some((_, words)) = WORDS.iter().find(|(name, _)| *name == known) {
                match known {
                    "SqsManagedSseEnabled" => {}
                    _ if is_fifo => {}
                    "ContentBasedDeduplication" => return Err(unknown(known)),
                    _ => {
                        return Kind::InvalidAttributeName.refuse(format!(
                            "You can specify the {known} only when FifoQueue is set to true."
                        ));
                    }
                }
                let word = words.iter().find(|word| word.eq_ignore_ascii_case(&value));
                value = word.ok_or_else(|| wrong(known, ""))?.to_string();
            } else if known == REDRIVE {
                this.redrive = Some(read_redrive(call, name, &value).await?);
            } else if known == FIFO {
                match (creates, is_fifo) {
                    (true, _) => {}
                    (false, true) if value.eq_ignore_ascii_case("true") => {}
                    (false, true) => {
                        return Err(wrong(FIFO, " Reason: Modifying queue type is not supported."));
                    }
                    (false, false) => return Err(unknown(FIFO)),
                }
            } else if !TEXTS.contains(&known) {
                return Err(unknown(known));
            } else if known == "Policy" && !value.is_empty() {
                let policy = serde_json::from_str::<Value>(&value).unwrap_or_default();
                policy.as_object().ok_or_else(|| wrong(known, ""))?;
            }
            this.given.insert(known.to_owned(), value);
        }
        Ok(this)
    }

    /// Checks those that depend on each other, as far as they are given or set already.
    pub fn check(&self, before: Option<&Attributes>) -> Result<(), Fault> {
        let get = |name| self.given.get(name).or_else(|| before?.get(name)).map(String::as_str);
        let is_given = self.given.contains_key(LIMIT) || self.given.contains_key(SCOPE);
        if is_given && get(LIMIT) == Some("perMessageGroupId") && get(SCOPE) != Some("messageGroup")
        {
            let reason = " Reason: perMessageGroupId is allowed only when DeduplicationScope is messageGroup.";
            return Err(wrong(LIMIT, reason));
        }
        Ok(())
    }

    /// Sets them; `now` (ms) in a queue that exists.
    pub fn onto(&self, settings: &mut TopicSettings, now: Option<i64>) {
        let sqs = settings.sqs.get_or_insert_default();
        let set = sqs.attributes.get(SCOPE).map_or("queue", String::as_str);
        if let Some(now) = now
            && self.given.get(SCOPE).is_some_and(|scope| scope != set)
        {
            let kept = format!("{} {}", now + SCOPE_MS, scope_in_force(&sqs.attributes, now));
            sqs.attributes.insert(SCOPE_BEFORE.to_owned(), kept);
        }
        for (name, value) in &self.given {
            let number = value.parse().unwrap_or(0);
            match name.as_str() {
                "VisibilityTimeout" if number > 0 => {
                    settings.lease_ms = number * 1000;
                    sqs.attributes.remove(name);
                }
                "MessageRetentionPeriod" => settings.ttl_ms = Some(number * 1000),
                "MaximumMessageSize" => settings.max_payload_bytes = number,
                REDRIVE | FIFO => {}
                _ if value.is_empty() => drop(sqs.attributes.remove(name)),
                _ => drop(sqs.attributes.insert(name.clone(), value.clone())),
            }
        }
        match &self.redrive {
            None => {}
            Some(None) => {
                settings.max_attempts = SQS_UNLIMITED_ATTEMPTS;
                settings.dead_topic = None;
            }
            Some(Some(Redrive { dead_topic, max_attempts })) => {
                settings.max_attempts = *max_attempts;
                settings.dead_topic = Some(dead_topic.clone());
                settings.dead_form = DeadForm::Raw;
            }
        }
    }

    /// An attribute that has another value in this queue.
    pub fn differs(&self, call: &Call<'_>, queue: &Queue) -> Option<&str> {
        let shown = settings_of(call, queue);
        let differs = |(name, value): &(&String, &String)| match name.as_str() {
            REDRIVE => Some(redrive_of(&queue.topic.settings)) != self.redrive,
            FIFO => !queue.is_fifo(),
            name => {
                let default = if name == REUSE.0 { REUSE.1 } else { "" };
                shown.get(name).map_or(default, String::as_str) != *value
            }
        };
        self.given.iter().find(differs).map(|(name, _)| name.as_str())
    }
}

/// Reads a redrive policy; an empty text is none.
async fn read_redrive(
    call: &Call<'_>,
    name: &TopicName,
    text: &str,
) -> Result<Option<Redrive>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    let refuse = |reason: &str| Fault::invalid(text, REDRIVE, &format!("{reason}."));
    let policy: Value = serde_json::from_str(text).unwrap_or_default();
    let policy = policy.as_object();
    let policy = policy.ok_or_else(|| refuse("Redrive policy is not a valid JSON map"))?;
    let missing = |field: &str| {
        refuse(&format!("Redrive policy does not contain mandatory attribute: {field}"))
    };
    let arn = policy.get("deadLetterTargetArn").and_then(Value::as_str);
    let arn = arn.ok_or_else(|| missing("deadLetterTargetArn"))?;
    let most = policy.get("maxReceiveCount").ok_or_else(|| missing("maxReceiveCount"))?;
    let most = most.as_i64().or_else(|| most.as_str()?.parse().ok());
    let max_attempts = most.filter(|most| (1..=1000).contains(most)).ok_or_else(|| {
        refuse("Invalid value for maxReceiveCount: valid values are from 1 to 1000 both inclusive")
    })?;
    let dead_topic =
        queue_of_arn(arn).ok_or_else(|| refuse("Dead letter target ARN is not valid"))?;
    if dead_topic == *name {
        return Err(refuse("Dead-letter queue must be another queue than the source"));
    }
    if super::is_fifo(&dead_topic) != super::is_fifo(name) {
        return Err(refuse("Dead-letter queue must be same type of queue as the source"));
    }
    call.caller.check_verb(Verb::Configure, &dead_topic)?;
    match call.state.store.known_topic(&dead_topic).await? {
        Some(_) => Ok(Some(Redrive { dead_topic, max_attempts })),
        None => Err(refuse("Dead letter target does not exist")),
    }
}

fn redrive_of(settings: &TopicSettings) -> Option<Redrive> {
    let dead_topic = settings.dead_topic.clone()?;
    Some(Redrive { dead_topic, max_attempts: settings.max_attempts })
}

/// The attributes of a queue that are no counts.
fn settings_of(call: &Call<'_>, queue: &Queue) -> BTreeMap<&'static str, String> {
    let settings = &queue.topic.settings;
    let mut shown = BTreeMap::new();
    let number = |name: &'static str| match name {
        "VisibilityTimeout" if queue.attribute(name).is_none() => settings.lease_ms / 1000,
        // A topic without a TTL keeps messages for longer than any queue.
        "MessageRetentionPeriod" => settings.ttl_ms.map_or(1_209_600, |ttl| ttl / 1000),
        "MaximumMessageSize" => settings.max_payload_bytes,
        _ => queue.number(name),
    };
    for (name, ..) in &NUMBERS[..5] {
        shown.insert(*name, number(name).to_string());
    }
    let modified = queue.topic.revision / 1024;
    let created = settings.sqs.as_ref().map_or(modified, |sqs| sqs.created_at);
    shown.insert("QueueArn", call.arn(&queue.name));
    shown.insert("CreatedTimestamp", (created / 1000).to_string());
    shown.insert("LastModifiedTimestamp", (modified.max(created) / 1000).to_string());
    for (name, words) in WORDS {
        if queue.is_fifo() || name == "SqsManagedSseEnabled" {
            shown.insert(name, queue.attribute(name).unwrap_or(words[0]).to_owned());
        }
    }
    for name in TEXTS.into_iter().chain([REUSE.0]) {
        if let Some(text) = queue.attribute(name).filter(|text| (name, *text) != REUSE) {
            shown.insert(name, text.to_owned());
        }
    }
    if queue.is_fifo() {
        shown.insert(FIFO, "true".to_owned());
    }
    if let Some(Redrive { dead_topic, max_attempts }) = redrive_of(settings) {
        let target = call.arn(&dead_topic);
        let policy = json!({"deadLetterTargetArn": target, "maxReceiveCount": max_attempts});
        shown.insert(REDRIVE, policy.to_string());
    }
    shown
}

pub async fn get_queue_attributes(call: &Call<'_>, queue: Queue, fields: Fields) -> Answer {
    let wanted = items(fields.attribute_names);
    let is_known = |name: &str| {
        let listed = [&TEXTS[..], &COUNTS, &FACTS, &["All", FIFO, REDRIVE]];
        listed.iter().any(|names| names.contains(&name))
            || NUMBERS.iter().any(|(known, ..)| *known == name)
            || WORDS.iter().any(|(known, _)| *known == name)
    };
    if let Some(name) = wanted.iter().find(|name| !is_known(name)) {
        return Err(unknown(name));
    }
    let has = |name: &str| wanted.iter().any(|wanted| wanted == name || wanted == "All");
    let mut shown = settings_of(call, &queue);
    if COUNTS.iter().any(|name| has(name)) {
        let (_, snapshot) = call.state.store.topic(&queue.name).await?;
        let ready = snapshot.ready + snapshot.blocked;
        let counts = [ready, snapshot.leased, snapshot.delayed].map(|count| count.to_string());
        shown.extend(COUNTS.into_iter().zip(counts));
    }
    shown.retain(|name, _| has(name));
    match shown.is_empty() {
        true => super::done(),
        false => answer(&json!({"Attributes": shown})),
    }
}
