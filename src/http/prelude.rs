//! What the files of routes have in common.

pub(super) use super::{
    AppState,
    access::{Caller, Verb},
    guard::trace::Trace,
    input::*,
    json,
    messages::fields::*,
    openapi::answer::answer,
    problem::*,
    request::{
        context::{Answer, Context},
        cursor::{Cursor, open_cursor},
        extract::*,
        path::*,
    },
    topics::backoff::BackoffRequest,
};
pub(super) use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
pub(super) use dueq_model::{Instant, error::Error};
pub(super) use serde_json::json;
