//! Queues: created, found, listed, changed, purged and deleted.

use super::{
    super::{access::Verb, request::cursor, topics::readable},
    Call, Queue, answer,
    attributes::{Attributes, Changes, MAX_KEPT},
    done,
    fault::{Fault, Kind},
    parts::{Pairs, is_plain},
    queue_name, tags,
};
use axum::{body::Body, http::Response};
use dueq_model::{
    GroupOrder, SQS_UNLIMITED_ATTEMPTS, State, TopicName, TopicSettings, error::Error,
};
use serde::Deserialize;
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

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct CreateQueue {
    queue_name: Option<String>,
    attributes: Option<Pairs<String>>,
    #[serde(rename = "tags", alias = "Tags")]
    tags: Option<Pairs<String>>,
}

/// The name of a new queue.
fn new_name(text: &str, is_fifo: bool) -> Result<TopicName, Fault> {
    let stem = if is_fifo { text.strip_suffix(".fifo") } else { Some(text) };
    let stem = stem.filter(|stem| text.len() <= MAX_NAME && is_plain(stem));
    let refuse = |message: &'static str| Fault::new(Kind::InvalidParameterValue, message);
    let stem = stem.ok_or_else(|| match is_fifo {
        true => refuse(
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with \
                .fifo suffix and be 1 to 80 in length.",
        ),
        false => refuse(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        ),
    })?;
    if stem.starts_with(['-', '_']) {
        return Err(refuse("The name of a queue of dueq begins with a letter or digit."));
    }
    queue_name(text)
}

pub async fn create_queue(call: &Call<'_>, request: CreateQueue) -> Result<Response<Body>, Fault> {
    let name = request.queue_name.ok_or_else(|| Fault::missing("QueueName"))?;
    let given: Attributes = request.attributes.map(|it| it.0).into_iter().flatten().collect();
    let is_fifo = match given.get("FifoQueue").map(String::as_str) {
        None => false,
        Some(value) if value.eq_ignore_ascii_case("true") => true,
        Some(_) => {
            let message = "Unknown Attribute FifoQueue.";
            return Err(Fault::new(Kind::InvalidAttributeName, message));
        }
    };
    let name = new_name(&name, is_fifo)?;
    call.caller.check_topic(&name)?;
    let tags = tags::read(&name, request.tags)?;
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
                let message = format!(
                    "A queue already exists with the same name and a different value for attribute {attribute}"
                );
                return Err(Fault::new(Kind::QueueNameExists, message));
            }
            return answer(&json!({"QueueUrl": call.url(&name)}));
        }
        if call.state.sqs_waits.as_ref().is_some_and(|waits| waits.has("deleted", &name)) {
            let message = "You must wait 60 seconds after deleting a queue before you can create another with the same name.";
            return Err(Fault::new(Kind::QueueDeletedRecently, message));
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
pub async fn change(
    call: &Call<'_>,
    queue: &Queue,
    change: impl Fn(&mut TopicSettings),
) -> Result<Response<Body>, Fault> {
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

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SetQueueAttributes {
    queue_url: Option<String>,
    attributes: Option<Pairs<String>>,
}

pub async fn set_queue_attributes(
    call: &Call<'_>,
    request: SetQueueAttributes,
) -> Result<Response<Body>, Fault> {
    let queue = call.queue(request.queue_url.as_deref()).await?;
    let given = request.attributes.ok_or_else(|| Fault::missing("Attributes"))?;
    let given = given.0.into_iter().collect();
    let changes = Changes::read(call, &queue.name, given, false).await?;
    changes.check(queue.topic.settings.sqs.as_ref().map(|sqs| &sqs.attributes))?;
    let now = call.state.store.now();
    change(call, &queue, |settings| changes.onto(settings, Some(now))).await
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct GetQueueUrl {
    queue_name: Option<String>,
}

pub async fn get_queue_url(call: &Call<'_>, request: GetQueueUrl) -> Result<Response<Body>, Fault> {
    let name = request.queue_name.ok_or_else(|| Fault::missing("QueueName"))?;
    let name = queue_name(&name)?;
    let may = |verb: &Verb| call.caller.check_verb(*verb, &name);
    if !Verb::ALL.iter().any(|verb| may(verb).is_ok()) {
        may(&Verb::Read)?;
    }
    let topic = call.state.store.known_topic(&name).await?;
    topic.ok_or_else(Fault::no_queue)?;
    answer(&json!({"QueueUrl": call.url(&name)}))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ListQueues {
    queue_url: Option<String>,
    queue_name_prefix: Option<String>,
    max_results: Option<i64>,
    next_token: Option<String>,
}

/// A page of queues that the caller may read, by name: where it begins, and how many it has at most.
struct Page<'a> {
    /// What the names begin with.
    prefix: &'a str,
    after: Option<String>,
    limit: usize,
}

impl<'a> Page<'a> {
    fn read(request: &'a ListQueues) -> Result<Self, Fault> {
        let most = request.max_results.unwrap_or(MAX_LISTED);
        if !(1..=MAX_LISTED).contains(&most) {
            let reason = "Must be between 1 and 1000, if provided.";
            return Err(Fault::invalid(most, "MaxResults", reason));
        }
        let prefix = request.queue_name_prefix.as_deref().unwrap_or_default();
        let token = request.next_token.as_deref().filter(|token| !token.is_empty());
        let after = token.map(|token| {
            cursor::open(&["topics", prefix], token)
                .ok_or_else(|| Fault::invalid(token, "NextToken", "Not a token of this list."))
        });
        Ok(Self { after: after.transpose()?, prefix, limit: most as usize })
    }

    async fn names(&self, call: &Call<'_>) -> Result<Vec<TopicName>, Fault> {
        let (store, after) = (&call.state.store, self.after.as_deref());
        Ok(readable(store, &call.caller, self.prefix, after, self.limit + 1).await?)
    }

    fn answer(
        &self,
        call: &Call<'_>,
        key: &str,
        names: &[TopicName],
        next: Option<&TopicName>,
    ) -> Result<Response<Body>, Fault> {
        let names = names.iter().filter(|name| !name.is_reserved());
        let urls: Vec<_> = names.map(|name| call.url(name)).collect();
        let mut body = serde_json::Map::new();
        // As of AWS: an empty list of queues is left out.
        if !urls.is_empty() || key != "QueueUrls" {
            body.insert(key.to_owned(), urls.into());
        }
        if let Some(last) = next {
            body.insert(
                "NextToken".to_owned(),
                cursor::seal(&["topics", self.prefix], &last.to_string()).into(),
            );
        }
        answer(&body)
    }
}

pub async fn list_queues(call: &Call<'_>, request: ListQueues) -> Result<Response<Body>, Fault> {
    let page = Page::read(&request)?;
    let mut names = page.names(call).await?;
    let more = names.len() > page.limit;
    names.truncate(page.limit);
    // Only who asks for pages gets them.
    let next = names.last().filter(|_| more && request.max_results.is_some());
    page.answer(call, "QueueUrls", &names, next)
}

/// Queues whose dead letters come to this one. A page may have fewer than it could, and a next one all the same.
pub async fn list_sources(call: &Call<'_>, request: ListQueues) -> Result<Response<Body>, Fault> {
    let queue = call.queue(request.queue_url.as_deref()).await?;
    let page = Page::read(&request)?;
    let mut names = page.names(call).await?;
    let more = names.len() > page.limit;
    names.truncate(page.limit);
    let next = names.last().filter(|_| more).cloned();
    let mut sources = Vec::new();
    for name in names {
        let topic = call.state.store.known_topic(&name).await?;
        if topic.is_some_and(|topic| topic.settings.dead_topic.as_ref() == Some(&queue.name)) {
            sources.push(name);
        }
    }
    page.answer(call, "queueUrls", &sources, next.as_ref())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct OneQueue {
    queue_url: Option<String>,
}

impl OneQueue {
    /// The queue that it names.
    pub async fn queue(&self, call: &Call<'_>) -> Result<Queue, Fault> {
        call.queue(self.queue_url.as_deref()).await
    }
}

pub async fn delete_queue(call: &Call<'_>, request: OneQueue) -> Result<Response<Body>, Fault> {
    let queue = request.queue(call).await?;
    call.caller.check_verb(Verb::Operate, &queue.name)?;
    let messages = call.state.store.delete_topic(&queue.name, true).await?;
    call.state.sqs_waits.as_ref().inspect(|waits| waits.add("deleted", &queue.name));
    call.caller.changed(messages);
    done()
}

/// Removes all messages, those too that are in flight.
pub async fn purge_queue(call: &Call<'_>, request: OneQueue) -> Result<Response<Body>, Fault> {
    let queue = request.queue(call).await?;
    let waits = call.state.sqs_waits.as_ref();
    if waits.is_some_and(|waits| waits.has("purged", &queue.name)) {
        let name = &queue.name;
        let message =
            format!("Only one PurgeQueue operation on {name} is allowed every 60 seconds.");
        return Err(Fault::new(Kind::PurgeQueueInProgress, message));
    }
    let states = [State::Blocked, State::Delayed, State::Ready, State::Leased];
    let store = &call.state.store;
    let round = store.round(call.caller.name());
    let done_with = store.purge_topic(&round, &queue.name, &states).await?;
    call.caller.changed(done_with.done);
    if done_with.cut_short {
        // SDKs repeat it, and the next one goes on.
        let left = format!("{} messages are left. Purge the queue again.", done_with.remaining);
        return Err(Fault::new(Kind::ServiceUnavailable, left));
    }
    waits.inspect(|waits| waits.add("purged", &queue.name));
    done()
}
