//! `dueq exec-child`, for internal use: asks the kernel to stop this process when its parent dies, then becomes the
//! program that the parent wants: the embedded Redis, or the server of `dueq bench`. It is a subcommand because safe
//! Rust cannot run code between fork and exec.

use clap::Args as ClapArgs;
use std::{ffi::OsString, io, os::unix::process::CommandExt as _, process::Command};

/// Arguments of `dueq exec-child`.
#[derive(ClapArgs, Clone, Debug)]
pub struct Args {
    /// Process id of the dueq that the program belongs to.
    #[arg(long)]
    parent: i32,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the program. Returns only on failure, with the reason.
#[must_use]
pub fn run(args: &Args) -> io::Error {
    let Some((program, arguments)) = args.command.split_first() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "no program given");
    };
    match tie_to(args.parent) {
        Ok(()) => Command::new(program).args(arguments).exec(),
        Err(error) => error,
    }
}

/// Sends SIGTERM to this process when its parent dies. It then stops in order: Redis flushes its log and exits.
#[cfg(target_os = "linux")]
fn tie_to(parent: i32) -> io::Result<()> {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // If the parent died before the call above, the signal would never come.
    if getppid().map(Pid::as_raw_nonzero).map(std::num::NonZero::get) == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::other("the dueq that owns this process is gone"))
    }
}

/// On other systems, the next start stops a server that a killed dueq left behind.
#[cfg(not(target_os = "linux"))]
fn tie_to(_parent: i32) -> io::Result<()> {
    Ok(())
}
