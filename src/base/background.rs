//! Supervises the background tasks, which run as long as dueq does. No client waits for an answer that would report a
//! panic in one of them. So a task that panics is restarted, and dueq is not ready until it runs again.

use futures_util::FutureExt;
use std::{
    collections::BTreeMap,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// The pause before the first restart. It doubles with each restart…
const MIN_RESTART_PAUSE: Duration = Duration::from_secs(1);
/// …up to this.
const MAX_RESTART_PAUSE: Duration = Duration::from_secs(30);
/// A task that has run this long starts over with the shortest pause.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// The background tasks of one instance that are waiting for a restart. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Background {
    broken: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

impl Background {
    /// Runs a task until it returns, and restarts it whenever it panics.
    pub async fn keep<T, F: Future<Output = T>>(
        &self,
        name: &'static str,
        mut task: impl FnMut() -> F,
    ) -> T {
        let mut pause = MIN_RESTART_PAUSE;
        loop {
            let started = Instant::now();
            let running = Box::pin(async { task().await });
            if let Ok(output) = AssertUnwindSafe(running).catch_unwind().await {
                return output;
            }
            if started.elapsed() >= STABLE_AFTER {
                pause = MIN_RESTART_PAUSE;
            }
            let pause_ms = pause.as_millis() as u64;
            tracing::error!(task = name, pause_ms, "a background task panicked; restarting it");
            let _broken = Broken::new(self, name);
            sleep(pause).await;
            pause = (pause * 2).min(MAX_RESTART_PAUSE);
        }
    }

    /// The name of a task that is waiting for its restart, if any.
    pub fn broken(&self) -> Option<&'static str> {
        self.lock().keys().next().copied()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, usize>> {
        // Nothing panics while it holds the lock.
        self.broken.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Marks a task of this name as broken until dropped. Several tasks may share a name.
struct Broken<'a>(&'a Background, &'static str);

impl<'a> Broken<'a> {
    fn new(background: &'a Background, name: &'static str) -> Self {
        *background.lock().entry(name).or_default() += 1;
        Self(background, name)
    }
}

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        let mut broken = self.0.lock();
        if let Some(count) = broken.get_mut(self.1) {
            *count -= 1;
            if *count == 0 {
                broken.remove(self.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::JoinHandle;

    #[tokio::test]
    async fn a_task_that_panics_is_reported_until_it_is_restarted() {
        let background = Background::default();
        let mut starts = 0;
        let task = || {
            starts += 1;
            let (start, background) = (starts, background.clone());
            async move {
                assert_eq!(background.broken(), None, "it runs again");
                assert_eq!(start, 2, "it panics once, on purpose");
                start
            }
        };
        let watch = async {
            sleep(MIN_RESTART_PAUSE / 2).await;
            background.broken()
        };
        let (output, seen) = tokio::join!(background.keep("a task", task), watch);
        assert_eq!((output, seen, background.broken()), (2, Some("a task"), None));
    }

    #[tokio::test]
    async fn tasks_of_one_name_are_counted_and_an_aborted_one_is_not_broken() {
        let background = Background::default();
        let panicking = || -> JoinHandle<()> {
            let background = background.clone();
            let task = async || panic!("on purpose");
            tokio::spawn(async move { background.keep("lane", task).await })
        };
        let (one, other) = (panicking(), panicking());
        sleep(MIN_RESTART_PAUSE / 4).await;
        one.abort();
        let _ = one.await;
        assert_eq!(background.broken(), Some("lane"));
        other.abort();
        let _ = other.await;
        assert_eq!(background.broken(), None);
    }
}
