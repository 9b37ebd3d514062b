//! `dueq doctor`: would `dueq serve` start with these options, and what should be changed? It runs what the start runs: each
//! part's error, and each warning that it logs, is a finding. It has no rules of its own but for what the start does not look
//! at: persistence, full memory, latency and clocks.

use crate::{
    app::{listener_tls, signing_secrets},
    config::Config,
    embedded,
};
use dueq_base::{files::raise_limit, metrics::Metrics, notify::NotifyUrl};
use dueq_http::{self as http, access::Access};
use dueq_loops::callbacks::Caller;
use dueq_model::Zones;
use dueq_store::{RedisArgs, ServerLook, Store, StoreOptions};
use rustix::process::{Resource, getrlimit};
use serde_json::json;
use std::{
    fmt::Display,
    io::{self, Write},
    mem::take,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt as _,
    util::SubscriberInitExt as _,
};

/// An answer of Redis that takes longer delays every request.
const SLOW: Duration = Duration::from_millis(5);
/// The clocks of a machine and of its Redis should not differ by more, ms.
const MAX_OFFSET_MS: i64 = 1000;

/// Arguments of `dueq doctor`.
#[derive(clap::Args)]
pub struct Args {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: Config,
}

/// What was looked at, and what was found.
struct Finding {
    check: &'static str,
    found: String,
    is_good: bool,
}

/// The findings, and the lines that were logged since the last of them.
#[derive(Default)]
struct Findings {
    all: Vec<Finding>,
    logged: Logged,
}

#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl Logged {
    /// What was logged, which is then forgotten.
    fn take(&self) -> String {
        let bytes = take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Findings {
    fn add(&mut self, check: &'static str, is_good: bool, found: impl Display) {
        self.all.push(Finding { check, found: found.to_string(), is_good });
    }

    /// A part of the start was tried: what it says of itself, or its error, and what it logged.
    fn tried<T, E: Display>(
        &mut self,
        check: &'static str,
        tried: Result<T, E>,
        words: impl FnOnce(&T) -> String,
    ) -> Option<T> {
        for line in self.logged.take().lines() {
            self.add(check, false, line.trim());
        }
        match tried {
            Ok(value) => {
                self.add(check, true, words(&value));
                Some(value)
            }
            Err(error) => {
                self.add(check, false, error);
                None
            }
        }
    }
}

/// Exit code 0: nothing is to be changed; 1: something is.
pub async fn run(Args { json, config }: Args) -> ExitCode {
    let mut findings = Findings::default();
    let logged = findings.logged.clone();
    let log = tracing_subscriber::fmt::layer().without_time().with_level(false);
    let log = log.with_target(false).with_ansi(false).with_writer(move || logged.clone());
    tracing_subscriber::registry().with(LevelFilter::WARN).with(log).init();
    let metrics = Arc::new(Metrics::new());
    look_at_process(&config, &metrics, &mut findings);
    look_at_redis(&config, &metrics, &mut findings).await;
    for warning in metrics.certificates.warnings() {
        findings.add("certificates", false, warning);
    }
    let is_good = findings.all.iter().all(|finding| finding.is_good);
    let mut out = io::stdout().lock();
    // That standard output is closed changes nothing.
    let _ = if json {
        let checks = findings.all.iter().map(|Finding { check, found, is_good }| {
            json!({"check": check, "ok": is_good, "found": found})
        });
        writeln!(out, "{}", json!({"ok": is_good, "checks": checks.collect::<Vec<_>>()}))
    } else {
        findings.all.iter().try_for_each(|Finding { check, found, is_good }| {
            writeln!(out, "{:<6}  {check:<12}  {found}", if *is_good { "ok" } else { "change" })
        })
    };
    ExitCode::from(u8::from(!is_good))
}

/// What does not need Redis.
fn look_at_process(config: &Config, metrics: &Arc<Metrics>, findings: &mut Findings) {
    // A look must not create the audit log.
    let args = http::HttpArgs { audit_log: None, ..config.http.clone() };
    let access = Access::new(&args, metrics).inspect(|access| access.warn(args.listen));
    let keys = if args.has_keys() { "are there" } else { "none: for this machine only" };
    findings.tried("keys", access, |_| keys.to_owned());
    findings.tried("signing", signing_secrets(config), |secrets| match secrets.len() {
        0 => "off: callbacks are not signed".to_owned(),
        n => format!("secrets: {n}"),
    });
    findings.tried("certificates", listener_tls(config, &metrics.certificates), |tls| {
        (if tls.is_some() { "the listener's can be used" } else { "none: plain HTTP" }).to_owned()
    });
    if let Some(url) = &config.notify_url {
        let url = url.reveal().parse::<NotifyUrl>();
        let url = url.map_err(|error| format!("--notify-url: {error}"));
        findings.tried("notices", url, |_| "can be sent".to_owned());
    }
    let log = config.log.parse::<Targets>().map_err(|error| format!("--log: {error}"));
    findings.tried("log", log, |_| config.log.clone());
    for file in [&config.http.audit_log, &config.addr_file].into_iter().flatten() {
        let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
        if dir.is_some_and(|dir| !dir.is_dir()) {
            let path = file.display();
            findings.add("files", false, format_args!("{path} has no directory: make it"));
        }
    }
    let calls = &config.callbacks;
    if !calls.no_dispatch {
        let caller = calls.proxy().map_err(|error| error.to_string()).and_then(|proxy| {
            let caller = Caller::new(Arc::new(calls.guard()), calls.callback_dns, proxy);
            let certify = |caller: Caller| {
                calls.callback_client_certs.iter().try_for_each(|it| caller.certify(it).map(drop))
            };
            caller.and_then(certify).map_err(|error| error.to_string())
        });
        findings.tried("callbacks", caller, |_| "can be sent".to_owned());
    }
    let zones = Zones::open(config.store.tzdata_dir.as_deref());
    let zones = findings.tried("tzdata", zones, |zones| {
        let (version, source) = zones.named();
        format!("{version} ({source})")
    });
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    if let Some(old) = zones.and_then(|zones| zones.warning(now as i64)) {
        findings.add("tzdata", false, old);
    }
    let raised = raise_limit();
    let files = getrlimit(Resource::Nofile).current;
    let wanted = config.http.max_connections as usize;
    let max = http::max_connections(wanted, files);
    findings.tried("descriptors", raised, |()| {
        files.map_or_else(|| "no limit".to_owned(), |files| format!("{files} open files"))
    });
    if max < wanted {
        findings.add(
            "descriptors",
            false,
            format_args!(
                "they do for {max} of {wanted} --max-connections: raise LimitNOFILE (ulimit -n)"
            ),
        );
    }
}

/// Redis, if it can be reached.
async fn look_at_redis(config: &Config, metrics: &Arc<Metrics>, findings: &mut Findings) {
    let args = &config.store.redis;
    let dir = &config.embedded.data_dir;
    let redis = match args.are_given() {
        true => RedisArgs { insecure: config.http.insecure, ..args.clone() },
        false => match embedded::url_in(dir) {
            Ok(url) => RedisArgs::at(url),
            Err(_) => {
                let program = embedded::check(&config.embedded);
                findings.tried("redis", program, |program| {
                    format!("private, and not running: {program}, data in {}", dir.display())
                });
                return;
            }
        },
    };
    let options = StoreOptions::of_tool(redis, config.store.key_prefix.clone());
    let connected = Store::connect(&options, metrics.clone()).await;
    let connected = findings
        .tried("redis", connected, |(store, _)| format!("reached at {}", store.addresses()));
    let Some((store, _woken)) = connected else { return };
    let health = findings.tried("redis", store.health().await, |_| "ready".to_owned());
    for warning in health.into_iter().flatten() {
        findings.add("redis", false, warning);
    }
    match store.look_at_servers().await {
        Ok(servers) => servers.iter().for_each(|server| judge(server, findings)),
        Err(error) => findings.add("redis", false, error),
    }
    store.stop().await;
}

/// One server.
fn judge(server: &ServerLook, findings: &mut Findings) {
    let ServerLook { address, version, replicas, latency, ahead_ms, memory, persistence } = server;
    findings.add("version", true, format_args!("{version} at {address}"));
    let is_quick = *latency <= SLOW;
    let slow = if is_quick { "" } else { ", with each request: bring dueq and Redis together" };
    let ms = latency.as_secs_f64() * 1000.0;
    findings.add("latency", is_quick, format_args!("{ms:.1} ms to {address}{slow}"));
    findings.add("replicas", true, format_args!("{replicas} of {address}"));
    let is_set = ahead_ms.abs() <= MAX_OFFSET_MS;
    let set = if is_set { "" } else { ": dueq goes by Redis's; have both keep time by NTP" };
    findings.add(
        "clock",
        is_set,
        format_args!("this machine is {ahead_ms} ms ahead of {address}{set}"),
    );
    if let Some(memory) = memory {
        let is_full = memory.max > 0 && memory.used / 4 >= memory.max / 5;
        let (used, max) = (memory.used >> 20, memory.max >> 20);
        let max = if max == 0 { ", no maxmemory".to_owned() } else { format!(" of {max} MiB") };
        let full = if is_full { ": raise maxmemory, or publishes will be refused" } else { "" };
        findings.add("memory", !is_full, format_args!("{used} MiB used{max} at {address}{full}"));
    }
    match persistence {
        Some(Ok(how)) => findings.add("persistence", true, format_args!("{how} at {address}")),
        Some(Err(what)) => findings.add("persistence", false, format_args!("{address}: {what}")),
        None => findings.add("persistence", true, format_args!("{address} does not say")),
    }
}
