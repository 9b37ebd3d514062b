//! What Sentinels tell by themselves. An instance that hears of a failover goes to the new primary at once, whether it has
//! anything to do there or not, so that the first request finds it connected and the consumers that wait are served.

use super::{Address, Sentinels, View, ask};
use crate::{
    Store,
    connect_error::ConnectError,
    connection_source::{ConnectionSource, unreachable},
    server_info::is_primary,
};
use deadpool_redis::redis::{AsyncConnectionConfig, RedisError, aio::ConnectionLike, cmd};
use futures_util::{StreamExt, future::join_all};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};

/// A Sentinel says this when the primary has another address.
const SWITCHED: &str = "+switch-master";
/// The Sentinel that leads a failover says this when it has made a replica the primary. The replica is one in a
/// moment; the Sentinels see that up to a second later.
const PROMOTED: &str = "+failover-state-wait-promotion";
/// A Sentinel that said nothing for this long is asked whether it still lives, and has as long to answer.
const PING_INTERVAL: Duration = Duration::from_secs(1);
const RESUBSCRIBE_INTERVAL: Duration = Duration::from_millis(500);
/// How often the Sentinels are asked how many replicas there are.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How often, and for how long, a replica that is to be the primary is asked whether it is.
const PROMOTION_INTERVAL: Duration = Duration::from_millis(20);
const PROMOTION_TIMEOUT: Duration = Duration::from_secs(5);
/// How often an instance tries to connect after the primary has moved, at first and then. The new one may wait for a
/// replica before it takes writes.
const MEET_INTERVAL: Duration = Duration::from_millis(20);
const MEET_LATER_INTERVAL: Duration = Duration::from_millis(200);
const MEET_SOON: Duration = Duration::from_secs(1);

impl Store {
    /// Follows the primary wherever the Sentinels say that it is. Ends at once where there are none.
    pub(crate) async fn follow_primary(&self) {
        let seeds = match &*self.lanes.home().backend.source() {
            ConnectionSource::Sentinels(sentinels) => sentinels.seeds.len(),
            ConnectionSource::Direct(_) => return,
        };
        let listen = join_all((0..seeds).map(|seed| self.listen_to(seed)));
        let look = async {
            loop {
                sleep(LOOK_INTERVAL).await;
                if let Some(sentinels) = self.lanes.home().backend.source().sentinels() {
                    sentinels.look_at_replicas().await;
                }
            }
        };
        tokio::join!(listen, self.meet_moved(), look);
    }

    /// Listens to one of the Sentinels.
    async fn listen_to(&self, seed: usize) {
        // What fails again and again is logged once.
        let mut logged = false;
        loop {
            let source = self.lanes.home().backend.source();
            let Some(sentinels) = source.sentinels() else { return };
            let are_present = || Arc::ptr_eq(&source, &self.lanes.home().backend.source());
            let Some(error) = sentinels.listen(seed, &are_present, &mut logged).await else {
                continue;
            };
            if !std::mem::replace(&mut logged, true) {
                let sentinel = super::address_of(&sentinels.seeds[seed]);
                tracing::warn!(sentinel, %error, "a Sentinel is not heard");
            }
            drop(source);
            sleep(RESUBSCRIBE_INTERVAL).await;
        }
    }

    /// Connects whenever the primary has moved, which wakes everybody who waits for the new epoch.
    async fn meet_moved(&self) {
        let node = self.lanes.home();
        let mut moves = node.backend.moves();
        while moves.changed().await.is_ok() {
            let soon = Instant::now() + MEET_SOON;
            while let Err(error) = node.backend.connect().await {
                tracing::debug!(%error, "the new primary is not met yet");
                let pressing = Instant::now() < soon;
                sleep(if pressing { MEET_INTERVAL } else { MEET_LATER_INTERVAL }).await;
            }
            // Lanes need not wait for the end of their pause.
            node.set_down(None);
        }
    }
}

impl Sentinels {
    /// Follows what a Sentinel says, and returns why that ended; nothing if these Sentinels were replaced, since the files
    /// with their passwords were read again.
    async fn listen(
        &self,
        seed: usize,
        are_present: &(impl Fn() -> bool + Sync),
        logged: &mut bool,
    ) -> Option<ConnectError> {
        let client = &self.seeds[seed];
        let subscribe = async {
            let (mut sink, stream) = client.get_async_pubsub().await?.split();
            sink.subscribe(&[SWITCHED, PROMOTED]).await?;
            Ok::<_, RedisError>((sink, stream))
        };
        let silent = || ConnectError::Unreachable("it does not answer in time".to_owned());
        let (mut sink, mut stream) = match timeout(self.limit(), subscribe).await {
            Ok(Ok(subscription)) => subscription,
            Ok(Err(error)) => return Some(unreachable(&error)),
            Err(_) => return Some(silent()),
        };
        if std::mem::take(logged) {
            tracing::info!(sentinel = super::address_of(client), "a Sentinel is heard again");
        }
        // What it said before it was listened to.
        self.look(seed).await;
        loop {
            let heard = timeout(PING_INTERVAL, stream.next()).await;
            if !are_present() {
                return None;
            }
            match heard {
                Ok(Some(message)) => {
                    let text: String = message.get_payload().unwrap_or_default();
                    match message.get_channel_name() {
                        PROMOTED => self.await_promotion(&text).await,
                        _ => self.look(seed).await,
                    }
                }
                Ok(None) => {
                    return Some(ConnectError::Unreachable("the connection was closed".to_owned()));
                }
                Err(_) => match timeout(PING_INTERVAL, sink.ping::<()>()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return Some(unreachable(&error)),
                    Err(_) => return Some(silent()),
                },
            }
        }
    }

    /// Believes one Sentinel if it knows of a later failover than this instance.
    async fn look(&self, seed: usize) {
        let Some(name) = self.name() else { return };
        let Ok(view) = ask(&self.seeds[seed], Some(&name), self.limit()).await else { return };
        let known = self.known.lock().as_ref().map(|known| known.view.clone());
        if known.is_some_and(|known| known.is_beside(&view)) {
            self.replicas.raise(view.replicas);
            self.take(view);
        }
    }

    /// Takes a replica for the primary as soon as it is one: the Sentinel that says so was elected for this.
    async fn await_promotion(&self, text: &str) {
        let Some(known) = self.known.lock().as_ref().map(|known| known.view.clone()) else {
            return;
        };
        let Some(address) = promoted(text, &known.name) else { return };
        let end = Instant::now() + PROMOTION_TIMEOUT;
        while Instant::now() < end && !self.is_known_at(&address) {
            if self.is_primary(&address).await {
                self.take(View { address, epoch: known.epoch + 1, ..known });
                return;
            }
            sleep(PROMOTION_INTERVAL).await;
        }
    }

    fn take(&self, view: View) {
        if let Err(error) = self.learn(view) {
            tracing::warn!(%error, "the primary that a Sentinel names cannot be used");
        }
    }

    fn is_known_at(&self, address: &Address) -> bool {
        self.known.lock().as_ref().is_some_and(|known| known.view.address == *address)
    }

    async fn is_primary(&self, (host, port): &Address) -> bool {
        let Ok(client) = self.primary.at(host, *port) else { return false };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.limit()))
            .set_response_timeout(Some(self.limit()));
        let asked = async {
            let mut connection =
                client.get_multiplexed_async_connection_with_config(&config).await?;
            connection.req_packed_command(&cmd("ROLE")).await
        };
        let role: Result<_, RedisError> = asked.await;
        role.is_ok_and(|role| is_primary(&role))
    }
}

/// The replica that becomes the primary of this name: `slave <its name> <host> <port> @ <name> <host> <port>`.
fn promoted(text: &str, name: &str) -> Option<Address> {
    let words: Vec<&str> = text.split(' ').collect();
    match words[..] {
        ["slave", _, host, port, "@", of, _, _] if of == name => {
            Some((host.to_owned(), port.parse().ok()?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::promoted;

    #[test]
    fn a_promotion_names_the_replica_and_its_primary() {
        let text = "slave 10.0.0.2:6379 10.0.0.2 6379 @ orders 10.0.0.1 6379";
        assert_eq!(promoted(text, "orders"), Some(("10.0.0.2".to_owned(), 6379)));
        assert_eq!(promoted(text, "others"), None);
        for text in ["", "slave", "master orders 10.0.0.1 6379", "slave a b c @ orders d e"] {
            assert_eq!(promoted(text, "orders"), None, "{text}");
        }
    }
}
