//! `dueq keys secret` prints what receivers check signatures with. `dueq keys new` makes an API key. Only its hash goes into the key file, so the key itself is shown here once. It goes to
//! standard error: in the file, by a careless `>>`, it would be a bare key, which may do everything.

use super::client::{KeySecret, key_secret};
use clap::{Args as ClapArgs, Subcommand};
use dueq_http::access::new_key;
use std::process::ExitCode;

/// Arguments of `dueq keys`.
#[derive(ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a key. Prints the key on standard error, once, and the line for the file of --api-key-file on standard output.
    New(NewArgs),
    /// Print the secrets that sign what a topic sends, or the callbacks that this API key schedules.
    Secret(KeySecret),
}

#[derive(ClapArgs)]
struct NewArgs {
    /// Name of the key's owner, for the log: letters, digits, `.`, `_` and `-`.
    #[arg(long)]
    name: String,
    /// What the key may do, repeatable: `verb:pattern`, such as publish:orders.* or read:*, or admin. Verbs: read, publish,
    /// consume, operate, configure. Also rate:publish=500/s, the messages it may publish in a second, and
    /// topics=N, messages=N and bytes=N, what it may make and store.
    #[arg(long = "allow", value_name = "SCOPE", required = true)]
    allow: Vec<String>,
}

/// Runs the command; the exit code says whether it succeeded.
pub async fn run(args: Args) -> ExitCode {
    match args.command {
        Command::New(args) => new(&args),
        Command::Secret(args) => key_secret(args).await,
    }
}

/// Prints a new key and its line. Exit code 2 where the name or a scope is wrong.
fn new(NewArgs { name, allow }: &NewArgs) -> ExitCode {
    match new_key(name, allow) {
        Ok((key, line)) => {
            eprintln!("{key}");
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(reason) => super::fail(&reason),
    }
}
