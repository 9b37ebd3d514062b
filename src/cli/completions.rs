//! `dueq completions`: prints a completion script, generated from the declared arguments.

use clap::{Args as ClapArgs, Command};
use clap_complete::Shell;
use std::{
    io::{self, Write as _},
    process::ExitCode,
};

/// Arguments of `dueq completions`.
#[derive(ClapArgs, Clone, Debug)]
pub struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script for the visible subcommands of `command`. A closed pipe is not a failure.
pub fn run(args: &Args, command: &Command) -> ExitCode {
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut visible = Command::new("dueq").version(env!("CARGO_PKG_VERSION")).subcommands(visible);
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible, "dueq", &mut script);
    match io::stdout().write_all(&script) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => super::fail(&error),
        _ => ExitCode::SUCCESS,
    }
}
