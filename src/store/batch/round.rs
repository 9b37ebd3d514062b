//! What a pipeline asks to learn what replicas have, and how it is read: see [`super::fence`].

use super::{
    super::{
        reply::{self, word},
        server_info::{epoch_of, is_of_replica},
    },
    node::Node,
    request::Call,
};
use deadpool_redis::redis::{Cmd, Pipeline, Value};
use dueq_model::Epoch;
use std::sync::Arc;

/// How long a lane's own pipeline waits for the replicas, ms.
pub(super) const LANE_WAIT_MS: u64 = 20;

/// What a round learnt.
pub(super) struct Round {
    pub epoch: Epoch,
    pub replicas: usize,
}

impl Round {
    /// Adds its three commands to a pipeline: `write` has the key.
    pub fn ask(pipeline: &mut Pipeline, mut write: Cmd, key: &str, wanted: usize, wait_ms: u64) {
        write.arg(1).arg(key);
        pipeline.add_command(write);
        pipeline.cmd("WAIT").arg(wanted).arg(wait_ms);
        pipeline.cmd("INFO").arg("replication");
    }

    /// Reads their answers. Errors: whether the connection must not be used again.
    pub fn read([written, replicas, info]: &[Value; 3]) -> Result<Self, bool> {
        if word(written) != Some("OK") {
            return Err(reply::code_of(written) == Some("READONLY"));
        }
        let info = word(info).ok_or(true)?;
        let epoch = epoch_of(info, "master_replid");
        if !epoch.is_known() || is_of_replica(info) {
            return Err(true);
        }
        // Where WAIT is refused, `warnings` in readyz says so.
        let Value::Int(replicas) = *replicas else { return Err(true) };
        Ok(Self { epoch, replicas: replicas.max(0) as usize })
    }
}

/// What a pipeline has besides its calls.
pub(super) enum End {
    /// Nothing: no answer waits for replicas.
    Nothing,
    /// It begins with the question which epoch it is, for answers that are left with the fence.
    Epoch,
    /// So it does, and ends with a round of the fence, for so many replicas and with this key: all answers wait, so it keeps
    /// nobody from another.
    Round(usize, Arc<str>),
}

impl End {
    pub fn of(calls: &[Box<dyn Call>], node: &Node) -> Self {
        let wanted = || calls.iter().map(|call| node.replicas_for(call.confirm()));
        match (wanted().min(), wanted().max(), node.fence.key()) {
            (_, None | Some(0), _) => Self::Nothing,
            (Some(1..), Some(wanted), Some(key)) => Self::Round(wanted, key),
            _ => Self::Epoch,
        }
    }
}
