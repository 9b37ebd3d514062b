//! One pipeline of a lane, there and back.

use super::{
    super::{
        backend::Link,
        outage, reply,
        scripts::{self, Script},
        server_info::epoch_of,
    },
    request::Call,
    round::{End, LANE_WAIT_MS, Round},
};
use deadpool_redis::redis::{Pipeline, Value, aio::ConnectionLike};
use dueq_model::Epoch;
use std::{collections::HashSet, time::Duration};
use tokio::time::timeout;

/// Which calls carry the text of their script, where the others carry its digest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Texts {
    None,
    /// The first of each script, which makes Redis know it again for the others.
    First,
    /// All: Redis has forgotten its scripts once more, or sent the first call to another server.
    All,
}

/// Nothing came back of a pipeline.
pub(super) enum Lost {
    /// It was not written, and will not be.
    NotSent,
    /// It may have run; why its answers are lost.
    Sent(String),
}

/// What came back of a pipeline.
pub(super) struct Answered {
    /// In which epoch it began, if that was asked.
    pub epoch: Option<Epoch>,
    pub replies: Vec<Value>,
    /// What replicas have, if that was asked and could be known.
    pub round: Option<Round>,
}

/// One pipeline there and back within `limit`.
pub(super) async fn send(
    link: &mut Link,
    calls: &[Box<dyn Call>],
    end: &End,
    texts: Texts,
    limit: Duration,
) -> Result<Answered, Lost> {
    let mut pipeline = Pipeline::with_capacity(calls.len() + 4);
    let waits = !matches!(end, End::Nothing);
    if waits {
        pipeline.cmd("INFO").arg("replication");
    }
    let mut known = HashSet::new();
    let mut begin = |script: &'static Script| {
        script.call(match texts {
            Texts::None => false,
            Texts::First => known.insert(script.name),
            Texts::All => true,
        })
    };
    let mut asking = Vec::new();
    for call in calls {
        if call.is_asking() {
            asking.push(pipeline.len());
            pipeline.cmd("ASKING");
        }
        pipeline.add_command(call.command(link.epoch, &mut begin));
    }
    if let End::Round(wanted, key) = end {
        Round::ask(&mut pipeline, scripts::FENCE.call(false), key, *wanted, LANE_WAIT_MS);
    }
    let short = || Lost::Sent("it left out answers".to_owned());
    let written = link.connection.written();
    let sent = link.connection.inner.req_packed_commands(&pipeline, 0, pipeline.len());
    match timeout(limit, sent).await {
        Ok(Ok(mut replies)) => {
            let round = match end {
                End::Round(..) => {
                    let end = replies.len().checked_sub(3).ok_or_else(short)?;
                    <[Value; 3]>::try_from(replies.split_off(end)).ok()
                }
                _ => None,
            };
            let mut at = 0..;
            replies.retain(|_| at.next().is_some_and(|at| !asking.contains(&at)));
            let info = (waits && !replies.is_empty()).then(|| replies.remove(0));
            let epoch =
                info.map(|info| epoch_of(reply::word(&info).unwrap_or_default(), "master_replid"));
            let round = round.and_then(|round| Round::read(&round).ok());
            let answered = Answered { epoch, replies, round };
            let complete = answered.replies.len() == calls.len();
            if complete { Ok(answered) } else { Err(short()) }
        }
        // The connection had ended, and what was not written by now is forgotten with it.
        Ok(Err(_)) if written.is_some() && written == link.connection.written() => {
            Err(Lost::NotSent)
        }
        Ok(Err(error)) => Err(Lost::Sent(format!("the connection broke: {error}"))),
        Err(_) => Err(Lost::Sent(outage::SILENT.to_owned())),
    }
}
