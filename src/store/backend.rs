//! The way to Redis: the deadpool pool, what is learnt when a connection meets a server, and the shared facts that
//! come of it (the secret of the tokens, Redis's epoch, this instance's number).

use super::{
    StoreOptions,
    clock::Clock,
    ids::IdMaker,
    keys::GlobalKeys,
    reply::{self, Fields},
    scripts,
    server_info::{ServerInfo, epoch_of, is_of_replica},
    upgrade::upgrade_service,
    way::Way,
};
use crate::{
    files::FileError,
    metrics::Metrics,
    model::{Epoch, TokenKey},
    seeded,
    tls::TlsError,
};
use deadpool_redis::{
    Connection,
    redis::{Client, Cmd, Pipeline, RedisError, Value, aio::ConnectionLike, cmd},
};
use std::{
    sync::{Arc, RwLock},
    time::Instant,
};
use tokio::sync::watch;

/// Version of the key schema that this program reads and writes.
pub const SCHEMA_VERSION: i64 = 2;

/// Why dueq cannot work on this Redis.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL is invalid.
    #[error("invalid Redis URL in --redis-url: {0}")]
    Url(RedisError),
    /// The file with the URL or the password cannot be used.
    #[error("a secret for Redis: {0}")]
    File(#[from] FileError),
    /// Both the URL and a file have a password.
    #[error("the Redis URL has a password, so --redis-password-file must not be given")]
    TwoPasswords,
    /// There are certificates, but the URL wants no TLS.
    #[error("--redis-ca and --redis-cert are for a Redis URL that begins with rediss://")]
    NotTls,
    /// The URL turns off what TLS is for.
    #[error(
        "the Redis URL ends in #insecure, so any certificate would be accepted: name the authority with --redis-ca, \
            or pass --insecure as well"
    )]
    Insecure,
    /// A certificate or key cannot be used.
    #[error("TLS to Redis: {0}")]
    Tls(#[from] TlsError),
    /// A file names another Redis than before.
    #[error("the URL names another Redis, database or user: restart dueq to use it")]
    Moved,
    /// It cannot be reached or does not answer.
    #[error("cannot reach Redis: {0}")]
    Unreachable(String),
    /// It is a replica.
    #[error("this Redis is a read-only replica: dueq needs its primary")]
    Replica,
    /// Its version is below 6.2.
    #[error("Redis {0} is too old: dueq needs 6.2 or later")]
    TooOld(String),
    /// The data were written by a newer dueq.
    #[error(
        "the data in this Redis have schema version {0}, and this dueq knows {SCHEMA_VERSION}: use a newer dueq"
    )]
    NewerSchema(i64),
    /// The data were written by an older dueq, and this command does not change them.
    #[error(
        "the data in this Redis have schema version {0}, and this dueq needs {SCHEMA_VERSION}: run `dueq migrate` \
            first"
    )]
    OlderSchema(i64),
    /// They were written by an older dueq and could not be brought up to date; what is done stays done.
    #[error("the data in this Redis could not be migrated to schema version {SCHEMA_VERSION}: {0}")]
    Upgrade(&'static str),
}

/// What is known of the Redis that this instance works on.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// Seals and opens lease tokens.
    pub token_key: TokenKey,
    secret: String,
    /// The Redis that was met last.
    pub server: ServerInfo,
}

/// A connection and the epoch of the Redis that it leads to.
pub(crate) struct Link {
    pub connection: Connection,
    pub epoch: Epoch,
}

pub(crate) struct Backend {
    options: StoreOptions,
    way: RwLock<Arc<Way>>,
    pub keys: GlobalKeys,
    pub clock: Clock,
    pub ids: IdMaker,
    pub metrics: Arc<Metrics>,
    service: RwLock<Option<Arc<Service>>>,
    /// How many epochs were met: what was read of Redis in an earlier one it may have forgotten.
    epochs: watch::Sender<u64>,
    /// Held while a new epoch is met, so that two lanes do not both do it.
    meeting: tokio::sync::Mutex<()>,
}

impl Backend {
    /// A backend for the options' Redis; nothing is connected yet.
    pub fn new(options: &StoreOptions, metrics: Arc<Metrics>) -> Result<Self, ConnectError> {
        let way = Way::new(options)?;
        metrics.certificates.uses(way.expiry.clone());
        Ok(Self {
            way: RwLock::new(Arc::new(way)),
            options: options.clone(),
            keys: GlobalKeys::new(&options.key_prefix),
            clock: Clock::new(),
            ids: IdMaker::default(),
            metrics,
            service: RwLock::new(None),
            epochs: watch::Sender::new(0),
            meeting: tokio::sync::Mutex::new(()),
        })
    }

    /// What is known of Redis, once it was met.
    pub fn service(&self) -> Option<Arc<Service>> {
        self.service.read().ok()?.clone()
    }

    /// How many epochs were met.
    pub fn epochs(&self) -> u64 {
        *self.epochs.borrow()
    }

    /// Changes whenever Redis was met in another epoch.
    pub fn new_epochs(&self) -> watch::Receiver<u64> {
        self.epochs.subscribe()
    }

    /// Reads the files with passwords and certificates again, for the connections to come. They must open one first.
    pub async fn reload(&self) -> Result<(), ConnectError> {
        let way = Way::new(&self.options)?;
        if !way.leads_where(&self.way()) {
            return Err(ConnectError::Moved);
        }
        drop(way.connect().await?);
        self.metrics.certificates.uses(way.expiry.clone());
        *self.way.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::new(way);
        Ok(())
    }

    fn way(&self) -> Arc<Way> {
        self.way.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// A client for connections that are no part of the pool: the subscription.
    pub fn client(&self) -> Client {
        self.way().client.clone()
    }

    /// Takes a connection from the pool and learns in which epoch the Redis is that it leads to.
    pub async fn connect(&self) -> Result<Link, ConnectError> {
        let mut connection = self.way().connect().await?;
        self.metrics.redis_connects.inc();
        let met = tokio::time::timeout(self.options.timeout, self.meet(&mut connection)).await;
        match met {
            Ok(Ok(epoch)) => Ok(Link { connection, epoch }),
            failed => {
                discard(connection);
                match failed {
                    Ok(Err(error)) => Err(error),
                    _ => Err(ConnectError::Unreachable("it does not answer in time".to_owned())),
                }
            }
        }
    }

    /// Is the Redis behind `link` there, and a primary? It may be in another epoch by now, without the connection having broken: then it
    /// is met anew.
    pub async fn probe(&self, link: &mut Link) -> bool {
        let mut look = Pipeline::with_capacity(2);
        look.cmd("TIME");
        match self.service() {
            Some(service) if service.server.refused => look.cmd("ROLE"),
            _ => look.cmd("INFO").arg("replication"),
        };
        let sent = Instant::now();
        let asked = link.connection.req_packed_commands(&look, 0, 2);
        let Ok(Ok(answers)) = tokio::time::timeout(self.options.timeout, asked).await else {
            return false;
        };
        if let Some(Value::Array(time)) = answers.first() {
            self.clock.observe_time(time, sent);
        }
        // An error reply is an answer too: Redis may be busy or loading.
        let info = answers.get(1).and_then(reply::word).unwrap_or_default();
        let replica = answers.get(1).is_some_and(reply::is_replica) || is_of_replica(info);
        if replica {
            return seeded::bug("lanes stay at a replica");
        }
        let epoch = epoch_of(info, "master_replid");
        if !epoch.is_known() || epoch == link.epoch {
            return true;
        }
        let met = tokio::time::timeout(self.options.timeout, self.meet(&mut link.connection)).await;
        let Ok(Ok(epoch)) = met else { return false };
        link.epoch = epoch;
        true
    }

    /// Learns what must be known of the server behind `connection`.
    async fn meet(&self, connection: &mut Connection) -> Result<Epoch, ConnectError> {
        let server = ServerInfo::ask(connection).await?;
        if !new_enough(&server.version) {
            return Err(ConnectError::TooOld(server.version));
        }
        let role = connection.req_packed_command(&cmd("ROLE")).await;
        if role.as_ref().is_ok_and(reply::is_replica) {
            return Err(ConnectError::Replica);
        }
        // Ids carry Redis's time, so it must be known before the first message.
        let sent = Instant::now();
        if let Value::Array(time) = ask(connection, &cmd("TIME")).await? {
            self.clock.observe_time(&time, sent);
        }
        let _meeting = self.meeting.lock().await;
        let epoch = server.epoch;
        // If Redis hides its epoch, any connection may lead to a new one.
        if let Some(service) = self.service()
            && service.server.epoch == epoch
            && epoch.is_known()
        {
            return Ok(epoch);
        }
        let service = self.open_service(connection, server).await?;
        tracing::info!(version = service.server.version, %epoch, "met Redis");
        for warning in &service.server.warnings {
            tracing::warn!("{warning}");
        }
        if let Ok(mut known) = self.service.write() {
            *known = Some(Arc::new(service));
        }
        self.epochs.send_modify(|epochs| *epochs += 1);
        Ok(epoch)
    }

    async fn open_service(
        &self,
        connection: &mut Connection,
        server: ServerInfo,
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
        open.arg(scripts::OPEN_SERVICE.sha()).arg(3);
        open.arg(&self.keys.instances).arg(&self.keys.secret).arg(&self.keys.schema);
        open.arg(secret).arg(SCHEMA_VERSION);
        let broken = |_| ConnectError::Unreachable("its state of dueq cannot be read".to_owned());
        let mut fields = Fields::of(ask(connection, &open).await?).map_err(broken)?;
        let mut schema = fields.int().map_err(broken)?;
        if schema < SCHEMA_VERSION && self.options.upgrade {
            ask(connection, &upgrade_service(&self.keys)).await?;
            fields = Fields::of(ask(connection, &open).await?).map_err(broken)?;
            schema = fields.int().map_err(broken)?;
        }
        match schema.cmp(&SCHEMA_VERSION) {
            std::cmp::Ordering::Less => return Err(ConnectError::OlderSchema(schema)),
            std::cmp::Ordering::Greater => return Err(ConnectError::NewerSchema(schema)),
            std::cmp::Ordering::Equal => {}
        }
        self.ids.set_instance(fields.int().map_err(broken)? as u64);
        let secret = fields.text().map_err(broken)?;
        let mut key = [0; 16];
        hex::decode_to_slice(&secret, &mut key)
            .map_err(|_| ConnectError::Unreachable("its secret of dueq is damaged".to_owned()))?;
        Ok(Service { token_key: TokenKey::new(key), secret, server })
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
