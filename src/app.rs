//! Runs the service: starts every component from a configuration, and stops them in order.

mod secrets;
mod started;
mod systemd;

pub(crate) use secrets::{listener_tls, signing_secrets};
pub use started::Started;

use crate::{config::Config, embedded::EmbeddedRedis};
use dueq_base::{
    files::write_atomically,
    metrics::Metrics,
    notify::{Notifier, NotifyUrl},
    reload::Watched,
    tls,
    traces::Traces,
};
use dueq_http::{
    self as http, Budget, Handshakes, SqsWaits, TrustedProxies,
    access::Access,
    server::{self, Service},
};
use dueq_longpoll::LongPolls;
use dueq_loops::{
    callbacks::{Caller, Sending, Signing, send_callbacks},
    keep_history, register_instance, run_housekeeping, tick_schedules, watch_redis,
};
use dueq_model::{Proxy, SigningSecret, Zones};
use dueq_store::{RedisArgs, Store, StoreOptions};
use rustix::process::{Resource, getrlimit};
use secrets::SHARED_SIGNING;
use std::{
    error::Error,
    future::{Future, pending},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::TcpListener,
    runtime::Handle,
    sync::{oneshot, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Why the service does not run, in one line.
type RunError = Box<dyn Error + Send + Sync>;

/// How long housekeeping has to give back what it has claimed.
const GIVE_BACK: Duration = Duration::from_secs(1);

/// The time for the last spans, even if the requests have used all of the drain time.
const MIN_FLUSH: Duration = Duration::from_millis(500);

/// Serves until `shutdown`, then stops in order: long polls are answered, requests in flight finish, loops end, lanes
/// drain, the embedded Redis stops.
///
/// The `threads` serve connections; everything else runs on the caller's thread. With TLS, the last one has the handshakes
/// instead: they cost a hundred times what a request costs, and strangers may ask for as many as they like.
///
/// `announced` learns of the server once requests are accepted.
///
/// Errors: the reason, in one line, if the service could not start, or had to stop because it cannot read the data any more.
pub async fn run(
    config: Config,
    threads: &[Handle],
    announced: impl FnOnce(&Started),
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let metrics = Arc::new(Metrics::new());
    let access = Access::new(&config.http, &metrics)?;
    let zones = Zones::open(config.store.tzdata_dir.as_deref())
        .map_err(|error| format!("--tzdata-dir: {error}"))?;
    let signing_file = config.callbacks.signing_secret_file.clone();
    let signing_file = Watched::new("signing secrets", signing_file.into_iter().collect());
    let (signing, secrets) = watch::channel(signing_secrets(&config)?);
    let tls_files = [&config.http.tls_cert, &config.http.tls_key, &config.http.tls_client_ca];
    let tls_files = tls_files.into_iter().flatten().cloned().collect();
    let tls_files = Watched::new("certificates of the listener", tls_files);
    let tls = listener_tls(&config, &metrics.certificates);
    let (certificates, tls) = watch::channel(tls.map_err(|error| format!("HTTPS: {error}"))?);
    let (threads, handshakes) =
        threads.split_at(threads.len() - usize::from(tls.borrow().is_some()));
    let redis_files =
        Watched::new("password and certificates for Redis", config.store.redis.files());
    let listener = server::listen(config.http.listen)
        .map_err(|error| format!("cannot listen on {}: {error}", config.http.listen))?;
    let (redis, mut embedded) = match config.store.redis.are_given() {
        true => (RedisArgs { insecure: config.http.insecure, ..config.store.redis.clone() }, None),
        false => {
            let redis = EmbeddedRedis::start(config.embedded.clone()).await?;
            (RedisArgs::at(redis.url()), Some(redis))
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
    let mut reloads = JoinSet::new();
    {
        let config = config.clone();
        let read = move || signing_secrets(&config);
        reloads.spawn(signing_file.follow(read, move |secrets| drop(signing.send(secrets))));
    }
    {
        let (config, known) = (config.clone(), metrics.certificates.clone());
        let read = move || listener_tls(&config, &known);
        reloads.spawn(tls_files.follow(read, move |tls| drop(certificates.send(tls))));
    }
    let tls = handshakes.first().map(|thread| Handshakes::new(thread.clone(), tls));
    let start = Start {
        config: &config,
        metrics,
        access,
        zones,
        secrets,
        redis,
        redis_files,
        listener,
        tls,
    };
    let served = serve(start, threads, &mut reloads, announced, shutdown).await;
    match embedded {
        // A defect. A restart of dueq recovers.
        Some(_) if lost => return Err("the supervisor of the embedded Redis has ended".into()),
        Some(redis) => redis.stop().await,
        None => {}
    }
    served
}

/// What is ready before Redis is connected.
struct Start<'a> {
    config: &'a Config,
    metrics: Arc<Metrics>,
    access: Access,
    zones: Zones,
    secrets: watch::Receiver<Arc<[SigningSecret]>>,
    redis: RedisArgs,
    redis_files: Watched,
    listener: TcpListener,
    tls: Option<Handshakes>,
}

async fn serve(
    start: Start<'_>,
    threads: &[Handle],
    reloads: &mut JoinSet<()>,
    announced: impl FnOnce(&Started),
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let Start { config, metrics, access, zones, secrets, redis, redis_files, listener, tls } =
        start;
    let options = StoreOptions {
        redis,
        key_prefix: config.store.key_prefix.clone(),
        lanes: config.store.lanes.into(),
        timeout: Duration::from_millis(config.store.redis_timeout_ms),
        replicas: config.store.replicas,
        upgrade: true,
    };
    let (store, woken) = Store::connect(&options, metrics.clone()).await?;
    store.use_zones(zones);
    {
        let (store, runtime) = (store.clone(), Handle::current());
        let read = move || runtime.block_on(store.reload_redis());
        reloads.spawn(redis_files.follow(read, drop));
    }
    // Registered before anything is stored, so that no other instance stores what this one cannot read.
    let instance = Arc::new(store.this_instance());
    if let Err(error) = store.note_instance(&instance).await {
        tracing::warn!(%error, "the instance is not registered yet");
    }
    if let Err(reason) = store.health().await {
        tracing::error!(%reason, "not ready");
    }
    if let Err(error) = store.upgrade_callbacks().await {
        tracing::warn!(%error, "_callbacks was not updated; that is tried again");
    }
    let polls = LongPolls::start(store.clone(), metrics.clone(), woken).await;
    let drain = Duration::from_millis(config.drain_timeout_ms);
    let (stopping, is_stopping) = watch::channel(false);
    access.warn(config.http.listen);
    if config.callbacks.shared_signing {
        tracing::warn!("{SHARED_SIGNING}");
    }
    let (follow_files, close_audit) = (access.follow_files(), access.close_audit());
    let addresses = Arc::new(config.callbacks.guard());
    let (traces, exporting) = Traces::start(config.trace_context, &metrics)?.unzip();
    let inflight = usize::try_from(config.http.max_inflight_bytes).unwrap_or(usize::MAX);
    let public_url = config.http.public_url.clone().unwrap_or_default();
    let budget = Budget::new(inflight);
    let proxies = Arc::new(TrustedProxies::new(config.http.trusted_proxies.clone()));
    let certificates = &config.callbacks.callback_client_certs[..];
    let api = http::api(http::Settings {
        access,
        addresses: addresses.clone(),
        store: store.clone(),
        polls: polls.clone(),
        metrics: metrics.clone(),
        stopping: is_stopping,
        max_body_bytes: config.http.max_body_bytes,
        budget: budget.clone(),
        public_url: public_url.clone(),
        hide_payloads: config.http.ui_hide_payloads,
        sqs_account: config.http.sqs_account.clone(),
        sqs_waits: config.http.sqs_waits.then(SqsWaits::default),
        proxies: proxies.clone(),
        traces: traces.clone(),
        signing: secrets.clone(),
        client_certs: certificates.iter().map(|certificate| certificate.name.clone()).collect(),
        signs_by_keys: config.callbacks.callback_signature != Signing::Hmac,
    });
    let caller = match config.callbacks.no_dispatch {
        true => None,
        false => {
            let proxy = config.callbacks.proxy();
            let proxy = proxy.map_err(|error| format!("--callback-proxy: {error}"))?;
            if let Some(Proxy { host, port, .. }) = &proxy {
                tracing::info!(host, port, "callbacks go through a proxy");
            }
            let dns = config.callbacks.callback_dns;
            let caller = Caller::new(addresses, dns, proxy)?;
            for certificate in certificates.iter().cloned() {
                let tls::Identity { cert, key } = certificate.identity.clone();
                let files = Watched::new("a client certificate of callbacks", vec![cert, key]);
                let (caller, known) = (caller.clone(), metrics.certificates.clone());
                let read = move || -> Result<(), tls::TlsError> {
                    known.uses(Some(caller.certify(&certificate)?));
                    Ok(())
                };
                read()?;
                reloads.spawn(files.follow(read, drop));
            }
            Some(caller)
        }
    };
    reloads.spawn(metrics.certificates.clone().watch());
    let notify_url =
        config.notify_url.as_ref().map(|url| url.reveal().parse::<NotifyUrl>()).transpose();
    let notifier = Notifier::start(notify_url.map_err(|error| format!("--notify-url: {error}"))?)?;
    announce(config, &listener, &store, announced)?;
    // Nothing fails from here on, so everything started below is stopped in order.
    let (background, open_connections) = (metrics.background.clone(), metrics.connections.clone());
    let stop_housekeeping = CancellationToken::new();
    let mut housekeeping = {
        let (background, store) = (background.clone(), store.clone());
        let stopping = stop_housekeeping.clone();
        let task = move || run_housekeeping(store.clone(), http::report, stopping.clone());
        tokio::spawn(async move { background.keep("housekeeping", task).await })
    };
    let history = {
        let (background, store, notifier) = (background.clone(), store.clone(), notifier.clone());
        let task = move || keep_history(store.clone(), notifier.clone());
        tokio::spawn(async move { background.keep("history", task).await })
    };
    if notifier.is_on() {
        let (background, store, notifier) = (background.clone(), store.clone(), notifier.clone());
        let task = move || watch_redis(store.clone(), notifier.clone());
        // It ends with the process.
        reloads.spawn(async move { match background.keep("notifications", task).await {} });
    }
    let schedules = {
        let (background, store, traces) = (background.clone(), store.clone(), traces.clone());
        let task = move || tick_schedules(store.clone(), traces.clone());
        tokio::spawn(async move { background.keep("schedules", task).await })
    };
    let primary = {
        let (background, store) = (background.clone(), store.clone());
        tokio::spawn(async move { background.keep("primaries", || store.follow_primaries()).await })
    };
    let files = {
        let background = background.clone();
        tokio::spawn(async move { background.keep("files", follow_files).await })
    };
    let stop_loops = CancellationToken::new();
    let registered = {
        let (background, store, stopping) = (background.clone(), store.clone(), stop_loops.clone());
        let task = move || register_instance(store.clone(), instance.clone(), stopping.clone());
        tokio::spawn(async move { background.keep("instances", task).await })
    };
    let callbacks = caller.map(|caller| {
        let (store, polls) = (store.clone(), polls.clone());
        let sending = Sending {
            store,
            polls,
            metrics,
            notifier,
            traces,
            caller,
            secrets,
            signing: config.callbacks.callback_signature,
            shared_signing: config.callbacks.shared_signing,
            longest: Duration::from_millis(config.callbacks.callback_max_timeout_ms),
            drain,
            body_of: http::call_body,
        };
        let stopping = stop_loops.clone();
        let task = move || send_callbacks(sending.clone(), stopping.clone());
        // The first thread has the lanes, which TLS and signatures must not delay.
        let thread = threads.last().cloned().unwrap_or_else(Handle::current);
        thread.spawn(async move { background.keep("callbacks", task).await })
    });

    let (stop_serving, stop_requested) = oneshot::channel::<()>();
    let service = Service {
        api,
        tls,
        public_url,
        max_connections: max_connections(config),
        budget,
        proxies,
        open_connections,
        drain,
    };
    let server = async {
        let stop = async { drop(stop_requested.await) };
        server::serve(listener, threads, service, stop).await;
    };
    let stopper = async {
        let outdated = tokio::select! {
            () = shutdown => None,
            error = store.outdated() => Some(error),
        };
        let stopped = Instant::now();
        match &outdated {
            None => tracing::info!("stopping"),
            Some(error) => tracing::error!(%error, "stopping"),
        }
        systemd::notify("STOPPING=1");
        stopping.send_replace(true);
        stop_loops.cancel();
        polls.close();
        // The server may already have stopped.
        let _ = stop_serving.send(());
        (stopped, outdated)
    };
    systemd::notify("READY=1");
    let ((), (stopped, outdated)) = tokio::join!(server, stopper);
    files.abort();
    // Another instance, or the next start, publishes the ticks that this one has claimed.
    schedules.abort();
    if let Some(callbacks) = callbacks {
        // Calls in flight end, or their messages are released, while Redis can still be reached. Some messages may die
        // of it, so housekeeping still runs to publish their dead letters.
        let _ = callbacks.await;
    }
    // It takes itself off the list of instances.
    let _ = registered.await;
    history.abort();
    // What this instance did in the last seconds, so that others note it.
    let _ = store.report_activity().await;
    stop_housekeeping.cancel();
    // Without Redis its claims end by themselves.
    if timeout(GIVE_BACK, &mut housekeeping).await.is_err() {
        housekeeping.abort();
    }
    close_audit.await;
    primary.abort();
    if let Some(exporting) = exporting {
        exporting.stop(drain.saturating_sub(stopped.elapsed()).max(MIN_FLUSH)).await;
    }
    store.stop().await;
    tracing::info!("stopped");
    outdated.map_or(Ok(()), |error| Err(error.into()))
}

/// Says what is served, and writes the bound address to the address file.
fn announce(
    config: &Config,
    listener: &TcpListener,
    store: &Store,
    announced: impl FnOnce(&Started),
) -> Result<(), RunError> {
    let bound = listener.local_addr()?;
    announced(&Started::new(config, bound, &store.addresses()));
    if let Some(path) = &config.addr_file {
        let failed = |error| format!("cannot write the address to {}: {error}", path.display());
        write_atomically(path, &bound.to_string()).map_err(failed)?;
    }
    Ok(())
}

/// The maximum number of client connections.
fn max_connections(config: &Config) -> usize {
    let wanted = config.http.max_connections as usize;
    let files = getrlimit(Resource::Nofile).current;
    let max = http::max_connections(wanted, files);
    if max < wanted {
        tracing::info!(
            max,
            files,
            "fewer connections than --max-connections: the system allows too few open files"
        );
    }
    max
}
