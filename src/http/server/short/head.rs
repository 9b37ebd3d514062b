//! Which heads the short way takes.

use super::MAX_REQUEST;
use crate::guard::public_url::PublicUrl;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header};
use bytes::Bytes;

/// The most headers.
const MAX_HEADERS: usize = 24;
/// The headers that a request may have. None of them changes how its bytes are read but Content-Length, and Connection, which
/// has to be `keep-alive`.
static KNOWN: [HeaderName; 24] = [
    header::CONTENT_LENGTH,
    header::HOST,
    header::CONTENT_TYPE,
    header::ACCEPT,
    header::USER_AGENT,
    header::AUTHORIZATION,
    header::ACCEPT_ENCODING,
    header::CONNECTION,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
    // Of AWS's SDKs.
    HeaderName::from_static("x-amz-target"),
    HeaderName::from_static("x-amz-date"),
    HeaderName::from_static("x-amz-content-sha256"),
    HeaderName::from_static("x-amz-security-token"),
    HeaderName::from_static("x-amz-user-agent"),
    HeaderName::from_static("x-amzn-query-mode"),
    HeaderName::from_static("x-amzn-trace-id"),
    HeaderName::from_static("amz-sdk-invocation-id"),
    HeaderName::from_static("amz-sdk-request"),
];

/// A head that the short way takes.
pub(super) struct Head<T> {
    pub request: Request<()>,
    /// The operation that it asks for.
    pub hot: T,
    /// Where the body begins, and how long it is.
    pub body: usize,
    pub length: usize,
}

/// Reads the head of a request; `None` if it is not a plain one, or `find` knows no hot operation at its path.
pub(super) fn parse<T>(
    read: &Bytes,
    public_url: &PublicUrl,
    find: impl FnOnce(&str, &HeaderMap) -> Option<T>,
) -> Option<Head<T>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(body) = head.parse(read).ok()? else { return None };
    let path = head.path?;
    if head.method? != "POST" || head.version? != 1 || !path.starts_with('/') {
        return None;
    }
    let slice = |part: &[u8]| read.slice_ref(part);
    let mut uri = Uri::from_maybe_shared(slice(path.as_bytes())).ok()?;
    public_url.strip(&mut uri);
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri;
    let all = request.headers_mut();
    all.reserve(head.headers.len());
    for field in &*head.headers {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        if !KNOWN.contains(&name) {
            return None;
        }
        let value = HeaderValue::from_maybe_shared(slice(field.value)).ok()?;
        // A repeated one could be read in two ways.
        if all.insert(name, value).is_some() {
            return None;
        }
    }
    let keeps = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"keep-alive");
    if !all.get(header::CONNECTION).is_none_or(keeps) {
        return None;
    }
    let hot = find(request.uri().path(), request.headers())?;
    let length = request.headers().get(header::CONTENT_LENGTH)?.as_bytes();
    if length.is_empty() || length.len() > 4 || !length.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
    (body + length <= MAX_REQUEST).then_some(Head { request, hot, body, length })
}
