//! Redis as this instance knows it: the way there, and the facts that all connections share (the secret of the tokens,
//! Redis's epoch, this instance's number).

mod meet;

use super::{
    StoreOptions,
    clock::Clock,
    connect_error::ConnectError,
    ids::IdMaker,
    keys::GlobalKeys,
    server_info::ServerInfo,
    way::{Moves, Way},
};
use crate::{
    metrics::Metrics,
    model::{Epoch, TokenKey},
    tls::Expiry,
};
use deadpool_redis::{Connection, redis::Client};
use std::{
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// Version of the key schema that this program reads and writes.
pub const SCHEMA_VERSION: i64 = 2;
/// How long calls that are under way when the primary has moved may still be answered by the old one.
const MOVE_GRACE: Duration = Duration::from_millis(100);
/// What a primary without this guard may lose.
const UNGUARDED: &str = "Redis has min-replicas-to-write 0: a primary that is cut off from its replicas still takes messages, and they are lost when a replica takes over";

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
    /// How often the primary had moved before it was there.
    pub door: u64,
}

pub(crate) struct Backend {
    options: StoreOptions,
    way: RwLock<Arc<Way>>,
    moves: Moves,
    /// The primary has replicas and does not wait for any; whether that was logged.
    unguarded: AtomicBool,
    unguarded_logged: AtomicBool,
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
        let moves = Moves::default();
        let (way, expiry) = Way::new(options, false, &moves)?;
        metrics.certificates.uses(expiry);
        Ok(Self {
            way: RwLock::new(Arc::new(way)),
            moves,
            unguarded: AtomicBool::new(false),
            unguarded_logged: AtomicBool::new(false),
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

    /// Changes whenever the primary has moved to another address.
    pub fn moves(&self) -> watch::Receiver<u64> {
        self.moves.subscribe()
    }

    /// How often the primary has moved.
    pub fn moves_so_far(&self) -> u64 {
        *self.moves.borrow()
    }

    /// Ends soon after the primary has moved away from this door: who waits there waits in vain.
    pub async fn moved_from(&self, door: u64) {
        // The sender lives as long as this.
        let _ = self.moves().wait_for(|moves| *moves != door).await;
        tokio::time::sleep(MOVE_GRACE).await;
    }

    /// Does `link` lead to where the primary is, in the epoch that was met last?
    pub fn is_present(&self, link: &Link) -> bool {
        self.moves_so_far() == link.door
            && self.service().is_none_or(|service| service.server.epoch == link.epoch)
    }

    /// What to warn of, beside what Redis hides.
    pub fn warning(&self) -> Option<&'static str> {
        self.unguarded.load(Ordering::Relaxed).then_some(UNGUARDED)
    }

    /// Reads the files with passwords and certificates again, for the connections to come. They must open one first.
    pub async fn reload(&self) -> Result<(), ConnectError> {
        let present = self.way();
        let (way, expiry) = Way::new(&self.options, present.sentinels().is_some(), &self.moves)?;
        if !way.leads_where(&present) {
            return Err(ConnectError::Moved);
        }
        way.after(&present)?;
        let door = way.door().await?;
        drop(door.connect().await.map_err(|error| way.failed(&door, error))?);
        self.set_way(way, expiry);
        Ok(())
    }

    /// The way, as the files were last read.
    pub(super) fn way(&self) -> Arc<Way> {
        self.way.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    fn set_way(&self, way: Way, expiry: Option<Expiry>) {
        self.metrics.certificates.uses(expiry);
        *self.way.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::new(way);
    }

    /// A client for connections that are no part of the pool: the subscription. `None` before the primary was known.
    pub fn client(&self) -> Option<Client> {
        Some(self.way().known_door()?.client.clone())
    }

    /// The first connection: what is at the URL may turn out to be a Sentinel.
    pub async fn begin(&self) -> Result<Link, ConnectError> {
        let error = match self.connect().await {
            Ok(link) => return Ok(link),
            Err(error) => error,
        };
        if !self.way().is_of_sentinel(&self.options).await {
            return Err(error);
        }
        let (way, expiry) = Way::new(&self.options, true, &self.moves)?;
        self.set_way(way, expiry);
        self.connect().await
    }

    /// Takes a connection from the pool and learns in which epoch the Redis is that it leads to.
    pub async fn connect(&self) -> Result<Link, ConnectError> {
        let way = self.way();
        let door = way.door().await?;
        let connected = door.connect().await;
        let mut connection = connected.map_err(|error| way.failed(&door, error))?;
        self.metrics.redis_connects.inc();
        let met = tokio::time::timeout(self.options.timeout, self.meet(&mut connection)).await;
        let error = match met {
            Ok(Ok(epoch)) => return Ok(Link { connection, epoch, door: door.number }),
            Ok(Err(error)) => error,
            Err(_) => ConnectError::Unreachable("it does not answer in time".to_owned()),
        };
        discard(connection);
        Err(way.failed(&door, error))
    }
}

/// Takes a connection out of the pool for good.
pub(crate) fn discard(connection: Connection) {
    drop(Connection::take(connection));
}
