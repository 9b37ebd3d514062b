//! leaseMessages and leaseFromTopics: what a consumer's loop calls, acknowledging what it did before in the same request.

mod poll;

use super::hold::{DoneFields, settle_all};
use crate::{
    json_line,
    messages::view::RenderedContent,
    openapi::{answer::Written, describe::described},
    prelude::*,
};
use axum::{
    body::Body,
    http::{HeaderValue, header},
};
use dueq_model::{
    Content, DEFAULT_MAX_BYTES, MAX_MAX_BYTES, MAX_MESSAGES_LIMIT, MAX_TOPICS_LIMIT, MAX_WAIT_MS,
    MessageId, Push, TOKEN_MAX_CHARS, TopicName,
};
use dueq_store::{Ack, Granted, Grants, LeaseOptions, Store};
pub use poll::{holding, poll};
use serde::Serialize;
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    time::Duration,
};
use tokio::time::Instant as Deadline;
use utoipa::ToSchema;

request! {
    /// A lease request. Every field is optional.
    #[example = json!({"max_messages": 1, "wait_ms": 20_000})]
    pub struct LeaseRequest {
        /// Lease up to this many messages, 1 to 1000, all from one topic.
        pub max_messages: Bounded<1, MAX_MESSAGES_LIMIT> = Bounded::new(1),
        /// Limit for the payloads together, bytes. At least one message is returned.
        pub max_bytes: Bounded<1, MAX_MAX_BYTES> = Bounded::new(DEFAULT_MAX_BYTES),
        /// How long the lease lasts, ms, from 1 s to 12 h. Default: the topic's `lease_ms`.
        pub lease_ms: Option<LeaseMs>,
        /// Long poll: how long to wait for a message, ms, up to a minute. Keep it 5 s below every timeout on the way.
        pub wait_ms: Bounded<0, MAX_WAIT_MS> = Bounded::new(0),
        /// Messages to acknowledge first, from any topic. A failed ack does not fail the request.
        pub acks: Option<List<LeaseAck, 0, { MAX_MESSAGES_LIMIT as usize }>>,
    }
    also("messages", "acks")
}

request! {
    /// A message to acknowledge.
    pub struct LeaseAck {
        pub lease: Flat<HeldLease>,
        pub done: Flat<DoneFields>,
    }
}

request! {
    /// A lease.
    pub struct HeldLease {
        /// The message.
        pub id: MessageId,
        /// The token of its lease.
        pub lease_token: LeaseToken,
    }
}

impl LeaseAck {
    /// The message, the token, and its ack.
    pub fn settled(self) -> (MessageId, String, Ack) {
        self.lease.0.with(self.done.0.into())
    }
}

impl HeldLease {
    /// The message, the token, and what its holder asks for.
    pub fn with<W>(self, what: W) -> (MessageId, String, W) {
        (self.id, self.lease_token.into_string(), what)
    }
}

answer! {
    /// The leased messages, and the results of the acks.
    pub struct LeaseResponse<'a> {
        /// The messages. Empty if none was ready in time.
        messages: Vec<LeasedMessage<'a>>,
        /// One entry for each ack of the request, in order.
        acks: Vec<AckOutcome>,
    }
}

answer! {
    /// A message that the consumer holds until the lease ends.
    pub struct LeasedMessage<'a> {
        #[serde(flatten)]
        message: Flat<ReceivedMessage<'a>>,
        /// Proves that this consumer holds the lease. An opaque string to send with ack, nack and extend.
        lease_token: Text<0, TOKEN_MAX_CHARS>,
        /// Time left of the lease when this answer was sent, ms. Count it down on your own clock.
        lease_ms: i64,
        /// When the lease ends, by the clock of dueq's Redis.
        lease_expires_at: Instant,
    }
}

answer! {
    /// A message as its receiver gets it.
    struct ReceivedMessage<'a> {
        /// Its id, a UUID.
        id: MessageId,
        /// Its topic.
        #[example = "orders"]
        topic: &'a TopicName,
        #[serde(flatten)]
        content: Flat<RenderedContent<'a>>,
        /// The publisher's headers. Values that were secret while the topic was pushed read `***`.
        headers: Cow<'a, BTreeMap<String, String>>,
        /// Its key, if it was published with one.
        key: Option<&'a str>,
        /// Its group.
        group: Option<&'a str>,
        /// 0 to 255. Among ready messages, higher goes first.
        priority: u8,
        /// Number of this attempt, from 1.
        attempt: u32,
        /// Attempts left after this one; 0: this is the last.
        attempts_left: i64,
        /// The trace that it was published in, as a W3C `traceparent`, if that is recorded.
        traceparent: Option<String>,
        /// When it was published, RFC 3339 in UTC with ms, like all instants.
        published_at: Instant,
        /// When it became ready: its due time or, after a nack or an expired lease, the time at which it came back.
        due_at: Instant,
    }
}

answer! {
    /// The result of an ack.
    pub struct AckOutcome {
        /// The message.
        id: MessageId,
        /// `ok`, or why not.
        status: AckStatus,
    }
}

/// The result of an ack. `ok`: the message is gone. `lease_lost`: the token does not hold the lease, or no longer does.
/// `message_not_found`: there is no such message; a repeated ack has succeeded before. `not_allowed`: the API key may not
/// consume from its topic. `redis_unavailable`: nothing happened. `outcome_unknown`: it may have happened; repeating it is
/// safe.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AckStatus {
    Ok,
    LeaseLost,
    MessageNotFound,
    NotAllowed,
    RedisUnavailable,
    OutcomeUnknown,
}

described!(AckStatus: |document| document.component::<AckStatus>(););

impl From<Result<(), Error>> for AckStatus {
    fn from(outcome: Result<(), Error>) -> Self {
        match outcome {
            Ok(()) => Self::Ok,
            Err(Error::LeaseLost) => Self::LeaseLost,
            Err(Error::MessageNotFound) => Self::MessageNotFound,
            Err(Error::NotAllowed(_)) => Self::NotAllowed,
            Err(Error::RedisUnavailable) => Self::RedisUnavailable,
            Err(_) => Self::OutcomeUnknown,
        }
    }
}

/// Lease messages.
///
/// Leases ready messages, by priority and then by due time. With `wait_ms` the request waits until there is one, and
/// returns no messages if there is none in time. Each message belongs to the caller for `lease_ms`. Then it is ready
/// again, unless it was acknowledged, given back or extended. `acks` are done first, so a worker's loop is one request.
/// A lease from a topic that does not exist waits for the topic.
#[utoipa::path(
    post, path = "/topics/{topic}/lease", tag = "leases", params(TopicPath),
    request_body(content = LeaseRequest, description = "The options"),
    responses(
        (status = 200, description = "The messages, or none", body = LeaseResponse),
        PushedProblems, RedisProblems,
    ),
)]
pub async fn lease_messages(
    State(state): State<AppState>,
    TopicPath(topic): TopicPath,
    caller: Caller,
    trace: Trace,
    JsonBody(request, payload): OptionalJsonBody<LeaseRequest>,
) -> Result<Response<Body>, Problem> {
    serve(&state, (&caller, &trace), &[topic], request, payload).await
}

/// Acks and leases, as was read from `payload`.
pub async fn serve(
    state: &AppState,
    (caller, trace): (&Caller, &Trace),
    topics: &[TopicName],
    LeaseRequest { max_messages, max_bytes, lease_ms, wait_ms, acks }: LeaseRequest,
    payload: Payload,
) -> Result<Response<Body>, Problem> {
    let acks: Vec<_> = acks.into_iter().flat_map(|a| a.0).map(LeaseAck::settled).collect();
    // A long poll would hold the body's memory for a minute.
    let activity = { payload }.activity;
    let options = LeaseOptions {
        push: false,
        several: false,
        max_messages: max_messages.get(),
        max_bytes: max_bytes.get().min(state.budget.largest_answer() as u64),
        lease_ms: lease_ms.map(LeaseMs::get),
    };
    let wait = Duration::from_millis(wait_ms.get());
    // Also where no callback has come yet, and so there is no such topic.
    if topics.iter().any(TopicName::is_callbacks) {
        return Err(Error::TopicIsPushed.into());
    }
    // With acks this check is left out: they are carried out even if the lease returns nothing.
    if topics.len() > 1 && acks.is_empty() {
        Box::pin(state.store.check_pulled(topics)).await?;
    }
    caller.check_let_in()?;
    // Polled first, so they are sent first where this instance knows their topics.
    let ids: Vec<_> = acks.iter().map(|(id, ..)| *id).collect();
    // The lease may be of what the acks let go.
    let first = !acks.is_empty() && state.store.acks_come_first(topics).await;
    // A poll that acks nothing has no room for it.
    let acked = async {
        match acks.is_empty() {
            true => Vec::new(),
            false => Box::pin(settle_all(state, caller, acks)).await,
        }
    };
    let end = Deadline::now() + wait;
    let lease = poll(state, caller, activity.as_ref(), topics, options, wait);
    let (acked, mut leased) =
        if first { (acked.await, lease.await) } else { tokio::join!(acked, lease) };
    let outcomes = ids.into_iter().zip(acked);
    let mut outcomes: Vec<_> =
        outcomes.map(|(id, outcome)| AckOutcome { id, status: outcome.into() }).collect();
    let mut response = loop {
        let mut grants = match leased.0 {
            // The acks were done; a failed grant must not hide that.
            Err(_) if !outcomes.is_empty() => Grants::default(),
            grants => grants?,
        };
        // All from one topic, whose name grants know that can still go back.
        let topic = grants.topic().unwrap_or(&topics[0]).clone();
        trace.leases(&topic, grants.messages());
        match respond(state, &topic, grants, &mut outcomes)? {
            Ok(response) => break response,
            Err(damaged) => grants = damaged,
        }
        // Damage is rare: a poll that waits has no room for what comes then.
        Box::pin(state.store.bury_damaged(&mut grants)).await;
        leased.0 = Ok(grants);
        if leased.0.as_ref().is_ok_and(|grants| grants.messages().is_empty()) {
            // One that was cut short waits no longer.
            let left = if leased.1 { Duration::ZERO } else { end - Deadline::now() };
            let poll = poll(state, caller, activity.as_ref(), topics, options, left);
            let (grants, is_cut) = Box::pin(poll).await;
            leased = (grants, is_cut || leased.1);
        }
    };
    if leased.1 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// Returns the grants if some of them are damaged.
fn respond(
    state: &AppState,
    topic: &TopicName,
    mut grants: Grants,
    acks: &mut Vec<AckOutcome>,
) -> Result<Result<Response<Body>, Grants>, Problem> {
    let (store, mut hold) = (&state.store, state.budget.hold());
    let payloads: u64 = grants.messages().iter().map(|message| message.payload_bytes).sum();
    match hold.grow_to(payloads as usize) {
        Ok(()) => {}
        // What was granted goes back at once; the acks were done, and the answer must say so.
        Err(_) if !acks.is_empty() => grants = Grants::default(),
        Err(overloaded) => return Err(overloaded),
    }
    let now = store.now();
    let leased = grants.messages().iter().map(|it| leased_message(store, topic, it, now));
    let Some(messages) = leased.collect::<Option<Vec<_>>>() else { return Ok(Err(grants)) };
    let acks = std::mem::take(acks);
    let body = json_line(&LeaseResponse { messages, acks }).map_err(|_| Error::Internal)?;
    let mut response = holding(hold, grants, body);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(Ok(response))
}

/// A message as its consumer gets it; `None` if it is damaged.
fn leased_message<'a>(
    store: &Store,
    topic: &'a TopicName,
    message: &'a Granted,
    now: i64,
) -> Option<LeasedMessage<'a>> {
    let headers = message.body.shown_headers(None);
    Some(LeasedMessage {
        message: Flat(received_message(topic, message, headers)?),
        lease_token: Text::new(store.token(&message.id, &message.claims)),
        lease_ms: (message.lease_expires_at - now.max(message.claims.granted_at)).max(0),
        lease_expires_at: Instant(message.lease_expires_at),
    })
}

/// The same without the lease, with these headers.
fn received_message<'a>(
    topic: &'a TopicName,
    message: &'a Granted,
    headers: Cow<'a, BTreeMap<String, String>>,
) -> Option<ReceivedMessage<'a>> {
    let content = RenderedContent::of(&message.body);
    if matches!(message.body.content, Content::Json(_)) && content.payload.is_none() {
        return None;
    }
    Some(ReceivedMessage {
        id: message.id,
        topic,
        content: Flat(content),
        headers,
        key: message.key.as_deref(),
        group: message.group.as_deref(),
        priority: message.priority,
        attempt: message.claims.attempt,
        attempts_left: message.attempts_left,
        traceparent: message.body.trace.map(|trace| trace.to_string()),
        published_at: Instant(message.id.published()),
        due_at: Instant(message.due_at),
    })
}

/// The JSON array of these messages, as calls carry them that are for many; `None` if one of them is damaged. Headers that are
/// secrets of the push are masked as well.
pub fn call_body(topic: &TopicName, push: &Push, messages: &[Granted]) -> Option<Vec<u8>> {
    let mut array = Vec::new();
    for message in messages {
        array.push(if array.is_empty() { b'[' } else { b',' });
        let shown = received_message(topic, message, message.body.shown_headers(Some(push)))?;
        Written::write(&shown, &mut array).ok()?;
    }
    array.push(b']');
    Some(array)
}

request! {
    /// A lease request for several topics. Only `topics` is required.
    #[example = json!({"topics": ["urgent", "bulk"], "wait_ms": 20_000})]
    pub struct LeaseFromTopicsRequest {
        /// Topic names, without repeats. The first topic that has a message wins. The topics need not exist.
        pub topics: List<TopicName, 1, MAX_TOPICS_LIMIT>,
        pub lease: Flat<LeaseRequest>,
    }
    check(fields) {
        let mut seen = HashSet::new();
        if !topics.iter().flat_map(|topics| &topics.0).all(|topic| seen.insert(topic)) {
            fields.refuse("topics", "contains a topic more than once");
        }
    }
}

/// Lease from several topics.
///
/// Like `leaseMessages`, from the first of `topics` that has a message. All messages of an answer come from one topic.
/// With `wait_ms` the request waits for all topics at once. `acks` are done first.
#[utoipa::path(
    post, path = "/lease", tag = "leases",
    request_body(content = LeaseFromTopicsRequest, description = "The topics and the options"),
    responses(
        (status = 200, description = "The messages, or none", body = LeaseResponse),
        PushedProblems, RedisProblems,
    ),
)]
pub async fn lease_from_topics(
    State(state): State<AppState>,
    caller: Caller,
    trace: Trace,
    JsonBody(request, payload): JsonBody<LeaseFromTopicsRequest>,
) -> Result<Response<Body>, Problem> {
    let topics = &request.topics.0;
    topics.iter().try_for_each(|topic| caller.check_topic(topic))?;
    serve(&state, (&caller, &trace), topics, request.lease.0, payload).await
}
