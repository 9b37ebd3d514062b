//! What all other parts use: files, TLS, metrics, traces and background tasks.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod background;
pub mod files;
pub mod metrics;
pub mod notify;
pub mod reload;
pub mod remote;
pub mod seeded;
pub mod tls;
pub mod traces;
