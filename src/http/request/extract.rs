//! What handlers take from a request besides its path: the query, headers, the body. A part that cannot be read leaves as a
//! [`Problem`], like every other refusal.

use super::cursor::Cursor;
use crate::{
    AppState,
    access::Caller,
    input::{self, Fields, PageSize, request},
    openapi::describe::{parameters, string},
    problem::{Code, Problem},
    server::{
        activity::Activity,
        budget::{self, Hold},
    },
};
use axum::{
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, Uri, header, request::Parts},
};
use bytes::Bytes;
use dueq_model::{DEFAULT_PAGE, MAX_KEY_CHARS};
use percent_encoding::percent_decode;
use std::{borrow::Cow, sync::Arc, time::Duration};

/// How long a client may take to send a body, or a good piece of it.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// The most bytes of a body whose sender has shown no key: one to log in with…
const STRANGERS_BODY: usize = 4 * 1024;
/// …and how long it may take as a whole.
const STRANGERS_TIMEOUT: Duration = Duration::from_secs(5);
/// A body of so many bytes takes milliseconds to read.
const LARGE_BODY: usize = 64 * 1024;

parameters! {
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
pub type NoQuery = Query<Nothing>;

/// A JSON body without query parameters, and what it came with.
pub struct JsonBody<T, const OPTIONAL: bool = false>(pub T, pub Payload);

/// The same, where the body may be left out, or be null.
pub type OptionalJsonBody<T> = JsonBody<T, true>;

/// For routes that take no body: it may be left out, be null or an empty object.
pub type NoBody = OptionalJsonBody<Nothing>;

/// A request's headers and body, the body read whole within the limits.
pub struct Payload {
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub bytes: Bytes,
    /// The connection that it came by.
    pub(crate) activity: Option<Arc<Activity>>,
    /// Counts the body for as long as the request is worked on.
    pub(crate) _hold: Hold,
}

/// The parameters of a query, decoded.
pub fn decoded(query: &str) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    form_urlencoded::parse(query.as_bytes()).collect()
}

/// Is what is percent-encoded here valid UTF-8? What is not is decoded to one text, whichever bytes it has: no name of anything.
pub fn is_text(encoded: &[u8]) -> bool {
    percent_decode(encoded).decode_utf8().is_ok()
}

fn read_query<T: input::Request>(uri: &Uri) -> Result<T, Problem> {
    Fields::of_query(&decoded(uri.query().unwrap_or_default())).read()
}

impl<T: input::Request> FromRequestParts<AppState> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Problem> {
        read_query(&parts.uri).map(Self)
    }
}

impl<T: input::Request, const OPTIONAL: bool> FromRequest<AppState> for JsonBody<T, OPTIONAL> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        read_query::<Nothing>(request.uri())?;
        let payload = Payload::from_request(request, state).await?;
        let body = if OPTIONAL {
            payload.aside(|| payload.json_or_none()?.read())
        } else {
            payload.read(|_, _| {})
        };
        Ok(Self(body?, payload))
    }
}

request! {
    /// Nothing: no fields are known.
    pub struct Nothing {}
}

request! {
    /// Which page of a list.
    pub struct PageParams {
        /// Items per page, 1 to 1000.
        pub limit: PageSize = PageSize::new(DEFAULT_PAGE),
        /// The `next_cursor` of the previous page.
        pub cursor: Option<Cursor>,
    }
}

impl FromRequest<AppState> for Payload {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let mut encodings = parts.headers.get_all(header::CONTENT_ENCODING).iter();
        if encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            let detail = "the body must be sent without Content-Encoding: dueq decodes none";
            return Err(Problem::new(Code::UnsupportedMediaType, detail));
        }
        let caller = parts.extensions.get::<Caller>();
        let (limit, timeout) = match caller {
            Some(_) => (state.max_body_bytes, BODY_TIMEOUT),
            None => (STRANGERS_BODY.min(state.max_body_bytes), STRANGERS_TIMEOUT),
        };
        let length = parts.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        let mut hold = state.budget.hold();
        let activity = parts.extensions.get::<Arc<Activity>>();
        activity.inspect(|activity| activity.mark_idle());
        if length.is_some_and(|length| length > limit) {
            return Err(budget::too_large(limit));
        }
        let read = budget::read(body, limit, length, timeout, &mut hold);
        let bytes = match caller {
            Some(caller) => caller.while_let_in(read).await?,
            None => read.await?,
        };
        activity.inspect(|activity| activity.body_read());
        let activity = activity.cloned();
        Ok(Self { headers: parts.headers, bytes, activity, _hold: hold })
    }
}

impl Payload {
    /// Reads the body, once `check` has seen its fields and the headers. Errors: 415 where it is not said to be JSON, 400
    /// where it is none, 422 with all that is wrong.
    pub fn read<T: input::Request>(
        &self,
        check: impl for<'a> FnOnce(&mut Fields<'a>, &'a HeaderMap),
    ) -> Result<T, Problem> {
        self.aside(|| {
            let mut fields = self.json()?;
            check(&mut fields, &self.headers);
            fields.read()
        })
    }

    /// Runs what reads the body. Another thread takes over the rest of this one's work while a large body is read.
    pub(crate) fn aside<T>(&self, read: impl FnOnce() -> T) -> T {
        if self.bytes.len() < LARGE_BODY { read() } else { tokio::task::block_in_place(read) }
    }

    /// The body's fields. Errors: 415 where it is not said to be JSON, 400 where it is none.
    pub(crate) fn json(&self) -> Result<Fields<'_>, Problem> {
        self.check_type()?;
        Fields::of_json(&self.bytes)
    }

    /// As [`Payload::json`], for routes whose body may be left out, or be null.
    pub(crate) fn json_or_none(&self) -> Result<Fields<'_>, Problem> {
        self.check_type()?;
        if self.bytes.is_empty() {
            return Ok(Fields::none());
        }
        Fields::of_json(&self.bytes).or_else(|problem| {
            let null: Result<(), _> = serde_json::from_slice(&self.bytes);
            null.map(|()| Fields::none()).map_err(|_| problem)
        })
    }

    /// Refuses a body that is not said to be JSON.
    fn check_type(&self) -> Result<(), Problem> {
        let media_type = self.headers.get(header::CONTENT_TYPE);
        let is_nothing = media_type.is_none() && self.bytes.is_empty();
        if is_nothing || media_type.and_then(|value| value.to_str().ok()).is_some_and(is_json) {
            return Ok(());
        }
        let detail = "the body must be sent as content-type: application/json";
        Err(Problem::new(Code::UnsupportedMediaType, detail))
    }
}

/// `application/json` or `application/*+json`, in UTF-8.
fn is_json(media_type: &str) -> bool {
    if media_type == "application/json" {
        return true;
    }
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

/// What If-Match asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// Nothing: it is not there.
    None,
    /// That the topic exists.
    Any,
    /// One of these revisions; none where what it names can be none.
    OneOf(Vec<i64>),
}

impl IfMatch {
    /// Reads RFC 9110's list of entity tags. Weak tags and what is no tag of ours match nothing.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(header::IF_MATCH).iter().peekable();
        if values.peek().is_none() {
            return Self::None;
        }
        let mut revisions = Vec::new();
        for tag in values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')) {
            let tag = std::str::from_utf8(tag).unwrap_or_default().trim();
            if tag == "*" {
                return Self::Any;
            }
            let revision = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            let number = revision.and_then(|text| text.parse::<i64>().ok());
            // Tags are compared as they are written: "07" is not "7".
            revisions.extend(number.filter(|n| revision == Some(n.to_string().as_str())));
        }
        Self::OneOf(revisions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn of(values: &[&'static str]) -> IfMatch {
        let value = |value: &&'static str| (header::IF_MATCH, value.parse().unwrap());
        IfMatch::of(&values.iter().map(value).collect())
    }

    #[test]
    fn tags_are_listed_in_one_header_or_several() {
        assert_eq!(of(&[]), IfMatch::None);
        assert_eq!(of(&["\"7\""]), IfMatch::OneOf(vec![7]));
        assert_eq!(of(&["\"7\" , \"8\"", "\"9\""]), IfMatch::OneOf(vec![7, 8, 9]));
        assert_eq!(of(&[" * "]), IfMatch::Any);
    }

    #[test]
    fn weak_and_broken_tags_match_nothing() {
        for broken in ["W/\"7\"", "7", "\"7", "\"07\"", "\"+7\"", "\"x\"", "\"\"", "", "\""] {
            assert_eq!(of(&[broken]), IfMatch::OneOf(vec![]), "{broken}");
        }
        assert_eq!(of(&["W/\"7\", \"8\""]), IfMatch::OneOf(vec![8]));
    }
}
