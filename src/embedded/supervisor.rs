//! The life of the embedded Redis, from the search for its program to the release of the data directory, as the one
//! thing that its thread runs. A server that ends by itself is started again; the lanes reconnect by themselves.

use super::{
    EmbeddedArgs, StartError,
    files::{DataDir, Socket},
    memory,
    program::Program,
    server, torn,
};
use std::{ffi::OsString, path::PathBuf, time::Duration};
use tokio::{
    process::Child,
    sync::oneshot,
    time::{Instant, sleep},
};

/// A server that lived this long earns the shortest pause again.
const STABLE: Duration = Duration::from_secs(60);
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Starts the server, says so (or why not) through `ready`, and keeps it running until `stop` is used or dropped.
pub(super) async fn run(
    options: EmbeddedArgs,
    ready: oneshot::Sender<Result<PathBuf, StartError>>,
    mut stop: oneshot::Receiver<()>,
) {
    let mut pause = PAUSE_MIN;
    let (supervised, mut child) = tokio::select! {
        started = start(options) => match started {
            Ok(started) => started,
            Err(error) => {
                // The caller may have gone.
                let _ = ready.send(Err(error));
                return;
            }
        },
        // Only what the start waits for can be interrupted here: a leftover's end. Nothing was spawned.
        _ = &mut stop => return,
    };
    let mut ready = Some(ready);
    loop {
        let born = Instant::now();
        let ended = tokio::select! {
            _ = &mut stop => {
                server::end(&mut child).await;
                return;
            }
            ended = supervised.live(&mut child, &mut ready) => ended,
        };
        if let Some(ready) = ready.take() {
            let _ = ready.send(Err(supervised.ended_at_start(&ended)));
            return;
        }
        if born.elapsed() >= STABLE {
            pause = PAUSE_MIN;
        }
        child = loop {
            tracing::error!(
                status = ended,
                pause_ms = pause.as_millis(),
                "the embedded Redis ended by itself; starting it again"
            );
            tokio::select! {
                _ = &mut stop => return,
                () = sleep(pause) => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
            match supervised.spawn() {
                Ok(child) => break child,
                Err(error) => tracing::error!(%error, "the embedded Redis could not be spawned"),
            }
        };
    }
}

/// What every life of the server has in common. Dropped, it gives the socket's place and the directory back.
struct Supervised {
    program: Program,
    arguments: Vec<OsString>,
    socket: Socket,
    dir: DataDir,
    log: PathBuf,
    /// The log's length before the first server wrote to it.
    log_start: u64,
}

async fn start(options: EmbeddedArgs) -> Result<(Supervised, Child), StartError> {
    let program = Program::find(options.redis_bin.as_deref())?;
    let dir = DataDir::open(&options.data_dir)?;
    server::end_leftover(&dir).await?;
    let unwritable = |error| StartError::unwritable(dir.path(), &error);
    dir.rotate_log().map_err(unwritable)?;
    let socket = dir.fresh_socket().map_err(unwritable)?;
    let maxmemory = options.maxmemory.or_else(memory::share).unwrap_or(0);
    let arguments = server::arguments(&program, &dir, &socket.path, options.fsync, maxmemory);
    let log = dir.log_file();
    let log_start = log.metadata().map_or(0, |log| log.len());
    let supervised = Supervised { program, arguments, socket, dir, log, log_start };
    let child = supervised.spawn()?;
    Ok((supervised, child))
}

impl Supervised {
    fn spawn(&self) -> std::io::Result<Child> {
        // A server that ends properly removes its pid file: its log needs no look.
        if self.dir.pid_file().exists() {
            match torn::mend(self.dir.path())? {
                0 => {}
                bytes => tracing::warn!(
                    bytes,
                    "the log ended in the middle of a change: cut back to before it"
                ),
            }
        }
        server::spawn(&self.program, &self.arguments, &self.log)
    }

    /// Returns with its exit status when the server ends by itself.
    async fn live(
        &self,
        child: &mut Child,
        ready: &mut Option<oneshot::Sender<Result<PathBuf, StartError>>>,
    ) -> String {
        let start = Instant::now();
        let answers = async {
            server::wait_ready(&self.socket.path).await;
            let dir = self.dir.path().display();
            tracing::info!(program = %self.program.path.display(), %dir, elapsed_ms = server::elapsed_ms(start), "the embedded Redis is ready");
            if let Some(ready) = ready.take() {
                // The caller may have gone: then `stop` follows.
                let _ = ready.send(Ok(self.socket.path.clone()));
            }
            std::future::pending().await
        };
        let status = tokio::select! {
            status = child.wait() => status,
            never = answers => never,
        };
        status.map_or_else(|error| error.to_string(), |status| status.to_string())
    }

    fn ended_at_start(&self, status: &str) -> StartError {
        let line = server::last_line(&self.log, self.log_start);
        let log = self.log.display();
        StartError::Other(format!(
            "the embedded Redis ended at its start ({status}): {line}; its log is {log}"
        ))
    }
}
