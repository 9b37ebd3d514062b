//! Files that are read again while dueq serves: when they change, and on SIGHUP. What has become bad keeps what is in
//! force, and is said once. A pipe never looks changed, since it can be read only once.

use crate::files::Look;
use std::{fmt::Display, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
    time::sleep,
};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Files, as they were when they were last read.
pub struct Watched {
    what: &'static str,
    files: Vec<PathBuf>,
    seen: Vec<Option<Look>>,
}

impl Watched {
    /// Looks at the files, before they are read for the first time. `what` they hold is named in the log.
    pub fn new(what: &'static str, files: Vec<PathBuf>) -> Self {
        let seen = look(&files);
        Self { what, files, seen }
    }

    /// Calls `read` whenever one of the files has changed (a link may lead elsewhere, too) and on SIGHUP, and passes on
    /// what was read. Returns only if there are no files.
    ///
    /// Files may be half written, and a certificate comes before its key: a failure counts if the next look, half a second
    /// later, fails as well.
    pub async fn follow<T: Send + 'static, E: Display + Send + 'static>(
        mut self,
        read: impl Fn() -> Result<T, E> + Send + Sync + 'static,
        mut take: impl FnMut(T),
    ) {
        if self.files.is_empty() {
            return;
        }
        let read = Arc::new(read);
        let mut hangup = signal(SignalKind::hangup()).ok();
        let (mut failed, mut said) = (false, None);
        loop {
            let asked = tokio::select! {
                () = sleep(LOOK_EVERY) => false,
                Some(()) = async { hangup.as_mut()?.recv().await } => true,
            };
            let seen = look(&self.files);
            if !asked && !failed && seen == self.seen {
                continue;
            }
            self.seen = seen;
            let read = read.clone();
            let Ok(outcome) = spawn_blocking(move || read()).await else { continue };
            match outcome {
                Ok(value) => {
                    take(value);
                    tracing::info!("{}: read again", self.what);
                    (failed, said) = (false, None);
                }
                Err(_) if !asked && !failed => failed = true,
                Err(error) => {
                    let reason = error.to_string();
                    if asked || said.as_ref() != Some(&reason) {
                        tracing::error!(reason, "{}: the old stays in force", self.what);
                    }
                    (failed, said) = (false, Some(reason));
                }
            }
        }
    }
}

fn look(files: &[PathBuf]) -> Vec<Option<Look>> {
    files.iter().map(|path| Look::at(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    async fn until(condition: impl Fn() -> bool) {
        for _ in 0..500 {
            if condition() {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("5 s passed");
    }

    #[tokio::test]
    async fn a_change_is_read_and_a_bad_one_keeps_the_old() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        fs::write(&path, "1").unwrap();
        let number = Arc::new(Mutex::new(1));
        let reads = Arc::new(AtomicUsize::new(0));
        let watched = Watched::new("a number", vec![path.clone()]);
        let following = {
            let (number, reads, path) = (number.clone(), reads.clone(), path.clone());
            let read = move || {
                reads.fetch_add(1, Ordering::Relaxed);
                fs::read_to_string(&path).unwrap_or_default().parse::<u32>()
            };
            tokio::spawn(watched.follow(read, move |value| *number.lock().unwrap() = value))
        };
        sleep(LOOK_EVERY * 2).await;
        assert_eq!(reads.load(Ordering::Relaxed), 0, "nothing changed");
        fs::write(&path, "2").unwrap();
        until(|| *number.lock().unwrap() == 2).await;
        let before = reads.load(Ordering::Relaxed);
        fs::write(&path, "none").unwrap();
        until(|| reads.load(Ordering::Relaxed) == before + 2).await;
        sleep(LOOK_EVERY * 3).await;
        assert_eq!(reads.load(Ordering::Relaxed), before + 2, "twice, and then it is said");
        assert_eq!(*number.lock().unwrap(), 2);
        // Another file takes its place, as tools that write safely do it.
        fs::write(dir.path().join("new"), "3").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        until(|| *number.lock().unwrap() == 3).await;
        following.abort();
    }
}
