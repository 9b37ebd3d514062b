//! Every refusal and failure as `application/problem+json` (RFC 9457): the one place where an error gets its status.

mod codes;

pub(crate) use codes::*;

use crate::{input::fields::MAX_ERRORS, openapi::answer::Written};
use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Response, StatusCode, header},
    response::IntoResponse,
};
use dueq_model::{Instant, MessageId, Millis, TopicName, error::Error};
use serde::Serialize;
use std::{borrow::Cow, sync::Arc};
use utoipa::ToSchema;

/// What is wrong with one field of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// Name of the field or query parameter. Nested names are joined with dots. `(body)`: the body as a whole.
    #[schema(example = "delay_ms")]
    pub field: String,
    /// What is wrong with it.
    #[schema(example = "must be an integer from 0 to 315360000000")]
    pub reason: Cow<'static, str>,
}

/// A refusal, before it is put into words for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    code: Code,
    detail: Cow<'static, str>,
    errors: Vec<FieldError>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The topic of a message that is not there, and when it was published, ms.
    gone: Option<Box<(TopicName, Millis)>>,
}

/// Why a request was refused or failed (RFC 9457). Programs should look at `code`. With `topic_full`, `rate_limited`,
/// `too_many_topics`, `too_many_messages`, `too_many_bytes`, `too_many_attempts`, `overloaded`, `upgrade_pending`, `redis_unavailable` and `outcome_unknown`, the header `Retry-After` gives the
/// seconds to wait.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// A URI for the kind of problem: `urn:dueq:problem:` and the `code`.
    #[serde(rename = "type")]
    #[schema(example = "urn:dueq:problem:lease_lost")]
    pub kind: String,
    /// The reason phrase of the HTTP status.
    #[schema(example = "Conflict")]
    pub title: String,
    /// The HTTP status of the answer.
    #[schema(example = 409)]
    pub status: u16,
    /// What happened, for people: for bad input, the first of `errors`. The wording may change.
    pub detail: String,
    /// What happened, for programs: a stable word in snake_case. More may come, so tolerate one that is not listed here.
    #[schema(example = "lease_lost")]
    pub code: String,
    /// The request's id, also in the `x-request-id` header and in the server's log.
    pub request_id: String,
    /// The wrong fields, at most 64. Only for bad input (`invalid_input` and similar).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub errors: Vec<FieldError>,
    /// The topic that the id is of. Only with `message_not_found`, if the API key may read the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "orders")]
    pub topic: Option<String>,
    /// When a message with this id was published, RFC 3339 in UTC with ms, if there was one. With `topic`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, format = DateTime)]
    pub published_at: Option<String>,
}

impl Written for ProblemBody {
    fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        serde_json::to_writer(out, self)
    }
}

impl Problem {
    /// A problem with this code and explanation.
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        let (status, detail) = (code.status(), detail.into());
        Self { status, code, detail, errors: Vec::new(), headers: Vec::new(), gone: None }
    }

    /// Well-formed input that is not allowed (422), field by field. A field without a name is the body as a whole.
    pub fn invalid(mut errors: Vec<FieldError>) -> Self {
        for error in errors.iter_mut().filter(|error| error.field.is_empty()) {
            error.field.push_str("(body)");
        }
        Self { errors, ..Self::new(Code::InvalidInput, "") }
    }

    /// The same problem under a code of its own.
    pub fn named(self, code: Code) -> Self {
        Self { errors: self.errors, ..Self::new(code, self.detail) }
    }

    /// With a header that says after how many seconds to try again.
    pub fn retry_after(self, seconds: u32) -> Self {
        self.header(header::RETRY_AFTER, seconds.into())
    }

    /// With this header.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// There is no message of this id, which is of this topic. For a caller who may read the topic.
    pub fn gone(topic: &TopicName, id: &MessageId) -> Self {
        let detail = "no such message is held any more: it was acknowledged, deleted or purged, or it expired, which \
            is not known, or there never was one";
        let gone = Some(Box::new((topic.clone(), id.published())));
        Self { gone, ..Self::new(Code::MessageNotFound, detail) }
    }

    /// A problem for an answer that something below the routes made, by its status.
    pub fn of_status(status: StatusCode) -> Self {
        let (code, detail) = match status {
            StatusCode::NOT_FOUND => (Code::RouteNotFound, "there is no such route"),
            StatusCode::METHOD_NOT_ALLOWED => (
                Code::MethodNotAllowed,
                "this route does not take this method; see the Allow header",
            ),
            StatusCode::INTERNAL_SERVER_ERROR => {
                (Code::Internal, "an internal error; it was logged")
            }
            _ => (Code::Refused, "the request was refused"),
        };
        Self { status, ..Self::new(code, detail) }
    }

    /// What happened, for people: the first field that is wrong, if one is, and how many more are.
    fn detail(&self) -> String {
        let Some((FieldError { field, reason }, others)) = self.errors.split_first() else {
            return self.detail.to_string();
        };
        match others.len() {
            0 => format!("{field}: {reason}"),
            more if more + 1 >= MAX_ERRORS => {
                format!("{field}: {reason}; and at least {more} more")
            }
            more => format!("{field}: {reason}; and {more} more"),
        }
    }

    /// The body for the client.
    pub fn body(&self, request_id: &str) -> ProblemBody {
        ProblemBody {
            kind: format!("urn:dueq:problem:{}", self.code.word()),
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            detail: self.detail(),
            code: self.code.word().to_owned(),
            request_id: request_id.to_owned(),
            errors: self.errors.clone(),
            topic: self.gone.as_ref().map(|gone| gone.0.to_string()),
            published_at: self
                .gone
                .as_ref()
                .map(|gone| String::from_utf8_lossy(&Instant(gone.1).text()).into_owned()),
        }
    }
}

impl IntoResponse for Problem {
    /// Leaves the body to the guard around all routes, which knows the request's id.
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        // Every 401 says how to do better (RFC 9110, 15.5.2).
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        response.headers_mut().extend(self.headers.iter().cloned());
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// The code of an error: mostly that of the same name.
fn code_of(error: &Error) -> Code {
    macro_rules! named {
        ($($Same:ident)*) => {
            match error {
                $(Error::$Same { .. } => Code::$Same,)*
                Error::OfMessage(_, error) => code_of(error),
                Error::NothingMasked(_)
                | Error::HeaderReserved(_)
                | Error::HeadersTooLarge(_)
                | Error::BadSetting(..)
                | Error::TooManySecretHeaders(_) => Code::InvalidInput,
            }
        };
    }
    named! {
        TopicNotFound MessageNotFound ScheduleNotFound CallbackHostNotFound LeaseLost NotAllowed MessageLeased
        MessageDead MessageNotDead MessageAcked DuplicateKey CallbackUrlMissing TopicNotPushed TopicIsPushed
        SecretRequired TopicNotEmpty TooManyPausedHosts TooManyGroups NamesInUse RevisionMismatch PayloadTooLarge
        IdempotencyKeyReused GroupChanged TopicFull DurabilityUnavailable TopicsExhausted TooManyTopics
        UpgradePending RedisUnavailable OutcomeUnknown Internal
    }
}

/// How an item of a batch ended: `ok`, or the code that a request of its own would have had.
pub fn outcome_of<T>(outcome: &Result<T, Error>) -> &'static str {
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
        let field = match &error {
            Error::NothingMasked(field)
            | Error::SecretRequired(field)
            | Error::HeaderReserved(field)
            | Error::HeadersTooLarge(field)
            | Error::TooManySecretHeaders(field) => Some(field.as_str()),
            Error::BadSetting(field, _) => Some(*field),
            Error::DurabilityUnavailable => Some("durability"),
            Error::CallbackUrlMissing | Error::TopicNotPushed => Some("callback"),
            _ => None,
        };
        if let Some(field) = field {
            let (field, reason) = (field.to_owned(), Cow::Owned(error.to_string()));
            return Self::invalid(vec![FieldError { field, reason }]).named(code);
        }
        let mut problem = Self::new(code, error.to_string());
        if matches!(problem.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS)
        {
            problem = problem.retry_after(1);
        }
        problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_counts_the_other_errors_as_far_as_they_are_known() {
        let error = FieldError { field: "a".to_owned(), reason: "bad".into() };
        for (count, detail) in
            [(1, "a: bad"), (3, "a: bad; and 2 more"), (MAX_ERRORS, "a: bad; and at least 63 more")]
        {
            assert_eq!(Problem::invalid(vec![error.clone(); count]).detail(), detail);
        }
    }
}
