//! From a configuration to a running service, and back: the order of start and of stop.

use crate::{
    config::Config,
    http::{
        self,
        access::{Access, AccessError},
        server,
    },
    loops::{
        callbacks::{Caller, Sending, send_callbacks},
        keep_house, tick_schedules,
    },
    metrics::Metrics,
    model::{AddressGuard, MAX_SECRETS, SigningSecret},
    store::{
        ConnectError, Store, StoreOptions,
        embedded::{EmbeddedRedis, Options, StartError},
    },
    waiting::WaitingRooms,
};
use std::{future::Future, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    sync::{oneshot, watch},
};
use tokio_util::sync::CancellationToken;

/// Why the service could not start; each is one line.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Those who may use it are not well told.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The embedded Redis does not start.
    #[error(transparent)]
    Embedded(#[from] StartError),
    /// Redis cannot be used.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The address file cannot be written.
    #[error("cannot write the address to {path}: {source}")]
    AddrFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What callbacks are to be signed with is no secret of the right form.
    #[error("--signing-secret: {0}")]
    SigningSecret(String),
    /// Calls by https cannot be made: a defect.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// The document cannot be written: a defect.
    #[error("the OpenAPI document cannot be written: {0}")]
    Document(#[from] serde_json::Error),
}

/// Serves until `shutdown`, then stops in order: long polls are answered, requests under way finish, loops end, lanes
/// empty, the embedded Redis ends.
///
/// Errors: [`RunError`] where it could not start.
pub async fn run(config: Config, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
    let access = Access::new(&config)?;
    let secrets = signing_secrets(&config)?;
    let listener = TcpListener::bind(config.listen).await;
    let listener = listener.map_err(|error| RunError::Listen(config.listen, error))?;
    let (url, embedded) = match &config.redis_url {
        Some(url) => (url.clone(), None),
        None => {
            let redis = EmbeddedRedis::start(Options {
                data_dir: config.data_dir.clone(),
                redis_bin: config.redis_bin.clone(),
                fsync: config.fsync,
            })
            .await?;
            (redis.url(), Some(redis))
        }
    };
    let served = serve(&config, access, secrets, url, listener, shutdown).await;
    if let Some(redis) = embedded {
        redis.stop().await;
    }
    served
}

/// What callbacks are signed with. Errors: where one is none, which is not told.
fn signing_secrets(config: &Config) -> Result<Arc<[SigningSecret]>, RunError> {
    let given = &config.signing_secrets;
    if given.len() > MAX_SECRETS {
        return Err(RunError::SigningSecret(format!("at most {MAX_SECRETS} can be given")));
    }
    let parsed = given.iter().map(|secret| SigningSecret::parse(secret.reveal()));
    parsed.collect::<Result<_, _>>().map_err(|error| RunError::SigningSecret(error.to_string()))
}

async fn serve(
    config: &Config,
    access: Access,
    secrets: Arc<[SigningSecret]>,
    url: String,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let metrics = Arc::new(Metrics::new());
    let options = StoreOptions {
        url,
        key_prefix: config.key_prefix.clone(),
        lanes: config.lanes.into(),
        timeout: Duration::from_millis(config.redis_timeout_ms),
        mode: config.store_mode,
        upgrade: true,
    };
    let (store, woken) = Store::connect(&options, metrics.clone()).await?;
    if let Err(reason) = store.health().await {
        tracing::error!(%reason, "not ready");
    }
    if let Err(error) = store.upgrade_callbacks().await {
        tracing::warn!(%error, "the topic of callbacks keeps what it delivered only after the next start");
    }
    let rooms = WaitingRooms::open(store.clone(), metrics.clone(), woken);
    let drain = Duration::from_millis(config.drain_timeout_ms);
    let (stopping, is_stopping) = watch::channel(false);
    access.warn(config.listen);
    let addresses = Arc::new(AddressGuard {
        allowed: config.callback_allow.clone(),
        only: config.callback_only.clone(),
        denied: config.callback_deny.clone(),
    });
    let router = http::router(
        access,
        addresses.clone(),
        store.clone(),
        rooms.clone(),
        metrics.clone(),
        config.max_body_bytes,
        is_stopping,
    )?;
    let caller = match config.no_dispatch {
        true => None,
        false => Some(Caller::new(addresses, config.callback_dns)?),
    };
    announce(config, &listener)?;
    // Nothing fails from here on: what begins now is stopped in order.
    let house = tokio::spawn(keep_house(store.clone(), http::dead_letter));
    let schedules = tokio::spawn(tick_schedules(store.clone()));
    let no_more_calls = CancellationToken::new();
    let callbacks = caller.map(|caller| {
        let (store, rooms) = (store.clone(), rooms.clone());
        let longest = Duration::from_millis(config.callback_max_timeout_ms);
        let sending = Sending { store, rooms, metrics, caller, secrets, longest, drain };
        tokio::spawn(send_callbacks(sending, no_more_calls.clone()))
    });

    let (stop_serving, told_to_stop) = oneshot::channel::<()>();
    let server = async {
        let stop = async { drop(told_to_stop.await) };
        server::serve(listener, router, stop, drain).await;
    };
    let conductor = async {
        shutdown.await;
        tracing::info!("stopping");
        stopping.send_replace(true);
        no_more_calls.cancel();
        rooms.close();
        // The server may be gone only after this.
        let _ = stop_serving.send(());
    };
    tokio::join!(server, conductor);
    // What it has claimed somebody else makes, or the next start.
    schedules.abort();
    if let Some(callbacks) = callbacks {
        // Calls under way end, or their messages go back, while Redis can still be told. Some may die of it, which
        // housekeeping tells others of.
        let _ = callbacks.await;
    }
    house.abort();
    store.stop().await;
    tracing::info!("stopped");
    Ok(())
}

/// Tells where the service is reached.
fn announce(config: &Config, listener: &TcpListener) -> Result<(), RunError> {
    let bound = listener.local_addr().map_err(|error| RunError::Listen(config.listen, error))?;
    tracing::info!("serving http://{bound}");
    if let Some(path) = &config.addr_file {
        // Whoever waits for the file must never read half an address.
        let partial = path.with_extension("partial");
        std::fs::write(&partial, bound.to_string())
            .and_then(|()| std::fs::rename(&partial, path))
            .map_err(|source| RunError::AddrFile { path: path.clone(), source })?;
    }
    Ok(())
}
