//! The key file while dueq serves: it is looked at every second, and read again when it has changed and on SIGHUP. What is
//! wrong with it is said once, and the keys stay as they were. What may be half written counts if it is the same a second
//! later. Everything happens on a thread that serves no requests.

use super::{
    key_file::Digest,
    keys::{Keys, digest},
};
use dueq_base::{
    files::{Content, FileError, Look},
    reload::tick,
};
use std::{
    fmt::Display,
    future::pending,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant, SystemTime},
};

const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// A file counts as written once it has stayed the same for this long; it is looked at so often at most.
const SETTLE_TIME: Duration = Duration::from_millis(50);
const SETTLE_TRIES: usize = 10;
/// For so long a file may be half written before that is said.
const MAX_DOUBT: Duration = Duration::from_secs(5);
/// A file that has changed this recently may change again within one tick of its file system's clock.
const YOUNG: Duration = Duration::from_secs(2);

/// A key file, as it was seen last.
struct Follower {
    path: PathBuf,
    /// `None`: it could not be read, and is tried at every look.
    seen: Option<Look>,
    /// What was read may not be all that the last look stands for.
    is_young: bool,
    /// The text that is in force.
    taken: Digest,
    /// A text that may be half written, and when it was read.
    doubted: Option<(Digest, Instant)>,
    /// Since when there was none but such texts.
    doubtful: Option<Instant>,
    /// What was said to be wrong.
    said: Option<String>,
}

/// Keeps the keys as their file says, if it can be read more than once. Does not end.
pub(super) async fn follow(keys: Arc<Keys>, path: PathBuf) {
    let Some((seen, taken)) = keys.seen else {
        tracing::info!("{} is not a regular file: it is not read again", path.display());
        return pending().await;
    };
    let (seen, is_young) = (Some(seen), true);
    let mut follower =
        Follower { path, seen, is_young, taken, doubted: None, doubtful: None, said: None };
    tick(LOOK_INTERVAL, move |is_asked| follower.step(&keys, is_asked)).await;
}

impl Follower {
    fn step(&mut self, keys: &Keys, is_asked: bool) {
        self.look(keys, is_asked);
        keys.is_behind.store(self.said.is_some(), Ordering::Relaxed);
    }

    fn look(&mut self, keys: &Keys, is_asked: bool) {
        let look = Look::at(&self.path);
        let is_known = look.is_some() && look == self.seen;
        if is_known && !is_asked && !self.is_young && self.doubted.is_none() {
            return;
        }
        let begun = Instant::now();
        let content = match self.read_settled() {
            Ok(content) => content,
            Err(error) => {
                (self.seen, self.doubted) = (None, None);
                return self.say(&error, is_asked);
            }
        };
        (self.seen, self.is_young) = (content.look, content.look.is_some_and(is_young));
        let text = digest(&content.bytes);
        let parsed = keys.parse(&self.path, &content.bytes);
        // A file may be seen when it was cut off to be written anew, and a line while it is written.
        let is_empty = parsed.as_ref().is_ok_and(|file| file.entries.is_empty());
        let is_doubtful = is_empty || !content.bytes.ends_with(b"\n");
        if is_doubtful && text != self.taken && !self.is_seen_again(text) {
            if is_asked || self.doubtful.get_or_insert_with(Instant::now).elapsed() > MAX_DOUBT {
                let reason = format!("{} is still being written", self.path.display());
                self.say(&reason, is_asked);
            }
            return;
        }
        (self.doubted, self.doubtful) = (None, None);
        let file = match parsed {
            Ok(file) => file,
            Err(error) => return self.say(&error, is_asked),
        };
        (self.said, self.taken) = (None, text);
        let count = file.entries.len();
        if keys.take(file) {
            let ms = begun.elapsed().saturating_sub(SETTLE_TIME).as_millis() as u64;
            tracing::info!(count, ms, "the API keys in {} are in force", self.path.display());
            if is_empty {
                tracing::error!("no API key in {}: every request is refused", self.path.display());
            }
        } else if is_asked {
            tracing::info!(count, "the API keys in {} have not changed", self.path.display());
        }
    }

    /// Says what is wrong, once unless it is asked for.
    fn say(&mut self, error: &dyn Display, is_asked: bool) {
        let reason = error.to_string();
        if is_asked || self.said.as_ref() != Some(&reason) {
            tracing::error!(reason, "the API keys stay as they were");
        }
        self.said = Some(reason);
    }

    /// Was this text there a look ago, too?
    fn is_seen_again(&mut self, text: Digest) -> bool {
        match self.doubted {
            Some((known, at)) if known == text => at.elapsed() >= LOOK_INTERVAL,
            _ => {
                self.doubted = Some((text, Instant::now()));
                false
            }
        }
    }

    /// Reads the file once nobody writes it any more, as far as can be told.
    fn read_settled(&self) -> Result<Content, FileError> {
        let mut content = Content::read_again(&self.path)?;
        for _ in 0..SETTLE_TRIES {
            std::thread::sleep(SETTLE_TIME);
            if Look::at(&self.path) == content.look {
                break;
            }
            content = Content::read_again(&self.path)?;
        }
        Ok(content)
    }
}

fn is_young(look: Look) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.as_secs().saturating_sub(look.changed_at()) < YOUNG.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn a_line_is_a_key_once_it_ends_or_has_stayed_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let whole = format!("first sha256:{HASH} read:*\n");
        fs::write(&path, &whole).unwrap();
        let keys = Keys::read(&[], Some(&path)).unwrap().unwrap();
        let (seen, taken) = keys.seen.unwrap();
        let mut follower = Follower {
            path: path.clone(),
            seen: Some(seen),
            is_young: true,
            taken,
            doubted: None,
            doubtful: None,
            said: None,
        };
        let has = |key: &str| keys.find(&digest(key.as_bytes())).is_some();
        // What is left of a line with this name looks like a key that may do everything.
        let torn = "the-billing-of-orders";
        fs::write(&path, format!("{whole}{torn}")).unwrap();
        for is_asked in [false, true] {
            follower.step(&keys, is_asked);
            assert!(!has(torn) && follower.doubted.is_some());
        }
        fs::write(&path, format!("{whole}{torn} sha256:{} read:*\n", HASH.replace('0', "1")))
            .unwrap();
        follower.step(&keys, false);
        assert!(!has(torn) && follower.doubted.is_none());
        // Without its break it never is one; beside keys without names it is, with time.
        for (text, is_key) in [(format!("{whole}{torn}"), false), (torn.to_owned(), true)] {
            fs::write(&path, text).unwrap();
            follower.step(&keys, false);
            assert!(!has(torn));
            let (_, at) = follower.doubted.as_mut().unwrap();
            *at -= LOOK_INTERVAL;
            follower.step(&keys, false);
            assert_eq!((has(torn), follower.said.is_some()), (is_key, !is_key));
            assert_eq!(keys.is_behind.load(Ordering::Relaxed), !is_key);
        }
        // Whoever writes on and on is told of in the end.
        for (number, is_said) in [(0, false), (1, true), (2, true)] {
            fs::write(&path, format!("{torn}\n# {number}")).unwrap();
            follower.step(&keys, false);
            assert_eq!(follower.said.is_some(), is_said, "{number}");
            let since = follower.doubtful.as_mut().unwrap();
            *since -= MAX_DOUBT;
        }
        assert!(follower.said.as_ref().unwrap().contains("is still being written"));
        fs::remove_file(&path).unwrap();
        follower.step(&keys, false);
        assert!(has(torn) && follower.seen.is_none() && follower.said.is_some());
    }
}
