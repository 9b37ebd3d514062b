//! A look at Redis's own counters, for `dueq bench`. It stands here because only the store may name Redis.

use super::{
    RedisArgs, StoreOptions,
    connect_error::ConnectError,
    way::{Way, unreachable},
};
use deadpool_redis::redis::{RedisError, aio::MultiplexedConnection, cmd};
use std::time::Duration;

/// How long Redis, or a Sentinel, may take to answer.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A connection of its own to a Redis.
pub struct RedisProbe(MultiplexedConnection);

impl RedisProbe {
    /// Connects to a Redis.
    ///
    /// # Errors
    /// When the arguments cannot be used, or it does not answer.
    pub async fn connect(redis: &RedisArgs) -> Result<Self, ConnectError> {
        let (redis, key_prefix) = (redis.clone(), String::new());
        let options =
            StoreOptions { redis, key_prefix, lanes: 1, timeout: TIMEOUT, upgrade: false };
        let way = Way::find(&options).await?;
        let door = way.door().await?;
        let connected = door.client.get_multiplexed_async_connection().await;
        connected.map(Self).map_err(|error| way.failed(&door, unreachable(&error)))
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
