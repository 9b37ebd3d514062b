//! What the dashboard asks again and again. However many tabs look at the same thing, it is read once a second: a request that
//! is content with an answer a second old (`cache-control: max-age=1`) takes one that was just given to the same key, or waits
//! for the one under way. Answers have an `ETag` of their content, and one that the tab has is 304. Only requests of dueq's own
//! pages pass through here; all others go straight to their handlers.

use crate::{
    AppState,
    access::Caller,
    pages::{etag, ui},
};
use axum::{
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header},
    response::IntoResponse,
};
use bytes::Bytes;
use futures_util::future::Either;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How old an answer may be.
const AGE: Duration = Duration::from_secs(1);
/// What the header says of a request that is content with that.
const CONTENT: &str = "max-age=1";
/// How many answers are kept; beyond that requests go to their handlers.
const MOST: usize = 128;
/// The largest answer that is kept, bytes.
const LARGEST: usize = 256 * 1024;
/// No answer in JSON is larger, bytes.
const LIMIT: usize = 32 * 1024 * 1024;

/// The answers of the last second, by who asked for what.
#[derive(Debug, Default)]
pub(crate) struct Glances(Mutex<HashMap<String, Arc<Slot>>>);

/// One of them. Who holds its lock asks the handler.
#[derive(Debug)]
struct Slot {
    since: Instant,
    answer: tokio::sync::Mutex<Option<Answer>>,
}

#[derive(Clone, Debug)]
struct Answer {
    at: Instant,
    tag: HeaderValue,
    headers: HeaderMap,
    body: Bytes,
}

impl Glances {
    fn slot(&self, key: String) -> Option<Arc<Slot>> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if !slots.contains_key(&key) {
            // One that is asked for at this moment stays; the others are over.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || now - slot.since < AGE);
            if slots.len() >= MOST {
                return None;
            }
        }
        let new = || Arc::new(Slot { since: now, answer: tokio::sync::Mutex::default() });
        Some(slots.entry(key).or_insert_with(new).clone())
    }
}

/// Answers the request, from memory where it is one of the dashboard's and may be. Those that wait are answered one by one.
pub(crate) fn answer<'a, F: Future<Output = Response<Body>> + Send + 'a>(
    state: &'a AppState,
    request: Request,
    run: impl FnOnce(Request) -> F + Send + 'a,
) -> impl Future<Output = Response<Body>> + Send + 'a {
    let waits = |query: &str| query.contains("wait_ms");
    if request.method() != Method::GET
        || !request.headers().contains_key(&ui::HEADER)
        || request.uri().query().is_some_and(waits)
    {
        return Either::Left(run(request));
    }
    Either::Right(Box::pin(glance(state, request, run)))
}

/// The same for one of the dashboard's.
async fn glance<F: Future<Output = Response<Body>>>(
    state: &AppState,
    request: Request,
    run: impl FnOnce(Request) -> F,
) -> Response<Body> {
    let asked = request.headers().clone();
    let is_content = asked.get(header::CACHE_CONTROL).is_some_and(|value| value == CONTENT);
    let who = request.extensions().get::<Caller>();
    let who = who.map(|caller| (caller.name().to_owned(), caller.scopes()));
    let Some(slot) = state.glances.slot(format!("{who:?} {}", request.uri())) else {
        return run(request).await;
    };
    let (mut kept, has_waited) = match slot.answer.try_lock() {
        Ok(kept) => (kept, false),
        Err(_) => (slot.answer.lock().await, true),
    };
    if is_content && let Some(answer) = kept.as_ref().filter(|answer| answer.at.elapsed() < AGE) {
        return answer.to(&asked);
    }
    if is_content && has_waited {
        // Nothing came of the one under way. Those who waited for it do not wait for each other as well.
        drop(kept);
        return run(request).await;
    }
    *kept = None;
    match read(run(request).await).await {
        Ok(answer) => {
            if answer.body.len() <= LARGEST {
                *kept = Some(answer.clone());
            }
            answer.to(&asked)
        }
        Err(response) => *response,
    }
}

/// The answer in memory. Errors: what came, where it is not a success in JSON.
async fn read(response: Response<Body>) -> Result<Answer, Box<Response<Body>>> {
    let at = Instant::now();
    let kind = response.headers().get(header::CONTENT_TYPE);
    if response.status() != StatusCode::OK || kind.is_none_or(|kind| kind != "application/json") {
        return Err(Box::new(response));
    }
    let (mut parts, body) = response.into_parts();
    let failed = || Box::new(StatusCode::INTERNAL_SERVER_ERROR.into_response());
    let body = to_bytes(body, LIMIT).await.map_err(|_| failed())?;
    let tag = HeaderValue::try_from(etag::of(&body)).map_err(|_| failed())?;
    parts.headers.remove(header::ETAG);
    Ok(Answer { at, tag, headers: parts.headers, body })
}

impl Answer {
    fn to(&self, asked: &HeaderMap) -> Response<Body> {
        let Self { tag, headers, body, .. } = self.clone();
        let is_known = etag::is_known(asked, tag.as_bytes());
        let tag = [(header::ETAG, tag)];
        if is_known {
            return (StatusCode::NOT_MODIFIED, tag).into_response();
        }
        (tag, headers, body).into_response()
    }
}
