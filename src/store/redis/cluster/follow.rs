//! How an instance gets to know a Cluster, and follows its failovers and the slots that move.

use super::{
    ask::{ask, best, first_view, read, says_yes},
    view::View,
    *,
};
use crate::ids::IdMaker;
use crate::{backend::Backend, connection_source::ConnectionSource};
use deadpool_redis::redis::{Cmd, aio::ConnectionLike, cmd};
use parking_lot::{Mutex, RwLock};
use std::{collections::BTreeMap, sync::Weak};
use tokio::time::{sleep, timeout};

/// How often the map is looked at when nothing speaks against it, and how often at most.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
const LEAST_LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How long nodes have to say what they know, and how many are asked at once.
const VIEW_TIMEOUT: Duration = Duration::from_millis(300);
const ASKED_NODES: usize = 8;

impl Cluster {
    /// Finds the nodes, and opens the first connection to that of the data that belong to no topic.
    ///
    /// Errors: [`ConnectError`] where no node answers, where it is no Cluster, several, or one that cannot serve all keys.
    pub async fn start(shared: Arc<Shared>) -> Result<Arc<Self>, ConnectError> {
        let (target, expiry) = read(&shared.options)?;
        shared.metrics.certificates.uses(expiry);
        let view = first_view(&target, shared.options.timeout).await?;
        let (lanes, timeout) = (lanes(&shared, view.primaries.len()), shared.options.timeout);
        let mut backends = Vec::new();
        for address in view.primaries.keys() {
            let client = target.primary.at(&address.0, address.1)?;
            let endpoint = Endpoint::new(client, timeout, 0)?;
            let home = view.serves(address, home_slot(&shared));
            let has = (home, view.serves(address, registry_slot(&shared)));
            let backend = Backend::in_cluster(shared.clone(), endpoint, Arc::default(), has);
            backend.list_replicas(view.replicas.get(address).copied().unwrap_or(0));
            backends.insert(if home { 0 } else { backends.len() }, (address.clone(), backend));
        }
        let (address, home) = &backends[0];
        let mut first = home.connect().await.map_err(|error| {
            let address = shown(address);
            ConnectError::Node { address, error: Box::new(error) }
        })?;
        for (_, backend) in &backends[1..] {
            let drawn = first.connection.inner.req_packed_command(&draw(&shared)).await;
            let number = drawn.ok().and_then(|number| reply::int(number).ok());
            let refused = || ConnectError::Refused("it gives out no numbers".to_owned());
            backend.ids.set_instance(number.ok_or_else(refused)? as u64);
        }
        let mut wants = cmd("CONFIG");
        wants.arg("GET").arg("cluster-require-full-coverage");
        let wants = first.connection.inner.req_packed_command(&wants).await;
        let full_coverage = wants.is_ok_and(|wants| says_yes(&wants));
        if full_coverage {
            tracing::warn!("{FULL_COVERAGE}");
        }
        let epoch = first.epoch;
        let mut first = Some(first);
        let this = Arc::new_cyclic(|this: &Weak<Self>| {
            let mut home = None;
            let mut nodes = BTreeMap::new();
            for (address, backend) in backends {
                let node = Node::start(backend, first.take(), lanes, Some(this.clone()));
                let _ = home.get_or_insert_with(|| node.clone());
                nodes.insert(address, node);
            }
            let map =
                Map::of_view(&view, nodes, |_| home.clone().unwrap_or_else(|| unreachable!()));
            Self {
                shared: shared.clone(),
                target: RwLock::new(Arc::new(target)),
                map: RwLock::new(Arc::new(map)),
                named: Mutex::default(),
                doubt: Notify::new(),
                moved: AtomicBool::new(false),
                full_coverage,
                registry_seen: Mutex::new(Instant::now()),
                numbered: Mutex::new(epoch),
                stopping: CancellationToken::new(),
            }
        });
        tracing::info!(primaries = view.primaries.len(), "found the nodes of a Cluster");
        Ok(this)
    }

    /// Follows failovers and slots that move until it is asked to stop.
    pub async fn keep(self: &Arc<Self>) {
        let mut epochs = self.shared.new_epochs();
        loop {
            // A server that is away may have been replaced at any moment.
            let uneasy = self.nodes().iter().any(|node| node.is_down());
            let pause = if uneasy { Duration::ZERO } else { LOOK_INTERVAL };
            tokio::select! {
                () = self.doubt.notified() => {}
                () = sleep(pause) => {}
                _ = epochs.changed() => {}
                () = self.stopping.cancelled() => return,
            }
            if let Some(view) = self.present_view().await {
                self.apply(&view).await;
            }
            self.number_again().await;
            self.look_at_registry().await;
            sleep(LEAST_LOOK_INTERVAL).await;
        }
    }

    /// Serves what waits and ends the connections; requests are refused from now on.
    pub async fn stop(&self) {
        self.stopping.cancel();
        let nodes = self.nodes();
        join_all(nodes.iter().map(|node| node.stop())).await;
    }

    /// Reads the files with passwords and certificates again, for the connections to come. They must open one first.
    pub async fn reload(&self) -> Result<(), ConnectError> {
        let (target, expiry) = read(&self.shared.options)?;
        if !target.leads_where(&self.target()) {
            return Err(ConnectError::Moved);
        }
        let map = self.map();
        let timeout = self.shared.options.timeout;
        let home = map.of(home_slot(&self.shared)).clone();
        let mut sources = Vec::new();
        for (address, node) in map.all() {
            let client = target.primary.at(&address.0, address.1)?;
            let endpoint = Endpoint::new(client, timeout, 0)?;
            if Arc::ptr_eq(node, &home) {
                drop(endpoint.connect().await?);
            }
            sources.push((node, ConnectionSource::Direct(Arc::new(endpoint))));
        }
        self.shared.metrics.certificates.uses(expiry);
        for (node, source) in sources {
            node.backend.set_source(source);
        }
        *self.target.write() = Arc::new(target);
        Ok(())
    }

    /// Asks how many replicas each primary has.
    pub async fn look_at_replicas(&self) {
        let Some(view) = self.present_view().await else { return };
        for (address, node) in self.map().all() {
            node.backend.list_replicas(view.replicas.get(address).copied().unwrap_or(0));
        }
    }

    fn target(&self) -> Arc<ClusterTarget> {
        self.target.read().clone()
    }

    /// What the nodes that answer say; the named ones where no other does.
    async fn present_view(&self) -> Option<View> {
        // One that is away holds up the others' answers.
        let mut nodes = self.nodes();
        nodes.retain(|node| !node.is_down());
        nodes.truncate(ASKED_NODES);
        let views = nodes.iter().map(|node| async {
            let look = async {
                let slots = Command::new("CLUSTER").arg("SLOTS");
                let info = Command::new("CLUSTER").arg("INFO");
                let (slots, info) = tokio::join!(node.command(slots), node.command(info));
                View::read(slots.ok()?, &info.ok()?, &node.backend.host())
            };
            timeout(VIEW_TIMEOUT, look).await.ok().flatten()
        });
        let views: Vec<_> = join_all(views).await.into_iter().flatten().collect();
        let map = self.map();
        let away = |address: &Address| map.at(address).is_some_and(|node| node.is_down());
        if let Some(view) = best(views, away) {
            return Some(view);
        }
        let target = self.target();
        let views = target.seeds.iter().map(|seed| ask(seed, VIEW_TIMEOUT));
        best(join_all(views).await.into_iter().flatten().collect(), away)
    }

    /// Goes by what the nodes say: meets new ones, and leaves those that serve nothing any more.
    async fn apply(self: &Arc<Self>, view: &View) {
        let before = self.map();
        let mut nodes = before.all().clone();
        let named: Vec<_> = self.named.lock().drain().collect();
        let wanted: HashSet<_> = view.primaries.keys().chain(&named).cloned().collect();
        for address in wanted.iter().filter(|address| !before.all().contains_key(*address)) {
            match self.meet(view, &before, address).await {
                Ok(node) => {
                    tracing::info!(address = shown(address), "met a primary of the Cluster");
                    nodes.insert(address.clone(), node);
                }
                Err(error) => {
                    tracing::warn!(address = shown(address), %error, "a primary of the Cluster cannot be used");
                }
            }
        }
        // Meanwhile replies may have moved single slots: the view is at least as new.
        let map = Map::of_view(view, nodes.clone(), |slot| before.of(slot).clone());
        let gone = |(address, node): &(&Address, &Arc<Node>)| {
            !wanted.contains(*address) && map.first_slot(node).is_none()
        };
        let gone: Vec<_> = nodes.iter().filter(gone).map(|(a, n)| (a.clone(), n.clone())).collect();
        let map = Arc::new(map.without(gone.iter().map(|(address, _)| address)));
        *self.map.write() = map.clone();
        if self.moved.swap(false, Ordering::Relaxed) || !map.is_like(&before) {
            // As if the clock had been set.
            self.shared.steps.send_replace(());
        }
        let (home, registry) = (home_slot(&self.shared), registry_slot(&self.shared));
        for (address, node) in map.all() {
            node.backend.list_replicas(view.replicas.get(address).copied().unwrap_or(0));
            let has = |slot| Arc::ptr_eq(node, map.of(slot));
            node.backend.set_home((has(home), has(registry)));
        }
        if !Arc::ptr_eq(map.of(registry), before.of(registry)) {
            // It may have been taken over without its last moment.
            self.shared.met_epoch(true);
        }
        for (address, node) in gone {
            tracing::info!(
                address = shown(&address),
                "a node of the Cluster serves no slot any more"
            );
            self.send(node.retire());
        }
    }

    /// A node for a server that was not known.
    async fn meet(
        self: &Arc<Self>,
        view: &View,
        before: &Map,
        address: &Address,
    ) -> Result<Arc<Node>, ConnectError> {
        let client = self.target().primary.at(&address.0, address.1)?;
        let endpoint = Endpoint::new(client, self.shared.options.timeout, 0)?;
        // Who takes over from a server that is gone goes on with its ids: the number is nobody else's.
        let slot = view.primaries.get(address).and_then(|ranges| Some(*ranges.first()?.start()));
        let predecessor = slot.map(|slot| before.of(slot)).filter(|old| {
            let is_old = |(_, node): &(&Address, &Arc<Node>)| Arc::ptr_eq(node, old);
            let at = before.all().iter().find(is_old);
            at.is_some_and(|(address, _)| !view.primaries.contains_key(address))
        });
        let mut replicas = 0;
        let ids = match predecessor {
            Some(old) => {
                // The server that is gone is its replica once it is back.
                replicas = old.backend.listed_replicas();
                old.backend.ids.clone()
            }
            None => {
                let ids = Arc::new(IdMaker::default());
                ids.set_instance(self.draw_number().await?);
                ids
            }
        };
        let has = |slot| view.serves(address, slot);
        let has = (has(home_slot(&self.shared)), has(registry_slot(&self.shared)));
        let backend = Backend::in_cluster(self.shared.clone(), endpoint, ids, has);
        backend.list_replicas(replicas);
        let lanes = lanes(&self.shared, view.primaries.len());
        Ok(Node::start(backend, None, lanes, Some(Arc::downgrade(self))))
    }

    async fn draw_number(&self) -> Result<u64, ConnectError> {
        let increase = Command::new("INCR").arg(&self.shared.keys.instances);
        let number = self.home().command(increase).await.and_then(reply::int);
        let unavailable =
            |_: CallError| ConnectError::Refused("it gives out no numbers".to_owned());
        Ok(number.map_err(unavailable)? as u64)
    }

    /// The server that gives out the numbers of instances may have forgotten some: then all nodes but that one, which has its
    /// own already, get new ones.
    async fn number_again(&self) {
        let home = self.home();
        let Some(epoch) = home.backend.server().map(|server| server.epoch) else { return };
        if *self.numbered.lock() == epoch {
            return;
        }
        for node in self.nodes().into_iter().skip(1) {
            let Ok(number) = self.draw_number().await else { return self.look() };
            node.backend.ids.set_instance(number);
        }
        *self.numbered.lock() = epoch;
    }
}

/// The slot of the data that belong to no topic.
fn home_slot(shared: &Shared) -> Slot {
    slot_of(shared.keys.secret.as_bytes())
}

/// The slot of the registry of topics.
fn registry_slot(shared: &Shared) -> Slot {
    slot_of(shared.keys.registry.as_bytes())
}

/// The lanes of each of so many nodes.
fn lanes(shared: &Shared, nodes: usize) -> usize {
    if nodes < MANY_NODES { shared.options.lanes } else { 1 }
}

/// A number for this instance that no other has.
fn draw(shared: &Shared) -> Cmd {
    let mut increase = cmd("INCR");
    increase.arg(&shared.keys.instances);
    increase
}
