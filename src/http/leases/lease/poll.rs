//! The long poll of a consumer, and the answer with what it got: the part that SQS's clients share.

use crate::{
    prelude::*,
    server::{activity::Activity, budget::Hold},
};
use axum::body::Body;
use bytes::Bytes;
use dueq_model::TopicName;
use dueq_store::{Grants, LeaseOptions};
use std::{
    future::pending,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

/// Leases with a long poll, for as long as the key is let in and the connection need not make room for others. Returns whether
/// it was cut short.
pub async fn poll(
    state: &AppState,
    caller: &Caller,
    activity: Option<&Arc<Activity>>,
    topics: &[TopicName],
    options: LeaseOptions,
    wait: Duration,
) -> (Result<Grants, Error>, bool) {
    let mut is_cut = false;
    let cut = async {
        let evicted = async {
            let Some(activity) = activity else { return pending().await };
            activity.poll_until_evicted().await;
        };
        tokio::select! { () = evicted => {}, () = caller.revoked() => {} }
        is_cut = true;
    };
    let grants = state.polls.lease_until(topics, options, wait, cut).await;
    (grants, is_cut)
}

/// An answer with messages, whose bytes are counted: a client that is gone before it took a byte never had them.
pub fn holding(hold: Hold, grants: Grants, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::new(GrantsBody { bytes: Some(body.into()), grants }));
    response.extensions_mut().insert(Arc::new(hold));
    response
}

/// The answer with the grants in it: if the connection is gone before a byte was taken, they go back at once.
struct GrantsBody {
    bytes: Option<Bytes>,
    grants: Grants,
}

impl http_body::Body for GrantsBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        self.grants.deliver();
        Poll::Ready(self.bytes.take().map(|bytes| Ok(http_body::Frame::data(bytes))))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.bytes.as_ref().map_or(0, Bytes::len) as u64)
    }
}
