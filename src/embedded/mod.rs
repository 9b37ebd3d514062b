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

/// Why the embedded Redis did not start: one line that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another dueq works in the data directory.
    #[error("{0}")]
    Locked(String),
    /// Any other reason.
    #[error("{0}")]
    Other(String),
}

impl StartError {
    /// The data directory cannot be made or written to.
    fn unwritable(dir: &Path, source: &io::Error) -> Self {
        let dir = dir.display();
        Self::Other(format!(
            "cannot write to the data directory {dir}: {source}; make it writable, or name another with --data-dir DIR"
        ))
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Other(format!("the embedded Redis could not be started: {error}"))
    }
}

fn process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

/// A running private Redis. Dropped without [`EmbeddedRedis::stop`], it ends, but without a wait for its end.
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
                // The caller may have gone.
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

/// Which program would be started with these options.
///
/// # Errors
/// There is none that will do.
pub fn check(options: &EmbeddedArgs) -> Result<String, StartError> {
    let program = program::Program::find(options.redis_bin.as_deref())?;
    Ok(program.path.display().to_string())
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
}
