//! A copy of the data of an embedded Redis, made while it is served or while it is not.
//!
//! The log that Redis writes is the data. It only grows at its end, or is rewritten under other names; so the log at
//! one instant is a prefix of it, and a Redis that starts on the prefix has the data of that instant. Redis writes to the log
//! before it answers, so whatever was answered before the copy began is in it. Nothing is asked of Redis.

use super::torn;
use dueq_base::files::create_new;
use std::{
    fs::{self, DirBuilder, File},
    io::{self, Read, Write},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

/// Redis rewrites its log now and then; the log is read again then, so many times.
const MAX_LOOKS: usize = 20;
/// Bytes that are copied at once.
const CHUNK: usize = 1 << 20;
const PARTS: &str = "appendonlydir";
const MANIFEST: &str = "appendonly.aof.manifest";
/// The only file before Redis 7.
const SINGLE: &str = "appendonly.aof";

/// Files that together are the data at one instant.
pub struct Snapshot {
    /// Names below the data directory, and as many bytes of the files as belong to it.
    files: Vec<(PathBuf, File, u64)>,
    /// The manifest, if there is one.
    manifest: Option<Vec<u8>>,
}

impl Snapshot {
    /// Takes hold of the data in this directory as they are now.
    ///
    /// Errors: there are none, or they cannot be read.
    pub fn of(data_dir: &Path) -> io::Result<Self> {
        let path = data_dir.join(PARTS).join(MANIFEST);
        for _ in 0..MAX_LOOKS {
            let manifest = match fs::read(&path) {
                Ok(manifest) => manifest,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let file = held(data_dir, SINGLE.into())?;
                    return Ok(Self { files: vec![file], manifest: None });
                }
                Err(error) => return Err(error),
            };
            let names = parts(&manifest).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "its manifest cannot be read")
            })?;
            let held = |name| held(data_dir, Path::new(PARTS).join(name));
            match names.into_iter().map(held).collect::<io::Result<Vec<_>>>() {
                // Open files stay whole, even if Redis puts them away from now on.
                Ok(files) if fs::read(&path)? == manifest => {
                    return Ok(Self { files, manifest: Some(manifest) });
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Err(io::Error::other("Redis rewrites its log all the time"))
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, _, bytes)| bytes).sum()
    }

    /// Writes them into a new directory, which no other user may enter; it is on disk afterwards. `copied` gets the number of bytes
    /// of each step.
    pub fn copy_to(self, to: &Path, mut copied: impl FnMut(u64)) -> io::Result<()> {
        let mut dir = DirBuilder::new();
        dir.mode(0o700);
        dir.create(to)?;
        if let Some(manifest) = &self.manifest {
            dir.create(to.join(PARTS))?;
            create_new(&to.join(PARTS).join(MANIFEST))?.write_all(manifest)?;
        }
        let mut chunk = vec![0; CHUNK];
        for (name, file, bytes) in self.files {
            let mut copy = create_new(&to.join(&name))?;
            let mut rest = file.take(bytes);
            loop {
                let read = rest.read(&mut chunk)?;
                if read == 0 {
                    break;
                }
                copy.write_all(&chunk[..read])?;
                copied(read as u64);
            }
            copy.sync_all()?;
        }
        // The end may lie in the middle of a write.
        torn::mend(to)?;
        for dir in [Some(to.to_owned()), self.manifest.map(|_| to.join(PARTS))].iter().flatten() {
            File::open(dir)?.sync_all()?;
        }
        Ok(())
    }
}

fn held(data_dir: &Path, name: PathBuf) -> io::Result<(PathBuf, File, u64)> {
    let file = File::open(data_dir.join(&name))?;
    let bytes = file.metadata()?.len();
    Ok((name, file, bytes))
}

/// The files that a manifest names: `file appendonly.aof.3.incr.aof seq 3 type i`. Those of the type `h` are put away.
fn parts(manifest: &[u8]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for line in std::str::from_utf8(manifest).ok()?.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let ["file", name, "seq", _, "type", kind, ..] = words[..] else { return None };
        if name.contains('/') {
            return None;
        }
        if kind != "h" {
            names.push(name.to_owned());
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_the_instant_is_not_in_the_copy() {
        let temp = tempfile::tempdir().unwrap();
        let (from, to) = (temp.path().join("data"), temp.path().join("copy"));
        fs::create_dir_all(from.join(PARTS)).unwrap();
        let manifest = "file a.base.rdb seq 1 type b\nfile a.old.aof seq 1 type h\nfile a.incr.aof seq 2 type i startoffset 3\n";
        fs::write(from.join(PARTS).join(MANIFEST), manifest).unwrap();
        fs::write(from.join(PARTS).join("a.base.rdb"), "REDIS").unwrap();
        let log = from.join(PARTS).join("a.incr.aof");
        let command = "*1\r\n$4\r\nPING\r\n";
        fs::write(&log, command).unwrap();
        let snapshot = Snapshot::of(&from).unwrap();
        assert_eq!(snapshot.bytes(), 5 + command.len() as u64);
        fs::write(&log, [command, command].concat()).unwrap();
        fs::remove_file(from.join(PARTS).join("a.base.rdb")).unwrap();
        let mut copied = 0;
        snapshot.copy_to(&to, |bytes| copied += bytes).unwrap();
        assert_eq!(copied, 5 + command.len() as u64);
        assert_eq!(fs::read_to_string(to.join(PARTS).join("a.incr.aof")).unwrap(), command);
        assert_eq!(fs::read_to_string(to.join(PARTS).join("a.base.rdb")).unwrap(), "REDIS");
        assert_eq!(fs::read_to_string(to.join(PARTS).join(MANIFEST)).unwrap(), manifest);
        assert!(!to.join(PARTS).join("a.old.aof").exists());
        // Without its base there is nothing that can be copied.
        assert!(Snapshot::of(&from).is_err());
    }

    #[test]
    fn a_single_file_is_copied_too() {
        let temp = tempfile::tempdir().unwrap();
        let to = temp.path().join("copy");
        assert_eq!(Snapshot::of(temp.path()).err().unwrap().kind(), io::ErrorKind::NotFound);
        // The last command is not whole.
        fs::write(temp.path().join(SINGLE), "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI").unwrap();
        Snapshot::of(temp.path()).unwrap().copy_to(&to, |_| ()).unwrap();
        assert_eq!(fs::read_to_string(to.join(SINGLE)).unwrap(), "*1\r\n$4\r\nPING\r\n");
    }
}
