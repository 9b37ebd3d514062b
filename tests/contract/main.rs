//! The HTTP contract, route by route, against real Redis and the real binary: what a client may rely
//! on, one behaviour a test.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod facts;

mod access;
mod ack;
mod attempts;
mod backoff;
mod bad_input;
mod batch;
mod bytes;
mod delete_force;
mod document;
mod document_options;
mod early;
mod events;
mod extend;
mod get_delete;
mod gone;
mod hold_batch;
mod idempotency;
mod idempotency_keys;
mod keys;
mod keys_freed;
mod keys_load;
mod lease;
mod lease_from_topics;
mod limits;
mod long_poll;
mod model;
mod nack;
mod nack_options;
mod order;
mod publish;
mod raw;
mod redrive;
mod redrive_topic;
mod replace;
mod service;
mod states;
mod tokens;
mod topics;
mod ttl;
mod two_instances;
mod update;
mod update_refused;
mod walk;
