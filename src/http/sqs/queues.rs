//! Queues: created, found, listed, changed, purged and deleted.

use super::{
    super::{access::Verb, request::cursor, topics::readable},
    Answer, Call, Fields, Queue, answer,
    attributes::{Attributes, Changes, MAX_KEPT},
    done,
    fault::{Fault, Kind},
    parts::{in_range, is_plain},
    queue_name, tags,
};
use dueq_model::{
    GroupOrder, SQS_UNLIMITED_ATTEMPTS, State, TopicName, TopicSettings, error::Error,
};
use futures_util::future::try_join_all;
use serde_json::json;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Characters of a queue's name, at most.
const MAX_NAME: usize = 80;
/// Queues of one answer, at most.
const MAX_LISTED: i64 = 1_000;
/// How long a queue keeps a message by default, ms: 4 days.
const RETENTION_MS: i64 = 345_600_000;
/// The largest message by default, bytes.
const MESSAGE_BYTES: i64 = 1_048_576;
/// For how long it waits.
const WAIT: Duration = Duration::from_secs(60);
/// Tries to create a queue that others create and delete meanwhile.
const TRIES: usize = 5;

/// Queues that were purged or deleted by this instance in the last 60 s.
#[derive(Default)]
pub struct SqsWaits(Mutex<HashMap<(&'static str, TopicName), Instant>>);

impl SqsWaits {
    fn all(&self) -> MutexGuard<'_, HashMap<(&'static str, TopicName), Instant>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, since| since.elapsed() < WAIT);
        all
    }

    fn has(&self, what: &'static str, name: &TopicName) -> bool {
        self.all().contains_key(&(what, name.clone()))
    }

    fn add(&self, what: &'static str, name: &TopicName) {
        self.all().insert((what, name.clone()), Instant::now());
    }
}

/// The name of a new queue.
fn new_name(text: &str, is_fifo: bool) -> Result<TopicName, Fault> {
    let stem = if is_fifo { text.strip_suffix(".fifo") } else { Some(text) };
    let stem = stem.filter(|stem| text.len() <= MAX_NAME && is_plain(stem));
    Err(Fault::bad(match stem {
        None if is_fifo => {
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with \
                .fifo suffix and be 1 to 80 in length."
        }
        None => {
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        }
        Some(stem) if stem.starts_with(['-', '_']) => {
            "The name of a queue of dueq begins with a letter or digit."
        }
        Some(_) => return queue_name(text),
    }))
}

pub async fn create_queue(call: &Call<'_>, fields: Fields) -> Answer {
    let name = fields.queue_name.ok_or_else(|| Fault::missing("QueueName"))?;
    let given: Attributes = fields.attributes.unwrap_or_default().0.into_iter().collect();
    let is_fifo = match given.get("FifoQueue").map(String::as_str) {
        None => false,
        Some(value) if value.eq_ignore_ascii_case("true") => true,
        Some(_) => return Kind::InvalidAttributeName.refuse("Unknown Attribute FifoQueue."),
    };
    let name = new_name(&name, is_fifo)?;
    call.caller.check_topic(&name)?;
    let tags = tags::read(&name, fields.tags)?;
    let changes = Changes::read(call, &name, given, true).await?;
    changes.check(None)?;
    let store = &call.state.store;
    // In a standard queue a group is a tenant.
    let is_fair = !is_fifo && store.fair_by_default();
    let mut order = if is_fair { GroupOrder::Fair } else { GroupOrder::Strict };
    for _ in 0..TRIES {
        if let Some(topic) = store.fresh_topic(&name).await? {
            let queue = Queue { name: name.clone(), topic };
            if let Some(attribute) = changes.differs(call, &queue) {
                return Kind::QueueNameExists.refuse(format!(
                    "A queue already exists with the same name and a different value for attribute {attribute}"
                ));
            }
            return answer(&json!({"QueueUrl": call.url(&name)}));
        }
        if call.state.sqs_waits.as_ref().is_some_and(|waits| waits.has("deleted", &name)) {
            return Kind::QueueDeletedRecently.refuse(
                "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
            );
        }
        let new = |before: Option<&TopicSettings>| {
            if before.is_some() {
                return Err(Error::RevisionMismatch);
            }
            let mut settings = TopicSettings {
                max_attempts: SQS_UNLIMITED_ATTEMPTS,
                ttl_ms: Some(RETENTION_MS),
                max_payload_bytes: MESSAGE_BYTES,
                group_order: order,
                ..TopicSettings::default()
            };
            let sqs = settings.sqs.get_or_insert_default();
            sqs.created_at = store.now();
            sqs.tags.clone_from(&tags);
            changes.onto(&mut settings, None);
            checked(settings)
        };
        match store.put_topic(&name, new, None, call.caller.maker()).await {
            Ok(_) => return answer(&json!({"QueueUrl": call.url(&name)})),
            Err(Error::RevisionMismatch) => {}
            // An instance runs that knows of no turns, and would make a queue without them.
            Err(Error::UpgradePending(_)) if order == GroupOrder::Fair => {
                order = GroupOrder::Strict
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::OutcomeUnknown.into())
}

/// What is kept with a topic is bounded.
fn checked(settings: TopicSettings) -> Result<TopicSettings, Error> {
    let bytes = |pairs: &Attributes| pairs.iter().map(|(a, b)| a.len() + b.len()).sum::<usize>();
    let Some(sqs) = &settings.sqs else { return Ok(settings) };
    if sqs.tags.len() > tags::MAX_TAGS {
        return Err(Error::BadSetting("Tags", "are more than 50"));
    }
    match bytes(&sqs.attributes) + bytes(&sqs.tags) > MAX_KEPT {
        true => {
            Err(Error::BadSetting("Attributes", "are larger than 32 KiB together with the tags"))
        }
        false => Ok(settings),
    }
}

/// Changes what is set of a queue.
pub async fn change(call: &Call<'_>, queue: &Queue, change: impl Fn(&mut TopicSettings)) -> Answer {
    let changed = |before: &TopicSettings| {
        let mut settings = TopicSettings { closing: false, ..before.clone() };
        if settings.sqs.is_none() {
            let created_at = queue.topic.revision / 1024;
            settings.sqs.get_or_insert_default().created_at = created_at;
        }
        change(&mut settings);
        checked(settings)
    };
    call.state.store.update_topic(&queue.name, changed, None).await?;
    done()
}

pub async fn set_queue_attributes(call: &Call<'_>, queue: Queue, fields: Fields) -> Answer {
    let given = fields.attributes.ok_or_else(|| Fault::missing("Attributes"))?;
    let given = given.0.into_iter().collect();
    let changes = Changes::read(call, &queue.name, given, false).await?;
    changes.check(queue.topic.settings.sqs.as_ref().map(|sqs| &sqs.attributes))?;
    let now = call.state.store.now();
    change(call, &queue, |settings| changes.onto(settings, Some(now))).await
}

pub async fn get_queue_url(call: &Call<'_>, fields: Fields) -> Answer {
    let name = fields.queue_name.ok_or_else(|| Fault::missing("QueueName"))?;
    let name = queue_name(&name)?;
    let may = |verb: &Verb| call.caller.check_verb(*verb, &name);
    if !Verb::ALL.iter().any(|verb| may(verb).is_ok()) {
        may(&Verb::Read)?;
    }
    let Queue { name, .. } = call.fresh(name).await?;
    answer(&json!({"QueueUrl": call.url(&name)}))
}

/// A page of the queues that the caller may read, by name, and the token of the next, if there is one.
async fn page(call: &Call<'_>, fields: &Fields) -> Result<(Vec<TopicName>, Option<String>), Fault> {
    let most = fields.max_results.unwrap_or(MAX_LISTED);
    let most = in_range(most, 1..=MAX_LISTED, "MaxResults", "between 1 and 1000")? as usize;
    let prefix = fields.queue_name_prefix.as_deref().unwrap_or_default();
    let token = fields.next_token.as_deref().filter(|token| !token.is_empty());
    let after = token.map(|token| {
        cursor::open::<String>(&["topics", prefix], token)
            .ok_or_else(|| Fault::invalid(token, "NextToken", "Not a token of this list."))
    });
    let (store, after) = (&call.state.store, after.transpose()?);
    let mut names = readable(store, &call.caller, prefix, after.as_deref(), most + 1).await?;
    let more = names.len() > most;
    names.truncate(most);
    let last = names.last().filter(|_| more);
    let next = last.map(|last| cursor::seal(&["topics", prefix], &last.to_string()));
    Ok((names, next))
}

/// The answer that has the URLs of these queues in this field.
fn listed(call: &Call<'_>, field: &str, names: &[TopicName], next: Option<String>) -> Answer {
    let names = names.iter().filter(|name| !name.is_reserved());
    let urls: Vec<_> = names.map(|name| call.url(name)).collect();
    let mut body = serde_json::Map::new();
    // As of AWS: an empty list of queues is left out.
    if !urls.is_empty() || field != "QueueUrls" {
        body.insert(field.to_owned(), urls.into());
    }
    body.extend(next.map(|token| ("NextToken".to_owned(), token.into())));
    answer(&body)
}

pub async fn list_queues(call: &Call<'_>, fields: Fields) -> Answer {
    let (names, next) = page(call, &fields).await?;
    // Only who asks for pages gets them.
    listed(call, "QueueUrls", &names, next.filter(|_| fields.max_results.is_some()))
}

/// Queues whose dead letters come to this one. A page may have fewer than it could, and a next one all the same.
pub async fn list_sources(call: &Call<'_>, queue: Queue, fields: Fields) -> Answer {
    let (names, next) = page(call, &fields).await?;
    listed(call, "queueUrls", &sources_of(call, &queue.name, names).await?, next)
}

/// Those of these queues whose dead letters come to this one.
pub async fn sources_of(
    call: &Call<'_>,
    dead: &TopicName,
    names: Vec<TopicName>,
) -> Result<Vec<TopicName>, Fault> {
    let looks = names.into_iter().map(async |name| {
        let topic = call.state.store.fresh_topic(&name).await?;
        let to = topic.and_then(|topic| topic.settings.dead_topic.clone());
        Ok::<_, Fault>(Some(name).filter(|_| to.as_ref() == Some(dead)))
    });
    Ok(try_join_all(looks).await?.into_iter().flatten().collect())
}

pub async fn delete_queue(call: &Call<'_>, queue: Queue, _: Fields) -> Answer {
    call.caller.check_verb(Verb::Operate, &queue.name)?;
    let messages = call.state.store.delete_topic(&queue.name, true).await?;
    call.state.sqs_waits.as_ref().inspect(|waits| waits.add("deleted", &queue.name));
    call.caller.changed(messages);
    done()
}

/// Removes all messages, those too that are in flight.
pub async fn purge_queue(call: &Call<'_>, queue: Queue, _: Fields) -> Answer {
    let waits = call.state.sqs_waits.as_ref();
    if waits.is_some_and(|waits| waits.has("purged", &queue.name)) {
        let name = &queue.name;
        return Kind::PurgeQueueInProgress.refuse(format!(
            "Only one PurgeQueue operation on {name} is allowed every 60 seconds."
        ));
    }
    let states = [State::Blocked, State::Delayed, State::Ready, State::Leased];
    let store = &call.state.store;
    let round = store.round(call.caller.name());
    let done_with = store.purge_topic(&round, &queue.name, &states).await?;
    call.caller.changed(done_with.done);
    if done_with.cut_short {
        // SDKs repeat it, and the next one goes on.
        let left = format!("{} messages are left. Purge the queue again.", done_with.remaining);
        return Kind::ServiceUnavailable.refuse(left);
    }
    waits.inspect(|waits| waits.add("purged", &queue.name));
    done()
}
