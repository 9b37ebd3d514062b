//! The way to Redis, as the files with the password and the certificates were last read: the pool of the lanes'
//! connections, and the client of the others.

use super::{StoreOptions, backend::ConnectError};
use crate::tls::{Expiry, Trouble};
use deadpool_redis::{
    Connection, Manager, Pool, PoolConfig, PoolError, Timeouts,
    redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo},
};
use std::error::Error;

/// The way to one Redis.
pub(super) struct Way {
    pool: Pool,
    /// For connections that are no part of the pool: the subscription.
    pub client: Client,
    /// When the client certificate ends, if there is one.
    pub expiry: Option<Expiry>,
}

impl Way {
    /// Reads the files; nothing is connected yet.
    pub fn new(options: &StoreOptions) -> Result<Self, ConnectError> {
        let (client, expiry) = options.redis.client()?;
        let timeout = options.timeout;
        // The lanes time their calls themselves: they must know what was sent when they give up.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(None);
        let info = client.get_connection_info().clone();
        let manager = Manager::new_with_config(info, config).map_err(ConnectError::Url)?;
        // The express lane's, and one to spare.
        let mut pool_config = PoolConfig::new(options.lanes + 2);
        pool_config.timeouts =
            Timeouts { wait: Some(timeout), create: Some(timeout), recycle: Some(timeout) };
        let pool = Pool::builder(manager)
            .config(pool_config)
            .runtime(deadpool_redis::Runtime::Tokio1)
            .build()
            .map_err(|error| ConnectError::Unreachable(error.to_string()))?;
        Ok(Self { pool, client, expiry })
    }

    /// Takes a connection from the pool.
    pub async fn connect(&self) -> Result<Connection, ConnectError> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error)
                if error.is_connection_dropped()
                    && !error.is_connection_refusal()
                    && matches!(self.info().addr(), ConnectionAddr::Tcp(..)) =>
            {
                ConnectError::Unreachable(format!("{error}: if it speaks TLS, use rediss://"))
            }
            PoolError::Backend(error) if error.is_timeout() => self.silent(),
            PoolError::Backend(error) => unreachable(&error),
            PoolError::Timeout(_) => self.silent(),
            error => unreachable(&error),
        })
    }

    fn silent(&self) -> ConnectError {
        let by_tls = matches!(self.info().addr(), ConnectionAddr::TcpTls { .. });
        // What speaks no TLS may well wait for the rest of a command.
        let advice = if by_tls { " (if it does not speak TLS, use redis://)" } else { "" };
        ConnectError::Unreachable(format!("it does not answer in time{advice}"))
    }

    /// Whether both lead to the same data: the same server and database, as the same user.
    pub fn leads_where(&self, other: &Self) -> bool {
        let of = |way: &Self| {
            let (addr, settings) = (way.info().addr(), way.info().redis_settings());
            (addr.clone(), settings.db(), settings.username().map(str::to_owned))
        };
        of(self) == of(other)
    }

    fn info(&self) -> &ConnectionInfo {
        self.client.get_connection_info()
    }
}

/// Why Redis cannot be reached, and what to do where that is known.
pub(super) fn unreachable(error: &(dyn Error + 'static)) -> ConnectError {
    let reason = match Trouble::of(error) {
        None => error.to_string(),
        Some(trouble @ Trouble::UnknownAuthority) => {
            format!("{trouble}: name the authority with --redis-ca")
        }
        Some(trouble @ Trouble::NoTls) => format!("{trouble}: use redis:// instead of rediss://"),
        Some(trouble @ Trouble::WantsCertificate) => {
            format!("{trouble}: pass --redis-cert and --redis-key")
        }
        Some(trouble) => trouble.to_string(),
    };
    ConnectError::Unreachable(reason)
}

#[cfg(test)]
mod tests {
    use super::{super::RedisArgs, *};
    use std::time::Duration;

    #[test]
    fn a_way_leads_where_another_does_by_server_database_and_user() {
        let way = |url: &str| {
            let redis = RedisArgs::at(url.to_owned());
            let (key_prefix, timeout) = (String::new(), Duration::from_secs(1));
            Way::new(&StoreOptions { redis, key_prefix, lanes: 1, timeout, upgrade: true }).unwrap()
        };
        let here = way("redis://u:old@localhost:1/2");
        assert!(here.leads_where(&way("redis://u:new@localhost:1/2")));
        for other in ["redis://u@localhost:2/2", "redis://u@localhost:1/1", "redis://localhost:1/2"]
        {
            assert!(!here.leads_where(&way(other)), "{other}");
        }
    }
}
