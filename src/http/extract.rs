//! What handlers take from a request: a checked path, the query, the body. Whatever cannot be taken leaves as a
//! [`Problem`], like every other refusal.

use super::{
    AppState,
    budget::{self, Hold},
    connections::Life,
    fields::Fields,
    problem::Problem,
};
use crate::model::{InvalidScheduleName, MAX_KEY_CHARS, MessageId, ScheduleName, TopicName};
use crate::store::Which;
use axum::{
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use bytes::Bytes;
use std::{borrow::Cow, sync::Arc, time::Duration};

/// How long a client may take to send a body, or a good piece of it.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);

/// How the document describes the `{topic}` of a path.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
#[allow(dead_code, reason = "describes the path; it is read by `TopicPath`")]
pub struct TopicParams {
    /// Name of the topic: letters, digits, `.`, `_` and `-`, without `..`, 1 to 128 characters
    #[param(
        example = "orders",
        max_length = 128,
        pattern = r"^[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\.?$"
    )]
    topic: String,
}

/// The `{topic}` of the path.
pub struct TopicPath(pub TopicName);

/// How the document describes the `{name}` of a path.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
#[allow(dead_code, reason = "describes the path; it is read by `SchedulePath`")]
pub struct ScheduleParams {
    /// Name of the schedule: letters, digits, `.`, `_` and `-`, without `..`, 1 to 128 characters
    #[param(
        example = "daily-report",
        max_length = 128,
        pattern = r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\.?$"
    )]
    name: String,
}

/// The `{name}` of a schedule in the path.
pub struct SchedulePath(pub ScheduleName);

/// The `{id}` of the path.
pub struct IdPath(pub MessageId);

/// How the document describes the `{topic}` and the `{key}` of a path.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
#[allow(dead_code, reason = "describes the path; it is read by `KeyPath`")]
pub struct KeyParams {
    /// Name of the topic: letters, digits, `.`, `_` and `-`, without `..`, 1 to 128 characters
    #[param(
        example = "orders",
        max_length = 128,
        pattern = r"^[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\.?$"
    )]
    topic: String,
    /// Key of the message, 1 to 255 characters; in the URL percent-encoded, as generated clients do by themselves
    #[param(example = "order-42", min_length = 1, max_length = 255)]
    key: String,
}

/// The live message that has the `{key}` of the path in its `{topic}`.
pub struct KeyPath(pub Which);

/// The query's parameters, decoded.
pub struct Query(Vec<(String, String)>);

/// A request's headers and body, the body read whole within the limits.
pub struct Payload {
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub bytes: Bytes,
    /// The connection that it came by.
    pub(super) life: Option<Arc<Life>>,
    /// Counts the body for as long as the request is worked on.
    pub(super) _hold: Hold,
}

impl FromRequestParts<AppState> for TopicPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let text = segment(parts, state).await?;
        let name = TopicName::parse(&text);
        name.map(Self).map_err(|error| Problem::malformed("invalid_topic_name", error.to_string()))
    }
}

impl FromRequestParts<AppState> for SchedulePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let text = segment(parts, state).await?;
        let invalid = |error: InvalidScheduleName| {
            Problem::malformed("invalid_schedule_name", error.to_string())
        };
        ScheduleName::parse(&text).map(Self).map_err(invalid)
    }
}

impl FromRequestParts<AppState> for IdPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let text = segment(parts, state).await?;
        let id = MessageId::parse(&text);
        id.map(Self).map_err(|error| Problem::malformed("invalid_message_id", error.to_string()))
    }
}

/// The `{topic}` of the path, one that users may publish to and configure.
pub struct PublicTopic(pub TopicName);

impl FromRequestParts<AppState> for PublicTopic {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let TopicPath(topic) = TopicPath::from_request_parts(parts, state).await?;
        if topic.is_reserved() { Err(Problem::topic_reserved(OWN)) } else { Ok(Self(topic)) }
    }
}

/// The `{topic}` of the path, one whose configuration users may change.
pub struct ChangeableTopic(pub TopicName);

impl FromRequestParts<AppState> for ChangeableTopic {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let TopicPath(topic) = TopicPath::from_request_parts(parts, state).await?;
        let reserved = topic.is_reserved() && !topic.is_callbacks();
        if reserved { Err(Problem::topic_reserved(OWN)) } else { Ok(Self(topic)) }
    }
}

/// Why they are not for users.
const OWN: &str = "topics whose names begin with _ are dueq's own";

impl Problem {
    /// 403 for what is dueq's own to do.
    pub(super) fn topic_reserved(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "topic_reserved", detail)
    }
}

impl FromRequestParts<AppState> for KeyPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((topic, key)) = path.map_err(|_| malformed_path())?;
        let topic = TopicName::parse(&topic)
            .map_err(|error| Problem::malformed("invalid_topic_name", error.to_string()))?;
        if !(1..=MAX_KEY_CHARS).contains(&key.chars().count()) {
            let detail = format!("a key has 1 to {MAX_KEY_CHARS} characters");
            return Err(Problem::malformed("invalid_key", detail));
        }
        Ok(Self(Which::Key(topic, key)))
    }
}

/// The one variable segment of the path, percent-decoded.
async fn segment(parts: &mut Parts, state: &AppState) -> Result<String, Problem> {
    let path = Path::<String>::from_request_parts(parts, state).await;
    path.map(|Path(text)| text).map_err(|_| malformed_path())
}

fn malformed_path() -> Problem {
    Problem::malformed("malformed_path", "the path is no UTF-8 once it is decoded")
}

impl Query {
    /// The parameters, to be taken one by one.
    pub fn fields(&self) -> Fields<'_> {
        Fields::of_query(&self.0)
    }

    /// For routes that take none. Errors: 422 where there is one.
    pub fn none(&self) -> Result<(), Problem> {
        if self.0.is_empty() { Ok(()) } else { self.fields().finish() }
    }
}

impl FromRequestParts<AppState> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        if query.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let pairs = form_urlencoded::parse(query.as_bytes());
        Ok(Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()))
    }
}

impl FromRequest<AppState> for Payload {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let limit = state.max_body_bytes;
        let length = parts.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        let mut hold = state.budget.hold();
        let life = parts.extensions.get::<Arc<Life>>();
        life.inspect(|life| life.waits());
        let read = match length {
            Some(length) if length > limit => Err(budget::too_large(limit)),
            _ => budget::read(body, limit, length, BODY_TIMEOUT, &mut hold).await,
        };
        let bytes = read?;
        life.inspect(|life| life.has_read_body());
        let life = life.cloned();
        Ok(Self { headers: parts.headers, bytes, life, _hold: hold })
    }
}

impl Payload {
    /// The body's fields. Errors: 415 where it is not said to be JSON, 400 where it is none.
    pub fn json(&self) -> Result<Fields<'_>, Problem> {
        if !self.bytes.is_empty() || self.headers.contains_key(header::CONTENT_TYPE) {
            self.want_json()?;
        }
        Fields::of_json(&self.bytes)
    }

    /// As [`Payload::json`], for routes whose body may be left out.
    pub fn json_or_none(&self) -> Result<Fields<'_>, Problem> {
        if self.headers.contains_key(header::CONTENT_TYPE) {
            self.want_json()?;
        }
        if self.bytes.is_empty() { Ok(Fields::none()) } else { self.json() }
    }

    fn want_json(&self) -> Result<(), Problem> {
        let media_type =
            self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if media_type.is_some_and(is_json) {
            return Ok(());
        }
        let detail = "the body must be sent as content-type: application/json";
        Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail))
    }
}

/// `application/json` or `application/*+json`, in UTF-8.
fn is_json(media_type: &str) -> bool {
    let media_type = media_type.to_ascii_lowercase();
    let mut parts = media_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let Some(subtype) = essence.strip_prefix("application/") else { return false };
    let json =
        subtype == "json" || subtype.strip_suffix("+json").is_some_and(|name| !name.is_empty());
    json && parts.all(|parameter| match parameter.split_once('=') {
        Some(("charset", charset)) => matches!(charset.trim_matches('"'), "utf-8" | "utf8"),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::is_json;

    #[test]
    fn json_goes_by_several_names() {
        for good in [
            "application/json",
            "Application/JSON; charset=UTF-8",
            "application/vnd.x+json",
            "application/json;charset=\"utf-8\"",
        ] {
            assert!(is_json(good), "{good}");
        }
        for bad in [
            "text/json",
            "application/xml",
            "application/json; charset=latin1",
            "",
            "application/+json",
        ] {
            assert!(!is_json(bad), "{bad}");
        }
    }
}
