//! ReceiveMessage: a lease of up to ten messages, with a long poll.

use super::{
    super::{
        input::json::Items,
        leases::lease::{holding, poll},
        server::budget::Hold,
    },
    Answer, Call, JSON, Queue,
    content::{AttributeValue, attributes_of, md5_of, md5_of_attributes, text_of},
    fault::Fault,
    parts::{in_range, items},
    send::{OTHER_TYPE, check_id, sequence_number},
};
use axum::http::{HeaderValue, header};
use dueq_model::{EventKind, MAX_MAX_BYTES, MIN_LEASE_MS, error::Error};
use dueq_store::{Granted, Grants, LeaseOptions, MessageRef, Nack, NackRequest};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Messages of one answer, at most.
const MAX_MESSAGES: i64 = 10;
/// The longest long poll, s.
const MAX_WAIT_S: i64 = 20;
/// The longest visibility timeout, s.
pub const MAX_VISIBILITY_S: i64 = 43_200;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ReceiveMessage {
    queue_url: Option<String>,
    max_number_of_messages: Option<i64>,
    visibility_timeout: Option<i64>,
    wait_time_seconds: Option<i64>,
    attribute_names: Option<Items<String>>,
    message_system_attribute_names: Option<Items<String>>,
    message_attribute_names: Option<Items<String>>,
    receive_request_attempt_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Received<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Message<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Message<'a> {
    message_id: String,
    receipt_handle: String,
    #[serde(rename = "MD5OfBody")]
    md5_of_body: String,
    body: Cow<'a, str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<&'static str, String>,
    #[serde(rename = "MD5OfMessageAttributes", skip_serializing_if = "Option::is_none")]
    md5_of_attributes: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    message_attributes: BTreeMap<String, AttributeValue>,
}

/// Which attributes are asked for.
struct Wanted {
    system: Vec<String>,
    of_user: Vec<String>,
}

impl Wanted {
    fn has_system(&self, name: &str) -> bool {
        self.system.iter().any(|wanted| wanted == name || wanted == "All")
    }

    /// A name, or the beginning of names.
    fn has(&self, name: &str) -> bool {
        self.of_user.iter().any(|wanted| match wanted.strip_suffix(".*") {
            _ if wanted == "All" || wanted == "*" => true,
            Some(prefix) => name.starts_with(prefix),
            None => name == wanted,
        })
    }
}

/// A visibility timeout that a request says, s.
pub fn check_visibility(seconds: i64) -> Result<i64, Fault> {
    in_range(seconds, 0..=MAX_VISIBILITY_S, "VisibilityTimeout", ">= 0 and <= 43200")
}

pub async fn receive_message(call: &Call<'_>, request: ReceiveMessage) -> Answer {
    let queue = call.queue(request.queue_url.as_deref()).await?;
    let most = request.max_number_of_messages.unwrap_or(1);
    let most = in_range(most, 1..=MAX_MESSAGES, "MaxNumberOfMessages", "between 1 and 10")?;
    let wait = request.wait_time_seconds;
    let wait = wait.unwrap_or_else(|| queue.number("ReceiveMessageWaitTimeSeconds"));
    let wait = in_range(wait, 0..=MAX_WAIT_S, "WaitTimeSeconds", ">= 0 and <= 20")?;
    let visibility = request.visibility_timeout.map(check_visibility).transpose()?;
    let visibility = visibility.or_else(|| queue.attribute("VisibilityTimeout").map(|_| 0));
    let mut system = items(request.attribute_names);
    system.extend(items(request.message_system_attribute_names));
    let wanted = Wanted { system, of_user: items(request.message_attribute_names) };
    let options = LeaseOptions {
        push: false,
        several: queue.is_fifo(),
        max_messages: most as u64,
        max_bytes: MAX_MAX_BYTES.min(call.state.budget.largest_answer() as u64),
        lease_ms: visibility.map(|seconds| (seconds as u64 * 1000).max(MIN_LEASE_MS)),
    };
    let topics = std::slice::from_ref(&queue.name);
    let wait = Duration::from_secs(wait as u64);
    call.caller.check_let_in()?;
    let attempt = request.receive_request_attempt_id.as_deref();
    check_id("ReceiveRequestAttemptId", attempt)?;
    if let Some(attempt) = attempt.filter(|_| !queue.is_fifo()) {
        return Err(Fault::invalid(attempt, "ReceiveRequestAttemptId", OTHER_TYPE));
    }
    let store = &call.state.store;
    let repeated = match attempt {
        Some(attempt) => store.repeat_attempt(&queue.name, attempt, options.lease_ms).await?,
        None => None,
    };
    let end = Instant::now() + wait;
    let (grants, is_cut) = loop {
        if let Some(repeated) = repeated {
            break (repeated, false);
        }
        let (left, activity) = (end - Instant::now(), call.activity.as_ref());
        let polled = poll(call.state, &call.caller, activity, topics, options, left);
        let (grants, is_cut) = polled.await;
        let mut grants = grants?;
        let had_some = !grants.messages().is_empty();
        call.state.store.bury_damaged(&mut grants).await;
        if is_cut || !had_some || !grants.messages().is_empty() {
            break (grants, is_cut);
        }
    };
    call.trace.leases(&queue.name, grants.messages());
    // Before they are written out; if there is no room, they go back.
    let mut hold = call.state.budget.hold();
    let payloads: u64 = grants.messages().iter().map(|message| message.payload_bytes).sum();
    hold.grow_to(payloads as usize)?;
    if let Some(attempt) = attempt.filter(|_| !grants.messages().is_empty()) {
        // Without it they are received all the same: a Redis that is full refuses it.
        if let Err(error) = store.note_attempt(&queue.name, attempt, &grants).await {
            tracing::debug!(topic = %queue.name, %error, "an attempt to receive cannot be repeated");
        }
    }
    if visibility == Some(0) {
        show_again(call, &grants).await;
    }
    let mut response = respond(call, &queue, &wanted, (hold, grants)).await?;
    if is_cut {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// Has the messages visible again at once: their receipt handles can delete them all the same, as long as nobody else receives
/// them. What fails is visible after a second.
async fn show_again(call: &Call<'_>, grants: &Grants) {
    let nack = |granted: &Granted| {
        let request = NackRequest { delay_ms: Some(0), ..NackRequest::default() };
        let token = call.state.store.token(&granted.id, &granted.claims);
        (granted.id, token, Nack::Asked(request))
    };
    let nacks: Vec<_> = grants.messages().iter().map(nack).collect();
    call.state.store.settle_all(&nacks).await;
}

async fn respond(
    call: &Call<'_>,
    queue: &Queue,
    wanted: &Wanted,
    (mut hold, grants): (Hold, Grants),
) -> Answer {
    let shown = grants.messages().iter().map(|it| show(call, queue, wanted, it));
    let body = serde_json::to_vec(&Received { messages: join_all(shown).await });
    let body = body.map_err(|_| Error::Internal)?;
    // Escapes may have made it larger. It is counted all the same: if it were refused, nobody would ever get it.
    hold.force_to(body.len());
    let mut response = holding(hold, grants, body);
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    Ok(response)
}

async fn show<'a>(
    call: &Call<'_>,
    queue: &Queue,
    wanted: &Wanted,
    granted: &'a Granted,
) -> Message<'a> {
    let Granted { id, claims, body, .. } = granted;
    let text = text_of(&body.content);
    let shown: Vec<_> = match wanted.of_user.is_empty() {
        true => Vec::new(),
        false => attributes_of(body).into_iter().filter(|(name, _)| wanted.has(name)).collect(),
    };
    let first = body.origin.as_ref().map_or(*id, |origin| origin.id);
    let mut attributes = BTreeMap::new();
    let mut set = |name, value: Option<String>| {
        if let Some(value) = value.filter(|_| wanted.has_system(name)) {
            attributes.insert(name, value);
        }
    };
    let parts = body.sqs.as_deref();
    set("SenderId", Some(call.state.sqs_account.clone()));
    set("SentTimestamp", Some(first.published().to_string()));
    let before = body.origin.as_ref().map_or(0, |origin| origin.attempts);
    set("ApproximateReceiveCount", Some((before + i64::from(claims.attempt)).to_string()));
    if wanted.has_system("ApproximateFirstReceiveTimestamp") {
        let first = first_received(call, granted).await;
        set("ApproximateFirstReceiveTimestamp", Some(first.to_string()));
    }
    let group = granted.group.as_ref().or(parts.and_then(|parts| parts.group.as_ref()));
    set("MessageGroupId", group.cloned());
    set("MessageDeduplicationId", parts.and_then(|parts| parts.deduplication_id.clone()));
    set("SequenceNumber", queue.is_fifo().then(|| sequence_number(id)));
    set("AWSTraceHeader", parts.and_then(|parts| parts.trace_header.clone()));
    set("DeadLetterQueueSourceArn", body.origin.as_ref().map(|origin| call.arn(&origin.topic)));
    Message {
        message_id: first.to_string(),
        receipt_handle: format!("{id}.{}", call.state.store.token(id, claims)),
        md5_of_body: md5_of(text.as_bytes()),
        body: text,
        attributes,
        md5_of_attributes: md5_of_attributes(shown.iter().map(|(name, value)| (name, value))),
        message_attributes: shown.iter().map(|(name, it)| (name.clone(), it.into())).collect(),
    }
}

/// When the message was first received. The first grant is an event only once it has ended without an ack, so this looks at the
/// events of messages that come again.
async fn first_received(call: &Call<'_>, granted: &Granted) -> i64 {
    let now = granted.claims.granted_at;
    if granted.claims.attempt == 1 {
        return now;
    }
    match call.state.store.get(&MessageRef::Id(granted.id)).await {
        Ok((_, message)) => {
            let grant = message.events.iter().find(|event| event.kind == EventKind::Granted);
            grant.map_or(now, |event| event.at)
        }
        Err(_) => now,
    }
}
