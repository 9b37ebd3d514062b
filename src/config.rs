//! The options of `dueq serve`: those of its parts, and what concerns it as a whole. Every flag is also an environment
//! variable. The guide's page on flags lists them.

use crate::embedded::EmbeddedArgs;
use clap::{Args, ValueEnum};
use dueq_base::traces::CallTrace;
use dueq_http::HttpArgs;
use dueq_loops::callbacks::CallbackArgs;
use dueq_model::Secret;
use dueq_store::StoreArgs;
use std::{path::PathBuf, thread::available_parallelism};

/// What the help calls the options of the process.
const PROCESS: &str = "Process";

/// Options of `dueq serve`.
#[derive(Args, Clone, Debug)]
pub struct Config {
    /// How clients reach it.
    #[command(flatten, next_help_heading = "Clients")]
    pub http: HttpArgs,
    /// How it calls.
    #[command(flatten, next_help_heading = "Callbacks")]
    pub callbacks: CallbackArgs,
    /// Where messages lie; without a Redis dueq runs a private one.
    #[command(flatten, next_help_heading = "Data")]
    pub store: StoreArgs,
    /// The private Redis.
    #[command(flatten, next_help_heading = "Private Redis")]
    pub embedded: EmbeddedArgs,
    /// File to write the bound address to, once the server accepts requests.
    #[arg(long, help_heading = PROCESS, env = "DUEQ_ADDR_FILE", value_name = "PATH")]
    pub addr_file: Option<PathBuf>,
    /// How long a graceful stop waits for requests in flight, ms.
    #[arg(long, help_heading = PROCESS, env = "DUEQ_DRAIN_TIMEOUT_MS", value_name = "MS", default_value_t = 10_000)]
    pub drain_timeout_ms: u64,
    /// Threads that serve requests [default: one per two processors, at most 4].
    #[arg(long, help_heading = PROCESS, env = "DUEQ_THREADS", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// Webhook to tell when a host of callbacks fails or answers again, when messages of a topic begin to die, and when Redis cannot be
    /// used. Incoming webhooks of Slack and Mattermost will do.
    #[arg(long, help_heading = PROCESS, env = "DUEQ_NOTIFY_URL", value_name = "URL", hide_env_values = true)]
    pub notify_url: Option<Secret>,
    /// How the trace of a callback is related to that of its publish: a trace of its own with a link, or the same trace, for
    /// tools that show no links. Traces are exported where OTEL_EXPORTER_OTLP_ENDPOINT is set.
    #[arg(long, help_heading = PROCESS, env = "DUEQ_TRACE_CONTEXT", value_enum, default_value = "link")]
    pub trace_context: CallTrace,
    /// Format of the log.
    #[arg(long, help_heading = PROCESS, env = "DUEQ_LOG_FORMAT", value_enum, default_value = "text")]
    pub log_format: LogFormat,
    /// Log filter: a level, or `module=level,…`.
    #[arg(long, help_heading = PROCESS, env = "DUEQ_LOG", value_name = "FILTER", default_value = "info")]
    pub log: String,
}

impl Config {
    /// The number of threads that serve requests. By default half of the processors are left to Redis and to clients, which
    /// often share the machine, and four threads keep one Redis busy.
    pub fn threads(&self) -> usize {
        let half = || available_parallelism().map_or(1, |processors| processors.get() / 2);
        self.threads.map_or_else(|| half().clamp(1, 4), usize::from)
    }
}

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}
