//! Who may use the queue. With API keys: their owners. Without: programs on this machine, which is not the same as
//! whatever reaches the port from this machine. A web page may send requests to 127.0.0.1 through its reader's browser,
//! under its own name (the `Origin`), or under one that it had its DNS point here (the `Host`; DNS rebinding); so both
//! must be names that no stranger can have.
//!
//! `key_file` reads the keys, `reload` reads them again, and `scopes` says what each may do; `rules` says what each
//! operation needs, and `caller` compares. `guesses` slows down clients that try keys, `quota` and `room` those that publish too much, and
//! `audit` keeps who changed what. `session` lets dueq's own pages use a key that they do not keep.

mod audit;
mod caller;
#[cfg(test)]
#[path = "../../../tests/fuzz/http/access.rs"]
mod fuzz;
mod guesses;
mod hosts;
mod key_file;
mod keys;
pub(crate) mod list;
pub(crate) mod log_in;
mod quota;
mod reload;
mod room;
mod rules;
mod scopes;
mod session;

pub(crate) use audit::Entry;
pub use caller::Caller;
pub use key_file::{WrongLines, new_key};
pub(crate) use keys::Key;
pub use rules::Need;
pub use scopes::Verb;
pub(crate) use session::Seal;

use crate::{
    AppState, HttpArgs,
    problem::{Code, Problem},
    server::proxies::{Peer, peer_of},
    sqs,
};
use audit::AuditLog;
use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, header},
};
use dueq_base::{files::FileError, metrics::Metrics};
use dueq_model::error::Error;
use dueq_store::Store;
use futures_util::{FutureExt, future::BoxFuture};
use guesses::Guesses;
use hosts::Hosts;
use keys::{Keys, NoKey, digest};
use session::Place;
use std::{
    future::pending,
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

/// Why the service does not start with the configured access; each is one line, and none shows a key.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A key of the flag, counted from 1, that cannot be one.
    #[error(
        "key {0} of --api-key (or DUEQ_API_KEYS) is not a valid API key: it must have 1 to 256 visible ASCII \
            characters and no comma"
    )]
    Key(usize),
    /// The file of keys cannot be read.
    #[error("API keys: {0}")]
    File(FileError),
    /// Lines of the file of keys are wrong.
    #[error("{path}: {lines}")]
    Lines {
        /// The file.
        path: PathBuf,
        /// The lines.
        lines: WrongLines,
    },
    /// The file of keys has none: starting without would open what was meant to be closed.
    #[error("no API key in {0}")]
    NoKey(PathBuf),
    /// The audit log cannot be written.
    #[error("cannot write the audit log {path}: {source}")]
    Audit {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What is allowed is no host.
    #[error(
        "--allow-host {0:?} is not a host: it must be a name or an address, without scheme, port or final dot"
    )]
    Host(String),
    /// The address is reached from elsewhere, and anyone might use it.
    #[error(
        "without an API key dueq listens on loopback only, and {0} is not a loopback address: set a key \
            (--api-key-file, DUEQ_API_KEYS or --api-key), or --insecure to let in anyone who can reach it"
    )]
    Exposed(SocketAddr),
}

/// The check before every route.
pub struct Access {
    policy: AccessPolicy,
    guesses: Guesses,
    place: Place,
    /// Where it is kept who changed what, and who was turned away.
    pub(crate) audit: Arc<AuditLog>,
}

enum AccessPolicy {
    /// One of these keys is wanted.
    Keys(Arc<Keys>),
    /// There are no keys: host and origin must be of this machine, or allowed. All clients are this one.
    Hosts(Hosts, Arc<Key>),
}

impl Access {
    /// The access that `config` tells.
    ///
    /// Errors: [`AccessError`] for keys and hosts that are none, and where anyone would be let in.
    pub fn new(args: &HttpArgs, metrics: &Metrics) -> Result<Self, AccessError> {
        let hosts = Hosts::new(&args.allow_hosts)?;
        let policy = match Keys::read(&args.api_keys, args.api_key_file.as_deref())? {
            Some(keys) => AccessPolicy::Keys(Arc::new(keys)),
            None if is_loopback(args.listen) || args.insecure => {
                AccessPolicy::Hosts(hosts, Key::anonymous())
            }
            None => return Err(AccessError::Exposed(args.listen)),
        };
        let (path, has_keys) = (args.audit_log.as_deref(), matches!(policy, AccessPolicy::Keys(_)));
        let lost = metrics.audit_lost.clone();
        let audit = AuditLog::open(path, has_keys, lost).map_err(|source| {
            let path = args.audit_log.clone().unwrap_or_default();
            AccessError::Audit { path, source }
        })?;
        let public_url = args.public_url.clone().unwrap_or_default();
        let is_https = match args.public_url {
            Some(_) => public_url.is_https(),
            None => args.tls_cert.is_some(),
        };
        let place = Place::new(is_https, public_url.base(), public_url.origin());
        Ok(Self { policy, guesses: Guesses::new(), place, audit: Arc::new(audit) })
    }

    /// Warns of what is allowed, but hardly meant for long: keys that may be guessed or have no name, and none on an address
    /// (`listen`) that others reach.
    pub fn warn(&self, listen: SocketAddr) {
        match &self.policy {
            AccessPolicy::Keys(keys) => keys.warn(),
            AccessPolicy::Hosts(..) if !is_loopback(listen) => {
                tracing::warn!("--insecure: anyone who can reach {listen} may use the queue");
            }
            AccessPolicy::Hosts(..) => {}
        }
    }

    /// Do clients come by https, as far as this server knows?
    pub(crate) fn is_https(&self) -> bool {
        self.place.is_https
    }

    /// The keys that are let in, by name.
    pub(crate) fn keys(&self) -> Vec<Arc<Key>> {
        match &self.policy {
            AccessPolicy::Keys(keys) => keys.all(),
            AccessPolicy::Hosts(..) => Vec::new(),
        }
    }

    /// What `/readyz` is to warn of.
    pub(crate) fn warning(&self) -> Option<String> {
        let AccessPolicy::Keys(keys) = &self.policy else { return None };
        keys.is_behind
            .load(Ordering::Relaxed)
            .then(|| "the API key file cannot be used: the previous keys remain active".to_owned())
    }

    /// Keeps the keys as their file says, if there is one, and opens the audit log again on SIGHUP; to be run while dueq
    /// serves.
    pub fn follow_files(&self) -> impl Fn() -> BoxFuture<'static, ()> + Send + 'static {
        let followed = match &self.policy {
            AccessPolicy::Keys(keys) => keys.file.clone().map(|path| (keys.clone(), path)),
            AccessPolicy::Hosts(..) => None,
        };
        let audit = self.audit.clone();
        move || {
            let (followed, audit) = (followed.clone(), audit.clone());
            let keys = async {
                match followed {
                    Some((keys, path)) => reload::follow(keys, path).await,
                    None => pending().await,
                }
            };
            async { tokio::join!(keys, audit.follow_hangups()).0 }.boxed()
        }
    }

    /// Writes the end of the audit log; to be awaited once dueq has served.
    pub fn close_audit(&self) -> impl Future<Output = ()> + use<> {
        let audit = self.audit.clone();
        async move { audit.close().await }
    }

    /// Who sends this request, which needs this; `None` where nobody asks, or is still to log in. Errors: why it is not let in.
    pub(crate) fn admit(
        &self,
        state: &AppState,
        need: Need,
        request: &Request,
    ) -> Result<Option<Caller>, Problem> {
        if need == Need::Nothing {
            return Ok(None);
        }
        let key = match &self.policy {
            AccessPolicy::Keys(_) if need == Need::Login => return Ok(None),
            AccessPolicy::Keys(keys) => self.key_of(keys, state, request)?,
            AccessPolicy::Hosts(hosts, anonymous) => match hosts.refuse(request) {
                None => anonymous.clone(),
                Some(detail) => return Err(Problem::new(Code::HostNotAllowed, detail)),
            },
        };
        let is_stranger = need == Need::Login;
        Ok((!is_stranger).then(|| Caller::new(key, need, self.audit.facts(need))))
    }

    /// Are there no keys?
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.policy, AccessPolicy::Hosts(..))
    }

    /// Who sends this request, if they would be let in without a session; nothing is counted.
    pub(crate) fn known(&self, request: &Request) -> Option<Caller> {
        let key = match &self.policy {
            AccessPolicy::Keys(keys) => keys.of(request.headers(), true).ok()?,
            AccessPolicy::Hosts(hosts, anonymous) => {
                hosts.refuse(request).is_none().then(|| anonymous.clone())?
            }
        };
        Some(Caller::new(key, Need::Key, None))
    }

    /// The key that the headers say, or that of their session.
    ///
    /// Errors: 401 `unauthorized`, 429 `too_many_attempts`; for a session, 503 `redis_unavailable` before Redis was met.
    fn key_of(
        &self,
        keys: &Keys,
        state: &AppState,
        request: &Request,
    ) -> Result<Arc<Key>, Problem> {
        let headers = request.headers();
        let turn_away = |reason| self.turn_away(&state.metrics, reason, peer_of(request));
        let session = self.place.session_in(headers);
        let Some(session) = session.filter(|_| !headers.contains_key(header::AUTHORIZATION)) else {
            return keys.of(headers, sqs::has(request)).map_err(turn_away);
        };
        if !self.place.is_home_of(headers) {
            return Err(turn_away(NoKey::Foreign));
        }
        let seal = seal_of(&state.store).ok_or(Error::RedisUnavailable)?;
        let opened = seal.open(session, state.store.now());
        let (digest, has_ended) = opened.ok_or_else(|| turn_away(NoKey::Forged))?;
        keys.find(&digest).filter(|_| !has_ended).ok_or_else(|| turn_away(NoKey::Ended))
    }

    /// The cookie for a page that has this key, at this address, and whose key it is; `None` where there are no keys.
    ///
    /// Errors: 401 `unauthorized`, 429 `too_many_attempts`; 503 `redis_unavailable` before Redis was met.
    pub(crate) fn log_in(
        &self,
        state: &AppState,
        key: &str,
        headers: &HeaderMap,
        Peer(from): Peer,
    ) -> Result<Option<(HeaderValue, Caller)>, Problem> {
        let AccessPolicy::Keys(keys) = &self.policy else { return Ok(None) };
        let turn_away = |reason| self.turn_away(&state.metrics, reason, from);
        if !self.place.is_home_of(headers) {
            return Err(turn_away(NoKey::Foreign));
        }
        let digest = digest(key.as_bytes());
        let key = keys.find(&digest).ok_or_else(|| turn_away(NoKey::Wrong))?;
        let session = seal_of(&state.store).and_then(|seal| seal.seal(&digest, state.store.now()));
        let cookie = self.place.set_cookie(&session.ok_or(Error::RedisUnavailable)?);
        Ok(cookie.map(|cookie| (cookie, Caller::new(key, Need::Login, None))))
    }

    /// The cookie that takes a page's session away; `None` where there are no keys.
    pub(crate) fn log_out(&self) -> Option<HeaderValue> {
        matches!(self.policy, AccessPolicy::Keys(_)).then(|| self.place.set_cookie("")).flatten()
    }

    /// Refuses a client without a key. An address that guesses is not even informed whether a key is wrong.
    fn turn_away(&self, metrics: &Metrics, reason: NoKey, from: IpAddr) -> Problem {
        metrics.count_auth_failure(reason.word());
        if reason.is_guess() && self.guesses.are_too_many(from) {
            metrics.count_auth_failure("too_many");
            let detail =
                "too many wrong API keys from this address; a right one is let in all the same";
            return Problem::new(Code::TooManyAttempts, detail).retry_after(1);
        }
        Problem::new(Code::Unauthorized, reason.detail())
    }
}

fn seal_of(store: &Store) -> Option<Seal> {
    Seal::of(store, "dueq session")
}

fn is_loopback(listen: SocketAddr) -> bool {
    listen.ip().to_canonical().is_loopback()
}
