//! `dueq completions` and `dueq man`: files that are generated from the declared arguments.

use super::fail;
use clap::{Args, Command};
use clap_complete::Shell;
use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

/// Arguments of `dueq completions`.
#[derive(Args, Clone, Debug)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `dueq man`.
#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// Directory to write them to: dueq.1, and a page for each subcommand.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Prints the script for the visible subcommands of `command`. A closed pipe is not a failure.
pub fn completions(args: &CompletionsArgs, command: &Command) -> ExitCode {
    let visible = command.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut visible = Command::new("dueq").version(env!("CARGO_PKG_VERSION")).subcommands(visible);
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible, "dueq", &mut script);
    match io::stdout().write_all(&script) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(&error),
        _ => ExitCode::SUCCESS,
    }
}

/// Writes the pages of the visible subcommands of `command`.
pub fn man(args: &ManArgs, command: Command) -> ExitCode {
    match clap_mangen::generate_to(command, &args.dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}
