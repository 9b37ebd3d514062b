//! A server of Redis as this instance knows it: the way there, its epoch, its clock, and the number that this instance has
//! in ids made by it.

mod meet;
mod shared;

pub use shared::{Service, Shared};

use crate::{
    clock::Clock,
    cluster::host_of,
    connect_error::ConnectError,
    connection::Connection,
    connection_source::{ConnectionSource, Endpoint, Moves},
    durability::Listed,
    ids::IdMaker,
    outage::Outage,
    sentinel::Sentinels,
    server_info::ServerInfo,
};
use deadpool_redis::redis::Client;
use dueq_model::Epoch;
use parking_lot::RwLock;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, watch};

/// Version of the key schema that all data have at least.
pub const SCHEMA_VERSION: i64 = 2;
/// The version that topics of several partitions have: a dueq that knows of one only leaves them alone.
pub(crate) const SPLIT_VERSION: i64 = 3;
/// That of a topic with messages in groups, of which older versions know nothing; its partitions know it from then on.
pub(crate) const GROUPS_VERSION: i64 = 4;
/// That of what clients of SQS set, and of dead letters in their own form.
pub(crate) const SQS_VERSION: i64 = 5;
/// That of topics whose groups take turns.
pub(crate) const FAIR_VERSION: i64 = 6;
/// That of messages whose ends are published.
pub(crate) const ENDS_VERSION: i64 = 7;
/// The newest version that this program reads. From version 5 on, a dueq minds `min_reader`, and keeps members that it does
/// not know of settings, schedules and bodies when it changes what is beside them.
pub const KNOWN_VERSION: i64 = ENDS_VERSION;
/// How long calls that are under way when the primary has moved may still be answered by the old one.
const MOVE_GRACE: Duration = Duration::from_millis(100);
/// What a primary cannot confirm meanwhile.
pub(crate) const REPLICA_AWAY: &str = "a replica of Redis is away: until it is back, whatever is asked of topics with durability replicated is answered 503 outcome_unknown";
/// What cannot be known then.
const WAIT_REFUSED: &str = "Redis refuses WAIT: a change of a topic or schedule may be lost in a failover, and durability replicated cannot be had";
/// What a primary without this guard may lose.
const UNGUARDED: &str = "Redis has min-replicas-to-write 0: a primary that is cut off from its replicas still takes messages, and they are lost when a replica takes over";

/// A connection and the epoch of the Redis that it leads to.
pub struct Link {
    pub connection: Connection,
    pub epoch: Epoch,
    /// How often the primary had moved before it was there.
    pub endpoint: u64,
    /// Counts the lane that has it as connected.
    pub seat: Option<OwnedSemaphorePermit>,
}

/// One server: the only one, or a primary of a Cluster.
pub struct Backend {
    pub shared: Arc<Shared>,
    source: RwLock<Arc<ConnectionSource>>,
    moves: Moves,
    /// It is a node of a Cluster, which others may have taken from.
    clustered: bool,
    /// The data that belong to no topic are there: the secret, and the numbers of instances.
    home: AtomicBool,
    /// The registry of topics is there.
    registry: AtomicBool,
    /// The primary has replicas and does not wait for any; whether that was logged.
    unguarded: AtomicBool,
    unguarded_logged: AtomicBool,
    /// The replicas that are listed for it in a Cluster; where nobody lists them, the most that were ever connected.
    listed: Listed,
    /// It refuses WAIT, so nobody can know what replicas have.
    refuses_wait: AtomicBool,
    /// Replicas that were connected when it was last asked.
    replicas: AtomicUsize,
    pub clock: Clock,
    /// A server that takes over from another goes on with its ids.
    pub ids: Arc<IdMaker>,
    /// As it was met last.
    server: RwLock<Option<Arc<ServerInfo>>>,
    /// Held while a new epoch is met, so that two lanes do not both do it.
    meeting: tokio::sync::Mutex<()>,
    pub outage: Outage,
}

impl Backend {
    /// The options' only Redis, or what Sentinels name; nothing is connected yet.
    pub fn new(shared: Arc<Shared>) -> Result<Self, ConnectError> {
        let moves = Moves::default();
        let (source, expiry) = ConnectionSource::new(&shared.options, false, &moves)?;
        shared.metrics.certificates.uses(expiry);
        Ok(Self::of(shared, source, moves, Arc::default(), None))
    }

    /// A primary of a Cluster. `has`: as for [`Backend::set_home`].
    pub fn in_cluster(
        shared: Arc<Shared>,
        endpoint: Endpoint,
        ids: Arc<IdMaker>,
        has: (bool, bool),
    ) -> Self {
        let source = ConnectionSource::Direct(Arc::new(endpoint));
        Self::of(shared, source, Moves::default(), ids, Some(has))
    }

    fn of(
        shared: Arc<Shared>,
        source: ConnectionSource,
        moves: Moves,
        ids: Arc<IdMaker>,
        has: Option<(bool, bool)>,
    ) -> Self {
        let (home, registry) = has.unwrap_or((true, true));
        Self {
            source: RwLock::new(Arc::new(source)),
            moves,
            clustered: has.is_some(),
            home: AtomicBool::new(home),
            registry: AtomicBool::new(registry),
            unguarded: AtomicBool::new(false),
            unguarded_logged: AtomicBool::new(false),
            refuses_wait: AtomicBool::new(false),
            listed: Listed::default(),
            replicas: AtomicUsize::new(0),
            clock: Clock::new(shared.steps.clone()),
            ids,
            server: RwLock::default(),
            meeting: tokio::sync::Mutex::new(()),
            outage: Outage::default(),
            shared,
        }
    }

    /// As it was met last.
    pub fn server(&self) -> Option<Arc<ServerInfo>> {
        self.server.read().clone()
    }

    /// Says whether the secret and the numbers of instances are there, and whether the registry is.
    pub fn set_home(&self, (home, registry): (bool, bool)) {
        self.home.store(home, Ordering::Relaxed);
        self.registry.store(registry, Ordering::Relaxed);
    }

    /// Makes everybody leave who waits for an answer of it: another server has taken over.
    pub fn retire(&self) {
        self.moves.send_modify(|moves| *moves += 1);
    }

    /// Changes whenever the primary has moved to another address.
    pub fn moves(&self) -> watch::Receiver<u64> {
        self.moves.subscribe()
    }

    /// How often the primary has moved.
    pub fn moves_so_far(&self) -> u64 {
        *self.moves.borrow()
    }

    /// Resolves shortly after the primary changes its address.
    pub async fn moved_from(&self, endpoint: u64) {
        // The sender lives as long as this.
        let _ = self.moves().wait_for(|moves| *moves != endpoint).await;
        tokio::time::sleep(MOVE_GRACE).await;
    }

    /// Does `link` lead to where the primary is, in the epoch that was met last?
    pub fn is_present(&self, link: &Link) -> bool {
        self.moves_so_far() == link.endpoint
            && self.server().is_none_or(|server| server.epoch == link.epoch)
    }

    /// What to warn of, besides what Redis hides.
    pub fn warnings(&self) -> impl Iterator<Item = &'static str> {
        let unguarded = self.unguarded.load(Ordering::Relaxed).then_some(UNGUARDED);
        let replicas = match self.refuses_wait.load(Ordering::Relaxed) {
            true => (self.listed_replicas() > 0).then_some(WAIT_REFUSED),
            false => {
                let known = self.listed_replicas() > 0;
                (known && !self.has_replicas()).then_some(REPLICA_AWAY)
            }
        };
        unguarded.into_iter().chain(replicas)
    }

    /// Notes how many replicas a Cluster lists for this server.
    pub fn list_replicas(&self, replicas: usize) {
        self.listed.note(replicas);
    }

    /// How many replicas are known for it. Those that are away count as long as anybody lists them: they may be promoted.
    pub fn listed_replicas(&self) -> usize {
        let listed = self.source().sentinels().map(Sentinels::replicas);
        listed.unwrap_or_else(|| self.listed.count()).max(self.connected_replicas())
    }

    /// Those that were connected when it was last asked.
    pub fn connected_replicas(&self) -> usize {
        self.replicas.load(Ordering::Relaxed)
    }

    /// How many replicas have to confirm what must not be lost.
    pub fn wanted_replicas(&self) -> usize {
        self.shared.options.replicas.of(self.listed_replicas())
    }

    /// Are as many connected as have to confirm?
    pub fn has_replicas(&self) -> bool {
        self.connected_replicas() >= self.wanted_replicas()
    }

    /// Are as many replicas known as have to confirm, and can be known whether they have something?
    pub fn can_confirm(&self) -> bool {
        let hides = self.server().is_none_or(|server| server.refused || !server.epoch.is_known());
        let are_known = self.listed_replicas() >= self.wanted_replicas();
        !hides && !self.refuses_wait.load(Ordering::Relaxed) && are_known
    }

    /// Reads the files with passwords and certificates again, for the connections to come. They must open one first.
    pub async fn reload(&self) -> Result<(), ConnectError> {
        let present = self.source();
        let (source, expiry) = ConnectionSource::new(
            &self.shared.options,
            present.sentinels().is_some(),
            &self.moves,
        )?;
        if !source.leads_where(&present) {
            return Err(ConnectError::Moved);
        }
        source.after(&present)?;
        let endpoint = source.endpoint().await?;
        drop(endpoint.connect().await.map_err(|error| source.failed(&endpoint, error))?);
        self.shared.metrics.certificates.uses(expiry);
        self.set_source(source);
        Ok(())
    }

    /// The source of connections, as the files were last read.
    pub(crate) fn source(&self) -> Arc<ConnectionSource> {
        self.source.read().clone()
    }

    /// Takes connections from another source from now on.
    pub(crate) fn set_source(&self, source: ConnectionSource) {
        *self.source.write() = Arc::new(source);
    }

    /// Where the server is, as it is written; empty before the primary was known.
    pub fn address(&self) -> String {
        let address = |client: Client| client.get_connection_info().addr().to_string();
        self.client().map(address).unwrap_or_default()
    }

    /// The host of the server.
    pub fn host(&self) -> String {
        self.client().map(|client| host_of(&client)).unwrap_or_default()
    }

    /// A client for the subscription. `None` before the primary was known.
    pub fn client(&self) -> Option<Client> {
        Some(self.source().known_endpoint()?.client.clone())
    }

    /// The first connection: what is at the URL may turn out to be a Sentinel.
    pub async fn begin(&self) -> Result<Link, ConnectError> {
        let error = match self.connect().await {
            Ok(link) => return Ok(link),
            Err(error) => error,
        };
        if !self.source().is_of_sentinel(&self.shared.options).await {
            return Err(error);
        }
        let (source, expiry) = ConnectionSource::new(&self.shared.options, true, &self.moves)?;
        self.shared.metrics.certificates.uses(expiry);
        self.set_source(source);
        self.connect().await
    }

    /// A call failed for this cause.
    pub fn away(&self, cause: String) {
        self.outage.note(|| self.address(), cause);
    }

    /// Opens a connection and learns in which epoch the Redis is that it leads to.
    pub async fn connect(&self) -> Result<Link, ConnectError> {
        let source = self.source();
        let endpoint = source.endpoint().await?;
        let connected = endpoint.connect().await;
        let mut connection = connected.map_err(|error| source.failed(&endpoint, error))?;
        self.shared.metrics.redis_connects.inc();
        let met =
            tokio::time::timeout(self.shared.options.timeout, self.meet(&mut connection)).await;
        let error = match met {
            Ok(Ok(epoch)) => {
                return Ok(Link { connection, epoch, endpoint: endpoint.number, seat: None });
            }
            Ok(Err(error)) => error,
            Err(_) => ConnectError::Unreachable("it does not answer in time".to_owned()),
        };
        Err(source.failed(&endpoint, error))
    }
}
