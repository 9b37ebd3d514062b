//! Errors as SQS has them: a status, a type, the older code that SDKs name their exceptions by, and a message. What dueq
//! itself refuses gets the error that a client of SQS expects.

use super::super::problem::{Code, Problem, ProblemBody};
use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Response, StatusCode, header},
    response::IntoResponse,
};
use dueq_model::error::Error;
use serde_json::json;
use std::{borrow::Cow, sync::Arc};

/// Characters of a message, at most.
const MAX_MESSAGE: usize = 2_048;
/// The code of the query protocol and who is to blame, with a semicolon between them.
pub const QUERY_ERROR: HeaderName = HeaderName::from_static("x-amzn-query-error");
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

macro_rules! kinds {
    ($($status:literal $Kind:ident $shape:literal $code:literal;)*) => {
        /// A kind of error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($Kind,)*
        }

        impl Kind {
            /// The status, the type, and the code of the older protocol.
            fn parts(self) -> (u16, &'static str, &'static str) {
                match self {
                    $(Self::$Kind => ($status, $shape, $code),)*
                }
            }

            /// Refuses what was asked for.
            pub fn refuse<T>(self, message: impl Into<Cow<'static, str>>) -> Result<T, Fault> {
                Err(Fault::new(self, message))
            }
        }
    };
}

kinds! {
    403 AccessDenied "AccessDeniedException" "AccessDenied";
    400 BatchEntryIdsNotDistinct "BatchEntryIdsNotDistinct" "AWS.SimpleQueueService.BatchEntryIdsNotDistinct";
    400 BatchRequestTooLong "BatchRequestTooLong" "AWS.SimpleQueueService.BatchRequestTooLong";
    400 EmptyBatchRequest "EmptyBatchRequest" "AWS.SimpleQueueService.EmptyBatchRequest";
    500 InternalError "InternalFailure" "InternalError";
    400 InvalidAction "UnknownOperationException" "InvalidAction";
    400 InvalidAttributeName "InvalidAttributeName" "InvalidAttributeName";
    400 InvalidAttributeValue "InvalidAttributeValue" "InvalidAttributeValue";
    400 InvalidBatchEntryId "InvalidBatchEntryId" "AWS.SimpleQueueService.InvalidBatchEntryId";
    403 InvalidClientTokenId "UnrecognizedClientException" "InvalidClientTokenId";
    400 InvalidMessageContents "InvalidMessageContents" "InvalidMessageContents";
    400 InvalidParameterValue "InvalidParameterValueException" "InvalidParameterValue";
    400 MissingParameter "MissingRequiredParameterException" "MissingParameter";
    403 OverLimit "OverLimit" "OverLimit";
    403 PurgeQueueInProgress "PurgeQueueInProgress" "AWS.SimpleQueueService.PurgeQueueInProgress";
    400 QueueDeletedRecently "QueueDeletedRecently" "AWS.SimpleQueueService.QueueDeletedRecently";
    400 QueueDoesNotExist "QueueDoesNotExist" "AWS.SimpleQueueService.NonExistentQueue";
    400 QueueNameExists "QueueNameExists" "QueueAlreadyExists";
    400 ReceiptHandleIsInvalid "ReceiptHandleIsInvalid" "ReceiptHandleIsInvalid";
    429 RequestThrottled "RequestThrottled" "RequestThrottled";
    404 ResourceNotFound "ResourceNotFoundException" "ResourceNotFoundException";
    400 Serialization "SerializationException" "SerializationException";
    503 ServiceUnavailable "ServiceUnavailable" "ServiceUnavailable";
    400 TooManyEntriesInBatchRequest "TooManyEntriesInBatchRequest"
        "AWS.SimpleQueueService.TooManyEntriesInBatchRequest";
    400 UnsupportedOperation "UnsupportedOperation" "AWS.SimpleQueueService.UnsupportedOperation";
    400 ValidationError "ValidationException" "ValidationError";
}

/// A refusal or a failure.
#[derive(Clone, Debug)]
pub struct Fault {
    kind: Kind,
    message: Cow<'static, str>,
    /// dueq's own refusal, which the log and the metrics name.
    problem: Option<Problem>,
}

impl Fault {
    /// An error of this kind.
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        let mut message = message.into();
        // It may quote what was sent.
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE) {
            message.to_mut().truncate(end);
        }
        Self { kind, message, problem: None }
    }

    /// A parameter has a wrong value.
    pub fn bad(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::InvalidParameterValue, message)
    }

    /// There is no such queue.
    pub fn no_queue() -> Self {
        Self::new(Kind::QueueDoesNotExist, "The specified queue does not exist.")
    }

    /// A parameter is missing.
    pub fn missing(name: &str) -> Self {
        let message = format!("The request must contain the parameter {name}.");
        Self::new(Kind::MissingParameter, message)
    }

    /// The same, in AWS's words.
    pub fn invalid(value: impl std::fmt::Display, name: &str, reason: &str) -> Self {
        let message = format!("Value {value} for parameter {name} is invalid. Reason: {reason}");
        Self::bad(message)
    }

    /// Code, message and whether the sender is to blame, for one entry of a batch.
    pub fn entry(&self) -> (&'static str, &str, bool) {
        let (status, _, code) = self.kind.parts();
        (code.rsplit('.').next().unwrap_or(code), &self.message, status < 500)
    }

    /// The error of a problem that some other layer made.
    fn of(problem: &ProblemBody) -> Self {
        let kind = match (problem.code.as_str(), problem.status) {
            ("unauthorized" | "too_many_attempts", _) => Kind::InvalidClientTokenId,
            ("body_too_large" | "malformed_body", _) => Kind::Serialization,
            (_, 403) => Kind::AccessDenied,
            (_, 429) => Kind::RequestThrottled,
            (_, 503) => Kind::ServiceUnavailable,
            (_, 400..500) => Kind::ValidationError,
            _ => Kind::InternalError,
        };
        Self::new(kind, problem.detail.clone())
    }

    fn write(&self, response: &mut Response<Body>) {
        let (status, shape, code) = self.kind.parts();
        let blame = if status < 500 { "Sender" } else { "Receiver" };
        let body = json!({"__type": format!("com.amazonaws.sqs#{shape}"), "message": self.message});
        let body = body.to_string();
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, super::JSON);
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        if let Ok(code) = HeaderValue::try_from(format!("{code};{blame}")) {
            headers.insert(QUERY_ERROR, code);
        }
        *response.body_mut() = Body::from(body);
    }
}

/// Gives an answer the form that clients of SQS expect: `problem` is what the guard wrote of an error.
pub fn finish(response: &mut Response<Body>, problem: Option<&ProblemBody>, id: &HeaderValue) {
    let fault = response.extensions_mut().remove::<Arc<Fault>>();
    match (fault, problem) {
        (Some(fault), _) => fault.write(response),
        (None, Some(problem)) => Fault::of(problem).write(response),
        (None, None) => {}
    }
    response.headers_mut().insert(REQUEST_ID, id.clone());
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        let body = problem.body("");
        Self { problem: Some(problem), ..Self::of(&body) }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let message = match &error {
            Error::BadSetting(setting, reason) => format!("{setting} {reason}"),
            error => error.to_string(),
        };
        let kind = match &error {
            Error::TopicNotFound => return Self::no_queue(),
            Error::TopicIsPushed | Error::CallbackUrlMissing => Kind::UnsupportedOperation,
            Error::PayloadTooLarge(_)
            | Error::BadSetting(..)
            | Error::HeaderReserved(_)
            | Error::NamesInUse(_) => Kind::InvalidParameterValue,
            _ => return Problem::from(error).into(),
        };
        Self::new(kind, message)
    }
}

impl IntoResponse for Fault {
    /// Leaves the body to [`finish`], after the guard has logged what happened.
    fn into_response(mut self) -> Response<Body> {
        let (status, ..) = self.kind.parts();
        let problem = self.problem.take();
        let problem = problem.unwrap_or_else(|| Problem::new(Code::Refused, self.message.clone()));
        let mut response = problem.into_response();
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}
