//! What flights and the sender of their topic have in common: where messages go, and what is told of places.

use super::{
    parked::Parked,
    places::HostKey,
    request::{CallRequest, SIGNATURE},
};
use crate::{
    metrics::CallMetrics,
    model::{Body, CallUrl, Push, TopicName},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// A call has ended.
pub(super) struct CallEnded {
    /// Where it went.
    pub host: HostKey,
    /// How long it took; `None` where nothing was called.
    pub took: Option<Duration>,
    /// Whether there was an answer.
    pub answered: bool,
}

/// A topic's part of what a flight needs.
#[derive(Clone)]
pub(super) struct DispatchContext {
    pub topic: TopicName,
    /// Of the settings that `push` is of.
    pub revision: i64,
    pub push: Push,
    pub metrics: Arc<CallMetrics>,
    pub ended: mpsc::UnboundedSender<CallEnded>,
    pub parked: mpsc::UnboundedSender<(HostKey, Parked)>,
    /// That calls go unsigned has been told.
    pub unsigned: Arc<AtomicBool>,
}

impl DispatchContext {
    /// The host that a message goes to.
    pub fn host(&self, body: &Body) -> HostKey {
        let url = body.callback.as_ref().map(|callback| &callback.url).or(self.push.url.as_ref());
        url.map(CallUrl::host).unwrap_or_default()
    }

    /// Tells, once, that nothing signs what is sent.
    pub fn warn_unsigned(&self, request: &CallRequest) {
        if !request.headers.contains_key(SIGNATURE) && !self.unsigned.swap(true, Relaxed) {
            tracing::warn!(
                topic = %self.topic,
                "calls are not signed, so receivers cannot tell them from forged ones: set push.secrets, the \
                    callback's secret, or --signing-secret"
            );
        }
    }
}

/// A place that is taken; it is free again however the call ends.
pub(super) struct InFlight {
    context: Arc<DispatchContext>,
    pub host: HostKey,
    /// When its call began.
    pub began: Option<Instant>,
    /// Whether there was an answer.
    pub answered: bool,
}

impl InFlight {
    pub fn taken(context: &Arc<DispatchContext>, host: HostKey) -> Self {
        context.metrics.in_flight.inc();
        Self { context: context.clone(), host, began: None, answered: false }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.context.metrics.in_flight.dec();
        let host = std::mem::take(&mut self.host);
        // Nobody listens while the topic's sender stops.
        let took = self.began.map(|began| began.elapsed());
        let _ = self.context.ended.send(CallEnded { host, took, answered: self.answered });
    }
}
