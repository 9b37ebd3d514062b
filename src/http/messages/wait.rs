//! Waiting until a message has ended. Nothing announces that an ack or a death has come, since that would cost every ack a command; so
//! waits look, ever more seldom, and together no more often than Redis hardly feels.

use crate::{prelude::*, server::activity::Activity};
use dueq_model::MessageId;
use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout_at};

/// After the first look at a message, and between two later ones.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// With more waits than 500 an instance looks 500 times a second: each wait looks this much more seldom for each of them.
const PAUSE_FOR_EACH: Duration = Duration::from_millis(2);

/// How many requests wait.
#[derive(Default)]
pub struct Waits(AtomicU32);

struct Wait<'a>(&'a Waits);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits until the message is acknowledged, dead or gone, but no longer than this, nor than the server serves and the connection need
/// not make room for others. Returns whether it has to make room.
///
/// Errors: those of [`Caller::check_let_in`].
pub async fn until_ended(
    cx: &Context,
    id: MessageId,
    activity: Option<Arc<Activity>>,
    wait: Duration,
) -> Result<bool, Problem> {
    let end = Instant::now() + wait;
    cx.waits.0.fetch_add(1, Ordering::Relaxed);
    let wait = Wait(&cx.waits);
    let ended = async {
        let mut pause = FIRST_PAUSE;
        // Where Redis fails at once, so does the request.
        let mut found = cx.store.has_ended(id).await.or(Ok::<_, Error>(true));
        while !matches!(found, Ok(true)) {
            sleep(pause.max(PAUSE_FOR_EACH * wait.0.0.load(Ordering::Relaxed))).await;
            pause = LONGEST_PAUSE.min(pause * 3 / 2);
            found = cx.store.has_ended(id).await;
        }
    };
    let evicted = async {
        match activity {
            Some(activity) => activity.poll_until_evicted().await,
            None => pending().await,
        }
    };
    let mut stopping = cx.stopping.clone();
    let is_cut = tokio::select! {
        _ = timeout_at(end, ended) => false,
        _ = stopping.wait_for(|stopping| *stopping) => false,
        () = cx.caller.revoked() => false,
        () = evicted => true,
    };
    cx.caller.check_let_in()?;
    Ok(is_cut)
}
