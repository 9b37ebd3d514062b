//! How many tests are at work at once: two a processor, since each starts processes of its own and many measure time. More
//! threads than that wait here, so that a test that says that it mostly waits ([`mostly_waits`]) keeps no other from working.

use std::cell::OnceCell;
use std::sync::LazyLock;
use std::thread::{available_parallelism, current};

use tokio::sync::{Semaphore, SemaphorePermit};

static TURNS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(2 * available_parallelism().map_or(2, usize::from)));

thread_local! {
    /// The turn of the test that runs on this thread, given back with the thread; `None` in one that mostly waits.
    static TURN: OnceCell<Option<SemaphorePermit<'static>>> = const { OnceCell::new() };
}

/// Waits for the turn of this test, which keeps it until its end. All that starts a server asks for it; a test that measures
/// that asks before.
pub async fn turn() {
    turns(1).await;
}

/// The same for a test that keeps as many processes at work as so many others.
pub async fn turns(number: u32) {
    // Only tests have a name with a path: a thread that a test has started works in the turn of the test.
    let is_test = current().name().is_some_and(|name| name.contains("::"));
    if is_test && TURN.with(|turn| turn.get().is_none()) {
        let permit = TURNS.acquire_many(number).await.expect("never closed");
        // Another task of this test may have been quicker; then this turn goes back.
        TURN.with(|turn| drop(turn.set(Some(permit))));
    }
}

/// For the first line of a test that spends its time waiting and takes little of the processors: it needs no turn.
pub fn mostly_waits() {
    TURN.with(|turn| assert!(turn.set(None).is_ok(), "said before the test asks for anything"));
}
