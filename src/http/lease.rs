//! leaseMessages: what a consumer's loop calls, acknowledging what it did before in the same request.

use super::{
    AppState,
    extract::{Payload, Query, TopicPath},
    fields::Fields,
    grants_body::GrantsBody,
    instant::Instant,
    message::RenderedContent,
    problem::{BodyProblems, CommonProblems, Problem, RedisProblems, problem_responses},
};
use crate::{
    error::Error,
    model::{
        DEFAULT_MAX_BYTES, LEASE_CAP_MS, MAX_MAX_BYTES, MAX_MESSAGES_LIMIT, MAX_WAIT_MS,
        MIN_LEASE_MS, MessageId, TOKEN_MAX_CHARS, TopicName, masked,
    },
    seeded,
    store::{Granted, Grants, Store, Want},
};
use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, Response, header},
};
use serde::Serialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap, future::pending, sync::Arc, time::Duration};
use utoipa::ToSchema;

/// What a consumer asks for; every field may be left out.
#[derive(ToSchema)]
#[schema(example = json!({"max_messages": 1, "wait_ms": 20_000}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct LeaseRequest {
    /// Up to this many messages, 1…1000.
    #[schema(minimum = 1, maximum = 1000, default = 1)]
    max_messages: Option<i64>,
    /// Up to this many bytes of payload together, but never less than one message.
    #[schema(minimum = 1, maximum = 16_777_216, default = 4_194_304)]
    max_bytes: Option<i64>,
    /// How long the holder has, ms, from 1 s to 12 h; the topic's `lease_ms` otherwise.
    #[schema(minimum = 1000, maximum = 43_200_000)]
    lease_ms: Option<i64>,
    /// Long poll: how long to wait for a message, ms, up to a minute. Keep it 5 s below every time-out on the way.
    #[schema(minimum = 0, maximum = 60_000, default = 0)]
    wait_ms: Option<i64>,
    /// Messages to acknowledge first. None of them fails the request.
    #[schema(max_items = 1000)]
    acks: Option<Vec<LeaseAck>>,
}

/// A message to acknowledge.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the body; it is read field by field")]
pub struct LeaseAck {
    /// The message.
    #[schema(format = Uuid)]
    id: String,
    /// The token that its lease came with.
    #[schema(max_length = 64)]
    lease_token: String,
}

/// Messages that the consumer holds now, and what became of its acks.
#[derive(Serialize, ToSchema)]
pub struct LeaseResponse<'a> {
    /// The messages; none when nothing was ready in time.
    messages: Vec<LeasedMessage<'a>>,
    /// One entry for each ack of the request, in order.
    acks: Vec<AckOutcome>,
}

/// A message that the consumer holds until its lease ends.
#[derive(Serialize, ToSchema)]
pub struct LeasedMessage<'a> {
    /// Its id, a UUID.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// Its topic.
    #[schema(value_type = String, example = "orders")]
    topic: &'a TopicName,
    /// The payload, any JSON value, null included, byte for byte as it was sent; absent if it is bytes.
    #[schema(value_type = super::openapi::AnyJson, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    /// The payload in standard base64 with padding, if it is bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, content_encoding = "base64")]
    payload_base64: Option<String>,
    /// Media type of the bytes; only with `payload_base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    content_type: Option<&'a str>,
    /// The publisher's headers; the values of those that were secrets while the topic was pushed show as `***`.
    #[schema(value_type = BTreeMap<String, String>)]
    headers: Cow<'a, BTreeMap<String, String>>,
    /// Its key, where it was published with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    key: Option<&'a str>,
    /// 0…255: among ready messages higher goes first.
    #[schema(value_type = i64, minimum = 0, maximum = 255)]
    priority: u8,
    /// Number of this grant, from 1.
    #[schema(value_type = i64, minimum = 1)]
    attempt: u32,
    /// Counted grants that are left; 0: this is the last.
    attempts_left: i64,
    /// When it was published, RFC 3339 in UTC with ms, like all instants.
    #[schema(value_type = String, format = DateTime)]
    published_at: Instant,
    /// When it fell due; after a nack or an expired lease, when it came back.
    #[schema(value_type = String, format = DateTime)]
    due_at: Instant,
    /// Proves that this consumer holds the lease: an opaque string, to be sent with ack, nack and extend.
    #[schema(max_length = 64)]
    lease_token: String,
    /// Time left of the lease when this was answered, ms. Count it down on your own clock.
    lease_ms: i64,
    /// When the lease ends, by the clock of dueq's Redis.
    #[schema(value_type = String, format = DateTime)]
    lease_expires_at: Instant,
}

/// What became of an ack.
#[derive(Serialize, ToSchema)]
pub struct AckOutcome {
    /// The message.
    #[schema(value_type = String, format = Uuid)]
    id: MessageId,
    /// `ok` or why not.
    status: AckStatus,
}

/// How an ack ended. `ok`: the message is gone. `lease_lost`: the token does not hold the lease (any more).
/// `message_not_found`: there is no such message; a repeated ack was done the first time. `redis_unavailable`: nothing
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

problem_responses! {
    /// What leasing can answer of a topic whose messages dueq sends itself.
    PushedProblems:
    409 "`topic_is_pushed`: dueq sends the topic's messages itself, so nobody can lease them",
}

/// Lease messages.
///
/// Grants what is ready, by priority and then by due time; with `wait_ms` it waits until there is something, and answers
/// with no messages at the end. Each message is the caller's for `lease_ms`: then it is ready again, unless it was
/// acknowledged, given back or extended. `acks` are done first, so that a worker's loop is one request. Leasing from a
/// topic that does not exist waits for it.
#[utoipa::path(
    post, path = "/topics/{topic}/lease", operation_id = "leaseMessages", tag = "leases",
    params(super::extract::TopicParams),
    request_body(content = LeaseRequest, description = "What is wanted"),
    responses(
        (status = 200, description = "The messages, maybe none", body = LeaseResponse),
        CommonProblems, BodyProblems, PushedProblems, RedisProblems,
    ),
)]
pub async fn lease_messages(
    State(state): State<AppState>,
    TopicPath(topic): TopicPath,
    query: Query,
    payload: Payload,
) -> Result<Response<Body>, Problem> {
    query.none()?;
    let mut fields = payload.json_or_none()?;
    let asked = Asked::read(&mut fields);
    fields.finish()?;
    serve(&state, &[topic], asked, payload).await
}

/// What a consumer asks for, whatever the topics.
pub(super) struct Asked {
    want: Want,
    wait: Duration,
    acks: Vec<(MessageId, String)>,
}

impl Asked {
    /// Takes all fields that leasing has, but topics.
    pub(super) fn read(fields: &mut Fields<'_>) -> Self {
        let (want, wait) = read_want(fields);
        let acks = fields.objects("acks", MAX_MESSAGES_LIMIT as usize, read_ack);
        Self { want, wait, acks: acks.unwrap_or_default() }
    }
}

/// Acks and leases, as was read from `payload`.
pub(super) async fn serve(
    state: &AppState,
    topics: &[TopicName],
    Asked { mut want, wait, acks }: Asked,
    payload: Payload,
) -> Result<Response<Body>, Problem> {
    // A long poll would hold the body's memory for a minute.
    let life = { payload }.life;
    want.max_bytes = want.max_bytes.min(state.budget.largest_answer() as u64);
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
        match &life {
            Some(life) => life.polls_until_cut().await,
            None => pending().await,
        }
        is_cut = true;
    };
    let (acked, grants) = tokio::join!(acked, state.polls.lease_until(topics, want, wait, cut));
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

fn read_want(fields: &mut Fields<'_>) -> (Want, Duration) {
    let want = Want {
        push: false,
        max_messages: fields.integer("max_messages", 1..=MAX_MESSAGES_LIMIT).unwrap_or(1),
        max_bytes: fields.integer("max_bytes", 1..=MAX_MAX_BYTES).unwrap_or(DEFAULT_MAX_BYTES),
        lease_ms: fields.integer("lease_ms", MIN_LEASE_MS..=LEASE_CAP_MS),
    };
    let wait_ms = fields.integer("wait_ms", 0..=MAX_WAIT_MS).unwrap_or(0);
    (want, Duration::from_millis(wait_ms))
}

/// The message and the token of whoever claims to hold its lease.
pub(super) fn read_ack(fields: &mut Fields<'_>) -> Option<(MessageId, String)> {
    let (id, token) = (fields.message_id("id"), read_token(fields));
    Some((id?, token?))
}

/// The `lease_token` of whoever claims to hold a lease.
pub(super) fn read_token(fields: &mut Fields<'_>) -> Option<String> {
    let token = fields.string("lease_token", 1..=TOKEN_MAX_CHARS);
    fields.required("lease_token", token).map(|token| token.into_owned())
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
