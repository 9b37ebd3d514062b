//! `dueq serve` and `dueq migrate`.

use crate::{
    app,
    config::{Config, LogFormat},
    metrics::Metrics,
    store::{
        SCHEMA_VERSION, Store, StoreMode, StoreOptions,
        embedded::{EmbeddedRedis, Fsync, Options},
    },
};
use clap::Args;
use std::{io::IsTerminal, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Runs the service until SIGTERM or Ctrl-C.
pub async fn run(config: Config) -> ExitCode {
    let filter = match EnvFilter::try_new(&config.log) {
        Ok(filter) => filter,
        Err(error) => return super::fail(&error),
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match config.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    let (mut terminate, mut interrupt) =
        match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
            (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
            (Err(error), _) | (_, Err(error)) => return super::fail(&error),
        };
    let shutdown = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    match app::run(config, shutdown).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => super::fail(&error),
    }
}

/// Which data to migrate.
#[derive(Args)]
pub struct MigrateArgs {
    /// Redis with the data.
    #[arg(long, env = "DUEQ_REDIS_URL", value_name = "URL", hide_env_values = true)]
    redis_url: Option<String>,
    /// Directory of a private Redis that is not being served.
    #[arg(long, env = "DUEQ_DATA_DIR", value_name = "DIR", default_value = "./dueq-data")]
    data_dir: PathBuf,
    /// Program to run as the private Redis.
    #[arg(long, env = "DUEQ_REDIS_BIN", value_name = "PATH")]
    redis_bin: Option<PathBuf>,
    /// What every key begins with.
    #[arg(long, env = "DUEQ_KEY_PREFIX", value_name = "TEXT", default_value = "dueq:")]
    key_prefix: String,
}

/// Brings the data to the present schema. There is one version so far, so connecting, which checks it and marks an
/// empty Redis, is all.
pub async fn migrate(args: MigrateArgs) -> ExitCode {
    let MigrateArgs { redis_url, data_dir, redis_bin, key_prefix } = args;
    let (url, embedded) = match redis_url {
        Some(url) => (url, None),
        None => {
            let options = Options { data_dir, redis_bin, fsync: Fsync::Always };
            match EmbeddedRedis::start(options).await {
                Ok(redis) => (redis.url(), Some(redis)),
                Err(error) => return super::fail(&error),
            }
        }
    };
    let timeout = Duration::from_secs(3);
    let options = StoreOptions { url, key_prefix, lanes: 1, timeout, mode: StoreMode::Group };
    let connected = Store::connect(&options, Arc::new(Metrics::new())).await;
    let code = match connected {
        Ok((store, _)) => {
            store.stop().await;
            println!("the data are at schema version {SCHEMA_VERSION}");
            ExitCode::SUCCESS
        }
        Err(error) => super::fail(&error),
    };
    if let Some(redis) = embedded {
        redis.stop().await;
    }
    code
}
