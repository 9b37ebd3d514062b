//! Callbacks and pushed topics, against real Redis, the real binary and receivers that behave well
//! and badly: what dueq sends, when, how often, and what an answer makes of a message.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod facts;

mod addresses;
mod answers;
mod auth;
mod batch;
mod becoming;
mod before_due;
mod broken;
mod callbacks;
mod caller;
mod completions;
mod derived;
mod events;
mod failing;
mod faults;
mod hosts;
mod instances;
mod kept;
mod later;
mod limits;
mod masking;
mod metrics;
mod notify;
mod origins;
mod places;
mod pushed;
mod receivers;
mod retry;
mod retry_after;
mod returned;
mod signing;
mod stopping;
mod tenants;
mod traces;
mod waiting;
