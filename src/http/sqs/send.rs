//! SendMessage and SendMessageBatch: a publish to a queue that exists.

use super::{
    super::{input::json::Items, messages::publish::check_replace},
    Answer, Call, Queue, answer,
    attributes::scope_in_force,
    content::{
        AttributeValue, Attributes, is_legal, md5_of, md5_of_attributes, read_attribute,
        read_attributes, size_of, to_body,
    },
    fault::{Fault, Kind},
    parts::{BatchAnswer, Pairs, entries},
};
use dueq_model::{MAX_DELAY_MS, MessageId, SqsParts};
use dueq_store::{Due, Idempotency, IfAbsent, MessageOptions, NewMessage, Published};
use ring::digest::SHA256;
use serde::{Deserialize, Serialize};

/// How long a deduplication ID answers, ms.
const DEDUPLICATION_MS: i64 = 300_000;
/// Bytes of a batch, at most.
const MAX_BATCH_BYTES: usize = 1_048_576;
const TRACE_HEADER: &str = "AWSTraceHeader";
/// Bytes of it, at most. They do not count with the message's.
const MAX_TRACE_HEADER: usize = 4 * 1024;
/// Why a parameter of another kind of queue is refused.
pub const OTHER_TYPE: &str = "The request include parameter that is not valid for this queue type.";

/// A message, alone or in a batch.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SendMessage {
    #[serde(default)]
    id: String,
    queue_url: Option<String>,
    message_body: Option<String>,
    delay_seconds: Option<i64>,
    message_attributes: Option<Pairs<AttributeValue>>,
    message_system_attributes: Option<Pairs<AttributeValue>>,
    message_deduplication_id: Option<String>,
    message_group_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SendMessageBatch {
    queue_url: Option<String>,
    entries: Option<Items<SendMessage>>,
}

/// A message that was sent.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Sent {
    #[serde(skip_serializing_if = "String::is_empty")]
    id: String,
    #[serde(rename = "MD5OfMessageBody")]
    md5_of_body: String,
    #[serde(rename = "MD5OfMessageAttributes", skip_serializing_if = "Option::is_none")]
    md5_of_attributes: Option<String>,
    #[serde(rename = "MD5OfMessageSystemAttributes", skip_serializing_if = "Option::is_none")]
    md5_of_system_attributes: Option<String>,
    message_id: Option<MessageId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence_number: Option<String>,
}

impl Sent {
    fn done(mut self, published: &Published, queue: &Queue) -> Self {
        self.message_id = Some(published.id);
        self.sequence_number = queue.is_fifo().then(|| sequence_number(&published.id));
        self
    }
}

/// Grows with every message of a queue, as ids do.
pub fn sequence_number(id: &MessageId) -> String {
    let number = id.member().iter().fold(0_u128, |n, byte| n << 8 | u128::from(*byte));
    format!("{number:020}")
}

/// A message that was checked, its bytes, and what is answered of it.
struct Prepared {
    message: NewMessage,
    bytes: usize,
    sent: Sent,
}

/// The queue that these are sent to. Where what this instance knows of it refuses them, it is read again.
async fn target(
    call: &Call<'_>,
    url: Option<&str>,
    messages: &[SendMessage],
) -> Result<Queue, Fault> {
    let queue = call.queue(url).await?;
    let has_ids = messages.iter().all(|message| message.message_deduplication_id.is_some());
    let is_taken = check_size(&queue, call.bytes).is_ok()
        && (!queue.is_fifo() || has_ids || deduplication_id(&queue, None, "").is_ok());
    if is_taken { Ok(queue) } else { call.fresh(queue.name).await }
}

pub async fn send_message(call: &Call<'_>, request: SendMessage) -> Answer {
    let queue = target(call, request.queue_url.as_deref(), std::slice::from_ref(&request)).await?;
    let Prepared { message, bytes, sent } = prepare(call, &queue, request)?;
    check_size(&queue, bytes)?;
    let mut messages = [message];
    call.trace.publishes(&mut messages);
    check_replace(&call.caller, &queue.name, &messages)?;
    let _taken = call.caller.spend(&call.state.store, &queue.name, &messages).await?;
    let [message] = messages;
    let published = call.state.store.publish(&queue.name, message, IfAbsent::Refuse).await?;
    call.trace.is_about_message(&published.id);
    answer(&sent.done(&published, &queue))
}

pub async fn send_message_batch(call: &Call<'_>, request: SendMessageBatch) -> Answer {
    let batch = entries(request.entries, |entry| &entry.id, "SendMessageBatchRequestEntry");
    let queue =
        target(call, request.queue_url.as_deref(), batch.as_deref().unwrap_or_default()).await?;
    let batch = batch?;
    // As with AWS, this refuses the whole batch.
    for entry in batch.iter().filter(|_| queue.is_fifo()) {
        if entry.message_group_id.is_none() {
            return Err(Fault::bad("The request must contain the parameter MessageGroupId."));
        }
        deduplication_id(&queue, entry.message_deduplication_id.clone(), "")?;
    }
    // Before any of them is looked at.
    check_total(batch.iter().filter_map(|it| it.message_body.as_ref()).map(String::len).sum())?;
    let mut total = 0;
    let (mut outcomes, mut messages) = (Vec::new(), Vec::new());
    for entry in batch {
        let id = entry.id.clone();
        let prepared = prepare(call, &queue, entry).and_then(|prepared| {
            total += prepared.bytes;
            check_size(&queue, prepared.bytes).map(|()| prepared)
        });
        outcomes.push((
            id,
            prepared.map(|Prepared { message, sent, .. }| {
                messages.push(message);
                sent
            }),
        ));
    }
    check_total(total)?;
    call.trace.publishes(&mut messages);
    let _taken = call.caller.spend(&call.state.store, &queue.name, &messages).await?;
    let mut published = match messages.is_empty() {
        true => Vec::new(),
        false => {
            let store = &call.state.store;
            store.publish_batch(&queue.name, messages, IfAbsent::Refuse).await?
        }
    }
    .into_iter();
    let outcomes = outcomes.into_iter().map(|(id, sent)| {
        let outcome = sent.and_then(|sent| {
            let published = published.next().unwrap_or(Err(dueq_model::error::Error::Internal))?;
            Ok(sent.done(&published, &queue))
        });
        (id, outcome)
    });
    answer(&BatchAnswer::of(outcomes))
}

/// Checks a message and makes of it what is published.
fn prepare(call: &Call<'_>, queue: &Queue, request: SendMessage) -> Result<Prepared, Fault> {
    let text = request.message_body.filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| Fault::missing("MessageBody"))?;
    check_size(queue, text.len())?;
    if !is_legal(&text) {
        let message = "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to \
            #xFFFD | #x10000 to #x10FFFF";
        return Kind::InvalidMessageContents.refuse(message);
    }
    let due = due(queue, request.delay_seconds)?;
    let attributes = read_attributes(request.message_attributes)?;
    let system = read_system_attributes(request.message_system_attributes)?;
    let (group, deduplication) = (request.message_group_id, request.message_deduplication_id);
    check_id("MessageGroupId", group.as_deref())?;
    check_id("MessageDeduplicationId", deduplication.as_deref())?;
    let sent = Sent {
        id: request.id,
        md5_of_body: md5_of(text.as_bytes()),
        md5_of_attributes: md5_of_attributes(&attributes),
        md5_of_system_attributes: md5_of_attributes(&system),
        message_id: None,
        sequence_number: None,
    };
    let bytes = text.len() + size_of(&attributes);
    let trace = system.get(TRACE_HEADER).map(|header| header.value.clone());
    // A header that cannot be an attribute is none.
    let of_call = call.trace_header.as_ref().filter(|header| header.len() <= MAX_TRACE_HEADER);
    let trace_header = trace.or_else(|| of_call.filter(|header| is_legal(header)).cloned());
    let mut parts = SqsParts { trace_header, ..SqsParts::default() };
    let mut options = MessageOptions::default();
    if queue.is_fifo() {
        let group = group.ok_or_else(|| Fault::missing("MessageGroupId"))?;
        let id = deduplication_id(queue, deduplication, &text)?;
        let (attributes, now) = (queue.topic.settings.sqs.as_ref(), call.state.store.now());
        let scope = attributes.map(|sqs| scope_in_force(&sqs.attributes, now));
        let key = match scope {
            Some("messageGroup") => format!("{group} {id}"),
            _ => id.clone(),
        };
        options.idempotency = Some(Idempotency {
            key: key.into(),
            // The ID alone decides, whatever the message says.
            fingerprint: 0,
            window_ms: Some(DEDUPLICATION_MS),
        });
        options.group = Some(group);
        parts.deduplication_id = Some(id);
    } else {
        if let Some(id) = deduplication {
            return Err(Fault::invalid(id, "MessageDeduplicationId", OTHER_TYPE));
        }
        match queue.topic.settings.is_fair() {
            true => options.group = group,
            false => parts.group = group,
        }
    }
    let message = NewMessage { body: to_body(text, attributes, parts), due, options };
    Ok(Prepared { message, bytes, sent })
}

/// The ID by which a repeated message is known.
fn deduplication_id(queue: &Queue, given: Option<String>, text: &str) -> Result<String, Fault> {
    match given {
        Some(id) => Ok(id),
        None if queue.attribute("ContentBasedDeduplication") == Some("true") => {
            Ok(hex::encode(ring::digest::digest(&SHA256, text.as_bytes())))
        }
        None => Err(Fault::bad(
            "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly",
        )),
    }
}

/// When the message falls due. Its own delay may be as long as any of dueq's, not only 900 s.
fn due(queue: &Queue, delay: Option<i64>) -> Result<Due, Fault> {
    let most = (MAX_DELAY_MS / 1000) as i64;
    let seconds = match delay {
        Some(delay) if queue.is_fifo() && delay != 0 => {
            return Err(Fault::invalid(delay, "DelaySeconds", OTHER_TYPE));
        }
        Some(delay) if !(0..=most).contains(&delay) => {
            let reason = format!("DelaySeconds must be >= 0 and <= {most}.");
            return Err(Fault::invalid(delay, "DelaySeconds", &reason));
        }
        Some(delay) if !queue.is_fifo() => delay,
        _ => queue.number("DelaySeconds"),
    };
    Ok(Due::After(seconds * 1000))
}

fn check_total(bytes: usize) -> Result<(), Fault> {
    if bytes <= MAX_BATCH_BYTES {
        return Ok(());
    }
    Kind::BatchRequestTooLong.refuse(format!(
        "Batch requests cannot be longer than {MAX_BATCH_BYTES} bytes. You have sent {bytes} bytes."
    ))
}

fn check_size(queue: &Queue, bytes: usize) -> Result<(), Fault> {
    let most = queue.topic.settings.max_payload_bytes;
    if bytes as i64 <= most {
        return Ok(());
    }
    Err(Fault::bad(format!(
        "One or more parameters are invalid. Reason: Message must be shorter than {most} bytes."
    )))
}

/// `AWSTraceHeader` is the only attribute that a sender may set.
fn read_system_attributes(given: Option<Pairs<AttributeValue>>) -> Result<Attributes, Fault> {
    let read = |(name, value): (String, _)| {
        if name != TRACE_HEADER {
            let only = "The only message system attribute that a request may contain is";
            return Err(Fault::bad(format!("{only} {TRACE_HEADER}.")));
        }
        let header = read_attribute(&name, value)?;
        if header.kind != "String" || header.value.len() > MAX_TRACE_HEADER {
            return Err(Fault::bad("AWSTraceHeader must be a String of at most 4096 bytes."));
        }
        Ok((name, header))
    };
    given.unwrap_or_default().0.into_iter().map(read).collect()
}

/// Checks an ID that a request may have.
pub fn check_id(name: &str, value: Option<&str>) -> Result<(), Fault> {
    let is_good = |text: &str| {
        (1..=128).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match value {
        Some(text) if !is_good(text) => {
            let rule =
                "can only include alphanumeric and punctuation characters. 1 to 128 in length.";
            Err(Fault::invalid(text, name, &format!("{name} {rule}")))
        }
        _ => Ok(()),
    }
}
