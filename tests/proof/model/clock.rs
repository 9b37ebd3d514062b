//! Time as a step of a sequence: a Redis whose clock stands still until the test moves it, so that
//! what falls due, what expires and what is forgotten is known to the millisecond, and hours pass in
//! no time. All time of dueq is Redis's, so nothing else has to be told.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::harness::Redis;
use crate::proof::history::now;
use crate::proof::shim::Shim;

/// A clock that stands still.
pub struct Clock {
    shim: Shim,
    now: AtomicI64,
}

impl Clock {
    /// What it shows, ms since 1970.
    pub fn now(&self) -> i64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Moves it forward.
    pub fn advance(&self, ms: i64) {
        let now = self.now.fetch_add(ms, Ordering::Relaxed) + ms;
        self.shim.stand_at(now);
    }
}

/// A redis-server with such a clock, which begins at the machine's time.
pub struct StillRedis {
    /// What it takes for the time of day.
    pub clock: Clock,
    redis: Redis,
}

impl StillRedis {
    /// Starts a Redis that keeps nothing on disk.
    pub async fn start() -> StillRedis {
        let clock = Clock { shim: Shim::new(), now: AtomicI64::new(now()) };
        clock.advance(0);
        let redis = clock.shim.redis(Redis::options().socket()).start().await;
        StillRedis { clock, redis }
    }

    /// The URL as `--redis-url` takes it.
    pub fn url(&self) -> String {
        self.redis.url()
    }
}
