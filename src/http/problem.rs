//! Every refusal and failure as `application/problem+json` (RFC 9457): the one place where an error gets its status.

mod codes;
mod errors;

pub(super) use codes::CODES;
pub(super) use errors::outcome_of;

use axum::{
    body::Body,
    http::{HeaderValue, Response, StatusCode, header},
    response::IntoResponse,
};
use serde::Serialize;
use std::{borrow::Cow, sync::Arc};
use utoipa::ToSchema;

/// What is wrong with one field of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// Name of the field or query parameter; nested ones with dots.
    #[schema(example = "delay_ms")]
    pub field: String,
    /// What it must be instead.
    #[schema(example = "must be an integer from 0 to 315360000000")]
    pub reason: Cow<'static, str>,
}

/// A refusal, before it is put into words for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: Cow<'static, str>,
    errors: Vec<FieldError>,
    retry_after_s: Option<u32>,
}

/// Why a request was refused or failed (RFC 9457). `code` says what a program can go by. With
/// `topic_full`, `overloaded`, `redis_unavailable` and `outcome_unknown` the header `Retry-After` says after how many seconds to try
/// again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// A URI that names the kind of problem: `urn:dueq:problem:` and the `code`.
    #[serde(rename = "type")]
    #[schema(example = "urn:dueq:problem:lease_lost")]
    pub kind: String,
    /// The HTTP status in words.
    #[schema(example = "Conflict")]
    pub title: String,
    /// The HTTP status of the answer.
    #[schema(example = 409)]
    pub status: u16,
    /// What happened, for people; the words may change.
    pub detail: String,
    /// What happened, for programs: a stable word in snake_case. More may come, so bear one that is not listed here.
    #[schema(example = "lease_lost")]
    pub code: String,
    /// The request's id, also in the `x-request-id` header and in the server's log.
    pub request_id: String,
    /// What is wrong with which field, at most 64 of them; only for bad input (`invalid_input` and the like).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub errors: Vec<FieldError>,
}

impl Problem {
    /// A problem with this status, code and explanation.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, code, detail: detail.into(), errors: Vec::new(), retry_after_s: None }
    }

    /// Well-formed input that is not allowed (422), field by field.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let mut problem = Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "invalid_input",
            "the request is well-formed, but some of it is not allowed; see `errors`",
        );
        problem.errors = errors;
        problem
    }

    /// The same problem under a code of its own.
    pub fn named(mut self, code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        (self.code, self.detail) = (code, detail.into());
        self
    }

    /// With a header that says after how many seconds to try again.
    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after_s: Some(seconds), ..self }
    }

    /// Input that cannot be parsed (400).
    pub fn malformed(code: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// A problem for an answer that something below the routes made, by its status.
    pub fn of_status(status: StatusCode) -> Self {
        let (code, detail) = match status {
            StatusCode::NOT_FOUND => ("route_not_found", "there is no such route"),
            StatusCode::METHOD_NOT_ALLOWED => {
                ("method_not_allowed", "this route does not take this method; see the Allow header")
            }
            StatusCode::INTERNAL_SERVER_ERROR => ("internal", "an internal error; it was logged"),
            _ => ("refused", "the request was refused"),
        };
        Self::new(status, code, detail)
    }

    /// The body for the client.
    pub fn body(&self, request_id: &str) -> ProblemBody {
        ProblemBody {
            kind: format!("urn:dueq:problem:{}", self.code),
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            detail: self.detail.to_string(),
            code: self.code.to_owned(),
            request_id: request_id.to_owned(),
            errors: self.errors.clone(),
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
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// The problems that an operation documents: the statuses with what each means there.
macro_rules! problem_responses {
    ($(#[$doc:meta])* $name:ident: $($status:literal $description:literal),* $(,)?) => {
        $(#[$doc])*
        pub struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<
                String,
                utoipa::openapi::RefOr<utoipa::openapi::response::Response>,
            > {
                [$(($status.to_string(), $crate::http::problem::documented($description))),*].into()
            }
        }
    };
}

pub(super) use problem_responses;

/// A documented problem response.
pub(crate) fn documented(
    description: &str,
) -> utoipa::openapi::RefOr<utoipa::openapi::response::Response> {
    use utoipa::openapi::{ContentBuilder, Ref, ResponseBuilder};
    let schema = Ref::from_schema_name("Problem");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new()
        .description(description)
        .content("application/problem+json", content)
        .build()
        .into()
}

problem_responses! {
    /// What every route can answer.
    CommonProblems:
    400 "`malformed_path`, `invalid_message_id`, `invalid_topic_name`, `invalid_schedule_name`, `invalid_key`: the path \
        cannot be parsed",
    401 "`unauthorized`: dueq has API keys, and the request has none of them",
    403 "`host_not_allowed`: dueq has no API keys, and Host or Origin is neither loopback nor allowed",
    405 "`method_not_allowed`: the route does not take this method",
    414 "`uri_too_long`: the URI is longer than 8 KiB",
    422 "`invalid_input`: an unknown or repeated query parameter, or a value that is not allowed",
    431 "`headers_too_large`: a hundred headers or more, or more than 16 KiB of them",
    500 "`internal`: a defect of dueq; logged with the request's id",
}

problem_responses! {
    /// What routes can answer that ask Redis.
    RedisProblems:
    503 "`redis_unavailable`: nothing happened; `outcome_unknown`: it may have happened; `overloaded`: requests and \
        answers in flight take all the memory that they may, and nothing happened",
}

problem_responses! {
    /// What routes can answer that read a body.
    BodyProblems:
    400 "`malformed_json`, `malformed_body`: the body cannot be parsed; `malformed_path`, `invalid_message_id`, \
        `invalid_topic_name`, `invalid_schedule_name`, `invalid_key`: the path cannot",
    408 "`request_timeout`: the body was not sent in time",
    413 "`body_too_large`: the body is larger than the server takes",
    415 "`unsupported_media_type`: the body's media type is not the one wanted here, or none is given",
    422 "`invalid_input`: an unknown or repeated field or query parameter, or a value that is not allowed",
}

problem_responses! {
    /// What publishing can answer. To stand behind `CommonProblems` and `BodyProblems`, whose 403, 413 and 422 it repeats.
    PublishProblems:
    403 "`topic_reserved`: the topic is dueq's own; `host_not_allowed`: dueq has no API keys, and Host or Origin is \
        neither loopback nor allowed",
    409 "`duplicate_key`: another message has the key; `message_leased`: it is leased, so it cannot be replaced",
    413 "`payload_too_large`: the payload is larger than the topic's `max_payload_bytes`; `body_too_large`: the body is \
        larger than the server takes",
    422 "`invalid_input`: an unknown or repeated field or query parameter, or a value that is not allowed; \
        `idempotency_key_reused`: the key came with another message before; `callback_url_missing`, \
        `topic_not_pushed`, `callback_address_refused`: it would be sent to nowhere, or to where dueq may not",
    429 "`topic_full`: the topic holds as many messages as it may",
    507 "`topics_exhausted`: no more topics can be made in this Redis",
}

problem_responses! {
    /// What publishing many messages at once can answer. To stand behind `CommonProblems` and `BodyProblems`.
    PublishBatchProblems:
    403 "`topic_reserved`: the topic is dueq's own; `host_not_allowed`: dueq has no API keys, and Host or Origin is \
        neither loopback nor allowed",
    413 "`payload_too_large`: a payload is larger than the topic's `max_payload_bytes`; `body_too_large`: the body is \
        larger than the server takes",
    422 "`invalid_input`: an unknown or repeated field or query parameter, or a value that is not allowed; `callback_url_missing`, \
        `topic_not_pushed`, `callback_address_refused`: a message would be sent to nowhere, or to where dueq may not",
    507 "`topics_exhausted`: no more topics can be made in this Redis",
}

problem_responses! {
    /// What routes of one message can answer.
    MessageProblems:
    404 "`message_not_found`: there is no such message",
}

problem_responses! {
    /// What routes of one message by its key can answer.
    KeyProblems:
    404 "`topic_not_found`: there is no such topic; `message_not_found`: no live message has the key",
}

problem_responses! {
    /// What deleting a message can answer.
    DeleteProblems:
    409 "`message_leased`: somebody holds it",
}

problem_responses! {
    /// What changing a message can answer. To stand behind `BodyProblems`, whose 422 it repeats.
    UpdateProblems:
    409 "`message_leased`: somebody holds it; `message_dead`: a dead one has no due time; \
        `message_acked`: it is only kept to be looked at",
    413 "`payload_too_large`: the payload is larger than the topic's `max_payload_bytes`; `body_too_large`: the body is \
        larger than the server takes",
    422 "`invalid_input`: an unknown or repeated field or query parameter, or a value that is not allowed; `callback_url_missing`, \
        `topic_not_pushed`, `callback_address_refused`: it would be sent to nowhere, or to where dueq may not; \
        `secret_required`: a secret that is stored belongs to another origin than the message goes to now",
}

problem_responses! {
    /// What making a dead message live again can answer.
    RedriveProblems:
    409 "`message_not_dead`: it is not dead; `duplicate_key`: a live message has its key",
}

problem_responses! {
    /// What routes can answer that need a lease.
    LeaseProblems:
    404 "`message_not_found`: there is no such message",
    409 "`lease_lost`: the token is stale, expired or forged; nothing changed",
}

problem_responses! {
    /// What routes of one topic can answer.
    TopicProblems:
    404 "`topic_not_found`: there is no such topic",
}

problem_responses! {
    /// What routes can answer that configure a topic. To stand behind `BodyProblems`, whose 422 it repeats.
    ConfigProblems:
    403 "`topic_reserved`: the topic is dueq's own; `host_not_allowed`: dueq has no API keys, and Host or Origin is \
        neither loopback nor allowed",
    412 "`revision_mismatch`: the topic has none of the revisions of If-Match, or there is no such topic",
    422 "`invalid_input`: an unknown or repeated field or query parameter, or a value that is not allowed; \
        `callback_address_refused`: dueq may not call this address; \
        `secret_required`: a secret that is stored belongs to another origin than `push.url` has now",
}

problem_responses! {
    /// What deleting a topic can answer.
    DeleteTopicProblems:
    403 "`topic_reserved`: the topic is dueq's own; `host_not_allowed`: dueq has no API keys, and Host or Origin is \
        neither loopback nor allowed",
    409 "`topic_not_empty`: there are messages in the topic",
}

problem_responses! {
    /// What making a topic can answer.
    NewTopicProblems:
    507 "`topics_exhausted`: no more topics can be made in this Redis",
}
