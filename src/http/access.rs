//! Who may use the queue. With API keys: whoever has one. Without: programs on this machine, which is not the same as
//! whatever reaches the port from this machine. A web page may send requests to 127.0.0.1 through its reader's browser,
//! under its own name (the `Origin`), or under one that it had its DNS point here (the `Host`; DNS rebinding); so both
//! must be names that no stranger can have.

#[cfg(test)]
mod fuzz;
mod hosts;
mod keys;

use super::problem::{Code, Problem};
use crate::config::Config;
use axum::extract::{MatchedPath, Request};
use hosts::Hosts;
use keys::Keys;
use std::{io, net::SocketAddr, path::PathBuf};

/// Routes that need no key, because they tell nothing about the queue: health checks, the guide, and `/`, which
/// names it.
const OPEN: [&str; 7] =
    ["/", "/healthz", "/readyz", "/guide", "/guide/", "/guide/{page}", "/guide/style.css"];

/// Why the service does not start with the access that it was told; each is one line, and none shows a key.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A key that cannot be one.
    #[error(
        "{0} is not a valid API key: it must have 1 to 256 visible ASCII characters and no comma"
    )]
    Key(String),
    /// The file of keys cannot be read.
    #[error("cannot read the API keys in {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file of keys has none: starting without would open what was meant to be closed.
    #[error("no API key in {0}")]
    NoKey(PathBuf),
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
    /// No randomness to hide the keys' comparison with.
    #[error("cannot get random numbers from the system: {0}")]
    Random(#[from] getrandom::Error),
}

/// The check before every route.
pub enum Access {
    /// One of these keys is wanted.
    Keys(Keys),
    /// There are no keys: host and origin must be of this machine, or allowed.
    Hosts(Hosts),
}

impl Access {
    /// The access that `config` tells.
    ///
    /// Errors: [`AccessError`] for keys and hosts that are none, and where anyone would be let in.
    pub fn new(config: &Config) -> Result<Self, AccessError> {
        let hosts = Hosts::new(&config.allow_hosts)?;
        if let Some(keys) = Keys::read(&config.api_keys, config.api_key_file.as_deref())? {
            return Ok(Self::Keys(keys));
        }
        if is_loopback(config.listen) || config.insecure {
            Ok(Self::Hosts(hosts))
        } else {
            Err(AccessError::Exposed(config.listen))
        }
    }

    /// Warns of what is allowed, but hardly meant for long: short keys, and none on an address (`listen`) that others
    /// reach.
    pub fn warn(&self, listen: SocketAddr) {
        match self {
            Self::Keys(keys) if keys.short() > 0 => {
                tracing::warn!(
                    "API keys of fewer than {} characters: {}",
                    keys::SHORT,
                    keys.short()
                );
            }
            Self::Hosts(_) if !is_loopback(listen) => {
                tracing::warn!("--insecure: anyone who can reach {listen} may use the queue");
            }
            _ => {}
        }
    }

    /// Why this request is not let in, if it is not.
    pub(super) fn refuse(&self, request: &Request) -> Option<Problem> {
        let (code, detail) = match self {
            Self::Keys(keys) => (Code::Unauthorized, keys.refuse(request.headers())?),
            Self::Hosts(hosts) => (Code::HostNotAllowed, hosts.refuse(request)?),
        };
        let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
        if path.is_some_and(|path| OPEN.contains(&path)) {
            return None;
        }
        Some(Problem::new(code, detail))
    }
}

fn is_loopback(listen: SocketAddr) -> bool {
    listen.ip().to_canonical().is_loopback()
}
