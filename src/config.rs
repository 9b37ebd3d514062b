//! The options of `dueq serve`. Every flag is also an environment variable. The guide's page on flags lists this struct.

use crate::embedded::Fsync;
use crate::http::PublicUrl;
use crate::model::{MAX_CALL_TIMEOUT_MS, MIN_CALL_TIMEOUT_MS};
use crate::store::{RedisArgs, Replicas};
use crate::tls::Identity;
use crate::traces::CallTrace;
use clap::{Args, ValueEnum, builder::BoolishValueParser};
use ipnet::IpNet;
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    thread::available_parallelism,
};

/// Options of `dueq serve`.
#[derive(Args, Clone, Debug)]
pub struct Config {
    /// Address to listen on; port 0 picks a free port.
    #[arg(long, env = "DUEQ_LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// API key that may do everything, repeatable: every route except /, /healthz, /readyz, /guide and /docs then needs
    /// `Authorization: Bearer <KEY>`.
    #[arg(
        long = "api-key",
        env = "DUEQ_API_KEYS",
        value_name = "KEY",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub api_keys: Vec<Secret>,
    /// File of API keys, one per line, as `dueq keys new` prints them: `name sha256:<64 hex> verb:pattern …`, or a bare key,
    /// which may do everything. Blank lines and lines that begin with # are skipped.
    #[arg(long, env = "DUEQ_API_KEY_FILE", value_name = "PATH")]
    pub api_key_file: Option<PathBuf>,
    /// File to write the audit log to, one JSON object per line: every change of messages, topics and schedules by whom, and
    /// every request that was turned away. On SIGHUP it is opened again. Without it, and with keys, the records go to the
    /// log under the target `audit`.
    #[arg(long, env = "DUEQ_AUDIT_LOG", value_name = "PATH")]
    pub audit_log: Option<PathBuf>,
    /// Allow listening beyond loopback without keys: anyone who can reach the address can use the queue. Also allow a
    /// Redis URL that ends in #insecure.
    #[arg(long, env = "DUEQ_INSECURE", value_parser = BoolishValueParser::new())]
    pub insecure: bool,
    /// Host that requests may name in Host and Origin besides loopback, for a server without keys; repeatable.
    #[arg(
        long = "allow-host",
        env = "DUEQ_ALLOW_HOSTS",
        value_name = "HOST",
        value_delimiter = ','
    )]
    pub allow_hosts: Vec<String>,
    /// File (PEM) with the certificate to serve HTTPS with, followed by those of intermediate authorities.
    #[arg(long, env = "DUEQ_TLS_CERT", value_name = "PATH", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// File (PEM) with the private key of --tls-cert.
    #[arg(long, env = "DUEQ_TLS_KEY", value_name = "PATH", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// File (PEM) with certificate authorities: every client then needs a certificate of one of them.
    #[arg(long, env = "DUEQ_TLS_CLIENT_CA", value_name = "PATH", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// URL under which clients reach this server, such as https://q.example/dueq behind a proxy. Requests are served with
    /// its path and without.
    #[arg(long, env = "DUEQ_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<PublicUrl>,
    /// Show sizes instead of payloads in the dashboard. The API still gives them to every key that may read them.
    #[arg(long, env = "DUEQ_UI_HIDE_PAYLOADS", value_parser = BoolishValueParser::new())]
    pub ui_hide_payloads: bool,
    /// Network or address of a proxy that is believed about where requests come from (X-Forwarded-For, Forwarded),
    /// repeatable.
    #[arg(
        long = "trusted-proxy",
        env = "DUEQ_TRUSTED_PROXY",
        value_name = "CIDR",
        value_delimiter = ',',
        value_parser = network
    )]
    pub trusted_proxies: Vec<IpNet>,
    /// Network that callbacks may reach although it is not public, such as 10.1.0.0/16, repeatable.
    #[arg(
        long = "callback-allow",
        env = "DUEQ_CALLBACK_ALLOW",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub callback_allow: Vec<IpNet>,
    /// Network that callbacks must not reach, even if another flag allows it, repeatable.
    #[arg(
        long = "callback-deny",
        env = "DUEQ_CALLBACK_DENY",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub callback_deny: Vec<IpNet>,
    /// Network that callbacks may reach, public or not, and no other, repeatable. --callback-allow then has no effect.
    #[arg(
        long = "callback-only",
        env = "DUEQ_CALLBACK_ONLY",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub callback_only: Vec<IpNet>,
    /// Upper bound on every call's timeout_ms, ms.
    #[arg(long, env = "DUEQ_CALLBACK_MAX_TIMEOUT_MS", value_name = "MS", default_value_t = MAX_CALL_TIMEOUT_MS, value_parser = clap::value_parser!(u64).range(MIN_CALL_TIMEOUT_MS..=MAX_CALL_TIMEOUT_MS))]
    pub callback_max_timeout_ms: u64,
    /// Name server that resolves callback hosts, instead of the system's.
    #[arg(long, env = "DUEQ_CALLBACK_DNS", value_name = "ADDR")]
    pub callback_dns: Option<SocketAddr>,
    /// Secret of which those are derived that sign callbacks in topics without secrets of their own, as whsec_…; give two
    /// to rotate them.
    #[arg(
        long = "signing-secret",
        env = "DUEQ_SIGNING_SECRET",
        value_name = "SECRET",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub signing_secrets: Vec<Secret>,
    /// File of such secrets, one per line, instead of --signing-secret; blank lines and lines that begin with # are
    /// skipped.
    #[arg(
        long,
        env = "DUEQ_SIGNING_SECRET_FILE",
        value_name = "PATH",
        conflicts_with = "signing_secrets"
    )]
    pub signing_secret_file: Option<PathBuf>,
    /// Sign callbacks with --signing-secret itself, too, as earlier versions did, until all receivers have derived
    /// secrets. The next version has no such option.
    #[arg(long, env = "DUEQ_SHARED_SIGNING", value_parser = BoolishValueParser::new())]
    pub shared_signing: bool,
    /// Send no callbacks from this instance.
    #[arg(long, env = "DUEQ_NO_DISPATCH", value_parser = BoolishValueParser::new())]
    pub no_dispatch: bool,
    /// File to write the bound address to, once the server accepts requests.
    #[arg(long, env = "DUEQ_ADDR_FILE", value_name = "PATH")]
    pub addr_file: Option<PathBuf>,
    /// The Redis to use; without one dueq runs a private one.
    #[command(flatten)]
    pub redis: RedisArgs,
    /// Directory of the private Redis.
    #[arg(long, env = "DUEQ_DATA_DIR", value_name = "DIR", default_value = "./dueq-data")]
    pub data_dir: PathBuf,
    /// Program to run as the private Redis; otherwise redis-server or valkey-server from PATH.
    #[arg(long, env = "DUEQ_REDIS_BIN", value_name = "PATH")]
    pub redis_bin: Option<PathBuf>,
    /// When the private Redis syncs its log to disk: once a second, or before every answer.
    #[arg(long, env = "DUEQ_FSYNC", value_enum, default_value = "everysec")]
    pub fsync: Fsync,
    /// Memory limit of the private Redis, such as 512mb or 2gb; by default half of the machine's (or container's)
    /// memory, 0 for none. When it is full, publishing is answered 503.
    #[arg(long, env = "DUEQ_REDIS_MAXMEMORY", value_name = "BYTES", value_parser = memory_size)]
    pub redis_maxmemory: Option<u64>,
    /// Prefix of every key in Redis; no braces.
    #[arg(long, env = "DUEQ_KEY_PREFIX", value_name = "TEXT", default_value = "dueq:", value_parser = key_prefix)]
    pub key_prefix: String,
    /// Directory of the time zone database by which schedules tick; otherwise the system's if it is newer than the one that
    /// is compiled in.
    #[arg(long, env = "DUEQ_TZDATA_DIR", value_name = "DIR")]
    pub tzdata_dir: Option<PathBuf>,
    /// How long a graceful stop waits for requests in flight, ms.
    #[arg(long, env = "DUEQ_DRAIN_TIMEOUT_MS", value_name = "MS", default_value_t = 10_000)]
    pub drain_timeout_ms: u64,
    /// How long a request waits for Redis before it is answered 503, ms.
    #[arg(long, env = "DUEQ_REDIS_TIMEOUT_MS", value_name = "MS", default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(50..=60_000))]
    pub redis_timeout_ms: u64,
    /// How many replicas must confirm an answer about a topic with durability replicated: all that Redis, the Sentinels or
    /// the Cluster list, a majority (with the primary more than half of the copies, or half of the replicas), or a number.
    #[arg(long, env = "DUEQ_REPLICAS", value_name = "N", default_value = "majority")]
    pub replicas: Replicas,
    /// Threads that serve requests [default: one per two processors, at most 4].
    #[arg(long, env = "DUEQ_THREADS", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// Connections to Redis that share the work.
    #[arg(long, env = "DUEQ_LANES", value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub lanes: u16,
    /// Largest request body, bytes.
    #[arg(long, env = "DUEQ_MAX_BODY_BYTES", value_name = "BYTES", default_value_t = 16_777_216)]
    pub max_body_bytes: usize,
    /// Limit on the bytes of all long request heads, bodies and answers in flight; requests beyond it get 503.
    #[arg(long, env = "DUEQ_MAX_INFLIGHT_BYTES", value_name = "BYTES", default_value_t = 268_435_456, value_parser = clap::value_parser!(u64).range(2_097_152..=1_099_511_627_776))]
    pub max_inflight_bytes: u64,
    /// Limit on client connections; lower if the system allows too few open files.
    #[arg(long, env = "DUEQ_MAX_CONNECTIONS", value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,
    /// How the trace of a callback is related to that of its publish: a trace of its own with a link, or the same trace, for
    /// tools that show no links. Traces are exported where OTEL_EXPORTER_OTLP_ENDPOINT is set.
    #[arg(long, env = "DUEQ_TRACE_CONTEXT", value_enum, default_value = "link")]
    pub trace_context: CallTrace,
    /// Format of the log.
    #[arg(long, env = "DUEQ_LOG_FORMAT", value_enum, default_value = "text")]
    pub log_format: LogFormat,
    /// Log filter: a level, or `module=level,…`.
    #[arg(long, env = "DUEQ_LOG", value_name = "FILTER", default_value = "info")]
    pub log: String,
}

impl Config {
    /// The certificate to serve HTTPS with, if any.
    pub fn identity(&self) -> Option<Identity> {
        let (cert, key) = (self.tls_cert.clone()?, self.tls_key.clone()?);
        Some(Identity { cert, key })
    }

    /// The number of threads that serve requests. By default half of the processors are left to Redis and to clients, which
    /// often share the machine, and four threads keep one Redis busy.
    pub fn threads(&self) -> usize {
        let half = || available_parallelism().map_or(1, |processors| processors.get() / 2);
        self.threads.map_or_else(|| half().clamp(1, 4), usize::from)
    }
}

/// A secret from the command line: an API key, a signing secret or a URL with a password. `Debug` does not print it.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// The secret as it was given.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Accepts any text, because clap would print an invalid value in its error. The secret is validated where it is used.
impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// A network, or an address as one of its own. IPv4 that is written as IPv6 becomes IPv4, as the addresses of peers do.
fn network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    let network = text.parse().or_else(|_| address());
    let network =
        network.map_err(|_| "expected a network such as 10.1.0.0/16, or an address".to_owned())?;
    let bits = network.prefix_len().checked_sub(96).filter(|_| network.addr().is_ipv6());
    match (network.addr().to_canonical(), bits) {
        (address @ IpAddr::V4(_), Some(bits)) => {
            IpNet::new(address, bits).map_err(|error| error.to_string())
        }
        _ => Ok(network),
    }
}

fn key_prefix(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_graphic() && c != '{' && c != '}';
    if text.len() <= 64 && text.chars().all(good) {
        Ok(text.to_owned())
    } else {
        Err("at most 64 visible ASCII characters, no braces".to_owned())
    }
}

/// Parses a number of bytes with an optional unit of Redis: `k` is 1000 bytes, `kb` is 1024, and so on.
fn memory_size(text: &str) -> Result<u64, String> {
    let text = text.to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "b" => Some(1),
        "k" => Some(1_000),
        "kb" => Some(1 << 10),
        "m" => Some(1_000_000),
        "mb" => Some(1 << 20),
        "g" => Some(1_000_000_000),
        "gb" => Some(1 << 30),
        _ => None,
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse::<u64>().ok().filter(|_| is_number);
    let size = unit.and_then(|unit: u64| number?.checked_mul(unit));
    size.ok_or_else(|| "expected a number of bytes, such as 1048576, 512mb or 2gb".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_sizes_have_the_units_of_redis() {
        for (text, bytes) in
            [("0", 0), ("1048576", 1 << 20), ("512mb", 512 << 20), ("2GB", 2 << 30), ("5k", 5000)]
        {
            assert_eq!(memory_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "mb", "-1", "+1", "1.5gb", "1 gb", "1tb", "99999999999gb"] {
            assert!(memory_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_network_of_mapped_addresses_is_one_of_ipv4() {
        for (text, is) in [
            ("::ffff:127.0.0.1", "127.0.0.1/32"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("10.0.0.7", "10.0.0.7/32"),
            ("fd00::/8", "fd00::/8"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(network(text).unwrap().to_string(), is, "{text}");
        }
        assert!(network("10.0.0.0/33").is_err() && network("").is_err());
    }

    #[test]
    fn a_configuration_can_be_printed_without_its_keys() {
        let key = Secret::from("sesame".to_owned());
        assert_eq!(format!("{:?}", [&key]), "[Secret(***)]");
        assert_eq!(key.reveal(), "sesame");
    }
}
