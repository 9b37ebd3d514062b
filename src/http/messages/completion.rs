//! What is published at the end of a message: where requests say so, and what it holds.

use super::view::Message;
use crate::prelude::*;
use dueq_model::{Body, CallReport, CallUrl, Completion, EventKind, Millis, TopicName};
use dueq_store::{MessageSnapshot, NewMessage, Report, Store, Topic};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

request! {
    /// Where to publish the end of a message. Exactly one of `url` and `topic`. What is published is a message of its own:
    /// `{"message", "result"}` after an ack or a delivered call, `{"message", "error": {"reason", "status", "attempts"}}` after
    /// a death, with the header `dueq-completes`, the id of the message that ended.
    #[example = json!({"url": "https://example.com/hooks/done"})]
    pub struct CompletionRequest {
        /// A URL that dueq calls, as by `POST /callbacks`.
        pub url: Option<CallUrl>,
        /// A topic. The API key that names it must be allowed to publish there.
        #[example = "orders-done"]
        pub topic: Option<TopicName>,
    }
    check(fields) {
        match (given(&url), given(&topic)) {
            (true, true) => fields.refuse("topic", "cannot be given together with url"),
            (false, false) => fields.refuse("url", "is required, or topic in its place"),
            _ => {}
        }
        if topic.as_ref().is_some_and(|topic| topic.as_ref().is_some_and(TopicName::is_reserved)) {
            fields.refuse("topic", "topics whose names begin with _ are dueq's own");
        }
    }
}

impl From<CompletionRequest> for Completion {
    fn from(CompletionRequest { url, topic }: CompletionRequest) -> Self {
        Self { url, topic, ..Self::default() }
    }
}

impl From<CompletionRequest> for Option<Completion> {
    fn from(request: CompletionRequest) -> Self {
        Some(request.into())
    }
}

request! {
    /// Where the ends of a message are published.
    pub struct EndFields {
        /// Where to publish what came of it, once it is acknowledged or its call has succeeded. Default: the topic's.
        pub on_done: Option<CompletionRequest>,
        /// Where to publish that it died. Default: the topic's.
        pub on_dead: Option<CompletionRequest>,
    }
}

answer! {
    /// Where the end of a message is published.
    #[name = "Completion"]
    pub struct CompletionView<'a> {
        /// The URL that dueq calls.
        url: Option<&'a str>,
        /// The topic.
        #[example = "orders-done"]
        topic: Option<&'a TopicName>,
    }
}

impl<'a> From<&'a Completion> for CompletionView<'a> {
    fn from(Completion { url, topic, .. }: &'a Completion) -> Self {
        Self { url: url.as_ref().map(CallUrl::as_str), topic: topic.as_ref() }
    }
}

/// May the caller have completions of these messages published where they say? Notes who asks for calls.
///
/// Errors: `NotAllowed`.
pub fn own_completions<'a>(
    caller: &Caller,
    messages: impl IntoIterator<Item = &'a mut NewMessage>,
) -> Result<(), Error> {
    let all = messages.into_iter().flat_map(|it| [&mut it.body.on_done, &mut it.body.on_dead]);
    all.flatten().try_for_each(|it| own_completion(caller, it))
}

/// The same of one.
///
/// Errors: `NotAllowed`.
pub fn own_completion(caller: &Caller, completion: &mut Completion) -> Result<(), Error> {
    if completion.url.is_some() {
        completion.publisher = caller.owner().to_owned();
    }
    let callbacks = TopicName::callbacks();
    caller.check_verb(Verb::Publish, completion.topic.as_ref().unwrap_or(&callbacks))
}

/// Makes topics that are named for completions, for a caller who may only make so many: nobody is asked once there is something to
/// publish.
///
/// Errors: `TooManyTopics`, `TopicsExhausted`, `RedisUnavailable`, `OutcomeUnknown`.
pub async fn make_topics(
    store: &Store,
    caller: &Caller,
    named: Vec<TopicName>,
) -> Result<(), Error> {
    let Some(maker) = caller.maker() else { return Ok(()) };
    for name in named {
        store.make_topic(&name, maker).await?;
    }
    Ok(())
}

/// The topics that these messages name for their completions.
pub fn topics_of(messages: &[NewMessage]) -> Vec<TopicName> {
    let ends = messages.iter().flat_map(|it| [&it.body.on_done, &it.body.on_dead]);
    ends.filter_map(|it| it.as_ref()?.topic.clone()).collect()
}

impl AppState {
    /// Checks the URLs of completions, whose fields begin with `place`.
    ///
    /// Errors: 422 `callback_address_refused`.
    pub fn check_completions(
        &self,
        body: &Body,
        place: impl Fn() -> String,
    ) -> Result<(), Problem> {
        for (name, completion) in [("on_done", &body.on_done), ("on_dead", &body.on_dead)] {
            let url = completion.as_ref().and_then(|it| it.url.as_ref());
            self.check_url(url, || format!("{}{name}.url", place()))?;
        }
        Ok(())
    }
}

/// The answer that a callback got, as the result of its message.
#[derive(Serialize)]
struct CallResult<'a> {
    status: Option<u16>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
}

/// The result of a message that is done, JSON: what its ack gave, or else the answer to its call, whose body only those see
/// who may.
pub fn result_of(found: &MessageSnapshot, sees_answer: bool) -> Option<Box<RawValue>> {
    let of_call = || {
        let last = found.events.last().filter(|event| event.kind == EventKind::Called)?;
        let delivered = last.call.as_ref().filter(|call| call.failure().is_none())?;
        let CallReport { status, headers, answer, .. } = delivered;
        let body = answer.as_deref().filter(|_| sees_answer);
        serde_json::value::to_raw_value(&CallResult { status: *status, headers, body }).ok()
    };
    found.result.clone().or_else(of_call)
}

/// What is published of a death or of an ack.
#[derive(Serialize)]
struct Completed<'a> {
    message: Message<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<EndError<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    died_at: Option<Instant>,
}

/// Why a message died.
#[derive(Serialize)]
struct EndError<'a> {
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    attempts: i64,
}

/// The payload that reports the end of a message, JSON.
///
/// Errors: `Internal` where the message cannot be shown.
pub fn report(
    topic: &Topic,
    found: &MessageSnapshot,
    report: Report,
    at: Millis,
) -> Result<Vec<u8>, Error> {
    // Readers of what is published need not be allowed to see the answers.
    let message = Message::whole(topic, found, false);
    let mut completed = Completed { message, result: None, error: None, died_at: None };
    match report {
        Report::Letter => completed.died_at = Some(Instant(at)),
        Report::Done => {
            // Who asks for the result knows the secrets of the message, but not those of the topic.
            let push = topic.settings.push.as_ref();
            let hidden = push.is_some_and(|it| it.auth.is_some() || it.has_secret_headers());
            completed.result = result_of(found, !hidden);
        }
        Report::Dead => {
            let mut calls = found.events.iter().rev().filter_map(|event| event.call.as_ref());
            completed.error = Some(EndError {
                reason: found.last_error.as_deref().unwrap_or(match found.attempts_left {
                    0 => "its attempts were used up",
                    _ => "its consumer gave it up",
                }),
                status: calls.next().and_then(|call| call.status),
                attempts: found.attempts,
            });
        }
    }
    serde_json::to_vec(&completed).map_err(|_| Error::Internal)
}
