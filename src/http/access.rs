//! Who may use the queue. With API keys: whoever has one. Without: programs on this machine, which is not the same as
//! whatever reaches the port from this machine. A web page may send requests to 127.0.0.1 through its reader's browser,
//! under its own name (the `Origin`), or under one that it had its DNS point here (the `Host`; DNS rebinding); so both
//! must be names that no stranger can have.
//!
//! `key_file` reads the keys, `reload` reads them again, and `scopes` what each may do; `rules` says what each operation needs, and `caller` compares.

mod caller;
#[cfg(test)]
mod fuzz;
mod hosts;
mod key_file;
mod keys;
mod reload;
mod rules;
mod scopes;

pub use caller::Caller;
pub use key_file::{WrongLines, new_key};
pub use rules::Need;
pub use scopes::Verb;

use super::problem::{Code, Problem};
use crate::config::Config;
use axum::extract::Request;
use futures_util::{FutureExt, future::BoxFuture};
use hosts::Hosts;
use keys::{Key, Keys};
use std::{future::pending, io, net::SocketAddr, path::PathBuf, sync::Arc};

/// Why the service does not start with the access that it was told; each is one line, and none shows a key.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A key of the flag, counted from 1, that cannot be one.
    #[error(
        "key {0} of --api-key (or DUEQ_API_KEYS) is not a valid API key: it must have 1 to 256 visible ASCII \
            characters and no comma"
    )]
    Key(usize),
    /// The file of keys cannot be read.
    #[error("cannot read the API keys in {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
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
pub enum Access {
    /// One of these keys is wanted.
    Keys(Arc<Keys>),
    /// There are no keys: host and origin must be of this machine, or allowed. Whoever comes in is this one.
    Hosts(Hosts, Arc<Key>),
}

impl Access {
    /// The access that `config` tells.
    ///
    /// Errors: [`AccessError`] for keys and hosts that are none, and where anyone would be let in.
    pub fn new(config: &Config) -> Result<Self, AccessError> {
        let hosts = Hosts::new(&config.allow_hosts)?;
        if let Some(keys) = Keys::read(&config.api_keys, config.api_key_file.as_deref())? {
            return Ok(Self::Keys(Arc::new(keys)));
        }
        if is_loopback(config.listen) || config.insecure {
            Ok(Self::Hosts(hosts, Key::anonymous()))
        } else {
            Err(AccessError::Exposed(config.listen))
        }
    }

    /// Warns of what is allowed, but hardly meant for long: keys that may be guessed or have no name, and none on an address
    /// (`listen`) that others reach.
    pub fn warn(&self, listen: SocketAddr) {
        match self {
            Self::Keys(keys) => keys.warn(),
            Self::Hosts(..) if !is_loopback(listen) => {
                tracing::warn!("--insecure: anyone who can reach {listen} may use the queue");
            }
            Self::Hosts(..) => {}
        }
    }

    /// Keeps the keys as their file says, if there is one; to be run while dueq serves.
    pub fn follow_file(&self) -> impl Fn() -> BoxFuture<'static, ()> + Send + 'static {
        let followed = match self {
            Self::Keys(keys) => keys.file.clone().map(|path| (keys.clone(), path)),
            Self::Hosts(..) => None,
        };
        move || match followed.clone() {
            Some((keys, path)) => reload::follow(keys, path).boxed(),
            None => pending().boxed(),
        }
    }

    /// Who sends this request, which needs this; `None` where nobody asks. Errors: why it is not let in.
    pub(super) fn admit(&self, need: Need, request: &Request) -> Result<Option<Caller>, Problem> {
        if need == Need::Nothing {
            return Ok(None);
        }
        let key = match self {
            Self::Keys(keys) => keys
                .of(request.headers())
                .map_err(|reason| Problem::new(Code::Unauthorized, reason.detail()))?,
            Self::Hosts(hosts, anonymous) => match hosts.refuse(request) {
                None => anonymous.clone(),
                Some(detail) => return Err(Problem::new(Code::HostNotAllowed, detail)),
            },
        };
        Ok(Some(Caller::new(key, need)))
    }
}

fn is_loopback(listen: SocketAddr) -> bool {
    listen.ip().to_canonical().is_loopback()
}
