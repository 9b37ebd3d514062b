//! Notices that a client has gone. hyper does so itself as long as it has used up all that the client sent; a line break or
//! a further request behind the one that is being answered keeps it from looking, and what is granted then goes nowhere.

use futures_util::FutureExt;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{Interest, ReadBuf},
    net::TcpStream,
    time::{Sleep, sleep},
};

/// Where the client has sent more than hyper takes, the end of that is looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Whether a client has gone.
#[derive(Default)]
pub(crate) struct Departure {
    /// While there is more that hyper does not take.
    again: Option<Pin<Box<Sleep>>>,
}

impl Departure {
    /// hyper takes what the client sent, and sees its end itself.
    pub fn reads(&mut self) {
        self.again = None;
    }

    /// Ready once the client has gone.
    pub fn poll(&mut self, tcp: &TcpStream, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let mut next = [0];
            match ready!(tcp.poll_peek(cx, &mut ReadBuf::new(&mut next))) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(_) => {}
            }
            let again = self.again.get_or_insert_with(|| Box::pin(sleep(LOOK_EVERY)));
            ready!(again.as_mut().poll(cx));
            self.again = None;
            // Ready, among other things, where the client has closed its side.
            if tcp.ready(Interest::PRIORITY).now_or_never().is_some() {
                return Poll::Ready(());
            }
        }
    }
}
