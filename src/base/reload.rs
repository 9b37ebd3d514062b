//! Files that are read again while dueq serves: when they change, and on SIGHUP. If the new content is bad, the old
//! stays in force, and the log says so once. A pipe never looks changed, since it can be read only once.

use crate::files::{Content, Look, ends_in_line_break};
use std::{
    fmt::Display,
    hash::{DefaultHasher, Hash, Hasher},
    panic::resume_unwind,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
    time::sleep,
};

/// How often the files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(400);
/// Files are read once they look the same as at the look before. One without a line break at its end may be half written,
/// and has to look the same this often, which takes longer than a second.
const LOOKS_OF_OPEN: u32 = 3;
/// Where files are as they were, their bytes are compared once after so many looks, 2.4 s: file systems note the time of a change to
/// within 2 s at worst, so two changes that leave the size as it is can look like one.
const LOOKS_TO_COMPARE: u32 = 6;
/// What could not be used is tried again after so many looks, 5 s: Redis may take a password later than its file has it.
const LOOKS_TO_RETRY: u32 = 12;

/// A file that changes at every look for so long, 5 s, is reported.
const LOOKS_TO_REPORT: u32 = 12;

/// Calls `step` every so often with `false`, and on SIGHUP with `true`, on a thread that serves no requests. Does not end;
/// panics if `step` does.
async fn tick(interval: Duration, mut step: impl FnMut(bool) + Send + 'static) {
    let mut hangups = signal(SignalKind::hangup()).ok();
    loop {
        let hangup = async { hangups.as_mut()?.recv().await };
        let is_asked = tokio::select! {
            () = sleep(interval) => false,
            Some(()) = hangup => true,
        };
        let stepped = spawn_blocking(move || {
            step(is_asked);
            step
        });
        match stepped.await {
            Ok(after) => step = after,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The runtime ends.
            Err(_) => return,
        }
    }
}

/// Files, as they were at the last look.
pub struct Watched {
    what: &'static str,
    files: Vec<PathBuf>,
    seen: Vec<Option<Look>>,
    /// The hash of their bytes before they were last read.
    bytes: u64,
    /// They have changed since they were last read well.
    is_changed: bool,
    /// How often they have looked the same since.
    same: u32,
    /// How often they have looked different without staying the same for a while.
    other: u32,
    /// What was said to be wrong.
    said: Option<String>,
}

impl Watched {
    /// Looks at the files, before they are read for the first time. `what` they hold is named in the log.
    pub fn new(what: &'static str, files: Vec<PathBuf>) -> Self {
        let seen = look(&files);
        let bytes = hash(&files);
        Self { what, files, seen, bytes, is_changed: false, same: 0, other: 0, said: None }
    }

    /// Calls `read` whenever one of the files has changed (a link may lead elsewhere, too) and on SIGHUP, and passes on
    /// what was read. Returns only if there are no files.
    pub async fn follow<T, E: Display>(
        self,
        read: impl Fn() -> Result<T, E> + Send + 'static,
        take: impl FnMut(T) + Send + 'static,
    ) {
        self.follow_settled(move |_| read().map(Some), take).await;
    }

    /// As [`Watched::follow`], where `read` may put off a file that can be half written, unless it has stayed the same for
    /// longer than a second (`true`): then it returns `None`.
    pub async fn follow_settled<T, E: Display>(
        mut self,
        read: impl Fn(bool) -> Result<Option<T>, E> + Send + 'static,
        mut take: impl FnMut(T) + Send + 'static,
    ) {
        if !self.files.is_empty() {
            tick(LOOK_INTERVAL, move |is_asked| self.step(is_asked, &read, &mut take)).await;
        }
    }

    fn step<T, E: Display>(
        &mut self,
        is_asked: bool,
        read: impl Fn(bool) -> Result<Option<T>, E>,
        take: &mut impl FnMut(T),
    ) {
        let seen = look(&self.files);
        self.same = if seen == self.seen { self.same.saturating_add(1) } else { 0 };
        self.is_changed |= self.same == 0;
        self.seen = seen;
        match self.same {
            0 => self.other += 1,
            LOOKS_OF_OPEN.. => self.other = 0,
            _ => {}
        }
        let is_due = match self.same {
            0 => false,
            1 => self.files.iter().all(|path| ends_in_line_break(path)),
            LOOKS_TO_COMPARE if hash(&self.files) != self.bytes => {
                self.is_changed = true;
                true
            }
            same => same == LOOKS_OF_OPEN || same % LOOKS_TO_RETRY == 0,
        };
        if !(is_asked || self.is_changed && is_due) {
            if self.other >= LOOKS_TO_REPORT {
                self.say("it is still being written".to_owned(), false);
            }
            return;
        }
        self.bytes = hash(&self.files);
        match read(self.same >= LOOKS_OF_OPEN) {
            Ok(Some(value)) => {
                take(value);
                tracing::info!("{}: read again", self.what);
                (self.is_changed, self.said) = (false, None);
            }
            Ok(None) => {}
            Err(error) => {
                self.is_changed = true;
                self.say(error.to_string(), is_asked);
            }
        }
    }

    /// Logs what is wrong, once unless it is asked for.
    fn say(&mut self, reason: String, is_asked: bool) {
        if is_asked || self.said.as_ref() != Some(&reason) {
            tracing::error!(reason, "{}: the old stays in force", self.what);
        }
        self.said = Some(reason);
    }
}

fn look(files: &[PathBuf]) -> Vec<Option<Look>> {
    files.iter().map(|path| Look::at(path)).collect()
}

/// The hash of what regular files hold; a pipe is not opened.
fn hash(files: &[PathBuf]) -> u64 {
    let bytes = |path: &Path| {
        Look::at(path)?;
        Content::read_again(path).ok().map(|content| content.bytes)
    };
    let mut hasher = DefaultHasher::new();
    files.iter().for_each(|path| bytes(path).hash(&mut hasher));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::Cell, fs, time::Instant};

    #[test]
    fn a_change_is_read_once_it_is_whole_and_a_bad_one_keeps_the_old() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        fs::write(&path, "1\n").unwrap();
        let mut watched = Watched::new("a number", vec![path.clone()]);
        let (reads, mut number) = (Cell::new(0), 1);
        let read = |_| {
            reads.set(reads.get() + 1);
            fs::read_to_string(&path).unwrap_or_default().trim().parse::<u32>().map(Some)
        };
        // How many looks it takes until it is read, and what is then in force.
        let mut looks = |most: usize| {
            let before = reads.get();
            let step = |_: &usize| {
                watched.step(false, read, &mut |value| number = value);
                reads.get() > before
            };
            let looks = (1..=most).find(step);
            (looks, number)
        };
        assert_eq!(looks(30), (None, 1), "nothing changed");
        fs::write(&path, "22\n").unwrap();
        assert_eq!(looks(30), (Some(2), 22));
        assert_eq!(looks(30), (None, 22));
        // Without its end it may be half written.
        fs::write(&path, "3").unwrap();
        assert_eq!(looks(3), (None, 22));
        fs::write(&path, "333\n").unwrap();
        assert_eq!(looks(30), (Some(2), 333));
        fs::write(&path, "4").unwrap();
        assert_eq!(looks(30), (Some(4), 4));
        // What is bad is tried again, now and then.
        fs::write(&path, "none\n").unwrap();
        assert_eq!([looks(30), looks(30), looks(30)], [(Some(2), 4), (Some(2), 4), (Some(9), 4)]);
        assert_eq!(looks(11), (None, 4));
        fs::remove_file(&path).unwrap();
        assert_eq!(looks(30), (Some(4), 4));
        // Another file takes its place, as tools that write safely do it.
        fs::write(dir.path().join("next"), "5\n").unwrap();
        fs::rename(dir.path().join("next"), &path).unwrap();
        assert_eq!(looks(30), (Some(2), 5));
        assert_eq!(looks(30), (None, 5));
        watched.step(true, read, &mut |value| number = value + 1);
        assert_eq!(number, 6, "as SIGHUP asks for it");
    }

    #[test]
    fn a_second_change_within_one_tick_of_the_file_systems_clock_is_read_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        fs::write(&path, "1\n").unwrap();
        let mut watched = Watched::new("a number", vec![path.clone()]);
        let mut numbers = Vec::new();
        let read = |_| fs::read_to_string(&path).unwrap().trim().parse::<u32>().map(Some);
        let mut looks = |watched: &mut Watched, count| {
            (0..count).for_each(|_| watched.step(false, read, &mut |number| numbers.push(number)));
            std::mem::take(&mut numbers)
        };
        // As if both changes had the same time.
        let unseen = |watched: &mut Watched, text: &str| {
            fs::write(&path, text).unwrap();
            watched.seen = look(&watched.files);
        };
        unseen(&mut watched, "2\n");
        assert_eq!(looks(&mut watched, LOOKS_TO_COMPARE), [2], "read after the start");
        fs::write(&path, "3\n").unwrap();
        assert_eq!(looks(&mut watched, 2), [3]);
        unseen(&mut watched, "4\n");
        assert_eq!(looks(&mut watched, LOOKS_TO_COMPARE - 2), [0; 0]);
        assert_eq!(looks(&mut watched, 1), [4]);
        assert_eq!(looks(&mut watched, 30), [0; 0]);
        // What did not change is not read again.
        fs::write(&path, "4\n").unwrap();
        assert_eq!(looks(&mut watched, 30), [4]);
    }

    #[tokio::test]
    async fn a_tick_comes_again_and_again() {
        let (sender, mut ticks) = tokio::sync::mpsc::unbounded_channel();
        let begun = Instant::now();
        let interval = Duration::from_millis(20);
        let step = move |is_asked| {
            let _ = sender.send(is_asked);
        };
        let ticking = tokio::spawn(tick(interval, step));
        for _ in 0..3 {
            assert_eq!(ticks.recv().await, Some(false));
        }
        assert!(begun.elapsed() >= interval * 3);
        ticking.abort();
    }

    #[tokio::test]
    async fn without_files_there_is_nothing_to_follow() {
        Watched::new("nothing", Vec::new()).follow(|| "1".parse::<u32>(), drop).await;
    }
}
