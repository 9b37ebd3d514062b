//! Wake-ups: scripts send them over a channel, in the same step as what they tell of. So an instance that hears the channel
//! misses none, its own included, whatever becomes of answers and of other instances. This keeps one subscription alive.
//! Whenever it was lost, all waiters look at once, and again when it is back; in between they look often.

use super::{Store, Wake, batch::Node, connect_error::ConnectError, way::unreachable};
use crate::{
    model::{PartitionNumber, TopicName},
    seeded,
};
use deadpool_redis::redis::{
    RedisError,
    aio::{PubSubSink, PubSubStream},
};
use futures_util::StreamExt;
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A subscription over which nothing came for this long is asked whether it still lives.
const PING_INTERVAL: Duration = Duration::from_millis(250);
/// It has this long to answer: a link that was cut silently must not cost a consumer a second.
const PONG_TIMEOUT: Duration = Duration::from_millis(500);
const RESUBSCRIBE_INTERVAL: Duration = Duration::from_millis(250);

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
        // What fails again and again is logged once.
        let mut logged = false;
        loop {
            let error = match self.subscribe().await {
                Ok((node, sink, stream)) => {
                    self.lanes.shared.listening.store(true, Ordering::Relaxed);
                    let listening = Listening(&self.lanes.shared.listening);
                    if std::mem::take(&mut logged) {
                        tracing::info!("subscribed to wake-ups again");
                    }
                    wakes(Wake::All);
                    let error = tokio::select! {
                        error = self.pass_on((sink, stream), &wakes) => error,
                        error = self.changed(&node) => error,
                    };
                    if seeded::bug("wake-ups not restored") {
                        return std::future::pending().await;
                    }
                    drop(listening);
                    wakes(Wake::All);
                    error
                }
                Err(error) => error,
            };
            if !std::mem::replace(&mut logged, true) {
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

    /// Passes on what comes over a subscription, and says why it ended.
    async fn pass_on(
        &self,
        (mut sink, mut stream): (PubSubSink, PubSubStream),
        wakes: &impl Fn(Wake),
    ) -> ConnectError {
        loop {
            match tokio::time::timeout(PING_INTERVAL, stream.next()).await {
                Ok(Some(message)) => {
                    let text: String = message.get_payload().unwrap_or_default();
                    if let Some((topic, partition)) = read(&text) {
                        wakes(Wake::Topic(topic, Some(partition)));
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
