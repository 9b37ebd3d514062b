//! The private Redis of `dueq serve` without `--redis-url`: found, started on a Unix socket in the data directory,
//! started again when it ends by itself, and stopped with dueq.
//!
//! All of it happens on one thread of its own. The kernel is asked to end the server when its parent dies, and for
//! the kernel "the parent" is the *thread* that spawned it: a thread of a runtime's pool may end long before dueq does.
//! That thread also holds the data directory's lock, and so gives it back only when the server is gone.

mod args;
mod backup;
mod files;
mod memory;
mod program;
mod server;
mod supervisor;
mod torn;

pub use args::EmbeddedArgs;
pub use backup::Snapshot;

use std::{
    fmt::Write as _,
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    thread,
};
use tokio::sync::oneshot;

/// When the append-only file is synced to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fsync {
    /// Once a second: a power loss may take the last two seconds.
    Everysec,
    /// Before every answer: what was answered is on disk.
    Always,
}

/// Why the embedded Redis did not start. Each is one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no server to run.
    #[error(
        "no redis-server or valkey-server on PATH: install one (`apt install redis-server`), name one with --redis-bin PATH, or use a running Redis with --redis-url URL"
    )]
    NotFound,
    /// The program that `--redis-bin` names, or that was found, is no server that can be run.
    #[error("{} cannot be used as the embedded Redis: {reason}; name another with --redis-bin PATH", .program.display())]
    BadProgram {
        /// The program.
        program: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The server is older than what the scripts need.
    #[error(
        "{} is Redis {version}, dueq needs 6.2 or newer (or any Valkey): install a newer one, name one with --redis-bin PATH, or use a running Redis with --redis-url URL",
        .program.display()
    )]
    TooOld {
        /// The program.
        program: PathBuf,
        /// Its version.
        version: String,
    },
    /// The data directory cannot be made or written to.
    #[error("cannot write to the data directory {}: {source}; make it writable, or name another with --data-dir DIR", .dir.display())]
    Unwritable {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others could read what is in the data directory, and it is not this user's to be closed.
    #[error(
        "the data directory {} is open to others ({mode:04o}) and {reason}: give it to the user that dueq runs as, with mode 0700, or name another with --data-dir DIR",
        .dir.display()
    )]
    Open {
        /// The directory.
        dir: PathBuf,
        /// Its mode.
        mode: u32,
        /// Why dueq does not close it.
        reason: &'static str,
    },
    /// Another dueq works in the data directory.
    #[error("the data directory {} is in use by another dueq{}; stop that one, or name another with --data-dir DIR", .dir.display(), process(.holder))]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// The other's process id, where it can be told.
        holder: Option<u32>,
    },
    /// Something that dueq did not start listens on the socket.
    #[error("a program that dueq did not start{} listens on {}; stop it, or name another directory with --data-dir DIR", process(.pid), .socket.display())]
    Occupied {
        /// The socket.
        socket: PathBuf,
        /// The program's process id, where it can be told.
        pid: Option<u32>,
    },
    /// The server ended before it answered.
    #[error("the embedded Redis ended at its start ({status}): {line}; its log is {}", .log.display())]
    Ended {
        /// Its exit status.
        status: String,
        /// The last line that it logged.
        line: String,
        /// Where the whole log is.
        log: PathBuf,
    },
    /// The system did not let dueq start anything.
    #[error("the embedded Redis could not be started: {0}")]
    Spawn(#[from] io::Error),
}

fn process(pid: &Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

/// A running private Redis. Dropped without [`EmbeddedRedis::stop`], it still ends, only nobody waits for that.
#[derive(Debug)]
pub struct EmbeddedRedis {
    socket: PathBuf,
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
}

impl EmbeddedRedis {
    /// Starts the server and returns once it answers. Loading a large data set may take its time: dropping the
    /// future ends the server again.
    ///
    /// # Errors
    /// Whatever [`StartError`] names; nothing is left running then.
    pub async fn start(options: EmbeddedArgs) -> Result<Self, StartError> {
        let (ready, is_ready) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        thread::Builder::new().name("embedded-redis".to_owned()).spawn(move || {
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(supervisor::run(options, ready, stopped)),
                // Whoever asked may have gone.
                Err(error) => drop(ready.send(Err(error.into()))),
            }
            drop(end);
        })?;
        match is_ready.await {
            Ok(Ok(socket)) => Ok(Self { socket, stop, ended }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::other("its supervisor ended").into()),
        }
    }

    /// Where it listens, as a URL for the pools.
    #[must_use]
    pub fn url(&self) -> String {
        url_of(&self.socket)
    }

    /// Returns where the thread that keeps the server running has ended, and the server with it: a defect.
    pub async fn lost(&mut self) {
        let _ = (&mut self.ended).await;
    }

    /// Ends the server, waits until it is gone, and gives the data directory back. Not after [`EmbeddedRedis::lost`].
    pub async fn stop(self) {
        // Either end of these channels may be gone already: then the server is too.
        let _ = self.stop.send(());
        let _ = self.ended.await;
    }
}

/// Where the server of this data directory listens, as a URL, if it runs.
///
/// # Errors
/// There is no socket.
pub fn url_in(data_dir: &Path) -> io::Result<String> {
    Ok(url_of(&data_dir.canonicalize()?.join("redis.sock").canonicalize()?))
}

fn url_of(socket: &Path) -> String {
    let mut url = String::from("redis+unix://");
    for &byte in socket.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(url, "%{byte:02X}");
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_would_read_otherwise_is_percent_encoded() {
        assert_eq!(
            url_of(Path::new("/a b/ü?#%/redis.sock")),
            "redis+unix:///a%20b/%C3%BC%3F%23%25/redis.sock"
        );
        assert_eq!(
            url_of(Path::new("/srv/dueq-data/redis.sock")),
            "redis+unix:///srv/dueq-data/redis.sock"
        );
    }

    #[test]
    fn every_error_is_one_line() {
        let locked = StartError::Locked { dir: "/d".into(), holder: Some(7) };
        assert_eq!(
            locked.to_string(),
            "the data directory /d is in use by another dueq (process 7); stop that one, or name another with --data-dir DIR"
        );
        for error in
            [StartError::NotFound, locked, StartError::Occupied { socket: "/s".into(), pid: None }]
        {
            assert_eq!(error.to_string().lines().count(), 1);
        }
    }
}
