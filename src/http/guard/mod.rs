//! The middleware around every route: request ids, access, limits on the head, problem responses, security headers, metrics
//! and the spans of traced requests.

pub(crate) mod glances;
pub(crate) mod public_url;
pub(crate) mod trace;

use crate::{
    AppState,
    access::{Entry, Need},
    json_line,
    problem::{Code, Problem, ProblemBody},
    server::{activity::Activity, budget},
    sqs,
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
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const MAX_URI: usize = 8 * 1024;
const MAX_HEADERS: usize = 99;
const MAX_HEADERS_BYTES: usize = 16 * 1024;
/// Paths that begin like this are pages and their assets.
const PAGES: [&str; 3] = ["/docs", "/guide", "/ui"];
/// A page loads everything from this server and cannot be framed.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
/// The same for `/guide`, which asks for nothing, and has a form for the search.
const GUIDE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; base-uri 'none'; form-action 'self'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'";
/// The same for `/docs`: Swagger UI adds one style element, which has this hash, and knows no Trusted Types.
const DOCS_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' \
    'sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w='; img-src 'self' data:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// The label of requests that match no route.
pub(crate) const NO_OPERATION: &str = "none";

/// Operations by path and method.
pub(crate) type Operations = HashMap<&'static str, HashMap<Method, Operation>>;

/// An operation: its operationId, for the metrics' labels, what it needs of the key, and the path of its route; an empty one
/// where that is not in the document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub name: &'static str,
    pub need: Need,
    pub path: &'static str,
}

/// Generates request ids: a random name of this process and a counter.
#[derive(Debug)]
pub(crate) struct RequestIds {
    /// With a dash at its end.
    process: [u8; 13],
    count: AtomicU64,
}

impl RequestIds {
    pub fn new() -> Self {
        let mut random = [0; 6];
        // Without randomness the ids are still unique within this process.
        let _ = getrandom::fill(&mut random);
        let mut process = [b'-'; 13];
        let _ = hex::encode_to_slice(random, &mut process[..12]);
        Self { process, count: AtomicU64::new(0) }
    }

    /// Returns the client's id if it is 1 to 128 visible ASCII characters, otherwise a new one.
    fn of(&self, headers: &HeaderMap) -> HeaderValue {
        let given = headers.get(&REQUEST_ID).filter(|value| {
            (1..=128).contains(&value.len()) && value.as_bytes().iter().all(u8::is_ascii_graphic)
        });
        given.cloned().unwrap_or_else(|| {
            let count = self.count.fetch_add(1, Ordering::Relaxed);
            let mut id = [0; 29];
            id[..13].copy_from_slice(&self.process);
            // The digits of a number, without its leading zeros.
            let digits = 16 - count.max(1).leading_zeros() as usize / 4;
            for (at, place) in id[13..13 + digits].iter_mut().rev().enumerate() {
                *place = b"0123456789abcdef"[(count >> (4 * at)) as usize & 15];
            }
            HeaderValue::from_bytes(&id[..13 + digits]).unwrap_or(HeaderValue::from_static("-"))
        })
    }
}

/// The guard as the router's middleware.
pub(crate) async fn layer(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let operation = operation_of(&state, &request);
    guard(&state, operation, request, |request| next.run(request)).await
}

/// Everything around a handler, which `run` calls. The request is taken apart before there is a future, which would keep room
/// for it as long as a long poll waits.
pub(crate) fn guard<'a, F: Future<Output = Response<Body>> + Send + 'a>(
    state: &'a AppState,
    asked: Operation,
    mut request: Request,
    run: impl FnOnce(Request) -> F + Send + 'a,
) -> impl Future<Output = Response<Body>> + Send + 'a {
    let started = Instant::now();
    let id = state.request_ids.of(request.headers());
    let peer = state.proxies.resolve(&mut request);
    let Operation { name: operation, need, .. } = asked;
    let mut entry = Entry::new(&state.access.audit, (operation, need), &request, &id);
    let refused = refuse(state, need, &mut request, entry.as_mut());
    let method = request.method().clone();
    let (policy, is_sqs) = (policy_of(request.uri().path()), sqs::has(&request));
    let (answering, trace) = match refused {
        Err(problem) => (Err(problem), None),
        Ok(()) => {
            let traces = state.traces.as_ref();
            let trace = traces.and_then(|it| trace::begin(it, asked, &mut request));
            (Ok(glances::answer(state, request, run)), trace)
        }
    };
    async move {
        let mut response = match answering {
            Ok(answering) => answering.await,
            Err(problem) => problem.into_response(),
        };
        if let Err(problem) = budget::count(&state.budget, &method, operation, &mut response) {
            response = problem.into_response();
        }
        set_security_headers(response.headers_mut(), policy, state.access.is_https());
        let status = response.status();
        let is_error = status.is_client_error() || status.is_server_error();
        let base = state.public_url.base();
        let asked = Asked { id: &id, operation, method: &method, peer, base };
        let problem = is_error.then(|| write_problem(&mut response, &asked));
        let refusal = problem.clone().filter(|_| is_sqs);
        if let Some(problem) = problem.as_ref().filter(|_| status == StatusCode::FORBIDDEN) {
            state.metrics.count_auth_failure(&problem.code);
        }
        if let Some(trace) = trace {
            trace.end(state, status, problem.as_ref());
        }
        if let Some(mut entry) = entry {
            // Of a log-in it is known only now.
            response.extensions().get().inspect(|caller| entry.is_by(caller));
            entry.answered(status, problem);
        }
        if let Some(path) = response.headers().get(header::LOCATION)
            && let Some(location) = state.public_url.location(path, status.is_redirection())
        {
            response.headers_mut().insert(header::LOCATION, location);
        }
        if is_sqs {
            sqs::finish(&mut response, refusal.as_ref(), &id);
        }
        response.headers_mut().insert(REQUEST_ID, id);
        let seconds = started.elapsed().as_secs_f64();
        state.metrics.observe_request(operation, status.as_u16(), seconds);
        response
    }
}

/// The policy of the page, or of the page's asset, at this path.
fn policy_of(path: &str) -> Option<&'static str> {
    let [docs, guide, ui] = PAGES.map(|prefix| path.starts_with(prefix));
    let policies = [(docs, DOCS_POLICY), (guide, GUIDE_POLICY), (ui, PAGE_POLICY)];
    policies.into_iter().find_map(|(is_there, policy)| is_there.then_some(policy))
}

/// The operation that the request asks for. Pages need no key, since they hold nothing; whatever else is no operation needs
/// one, so that strangers do not learn what there is.
fn operation_of(state: &AppState, request: &Request) -> Operation {
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let method = match request.method() {
        &Method::HEAD => &Method::GET,
        method => method,
    };
    if *method == Method::POST && sqs::has(request) {
        return sqs::operation(request.headers());
    }
    let known = state.operations.get(path).and_then(|methods| methods.get(method)).copied();
    known.unwrap_or_else(|| {
        let is_page = ["/", "/llms.txt"].contains(&path)
            || PAGES.iter().any(|prefix| path.starts_with(prefix));
        let need = if is_page { Need::Nothing } else { Need::Key };
        Operation { name: NO_OPERATION, need, path: "" }
    })
}

/// Notes who sends the request. Errors: why it goes no further.
fn refuse(
    state: &AppState,
    need: Need,
    request: &mut Request,
    entry: Option<&mut Entry>,
) -> Result<(), Problem> {
    let caller = state.access.admit(state, need, request)?;
    if let Some((entry, caller)) = entry.zip(caller.as_ref()) {
        entry.is_by(caller);
    }
    check_head(request)?;
    if let Some(caller) = caller {
        request.extensions().get::<Arc<Activity>>().inspect(|activity| activity.let_in());
        caller.check()?;
        request.extensions_mut().insert(caller);
    }
    Ok(())
}

fn check_head(request: &Request) -> Result<(), Problem> {
    let uri = request.uri();
    let uri_bytes = uri.path().len() + uri.query().map_or(0, |query| query.len() + 1);
    if uri_bytes > MAX_URI {
        let detail = "the URI is longer than 8192 bytes";
        return Err(Problem::new(Code::UriTooLong, detail));
    }
    let headers = request.headers();
    let bytes: usize =
        headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if headers.len() > MAX_HEADERS || bytes > MAX_HEADERS_BYTES {
        let detail =
            "the request has a hundred headers or more, or more than 16384 bytes of headers";
        return Err(Problem::new(Code::HeadersTooLarge, detail));
    }
    Ok(())
}

/// Sets the headers that tell browsers and caches how to treat a response.
/// `policy`: that of a page. `is_https`: clients come by https.
fn set_security_headers(headers: &mut HeaderMap, policy: Option<&'static str>, is_https: bool) {
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(RESOURCE_POLICY, "same-origin");
    set(header::X_FRAME_OPTIONS, "DENY");
    if is_https {
        set(header::STRICT_TRANSPORT_SECURITY, "max-age=31536000");
    }
    if let Some(policy) = policy {
        set(header::CONTENT_SECURITY_POLICY, policy);
        set(OPENER_POLICY, "same-origin");
        set(header::REFERRER_POLICY, "no-referrer");
    } else {
        set(header::CACHE_CONTROL, "no-store");
    }
}

/// What a problem says of its request.
struct Asked<'a> {
    id: &'a HeaderValue,
    operation: &'a str,
    method: &'a Method,
    peer: Option<IpAddr>,
    /// The path before all routes.
    base: &'a str,
}

/// Writes the problem body of an error response, whichever layer refused the request, and logs it. Returns what it says.
fn write_problem(response: &mut Response<Body>, asked: &Asked<'_>) -> ProblemBody {
    let &Asked { id, operation, method, peer, base } = asked;
    let peer = peer.map(tracing::field::display);
    let status = response.status();
    let problem = response.extensions_mut().remove::<Arc<Problem>>();
    let problem = problem.unwrap_or_else(|| Arc::new(Problem::of_status(status)));
    let problem = problem.body(id.to_str().unwrap_or_default());
    let (code, detail) = (problem.code.as_str(), problem.detail.as_str());
    // The lanes log once that Redis is unavailable; the thousands of requests that fail for it do not.
    let is_failure = status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE;
    let (status, text) =
        (status.as_u16(), if is_failure { "a request failed" } else { "a request was refused" });
    macro_rules! log {
        ($level:ident) => {
            tracing::$level!(?id, peer, operation, status, code, detail, "{text}")
        };
    }
    if is_failure {
        log!(warn)
    } else {
        log!(debug)
    }
    let body = json_line(&problem).unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.remove(header::CONTENT_LENGTH);
    let help = HeaderValue::try_from(format!("<{base}/guide/errors/{code}>; rel=help"));
    headers.extend(help.ok().map(|help| (header::LINK, help)));
    if *method != Method::HEAD {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        *response.body_mut() = Body::from(body);
    }
    problem
}
