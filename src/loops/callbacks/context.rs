//! What a topic's sender shares with its calls: where messages are sent, and the channel that they report by.

use super::{parked::Parked, request::CallRequest, slots::HostKey};
use dueq_base::metrics::CallMetrics;
use dueq_model::{Body, CallUrl, Push, PushBatch, SIGNATURE, TopicName};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// What calls report to their topic's sender.
pub(super) enum Report {
    /// A call to this host has ended, which frees its slot.
    Ended {
        host: HostKey,
        /// How long the call took, or `None` if it was not made.
        took: Option<Duration>,
        /// Whether there was an answer.
        answered: bool,
        /// Whether that was no 5xx, if the call says anything about its host.
        well: Option<bool>,
    },
    /// A message for this host is parked.
    Parked(HostKey, Parked),
}

/// What the calls of a topic need.
#[derive(Clone)]
pub(super) struct DispatchContext {
    pub topic: TopicName,
    /// The revision of the topic's settings that `push` is from.
    pub revision: i64,
    pub push: Push,
    pub metrics: Arc<CallMetrics>,
    pub reports: mpsc::UnboundedSender<Report>,
    /// Whether the warning about unsigned calls was logged.
    pub warned_unsigned: Arc<AtomicBool>,
}

impl DispatchContext {
    /// Returns the host that a message is sent to.
    pub fn host(&self, body: &Body) -> HostKey {
        let url = body.callback.as_ref().map(|callback| &callback.url).or(self.push.url.as_ref());
        url.map(CallUrl::host).unwrap_or_default()
    }

    /// Returns how its messages go into calls of many, if they do; one that has a callback of its own has also a call of its own.
    pub fn batch(&self, body: &Body) -> Option<&PushBatch> {
        self.push.batch.as_ref().filter(|_| body.callback.is_none())
    }

    /// Logs a warning, once, if the request is not signed.
    pub fn warn_unsigned(&self, request: &CallRequest) {
        if !request.headers.contains_key(SIGNATURE) && !self.warned_unsigned.swap(true, Relaxed) {
            tracing::warn!(
                topic = %self.topic,
                "calls are not signed, so receivers cannot tell them from forged ones: set push.secrets, the \
                    callback's secret, or --signing-secret"
            );
        }
    }
}

/// Holds a slot, and reports it as free when dropped, however the call ends.
pub(super) struct InFlight {
    context: Arc<DispatchContext>,
    pub host: HostKey,
    /// When the call began.
    pub began: Option<Instant>,
    /// Whether there was an answer.
    pub answered: bool,
    /// Whether that was no 5xx, if the call says anything about its host.
    pub well: Option<bool>,
}

impl InFlight {
    pub fn new(context: &Arc<DispatchContext>, host: HostKey) -> Self {
        context.metrics.in_flight.inc();
        Self { context: context.clone(), host, began: None, answered: false, well: None }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.context.metrics.in_flight.dec();
        let host = std::mem::take(&mut self.host);
        let took = self.began.map(|began| began.elapsed());
        // The sender of a topic that is no longer pushed has ended.
        let (answered, well) = (self.answered, self.well);
        let _ = self.context.reports.send(Report::Ended { host, took, answered, well });
    }
}
