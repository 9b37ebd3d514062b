//! Limits the memory that all requests hold together: long heads, bodies while they are read and processed, responses until
//! their clients have read them. Bytes count once they are in memory, so that a client that declares a large body and sends
//! little of it does not keep others out. A reserve is kept for small bodies, so that acks pass while large bodies fill
//! the rest.

use super::activity::Activity;
use crate::{
    guard::NO_OPERATION,
    problem::{Code, Problem},
};
use axum::{
    body::Body,
    http::{Method, Response},
};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body::Frame;
use http_body_util::BodyExt;
use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, timeout_at};

/// Bodies and responses up to this size may use the whole budget…
const SMALL: usize = 64 * 1024;
/// …and larger ones all but an eighth of it.
const RESERVE_DIVISOR: usize = 8;
/// Each time a client has sent this much of its body, its time-out starts again.
const CHUNK: usize = 64 * 1024;
/// Responses up to this size are not counted: the limit on connections bounds them too.
const TINY: usize = 1024;
/// Answers that are in memory once for all readers, and so not counted: pages, their assets, the documents. A stranger who does not
/// read must not take room from a key.
const SHARED: [&str; 3] = [NO_OPERATION, "getOpenapi", "getOpenapi30"];
/// Never refused: operators need it most when memory is short, and its size does not depend on the client.
const NEVER_REFUSED: &str = "getMetrics";

/// Heads of strangers may use this part of it, and nothing of the reserve, so that clients without a key cannot shut others out.
const HEADS_DIVISOR: usize = 8;

/// The bytes that all requests may hold together.
pub struct Budget {
    total: usize,
    used: AtomicUsize,
    heads: Mutex<Heads>,
}

/// One request's share of the budget, released when dropped.
pub(crate) struct Hold {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// Creates a budget of `total` bytes.
    pub fn new(total: usize) -> Arc<Self> {
        Arc::new(Self { total, used: AtomicUsize::new(0), heads: Mutex::default() })
    }

    /// The most that a single body can hold.
    pub fn largest(&self) -> usize {
        self.total - self.total / RESERVE_DIVISOR
    }

    /// The most that a response of flexible size may request, so that there is room for others.
    pub fn largest_answer(&self) -> usize {
        self.largest() / 2
    }

    /// Returns a hold of 0 bytes.
    pub(crate) fn hold(self: &Arc<Self>) -> Hold {
        Hold { budget: self.clone(), bytes: 0 }
    }
}

impl Hold {
    /// Grows the hold to `bytes`. Errors: 503 `overloaded` if the budget is used up.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Problem> {
        let limit = if bytes > SMALL { self.budget.largest() } else { self.budget.total };
        let more = bytes.saturating_sub(self.bytes);
        let kept = |used: &usize| *used <= limit;
        let room = |used: usize| used.checked_add(more).filter(kept);
        if more > 0 {
            let used = &self.budget.used;
            let grown = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
            grown.map_err(|_| overloaded())?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Grows the hold to `bytes` even beyond the budget, because a completed change must be answered.
    pub fn force_to(&mut self, bytes: usize) {
        let more = bytes.saturating_sub(self.bytes);
        self.budget.used.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The heads of strangers while they arrive, oldest first: their bytes, and whose they are.
#[derive(Default)]
struct Heads {
    bytes: usize,
    next: u64,
    each: BTreeMap<u64, (usize, Arc<Activity>)>,
}

impl Heads {
    fn take(&mut self, number: u64) {
        self.bytes -= self.each.remove(&number).map_or(0, |(bytes, _)| bytes);
    }
}

/// The share of a request's head while it arrives, and as long as the request is answered. Where there is no room for a
/// stranger's, the strangers whose heads are oldest are closed to make some.
pub(crate) struct HeadHold(Hold, u64);

impl HeadHold {
    /// Of 0 bytes.
    pub fn new(budget: &Arc<Budget>) -> Self {
        let mut heads = lock(budget);
        heads.next += 1;
        Self(budget.hold(), heads.next)
    }

    /// Grows the hold to `bytes`; for a client that is known even beyond the budget. Returns whether there was room.
    pub fn grow_to(&mut self, bytes: usize, client: &Arc<Activity>) -> bool {
        if !client.is_known() && !self.make_room(bytes, client) {
            return false;
        }
        self.0.force_to(bytes);
        true
    }

    fn make_room(&self, bytes: usize, client: &Arc<Activity>) -> bool {
        let Self(Hold { budget, bytes: held }, number) = self;
        let mut heads = lock(budget);
        heads.take(*number);
        let mut used = budget.used.load(Ordering::Relaxed) + bytes.saturating_sub(*held);
        while heads.bytes + bytes > budget.total / HEADS_DIVISOR || used > budget.largest() {
            let Some((_, (bytes, other))) = heads.each.pop_first() else { return false };
            heads.bytes -= bytes;
            // Some have been let in since. What the others hold is free in a moment.
            if !other.is_known() {
                other.close();
                used = used.saturating_sub(bytes);
            }
        }
        heads.bytes += bytes;
        heads.each.insert(*number, (bytes, client.clone()));
        true
    }
}

impl Drop for HeadHold {
    fn drop(&mut self) {
        lock(&self.0.budget).take(self.1);
    }
}

fn lock(budget: &Budget) -> MutexGuard<'_, Heads> {
    budget.heads.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The refusal of what finds no room.
pub(crate) fn overloaded() -> Problem {
    let detail = "requests and answers in flight use all the memory they may; nothing happened";
    Problem::new(Code::Overloaded, detail).retry_after(1)
}

/// Reads a whole body. `declared` is the length that the client declared, if any.
///
/// Errors: 413 above `limit`, 503 `overloaded`, 400 if the body cannot be read, 408 if less than [`CHUNK`] of it arrives
/// within `chunk_timeout`.
pub(crate) async fn read(
    mut body: Body,
    limit: usize,
    declared: Option<usize>,
    chunk_timeout: Duration,
    hold: &mut Hold,
) -> Result<Bytes, Problem> {
    let max_length = declared.unwrap_or(limit).min(limit);
    let mut whole: Vec<u8> = Vec::new();
    let (mut deadline, mut due) = (None, CHUNK);
    loop {
        let mut frame = body.frame();
        // Mostly it is there already; a timer is large.
        let frame = match (&mut frame).now_or_never() {
            Some(frame) => frame,
            None => {
                let until = *deadline.get_or_insert_with(|| Instant::now() + chunk_timeout);
                Box::pin(timeout_at(until, frame)).await.map_err(|_| too_slow())?
            }
        };
        let Some(frame) = frame else { return Ok(whole.into()) };
        let frame = frame.map_err(|error| {
            Problem::new(Code::MalformedBody, format!("the body cannot be read: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        let length = whole.len() + data.len();
        if length > limit {
            return Err(too_large(limit));
        }
        if whole.is_empty() && http_body::Body::is_end_stream(&body) {
            hold.grow_to(length)?;
            return Ok(data);
        }
        // The data is copied, because a frame of a few bytes would keep the whole buffer alive that it was read into.
        if length > whole.capacity() {
            let capacity = length.max((2 * length).min(max_length));
            hold.grow_to(capacity)?;
            whole.reserve_exact(capacity - whole.len());
        }
        whole.extend_from_slice(&data);
        if length >= due {
            (deadline, due) = (None, length + CHUNK);
        }
    }
}

/// The refusal of a body larger than `limit`.
pub(crate) fn too_large(limit: usize) -> Problem {
    let detail = format!("the body is larger than {limit} bytes");
    Problem::new(Code::BodyTooLarge, detail)
}

fn too_slow() -> Problem {
    let detail = "the body was not sent in time";
    Problem::new(Code::RequestTimeout, detail)
}

/// Counts a response until its client has read it. Errors: 503 `overloaded` if the budget is used up and the request
/// changed nothing.
pub(crate) fn count(
    budget: &Arc<Budget>,
    method: &Method,
    operation: &str,
    response: &mut Response<Body>,
) -> Result<(), Problem> {
    let bytes = http_body::Body::size_hint(response.body()).lower() as usize;
    if bytes <= TINY || SHARED.contains(&operation) {
        return Ok(());
    }
    let held = response.extensions_mut().remove::<Arc<Hold>>();
    let hold = match held {
        Some(hold) => hold,
        None => {
            let mut hold = budget.hold();
            if *method == Method::GET && operation != NEVER_REFUSED {
                hold.grow_to(bytes)?;
            } else {
                hold.force_to(bytes);
            }
            Arc::new(hold)
        }
    };
    let inner = std::mem::take(response.body_mut());
    *response.body_mut() = Body::new(Held { inner, hold });
    Ok(())
}

/// A response body whose bytes are counted until the connection has written them.
struct Held {
    inner: Body,
    hold: Arc<Hold>,
}

/// A chunk of such a body.
struct HeldBytes(Bytes, #[expect(dead_code, reason = "dropping it releases the bytes")] Arc<Hold>);

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        let held = |data| Bytes::from_owner(HeldBytes(data, self.hold.clone()));
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(held))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK_TIMEOUT: Duration = Duration::from_secs(60);

    fn used(budget: &Budget) -> usize {
        budget.used.load(Ordering::Relaxed)
    }

    #[test]
    fn small_bodies_have_a_reserve() {
        let budget = Budget::new(8 << 20);
        let mut large = budget.hold();
        large.grow_to(7 << 20).unwrap();
        let mut next = budget.hold();
        next.grow_to(SMALL).unwrap();
        assert_eq!(next.grow_to(SMALL + 1), Err(overloaded()), "the rest is for the small");
        assert_eq!(used(&budget), (7 << 20) + SMALL, "a refusal holds nothing");
        let mut small: Vec<_> = (0..15).map(|_| budget.hold()).collect();
        for hold in &mut small {
            hold.grow_to(SMALL).unwrap();
        }
        assert_eq!(budget.hold().grow_to(1), Err(overloaded()), "all is taken");
        drop(large);
        next.grow_to(SMALL + 1).unwrap();
        drop((next, small));
        assert_eq!(used(&budget), 0);
    }

    #[tokio::test]
    async fn a_response_is_held_until_its_bytes_are_dropped() {
        let budget = Budget::new(8 << 20);
        let mut response = Response::new(Body::from(vec![b'x'; 100_000]));
        count(&budget, &Method::POST, "ackBatch", &mut response).unwrap();
        assert_eq!(used(&budget), 100_000);
        let mut body = response.into_body();
        let data = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        assert_eq!((data.len(), used(&budget)), (100_000, 100_000));
        drop(data);
        assert_eq!(used(&budget), 0);
    }

    #[test]
    fn only_the_response_of_a_request_that_changed_nothing_is_refused() {
        let budget = Budget::new(1 << 20);
        budget.hold().grow_to(1 << 19).unwrap();
        let mut all = budget.hold();
        all.force_to(1 << 20);
        let answer = |method: Method, operation| {
            let mut response = Response::new(Body::from(vec![b'x'; 5000]));
            count(&budget, &method, operation, &mut response)
        };
        assert_eq!(answer(Method::GET, "listTopics"), Err(overloaded()));
        assert_eq!(answer(Method::GET, "getMetrics"), Ok(()));
        assert_eq!(answer(Method::POST, "publishBatch"), Ok(()));
    }

    #[tokio::test]
    async fn chunks_of_a_body_are_copied_and_counted_by_the_capacity_that_they_use() {
        let budget = Budget::new(8 << 20);
        let chunks = |sizes: &[usize]| {
            let all = sizes.iter().map(|size| Ok::<_, std::io::Error>(vec![b'x'; *size]));
            Body::from_stream(futures_util::stream::iter(all.collect::<Vec<_>>()))
        };
        for (sizes, declared, held) in
            [(&[3, 4][..], Some(7), 7), (&[1000, 1000, 1], None, 4002), (&[5], Some(5), 5)]
        {
            let mut hold = budget.hold();
            let body =
                read(chunks(sizes), 100_000, declared, CHUNK_TIMEOUT, &mut hold).await.unwrap();
            assert_eq!(body.len(), sizes.iter().sum::<usize>());
            assert_eq!(used(&budget), held, "{sizes:?}");
        }
        let large =
            read(chunks(&[60_000, 60_000]), 100_000, None, CHUNK_TIMEOUT, &mut budget.hold()).await;
        assert_eq!(large, Err(too_large(100_000)));
    }

    #[tokio::test]
    async fn a_body_that_arrives_steadily_may_take_longer_than_the_timeout_of_a_chunk() {
        let chunks = |size: usize| {
            let chunks = futures_util::stream::unfold(0, move |n| async move {
                tokio::time::sleep(Duration::from_millis(150)).await;
                (n < 8).then(|| (Ok::<_, std::io::Error>(vec![b'x'; size]), n + 1))
            });
            Body::from_stream(chunks)
        };
        let (budget, timeout) = (Budget::new(8 << 20), Duration::from_secs(1));
        let steady = read(chunks(CHUNK), 1 << 20, None, timeout, &mut budget.hold()).await;
        assert_eq!(steady.unwrap().len(), 8 * CHUNK);
        let trickle = read(chunks(100), 1 << 20, None, timeout, &mut budget.hold()).await;
        assert_eq!(trickle, Err(too_slow()));
    }

    fn counted(budget: &Budget) -> (usize, usize) {
        (budget.used.load(Ordering::Relaxed), lock(budget).bytes)
    }

    #[test]
    fn heads_of_strangers_use_an_eighth_and_nothing_of_the_reserve_and_the_oldest_make_room() {
        let budget = Budget::new(8 << 20);
        let stranger = || Arc::new(Activity::new(Arc::default(), None));
        let known = stranger();
        known.let_in();
        let head = || HeadHold::new(&budget);
        let (mut first, mut second, its) = (head(), head(), stranger());
        assert!(first.grow_to(1 << 10, &its) && first.grow_to(1 << 19, &its));
        assert!(second.grow_to(1 << 19, &its) && head().grow_to(1 << 10, &known));
        assert_eq!(counted(&budget), (1 << 20, 1 << 20));
        let mut third = head();
        assert!(third.grow_to(1 << 18, &its), "the first makes room");
        assert_eq!(counted(&budget).1, (1 << 19) + (1 << 18));
        assert!(!head().grow_to((1 << 20) + 1, &its), "all of them would be too little");
        assert_eq!(counted(&budget).1, 0);
        drop((first, second, third));
        let mut large = budget.hold();
        large.grow_to(7 << 20).unwrap();
        assert!(!head().grow_to(1, &its), "what others hold is not given away");
        drop(large);
        // Who was let in since keeps its head, which then counts with all others.
        let (mut first, its) = (head(), stranger());
        assert!(first.grow_to(1 << 20, &its));
        its.let_in();
        assert!(head().grow_to(1 << 20, &stranger()));
        assert_eq!(counted(&budget), (1 << 20, 0));
        drop(first);
        assert_eq!(counted(&budget), (0, 0));
    }
}
