//! Sleeps that end on time. tokio's timers count whole milliseconds and end one or two of them late, which would be most
//! of what a message is late by where somebody waits for it. So the last stretch is left to the exact timers of `async-io`.

use std::time::{Duration, Instant};

/// How much is left to the exact timer: more than tokio's are late by, and little, for each wakes a thread.
const EXACT_PART: Duration = Duration::from_millis(3);
/// After this, an exact timer is not waited for.
const EXACT_TIMEOUT: Duration = Duration::from_millis(10);
/// Shorter sleeps are not worth an exact timer: with messages this close upon each other it is cheaper to take some
/// together.
const EXACT_FROM: Duration = Duration::from_millis(1);

/// Sleeps so long, and hardly longer unless it is less than a millisecond.
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
        // Should the exact timers' own thread have ended, nobody may wait for it.
        () = tokio::time::sleep_until((end + EXACT_TIMEOUT).into()) => {}
    }
}

/// Starts what the exact timers need, while there are files to be had: they are made once, at the first use.
pub(super) async fn start() {
    sleep(2 * EXACT_FROM).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_never_ends_early() {
        for micros in [0, 1, 300, 1_000, 2_999, 3_000, 3_001, 7_500] {
            let (length, begin) = (Duration::from_micros(micros), Instant::now());
            sleep(length).await;
            assert!(begin.elapsed() >= length, "{length:?}: {:?}", begin.elapsed());
        }
    }
}
