//! DeleteMessage and ChangeMessageVisibility: an ack, and a lease that ends at another time. A receipt handle is the
//! message's id and the token of its lease.
//!
//! AWS lets a handle act on a standard queue after its visibility timeout, too. Here it does as long as nobody else has
//! received the message since; after that it changes nothing, and the request succeeds.

use super::{
    super::input::json::Items,
    Answer, Call, Queue, answer, done,
    fault::{Fault, Kind},
    parts::{BatchAnswer, entries},
    receive::{MAX_VISIBILITY_S, check_visibility},
};
use dueq_model::{LeaseClaims, MessageId, error::Error};
use dueq_store::{Ack, Extend, Nack, NackRequest};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

/// A message, alone or in a batch.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Settle {
    #[serde(default)]
    id: String,
    queue_url: Option<String>,
    receipt_handle: Option<String>,
    visibility_timeout: Option<i64>,
}

impl Settle {
    fn handle(&self) -> Option<&str> {
        self.receipt_handle.as_deref()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SettleBatch {
    queue_url: Option<String>,
    entries: Option<Items<Settle>>,
}

/// An entry of a batch that succeeded.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Settled {
    id: String,
}

/// The message and the token that a receipt handle names.
fn parts_of(handle: &str) -> Option<(MessageId, &str)> {
    let (id, token) = handle.split_once('.')?;
    Some((MessageId::parse(id).ok()?, token))
}

fn is_of(id: &MessageId, queue: &Queue) -> bool {
    id.route().is_some_and(|route| route.topic == queue.topic.number)
}

/// The queue of these requests. If a handle is not of the queue that this instance knows, it is read again: another instance may
/// have made a new one of this name.
async fn target(call: &Call<'_>, url: Option<&str>, requests: &[Settle]) -> Result<Queue, Fault> {
    let queue = call.queue(url).await?;
    let mut named = requests.iter().filter_map(|request| parts_of(request.handle()?));
    if named.all(|(id, _)| is_of(&id, &queue)) { Ok(queue) } else { call.fresh(queue.name).await }
}

/// The queue of a batch, and its entries. `what`: the name of such an entry.
async fn opened(
    call: &Call<'_>,
    request: SettleBatch,
    what: &str,
) -> Result<(Queue, Vec<Settle>), Fault> {
    let batch = entries(request.entries, |entry| &entry.id, what);
    let known = batch.as_deref().unwrap_or_default();
    let queue = target(call, request.queue_url.as_deref(), known).await?;
    let batch = batch?;
    call.trace.counts(batch.len());
    Ok((queue, batch))
}

/// Answers with what came of each entry.
fn settled(batch: &[Settle], outcomes: Vec<Result<(), Fault>>) -> Answer {
    let outcomes = batch.iter().zip(outcomes).map(|(entry, outcome)| {
        let id = entry.id.clone();
        (id.clone(), outcome.map(|()| Settled { id }))
    });
    answer(&BatchAnswer::of(outcomes))
}

/// A receipt handle that dueq gave out for this queue.
struct Handle<'a> {
    text: &'a str,
    id: MessageId,
    claims: LeaseClaims,
}

impl<'a> Handle<'a> {
    fn open(call: &Call<'_>, queue: &Queue, text: Option<&'a str>) -> Result<Self, Fault> {
        let text = text.filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| Fault::missing("ReceiptHandle"))?;
        let parts = parts_of(text);
        let open = || {
            let (id, token) = parts?;
            let claims = call.state.store.claims_of(&id, token).filter(|_| is_of(&id, queue))?;
            Some(Self { text, id, claims })
        };
        open().ok_or_else(|| {
            // What may be good elsewhere is not quoted, since logs are kept.
            let message = match parts {
                Some(_) => "The input receipt handle is invalid.".to_owned(),
                None => {
                    format!("The input receipt handle \"{text}\" is not a valid receipt handle.")
                }
            };
            Fault::new(Kind::ReceiptHandleIsInvalid, message)
        })
    }

    /// What the handle does after its visibility timeout: nothing in a FIFO queue; else a delete, or a lease of so many ms.
    async fn act_late(
        &self,
        call: &Call<'_>,
        queue: &Queue,
        lease_ms: Option<i64>,
    ) -> Result<(), Fault> {
        if queue.is_fifo() {
            let reason = "The receipt handle has expired.";
            return Err(Fault::invalid(self.text, "ReceiptHandle", reason));
        }
        call.state.store.settle_late(self.id, &self.claims, lease_ms).await?;
        Ok(())
    }
}

pub async fn delete_message(call: &Call<'_>, request: Settle) -> Answer {
    let one = std::slice::from_ref(&request);
    let queue = target(call, request.queue_url.as_deref(), one).await?;
    delete(call, &queue, &request).await?;
    done()
}

pub async fn delete_message_batch(call: &Call<'_>, request: SettleBatch) -> Answer {
    let (queue, batch) = opened(call, request, "DeleteMessageBatchRequestEntry").await?;
    let outcomes = batch.iter().map(|entry| delete(call, &queue, entry));
    settled(&batch, join_all(outcomes).await)
}

async fn delete(call: &Call<'_>, queue: &Queue, request: &Settle) -> Result<(), Fault> {
    let handle = Handle::open(call, queue, request.handle())?;
    let store = &call.state.store;
    match store.settle_claimed(handle.id, handle.claims, Ack::default()).await {
        Ok(()) | Err(Error::MessageNotFound) => Ok(()),
        Err(Error::LeaseLost) => handle.act_late(call, queue, None).await,
        Err(error) => Err(error.into()),
    }
}

pub async fn change_visibility(call: &Call<'_>, request: Settle) -> Answer {
    let one = std::slice::from_ref(&request);
    let queue = target(call, request.queue_url.as_deref(), one).await?;
    change(call, &queue, &request).await?;
    done()
}

pub async fn change_visibility_batch(call: &Call<'_>, request: SettleBatch) -> Answer {
    let (queue, batch) = opened(call, request, "ChangeMessageVisibilityBatchRequestEntry").await?;
    let outcomes = batch.iter().map(|entry| change(call, &queue, entry));
    settled(&batch, join_all(outcomes).await)
}

/// Ends the lease so many seconds from now; at once it counts as a failed attempt, as every receive of SQS does.
async fn change(call: &Call<'_>, queue: &Queue, request: &Settle) -> Result<(), Fault> {
    let seconds = request.visibility_timeout.ok_or_else(|| Fault::missing("VisibilityTimeout"))?;
    let seconds = check_visibility(seconds)?;
    let handle = Handle::open(call, queue, request.handle())?;
    let store = &call.state.store;
    let millis = seconds * 1000;
    if (store.now() - handle.claims.granted_at) / 1000 + seconds > MAX_VISIBILITY_S {
        let reason = "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]";
        return Err(Fault::invalid(seconds, "VisibilityTimeout", reason));
    }
    let changed = match seconds {
        0 => {
            let request = NackRequest { delay_ms: Some(0), ..NackRequest::default() };
            store.settle_claimed(handle.id, handle.claims, Nack::Asked(request)).await.map(drop)
        }
        _ => {
            let extend = Extend { lease_ms: millis as u64, shortens: true };
            store.settle_claimed(handle.id, handle.claims, extend).await.map(drop)
        }
    };
    match changed {
        Ok(()) => Ok(()),
        Err(Error::LeaseLost) => handle.act_late(call, queue, Some(millis)).await,
        Err(Error::MessageNotFound) => Err(Fault::invalid(
            handle.text,
            "ReceiptHandle",
            "Message does not exist or is not available for visibility timeout change.",
        )),
        Err(error) => Err(error.into()),
    }
}
