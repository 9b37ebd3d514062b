//! What most handlers work with besides what their route takes from the request.

use crate::{
    AppState,
    access::{Caller, Verb},
    problem::Problem,
};
use axum::{extract::FromRequestParts, http::request::Parts, response::Response};
use dueq_model::{MessageId, error::Error};
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

    /// What came of a request about the message of this id. That there is no such message says more to a caller who may read the
    /// topic that the id is of.
    pub async fn of_message<T>(
        &self,
        id: &MessageId,
        outcome: Result<T, Error>,
    ) -> Result<T, Problem> {
        if let Err(Error::MessageNotFound) = outcome
            && let Ok(partition) = self.store.partition_of(*id).await
            && self.caller.check_verb(Verb::Read, &partition.topic.name).is_ok()
        {
            return Err(Problem::gone(&partition.topic.name, id));
        }
        Ok(outcome?)
    }
}

impl FromRequestParts<AppState> for Context {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        Ok(Self { state: state.clone(), caller: Caller::of(parts)?.clone() })
    }
}
