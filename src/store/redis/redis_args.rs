//! Which Redis to use and how to get in: the flags that every command shares that connects to one. All connections are
//! made by the clients that are built here.

use crate::connect_error::ConnectError;
use clap::{Args, ValueEnum, builder::BoolishValueParser};
use deadpool_redis::redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, TlsCertificates,
};
use dueq_base::{
    files,
    tls::{self, Certified, Expiry, Identity},
};
use dueq_model::Secret;
use std::path::PathBuf;

/// How URLs of Redis begin: where one ends and the next begins in a list.
pub(crate) const SCHEMES: [&str; 6] =
    ["redis://", "rediss://", "redis+unix://", "unix://", "valkey://", "valkeys://"];

/// Which Redis to use, and how to get in.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub struct RedisArgs {
    /// Redis to use instead of a private one, such as redis://127.0.0.1:6379/, rediss://user@redis.example:6379/ (TLS) or
    /// redis+unix:///run/redis.sock. Repeatable for nodes of a Cluster, and for Sentinels with their own credentials.
    #[arg(
        long,
        env = "DUEQ_REDIS_URL",
        value_name = "URL",
        hide_env_values = true,
        group = "redis"
    )]
    pub redis_url: Vec<Secret>,
    /// File with the URL of the Redis to use, or with those of nodes or Sentinels, separated by commas or spaces.
    #[arg(long, env = "DUEQ_REDIS_URL_FILE", value_name = "PATH", group = "redis")]
    pub redis_url_file: Option<PathBuf>,
    /// What the URLs lead to. The flags that only Sentinels have ask for sentinel; otherwise it is auto: what the servers
    /// there say that they are.
    #[arg(long, env = "DUEQ_REDIS_MODE", value_enum, value_name = "MODE", requires = "redis")]
    pub redis_mode: Option<RedisMode>,
    /// Name by which the Sentinels know the primary, where they know several.
    #[arg(long, env = "DUEQ_SENTINEL_MASTER", value_name = "NAME", requires = "redis")]
    pub sentinel_master: Option<String>,
    /// User for the primary that the Sentinels name.
    #[arg(long, env = "DUEQ_REDIS_USER", value_name = "NAME", requires = "redis")]
    pub redis_user: Option<String>,
    /// File with the password for Redis, for a URL without one; with Sentinels, for the primary.
    #[arg(long, env = "DUEQ_REDIS_PASSWORD_FILE", value_name = "PATH", requires = "redis")]
    pub redis_password_file: Option<PathBuf>,
    /// Database of the primary that the Sentinels name.
    #[arg(long, env = "DUEQ_REDIS_DB", value_name = "N", requires = "redis")]
    pub redis_db: Option<u16>,
    /// Connect by TLS to the primary that the Sentinels name.
    #[arg(long, env = "DUEQ_REDIS_TLS", requires = "redis", value_parser = BoolishValueParser::new())]
    pub redis_tls: bool,
    /// File (PEM) with the certificate authorities to trust for TLS, instead of the system's.
    #[arg(long, env = "DUEQ_REDIS_CA", value_name = "PATH", requires = "redis")]
    pub redis_ca: Option<PathBuf>,
    /// File (PEM) with the client certificate for TLS.
    #[arg(long, env = "DUEQ_REDIS_CERT", value_name = "PATH", requires_all = ["redis", "redis_key"])]
    pub redis_cert: Option<PathBuf>,
    /// File (PEM) with the private key of --redis-cert.
    #[arg(long, env = "DUEQ_REDIS_KEY", value_name = "PATH", requires = "redis_cert")]
    pub redis_key: Option<PathBuf>,
    /// Accept a URL that ends in #insecure.
    #[arg(skip)]
    pub insecure: bool,
}

/// What the URLs lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RedisMode {
    /// What the server says that it is.
    Auto,
    /// One Redis.
    Standalone,
    /// Sentinels, which know where the primary is.
    Sentinel,
    /// Nodes of a Redis or Valkey Cluster.
    Cluster,
}

/// What the arguments name. Nothing of it is connected yet.
pub(crate) enum Target {
    Redis(Client),
    Sentinels(SentinelTarget),
    Cluster(ClusterTarget),
}

/// Some nodes of a Cluster, and how to get into all of them.
pub(crate) struct ClusterTarget {
    /// The nodes that are named, in the order of the URLs.
    pub seeds: Vec<Client>,
    pub primary: Primary,
}

impl ClusterTarget {
    /// Whether both name the same nodes, which are entered as the same user.
    pub fn leads_where(&self, other: &Self) -> bool {
        let of = |this: &Self| {
            let address = |seed: &Client| seed.get_connection_info().addr().to_string();
            let mut seeds: Vec<_> = this.seeds.iter().map(address).collect();
            seeds.sort_unstable();
            let user = this.primary.settings.username().map(str::to_owned);
            (seeds, user, this.primary.tls.is_some())
        };
        of(self) == of(other)
    }
}

/// Sentinels, and how to get into the primary that they name.
pub(crate) struct SentinelTarget {
    /// The Sentinels, in the order of the URLs.
    pub seeds: Vec<Client>,
    /// The primary's name, if it was given.
    pub master: Option<String>,
    pub primary: Primary,
}

/// How to get into a primary, wherever it is.
#[derive(Clone)]
pub(crate) struct Primary {
    pub settings: RedisConnectionInfo,
    /// By TLS, if this is there.
    pub tls: Option<TlsCertificates>,
}

impl Primary {
    /// The client of the primary at this address.
    pub fn at(&self, host: &str, port: u16) -> Result<Client, ConnectError> {
        let info = |addr: ConnectionAddr| -> Result<ConnectionInfo, ConnectError> {
            let info = addr.into_connection_info().map_err(ConnectError::Client)?;
            Ok(info.set_redis_settings(self.settings.clone()))
        };
        let host = host.to_owned();
        let client = match &self.tls {
            None => Client::open(info(ConnectionAddr::Tcp(host, port))?),
            Some(certificates) => {
                let (insecure, tls_params) = (false, None);
                let addr = ConnectionAddr::TcpTls { host, port, insecure, tls_params };
                Client::build_with_tls(info(addr)?, certificates.clone())
            }
        };
        client.map_err(ConnectError::Client)
    }
}

impl RedisArgs {
    /// The Redis at this URL.
    pub fn at(url: String) -> Self {
        Self { redis_url: vec![url.into()], ..Self::default() }
    }

    /// Whether a Redis is named at all.
    pub fn are_given(&self) -> bool {
        !self.redis_url.is_empty() || self.redis_url_file.is_some()
    }

    /// The files that have to be read again when they change.
    pub fn files(&self) -> Vec<PathBuf> {
        let Self { redis_url_file, redis_password_file, redis_ca, redis_cert, redis_key, .. } =
            self;
        let all = [redis_url_file, redis_password_file, redis_ca, redis_cert, redis_key];
        all.into_iter().flatten().cloned().collect()
    }

    /// Whether it is left open what is at the URLs.
    pub(crate) fn are_open(&self) -> bool {
        matches!(self.redis_mode, None | Some(RedisMode::Auto)) && !self.are_of_sentinel()
    }

    /// Whether they say that there is one Redis.
    pub(crate) fn is_standalone(&self) -> bool {
        self.redis_mode == Some(RedisMode::Standalone)
    }

    /// Whether there are flags that only Sentinels have.
    fn are_of_sentinel(&self) -> bool {
        self.sentinel_master.is_some()
            || self.redis_user.is_some()
            || self.redis_db.is_some()
            || self.redis_tls
    }

    /// Reads the files, and returns what the arguments name; where they leave that open, `found` says what is there: without
    /// it one URL is that of a Redis, and several are those of Sentinels. Also returns when the client certificate ends, if
    /// there is one.
    ///
    /// Errors: [`ConnectError`] for an invalid URL, files that cannot be used, and flags that contradict each other.
    pub(crate) fn target(
        &self,
        found: Option<RedisMode>,
    ) -> Result<(Target, Option<Expiry>), ConnectError> {
        let mut infos = self.infos()?;
        let mode = match self.redis_mode {
            Some(RedisMode::Cluster) if self.are_of_sentinel() => {
                return Err(ConnectError::OnlyNodes);
            }
            Some(RedisMode::Standalone) if self.are_of_sentinel() || infos.len() > 1 => {
                return Err(ConnectError::OnlySentinel);
            }
            Some(mode) if mode != RedisMode::Auto => mode,
            _ if self.are_of_sentinel() => RedisMode::Sentinel,
            _ if infos.len() > 1 => found.unwrap_or(RedisMode::Sentinel),
            _ => found.unwrap_or(RedisMode::Standalone),
        };
        let by_tls = |info: &ConnectionInfo| matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        let trusts_all = |info: &ConnectionInfo| {
            matches!(info.addr(), ConnectionAddr::TcpTls { insecure: true, .. })
        };
        if self.insecure && self.redis_ca.is_some() && infos.iter().any(trusts_all) {
            return Err(ConnectError::AuthorityUnused);
        }
        let (certificates, expiry) = if self.redis_tls || infos.iter().any(by_tls) {
            let (certificates, expiry) = self.certificates()?;
            (Some(certificates), expiry)
        } else if self.redis_ca.is_some() || self.redis_cert.is_some() {
            return Err(ConnectError::NotTls);
        } else {
            (None, None)
        };
        if mode == RedisMode::Cluster {
            let mut seeds = Vec::new();
            for info in infos {
                let settings = info.redis_settings().clone();
                if settings.db() != 0 {
                    return Err(ConnectError::ClusterDatabase(info.addr().to_string()));
                }
                let info = info.set_redis_settings(self.with_password(settings)?);
                seeds.push(self.client(info, certificates.as_ref())?);
            }
            // All nodes are entered as the first that is named.
            let first = seeds[0].get_connection_info();
            let (settings, tls) =
                (first.redis_settings().clone(), certificates.filter(|_| by_tls(first)));
            let primary = Primary { settings, tls };
            return Ok((Target::Cluster(ClusterTarget { seeds, primary }), expiry));
        }
        if mode != RedisMode::Sentinel
            && let Some(info) = infos.pop()
        {
            let settings = self.with_password(info.redis_settings().clone())?;
            let info = info.set_redis_settings(settings);
            return Ok((Target::Redis(self.client(info, certificates.as_ref())?), expiry));
        }
        let mut seeds = Vec::new();
        for info in infos {
            if info.redis_settings().db() != 0 {
                return Err(ConnectError::SentinelDatabase(info.addr().to_string()));
            }
            seeds.push(self.client(info, certificates.as_ref())?);
        }
        let mut settings = RedisConnectionInfo::default().set_db(self.redis_db.unwrap_or(0).into());
        if let Some(user) = &self.redis_user {
            settings = settings.set_username(user);
        }
        let settings = self.with_password(settings)?;
        let primary = Primary { settings, tls: certificates.filter(|_| self.redis_tls) };
        let master = self.sentinel_master.clone();
        Ok((Target::Sentinels(SentinelTarget { seeds, master, primary }), expiry))
    }

    /// The first server that the arguments name, entered without a database.
    pub(crate) fn first(&self) -> Result<Client, ConnectError> {
        let info = self.infos()?.swap_remove(0);
        let settings = info.redis_settings().clone().set_db(0);
        let by_tls = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        let certificates = if by_tls { Some(self.certificates()?.0) } else { None };
        self.client(info.set_redis_settings(settings), certificates.as_ref())
    }

    fn client(
        &self,
        info: ConnectionInfo,
        certificates: Option<&TlsCertificates>,
    ) -> Result<Client, ConnectError> {
        let client = match (info.addr(), certificates) {
            (ConnectionAddr::TcpTls { insecure: true, .. }, _) if !self.insecure => {
                return Err(ConnectError::Insecure);
            }
            (ConnectionAddr::TcpTls { .. }, Some(certificates)) => {
                Client::build_with_tls(info, certificates.clone())
            }
            _ => Client::open(info),
        };
        client.map_err(ConnectError::Client)
    }

    fn with_password(
        &self,
        settings: RedisConnectionInfo,
    ) -> Result<RedisConnectionInfo, ConnectError> {
        match &self.redis_password_file {
            None => Ok(settings),
            Some(_) if settings.password().is_some() => Err(ConnectError::TwoPasswords),
            Some(path) => Ok(settings.set_password(files::secret(path)?)),
        }
    }

    /// What the URLs say, at least one.
    fn infos(&self) -> Result<Vec<ConnectionInfo>, ConnectError> {
        let texts = match &self.redis_url_file {
            Some(path) if self.redis_url.is_empty() => vec![files::secret(path)?],
            _ => self.redis_url.iter().map(|url| url.reveal().to_owned()).collect(),
        };
        let urls: Vec<&str> = texts.iter().flat_map(|text| split(text)).collect();
        let urls = if urls.is_empty() { vec![""] } else { urls };
        urls.into_iter()
            .map(|url| url.parse().map_err(|_: RedisError| ConnectError::of_url(url)))
            .collect()
    }

    /// What TLS needs of the files, and when the client certificate ends, if there is one.
    fn certificates(&self) -> Result<(TlsCertificates, Option<Expiry>), ConnectError> {
        let root_cert = self.redis_ca.as_deref().map(tls::authorities).transpose()?;
        let root_cert = root_cert.map(|(_, pem)| pem);
        let (Some(cert), Some(key)) = (self.redis_cert.clone(), self.redis_key.clone()) else {
            return Ok((TlsCertificates { client_tls: None, root_cert }, None));
        };
        let Certified { expiry, pem: [client_cert, client_key], .. } =
            Identity { cert, key }.read("the client certificate for Redis")?;
        let client_tls = Some(ClientTlsConfig { client_cert, client_key });
        Ok((TlsCertificates { client_tls, root_cert }, Some(expiry)))
    }
}

/// The URLs of a list, separated by commas or white space. What does not begin a URL is part of the one before: a password
/// may hold a comma.
fn split(list: &str) -> Vec<&str> {
    let separates = |c: char| c == ',' || c.is_whitespace();
    let mut urls = Vec::new();
    let mut rest = list.trim_matches(separates);
    while !rest.is_empty() {
        let end = rest.char_indices().find_map(|(at, c)| {
            let next = rest[at..].trim_start_matches(separates);
            (separates(c) && SCHEMES.iter().any(|scheme| next.starts_with(scheme))).then_some(at)
        });
        let (url, others) = rest.split_at(end.unwrap_or(rest.len()));
        urls.push(url);
        rest = others.trim_start_matches(separates);
    }
    urls
}

#[cfg(test)]
mod tests;
