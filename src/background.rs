//! What runs by itself for as long as dueq does. Where such a part breaks, nobody waits for an answer that would tell: so
//! it is begun again, and dueq is not ready until it runs.

use futures_util::FutureExt;
use std::{
    collections::BTreeMap,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Before a part that broke is begun again; twice as long each time…
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// …until it has run for so long.
const STABLE: Duration = Duration::from_secs(60);

/// All parts of one instance, and which of them do not run at the moment. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Background {
    broken: Arc<Mutex<BTreeMap<&'static str, usize>>>,
}

impl Background {
    /// Runs a part until it ends as it means to, which one that is a loop never does. Where it panics it is begun anew.
    pub async fn keep<T, F: Future<Output = T>>(
        &self,
        name: &'static str,
        mut part: impl FnMut() -> F,
    ) -> T {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            let running = Box::pin(async { part().await });
            if let Ok(ended) = AssertUnwindSafe(running).catch_unwind().await {
                return ended;
            }
            if begun.elapsed() >= STABLE {
                pause = FIRST_PAUSE;
            }
            let pause_ms = pause.as_millis() as u64;
            tracing::error!(part = name, pause_ms, "a part of dueq broke; it is begun again");
            let _broken = Broken::new(self, name);
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// A part that does not run at the moment, if there is one.
    pub fn broken(&self) -> Option<&'static str> {
        self.lock().keys().next().copied()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, usize>> {
        // Nothing in here panics half way through a change.
        self.broken.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// While it lives, a part of this name is broken. Many parts may have one name.
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
    async fn a_part_that_breaks_is_begun_again_and_told_of_until_then() {
        let background = Background::default();
        let mut times = 0;
        let part = || {
            times += 1;
            let (now, background) = (times, background.clone());
            async move {
                assert_eq!(background.broken(), None, "it runs again");
                assert_eq!(now, 2, "it breaks once, on purpose");
                now
            }
        };
        let watch = async {
            sleep(FIRST_PAUSE / 2).await;
            background.broken()
        };
        let (ended, seen) = tokio::join!(background.keep("a part", part), watch);
        assert_eq!((ended, seen, background.broken()), (2, Some("a part"), None));
    }

    #[tokio::test]
    async fn parts_of_one_name_are_told_apart_and_one_that_is_stopped_is_not_broken() {
        let background = Background::default();
        let breaking = || -> JoinHandle<()> {
            let background = background.clone();
            let part = async || panic!("on purpose");
            tokio::spawn(async move { background.keep("lane", part).await })
        };
        let (one, other) = (breaking(), breaking());
        sleep(FIRST_PAUSE / 4).await;
        one.abort();
        let _ = one.await;
        assert_eq!(background.broken(), Some("lane"));
        other.abort();
        let _ = other.await;
        assert_eq!(background.broken(), None);
    }
}
