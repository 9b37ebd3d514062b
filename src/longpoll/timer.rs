//! Sleeps that end on time. Tokio's timers have a resolution of one millisecond and end one or two milliseconds late. For
//! a message that a consumer waits for, this would be most of its lateness. So the exact timers of `async-io` time the last
//! few milliseconds.

use std::time::{Duration, Instant};

/// The part of a sleep that the exact timer covers. It is longer than Tokio's timers are late, and otherwise short, since
/// each exact timer wakes a thread.
const EXACT_PART: Duration = Duration::from_millis(3);
/// How long to wait for an exact timer that is late.
const EXACT_TIMEOUT: Duration = Duration::from_millis(10);
/// Shorter sleeps do not use the exact timer: it is cheaper to lease messages that are so close to each other together.
const EXACT_FROM: Duration = Duration::from_millis(1);

/// Sleeps for `length`. The sleep ends on time unless it is shorter than a millisecond.
pub(super) async fn sleep(length: Duration) {
    let end = Instant::now() + length;
    if length < EXACT_FROM {
        return tokio::time::sleep(length).await;
    }
    if let Some(most) = length.checked_sub(EXACT_PART) {
        tokio::time::sleep(most).await;
    }
    tokio::select! {
        _ = async_io::Timer::at(end) => {}
        // The thread of the exact timers may have ended.
        () = tokio::time::sleep_until((end + EXACT_TIMEOUT).into()) => {}
    }
}

/// Starts the exact timers. They open their file descriptors at the first use, and later there may be none left.
pub(super) async fn start() {
    sleep(2 * EXACT_FROM).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleep_never_ends_early() {
        for micros in [0, 1, 300, 1_000, 2_999, 3_000, 3_001, 7_500] {
            let (length, begin) = (Duration::from_micros(micros), Instant::now());
            sleep(length).await;
            assert!(begin.elapsed() >= length, "{length:?}: {:?}", begin.elapsed());
        }
    }
}
