//! Writes the audit log, on a thread of its own: nobody but this thread waits for a disk that hangs. Records that find the
//! queue full, or cannot be written, are counted, and the log says how many once it goes on.

use super::{now, refusals::Refusals};
use dueq_model::Instant;
use prometheus_client::metrics::counter::Counter;
use rustix::fs::OFlags;
use serde::Serialize;
use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time,
};

const SUM_INTERVAL: time::Duration = time::Duration::from_secs(1);

/// What the writer shares with those who have records.
#[derive(Debug, Default)]
pub struct Shared {
    pub refusals: Refusals,
    /// The file is to be opened again.
    pub reopens: AtomicBool,
    /// The thread is to write what is queued, and to end.
    pub ends: AtomicBool,
    lost: Counter,
    /// Lost records that the log does not mention yet.
    unreported: AtomicU64,
}

impl Shared {
    /// Lost records are counted by this.
    pub fn new(lost: Counter) -> Self {
        Self { lost, ..Self::default() }
    }

    /// Counts a lost record.
    pub fn lose(&self) {
        self.lost.inc();
        self.unreported.fetch_add(1, Relaxed);
    }
}

/// Where records go.
#[derive(Debug)]
pub enum Output {
    File(PathBuf, File),
    /// dueq's own log.
    Log,
}

/// The thread's own.
pub struct Writer {
    output: Output,
    shared: Arc<Shared>,
    /// The file ends within a line.
    is_torn: bool,
    has_failed: bool,
}

#[derive(Serialize)]
struct Lost {
    at: Instant,
    lost: u64,
}

impl Writer {
    /// One that writes there.
    pub fn new(output: Output, shared: Arc<Shared>) -> Self {
        Self { output, shared, is_torn: false, has_failed: false }
    }

    /// Writes lines until it is to end. `None` is there to wake it.
    pub fn run(mut self, lines: &Receiver<Option<String>>) {
        let mut next_sums = time::Instant::now() + SUM_INTERVAL;
        loop {
            // Looked at first: what was queued before is written.
            let ends = self.shared.ends.load(Relaxed);
            let wait = next_sums.saturating_duration_since(time::Instant::now());
            let line = lines.recv_timeout(if ends { time::Duration::ZERO } else { wait });
            if self.shared.reopens.swap(false, Relaxed) {
                self.reopen();
            }
            if let Ok(Some(line)) = &line {
                self.put(line);
            }
            let is_over = line == Err(RecvTimeoutError::Disconnected) || (ends && line.is_err());
            if is_over || time::Instant::now() >= next_sums {
                next_sums = time::Instant::now() + SUM_INTERVAL;
                for sum in self.shared.refusals.take() {
                    self.put(&serde_json::to_string(&sum).unwrap_or_default());
                }
                self.tell_lost();
            }
            if is_over {
                return;
            }
        }
    }

    fn put(&mut self, line: &str) {
        if !(self.tell_lost() && self.write(line)) {
            self.shared.lose();
        }
    }

    /// Returns whether the log knows of all that was lost.
    fn tell_lost(&mut self) -> bool {
        let lost = self.shared.unreported.swap(0, Relaxed);
        if lost == 0 {
            return true;
        }
        let line = serde_json::to_string(&Lost { at: now(), lost }).unwrap_or_default();
        let is_told = self.write(&line);
        if !is_told {
            self.shared.unreported.fetch_add(lost, Relaxed);
        }
        is_told
    }

    /// Returns whether the line was written.
    fn write(&mut self, line: &str) -> bool {
        let Output::File(_, file) = &mut self.output else {
            tracing::info!(target: "audit", "{line}");
            return true;
        };
        let start = if self.is_torn { "\n" } else { "" };
        // One write, so that lines of several processes do not mix.
        let written = write_all(file, &format!("{start}{line}\n"), &mut self.is_torn);
        let had_failed = std::mem::replace(&mut self.has_failed, written.is_err());
        match &written {
            Err(error) if !had_failed => {
                tracing::error!(%error, "the audit log cannot be written");
            }
            Ok(()) if had_failed => tracing::info!("the audit log is written again"),
            _ => {}
        }
        written.is_ok()
    }

    fn reopen(&mut self) {
        let Output::File(path, file) = &mut self.output else { return };
        match append(path) {
            Ok(opened) => {
                self.is_torn &= opened.metadata().is_ok_and(|metadata| metadata.len() > 0);
                *file = opened;
            }
            Err(error) => {
                tracing::error!(%error, "{} cannot be opened again; the old file is written on", path.display());
            }
        }
    }
}

/// Notes whether the file ends within a line, even if not all is written.
fn write_all(file: &mut File, text: &str, is_torn: &mut bool) -> io::Result<()> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                *is_torn = rest[written - 1] != b'\n';
                rest = &rest[written..];
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Opens the file. Errors: it cannot be opened, or is a pipe or a device, which may block for ever.
pub fn append(path: &Path) -> io::Result<File> {
    if let Ok(metadata) = fs::metadata(path) {
        check(&metadata)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    // Another file may have taken its place meanwhile: a pipe must not hold this up until someone reads it.
    let file = options.custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

fn check(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() { Ok(()) } else { Err(io::Error::other("it is not a regular file")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::{io::Read, os::fd::OwnedFd};

    #[test]
    fn what_cannot_be_written_is_told_of_and_tears_no_other_line() {
        let (mut reader, pipe) = io::pipe().unwrap();
        rustix::fs::fcntl_setfl(&pipe, OFlags::NONBLOCK).unwrap();
        let shared = Arc::new(Shared::default());
        let file = File::from(OwnedFd::from(pipe));
        let mut writer = Writer::new(Output::File(PathBuf::new(), file), shared.clone());
        // Lines longer than what a pipe takes in one piece: the last is torn.
        let line = format!("{{\"line\":\"{}\"}}", "x".repeat(5000));
        for _ in 0..50 {
            writer.put(&line);
        }
        let lost = shared.lost.get();
        assert!(lost > 0 && lost < 50 && writer.is_torn, "{lost}");
        let mut text = vec![0; 1 << 20];
        let length = reader.read(&mut text).unwrap();
        text.truncate(length);
        writer.put(&line);
        drop(writer);
        reader.read_to_end(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<_> = text.lines().map(serde_json::from_str::<Value>).collect();
        assert_eq!(lines.iter().filter(|line| line.is_err()).count(), 1, "the torn one");
        let told = lines.iter().flatten().find_map(|line| line["lost"].as_u64());
        assert_eq!(told, Some(lost));
        assert_eq!(lines.len() as u64, 50 - lost + 3);
        assert!(!text.contains("\n\n") && shared.lost.get() == lost);
    }

    #[test]
    fn only_a_regular_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
        for path in [&*pipe, dir.path(), Path::new("/dev/null")] {
            assert_eq!(append(path).unwrap_err().to_string(), "it is not a regular file");
        }
        append(&dir.path().join("new")).unwrap();
    }
}
