//! How many messages one call carries, as requests say and answers show it.

use crate::prelude::*;
use dueq_model::{
    DEFAULT_CALL_WAIT_MS, MAX_CALL_MESSAGES, MAX_CALL_WAIT_MS, Millis, PushBatch, Unknown,
};

request! {
    /// How many messages one call carries. Each instance gathers its own. A call also begins at 1 MiB.
    #[example = json!({"max_messages": 100, "max_wait_ms": 2_000})]
    pub struct PushBatchRequest {
        /// Messages of a call, at most: 1 to 100. Default: 100.
        pub max_messages: Option<Bounded<1, MAX_CALL_MESSAGES>>,
        /// How long the first of them waits for others, ms: 0 to 60000. Default: 1000.
        pub max_wait_ms: Option<Bounded<0, MAX_CALL_WAIT_MS>>,
    }
}

impl From<PushBatchRequest> for Option<PushBatch> {
    fn from(PushBatchRequest { max_messages, max_wait_ms }: PushBatchRequest) -> Self {
        let max_messages = max_messages.map_or(MAX_CALL_MESSAGES, |it| it.get()) as u32;
        let max_wait_ms = max_wait_ms.map_or(DEFAULT_CALL_WAIT_MS, |it| it.get() as Millis);
        Some(PushBatch { max_messages, max_wait_ms, unknown: Unknown::new() })
    }
}

answer! {
    /// How many messages one call carries.
    #[name = "PushBatch"]
    pub struct PushBatchView {
        /// Messages of a call, at most.
        max_messages: u32,
        /// How long the first of them waits for others, ms.
        max_wait_ms: Millis,
    }
}

impl From<&PushBatch> for PushBatchView {
    fn from(PushBatch { max_messages, max_wait_ms, .. }: &PushBatch) -> Self {
        Self { max_messages: *max_messages, max_wait_ms: *max_wait_ms }
    }
}
