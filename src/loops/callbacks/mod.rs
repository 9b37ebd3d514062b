//! Callbacks: dueq sends messages over HTTP. It is an ordinary consumer that leases messages, and acks or nacks them by the
//! receiver's answer. So the guarantees of leases hold here too, and all instances share the work.
//!
//! [`send_callbacks`] runs one sender per pushed topic. `sender` leases messages and begins their calls, `slots` limits the
//! calls and decides which message is next, `dispatcher` handles one message from call to ack, `client` makes the call.

mod args;
mod client;
mod context;
mod dial;
mod dispatcher;
#[cfg(test)]
#[path = "../../../tests/fuzz/callbacks.rs"]
mod fuzz;
mod outcome;
mod parked;
mod request;
mod sender;
mod slots;
mod tokens;
mod trace;
mod wire;

pub use args::{CallbackArgs, ClientCert, Signing};
pub use client::Caller;
pub use outcome::{CallOutcome, Verdict};
pub use request::{CallRequest, NoUrl, build};

use dispatcher::Dispatcher;
use dueq_base::{metrics::Metrics, notify::Notifier, traces::Traces};
use dueq_longpoll::LongPolls;
use dueq_model::{Push, SigningSecret, TopicName, error::Error};
use dueq_store::{Granted, Store};
use sender::Sender;
use serde_json::json;
use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};
use tokio::{sync::watch, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

/// How often to check for pushed topics and paused hosts whose notification was lost.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Pause after an error.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// How often to report how calls to each host go.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// What senders of callbacks need.
#[derive(Clone)]
pub struct Sending {
    /// Where messages are stored.
    pub store: Store,
    /// Where senders wait for messages.
    pub polls: LongPolls,
    /// Where calls are counted.
    pub metrics: Arc<Metrics>,
    /// Who hears of hosts that fail.
    pub notifier: Notifier,
    /// Where calls are traced, if they are.
    pub traces: Option<Traces>,
    /// The HTTP client.
    pub caller: Caller,
    /// The server's secrets, of which those are derived that sign calls of topics without secrets of their own.
    pub secrets: watch::Receiver<Arc<[SigningSecret]>>,
    /// What is derived of them.
    pub signing: Signing,
    /// They sign themselves, too.
    pub shared_signing: bool,
    /// Upper limit for the timeout of a call.
    pub longest: Duration,
    /// How long calls under way may go on once dueq stops.
    pub drain: Duration,
    /// The body of a call for many messages; `None` if one of them is damaged.
    pub body_of: fn(&TopicName, &Push, &[Granted]) -> Option<Vec<u8>>,
}

/// Sends the messages of all pushed topics until `stopping` is cancelled. Then calls under way may go on for the drain time,
/// and messages that were not called by then are given back.
pub async fn send_callbacks(sending: Sending, stopping: CancellationToken) {
    let store = sending.store.clone();
    let (polls, notifier) = (sending.polls.clone(), sending.notifier.clone());
    tokio::select! {
        () = send_all(sending, stopping) => {}
        never = follow_hosts(&store, &polls, &notifier) => match never {},
        never = report_hosts(&store) => match never {},
    }
    if let Err(error) = store.forget_hosts().await {
        tracing::debug!(%error, "the calls of this instance count for some seconds more");
    }
}

async fn send_all(sending: Sending, stopping: CancellationToken) {
    let dispatcher = Dispatcher::new(sending);
    // Nothing is called before it is known which hosts are paused.
    let mut paused = dispatcher.store.paused_hosts();
    tokio::select! {
        _ = paused.wait_for(Option::is_some) => {}
        () = stopping.cancelled() => return,
    }
    let mut changes = dispatcher.polls.pushed();
    let mut senders: JoinSet<TopicName> = JoinSet::new();
    let mut served = HashSet::new();
    while !stopping.is_cancelled() {
        changes.mark_unchanged();
        let pause = match dispatcher.store.pushed_topics().await {
            Ok(topics) => {
                for topic in topics {
                    if served.insert(topic.clone()) {
                        let sender = Sender::new(dispatcher.clone(), topic.clone());
                        let stopping = stopping.clone();
                        senders.spawn(async move {
                            sender.run(stopping).await;
                            topic
                        });
                    }
                }
                POLL_INTERVAL
            }
            Err(error) => {
                tracing::debug!(%error, "listing pushed topics failed");
                RETRY_INTERVAL
            }
        };
        tokio::select! {
            _ = changes.changed() => {}
            () = sleep(pause) => {}
            () = stopping.cancelled() => {}
            Some(ended) = senders.join_next() => {
                match ended {
                    // The topic is no longer pushed. If it is pushed again, `changes` is notified.
                    Ok(topic) => {
                        served.remove(&topic);
                        // The pause keeps this from spinning if Redis lists the topic again.
                        sleep(RETRY_INTERVAL).await;
                    }
                    Err(error) => {
                        tracing::error!(%error, "a callback sender panicked");
                        // The error does not tell which one, so all are restarted.
                        senders.shutdown().await;
                        served.clear();
                        sleep(RETRY_INTERVAL).await;
                    }
                }
            }
        }
    }
    while senders.join_next().await.is_some() {}
    dispatcher.drain().await;
}

/// Keeps the paused hosts and those that fail known, and tends the latter. Runs until the future is dropped.
async fn follow_hosts(store: &Store, polls: &LongPolls, notifier: &Notifier) -> Infallible {
    let mut changes = polls.pushed();
    let mut tried = HashMap::new();
    loop {
        changes.mark_unchanged();
        let read = async {
            // What is paused comes last: nothing is called before it is known.
            let next_ms = store.tend_failing_hosts(&mut tried).await?;
            store.read_paused_hosts().await?;
            Ok::<_, Error>(next_ms)
        };
        let read = read.await;
        for host in store.take_opened_hosts() {
            tracing::info!(host, "host is called again");
            let text = format!("{host} is called again, with the messages that waited.");
            notifier.send("host_back", &text, store.now(), json!({"host": host}));
        }
        let is_notified = read.is_ok() && store.hears_wakes();
        let longest = if is_notified { POLL_INTERVAL } else { RETRY_INTERVAL };
        let next_ms = read.ok().flatten();
        let pause = next_ms.map(|ms| Duration::from_millis(ms.unsigned_abs())).unwrap_or(longest);
        tokio::select! {
            _ = changes.changed() => {}
            () = sleep(pause.min(longest)) => {}
        }
    }
}

/// Reports again and again how calls go. Runs until the future is dropped.
async fn report_hosts(store: &Store) -> Infallible {
    loop {
        if let Err(error) = store.report_hosts().await {
            tracing::debug!(%error, "how calls to hosts go is written down the next time");
        }
        sleep(REPORT_INTERVAL).await;
    }
}
