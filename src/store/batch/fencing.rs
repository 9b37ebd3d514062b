//! The task that works for a [`Fence`](super::fence::Fence): it asks the replicas, round after round.

use super::{
    super::{backend::Link, reply::word, scripts},
    node::Node,
    round::Round,
};
use deadpool_redis::redis::{Pipeline, Value, aio::ConnectionLike};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};

/// How long a round waits for the replicas, ms: then the next one also counts for what has come meanwhile.
const WAIT_MS: u64 = 100;
/// How often a connection with nothing to do is looked at.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// How often replicas that did not confirm are asked when nobody waits for them.
const UNSURE_INTERVAL: Duration = Duration::from_millis(100);
/// The pause after a round that came to nothing at once.
const PAUSE: Duration = Duration::from_millis(20);

/// The connection of a fence.
struct Line {
    link: Link,
    opened: Instant,
    key: Arc<str>,
}

/// Confirms what is held, until the lanes have ended and nothing is left.
pub(super) async fn run(node: Arc<Node>) {
    let fence = &node.fence;
    let (mut line, mut tries) = (None::<Line>, 0);
    loop {
        while fence.is_empty() {
            tokio::select! {
                biased;
                () = fence.filled.notified() => {}
                () = node.lanes_end() => if fence.is_empty() { return },
                () = sleep(UNSURE_INTERVAL), if fence.is_unsure() && node.backend.has_replicas() => break,
                () = sleep(PROBE_INTERVAL) => line = probed(&node, line.take()).await,
            }
        }
        fence.expire(&node);
        let Some(mut here) = connected(&node, line.take(), tries).await else {
            sleep(PAUSE).await;
            continue;
        };
        let (begun, end) = (Instant::now(), fence.end());
        let wanted = fence.wanted().unwrap_or_else(|| node.backend.wanted_replicas());
        match round(&node, &mut here, wanted).await {
            Ok(round) => {
                fence.release(end, &round, &here.key);
                fence.unsure.store(round.replicas < wanted, Ordering::Relaxed);
                if round.replicas < wanted {
                    fence.end_attempts();
                }
                let (epoch, opened) = (round.epoch, here.opened);
                if !fence.has_other_epoch(end, epoch) {
                    line = Some(here);
                    continue;
                }
                // Either this connection leads to a server that is the primary no more, or that has written them.
                fence.void(&node, |came, held| held.epoch != epoch && came < opened);
            }
            Err(broken) => {
                tries += 1;
                if !broken {
                    here.key = node.fence_key(tries).into();
                    line = Some(here);
                }
                if begun.elapsed() < PAUSE {
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

/// A connection that has nothing to do, if it still leads to a primary.
async fn probed(node: &Arc<Node>, line: Option<Line>) -> Option<Line> {
    let mut line = line?;
    let lives = node.backend.is_present(&line.link)
        && node.backend.probe(&mut line.link, || node.fence_key(0)).await;
    lives.then_some(line)
}

/// A connection to where the primary is.
async fn connected(node: &Arc<Node>, line: Option<Line>, tries: usize) -> Option<Line> {
    if let Some(mut line) = line
        && node.backend.moves_so_far() == line.link.endpoint
        && !line.link.connection.has_ended()
    {
        return Some(line);
    }
    let opened = Instant::now();
    let link = tokio::select! {
        link = node.backend.connect() => link.ok()?,
        () = node.backend.moved_from(node.backend.moves_so_far()) => return None,
    };
    Some(Line { link, opened, key: node.fence_key(tries).into() })
}

/// One round. Errors: whether the connection must not be used again; a server may also have refused the write, which
/// makes the round void.
async fn round(node: &Node, line: &mut Line, wanted: usize) -> Result<Round, bool> {
    let mut pipeline = Pipeline::with_capacity(3);
    Round::ask(&mut pipeline, scripts::FENCE.call(true), &line.key, wanted, WAIT_MS);
    let sent = line.link.connection.inner.req_packed_commands(&pipeline, 0, 3);
    let limit = node.timeout + Duration::from_millis(WAIT_MS);
    let answers = tokio::select! {
        answers = timeout(limit, sent) => answers.ok().and_then(Result::ok).ok_or(true)?,
        () = node.backend.moved_from(line.link.endpoint) => return Err(true),
    };
    let answers = <[Value; 3]>::try_from(answers).map_err(|_| true)?;
    if !node.confirms() {
        node.backend.look_at_replication(word(&answers[2]).unwrap_or_default());
    }
    let round = Round::read(&answers);
    if round.is_err() && word(&answers[0]) != Some("OK") && node.backend.shared.may_complain() {
        tracing::warn!(answer = ?answers[0], "Redis refuses the write that replicas are to confirm");
    }
    round
}
