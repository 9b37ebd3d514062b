//! The options of `dueq serve` for its private Redis. Every flag is also an environment variable.

use super::Fsync;
use clap::Args;
use std::path::PathBuf;

/// The private Redis.
#[derive(Args, Clone, Debug)]
pub struct EmbeddedArgs {
    /// Directory of the private Redis.
    #[arg(long, env = "DUEQ_DATA_DIR", value_name = "DIR", default_value = "./dueq-data")]
    pub data_dir: PathBuf,
    /// Program to run as the private Redis; otherwise redis-server or valkey-server from PATH.
    #[arg(long, env = "DUEQ_REDIS_BIN", value_name = "PATH")]
    pub redis_bin: Option<PathBuf>,
    /// When the private Redis syncs its log to disk: once a second, or before every answer.
    #[arg(long, env = "DUEQ_FSYNC", value_enum, default_value = "everysec")]
    pub fsync: Fsync,
    /// Memory limit of the private Redis, such as 512mb or 2gb; by default half of the machine's (or container's)
    /// memory, 0 for none. When it is full, publishing is answered 503.
    #[arg(long = "redis-maxmemory", env = "DUEQ_REDIS_MAXMEMORY", value_name = "BYTES", value_parser = memory_size)]
    pub maxmemory: Option<u64>,
}

/// Parses a number of bytes with an optional unit of Redis: `k` is 1000 bytes, `kb` is 1024, and so on.
fn memory_size(text: &str) -> Result<u64, String> {
    let text = text.to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "b" => Some(1),
        "k" => Some(1_000),
        "kb" => Some(1 << 10),
        "m" => Some(1_000_000),
        "mb" => Some(1 << 20),
        "g" => Some(1_000_000_000),
        "gb" => Some(1 << 30),
        _ => None,
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse::<u64>().ok().filter(|_| is_number);
    let size = unit.and_then(|unit: u64| number?.checked_mul(unit));
    size.ok_or_else(|| "expected a number of bytes, such as 1048576, 512mb or 2gb".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_sizes_have_the_units_of_redis() {
        for (text, bytes) in
            [("0", 0), ("1048576", 1 << 20), ("512mb", 512 << 20), ("2GB", 2 << 30), ("5k", 5000)]
        {
            assert_eq!(memory_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "mb", "-1", "+1", "1.5gb", "1 gb", "1tb", "99999999999gb"] {
            assert!(memory_size(text).is_err(), "{text}");
        }
    }
}
