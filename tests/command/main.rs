//! The command itself: how it starts, what it refuses, how it stops, and its other subcommands.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod access;
mod audit;
mod descriptors;
mod embedded;
mod people;
mod people_callback;
mod people_new;
mod people_schedules;
mod people_tail;
mod people_tls;
mod private;
mod refusals;
mod settings;
mod stopping;
mod subcommands;
