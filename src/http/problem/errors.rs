//! Which problem an error of the queue is: the one place where an error gets its status and its code.

use super::{Code, FieldError, Problem};
use crate::error::Error;
use axum::http::StatusCode;
use std::borrow::Cow;

/// The code of an error.
fn code_of(error: &Error) -> Code {
    match error {
        Error::TopicNotFound => Code::TopicNotFound,
        Error::MessageNotFound => Code::MessageNotFound,
        Error::LeaseLost => Code::LeaseLost,
        Error::MessageLeased => Code::MessageLeased,
        Error::MessageDead => Code::MessageDead,
        Error::MessageNotDead => Code::MessageNotDead,
        Error::MessageAcked => Code::MessageAcked,
        Error::DuplicateKey => Code::DuplicateKey,
        Error::CallbackUrlMissing => Code::CallbackUrlMissing,
        Error::TopicNotPushed => Code::TopicNotPushed,
        Error::NothingMasked(_)
        | Error::HeaderReserved(_)
        | Error::HeadersTooLarge(_)
        | Error::TooManySecretHeaders(_) => Code::InvalidInput,
        Error::SecretRequired(_) => Code::SecretRequired,
        Error::OfMessage(_, error) => code_of(error),
        Error::TopicIsPushed => Code::TopicIsPushed,
        Error::ScheduleNotFound => Code::ScheduleNotFound,
        Error::TopicNotEmpty => Code::TopicNotEmpty,
        Error::RevisionMismatch => Code::RevisionMismatch,
        Error::PayloadTooLarge(_) => Code::PayloadTooLarge,
        Error::IdempotencyKeyReused => Code::IdempotencyKeyReused,
        Error::TopicFull => Code::TopicFull,
        Error::TopicsExhausted => Code::TopicsExhausted,
        Error::RedisUnavailable => Code::RedisUnavailable,
        Error::OutcomeUnknown => Code::OutcomeUnknown,
        Error::Internal => Code::Internal,
    }
}

/// How an item of a batch ended: `ok`, or the code that a request of its own would have had.
pub(in crate::http) fn outcome_of<T>(outcome: &Result<T, Error>) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(error) => code_of(error).word(),
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
        let code = code_of(&error);
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
        let mut problem = Self::new(code, error.to_string());
        if matches!(error, Error::CallbackUrlMissing | Error::TopicNotPushed) {
            let reason = Cow::Owned(error.to_string());
            problem.errors = vec![FieldError { field: "callback".to_owned(), reason }];
        }
        if matches!(problem.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS)
        {
            problem.retry_after_s = Some(1);
        }
        problem
    }
}
