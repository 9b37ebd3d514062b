//! All lanes of one instance: those of the only node, or of every primary of a Cluster. Requests find theirs by the slot of
//! their keys.

use super::{
    super::{
        backend::{Backend, Shared},
        cluster::{Cluster, Slot, slot_of},
        connect_error::ConnectError,
        partition::{Partition, name},
        random_bytes,
        registry::Topic,
        reply::CallError,
        types::MessageOptions,
    },
    Answered, Command, Confirm, Confirmed, Op, Request,
    node::Node,
    request::{Exchange, Job},
};
use deadpool_redis::redis::{Client, Value};
use dueq_model::{PartitionNumber, TopicName};
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::time::timeout_at;

/// How often a request that waits for a server looks whether it is away.
const AWAY_CHECK_INTERVAL: Duration = Duration::from_millis(450);

/// A topic whose consumers should look again.
#[derive(Clone, Debug)]
pub enum Wake {
    /// Those of one topic, because of one of its partitions or of all.
    Topic(TopicName, Option<PartitionNumber>),
    /// All of them: wake-ups may have been lost.
    All,
}

/// The lanes of one instance.
pub struct Lanes {
    /// What all servers have in common.
    pub shared: Arc<Shared>,
    nodes: Nodes,
    /// How long a request waits for Redis, from its coming to its answer.
    pub timeout: Duration,
    /// How often a subscription to wake-ups was tried.
    subscriptions: AtomicUsize,
}

enum Nodes {
    One(Arc<Node>),
    Cluster(Arc<Cluster>),
}

impl Lanes {
    /// Opens the first connection, so that a Redis that will not do is reported at the start, and starts the lanes.
    pub async fn start(shared: Arc<Shared>) -> Result<Arc<Self>, ConnectError> {
        let nodes = match Self::begin(&shared).await {
            Err(ConnectError::Cluster) if !shared.options.redis.is_standalone() => {
                Nodes::Cluster(Cluster::start(shared.clone()).await?)
            }
            nodes => nodes?,
        };
        let timeout = shared.options.timeout;
        // Not all instances subscribe at the same node.
        let subscriptions = AtomicUsize::new(random_bytes()[0].into());
        Ok(Arc::new(Self { shared, nodes, timeout, subscriptions }))
    }

    /// The only node, if it is no Cluster.
    async fn begin(shared: &Arc<Shared>) -> Result<Nodes, ConnectError> {
        if Cluster::is_named(&shared.options).await {
            return Err(ConnectError::Cluster);
        }
        let backend = Backend::new(shared.clone())?;
        let first = backend.begin().await.map_err(|error| error.at(&backend.address()))?;
        Ok(Nodes::One(Node::start(backend, Some(first), shared.options.lanes, None)))
    }

    /// Serves what waits, refuses what comes from now on, and ends.
    pub async fn stop(&self) {
        match &self.nodes {
            Nodes::One(node) => node.stop().await,
            Nodes::Cluster(cluster) => cluster.stop().await,
        }
    }

    /// The Cluster, if it is one.
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        match &self.nodes {
            Nodes::One(_) => None,
            Nodes::Cluster(cluster) => Some(cluster),
        }
    }

    /// All nodes; that of the data that belong to no topic comes first.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        match &self.nodes {
            Nodes::One(node) => vec![node.clone()],
            Nodes::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// The only node, or that of the data that belong to no topic.
    pub fn home(&self) -> Arc<Node> {
        match &self.nodes {
            Nodes::One(node) => node.clone(),
            Nodes::Cluster(cluster) => cluster.home(),
        }
    }

    /// The node of a key.
    pub fn node_of(&self, key: &str) -> Arc<Node> {
        match &self.nodes {
            Nodes::One(node) => node.clone(),
            Nodes::Cluster(cluster) => cluster.node_of(slot_of(key.as_bytes())),
        }
    }

    /// The node of a topic.
    pub fn node_of_topic(&self, topic: &TopicName) -> Arc<Node> {
        match &self.nodes {
            Nodes::One(node) => node.clone(),
            // The hash tag of its partition.
            Nodes::Cluster(cluster) => cluster.node_of(slot_of(format!("{topic}:0").as_bytes())),
        }
    }

    /// Looks at what is known of the server of a slot.
    pub fn at_slot<T>(&self, slot: Slot, look: impl FnOnce(&Node) -> T) -> T {
        match &self.nodes {
            Nodes::One(node) => look(node),
            Nodes::Cluster(cluster) => look(&cluster.node_of(slot)),
        }
    }

    /// A client for a subscription; that of another node with every call, and `None` while no primary is known.
    pub fn subscription(&self) -> Option<(Arc<Node>, Client)> {
        let turn = self.subscriptions.fetch_add(1, Ordering::Relaxed);
        let mut nodes = self.nodes();
        let first = turn % nodes.len().max(1);
        nodes.rotate_left(first);
        nodes.into_iter().find_map(|node| Some((node.clone(), node.backend.client()?)))
    }

    /// Sends a request, with others of its kind where there are some, and waits for its answer.
    pub async fn submit<T>(&self, request: Request<T>) -> Result<T, CallError> {
        self.put([request.job]);
        answer(request.answered).await
    }

    /// Sends requests that go to a node in this order, and waits for all answers.
    pub async fn submit_many<O: Op>(
        &self,
        requests: impl Iterator<Item = (Partition, O)>,
    ) -> Vec<Result<O::Output, CallError>> {
        let mut answers = Vec::new();
        for answered in self.send_many(requests) {
            answers.push(answer(answered).await);
        }
        answers
    }

    /// Sends requests that go to a node in this order; where their answers arrive.
    pub fn send_many<O: Op>(
        &self,
        requests: impl Iterator<Item = (Partition, O)>,
    ) -> Vec<Answered<O::Output>> {
        let since = Instant::now();
        let (jobs, answers): (Vec<_>, Vec<_>) = requests
            .map(|(partition, op)| Request::new(&partition, op, since))
            .map(|request| (request.job, request.answered))
            .unzip();
        if !jobs.is_empty() {
            self.put(jobs);
        }
        answers
    }

    /// Waits for an answer. If another server will do as well, it is given up of one that is away. `since`: when it was sent.
    ///
    /// Errors: `Unknown` then.
    pub async fn answer_unless_away<T>(
        &self,
        partition: &Partition,
        since: Instant,
        elsewhere: bool,
        answer: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        if !elsewhere || self.cluster().is_none() {
            return answer.await;
        }
        // Timers are large, and few requests need these.
        Box::pin(async move {
            let (mut answer, mut until) = (pin!(answer), since);
            loop {
                until += AWAY_CHECK_INTERVAL;
                match timeout_at(until.into(), &mut answer).await {
                    Ok(answer) => return answer,
                    Err(_) if self.is_away(&partition.topic, partition.slot) => {
                        return Err(CallError::Unknown);
                    }
                    Err(_) => {}
                }
            }
        })
        .await
    }

    /// In a Cluster: does the server of a topic's slot not answer, or its replicas not confirm what they have to?
    pub fn is_away(&self, topic: &Topic, slot: Slot) -> bool {
        let is_away = |node: &Node| {
            node.is_down() || (topic.confirm() == Confirm::Always && !node.confirms())
        };
        self.cluster().is_some() && self.at_slot(slot, is_away)
    }

    /// Where a message with these options goes; after `full`, if that could not take it. Without a name it goes round
    /// servers that are away.
    pub fn place(
        &self,
        topic: Arc<Topic>,
        options: &MessageOptions,
        full: Option<&Partition>,
    ) -> Partition {
        let first = match full {
            Some(full) => full.next(topic),
            None => Partition::for_new(topic, options),
        };
        if name(options).is_some() {
            return first;
        }
        let all = std::iter::successors(Some(first.clone()), |it| Some(it.next(it.topic.clone())));
        let mut all = all.take(first.topic.partitions.len());
        all.find(|it| !self.is_away(&it.topic, it.slot)).unwrap_or(first)
    }

    /// Sends a command, for its bare answer.
    pub async fn command(&self, command: Command) -> Result<Value, CallError> {
        self.submit(Request::single(command, |value, _| Ok(value))).await
    }

    /// Sends a command that changes what all instances go by, for its bare answer, and for where it arrives that the replicas
    /// have the change.
    pub async fn change(
        &self,
        command: Command,
        confirm: Confirm,
    ) -> Result<(Value, Confirmed), CallError> {
        // In a Cluster this is another server than that of the topic, maybe one that never had a replica.
        let confirm =
            if self.cluster().is_some() { confirm.min(Confirm::WithReplicas) } else { confirm };
        let read =
            move |value, exchange: &mut Exchange<'_>| Ok((value, exchange.confirmed(confirm)));
        self.submit(Request::single(Command { confirm, ..command }, read)).await
    }

    fn put(&self, jobs: impl IntoIterator<Item = Job>) {
        match &self.nodes {
            Nodes::One(node) => node.inbox.put(jobs).into_iter().for_each(Job::refuse),
            Nodes::Cluster(cluster) => cluster.send(jobs.into_iter().collect()),
        }
    }

    /// Wakes this instance's consumers of `topic` while the wake-up that the script sent does not reach them.
    pub fn wake(&self, topic: &TopicName, partition: Option<PartitionNumber>) {
        self.shared.wake(topic, partition);
    }
}

/// The answer that arrives. A lane that ended without one had sent the request, or may have.
pub(crate) async fn answer<T>(answered: Answered<T>) -> Result<T, CallError> {
    answered.await.unwrap_or(Err(CallError::Unknown))
}
