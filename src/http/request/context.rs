//! What most handlers work with besides what their route takes from the request.

use crate::{AppState, access::Caller, problem::Problem};
use axum::{extract::FromRequestParts, http::request::Parts, response::Response};
use dueq_store::Round;
use std::ops::Deref;

/// What a handler answers.
pub type Answer = Result<Response, Problem>;

/// The shared state, which it dereferences to, and who sent the request.
pub struct Context {
    state: AppState,
    /// Who sent the request, and what they may do.
    pub caller: Caller,
}

impl Deref for Context {
    type Target = AppState;

    fn deref(&self) -> &AppState {
        &self.state
    }
}

impl Context {
    /// The request as one that makes many calls, in turn with those of other keys.
    pub fn round(&self) -> Round {
        self.store.round(self.caller.name())
    }
}

impl FromRequestParts<AppState> for Context {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        Ok(Self { state: state.clone(), caller: Caller::of(parts)?.clone() })
    }
}
