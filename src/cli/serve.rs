//! `dueq serve` and `dueq migrate`.

use super::{client::table::clean, data::DataArgs, signals};
use crate::{
    app::{self, Started},
    config::{Config, LogFormat},
};
use clap::Args;
use dueq_base::files::raise_limit;
use dueq_store::{KNOWN_VERSION, SCHEMA_VERSION};
use std::{
    io::{self, IsTerminal, Write as _},
    pin::pin,
    process::ExitCode,
};
use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
};
use tracing::Metadata;
use tracing_appender::non_blocking::NonBlockingBuilder;
use tracing_subscriber::{
    filter::Targets, fmt::writer::MakeWriterExt as _, layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

/// Lines of the log that wait to be written.
const MAX_LINES: usize = 8192;

/// `dueq serve`: what it serves is printed for people at a terminal, and logged for others.
pub async fn serve(config: Config, threads: &[Handle]) -> ExitCode {
    let is_for_people = config.log_format == LogFormat::Text && io::stderr().is_terminal();
    let announced = move |started: &Started| {
        if !is_for_people {
            return started.log();
        }
        let (version, rows) = (env!("CARGO_PKG_VERSION"), started.rows().map(row).concat());
        // That standard error is closed is no reason to end.
        let _ = writeln!(io::stderr(), "\ndueq {version} is ready.\n\n{rows}");
    };
    run(config, threads, announced).await
}

/// A row of what a server is, for people.
pub(super) fn row((name, value): (&str, String)) -> String {
    format!("  {name:<10} {}\n", clean(&value))
}

/// Runs the service until SIGTERM or Ctrl-C. `announced` learns of it once requests are accepted.
pub async fn run(config: Config, threads: &[Handle], announced: impl FnOnce(&Started)) -> ExitCode {
    let filter = match config.log.parse::<Targets>() {
        Ok(filter) => tracing_subscriber::registry().with(filter),
        Err(error) => return super::fail(&format_args!("--log: {error}")),
    };
    // A reader of stderr that hangs must not hang dueq: lines are written by a thread, and are lost where too many wait. The
    // audit log has its own thread, which waits, and says what it lost.
    let (lines, log_writer) = NonBlockingBuilder::default()
        .buffered_lines_limit(MAX_LINES)
        .thread_name("log")
        .finish(io::stderr());
    let is_audit = |line: &Metadata<'_>| line.target() == "audit";
    let log = tracing_subscriber::fmt::layer()
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr.with_filter(is_audit).or_else(lines));
    match config.log_format {
        LogFormat::Text => filter.with(log).init(),
        LogFormat::Json => filter.with(log.json()).init(),
    }
    let (Ok(stop), Ok(mut hangup)) = (signals::stop(), signal(SignalKind::hangup())) else {
        return super::fail(&io::Error::other("signals cannot be received"));
    };
    let shutdown = async move {
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => return,
                _ = hangup.recv() => tracing::info!("SIGHUP: files are read again"),
            }
        }
    };
    if let Err(error) = raise_limit() {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
    let ended = app::run(config, threads, announced, shutdown).await;
    // What was logged comes before why dueq ends.
    drop(log_writer);
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::fail(&error),
    }
}

/// Arguments of `dueq migrate`.
#[derive(Args)]
pub struct MigrateArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Finish an upgrade: refuse instances of versions before this one from now on. All that run must be of this version.
    #[arg(long)]
    finish: bool,
}

/// Migrates the data to this version's schema, as `serve` does when it starts.
pub async fn migrate(args: MigrateArgs) -> ExitCode {
    let data = match args.data.open(true, false).await {
        Ok(data) => data,
        Err(error) => return super::fail(&error),
    };
    let done = match args.finish {
        true => data.store.adopt_version(KNOWN_VERSION).await,
        false => Ok(()),
    };
    data.close().await;
    match done {
        Ok(()) if args.finish => {
            println!("instances that do not read schema version {KNOWN_VERSION} are refused");
        }
        Ok(()) => println!("the data have schema version {SCHEMA_VERSION}"),
        Err(error) => {
            eprintln!("dueq: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
