//! How long an operation starts over. A script that answers STALE did nothing, and says that somebody else has changed
//! the topic: the registry is read again and the operation repeated, for as long as a request may wait for Redis.

use std::time::{Duration, Instant};

/// Tries that follow each other at once; later ones leave a moment to whoever changes the topic.
const AT_ONCE: u32 = 3;
const PAUSE: Duration = Duration::from_millis(3);

/// What is left of an operation's tries.
pub(super) struct Patience {
    until: Instant,
    tries: u32,
}

impl Patience {
    /// For an operation that begins now and may take this long.
    pub fn new(limit: Duration) -> Self {
        Self { until: Instant::now() + limit, tries: 0 }
    }

    /// Waits for the next try, the first among them; false when the time is over.
    pub async fn another(&mut self) -> bool {
        self.tries += 1;
        if self.tries > AT_ONCE {
            tokio::time::sleep(PAUSE).await;
        }
        self.tries == 1 || Instant::now() < self.until
    }
}
