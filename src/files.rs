//! Files that hold secrets: read with a bound, and warned about where other users may read them, too.

use rustix::fs::Mode;
use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// The most that is read of a file.
const MAX_BYTES: u64 = 1024 * 1024;

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
    /// It is larger than 1 MiB.
    #[error("{0} is larger than 1 MiB")]
    TooLarge(PathBuf),
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

/// Reads a file that others should not read, and logs a warning if they may.
///
/// Errors: it cannot be read or is too large.
pub fn read_private(path: &Path) -> Result<Vec<u8>, FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    let bytes = read_bounded(file, path)?;
    if Mode::from_raw_mode(mode).intersects(Mode::RWXO) {
        tracing::warn!("every user of this machine may read {}: chmod o= it", path.display());
    }
    Ok(bytes)
}

/// Reads a file.
///
/// Errors: it cannot be read or is too large.
pub fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let failed = |source| FileError::Read { path: path.to_owned(), source };
    read_bounded(File::open(path).map_err(failed)?, path)
}

fn read_bounded(file: File, path: &Path) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(FileError::TooLarge(path.to_owned()));
    }
    Ok(bytes)
}

/// Reads a file of lines that others should not read.
///
/// Errors: those of [`read_private`], and no text.
pub fn secret_text(path: &Path) -> Result<String, FileError> {
    String::from_utf8(read_private(path)?).map_err(|_| FileError::NotText(path.to_owned()))
}

/// Reads a file whose content is one secret. A line break at its end does not belong to the secret.
///
/// Errors: those of [`secret_text`], an empty file, and one with several lines.
pub fn secret(path: &Path) -> Result<String, FileError> {
    let mut text = secret_text(path)?;
    for end in ['\n', '\r'] {
        if text.ends_with(end) {
            text.pop();
        }
    }
    if text.is_empty() {
        return Err(FileError::Empty(path.to_owned()));
    }
    if text.contains(['\n', '\r']) {
        return Err(FileError::Lines(path.to_owned()));
    }
    Ok(text)
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
            (&[b'x'; 1024 * 1024 + 1], "larger than"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("secret"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
        assert!(secret(dir.path()).unwrap_err().to_string().starts_with("cannot read"));
        assert!(secret(&dir.path().join("none")).is_err());
    }
}
