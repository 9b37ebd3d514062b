//! One bound for the memory that all requests hold together: bodies while they are read and worked on, answers until
//! their clients have taken them. Bytes count once they are in memory, so that whoever declares much and sends little
//! keeps nobody out, and a part is kept for what is small, so that acks pass while large bodies wait for room.

use super::problem::{Code, Problem};
use crate::seeded;
use axum::{
    body::Body,
    http::{Method, Response},
};
use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, timeout_at};

/// What is no larger than this may use the whole budget…
const SMALL: usize = 64 * 1024;
/// …and what is larger all but this part of it.
const RESERVE: usize = 8;
/// A client that sends so much of its body has as much time again for the next such piece.
const PIECE: usize = 64 * 1024;
/// Answers up to this size are not counted: the bound on connections bounds them too.
const TINY: usize = 1024;
/// Operations whose answers are never refused: who watches over dueq needs them most when it has no room, and they are
/// the same for everybody.
const NEVER_REFUSED: [&str; 4] = ["none", "getMetrics", "getOpenapi", "getOpenapi30"];

/// Bytes that requests may hold together.
pub(super) struct Budget {
    all: usize,
    used: AtomicUsize,
}

/// What one request holds of the budget; given back when dropped.
pub(super) struct Hold {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(all: usize) -> Arc<Self> {
        Arc::new(Self { all, used: AtomicUsize::new(0) })
    }

    /// The most that a single body can hold.
    pub fn largest(&self) -> usize {
        self.all - self.all / RESERVE
    }

    /// The most that one answer may ask for where it can be made smaller: beside it there is room for others.
    pub fn largest_answer(&self) -> usize {
        self.largest() / 2
    }

    /// A hold on nothing yet.
    pub fn hold(self: &Arc<Self>) -> Hold {
        Hold { budget: self.clone(), bytes: 0 }
    }
}

impl Hold {
    /// Holds so many bytes from now on. Errors: 503 `overloaded` where there is no room for them.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Problem> {
        let most = if bytes > SMALL { self.budget.largest() } else { self.budget.all };
        let more = bytes.saturating_sub(self.bytes);
        let kept = |used: &usize| *used <= most || seeded::bug("budget not kept");
        let room = |used: usize| used.checked_add(more).filter(kept);
        if more > 0 {
            let used = &self.budget.used;
            let grown = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
            grown.map_err(|_| overloaded())?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Holds so many bytes from now on, even where there is no room: what was done must be answered.
    fn take(&mut self, bytes: usize) {
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

fn overloaded() -> Problem {
    let detail = "requests and answers in flight use all the memory they may; nothing happened";
    Problem::new(Code::Overloaded, detail).retry_after(1)
}

/// Reads a body whole. `declared`: its length, where the client says it.
///
/// Errors: 413 above `limit`, 503 `overloaded`, 400 where it cannot be read, 408 where nothing of it, or less than a
/// good piece, comes within `patience`.
pub(super) async fn read(
    mut body: Body,
    limit: usize,
    declared: Option<usize>,
    patience: Duration,
    hold: &mut Hold,
) -> Result<Bytes, Problem> {
    let longest = declared.unwrap_or(limit).min(limit);
    let mut whole: Vec<u8> = Vec::new();
    let (mut deadline, mut due) = (Instant::now() + patience, PIECE);
    while let Some(frame) = timeout_at(deadline, body.frame()).await.map_err(|_| too_slow())? {
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
        // Copied: a piece of a few bytes would keep all of the buffer that it was read into.
        if length > whole.capacity() {
            let capacity = length.max((2 * length).min(longest));
            hold.grow_to(capacity)?;
            whole.reserve_exact(capacity - whole.len());
        }
        whole.extend_from_slice(&data);
        if length >= due {
            (deadline, due) = (Instant::now() + patience, length + PIECE);
        }
    }
    Ok(whole.into())
}

/// The body is larger than dueq takes.
pub(super) fn too_large(limit: usize) -> Problem {
    let detail = format!("the body is larger than {limit} bytes");
    Problem::new(Code::BodyTooLarge, detail)
}

fn too_slow() -> Problem {
    let detail = "the body was not sent in time";
    Problem::new(Code::RequestTimeout, detail)
}

/// Counts an answer until its client has taken it. Errors: 503 `overloaded` where there is no room for it and nothing
/// was done that it tells of.
pub(super) fn count(
    budget: &Arc<Budget>,
    method: &Method,
    operation: &str,
    response: &mut Response<Body>,
) -> Result<(), Problem> {
    let bytes = http_body::Body::size_hint(response.body()).lower() as usize;
    if bytes <= TINY {
        return Ok(());
    }
    let held = response.extensions_mut().remove::<Arc<Hold>>();
    let hold = match held {
        Some(hold) => hold,
        None => {
            let mut hold = budget.hold();
            if *method == Method::GET && !NEVER_REFUSED.contains(&operation) {
                hold.grow_to(bytes)?;
            } else {
                hold.take(bytes);
            }
            Arc::new(hold)
        }
    };
    let inner = std::mem::take(response.body_mut());
    *response.body_mut() = Body::new(Held { inner, hold });
    Ok(())
}

/// An answer whose bytes are held until the connection has written them.
struct Held {
    inner: Body,
    hold: Arc<Hold>,
}

/// Some of its bytes.
struct HeldBytes(Bytes, #[expect(dead_code, reason = "it is held")] Arc<Hold>);

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

    const PATIENCE: Duration = Duration::from_secs(60);

    fn used(budget: &Budget) -> usize {
        budget.used.load(Ordering::Relaxed)
    }

    #[test]
    fn what_is_small_finds_room_where_what_is_large_does_not() {
        let budget = Budget::new(8 << 20);
        let mut large = budget.hold();
        large.grow_to(7 << 20).unwrap();
        let mut next = budget.hold();
        next.grow_to(SMALL).unwrap();
        assert_eq!(next.grow_to(SMALL + 1), Err(overloaded()), "the rest is for the small");
        assert_eq!(used(&budget), (7 << 20) + SMALL, "what was refused holds nothing");
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
    async fn an_answer_is_held_until_its_bytes_are_gone() {
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
    fn only_an_answer_that_tells_of_no_change_is_refused() {
        let budget = Budget::new(1 << 20);
        budget.hold().grow_to(1 << 19).unwrap();
        let mut all = budget.hold();
        all.take(1 << 20);
        let answer = |method: Method, operation| {
            let mut response = Response::new(Body::from(vec![b'x'; 5000]));
            count(&budget, &method, operation, &mut response)
        };
        assert_eq!(answer(Method::GET, "listTopics"), Err(overloaded()));
        assert_eq!(answer(Method::GET, "getMetrics"), Ok(()));
        assert_eq!(answer(Method::POST, "publishBatch"), Ok(()));
    }

    #[tokio::test]
    async fn pieces_of_a_body_are_copied_and_counted_by_the_room_that_they_take() {
        let budget = Budget::new(8 << 20);
        let pieces = |sizes: &[usize]| {
            let all = sizes.iter().map(|size| Ok::<_, std::io::Error>(vec![b'x'; *size]));
            Body::from_stream(futures_util::stream::iter(all.collect::<Vec<_>>()))
        };
        for (sizes, declared, held) in
            [(&[3, 4][..], Some(7), 7), (&[1000, 1000, 1], None, 4002), (&[5], Some(5), 5)]
        {
            let mut hold = budget.hold();
            let body = read(pieces(sizes), 100_000, declared, PATIENCE, &mut hold).await.unwrap();
            assert_eq!(body.len(), sizes.iter().sum::<usize>());
            assert_eq!(used(&budget), held, "{sizes:?}");
        }
        let large =
            read(pieces(&[60_000, 60_000]), 100_000, None, PATIENCE, &mut budget.hold()).await;
        assert_eq!(large, Err(too_large(100_000)));
    }

    #[tokio::test]
    async fn a_body_that_comes_steadily_may_take_longer_than_one_piece_of_it() {
        let pieces = |size: usize| {
            let pieces = futures_util::stream::unfold(0, move |n| async move {
                tokio::time::sleep(Duration::from_millis(150)).await;
                (n < 8).then(|| (Ok::<_, std::io::Error>(vec![b'x'; size]), n + 1))
            });
            Body::from_stream(pieces)
        };
        let (budget, patience) = (Budget::new(8 << 20), Duration::from_secs(1));
        let steady = read(pieces(PIECE), 1 << 20, None, patience, &mut budget.hold()).await;
        assert_eq!(steady.unwrap().len(), 8 * PIECE);
        let trickle = read(pieces(100), 1 << 20, None, patience, &mut budget.hold()).await;
        assert_eq!(trickle, Err(too_slow()));
    }
}
