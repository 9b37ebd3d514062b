//! What the files of routes have in common.

pub(super) use super::{
    AppState,
    access::{Caller, Verb},
    answer::answer,
    backoff::BackoffRequest,
    cursor::{Cursor, open_cursor},
    extract::*,
    input::*,
    json,
    message_fields::*,
    path::*,
    problem::*,
    trace::Trace,
};
pub(super) use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
pub(super) use dueq_model::{Instant, error::Error};
pub(super) use serde_json::json;
