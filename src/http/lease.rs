//! leaseMessages: what a consumer's loop calls, acknowledging what it did before in the same request.

use super::{
    AppState,
    extract::{NoQuery, OptionalJsonBody, Payload, TopicPath},
    grants_body::GrantsBody,
    input::{Bounded, LeaseMs, LeaseToken, List, request},
    instant::Instant,
    message::RenderedContent,
    problem::{BodyProblems, CommonProblems, Problem, PushedProblems, RedisProblems},
};
use crate::{
    error::Error,
    model::{
        DEFAULT_MAX_BYTES, MAX_MAX_BYTES, MAX_MESSAGES_LIMIT, MAX_WAIT_MS, MessageId, TopicName,
        masked,
    },
    seeded,
    store::{Granted, Grants, LeaseOptions, Store},
};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, Response, header},
};
use serde::Serialize;
use serde_json::{json, value::RawValue};
use std::{borrow::Cow, collections::BTreeMap, future::pending, sync::Arc, time::Duration};
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
}

request! {
    /// A message to acknowledge.
    pub struct LeaseAck {
        /// The message.
        pub id: MessageId,
        /// The token of its lease.
        pub lease_token: LeaseToken,
    }
}

impl LeaseAck {
    /// The message and the token.
    pub(super) fn into_pair(self) -> (MessageId, String) {
        (self.id, self.lease_token.into_string())
    }
}

/// The leased messages, and the results of the acks.
#[derive(Serialize, ToSchema)]
pub struct LeaseResponse<'a> {
    /// The messages. Empty if none was ready in time.
    messages: Vec<LeasedMessage<'a>>,
    /// One entry for each ack of the request, in order.
    acks: Vec<AckOutcome>,
}

/// A message that the consumer holds until the lease ends.
#[derive(Serialize, ToSchema)]
pub struct LeasedMessage<'a> {
    /// Its id, a UUID.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// Its topic.
    #[schema(value_type = String, example = "orders")]
    topic: &'a TopicName,
    /// The payload, byte for byte: any JSON value, including null. Absent if the payload is bytes.
    #[schema(value_type = super::openapi::AnyJson, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    /// The payload in standard base64 with padding, if the payload is bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, content_encoding = "base64")]
    payload_base64: Option<String>,
    /// Media type of the bytes; only with `payload_base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    content_type: Option<&'a str>,
    /// The publisher's headers. Values that were secret while the topic was pushed read `***`.
    #[schema(value_type = BTreeMap<String, String>)]
    headers: Cow<'a, BTreeMap<String, String>>,
    /// Its key, if it was published with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    key: Option<&'a str>,
    /// 0 to 255. Among ready messages, higher goes first.
    #[schema(value_type = i64, minimum = 0, maximum = 255)]
    priority: u8,
    /// Number of this attempt, from 1.
    #[schema(value_type = i64, minimum = 1)]
    attempt: u32,
    /// Attempts left after this one; 0: this is the last.
    attempts_left: i64,
    /// When it was published, RFC 3339 in UTC with ms, like all instants.
    #[schema(value_type = String, format = DateTime)]
    published_at: Instant,
    /// When it became ready: its due time or, after a nack or an expired lease, the time at which it came back.
    #[schema(value_type = String, format = DateTime)]
    due_at: Instant,
    /// Proves that this consumer holds the lease. An opaque string to send with ack, nack and extend.
    #[schema(max_length = 64)]
    lease_token: String,
    /// Time left of the lease when this answer was sent, ms. Count it down on your own clock.
    lease_ms: i64,
    /// When the lease ends, by the clock of dueq's Redis.
    #[schema(value_type = String, format = DateTime)]
    lease_expires_at: Instant,
}

/// The result of an ack.
#[derive(Serialize, ToSchema)]
pub struct AckOutcome {
    /// The message.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// `ok`, or why not.
    status: AckStatus,
}

/// The result of an ack. `ok`: the message is gone. `lease_lost`: the token does not hold the lease, or no longer does.
/// `message_not_found`: there is no such message; a repeated ack has succeeded before. `redis_unavailable`: nothing
/// happened. `outcome_unknown`: it may have happened; repeating it is safe.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AckStatus {
    /// The message is gone.
    Ok,
    /// The token does not hold the lease.
    LeaseLost,
    /// There is no such message; a repeated ack was done the first time.
    MessageNotFound,
    /// Nothing happened.
    RedisUnavailable,
    /// It may have been acknowledged; repeating it is safe.
    OutcomeUnknown,
}

impl From<Result<(), Error>> for AckStatus {
    fn from(outcome: Result<(), Error>) -> Self {
        match outcome {
            Ok(()) => Self::Ok,
            Err(Error::LeaseLost) => Self::LeaseLost,
            Err(Error::MessageNotFound) => Self::MessageNotFound,
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
    post, path = "/topics/{topic}/lease", operation_id = "leaseMessages", tag = "leases",
    params(super::extract::TopicPath),
    request_body(content = LeaseRequest, description = "The options"),
    responses(
        (status = 200, description = "The messages, or none", body = LeaseResponse),
        CommonProblems, BodyProblems, PushedProblems, RedisProblems,
    ),
)]
pub async fn lease_messages(
    State(state): State<AppState>,
    TopicPath(topic): TopicPath,
    _: NoQuery,
    OptionalJsonBody(request, payload): OptionalJsonBody<LeaseRequest>,
) -> Result<Response<Body>, Problem> {
    serve(&state, &[topic], request, payload).await
}

/// Acks and leases, as was read from `payload`.
pub(super) async fn serve(
    state: &AppState,
    topics: &[TopicName],
    LeaseRequest { max_messages, max_bytes, lease_ms, wait_ms, acks }: LeaseRequest,
    payload: Payload,
) -> Result<Response<Body>, Problem> {
    let acks: Vec<_> = acks.into_iter().flat_map(|acks| acks.0).map(LeaseAck::into_pair).collect();
    // A long poll would hold the body's memory for a minute.
    let activity = { payload }.activity;
    let options = LeaseOptions {
        push: false,
        max_messages: max_messages.get(),
        max_bytes: max_bytes.get().min(state.budget.largest_answer() as u64),
        lease_ms: lease_ms.map(LeaseMs::get),
    };
    let wait = Duration::from_millis(wait_ms.get());
    // Also where no callback has come yet, and so there is no such topic.
    if topics.iter().any(TopicName::is_callbacks) {
        return Err(Error::TopicIsPushed.into());
    }
    // With acks the lease comes to nothing, and they are done.
    if topics.len() > 1 && acks.is_empty() {
        state.store.check_pulled(topics).await?;
    }
    // Put in first, so sent first.
    let acked = state.store.ack_batch(&acks);
    let mut is_cut = false;
    let cut = async {
        match &activity {
            Some(activity) => activity.poll_until_evicted().await,
            None => pending().await,
        }
        is_cut = true;
    };
    let (acked, grants) = tokio::join!(acked, state.polls.lease_until(topics, options, wait, cut));
    let outcomes = acks
        .iter()
        .zip(acked)
        .map(|((id, _), outcome)| AckOutcome { id: *id, status: outcome.into() });
    let outcomes: Vec<_> = outcomes.collect();
    let grants = match grants {
        // The acks were done; a failed grant must not hide that.
        Err(_) if !outcomes.is_empty() => Grants::default(),
        grants => grants?,
    };
    // All from one topic, whose name grants know that can still go back.
    let topic = grants.topic().unwrap_or(&topics[0]).clone();
    let mut response = respond(state, &topic, grants, outcomes)?;
    if is_cut {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

fn respond(
    state: &AppState,
    topic: &TopicName,
    mut grants: Grants,
    acks: Vec<AckOutcome>,
) -> Result<Response<Body>, Problem> {
    let (store, mut hold) = (&state.store, state.budget.hold());
    let payloads: u64 = grants.messages().iter().map(|message| message.payload_bytes).sum();
    match hold.grow_to(payloads as usize) {
        Ok(()) => {}
        // What was granted goes back at once; the acks were done, which must be told.
        Err(_) if !acks.is_empty() => grants = Grants::default(),
        Err(overloaded) => {
            if seeded::bug("refused grants kept") {
                grants.deliver();
            }
            return Err(overloaded);
        }
    }
    let now = store.now();
    let mut messages = Vec::with_capacity(grants.messages().len());
    for message in grants.messages() {
        messages.push(leased_message(store, topic, message, now)?);
    }
    let body =
        serde_json::to_vec(&LeaseResponse { messages, acks }).map_err(|_| Error::Internal)?;
    let body = Body::new(GrantsBody { bytes: Some(body.into()), grants });
    let mut response = Response::new(body);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response.extensions_mut().insert(Arc::new(hold));
    Ok(response)
}

fn leased_message<'a>(
    store: &Store,
    topic: &'a TopicName,
    message: &'a Granted,
    now: i64,
) -> Result<LeasedMessage<'a>, Problem> {
    let content = RenderedContent::of(&message.body.content)?;
    Ok(LeasedMessage {
        id: message.id,
        topic,
        payload: content.payload,
        payload_base64: content.payload_base64,
        content_type: content.content_type,
        headers: match &message.body.secrets {
            None => Cow::Borrowed(&message.body.headers),
            Some(secrets) => Cow::Owned(masked(&message.body.headers, |name| secrets.has(name))),
        },
        key: message.key.as_deref(),
        priority: message.priority,
        attempt: message.claims.attempt,
        attempts_left: message.attempts_left,
        published_at: Instant(message.id.published()),
        due_at: Instant(message.due_at),
        lease_token: store.token(&message.id, &message.claims),
        lease_ms: (message.lease_expires_at - now.max(message.claims.granted_at)).max(0),
        lease_expires_at: Instant(message.lease_expires_at),
    })
}
