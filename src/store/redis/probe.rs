//! A look at Redis's own counters, for `dueq bench`. It is here because only the store may name Redis.

use crate::{
    RedisArgs, StoreOptions,
    cluster::{self, Cluster},
    connect_error::ConnectError,
    connection_source::{ConnectionSource, unreachable},
};
use deadpool_redis::redis::{Client, RedisError, aio::MultiplexedConnection, cmd};
use futures_util::future::try_join_all;

/// Connections of its own to a Redis, or to all primaries of a Cluster.
pub struct RedisProbe(Vec<MultiplexedConnection>);

impl RedisProbe {
    /// Connects to a Redis.
    ///
    /// # Errors
    /// When the arguments cannot be used, or it does not answer.
    pub async fn connect(redis: &RedisArgs) -> Result<Self, ConnectError> {
        let options = StoreOptions::of_tool(redis.clone(), String::new());
        if Cluster::is_named(&options).await {
            let clients = cluster::primaries(&options).await?;
            let connect = clients.iter().map(Client::get_multiplexed_async_connection);
            let connected = try_join_all(connect).await;
            return connected.map(Self).map_err(|error| unreachable(&error));
        }
        let way = ConnectionSource::find(&options).await?;
        let endpoint = way.endpoint().await?;
        let connected = endpoint.client.get_multiplexed_async_connection().await;
        let connected = connected.map_err(|error| way.failed(&endpoint, unreachable(&error)))?;
        Ok(Self(vec![connected]))
    }

    /// CPU time that the main threads of all servers have used, µs; that of the whole process where Redis does not tell
    /// its threads apart.
    ///
    /// # Errors
    /// When a server does not answer.
    pub async fn cpu_us(&mut self) -> Result<f64, RedisError> {
        let all = self.0.iter_mut().map(Self::cpu_us_of);
        Ok(try_join_all(all).await?.into_iter().sum())
    }

    async fn cpu_us_of(connection: &mut MultiplexedConnection) -> Result<f64, RedisError> {
        let info: String = cmd("INFO").arg("cpu").query_async(connection).await?;
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
