//! The signals that end a command gracefully.

use std::{future::Future, io};
use tokio::signal::unix::{SignalKind, signal};

/// Completes at SIGTERM or Ctrl-C. The signals count from this call on.
///
/// Errors: those of the system.
pub fn stop() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
