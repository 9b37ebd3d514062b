//! The HTTP contract, route by route, against real Redis and the real binary: what a client may rely
//! on, one behaviour a test.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod facts;
mod topic_facts;

mod access;
mod ack;
mod attempts;
mod backoff;
mod bad_input;
mod batch;
mod bytes;
mod callback_fields;
mod dead_topic;
mod delete_force;
mod document;
mod document_callbacks;
mod document_options;
mod document_topics;
mod document_versions;
mod early;
mod events;
mod extend;
mod forecast;
mod get_delete;
mod gone;
mod hold_batch;
mod housekeeping;
mod idempotency;
mod idempotency_keys;
mod if_match;
mod instances_config;
mod keys;
mod keys_freed;
mod keys_load;
mod lease;
mod lease_from_topics;
mod limits;
mod list_messages;
mod list_pages;
mod long_poll;
mod max_messages;
mod max_payload;
mod max_room;
mod model;
mod nack;
mod nack_options;
mod order;
mod pause;
mod publish;
mod purge;
mod push_config;
mod raw;
mod redrive;
mod redrive_topic;
mod replace;
mod retention;
mod schedule_callback;
mod schedule_input;
mod schedule_ticks;
mod schedules;
mod service;
mod states;
mod storm;
mod tokens;
mod topic_config;
mod topic_delete;
mod topics;
mod ttl;
mod two_instances;
mod update;
mod update_refused;
