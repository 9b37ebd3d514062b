//! The middleware around every route: request ids, access, limits on the head, problem responses, security headers and
//! metrics.

use super::{
    AppState, budget, json_line,
    problem::{Code, Problem},
};
use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header},
    middleware::Next,
    response::IntoResponse,
};
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MAX_URI: usize = 8 * 1024;
const MAX_HEADERS: usize = 99;
const MAX_HEADERS_BYTES: usize = 16 * 1024;
/// Paths that begin like this are pages and their assets.
const PAGES: [&str; 2] = ["/docs", "/guide"];
/// A page loads everything from this server and cannot be framed. Some of its styles are inline.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The label of requests that match no route.
const NO_OPERATION: &str = "none";

/// Operations by path and method, for the metrics' labels.
pub(super) type Operations = HashMap<String, HashMap<Method, &'static str>>;

/// Generates request ids: a random name of this process and a counter.
#[derive(Debug)]
pub(super) struct RequestIds {
    process: String,
    count: AtomicU64,
}

impl RequestIds {
    pub fn new() -> Self {
        let mut random = [0; 6];
        // Without randomness the ids are still unique within this process.
        let _ = getrandom::fill(&mut random);
        Self { process: hex::encode(random), count: AtomicU64::new(0) }
    }

    /// Returns the client's id if it is 1 to 128 visible ASCII characters, otherwise a new one.
    fn of(&self, headers: &HeaderMap) -> HeaderValue {
        let given = headers.get(&REQUEST_ID).filter(|value| {
            (1..=128).contains(&value.len()) && value.as_bytes().iter().all(u8::is_ascii_graphic)
        });
        given.cloned().unwrap_or_else(|| {
            let count = self.count.fetch_add(1, Ordering::Relaxed);
            HeaderValue::try_from(format!("{}-{count:x}", self.process))
                .unwrap_or(HeaderValue::from_static("-"))
        })
    }
}

/// The middleware around all routes.
pub(super) async fn guard(
    State(state): State<AppState>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let started = Instant::now();
    let id = state.request_ids.of(request.headers());
    let peer = state.proxies.resolve(&mut request);
    let operation = operation_of(&state, &request);
    let refused = state.access.refuse(&request).or_else(|| refuse_head(&request));
    let method = request.method().clone();
    let is_page = PAGES.iter().any(|prefix| request.uri().path().starts_with(prefix));
    let mut response = match refused {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    };
    if let Err(problem) = budget::count(&state.budget, &method, operation, &mut response) {
        response = problem.into_response();
    }
    set_security_headers(response.headers_mut(), is_page);
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        write_problem(&mut response, &Asked { id: &id, operation, method: &method, peer });
    }
    if let Some(path) = response.headers().get(header::LOCATION)
        && let Some(location) = state.public_url.location(path, status.is_redirection())
    {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response.headers_mut().insert(REQUEST_ID, id);
    let seconds = started.elapsed().as_secs_f64();
    state.metrics.observe_request(operation, status.as_u16(), seconds);
    response
}

fn operation_of(state: &AppState, request: &Request) -> &'static str {
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let methods = path.and_then(|path| state.operations.get(path));
    methods.and_then(|methods| methods.get(request.method()).copied()).unwrap_or(NO_OPERATION)
}

fn refuse_head(request: &Request) -> Option<Problem> {
    let uri = request.uri();
    let uri_bytes = uri.path().len() + uri.query().map_or(0, |query| query.len() + 1);
    if uri_bytes > MAX_URI {
        let detail = "the URI is longer than 8192 bytes";
        return Some(Problem::new(Code::UriTooLong, detail));
    }
    let headers = request.headers();
    let bytes: usize =
        headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if headers.len() > MAX_HEADERS || bytes > MAX_HEADERS_BYTES {
        let detail =
            "the request has a hundred headers or more, or more than 16384 bytes of headers";
        return Some(Problem::new(Code::HeadersTooLarge, detail));
    }
    None
}

/// Sets the headers that tell browsers and caches how to treat a response.
fn set_security_headers(headers: &mut HeaderMap, is_page: bool) {
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    if is_page {
        set(header::CONTENT_SECURITY_POLICY, PAGE_POLICY);
        set(header::X_FRAME_OPTIONS, "DENY");
        set(header::REFERRER_POLICY, "no-referrer");
    } else {
        set(header::CACHE_CONTROL, "no-store");
    }
}

/// What a problem is told of its request.
struct Asked<'a> {
    id: &'a HeaderValue,
    operation: &'a str,
    method: &'a Method,
    peer: Option<IpAddr>,
}

/// Writes the problem body of an error response, whichever layer refused the request, and logs it.
fn write_problem(response: &mut Response<Body>, asked: &Asked<'_>) {
    let &Asked { id, operation, method, peer } = asked;
    let peer = peer.map(tracing::field::display);
    let status = response.status();
    let problem = response.extensions_mut().remove::<Arc<Problem>>();
    let problem = problem.unwrap_or_else(|| Arc::new(Problem::of_status(status)));
    let problem = problem.body(id.to_str().unwrap_or_default());
    let (code, detail) = (problem.code.as_str(), problem.detail.as_str());
    // The lanes log once that Redis is unavailable; the thousands of requests that fail for it do not.
    if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
        tracing::warn!(
            ?id,
            peer,
            operation,
            status = status.as_u16(),
            code,
            detail,
            "a request failed"
        );
    } else {
        tracing::debug!(
            ?id,
            peer,
            operation,
            status = status.as_u16(),
            code,
            detail,
            "a request was refused"
        );
    }
    let body = json_line(&problem).unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.remove(header::CONTENT_LENGTH);
    if *method != Method::HEAD {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        *response.body_mut() = Body::from(body);
    }
}
