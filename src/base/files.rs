//! Files that hold secrets: read with a bound in size and time, since a pipe may be
//! behind the path, and warned about where other users may read them, too. And files that are written in one step.

use rustix::{
    fs::OFlags,
    process::{Resource, getrlimit, setrlimit},
};
use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

/// The most that is read of a file.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// How long a pipe may take to bring what it holds, and how often it is asked.
const MAX_WAIT: Duration = Duration::from_secs(10);
const ASK_INTERVAL: Duration = Duration::from_millis(10);

/// A file that cannot be used. The message is one line and quotes nothing of the content.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It is larger than 16 MiB.
    #[error("{0} is larger than 16 MiB")]
    TooLarge(PathBuf),
    /// It was to be read again, and is a pipe or the like.
    #[error("{0} is not a regular file")]
    NotRegular(PathBuf),
    /// It is not UTF-8.
    #[error("{0} is not text in UTF-8")]
    NotText(PathBuf),
    /// It holds nothing.
    #[error("{0} is empty")]
    Empty(PathBuf),
    /// It was to hold one line.
    #[error("{0} has more than one line")]
    Lines(PathBuf),
}

/// Tells one content of a regular file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    device: u64,
    inode: u64,
    size: u64,
    /// When it was written, s and ns.
    written: (i64, i64),
    /// When it or its mode was changed, s and ns.
    changed: (i64, i64),
}

impl Look {
    /// That of the file at this path, if there is a regular one.
    pub fn at(path: &Path) -> Option<Self> {
        Self::of(&fs::metadata(path).ok()?)
    }

    fn of(file: &Metadata) -> Option<Self> {
        file.is_file().then(|| Self {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            written: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

/// What a file held when it was read.
#[derive(Debug)]
pub struct Content {
    /// All of it.
    pub bytes: Vec<u8>,
    /// It can be read again, which a pipe cannot.
    pub is_regular: bool,
    is_public: bool,
}

impl Content {
    /// Reads a file.
    ///
    /// Errors: it cannot be read or is too large.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let (file, metadata) = open(path)?;
        Self::of(file, &metadata, path)
    }

    /// Logs a warning if every user of the machine may read the file at this path, from which it came. To be called once the
    /// content is found good: a file that is refused has its own message.
    pub fn warn_if_public(&self, path: &Path) {
        if self.is_public {
            tracing::warn!("every user of this machine may read {}: chmod o= it", path.display());
        }
    }

    /// Reads a file again. Errors: those of [`read`](Self::read), and no regular file.
    pub fn read_again(path: &Path) -> Result<Self, FileError> {
        match open(path)? {
            (file, metadata) if metadata.is_file() => Self::of(file, &metadata, path),
            _ => Err(FileError::NotRegular(path.to_owned())),
        }
    }

    fn of(file: File, metadata: &Metadata, path: &Path) -> Result<Self, FileError> {
        let bytes = read_bounded(Patient { file, end: Instant::now() + MAX_WAIT }, path)?;
        let is_public = metadata.mode() & 0o007 != 0;
        Ok(Self { bytes, is_regular: metadata.is_file(), is_public })
    }
}

/// Reads a file.
///
/// Errors: it cannot be read or is too large.
pub fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    Content::read(path).map(|content| content.bytes)
}

/// Does not wait for the writer of a pipe.
fn open(path: &Path) -> Result<(File, Metadata), FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    Ok((file, metadata))
}

/// Whether the file at this path ends in a line break, as one does that is written to its end. False for one that
/// cannot be read.
pub fn ends_in_line_break(path: &Path) -> bool {
    let last = || {
        let (file, metadata) = open(path).ok().filter(|(_, metadata)| metadata.is_file())?;
        let mut last = [0];
        file.read_exact_at(&mut last, metadata.len().checked_sub(1)?).ok()?;
        Some(last)
    };
    last() == Some([b'\n'])
}

fn read_bounded(file: impl Read, path: &Path) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(FileError::TooLarge(path.to_owned()));
    }
    Ok(bytes)
}

/// A file that does not block, read until a certain time.
struct Patient {
    file: File,
    end: Instant,
}

impl Read for Patient {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while Instant::now() < self.end {
            match self.file.read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(ASK_INTERVAL),
                read => return read,
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// Reads a file of text that others should not read, has `parse` make something of it, and logs a warning if others may
/// read what is good.
///
/// Errors: it cannot be read, is too large or no text; those of `parse`.
pub fn secret_text<T, E: From<FileError>>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, E> {
    let content = Content::read(path)?;
    let text = str::from_utf8(&content.bytes).map_err(|_| FileError::NotText(path.to_owned()))?;
    let parsed = parse(text)?;
    content.warn_if_public(path);
    Ok(parsed)
}

/// A file that is there once it is complete. Until then it has a name that nobody can have prepared, in the same directory.
/// Only its owner may read it. A symbolic link at its path is replaced; its target is not touched.
pub struct NewFile {
    file: File,
    /// Nothing once it has its name.
    partial: Option<PathBuf>,
    path: PathBuf,
}

impl NewFile {
    /// Creates the file that will be at `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        let partial = path.with_file_name(format!(".dueq-{}.partial", random_name()?));
        let file = create_new(&partial)?;
        Ok(Self { file, partial: Some(partial), path: path.to_owned() })
    }

    /// Gives it its name, once it is on disk. One that is dropped before is removed.
    pub fn keep(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if let Some(partial) = &self.partial {
            fs::rename(partial, &self.path)?;
        }
        self.partial = None;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            let _ = fs::remove_file(partial);
        }
    }
}

/// Writes a file in one step: a process that waits for it never sees half of it.
pub fn write_atomically(path: &Path, text: &str) -> io::Result<()> {
    let mut file = NewFile::create(path)?;
    file.write_all(text.as_bytes())?;
    file.keep()
}

/// Creates a file that only its owner may read. Errors: something has this name, be it a link.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// A part of a name that nobody can guess.
pub fn random_name() -> io::Result<String> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(hex::encode(random))
}

/// Reads a file whose content is one secret. A line break at its end does not belong to the secret.
///
/// Errors: those of [`secret_text`], an empty file, and one with several lines.
pub fn secret(path: &Path) -> Result<String, FileError> {
    secret_text(path, |text| {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        match text {
            "" => Err(FileError::Empty(path.to_owned())),
            text if text.contains(['\n', '\r']) => Err(FileError::Lines(path.to_owned())),
            text => Ok(text.to_owned()),
        }
    })
}

/// Raises the limit of open files to the system's maximum. Every connection is an open file.
///
/// Errors: the system refuses it.
pub fn raise_limit() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    Ok(setrlimit(Resource::Nofile, limit)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_one_line_without_its_break() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let read = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            secret(&path)
        };
        for (text, is) in [
            (&b"sesame"[..], "sesame"),
            (b"sesame\n", "sesame"),
            (b"sesame\r\n", "sesame"),
            (b" sesame ", " sesame "),
        ] {
            assert_eq!(read(text).unwrap(), is);
        }
        for (text, reason) in [
            (&b""[..], "is empty"),
            (b"\n", "is empty"),
            (b"\r\n", "is empty"),
            (b"sesame\n\n", "more than one line"),
            (b"open\nsesame\n", "more than one line"),
            (b"sesame\xff", "not text"),
            (&vec![b'x'; MAX_BYTES as usize + 1], "larger than"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("secret"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
        assert!(secret(dir.path()).unwrap_err().to_string().starts_with("cannot read"));
        assert!(secret(&dir.path().join("none")).is_err());
    }

    #[test]
    fn a_pipe_is_read_to_its_end_and_not_waited_for_in_vain() {
        use std::io::Write as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let (reader, _) = open(&path).unwrap();
        let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
        let mut patient = Patient { file: reader, end: Instant::now() + ASK_INTERVAL * 5 };
        let mut bytes = Vec::new();
        writer.write_all(b"sesame").unwrap();
        let error = patient.read_to_end(&mut bytes).unwrap_err();
        assert_eq!((error.kind(), &bytes[..]), (io::ErrorKind::TimedOut, &b"sesame"[..]));
        let read = std::thread::spawn({
            let path = path.clone();
            move || Content::read(&path)
        });
        sleep(ASK_INTERVAL * 5);
        writer.write_all(b"open").unwrap();
        drop((writer, patient));
        let content = read.join().unwrap().unwrap();
        assert_eq!((&content.bytes[..], content.is_regular), (&b"open"[..], false));
        assert!(matches!(Content::read_again(&path), Err(FileError::NotRegular(_))));
        assert!(matches!(super::read(Path::new("/dev/zero")), Err(FileError::TooLarge(_))));
    }
}
