//! `dueq exec-redis`, which dueq runs for itself only: becomes the embedded Redis after asking the kernel to end it
//! together with its parent, which safe Rust cannot do between fork and exec.

use clap::Args as ClapArgs;
use std::{ffi::OsString, io, os::unix::process::CommandExt as _, process::Command};

/// Arguments of `dueq exec-redis`.
#[derive(ClapArgs, Clone, Debug)]
pub struct Args {
    /// Process id of the dueq that the server belongs to.
    #[arg(long)]
    parent: i32,
    /// The server's program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Becomes the server; returns only where that was not possible, with the reason.
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

/// SIGTERM makes Redis write out its log and end: what it would be told at a stop in good order.
#[cfg(target_os = "linux")]
fn tie_to(parent: i32) -> io::Result<()> {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // The parent may have died before the kernel was asked: then nothing would ever come.
    if getppid().map(Pid::as_raw_nonzero).map(std::num::NonZero::get) == Some(parent) {
        Ok(())
    } else {
        Err(io::Error::other("the dueq that owns this Redis is gone"))
    }
}

/// Elsewhere a server left by a killed dueq ends at the next start.
#[cfg(not(target_os = "linux"))]
fn tie_to(_parent: i32) -> io::Result<()> {
    Ok(())
}
