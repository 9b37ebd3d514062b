//! What a scrape of `/metrics` asks Redis. However often and by however many it is scraped, Redis is looked at once for
//! all of them; and a Redis that does not answer holds nobody up.

use crate::AppState;
use dueq_base::metrics::{Contents, RedisGauges, RedisMemory};
use dueq_model::error::Error;
use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::Mutex, time::timeout};

/// How long a look at topics and schedules is shown.
const CONTENTS_INTERVAL: Duration = Duration::from_secs(5);
/// How long an answer of Redis that says that it is up, and its memory, is shown.
const UP_INTERVAL: Duration = Duration::from_secs(1);
/// How long readiness may take to find out.
const READY_TIME: Duration = Duration::from_secs(1);

/// The latest looks.
#[derive(Default)]
pub(crate) struct Scrape {
    memory: Latest<Result<Option<RedisMemory>, Error>>,
    contents: Latest<Option<Arc<Contents>>>,
}

impl Scrape {
    /// Looks at Redis, as far as that is not known, and notes what was found for the metrics.
    pub async fn look(state: &AppState) {
        let Self { memory, contents } = &state.scrape;
        let ready = timeout(READY_TIME, crate::service::readiness(state));
        let memory = memory.get(UP_INTERVAL, state.store.redis_memory());
        let (ready, memory) = tokio::join!(ready, memory);
        let look = async {
            match state.store.contents().await {
                Ok(contents) => Some(Arc::new(contents)),
                Err(error) => {
                    tracing::debug!(%error, "topics could not be looked at for metrics");
                    None
                }
            }
        };
        let up = memory.is_ok();
        state.metrics.saw_redis(RedisGauges {
            ready: matches!(ready, Ok(Ok(_))),
            up,
            memory: memory.ok().flatten(),
            contents: if up { contents.get(CONTENTS_INTERVAL, look).await } else { None },
        });
    }
}

/// A look, and when it was taken.
struct Latest<T>(Mutex<Option<(Instant, T)>>);

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Latest<T> {
    /// The latest look if it is recent, or else a new one, for which all who ask meanwhile wait.
    async fn get(&self, interval: Duration, look: impl Future<Output = T>) -> T {
        let mut latest = self.0.lock().await;
        match &*latest {
            Some((at, found)) if at.elapsed() < interval => found.clone(),
            _ => {
                let found = look.await;
                *latest = Some((Instant::now(), found.clone()));
                found
            }
        }
    }
}
