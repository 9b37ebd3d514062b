//! Which problem an error of the queue is: the one place where an error gets its status and its code.

use super::{FieldError, Problem};
use crate::error::Error;
use axum::http::StatusCode;
use std::borrow::Cow;

/// The status and the code of an error.
fn words_of(error: &Error) -> (StatusCode, &'static str) {
    match error {
        Error::TopicNotFound => (StatusCode::NOT_FOUND, "topic_not_found"),
        Error::MessageNotFound => (StatusCode::NOT_FOUND, "message_not_found"),
        Error::LeaseLost => (StatusCode::CONFLICT, "lease_lost"),
        Error::MessageLeased => (StatusCode::CONFLICT, "message_leased"),
        Error::MessageDead => (StatusCode::CONFLICT, "message_dead"),
        Error::MessageNotDead => (StatusCode::CONFLICT, "message_not_dead"),
        Error::MessageAcked => (StatusCode::CONFLICT, "message_acked"),
        Error::DuplicateKey => (StatusCode::CONFLICT, "duplicate_key"),
        Error::CallbackUrlMissing => (StatusCode::UNPROCESSABLE_ENTITY, "callback_url_missing"),
        Error::TopicNotPushed => (StatusCode::UNPROCESSABLE_ENTITY, "topic_not_pushed"),
        Error::NothingMasked(_)
        | Error::HeaderReserved(_)
        | Error::HeadersTooLarge(_)
        | Error::TooManySecretHeaders(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_input"),
        Error::SecretRequired(_) => (StatusCode::UNPROCESSABLE_ENTITY, "secret_required"),
        Error::OfMessage(_, error) => words_of(error),
        Error::TopicIsPushed => (StatusCode::CONFLICT, "topic_is_pushed"),
        Error::ScheduleNotFound => (StatusCode::NOT_FOUND, "schedule_not_found"),
        Error::TopicNotEmpty => (StatusCode::CONFLICT, "topic_not_empty"),
        Error::RevisionMismatch => (StatusCode::PRECONDITION_FAILED, "revision_mismatch"),
        Error::PayloadTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large"),
        Error::IdempotencyKeyReused => (StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused"),
        Error::TopicFull => (StatusCode::TOO_MANY_REQUESTS, "topic_full"),
        Error::TopicsExhausted => (StatusCode::INSUFFICIENT_STORAGE, "topics_exhausted"),
        Error::RedisUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "redis_unavailable"),
        Error::OutcomeUnknown => (StatusCode::SERVICE_UNAVAILABLE, "outcome_unknown"),
        Error::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}

/// How an item of a batch ended: `ok`, or the code that a request of its own would have had.
pub(in crate::http) fn outcome_of<T>(outcome: &Result<T, Error>) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(error) => words_of(error).1,
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        if let Error::OfMessage(at, error) = error {
            let mut problem = Self::from(*error);
            for error in &mut problem.errors {
                error.field = format!("messages[{at}].{}", error.field);
            }
            return problem;
        }
        let (status, code) = words_of(&error);
        if let Error::NothingMasked(field)
        | Error::SecretRequired(field)
        | Error::HeaderReserved(field)
        | Error::HeadersTooLarge(field)
        | Error::TooManySecretHeaders(field) = &error
        {
            let reason = Cow::Owned(error.to_string());
            let problem = Self::invalid(vec![FieldError { field: field.clone(), reason }]);
            return match error {
                Error::SecretRequired(_) => problem.named(code, error.to_string()),
                _ => problem,
            };
        }
        let mut problem = Self::new(status, code, error.to_string());
        if matches!(error, Error::CallbackUrlMissing | Error::TopicNotPushed) {
            let reason = Cow::Owned(error.to_string());
            problem.errors = vec![FieldError { field: "callback".to_owned(), reason }];
        }
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            problem.retry_after_s = Some(1);
        }
        problem
    }
}
