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
        let open = || {
            let (id, token) = text.split_once('.')?;
            let id = MessageId::parse(id).ok()?;
            let is_of_queue = id.route()?.topic == queue.topic.number;
            let claims = call.state.store.claims_of(&id, token).filter(|_| is_of_queue)?;
            Some(Self { text, id, claims })
        };
        open().ok_or_else(|| {
            // What may be good elsewhere is not quoted, since logs are kept.
            let is_one = text.split_once('.').is_some_and(|(id, _)| MessageId::parse(id).is_ok());
            let message = match is_one {
                true => "The input receipt handle is invalid.".to_owned(),
                false => {
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
    let queue = call.queue(request.queue_url.as_deref()).await?;
    delete(call, &queue, &request).await?;
    done()
}

pub async fn delete_message_batch(call: &Call<'_>, request: SettleBatch) -> Answer {
    let queue = call.queue(request.queue_url.as_deref()).await?;
    let batch = entries(request.entries, |entry| &entry.id, "DeleteMessageBatchRequestEntry")?;
    call.trace.counts(batch.len());
    let outcomes = batch.iter().map(async |entry| {
        let outcome = delete(call, &queue, entry).await;
        (entry.id.clone(), outcome.map(|()| Settled { id: entry.id.clone() }))
    });
    answer(&BatchAnswer::of(join_all(outcomes).await))
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
    let queue = call.queue(request.queue_url.as_deref()).await?;
    change(call, &queue, &request).await?;
    done()
}

pub async fn change_visibility_batch(call: &Call<'_>, request: SettleBatch) -> Answer {
    let queue = call.queue(request.queue_url.as_deref()).await?;
    let what = "ChangeMessageVisibilityBatchRequestEntry";
    let batch = entries(request.entries, |entry| &entry.id, what)?;
    call.trace.counts(batch.len());
    let outcomes = batch.iter().map(async |entry| {
        let outcome = change(call, &queue, entry).await;
        (entry.id.clone(), outcome.map(|()| Settled { id: entry.id.clone() }))
    });
    answer(&BatchAnswer::of(join_all(outcomes).await))
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
