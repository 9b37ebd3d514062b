//! dueq: a delay queue over HTTP on Redis.
//!
//! Modules import in one direction:
//! `seeded ← model ← error ← background ← metrics ← store ← longpoll ← {http, loops} ← app ← cli ← main`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod app;
pub mod background;
pub mod cli;
pub mod config;
pub mod error;
pub mod http;
pub mod longpoll;
pub mod loops;
pub mod metrics;
pub mod model;
mod seeded;
pub mod store;
