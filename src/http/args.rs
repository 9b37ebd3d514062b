//! The options of `dueq serve` for its clients. Every flag is also an environment variable.

use super::PublicUrl;
use clap::{Args, builder::BoolishValueParser};
use dueq_base::tls::Identity;
use dueq_model::Secret;
use ipnet::IpNet;
use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

/// How clients reach the server, and what they may.
#[derive(Args, Clone, Debug)]
pub struct HttpArgs {
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
    /// Account in the URLs and ARNs of SQS's queues, 12 digits.
    #[arg(long, env = "DUEQ_SQS_ACCOUNT", value_name = "ID", default_value = "000000000000", value_parser = account)]
    pub sqs_account: String,
    /// Have clients of SQS wait as with AWS, for tests of theirs: 60 s between two purges of a queue, and before the name of
    /// one that was deleted is free. Each instance counts for itself.
    #[arg(long, env = "DUEQ_SQS_WAITS", value_parser = BoolishValueParser::new())]
    pub sqs_waits: bool,
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
    /// Largest request body, bytes.
    #[arg(long, env = "DUEQ_MAX_BODY_BYTES", value_name = "BYTES", default_value_t = 16_777_216)]
    pub max_body_bytes: usize,
    /// Limit on the bytes of all long request heads, bodies and answers in flight; requests beyond it get 503.
    #[arg(long, env = "DUEQ_MAX_INFLIGHT_BYTES", value_name = "BYTES", default_value_t = 268_435_456, value_parser = clap::value_parser!(u64).range(2_097_152..=1_099_511_627_776))]
    pub max_inflight_bytes: u64,
    /// Limit on client connections; lower if the system allows too few open files.
    #[arg(long, env = "DUEQ_MAX_CONNECTIONS", value_name = "N", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,
}

impl HttpArgs {
    /// Whether API keys are given.
    pub fn has_keys(&self) -> bool {
        !self.api_keys.is_empty() || self.api_key_file.is_some()
    }

    /// The certificate to serve HTTPS with, if any.
    pub fn identity(&self) -> Option<Identity> {
        let (cert, key) = (self.tls_cert.clone()?, self.tls_key.clone()?);
        Some(Identity { cert, key })
    }
}

fn account(text: &str) -> Result<String, &'static str> {
    is_account(text).then(|| text.to_owned()).ok_or("expected 12 digits")
}

/// Is this the ID of an account of AWS?
pub(super) fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
