//! A look at Redis's own counters, for `dueq bench`. It stands here because only the store may name Redis.

use deadpool_redis::redis::{Client, RedisError, aio::MultiplexedConnection, cmd};

/// A connection of its own to a Redis.
pub struct RedisProbe(MultiplexedConnection);

impl RedisProbe {
    /// Connects to the Redis at `url` (`redis://…` or `redis+unix:///…`).
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn connect(url: &str) -> Result<Self, RedisError> {
        Client::open(url)?.get_multiplexed_async_connection().await.map(Self)
    }

    /// CPU time that the main thread of Redis has used, µs; that of the whole process where Redis does not tell its
    /// threads apart.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn cpu_us(&mut self) -> Result<f64, RedisError> {
        let info: String = cmd("INFO").arg("cpu").query_async(&mut self.0).await?;
        let main = info.contains("used_cpu_user_main_thread");
        let fields = match main {
            true => ["used_cpu_user_main_thread:", "used_cpu_sys_main_thread:"],
            false => ["used_cpu_user:", "used_cpu_sys:"],
        };
        let of = |field| -> Option<f64> {
            info.lines().find_map(|line| line.strip_prefix(field)?.trim().parse().ok())
        };
        Ok(fields.into_iter().filter_map(of).sum::<f64>() * 1e6)
    }
}
