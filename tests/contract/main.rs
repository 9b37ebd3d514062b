//! The HTTP contract, route by route, against real Redis and the real binary: what a client may rely
//! on, one behaviour a test.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod facts;

mod access;
mod ack;
mod attempts;
mod bad_input;
mod bytes;
mod document;
mod early;
mod extend;
mod get_delete;
mod gone;
mod lease;
mod lease_from_topics;
mod limits;
mod long_poll;
mod model;
mod nack;
mod order;
mod publish;
mod raw;
mod service;
mod states;
mod tokens;
mod topics;
mod two_instances;
