//! Callbacks: dueq sends messages by HTTP itself. It does so as an ordinary consumer: it leases, and acknowledges or gives
//! back by what the receiver answers, so whatever holds of leases holds here, and every instance takes its part.
//!
//! [`send_callbacks`] sees to it that there is one sender a pushed topic; `sender` leases and begins calls, `places` says
//! who has its turn, `flight` sees one message through its call, `client` makes the call.

mod client;
mod context;
mod dial;
mod flight;
#[cfg(test)]
mod fuzz;
mod outcome;
mod parked;
mod places;
mod request;
mod sender;
mod wire;

pub use client::Caller;
pub use outcome::{CallOutcome, Verdict};
pub use request::{CallRequest, NoUrl, build};

use crate::{
    longpoll::LongPolls,
    metrics::Metrics,
    model::{SigningSecret, TopicName},
    store::Store,
};
use flight::Flights;
use sender::Sender;
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

/// Should the news of a pushed topic be lost, this is how long it goes unnoticed.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// While Redis is away.
const RETRY: Duration = Duration::from_millis(500);

/// What sending takes.
#[derive(Clone)]
pub struct Sending {
    /// The queue.
    pub store: Store,
    /// Where senders wait for messages.
    pub polls: LongPolls,
    /// Where calls are counted.
    pub metrics: Arc<Metrics>,
    /// What makes the calls.
    pub caller: Caller,
    /// What signs where a topic has no secrets of its own.
    pub secrets: Arc<[SigningSecret]>,
    /// How long a call may take, whatever it says itself.
    pub longest: Duration,
    /// How long calls under way may take once dueq stops.
    pub drain: Duration,
}

/// Sends the messages of all pushed topics until `stopping`. Then calls under way have the drain's time to end; what is not
/// called by then is given back.
pub async fn send_callbacks(sending: Sending, stopping: CancellationToken) {
    let mut news = sending.polls.pushed();
    let flights = Flights::new(&sending);
    let mut senders: JoinSet<TopicName> = JoinSet::new();
    let mut served = HashSet::new();
    while !stopping.is_cancelled() {
        news.mark_unchanged();
        let pause = match sending.store.pushed_topics().await {
            Ok(topics) => {
                for topic in topics {
                    if served.insert(topic.clone()) {
                        let sender = Sender::new(sending.clone(), flights.clone(), topic.clone());
                        let stopping = stopping.clone();
                        senders.spawn(async move {
                            sender.run(stopping).await;
                            topic
                        });
                    }
                }
                LOOK_EVERY
            }
            Err(error) => {
                tracing::debug!(%error, "pushed topics cannot be looked up now");
                RETRY
            }
        };
        tokio::select! {
            _ = news.changed() => {}
            () = sleep(pause) => {}
            () = stopping.cancelled() => {}
            Some(ended) = senders.join_next() => {
                match ended {
                    // It is pushed no more; should it be again by now, that was in the news.
                    Ok(topic) => {
                        served.remove(&topic);
                        // Never in haste, whatever Redis says of it.
                        sleep(RETRY).await;
                    }
                    Err(error) => {
                        tracing::error!(%error, "a sender of callbacks broke");
                        // Which one is not told: all begin anew.
                        senders.shutdown().await;
                        served.clear();
                        sleep(RETRY).await;
                    }
                }
            }
        }
    }
    while senders.join_next().await.is_some() {}
    flights.drain(sending.drain).await;
}
