//! The options of `dueq serve` for Redis. Every flag is also an environment variable.

use super::{RedisArgs, Replicas};
use clap::Args;
use std::path::PathBuf;

/// The Redis to use, and how.
#[derive(Args, Clone, Debug)]
pub struct StoreArgs {
    /// The Redis to use; without one dueq runs a private one.
    #[command(flatten)]
    pub redis: RedisArgs,
    /// Prefix of every key in Redis; no braces.
    #[arg(long, env = "DUEQ_KEY_PREFIX", value_name = "TEXT", default_value = "dueq:", value_parser = key_prefix)]
    pub key_prefix: String,
    /// Directory of the time zone database by which schedules tick; otherwise the system's if it is newer than the one that
    /// is compiled in.
    #[arg(long, env = "DUEQ_TZDATA_DIR", value_name = "DIR")]
    pub tzdata_dir: Option<PathBuf>,
    /// How long a request waits for Redis before it is answered 503, ms.
    #[arg(long, env = "DUEQ_REDIS_TIMEOUT_MS", value_name = "MS", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(50..=60_000))]
    pub redis_timeout_ms: u64,
    /// How many replicas must confirm an answer about a topic with durability replicated: all that Redis, the Sentinels or
    /// the Cluster list, a majority (with the primary more than half of the copies, or half of the replicas), or a number.
    #[arg(long, env = "DUEQ_REPLICAS", value_name = "N", default_value = "majority")]
    pub replicas: Replicas,
    /// Connections to Redis that share the work.
    #[arg(long, env = "DUEQ_LANES", value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub lanes: u16,
}

fn key_prefix(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_graphic() && c != '{' && c != '}';
    if text.len() <= 64 && text.chars().all(good) {
        Ok(text.to_owned())
    } else {
        Err("at most 64 visible ASCII characters, no braces".to_owned())
    }
}
