//! The command line: the subcommands, and their exit codes (0 success, 1 failure, 2 cannot start).

mod audit;
mod backup;
mod bench;
mod client;
mod data;
mod dev;
mod doctor;
mod exec_child;
mod generated;
mod help;
mod keys;
mod listen;
mod moving;
mod progress;
mod serve;
mod signals;

use crate::config::Config;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use dueq_http as http;
use rustix::{fs::Mode, process::umask};
use std::process::ExitCode;
use tokio::runtime::Builder;

/// A delay queue over HTTP on Redis.
#[derive(Parser)]
#[command(name = "dueq", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the service.
    Serve(Box<Config>),
    /// Run the service for development: callbacks may reach this machine and are signed, and the dashboard opens.
    ///
    /// Takes the options of `dueq serve`, too.
    #[command(mut_arg("log", |log| log.default_value("warn")))]
    Dev(Box<dev::Args>),
    /// Check what `dueq serve` needs, and say what to change: exit code 1 if something is.
    ///
    /// Takes the options of `dueq serve`, starts what it would start short of serving, and looks at Redis: version, persistence,
    /// maxmemory policy, latency, replicas and clock.
    Doctor(Box<doctor::Args>),
    /// Receive callbacks on this machine: verify their signatures, print and answer them, until Ctrl-C.
    Listen(listen::Args),
    /// Make API keys, and print what receivers check signatures with.
    Keys(keys::Args),
    /// Print the OpenAPI document.
    Openapi(OpenapiArgs),
    /// Migrate the data in Redis to this version's schema.
    Migrate(serve::MigrateArgs),
    /// Check the data in Redis, also while dueq serves them: exit code 1 if something was found.
    Audit(audit::Args),
    /// Write topics, schedules and messages as lines of JSON, for dueq load.
    Dump(moving::DumpArgs),
    /// Load a dump of dueq dump into an empty place, or under other names.
    Load(moving::LoadArgs),
    /// Copy the data of the private Redis, while it is served or not.
    Backup(backup::Args),
    /// Measure a dueq server, by default one started for the purpose.
    Bench(bench::Args),
    #[command(flatten)]
    Client(client::ToServer),
    /// Serve the Model Context Protocol on standard input and output: an agent looks into dueq and, with --allow-write, uses it.
    #[command(mut_arg("json", |json| json.hide(true)))]
    Mcp(client::McpArgs),
    /// Print a shell completion script.
    Completions(generated::CompletionsArgs),
    /// Write manual pages.
    #[command(hide = true)]
    Man(generated::ManArgs),
    #[command(hide = true)]
    ExecChild(exec_child::Args),
}

#[derive(clap::Args)]
struct OpenapiArgs {
    /// OpenAPI version; 3.0 is for generators that cannot read later ones.
    #[arg(long, value_enum, default_value_t, value_name = "VERSION")]
    openapi_version: http::openapi::Version,
}

/// Runs the subcommand that the program's arguments name.
pub fn main() -> ExitCode {
    let command = help::arranged(Cli::command());
    let cli = Cli::from_arg_matches(&command.clone().get_matches());
    let cli = cli.unwrap_or_else(|error| error.format(&mut command.clone()).exit());
    // Files that dueq or its Redis write may contain messages and secrets.
    umask(Mode::from_raw_mode(0o077));
    // These commands replace the process, so they run before any runtime or thread starts.
    match &cli.command {
        Command::ExecChild(args) => return fail(&exec_child::run(args)),
        Command::Bench(args) => return bench::run(args),
        _ => {}
    }
    let config = match &cli.command {
        Command::Serve(config) => Some(&**config),
        Command::Dev(args) => Some(&args.config),
        _ => None,
    };
    let threads =
        config.map_or(1, |config| config.threads() + usize::from(config.http.identity().is_some()));
    // Each runtime has one thread: a runtime with several wakes another thread for most of its work.
    let runtime = || Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtimes: Vec<_> = match (0..threads).map(|_| runtime()).collect::<Result<_, _>>() {
        Ok(runtimes) => runtimes,
        Err(error) => return fail(&error),
    };
    let threads: Vec<_> = runtimes.iter().map(|runtime| runtime.handle().clone()).collect();
    threads[0].block_on(async {
        match cli.command {
            Command::Serve(config) => serve::serve(*config, &threads).await,
            Command::Dev(args) => dev::run(*args, &threads).await,
            Command::Doctor(args) => doctor::run(*args).await,
            Command::Listen(args) => listen::run(args).await,
            Command::Keys(args) => keys::run(args).await,
            Command::Openapi(args) => print_document(args.openapi_version),
            Command::Migrate(args) => serve::migrate(args).await,
            Command::Audit(args) => audit::run(args).await,
            Command::Dump(args) => moving::dump(args).await,
            Command::Load(args) => moving::load(args).await,
            Command::Backup(args) => backup::run(&args),
            Command::Client(command) => client::run(command).await,
            Command::Mcp(args) => client::mcp(args).await,
            Command::Completions(args) => generated::completions(&args, &Cli::command()),
            Command::Man(args) => generated::man(&args, Cli::command()),
            Command::ExecChild(_) | Command::Bench(_) => ExitCode::SUCCESS,
        }
    })
}

fn print_document(version: http::openapi::Version) -> ExitCode {
    match http::document(version, "") {
        Ok(document) => {
            print!("{document}");
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

/// Prints the error as one line on stderr, and returns exit code 2.
fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("dueq: {error}");
    ExitCode::from(2)
}
