//! The key file while dueq serves: it is looked at every second, and read again when it has changed and on SIGHUP. What is
//! wrong with it is said once, and the keys stay as they were. Everything happens on a thread that serves no requests.

use super::{
    AccessError,
    key_file::KeyFile,
    keys::{Keys, read_file},
};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
    time::sleep,
};

const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A file counts as written once it has stayed the same for this long; it is looked at so often at most.
const SETTLE_TIME: Duration = Duration::from_millis(50);
const SETTLE_TRIES: usize = 10;
/// A file that has changed this recently may change again within one tick of its file system's clock.
const YOUNG: Duration = Duration::from_secs(2);

/// Tells one content of a file from another: device, inode, size, and when it changed, s and ns. `None`: no such file.
type Look = Option<(u64, u64, u64, i64, i64)>;

/// A key file, as it was seen last.
struct Follower {
    path: PathBuf,
    seen: Look,
    /// What was read may not be all that the last look stands for.
    is_young: bool,
    /// The last look found a file without keys.
    was_empty: bool,
    /// What was said to be wrong.
    said: Option<String>,
}

/// Keeps the keys as their file says, if they have one. Does not end.
pub(super) async fn follow(keys: Arc<Keys>, path: PathBuf) {
    let mut hangups = signal(SignalKind::hangup()).ok();
    let (seen, is_young) = (None, true);
    let mut follower = Follower { path, seen, is_young, was_empty: false, said: None };
    loop {
        let hangup = async { hangups.as_mut()?.recv().await };
        let is_asked = tokio::select! {
            () = sleep(LOOK_INTERVAL) => false,
            Some(()) = hangup => true,
        };
        let keys = keys.clone();
        let step = spawn_blocking(move || {
            follower.step(&keys, is_asked);
            follower
        });
        match step.await {
            Ok(after) => follower = after,
            // Whoever runs this logs it, and starts it again.
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The runtime ends.
            Err(_) => return,
        }
    }
}

impl Follower {
    fn step(&mut self, keys: &Keys, is_asked: bool) {
        let look = look(&self.path);
        if look == self.seen && !is_asked && !self.is_young && !self.was_empty {
            return;
        }
        let begun = Instant::now();
        let (seen, file) = self.read_settled();
        let is_changed = seen != self.seen;
        (self.seen, self.is_young) = (seen, is_young(seen));
        let file = match file {
            Ok(file) => file,
            Err(error) => {
                let reason = error.to_string();
                if is_asked || self.said.as_ref() != Some(&reason) {
                    tracing::error!(reason, "the API keys stay as they were");
                }
                (self.said, self.was_empty) = (Some(reason), false);
                return;
            }
        };
        self.said = None;
        // A file may be seen when it was cut off to be written anew.
        let is_empty = file.entries.is_empty();
        if is_empty && !self.was_empty {
            self.was_empty = true;
            return;
        }
        self.was_empty = false;
        let count = file.entries.len();
        if keys.take(file) {
            let ms = begun.elapsed().saturating_sub(SETTLE_TIME).as_millis() as u64;
            tracing::info!(count, ms, "the API keys in {} are in force", self.path.display());
            if is_empty {
                tracing::error!("no API key in {}: every request is refused", self.path.display());
            }
        } else if is_asked && !is_changed {
            tracing::info!(count, "the API keys in {} have not changed", self.path.display());
        }
    }

    /// Reads the file once nobody writes it any more, as far as can be told.
    fn read_settled(&self) -> (Look, Result<KeyFile, AccessError>) {
        let mut before = look(&self.path);
        let mut file = read_file(&self.path);
        for _ in 0..SETTLE_TRIES {
            std::thread::sleep(SETTLE_TIME);
            let after = look(&self.path);
            if after == before {
                break;
            }
            (before, file) = (after, read_file(&self.path));
        }
        (before, file)
    }
}

fn look(path: &Path) -> Look {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
}

fn is_young(look: Look) -> bool {
    let Some((.., seconds, _)) = look else { return false };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.as_secs().saturating_sub(seconds.max(0) as u64) < YOUNG.as_secs()
}
