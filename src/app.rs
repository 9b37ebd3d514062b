//! From a configuration to a running service, and back: the order of start and of stop.

use crate::{
    config::Config,
    embedded::{EmbeddedRedis, Options, StartError},
    http::{
        self,
        access::{Access, AccessError},
        server,
    },
    longpoll::LongPolls,
    loops::{
        callbacks::{Caller, Sending, send_callbacks},
        run_housekeeping, tick_schedules,
    },
    metrics::Metrics,
    model::{AddressGuard, MAX_SECRETS, SigningSecret},
    store::{ConnectError, Store, StoreOptions},
};
use rustix::process::{Resource, getrlimit};
use std::{
    fs::{self, File},
    future::{Future, pending},
    io::{self, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
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
    /// What keeps the embedded Redis running has ended: a defect. Whoever started dueq may start it again.
    #[error("the supervisor of the embedded Redis has ended")]
    Lost,
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
    let listener =
        server::listen(config.listen).map_err(|error| RunError::Listen(config.listen, error))?;
    let (url, mut embedded) = match &config.redis_url {
        Some(url) => (url.clone(), None),
        None => {
            let redis = EmbeddedRedis::start(Options {
                data_dir: config.data_dir.clone(),
                redis_bin: config.redis_bin.clone(),
                fsync: config.fsync,
                maxmemory: config.redis_maxmemory,
            })
            .await?;
            (redis.url(), Some(redis))
        }
    };
    let mut lost = false;
    let shutdown = async {
        let redis_lost = async {
            match &mut embedded {
                Some(redis) => redis.lost().await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = shutdown => {}
            () = redis_lost => lost = true,
        }
    };
    let served = serve(&config, access, secrets, url, listener, shutdown).await;
    match embedded {
        Some(_) if lost => return Err(RunError::Lost),
        Some(redis) => redis.stop().await,
        None => {}
    }
    served
}

/// What callbacks are signed with. Errors: where one is none, which is not told.
fn signing_secrets(config: &Config) -> Result<Arc<[SigningSecret]>, RunError> {
    let given = &config.signing_secrets;
    if given.len() > MAX_SECRETS {
        return Err(RunError::SigningSecret(format!("at most {MAX_SECRETS} are allowed")));
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
        upgrade: true,
    };
    let (store, woken) = Store::connect(&options, metrics.clone()).await?;
    if let Err(reason) = store.health().await {
        tracing::error!(%reason, "not ready");
    }
    if let Err(error) = store.upgrade_callbacks().await {
        tracing::warn!(%error, "_callbacks keeps delivered callbacks only after the next start");
    }
    let polls = LongPolls::start(store.clone(), metrics.clone(), woken).await;
    let drain = Duration::from_millis(config.drain_timeout_ms);
    let (stopping, is_stopping) = watch::channel(false);
    access.warn(config.listen);
    let addresses = Arc::new(AddressGuard {
        allowed: config.callback_allow.clone(),
        only: config.callback_only.clone(),
        denied: config.callback_deny.clone(),
    });
    let inflight = usize::try_from(config.max_inflight_bytes).unwrap_or(usize::MAX);
    let sizes = http::Sizes { body: config.max_body_bytes, inflight };
    let router = http::router(
        access,
        addresses.clone(),
        store.clone(),
        polls.clone(),
        metrics.clone(),
        sizes,
        is_stopping,
    )?;
    let caller = match config.no_dispatch {
        true => None,
        false => Some(Caller::new(addresses, config.callback_dns)?),
    };
    announce(config, &listener)?;
    // Nothing fails from here on: what begins now is stopped in order.
    let background = metrics.background.clone();
    let house = {
        let (background, store) = (background.clone(), store.clone());
        let part = move || run_housekeeping(store.clone(), http::dead_letter);
        tokio::spawn(async move { background.keep("housekeeping", part).await })
    };
    let schedules = {
        let (background, store) = (background.clone(), store.clone());
        let part = move || tick_schedules(store.clone());
        tokio::spawn(async move { background.keep("schedules", part).await })
    };
    let no_more_calls = CancellationToken::new();
    let callbacks = caller.map(|caller| {
        let (store, polls) = (store.clone(), polls.clone());
        let longest = Duration::from_millis(config.callback_max_timeout_ms);
        let sending = Sending { store, polls, metrics, caller, secrets, longest, drain };
        let stopping = no_more_calls.clone();
        let part = move || send_callbacks(sending.clone(), stopping.clone());
        tokio::spawn(async move { background.keep("callbacks", part).await })
    });

    let (stop_serving, told_to_stop) = oneshot::channel::<()>();
    let most = most_connections(config);
    let server = async {
        let stop = async { drop(told_to_stop.await) };
        server::serve(listener, router, most, stop, drain).await;
    };
    let conductor = async {
        shutdown.await;
        tracing::info!("stopping");
        stopping.send_replace(true);
        no_more_calls.cancel();
        polls.close();
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

/// How many connections of clients there may be.
fn most_connections(config: &Config) -> usize {
    let wanted = config.max_connections as usize;
    let files = getrlimit(Resource::Nofile).current;
    let most = http::most_connections(wanted, files);
    if most < wanted {
        tracing::info!(
            most,
            files,
            "fewer connections than --max-connections: the system allows too few open files"
        );
    }
    most
}

/// Tells where the service is reached.
fn announce(config: &Config, listener: &TcpListener) -> Result<(), RunError> {
    let bound = listener.local_addr().map_err(|error| RunError::Listen(config.listen, error))?;
    tracing::info!("serving http://{bound}");
    if let Some(path) = &config.addr_file {
        write_whole(path, &bound.to_string())
            .map_err(|source| RunError::AddrFile { path: path.clone(), source })?;
    }
    Ok(())
}

/// Writes a file that whoever waits for it never sees half of. Where somebody has put a link in its place, or in that of
/// the file that it is until it is whole, the link goes and not what it leads to.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut partial = path.to_owned().into_os_string();
    partial.push(".partial");
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::create_new(&partial)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&partial, path)
}
