//! Wake-ups from other instances: one subscription, kept alive and made again when it breaks. After every (re)opening
//! all waiters look once more, since wake-ups may have been missed.

use super::{Store, Wake};
use crate::{model::TopicName, seeded};
use deadpool_redis::redis::RedisResult;
use futures_util::StreamExt;
use std::time::Duration;

/// A subscription over which nothing comes is asked this often whether it still lives.
const PING_EVERY: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(250);

impl Store {
    /// Passes on wake-ups from other instances until the future is dropped.
    pub async fn listen_for_wakes(&self, wakes: impl Fn(Wake)) {
        loop {
            if let Err(error) = self.listen(&wakes).await {
                tracing::warn!(%error, "the subscription to wake-ups broke; it is made again");
            }
            if seeded::bug("wake-ups not restored") {
                return std::future::pending().await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn listen(&self, wakes: &impl Fn(Wake)) -> RedisResult<()> {
        let (mut sink, mut stream) = self.lanes.backend.client().get_async_pubsub().await?.split();
        sink.subscribe(&self.lanes.backend.keys.wake_channel).await?;
        wakes(Wake::All);
        loop {
            match tokio::time::timeout(PING_EVERY, stream.next()).await {
                Ok(Some(message)) => {
                    let text: String = message.get_payload()?;
                    if let Some((sender, topic)) = text.split_once(' ')
                        && sender != self.lanes.name()
                        && let Ok(topic) = TopicName::parse(topic)
                    {
                        wakes(Wake::Topic(topic));
                    }
                }
                Ok(None) => return Ok(()),
                Err(_) => {
                    let pong = tokio::time::timeout(PING_EVERY, sink.ping::<()>()).await;
                    match pong {
                        Ok(answer) => answer?,
                        Err(_) => return Ok(()),
                    }
                }
            }
        }
    }
}
