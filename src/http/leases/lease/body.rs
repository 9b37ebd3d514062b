//! The body of a lease's answer, which knows whether the client took it.

use bytes::Bytes;
use dueq_store::Grants;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// The answer with the grants in it: if the connection is gone before a byte was taken, they go back at once.
pub struct GrantsBody {
    pub bytes: Option<Bytes>,
    pub grants: Grants,
}

impl http_body::Body for GrantsBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        self.grants.deliver();
        Poll::Ready(self.bytes.take().map(|bytes| Ok(http_body::Frame::data(bytes))))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.bytes.as_ref().map_or(0, Bytes::len) as u64)
    }
}
