//! `dueq bench`: becomes the program `dueq-bench`, which is in the same directory as this one.

use super::fail;
use std::{
    env,
    ffi::OsString,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

/// Arguments of `dueq bench`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// See dueq bench --help.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes the program. Returns only on failure.
pub fn run(args: &Args) -> ExitCode {
    match env::current_exe() {
        Ok(dueq) => {
            let bench = dueq.with_file_name("dueq-bench");
            let error = Command::new(&bench).args(&args.arguments).exec();
            fail(&format_args!("cannot run {}, which comes with dueq: {error}", bench.display()))
        }
        Err(error) => fail(&error),
    }
}
