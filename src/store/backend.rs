//! The way to Redis: the deadpool pool, what is learnt when a connection meets a server, and the shared facts that
//! come of it (the secret of the tokens, the runs of Redis, this instance's number).

use super::{
    clock::Clock,
    ids::IdMaker,
    keys::GlobalKeys,
    reply::{self, CallError, Fields},
    scripts,
};
use crate::{metrics::Metrics, model::TokenKey};
use deadpool_redis::{
    Connection, Manager, Pool, PoolConfig, Timeouts,
    redis::{AsyncConnectionConfig, Client, Cmd, RedisError, Value, aio::ConnectionLike, cmd},
};
use std::{
    collections::HashMap,
    sync::{Arc, RwLock},
    time::{Duration, Instant},
};

/// Version of the key schema that this program reads and writes.
pub const SCHEMA_VERSION: i64 = 1;

/// Why dueq cannot work on this Redis.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL is none.
    #[error("--redis-url is no URL of a Redis: {0}")]
    Url(RedisError),
    /// It cannot be reached or does not answer.
    #[error("Redis cannot be reached: {0}")]
    Unreachable(String),
    /// It is a replica.
    #[error("this Redis is a replica, which takes no writes: dueq needs its primary")]
    Replica,
    /// Its version is below 6.2.
    #[error("Redis {0} is too old: 6.2 or later is needed")]
    TooOld(String),
    /// The data were written by a newer dueq.
    #[error(
        "the data in this Redis have schema version {0}, this dueq knows {SCHEMA_VERSION}: take a newer dueq"
    )]
    NewerSchema(i64),
}

/// One life of a Redis process, as leases and tokens name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// The server's `run_id`.
    pub id: String,
    /// Short hash of it, in the tokens.
    pub hash: u32,
    /// Its number modulo 2048, in the scores of leases.
    pub generation: u16,
}

/// What is known of the Redis that this instance works on.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// Seals and opens lease tokens.
    pub token_key: TokenKey,
    secret: String,
    /// The present run.
    pub run: Arc<Run>,
    /// Generation of each run whose leases may still be held, by the hash in their tokens.
    pub generations: HashMap<u32, u16>,
}

/// A connection and the run that it was opened to.
pub(crate) struct Link {
    pub connection: Connection,
    pub run: Arc<Run>,
}

pub(crate) struct Backend {
    pool: Pool,
    client: Client,
    pub keys: GlobalKeys,
    pub clock: Clock,
    pub ids: IdMaker,
    pub metrics: Arc<Metrics>,
    service: RwLock<Option<Arc<Service>>>,
    /// Held while a new run is met, so that two lanes do not both do it.
    meeting: tokio::sync::Mutex<()>,
    connect_timeout: Duration,
}

impl Backend {
    /// A backend for the Redis at `url`; nothing is connected yet.
    pub fn new(
        url: &str,
        prefix: &str,
        connections: usize,
        timeout: Duration,
        metrics: Arc<Metrics>,
    ) -> Result<Self, ConnectError> {
        let client = Client::open(url).map_err(ConnectError::Url)?;
        // The lanes time their calls themselves: they must know what was sent when they give up.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(None);
        let manager = Manager::new_with_config(url, config).map_err(ConnectError::Url)?;
        let mut pool_config = PoolConfig::new(connections);
        pool_config.timeouts =
            Timeouts { wait: Some(timeout), create: Some(timeout), recycle: Some(timeout) };
        let pool = Pool::builder(manager)
            .config(pool_config)
            .runtime(deadpool_redis::Runtime::Tokio1)
            .build()
            .map_err(|error| ConnectError::Unreachable(error.to_string()))?;
        Ok(Self {
            pool,
            client,
            keys: GlobalKeys::new(prefix),
            clock: Clock::new(),
            ids: IdMaker::default(),
            metrics,
            service: RwLock::new(None),
            meeting: tokio::sync::Mutex::new(()),
            connect_timeout: timeout,
        })
    }

    /// What is known of Redis, once it was met.
    pub fn service(&self) -> Option<Arc<Service>> {
        self.service.read().ok()?.clone()
    }

    /// A client for connections that are no part of the pool: the subscription.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Takes a connection from the pool and learns which run of Redis it leads to.
    pub async fn connect(&self) -> Result<Link, ConnectError> {
        let unreachable =
            |error: &dyn std::fmt::Display| ConnectError::Unreachable(error.to_string());
        let mut connection = self.pool.get().await.map_err(|error| unreachable(&error))?;
        self.metrics.redis_connects.inc();
        let met = tokio::time::timeout(self.connect_timeout, self.meet(&mut connection)).await;
        match met {
            Ok(Ok(run)) => Ok(Link { connection, run }),
            failed => {
                discard(connection);
                match failed {
                    Ok(Err(error)) => Err(error),
                    _ => Err(ConnectError::Unreachable("it does not answer in time".to_owned())),
                }
            }
        }
    }

    /// A checkout for one call, of the mode that sends each request by itself.
    pub async fn checkout(&self) -> Result<Link, CallError> {
        let connection = self.pool.get().await.map_err(|_| CallError::Unavailable)?;
        let run = self.service().ok_or(CallError::Unavailable)?.run.clone();
        Ok(Link { connection, run })
    }

    /// Learns what must be known of the server behind `connection`.
    async fn meet(&self, connection: &mut Connection) -> Result<Arc<Run>, ConnectError> {
        let info = ask(connection, cmd("INFO").arg("server")).await?;
        let info = reply::word(&info).unwrap_or_default().to_owned();
        let line = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.unwrap_or_default().trim().to_owned()
        };
        let version = line("redis_version");
        if !new_enough(&version) {
            return Err(ConnectError::TooOld(version));
        }
        let role = connection.req_packed_command(&cmd("ROLE")).await;
        if role.as_ref().is_ok_and(reply::is_replica) {
            return Err(ConnectError::Replica);
        }
        let run_id = line("run_id");
        // Ids carry Redis's time, so it must be known before the first message.
        let sent = Instant::now();
        if let Value::Array(time) = ask(connection, &cmd("TIME")).await? {
            self.clock.observe_time(&time, sent);
        }
        let _meeting = self.meeting.lock().await;
        if let Some(service) = self.service()
            && service.run.id == run_id
        {
            return Ok(service.run.clone());
        }
        let service = self.open_run(connection, run_id).await?;
        let run = service.run.clone();
        tracing::info!(%version, run_id = %run.id, generation = run.generation, "met Redis");
        if let Ok(mut known) = self.service.write() {
            *known = Some(Arc::new(service));
        }
        Ok(run)
    }

    async fn open_run(
        &self,
        connection: &mut Connection,
        run_id: String,
    ) -> Result<Service, ConnectError> {
        let load = scripts::loading();
        let loaded = connection.req_packed_commands(&load, 0, load.len()).await;
        loaded.map_err(|error| ConnectError::Unreachable(error.to_string()))?;

        let secret = match self.service() {
            // A Redis that forgot the newest seconds gets the secret back that is in use.
            Some(service) => service.secret.clone(),
            None => {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes).map_err(|error| {
                    ConnectError::Unreachable(format!("no randomness: {error}"))
                })?;
                hex::encode(bytes)
            }
        };
        let mut open = cmd("EVALSHA");
        open.arg(scripts::OPEN_RUN.sha()).arg(3);
        open.arg(&self.keys.runs).arg(&self.keys.secret).arg(&self.keys.schema);
        open.arg(&run_id).arg(secret).arg(SCHEMA_VERSION);
        let answer = ask(connection, &open).await?;
        let broken = |_| ConnectError::Unreachable("its state of dueq cannot be read".to_owned());
        let mut fields = Fields::of(answer).map_err(broken)?;
        let schema = fields.int().map_err(broken)?;
        if schema > SCHEMA_VERSION {
            return Err(ConnectError::NewerSchema(schema));
        }
        self.ids.set_instance(fields.int().map_err(broken)? as u64);
        let secret = fields.text().map_err(broken)?;
        let mut generations = HashMap::new();
        let mut generation = 0;
        let mut runs = fields.fields().map_err(broken)?;
        while !runs.is_empty() {
            let id = runs.text().map_err(broken)?;
            let number = generation_of(runs.int().map_err(broken)?);
            generations.insert(run_hash(&id), number);
            if id == run_id {
                generation = number;
            }
        }
        let mut key = [0; 16];
        hex::decode_to_slice(&secret, &mut key)
            .map_err(|_| ConnectError::Unreachable("its secret of dueq is damaged".to_owned()))?;
        let run = Arc::new(Run { hash: run_hash(&run_id), id: run_id, generation });
        Ok(Service { token_key: TokenKey::new(key), secret, run, generations })
    }

    /// Takes the runs as Redis lists them now: another instance may have met a newer one first.
    pub fn learn_runs(&self, mut runs: Fields) -> Result<(), CallError> {
        let Some(known) = self.service() else { return Err(CallError::Unavailable) };
        let mut service = (*known).clone();
        while !runs.is_empty() {
            let (id, number) = (runs.text()?, runs.int()?);
            if !id.starts_with(':') {
                service.generations.insert(run_hash(&id), generation_of(number));
            }
        }
        if let Ok(mut known) = self.service.write() {
            *known = Some(Arc::new(service));
        }
        Ok(())
    }
}

/// Takes a connection out of the pool for good.
pub(crate) fn discard(connection: Connection) {
    drop(Connection::take(connection));
}

async fn ask(connection: &mut Connection, command: &Cmd) -> Result<Value, ConnectError> {
    let answer = connection.req_packed_command(command).await;
    answer
        .and_then(|value| value.extract_error())
        .map_err(|error| ConnectError::Unreachable(error.to_string()))
}

fn generation_of(number: i64) -> u16 {
    (number & 0x7ff) as u16
}

fn run_hash(run_id: &str) -> u32 {
    use siphasher::sip::SipHasher24;
    use std::hash::Hasher;
    let mut hasher = SipHasher24::new();
    hasher.write(run_id.as_bytes());
    hasher.finish() as u32
}

fn new_enough(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    (major, minor) >= (6, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_from_6_2_on_will_do() {
        for (version, good) in
            [("6.2.0", true), ("7.0.15", true), ("10.1", true), ("6.0.16", false), ("", false)]
        {
            assert_eq!(new_enough(version), good, "{version}");
        }
    }
}
