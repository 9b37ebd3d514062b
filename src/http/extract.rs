//! What handlers take from a request: a checked path, the query, the body. Whatever cannot be taken leaves as a
//! [`Problem`], like every other refusal.

use super::{
    AppState,
    budget::{self, Hold},
    connections::Activity,
    if_match::IfMatch,
    input::{
        self, Fields,
        describe::{formatted, parameter, string},
        request, sample,
    },
    problem::{Code, Problem},
};
use crate::model::{InvalidScheduleName, MAX_KEY_CHARS, MessageId, ScheduleName, TopicName};
use crate::store::MessageRef;
use axum::{
    extract::{FromRequest, FromRequestParts, Path, Request},
    http::{HeaderMap, header, request::Parts},
};
use bytes::Bytes;
use std::{borrow::Cow, sync::Arc, time::Duration};
use utoipa::openapi::{
    KnownFormat, ObjectBuilder,
    path::{Parameter, ParameterIn},
};

/// How long a client may take to send a body, or a good piece of it.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);

/// The `{topic}` of the path.
pub struct TopicPath(pub TopicName);

/// The `{name}` of a schedule in the path.
pub struct SchedulePath(pub ScheduleName);

/// The `{id}` of the path.
pub struct IdPath(pub MessageId);

/// The live message that has the `{key}` of the path in its `{topic}`.
pub struct KeyPath(pub MessageRef);

/// Implements how the document describes the parameters of an extractor.
macro_rules! documented {
    ($($Extractor:ident: $place:ident $($name:literal $(= $example:literal)? $schema:expr, $about:literal);+;)*) => {$(
        impl utoipa::IntoParams for $Extractor {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                let place = || ParameterIn::$place;
                vec![$(parameter(place(), $name, $about, sample!($($example)?), $schema.into())),+]
            }
        }
    )*};
}

/// A name in a path, where only a topic's may begin with `_`.
fn name(first: &str) -> ObjectBuilder {
    let pattern = format!(r"^[{first}][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\.?$");
    string().max_length(Some(128)).pattern(Some(pattern))
}

documented! {
    TopicPath: Path "topic" = "orders" name("A-Za-z0-9_"),
        "Name of the topic: letters, digits, `.`, `_` and `-`, without `..`, 1 to 128 characters";
    SchedulePath: Path "name" = "daily-report" name("A-Za-z0-9"),
        "Name of the schedule: letters, digits, `.`, `_` and `-`, without `..`, 1 to 128 characters";
    IdPath: Path "id" formatted(KnownFormat::Uuid), "Id of the message, a UUID";
    KeyPath: Path "topic" = "orders" name("A-Za-z0-9_"),
        "Name of the topic: letters, digits, `.`, `_` and `-`, without `..`, 1 to 128 characters";
        "key" = "order-42" string().min_length(Some(1)).max_length(Some(MAX_KEY_CHARS)),
        "Key of the message, 1 to 255 characters, percent-encoded; generated clients encode it themselves";
    IdempotencyKey: Header "Idempotency-Key" string().min_length(Some(1)).max_length(Some(MAX_KEY_CHARS)),
        "The same as `idempotency_key` in the body. If both are given, they must be equal.";
    IfMatch: Header "If-Match" = "\"7\"" string(),
        "Apply the change only if the configuration has this revision (the `ETag` of an answer), or one of several; \
            `*`: only if the topic exists";
}

/// The `Idempotency-Key` header, which is the same as the field `idempotency_key`.
pub struct IdempotencyKey;

/// The query's parameters.
pub struct Query<T>(pub T);

/// For routes that take no query parameters.
pub struct NoQuery;

/// A JSON body, and what it came with.
pub struct JsonBody<T>(pub T, pub Payload);

/// The same, where the body may be left out.
pub struct OptionalJsonBody<T>(pub T, pub Payload);

/// A request's headers and body, the body read whole within the limits.
pub struct Payload {
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub bytes: Bytes,
    /// The connection that it came by.
    pub(super) activity: Option<Arc<Activity>>,
    /// Counts the body for as long as the request is worked on.
    pub(super) _hold: Hold,
}

impl FromRequestParts<AppState> for TopicPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let text = segment(parts, state).await?;
        let name = TopicName::parse(&text);
        name.map(Self).map_err(|error| Problem::new(Code::InvalidTopicName, error.to_string()))
    }
}

impl FromRequestParts<AppState> for SchedulePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let text = segment(parts, state).await?;
        let invalid =
            |error: InvalidScheduleName| Problem::new(Code::InvalidScheduleName, error.to_string());
        ScheduleName::parse(&text).map(Self).map_err(invalid)
    }
}

impl FromRequestParts<AppState> for IdPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let text = segment(parts, state).await?;
        let id = MessageId::parse(&text);
        id.map(Self).map_err(|error| Problem::new(Code::InvalidMessageId, error.to_string()))
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
        Self::new(Code::TopicReserved, detail)
    }
}

impl FromRequestParts<AppState> for KeyPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((topic, key)) = path.map_err(|_| malformed_path())?;
        let topic = TopicName::parse(&topic)
            .map_err(|error| Problem::new(Code::InvalidTopicName, error.to_string()))?;
        if !(1..=MAX_KEY_CHARS).contains(&key.chars().count()) {
            let detail = format!("a key has 1 to {MAX_KEY_CHARS} characters");
            return Err(Problem::new(Code::InvalidKey, detail));
        }
        Ok(Self(MessageRef::Key(topic, key)))
    }
}

/// The one variable segment of the path, percent-decoded.
async fn segment(parts: &mut Parts, state: &AppState) -> Result<String, Problem> {
    let path = Path::<String>::from_request_parts(parts, state).await;
    path.map(|Path(text)| text).map_err(|_| malformed_path())
}

fn malformed_path() -> Problem {
    Problem::new(Code::MalformedPath, "the decoded path is not valid UTF-8")
}

/// The parameters of a query, decoded.
pub fn decoded(query: &str) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    form_urlencoded::parse(query.as_bytes()).collect()
}

impl<T: input::Request> FromRequestParts<AppState> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Problem> {
        let pairs = decoded(parts.uri.query().unwrap_or_default());
        Fields::of_query(&pairs).read().map(Self)
    }
}

impl FromRequestParts<AppState> for NoQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        if parts.uri.query().is_some_and(|query| !query.is_empty()) {
            Query::<Nothing>::from_request_parts(parts, state).await?;
        }
        Ok(Self)
    }
}

impl<T: input::Request> FromRequest<AppState> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let payload = Payload::from_request(request, state).await?;
        Ok(Self(payload.json()?.read()?, payload))
    }
}

impl<T: input::Request> FromRequest<AppState> for OptionalJsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let payload = Payload::from_request(request, state).await?;
        Ok(Self(payload.json_or_none()?.read()?, payload))
    }
}

request! {
    /// Nothing: no fields are known.
    pub struct Nothing {}
}

impl FromRequest<AppState> for Payload {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let limit = state.max_body_bytes;
        let length = parts.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        let mut hold = state.budget.hold();
        let activity = parts.extensions.get::<Arc<Activity>>();
        activity.inspect(|activity| activity.mark_idle());
        let read = match length {
            Some(length) if length > limit => Err(budget::too_large(limit)),
            _ => budget::read(body, limit, length, BODY_TIMEOUT, &mut hold).await,
        };
        let bytes = read?;
        activity.inspect(|activity| activity.body_read());
        let activity = activity.cloned();
        Ok(Self { headers: parts.headers, bytes, activity, _hold: hold })
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
    pub(super) fn json_or_none(&self) -> Result<Fields<'_>, Problem> {
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
        Err(Problem::new(Code::UnsupportedMediaType, detail))
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
