//! The command itself: how it starts, what it refuses, how it stops, and its other subcommands.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod access;
mod apply;
mod audit;
mod backup;
mod bench;
mod chart;
mod client;
mod client_callback;
mod client_messages;
mod client_new;
mod client_schedules;
mod client_search;
mod client_tail;
mod client_tls;
mod client_top;
mod client_update;
mod cluster;
mod dashboard;
mod descriptors;
mod dev;
mod docs;
mod embedded;
mod keys;
mod loading;
mod mcp;
mod moving;
mod observability;
mod operator;
mod private;
mod redis_tls;
mod refusals;
mod secret_files;
mod sentinel;
mod settings;
mod sqs;
mod stopping;
mod subcommands;
mod systemd;
mod threads;
