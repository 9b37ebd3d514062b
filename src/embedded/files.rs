//! The data directory: made, locked, tidied of what a crash left, and the place of the socket.

use super::{StartError, process};
use dueq_base::files::random_name;
use rustix::process::geteuid;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, symlink},
    },
    path::{Path, PathBuf},
};

/// The kernel's `sun_path` holds 108 bytes with its end mark on Linux, 104 elsewhere.
const SOCKET_PATH_MAX: usize = 103;

/// A log longer than this at the start is put aside as `redis.log.1`.
const LOG_MAX_BYTES: u64 = 8 << 20;

/// A data directory that this process holds alone for as long as the value lives.
#[derive(Debug)]
pub(super) struct DataDir {
    /// Absolute, without links: what the server's own arguments say.
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Makes the directory where it is missing, and locks it.
    pub(super) fn open(dir: &Path) -> Result<Self, StartError> {
        let unwritable = |error| StartError::unwritable(dir, &error);
        let path = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .and_then(|()| dir.canonicalize())
            .map_err(unwritable)?;
        close_to_others(&path).map_err(unwritable)??;
        let mut lock = OpenOptions::new()
            .create(true)
            .read(true)
            .write(true)
            .truncate(false)
            .open(path.join("dueq.lock"))
            .map_err(unwritable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let read = lock.read_to_string(&mut holder);
                let holder = read.ok().and_then(|_| holder.trim().parse().ok());
                let (dir, holder) = (path.display(), process(holder));
                return Err(StartError::Locked(format!(
                    "the data directory {dir} is in use by another dueq{holder}; stop that one, or name another with --data-dir DIR"
                )));
            }
            Err(TryLockError::Error(source)) => return Err(unwritable(source)),
        }
        // The lock file may be writable where the directory is not.
        let probe = path.join(".dueq-probe");
        File::create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(unwritable)?;
        note_holder(&mut lock).map_err(unwritable)?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the server's pid is written, by itself.
    pub(super) fn pid_file(&self) -> PathBuf {
        self.path.join("redis.pid")
    }

    /// The pid that the last server wrote; it may long be another process's.
    pub(super) fn written_pid(&self) -> Option<u32> {
        fs::read_to_string(self.pid_file()).ok()?.trim().parse().ok()
    }

    pub(super) fn log_file(&self) -> PathBuf {
        self.path.join("redis.log")
    }

    /// Puts a log aside that has grown long. Done between two servers, never under one.
    pub(super) fn rotate_log(&self) -> io::Result<()> {
        let log = self.log_file();
        if log.metadata().is_ok_and(|m| m.len() > LOG_MAX_BYTES) {
            fs::rename(&log, self.path.join("redis.log.1"))?;
        }
        Ok(())
    }

    /// The socket's name in the directory: the socket, or a link to it where its path would be too long.
    pub(super) fn socket_link(&self) -> PathBuf {
        self.path.join("redis.sock")
    }

    /// Removes the socket of a server that is gone, and chooses the next one's.
    pub(super) fn fresh_socket(&self) -> io::Result<Socket> {
        self.remove_old_socket()?;
        let near = self.socket_link();
        if fits(&near) {
            return Ok(Socket { path: near, far: None });
        }
        let dir = private_temp_dir()?;
        let path = dir.join("redis.sock");
        symlink(&path, &near)?;
        Ok(Socket { path, far: Some((dir, near)) })
    }

    fn remove_old_socket(&self) -> io::Result<()> {
        let link = self.socket_link();
        if let Ok(far) = fs::read_link(&link) {
            let dir = far.parent().unwrap_or(Path::new(""));
            let ours = dir
                .file_name()
                .is_some_and(|name| name.as_bytes().starts_with(TEMP_PREFIX.as_bytes()));
            if ours && far.file_name() == link.file_name() {
                // Whatever is left of it is swept with /tmp.
                let _ = fs::remove_file(&far);
                let _ = fs::remove_dir(dir);
            }
        }
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The server's socket. Dropping it removes the directory that was made for it.
#[derive(Debug)]
pub(super) struct Socket {
    pub path: PathBuf,
    /// Its own directory and the link to it, where the data directory's path is too long for a socket.
    far: Option<(PathBuf, PathBuf)>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some((dir, link)) = &self.far {
            let _ = fs::remove_file(&self.path);
            let _ = fs::remove_dir(dir);
            let _ = fs::remove_file(link);
        }
    }
}

/// Closes the directory to other users: its files hold messages, and secrets among them.
fn close_to_others(path: &Path) -> io::Result<Result<(), StartError>> {
    let dir = File::open(path)?;
    let found = dir.metadata()?;
    let mode = found.mode() & 0o7777;
    let open = |reason| {
        let dir = path.display();
        Ok(Err(StartError::Other(format!(
            "the data directory {dir} is open to others ({mode:04o}) and {reason}: give it to the user that dueq runs as, with mode 0700, or name another with --data-dir DIR"
        ))))
    };
    if mode & 0o077 == 0 {
        return Ok(Ok(()));
    }
    if found.uid() != geteuid().as_raw() {
        return open("belongs to another user");
    }
    // As /tmp has it: meant for everybody.
    if mode & 0o1000 != 0 {
        return open("is shared by all users");
    }
    dir.set_permissions(Permissions::from_mode(0o700))?;
    tracing::info!(dir = %path.display(), "the data directory was open to others; its mode is 0700 now");
    Ok(Ok(()))
}

/// So that a second dueq can say who holds the directory.
fn note_holder(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{}", std::process::id())
}

fn fits(socket: &Path) -> bool {
    socket.as_os_str().len() <= SOCKET_PATH_MAX
}

const TEMP_PREFIX: &str = "dueq-redis-";

/// A directory that only this user may enter, under a random name.
fn private_temp_dir() -> io::Result<PathBuf> {
    let name = format!("{TEMP_PREFIX}{}", random_name()?);
    let mut dir = std::env::temp_dir().join(&name);
    if !fits(&dir.join("redis.sock")) {
        dir = Path::new("/tmp").join(name);
    }
    DirBuilder::new().mode(0o700).create(&dir)?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_made_for_its_user_alone_and_held_once() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("a/b");
        let held = DataDir::open(&dir).unwrap();
        assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let error = DataDir::open(&dir).unwrap_err();
        let by = format!("in use by another dueq (process {});", std::process::id());
        assert!(matches!(&error, StartError::Locked(text) if text.contains(&by)), "{error}");
        drop(held);
        DataDir::open(&dir).unwrap();
    }

    #[test]
    fn a_file_in_the_directorys_place_is_an_error_that_names_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = DataDir::open(file.path()).unwrap_err();
        assert!(error.to_string().contains(&file.path().display().to_string()), "{error}");
    }

    #[test]
    fn the_socket_lies_in_the_directory_where_its_path_is_short_enough() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        fs::write(dir.socket_link(), "of a crash").unwrap();
        let socket = dir.fresh_socket().unwrap();
        assert_eq!(socket.path, temp.path().canonicalize().unwrap().join("redis.sock"));
        assert!(!socket.path.exists());
    }

    #[test]
    fn a_long_path_puts_the_socket_in_a_private_directory_that_goes_away_again() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(&temp.path().join("d".repeat(100))).unwrap();
        let crashed = dir.fresh_socket().unwrap();
        let left = crashed.path.parent().unwrap().to_owned();
        std::mem::forget(crashed);

        let socket = dir.fresh_socket().unwrap();
        assert!(!left.exists(), "a crash's directory stayed");
        let made = socket.path.parent().unwrap().to_owned();
        assert!(fits(&socket.path));
        assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_link(dir.socket_link()).unwrap(), socket.path);
        drop(socket);
        assert!(!made.exists());
        assert!(fs::read_link(dir.socket_link()).is_err());
    }

    #[test]
    fn a_link_to_a_strangers_file_is_removed_without_the_file() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(&temp.path().join("data")).unwrap();
        let stranger = temp.path().join("redis.sock");
        fs::write(&stranger, "keep").unwrap();
        symlink(&stranger, dir.socket_link()).unwrap();
        dir.fresh_socket().unwrap();
        assert!(stranger.exists());
    }
}
