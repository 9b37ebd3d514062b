//! What a server is, once it accepts requests: rows for people at a terminal, one line in a log.

use crate::config::Config;
use clap::ValueEnum as _;
use std::net::{Ipv4Addr, SocketAddr};

/// A server that accepts requests, in words. No secret is in them.
pub struct Started {
    /// Its URL from this machine.
    pub url: String,
    /// Where the data are: the directory of the private Redis, or the addresses of others.
    pub data: String,
    /// Whether there are API keys.
    pub keys: &'static str,
    /// How callbacks are signed.
    pub signing: String,
    /// Where callbacks may go.
    pub callbacks: String,
}

impl Started {
    /// One that listens at `bound`; `redis`: the addresses of its servers.
    pub fn new(config: &Config, bound: SocketAddr, redis: &str) -> Self {
        let mut from_here = bound;
        if bound.ip().is_unspecified() {
            from_here.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let scheme = if config.http.tls_cert.is_some() { "https" } else { "http" };
        let calls = &config.callbacks;
        let signs = !calls.signing_secrets.is_empty() || calls.signing_secret_file.is_some();
        let kind = calls.callback_signature.to_possible_value();
        let kind = kind.as_ref().map_or("", |kind| kind.get_name());
        Self {
            url: format!("{scheme}://{from_here}"),
            data: match config.store.redis.are_given() {
                true => format!("Redis at {redis}"),
                false => config.embedded.data_dir.display().to_string(),
            },
            keys: match config.http.has_keys() {
                true => "on",
                false if bound.ip().to_canonical().is_loopback() => {
                    "off: programs on this machine may do everything"
                }
                false => "off: all who reach the address may do everything",
            },
            signing: if signs { format!("on ({kind})") } else { "off".to_owned() },
            callbacks: networks(config),
        }
    }

    /// Rows of a name and a value.
    pub fn rows(&self) -> [(&'static str, String); 6] {
        let url = &self.url;
        [
            ("API", format!("{url} (documented at {url}/docs)")),
            ("dashboard", format!("{url}/ui")),
            ("data", self.data.clone()),
            ("keys", self.keys.to_owned()),
            ("signing", self.signing.clone()),
            ("callbacks", self.callbacks.clone()),
        ]
    }

    /// Writes it to the log.
    pub fn log(&self) {
        let Self { url, data, keys, signing, callbacks } = self;
        let version = env!("CARGO_PKG_VERSION");
        tracing::info!(version, ui = %format_args!("{url}/ui"), data, keys, signing, callbacks, "serving {url}");
    }
}

/// Where callbacks may go.
fn networks(config: &Config) -> String {
    let calls = &config.callbacks;
    let list = |networks: &[ipnet::IpNet]| {
        networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let mut text = match (&calls.callback_only[..], &calls.callback_allow[..]) {
        _ if calls.no_dispatch => return "off".to_owned(),
        ([], []) => "to public addresses".to_owned(),
        ([], more) => format!("to public addresses and {}", list(more)),
        (only, _) => format!("to {}", list(only)),
    };
    if !calls.callback_deny.is_empty() {
        text.push_str(&format!(", never to {}", list(&calls.callback_deny)));
    }
    text
}
