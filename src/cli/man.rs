//! `dueq man`: writes manual pages, generated from the declared arguments, for whoever makes a package.

use clap::{Args as ClapArgs, Command};
use std::{path::PathBuf, process::ExitCode};

/// Arguments of `dueq man`.
#[derive(ClapArgs, Clone, Debug)]
pub struct Args {
    /// Directory to write them to: dueq.1, and a page for each subcommand.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Writes the pages of the visible subcommands of `command`.
pub fn run(args: &Args, command: Command) -> ExitCode {
    match clap_mangen::generate_to(command, &args.dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::fail(&error),
    }
}
