//! Where connections to Redis come from, with the password and the certificates as they were last read: an [`Endpoint`] has the
//! pool of the lanes' connections and the client of the others. Behind Sentinels it is looked up for every connection, since the
//! primary may have moved.

use crate::{
    StoreOptions,
    connect_error::ConnectError,
    connection::{Connection, Opener},
    redis_args::{RedisMode, Target},
    sentinel::{self, Sentinels},
};
use deadpool::managed::{Object, Pool, PoolError, Timeouts};
use deadpool_redis::redis::{Client, ConnectionAddr, ConnectionInfo};
use dueq_base::tls::{Expiry, Trouble};
use std::{error::Error, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Leads to the Redis that takes the writes.
pub(crate) enum ConnectionSource {
    /// It has one address.
    Direct(Arc<Endpoint>),
    /// The Sentinels know where it is.
    Sentinels(Box<Sentinels>),
}

/// How many connections of an endpoint may be opening at once.
const OPENING: usize = 64;

/// One address of Redis.
pub struct Endpoint {
    pool: Pool<Opener>,
    /// For connections that are no part of the pool: the subscription.
    pub client: Client,
    /// How often the primary had moved before it was here.
    pub number: u64,
}

/// How often the primary has moved; shared by all ways of an instance.
pub(crate) type Moves = Arc<watch::Sender<u64>>;

impl ConnectionSource {
    /// Reads the files; nothing is connected yet. With `sentinel`, the URLs are those of Sentinels even if nothing says so.
    /// Also returns when the client certificate ends, if there is one.
    pub fn new(
        options: &StoreOptions,
        sentinel: bool,
        moves: &Moves,
    ) -> Result<(Self, Option<Expiry>), ConnectError> {
        let timeout = options.timeout;
        let found = sentinel.then_some(RedisMode::Sentinel);
        let (target, expiry) = options.redis.target(found)?;
        let source = match target {
            Target::Cluster(_) => return Err(ConnectError::Cluster),
            Target::Redis(client) => Self::Direct(Arc::new(Endpoint::new(client, timeout, 0)?)),
            Target::Sentinels(target) => {
                Self::Sentinels(Box::new(Sentinels::new(target, timeout, moves.clone())))
            }
        };
        Ok((source, expiry))
    }

    /// The source that these options mean: a single URL may be that of a Sentinel, which is asked.
    pub async fn find(options: &StoreOptions) -> Result<Self, ConnectError> {
        let moves = Moves::default();
        let (source, _) = Self::new(options, false, &moves)?;
        match source.is_of_sentinel(options).await {
            true => Ok(Self::new(options, true, &moves)?.0),
            false => Ok(source),
        }
    }

    /// Whether the options leave it open what is at the URL, and a Sentinel is.
    pub async fn is_of_sentinel(&self, options: &StoreOptions) -> bool {
        if !(matches!(self, Self::Direct(_)) && options.redis.are_open()) {
            return false;
        }
        // Its own credentials and no database: a Sentinel refuses what is meant for the primary.
        match options.redis.first() {
            Ok(seed) => sentinel::is_one(&seed, options.timeout).await,
            Err(_) => false,
        }
    }

    /// Where the primary is.
    pub async fn endpoint(&self) -> Result<Arc<Endpoint>, ConnectError> {
        match self {
            Self::Direct(endpoint) => Ok(endpoint.clone()),
            Self::Sentinels(sentinels) => sentinels.endpoint().await,
        }
    }

    /// Where it was when it was last looked up.
    pub fn known_endpoint(&self) -> Option<Arc<Endpoint>> {
        match self {
            Self::Direct(endpoint) => Some(endpoint.clone()),
            Self::Sentinels(sentinels) => sentinels.known_endpoint(),
        }
    }

    /// The Sentinels, if any.
    pub fn sentinels(&self) -> Option<&Sentinels> {
        if let Self::Sentinels(sentinels) = self { Some(sentinels) } else { None }
    }

    /// What is to be said of a endpoint behind which no primary was found.
    pub fn failed(&self, endpoint: &Endpoint, error: ConnectError) -> ConnectError {
        match self {
            Self::Direct(_) => error,
            Self::Sentinels(sentinels) => sentinels.failed(endpoint, error),
        }
    }

    /// Whether both lead to the same data: the same servers and database, as the same user.
    pub fn leads_where(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Direct(one), Self::Direct(other)) => one.place() == other.place(),
            (Self::Sentinels(one), Self::Sentinels(other)) => one.leads_where(other),
            _ => false,
        }
    }

    /// Goes on where `old` was, which led to the same data.
    pub fn after(&self, old: &Self) -> Result<(), ConnectError> {
        match (self, old) {
            (Self::Sentinels(new), Self::Sentinels(old)) => new.after(old),
            _ => Ok(()),
        }
    }
}

impl Endpoint {
    /// The endpoint that this client goes through.
    pub fn new(client: Client, limit: Duration, number: u64) -> Result<Self, ConnectError> {
        let opener = Opener { client: client.clone(), limit };
        let timeouts = Timeouts { wait: Some(limit), create: Some(limit), recycle: Some(limit) };
        let pool = Pool::builder(opener)
            .max_size(OPENING)
            .timeouts(timeouts)
            .runtime(deadpool_redis::Runtime::Tokio1)
            .build()
            .map_err(|error| ConnectError::Unreachable(error.to_string()))?;
        Ok(Self { pool, client, number })
    }

    /// Takes a connection out of the pool: it is closed where it is dropped.
    pub async fn connect(&self) -> Result<Connection, ConnectError> {
        self.pool.get().await.map(Object::take).map_err(|error| match error {
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

    /// The server, the database and the user.
    fn place(&self) -> (ConnectionAddr, i64, Option<String>) {
        let (addr, settings) = (self.info().addr(), self.info().redis_settings());
        (addr.clone(), settings.db(), settings.username().map(str::to_owned))
    }

    fn info(&self) -> &ConnectionInfo {
        self.client.get_connection_info()
    }
}

/// Why Redis cannot be reached, and what to do where that is known.
pub(crate) fn unreachable(error: &(dyn Error + 'static)) -> ConnectError {
    ConnectError::Unreachable(reason(error))
}

/// The same without a server's name.
pub(crate) fn reason(error: &(dyn Error + 'static)) -> String {
    match Trouble::of(error) {
        None => error.to_string(),
        Some(trouble @ Trouble::UnknownAuthority) => {
            format!("{trouble}: name the authority with --redis-ca")
        }
        Some(trouble @ Trouble::NoTls) => format!("{trouble}: use redis:// instead of rediss://"),
        Some(trouble @ Trouble::WantsCertificate) => {
            format!("{trouble}: pass --redis-cert and --redis-key")
        }
        Some(trouble) => trouble.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RedisArgs;

    fn source(redis: RedisArgs) -> ConnectionSource {
        let (key_prefix, timeout) = (String::new(), Duration::from_secs(1));
        let options = StoreOptions {
            redis,
            key_prefix,
            lanes: 1,
            timeout,
            replicas: Default::default(),
            upgrade: true,
        };
        ConnectionSource::new(&options, false, &Moves::default()).unwrap().0
    }

    #[test]
    fn a_way_leads_where_another_does_by_server_database_and_user() {
        let at = |url: &str| source(RedisArgs::at(url.to_owned()));
        let here = at("redis://u:old@localhost:1/2");
        assert!(here.leads_where(&at("redis://u:new@localhost:1/2")));
        for other in ["redis://u@localhost:2/2", "redis://u@localhost:1/1", "redis://localhost:1/2"]
        {
            assert!(!here.leads_where(&at(other)), "{other}");
        }
    }

    #[test]
    fn sentinels_lead_where_others_do_by_their_addresses_the_name_and_the_place() {
        let at = |urls: &str| RedisArgs::at(urls.to_owned());
        let here = source(at("redis://:old@s1:1,redis://s2:2"));
        assert!(here.leads_where(&source(at("redis://s2:2,redis://:new@s1:1"))));
        let same = || at("redis://s1:1,redis://s2:2");
        for other in [
            at("redis://s1:1"),
            at("redis://s1:1,redis://s3:2"),
            RedisArgs { sentinel_master: Some("m".to_owned()), ..same() },
            RedisArgs { redis_db: Some(1), ..same() },
            RedisArgs { redis_user: Some("u".to_owned()), ..same() },
        ] {
            assert!(!here.leads_where(&source(other.clone())), "{other:?}");
        }
    }
}
