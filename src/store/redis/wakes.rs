//! Wake-ups: scripts send them over a channel, in the same step as what they tell of. So an instance that hears the channel
//! misses none, its own included, whatever becomes of answers and of other instances. This keeps one subscription alive.
//! Whenever it was lost, all waiters look at once, and again when it is back; in between they look often.

use crate::{
    Store, Wake,
    batch::{Command, Node},
    connect_error::ConnectError,
    connection_source::unreachable,
    random_bytes,
};
use deadpool_redis::redis::{
    RedisError,
    aio::{PubSubSink, PubSubStream},
};
use dueq_model::{PartitionNumber, TopicName};
use futures_util::StreamExt;
use std::{
    future::{Future, pending},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// A subscription over which nothing came for this long is asked whether it still lives.
const PING_INTERVAL: Duration = Duration::from_millis(250);
/// It has this long to answer: a link that was cut silently must not cost a consumer a second.
const PONG_TIMEOUT: Duration = Duration::from_millis(500);
/// How long there may be no subscription before that is logged: the lanes notice within that time that Redis is away.
const PATIENCE: Duration = Duration::from_secs(2);
const RESUBSCRIBE_INTERVAL: Duration = Duration::from_millis(250);
/// How often it is tried whether the wake-ups of another node of a Cluster arrive, and how long they may take.
const ECHO_INTERVAL: Duration = Duration::from_secs(2);
const ECHO_TIMEOUT: Duration = Duration::from_secs(1);

/// What this instance sends to itself by way of other nodes.
struct Echoes {
    /// What each begins with.
    name: String,
    /// The last that arrived.
    heard: watch::Sender<String>,
}

impl Default for Echoes {
    fn default() -> Self {
        let name = format!("{}:", hex::encode(random_bytes()));
        Self { name, heard: watch::Sender::default() }
    }
}

/// Says that wake-ups arrive, until it is dropped.
struct Listening<'a>(&'a AtomicBool);

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Store {
    /// Do wake-ups reach this instance?
    pub fn hears_wakes(&self) -> bool {
        self.lanes.shared.listening.load(Ordering::Relaxed)
    }

    /// Notes what a wake-up says of a topic's partitions.
    pub fn note_wake(&self, wake: &Wake) {
        match wake {
            Wake::Topic(name, partition) => self.registry.woken(name, *partition),
            Wake::All => self.registry.all_woken(),
        }
    }

    /// Passes on wake-ups until the future is dropped.
    pub async fn listen_for_wakes(&self, wakes: impl Fn(Wake)) {
        // What fails again and again is logged once, and not if all of Redis is away.
        let (mut failing, mut logged) = (None, false);
        loop {
            let error = match self.subscribe().await {
                Ok((node, sink, stream)) => {
                    self.lanes.shared.listening.store(true, Ordering::Relaxed);
                    failing = None;
                    let listening = Listening(&self.lanes.shared.listening);
                    if std::mem::take(&mut logged) {
                        tracing::info!("subscribed to wake-ups again");
                    }
                    wakes(Wake::All);
                    let echoes = Echoes::default();
                    let error = tokio::select! {
                        error = self.pass_on((sink, stream), &wakes, &echoes) => error,
                        error = self.deafness(&node, &echoes) => error,
                        error = self.changed(&node) => error,
                    };
                    drop(listening);
                    wakes(Wake::All);
                    error
                }
                Err(error) => error,
            };
            let since = *failing.get_or_insert_with(Instant::now);
            let is_away = self.lanes.home().backend.outage.cause().is_some();
            if !logged && !is_away && since.elapsed() > PATIENCE {
                logged = true;
                tracing::warn!(%error, "no subscription to wake-ups; waiting consumers look often until there is one");
            }
            tokio::time::sleep(RESUBSCRIBE_INTERVAL).await;
        }
    }

    async fn subscribe(&self) -> Result<(Arc<Node>, PubSubSink, PubSubStream), ConnectError> {
        let unknown = || ConnectError::Unreachable("no primary is known".into());
        let (node, client) = self.lanes.subscription().ok_or_else(unknown)?;
        let subscription = within(self.lanes.timeout, async {
            let (mut sink, stream) = client.get_async_pubsub().await?.split();
            sink.subscribe(&self.lanes.shared.keys.wake_channel).await?;
            Ok((sink, stream))
        });
        let (sink, stream) = tokio::select! {
            subscription = subscription => subscription?,
            error = self.changed(&node) => return Err(error),
        };
        Ok((node, sink, stream))
    }

    /// Ends when the server was met in another epoch, or serves nothing any more. The scripts run at another server then,
    /// which a subscription from before may not hear. In a Cluster every node hears all others.
    async fn changed(&self, node: &Node) -> ConnectError {
        let epoch = || node.backend.server().map(|server| server.epoch);
        let (known, mut epochs) = (epoch(), self.lanes.shared.new_epochs());
        let (moved, mut moves) = (node.backend.moves_so_far(), node.backend.moves());
        let is_same = || epoch() == known && node.backend.moves_so_far() == moved;
        while is_same() {
            let alive = tokio::select! {
                alive = epochs.changed() => alive,
                alive = moves.changed() => alive,
            };
            if alive.is_err() {
                break;
            }
        }
        ConnectError::Unreachable("Redis has changed".into())
    }

    /// Ends when what other nodes of a Cluster send does not arrive at `node`: a server may serve its clients and yet be cut
    /// off from the others. They are tried in turn.
    async fn deafness(&self, node: &Arc<Node>, echoes: &Echoes) -> ConnectError {
        let Some(cluster) = self.lanes.cluster() else { return pending().await };
        let mut missed = 0;
        for turn in 0.. {
            tokio::time::sleep(ECHO_INTERVAL).await;
            let mut others = self.lanes.nodes();
            others.retain(|other| !Arc::ptr_eq(other, node) && !other.is_down());
            if others.is_empty() {
                continue;
            }
            let other = &others[turn % others.len()];
            let call = format!("{}{turn}", echoes.name);
            let send = Command::new("PUBLISH").arg((&self.lanes.shared.keys.wake_channel, &call));
            let sent = tokio::time::timeout(ECHO_TIMEOUT, other.command(send)).await;
            let mut heard = echoes.heard.subscribe();
            let arrived = heard.wait_for(|heard| *heard == call);
            match sent {
                Ok(Ok(_)) if tokio::time::timeout(ECHO_TIMEOUT, arrived).await.is_err() => {
                    missed += 1
                }
                Ok(Ok(_)) => missed = 0,
                _ => continue,
            }
            // A single one that does not arrive may be the fault of its sender.
            if missed >= others.len().min(2) {
                cluster.look();
                let (from, at) = (other.backend.address(), node.backend.address());
                let reason = format!("what {from} sends does not arrive at {at}");
                return ConnectError::Unreachable(reason);
            }
        }
        pending().await
    }

    /// Passes on what comes over a subscription, and says why it ended.
    async fn pass_on(
        &self,
        (mut sink, mut stream): (PubSubSink, PubSubStream),
        wakes: &impl Fn(Wake),
        echoes: &Echoes,
    ) -> ConnectError {
        loop {
            match tokio::time::timeout(PING_INTERVAL, stream.next()).await {
                Ok(Some(message)) => {
                    let text: String = message.get_payload().unwrap_or_default();
                    if let Some((topic, partition)) = read(&text) {
                        wakes(Wake::Topic(topic, Some(partition)));
                    } else if text.starts_with(&echoes.name) {
                        echoes.heard.send_replace(text);
                    }
                }
                Ok(None) => return ConnectError::Unreachable("the connection was closed".into()),
                Err(_) => {
                    if let Err(error) = within(PONG_TIMEOUT, sink.ping::<()>()).await {
                        return error;
                    }
                }
            }
        }
    }
}

/// The topic and the partition that a wake-up names. An older version names its instance before the topic.
fn read(text: &str) -> Option<(TopicName, PartitionNumber)> {
    let mut words = text.split(' ').skip(1);
    let topic = TopicName::parse(words.next()?).ok()?;
    let number = words.next().map_or(Ok(0), str::parse).ok()?;
    Some((topic, PartitionNumber(number)))
}

/// The answer, if it comes in time.
async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, RedisError>>,
) -> Result<T, ConnectError> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer.map_err(|error| unreachable(&error)),
        Err(_) => Err(ConnectError::Unreachable("it does not answer in time".into())),
    }
}
