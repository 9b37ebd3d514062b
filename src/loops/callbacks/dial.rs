//! From a URL's host to a connection. A name is looked up here, every address that it has goes past the guard, and the
//! very address that was checked is dialled: a name server cannot put another one in between.

use super::{outcome::NoAnswer, wire::Wire};
use dueq_model::{AddressGuard, Proxy, Secret};
use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts},
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::rr::Name,
};
use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use rustix::io::Errno;
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};
use tower::{Service, service_fn, util::BoxCloneSyncService};

tokio::task_local! {
    /// How long the connection of the call may take, TLS included, if its settings say so. hyper passes on only its URL.
    pub(super) static CONNECT_TIMEOUT: Option<Duration>;
}

/// For the name to be looked up and a connection to come about.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// The same with TLS.
const SECURE_TIMEOUT: Duration = Duration::from_secs(10);
/// The head of a proxy's answer, bytes, at most.
const MAX_PROXY_HEAD: usize = 8_192;
/// Addresses of a name that are tried, at most.
const MAX_ADDRESSES: usize = 8;
/// Hosts whose last address is kept. A call under way has used it by then.
const MOST_DIALLED: usize = 16_384;
/// For one name server to answer, where only one is given: two attempts fit in [`DIAL_TIMEOUT`].
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// What a name resolved to is used again for so long at most, so that a receiver that moves is found.
const MAX_TTL: Duration = Duration::from_secs(60);
/// That a name does not exist is believed for so long at most: the next attempt asks again.
const MAX_NEGATIVE_TTL: Duration = Duration::from_secs(5);

/// Why there is no connection, for those who may look at the message: of what lies behind dueq, such as the
/// addresses of names, only the log tells more.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    /// None of the addresses may be called.
    #[error("callback_address_refused: {0} has no address that may be called")]
    Refused(String),
    #[error("no such host: {0}")]
    NoSuchHost(String),
    #[error("cannot look up {0}: {1}")]
    Lookup(String, &'static str),
    #[error("cannot connect: {0}")]
    Connect(String),
    /// This machine cannot call anybody now.
    #[error("cannot connect: {0}")]
    Unable(String),
    #[error("no TLS: {0}")]
    Tls(String),
}

impl DialError {
    /// What it says of the receiver.
    pub(super) fn why(&self) -> NoAnswer {
        match self {
            Self::Refused(_) => NoAnswer::Refused,
            Self::Unable(_) => NoAnswer::Unrelated,
            _ => NoAnswer::Connect,
        }
    }
}

/// How long the connection of the call may take, if it says so. Only while its task runs.
fn connect_timeout() -> Option<Duration> {
    CONNECT_TIMEOUT.try_with(|limit| *limit).ok().flatten()
}

/// Makes the connections of the client: those of [`Dialler::service`], with TLS where the URL has https.
pub(super) type Connector =
    BoxCloneSyncService<Uri, TokioIo<Wire<MaybeHttpsStream<TokioIo<TcpStream>>>>, DialError>;

/// Makes a TCP connection for a URL.
pub(super) type TcpService = BoxCloneSyncService<Uri, TokioIo<TcpStream>, DialError>;

/// Makes TCP connections, to addresses that the guard lets through or through the proxy.
#[derive(Clone)]
pub(super) struct Dialler(Arc<Inner>);

struct Inner {
    guard: Arc<AddressGuard>,
    proxy: Option<Proxy>,
    /// Or why there is none.
    resolver: Result<TokioResolver, String>,
    /// Where hosts were last dialled.
    dialled: Mutex<HashMap<String, IpAddr>>,
}

impl Dialler {
    /// Names are looked up at `dns` alone, or as the system says, or by the proxy.
    pub(super) fn new(
        guard: Arc<AddressGuard>,
        dns: Option<SocketAddr>,
        proxy: Option<Proxy>,
    ) -> Self {
        // A system without name servers can still call addresses, so this is reported when a name is called.
        let resolver = resolver(dns).map_err(|error| error.to_string());
        Self(Arc::new(Inner { guard, proxy, resolver, dialled: Mutex::default() }))
    }

    /// As hyper wants it.
    pub(super) fn service(&self) -> TcpService {
        let inner = self.0.clone();
        BoxCloneSyncService::new(service_fn(move |uri: Uri| {
            let inner = inner.clone();
            let until = Instant::now() + connect_timeout().unwrap_or(DIAL_TIMEOUT);
            async move { inner.dial(&uri, until).await.map(TokioIo::new) }
        }))
    }

    /// Where this host (name and port) was last dialled, if it was not long ago.
    pub(super) fn address_of(&self, host: &str) -> Option<IpAddr> {
        let dialled = self.0.dialled.lock().unwrap_or_else(PoisonError::into_inner);
        dialled.get(host).copied()
    }
}

fn resolver(dns: Option<SocketAddr>) -> Result<TokioResolver, NetError> {
    let mut builder = match dns {
        None => TokioResolver::builder_tokio()?,
        Some(address) => {
            let at = |mut connection: ConnectionConfig| {
                connection.port = address.port();
                connection
            };
            let connections = vec![at(ConnectionConfig::udp()), at(ConnectionConfig::tcp())];
            let server = NameServerConfig::new(address.ip(), true, connections);
            let config = ResolverConfig::from_name_servers(vec![server]);
            let mut builder =
                TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
            builder.options_mut().use_hosts_file = ResolveHosts::Never;
            builder.options_mut().timeout = ANSWER_TIMEOUT;
            builder
        }
    };
    let options: &mut ResolverOpts = builder.options_mut();
    options.positive_max_ttl = Some(MAX_TTL);
    options.negative_max_ttl = Some(MAX_NEGATIVE_TTL);
    // More hosts at once than that are not called by one instance.
    options.max_active_requests = 4_096;
    builder.build()
}

impl Inner {
    async fn dial(&self, uri: &Uri, until: Instant) -> Result<TcpStream, DialError> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let secure = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        if let Some(proxy) = self.proxy.as_ref().filter(|proxy| proxy.is_for(host)) {
            // Names are the proxy's to look up. This one means its own machine.
            let name = host.trim_end_matches('.').to_ascii_lowercase();
            let is_local = name == "localhost" || name.ends_with(".localhost");
            let ip = if is_local { Ok(Ipv4Addr::LOCALHOST.into()) } else { host.parse() };
            if ip.is_ok_and(|ip| !self.guard.lets(ip).unwrap_or(false)) {
                return Err(DialError::Refused(host.to_owned()));
            }
            let target = format!("{}:{port}", uri.host().unwrap_or_default());
            let late = |_| DialError::Connect("no answer in time through the proxy".to_owned());
            return timeout_at(until, tunnel(proxy, &target))
                .await
                .unwrap_or_else(|at| Err(late(at)));
        }
        let found = match host.parse::<IpAddr>() {
            Ok(ip) => vec![ip],
            Err(_) => {
                let found = timeout_at(until, self.look_up(host)).await;
                let slow = |_| DialError::Lookup(host.to_owned(), "no answer in time");
                found.map_err(slow)??
            }
        };
        let mut allowed = Vec::new();
        let (mut refused, mut unknown) = (false, false);
        for ip in found {
            match self.guard.lets(ip) {
                Ok(true) => allowed.push(SocketAddr::new(ip, port)),
                Ok(false) => {
                    refused = true;
                    tracing::info!(host, %ip, "an address was refused");
                }
                Err(error) => {
                    unknown = true;
                    tracing::warn!(host, %ip, %error, "cannot find out whether an address belongs to this machine");
                }
            }
        }
        if unknown && allowed.is_empty() {
            let why = "cannot find out now whether it may be called".to_owned();
            return Err(DialError::Unable(why));
        }
        if refused && allowed.is_empty() {
            return Err(DialError::Refused(host.to_owned()));
        }
        self.connect(&format!("{}:{port}", uri.host().unwrap_or_default()), &allowed, until).await
    }

    /// The first of the addresses that takes a connection. Each has an even share of the time that is left.
    async fn connect(
        &self,
        host: &str,
        addresses: &[SocketAddr],
        until: Instant,
    ) -> Result<TcpStream, DialError> {
        let addresses = &addresses[..addresses.len().min(MAX_ADDRESSES)];
        let mut failed = None;
        for (tried, address) in addresses.iter().enumerate() {
            let left = (addresses.len() - tried) as u32;
            let share = until.saturating_duration_since(Instant::now()) / left;
            self.note(host, address.ip());
            let error = match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Without it a small request can wait for the answer to the one before.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                // Another address may do: a machine without IPv6 has no address to call one from.
                Ok(Err(error)) if is_own(&error) => {
                    failed.get_or_insert(DialError::Unable(for_people(&error)));
                    continue;
                }
                Ok(Err(error)) => for_people(&error),
                Err(_) => "no answer in time".to_owned(),
            };
            failed = Some(DialError::Connect(error));
        }
        Err(failed.unwrap_or_else(|| DialError::Connect("the name has no address".to_owned())))
    }

    fn note(&self, host: &str, address: IpAddr) {
        let mut dialled = self.dialled.lock().unwrap_or_else(PoisonError::into_inner);
        if dialled.len() >= MOST_DIALLED {
            dialled.clear();
        }
        dialled.insert(host.to_owned(), address);
    }

    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, DialError> {
        let failed = |error: &dyn std::fmt::Display, class| {
            tracing::debug!(name, %error, "a name cannot be looked up");
            DialError::Lookup(name.to_owned(), class)
        };
        let resolver = self.resolver.as_ref();
        let resolver = resolver.map_err(|error| failed(error, "no name servers are known"))?;
        let asked = parsed(name).ok_or_else(|| DialError::NoSuchHost(name.to_owned()))?;
        match resolver.lookup_ip(asked).await {
            Ok(found) => Ok(in_turn(found.iter())),
            Err(error) if error.is_no_records_found() => {
                Err(DialError::NoSuchHost(name.to_owned()))
            }
            Err(error) => Err(failed(&error, "the name servers cannot tell")),
        }
    }
}

/// A connection to `target`, a host and a port, through the proxy (RFC 9110, 9.3.6). What the proxy itself lacks says nothing
/// of the receiver.
async fn tunnel(proxy: &Proxy, target: &str) -> Result<TcpStream, DialError> {
    let broken = |error: io::Error| DialError::Unable(format!("the proxy: {}", for_people(&error)));
    let address = (proxy.host.as_str(), proxy.port);
    let mut stream = TcpStream::connect(address).await.map_err(broken)?;
    let _ = stream.set_nodelay(true);
    let by = proxy.authorization.as_ref().map(Secret::reveal);
    let by = by.map(|by| format!("proxy-authorization: {by}\r\n")).unwrap_or_default();
    let ask = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{by}\r\n");
    stream.write_all(ask.as_bytes()).await.map_err(broken)?;
    let mut head = Vec::new();
    // Nothing comes after the head: the receiver speaks second.
    while !head.ends_with(b"\r\n\r\n") {
        let room = (MAX_PROXY_HEAD - head.len()) as u64;
        let read = (&mut stream).take(room).read_buf(&mut head).await.map_err(broken)?;
        if read == 0 {
            return Err(DialError::Unable("the proxy does not speak HTTP".to_owned()));
        }
    }
    let status =
        head.strip_prefix(b"HTTP/1.").and_then(|rest| str::from_utf8(rest.get(2..5)?).ok());
    match status {
        Some(status) if status.starts_with('2') => Ok(stream),
        Some("407") => Err(DialError::Unable("the proxy answered 407".to_owned())),
        Some(status) => Err(DialError::Connect(format!("the proxy answered {status}"))),
        None => Err(DialError::Unable("the proxy does not speak HTTP".to_owned())),
    }
}

/// The labels as they are: names with `_`, which hickory's own reading refuses, are common in private networks. Without
/// a dot at its end a name is one that the system's search list may be tried with.
fn parsed(name: &str) -> Option<Name> {
    let (labels, whole) = name.strip_suffix('.').map_or((name, false), |labels| (labels, true));
    let mut name = Name::from_labels(labels.split('.').map(str::as_bytes)).ok()?;
    name.set_fqdn(whole);
    labels.split('.').all(|label| !label.is_empty()).then_some(name)
}

/// IPv4 and IPv6 by turns, so that a machine that has only one of them does not try all of the other first.
fn in_turn(found: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = found.partition(IpAddr::is_ipv4);
    let most = v4.len().max(v6.len());
    (0..most).flat_map(|i| [v4.get(i), v6.get(i)]).flatten().copied().collect()
}

/// `connection refused` rather than `Connection refused (os error 111)`, where the kind says something.
pub(super) fn for_people(error: &io::Error) -> String {
    let kind = error.kind().to_string();
    if kind.starts_with("uncategorized") || kind.starts_with("other") {
        error.to_string()
    } else {
        kind
    }
}

/// Does a connection fail for want of this machine's files, ports or memory?
fn is_own(error: &io::Error) -> bool {
    const OWN: [Errno; 5] =
        [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|error| OWN.contains(&error))
}

/// Puts a bound on the time that `https` takes, and listens to what comes over its connections.
pub(super) fn connector(https: HttpsConnector<TcpService>) -> Connector {
    BoxCloneSyncService::new(service_fn(move |uri| {
        let limit = connect_timeout().unwrap_or(SECURE_TIMEOUT);
        let connecting = https.clone().call(uri);
        async move {
            match timeout(limit, connecting).await {
                Ok(Ok(stream)) => Ok(Wire::of(stream)),
                Ok(Err(error)) => Err(match error.downcast::<DialError>() {
                    Ok(error) => *error,
                    Err(error) => {
                        let why = innermost(&*error);
                        tracing::debug!(why, "no TLS");
                        // What follows names the hosts that the certificate is for.
                        DialError::Tls(why.split(';').next().unwrap_or_default().to_owned())
                    }
                }),
                Err(_) => Err(DialError::Tls("the host does not shake hands".to_owned())),
            }
        }
    }))
}

/// The last of an error's causes, which is the one that says something.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_tried_by_turns() {
        let ips =
            |texts: &[&str]| texts.iter().map(|ip| ip.parse().unwrap()).collect::<Vec<IpAddr>>();
        let found = ips(&["2600::1", "2600::2", "2600::3", "8.8.8.8"]);
        assert_eq!(in_turn(found.into_iter()), ips(&["8.8.8.8", "2600::1", "2600::2", "2600::3"]));
    }

    #[test]
    fn a_name_is_looked_up_as_it_stands() {
        let name = parsed("my_service.example").unwrap();
        assert_eq!((name.to_ascii().as_str(), name.is_fqdn()), ("my_service.example", false));
        let name = parsed("-a.example.").unwrap();
        assert_eq!((name.iter().next(), name.is_fqdn()), (Some(&b"-a"[..]), true));
        for bad in ["", ".", "a..b", "a..", ".a", &"a".repeat(64), &"a.".repeat(200)] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_this_machine_lacks_says_nothing_of_the_receiver() {
        let own = |error: Errno| is_own(&error.into());
        for error in [Errno::MFILE, Errno::NFILE, Errno::ADDRNOTAVAIL, Errno::NOBUFS, Errno::NOMEM]
        {
            assert!(own(error), "{error}");
        }
        for error in [
            Errno::CONNREFUSED,
            Errno::HOSTDOWN,
            Errno::HOSTUNREACH,
            Errno::NETUNREACH,
            Errno::NOPROTOOPT,
            Errno::TIMEDOUT,
        ] {
            assert!(!own(error), "{error}");
        }
    }

    #[test]
    fn errors_are_for_people() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(for_people(&refused), "connection refused");
        let error = DialError::Refused("a.test".to_owned()).to_string();
        let wanted = "callback_address_refused: a.test has no address that may be called";
        assert_eq!(error, wanted);
    }
}
