//! What all connections of an instance share, whichever server they lead to.

use super::SCHEMA_VERSION;
use crate::{StoreOptions, Wake, keys::GlobalKeys, random_bytes};
use dueq_base::metrics::Metrics;
use dueq_model::{PartitionNumber, TokenKey, TopicName};
use parking_lot::RwLock;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Instant,
};
use tokio::sync::{mpsc, watch};

/// The secret that all instances share.
#[derive(Clone, Debug)]
pub struct Service {
    /// Seals and opens lease tokens.
    pub token_key: TokenKey,
    pub(super) secret: String,
}

/// What all connections of an instance share.
pub struct Shared {
    pub options: StoreOptions,
    pub keys: GlobalKeys,
    pub metrics: Arc<Metrics>,
    /// Tells this instance from the others, hex.
    pub instance: String,
    service: RwLock<Option<Arc<Service>>>,
    /// The oldest version of the schema whose readers may work on the data, as it was read last.
    pub min_reader: watch::Sender<i64>,
    /// The newest version that the dueq read which made the data; 0 if it is not known.
    pub began: AtomicI64,
    /// How many epochs were met, of all servers.
    epochs: watch::Sender<u64>,
    /// How many of the server that has the registry: what was read of it in an earlier one it may have forgotten.
    registry_epochs: AtomicU64,
    /// Changes whenever the clock of a server was set.
    pub steps: watch::Sender<()>,
    wakes: mpsc::UnboundedSender<Wake>,
    /// The wake-ups that scripts send out reach this instance.
    pub listening: AtomicBool,
    started: Instant,
    /// The second since `started` in which a refusal was last logged.
    complained: AtomicU64,
}

impl Shared {
    /// What is known before anything is connected; `wakes` is where wake-ups go.
    pub fn new(
        options: &StoreOptions,
        metrics: Arc<Metrics>,
        wakes: mpsc::UnboundedSender<Wake>,
    ) -> Arc<Self> {
        metrics.set_schema(SCHEMA_VERSION);
        Arc::new(Self {
            options: options.clone(),
            keys: GlobalKeys::new(&options.key_prefix),
            metrics,
            instance: hex::encode(&random_bytes()[..8]),
            service: RwLock::default(),
            min_reader: watch::Sender::new(SCHEMA_VERSION),
            began: AtomicI64::new(0),
            epochs: watch::Sender::new(0),
            registry_epochs: AtomicU64::new(0),
            steps: watch::Sender::new(()),
            wakes,
            listening: AtomicBool::new(false),
            started: Instant::now(),
            complained: AtomicU64::new(0),
        })
    }

    /// The secret, once Redis was met.
    pub fn service(&self) -> Option<Arc<Service>> {
        self.service.read().clone()
    }

    pub(super) fn set_service(&self, service: Service) {
        *self.service.write() = Some(Arc::new(service));
    }

    /// How many epochs of the registry's server were met.
    pub fn registry_epochs(&self) -> u64 {
        self.registry_epochs.load(Ordering::Acquire)
    }

    /// Changes whenever a server was met in another epoch.
    pub fn new_epochs(&self) -> watch::Receiver<u64> {
        self.epochs.subscribe()
    }

    /// A server was met in another epoch. `registry`: it has the registry.
    pub fn met_epoch(&self, registry: bool) {
        self.registry_epochs.fetch_add(registry.into(), Ordering::AcqRel);
        self.epochs.send_modify(|epochs| *epochs += 1);
    }

    /// Wakes this instance's consumers of `topic` while the wake-up that the script sent does not reach them.
    pub fn wake(&self, topic: &TopicName, partition: Option<PartitionNumber>) {
        if !self.listening.load(Ordering::Relaxed) {
            // Nobody waits while the instance stops.
            let _ = self.wakes.send(Wake::Topic(topic.clone(), partition));
        }
    }

    /// True once a second at most: what goes wrong for every request is logged for some.
    pub fn may_complain(&self) -> bool {
        let now = self.started.elapsed().as_secs() + 1;
        self.complained.swap(now, Ordering::Relaxed) != now
    }
}
