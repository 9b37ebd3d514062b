//! The options of `dueq serve` for callbacks. Every flag is also an environment variable.

use clap::{Args, ValueEnum, builder::BoolishValueParser};
use dueq_base::tls::Identity;
use dueq_model::{
    AddressGuard, InvalidProxy, MAX_CALL_TIMEOUT_MS, MAX_CERT_NAME, MIN_CALL_TIMEOUT_MS, NoProxy,
    Proxy, Secret,
};
use ipnet::IpNet;
use std::{net::SocketAddr, path::PathBuf, str::FromStr};

/// What signs calls besides the secrets that topics and callbacks have of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Signing {
    /// Secrets that receivers know, too.
    Hmac,
    /// Key pairs, of which receivers know the public keys.
    Ed25519,
    /// Both.
    Both,
}

/// A client certificate that calls may name.
#[derive(Clone, Debug)]
pub struct ClientCert {
    /// Its name.
    pub name: String,
    /// Its files.
    pub identity: Identity,
}

/// Why a text is no such certificate.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "must be a name of letters, digits, ., - and _, =, and two files with a comma between them"
)]
pub struct InvalidClientCert;

impl FromStr for ClientCert {
    type Err = InvalidClientCert;

    fn from_str(text: &str) -> Result<Self, InvalidClientCert> {
        let (name, files) = text.split_once('=').ok_or(InvalidClientCert)?;
        let (cert, key) = files.split_once(',').ok_or(InvalidClientCert)?;
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b".-_".contains(&b);
        if !(1..=MAX_CERT_NAME).contains(&name.len()) || !name.bytes().all(is_plain) {
            return Err(InvalidClientCert);
        }
        let identity = Identity { cert: cert.into(), key: key.into() };
        Ok(Self { name: name.to_owned(), identity })
    }
}

/// Where callbacks may go, and how they are signed.
#[derive(Args, Clone, Debug)]
pub struct CallbackArgs {
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
    /// HTTP proxy that all calls go through, as http://host:port, with user:password@ before the host if it asks for it. It resolves names.
    #[arg(long, env = "DUEQ_CALLBACK_PROXY", value_name = "URL", hide_env_values = true)]
    pub callback_proxy: Option<Secret>,
    /// Host, domain such as .example.com, or network of addresses that is called without the proxy, repeatable.
    #[arg(
        long = "callback-no-proxy",
        env = "DUEQ_CALLBACK_NO_PROXY",
        value_name = "HOST",
        value_delimiter = ','
    )]
    pub callback_no_proxy: Vec<NoProxy>,
    /// Client certificate that calls may name (client_cert), with its key, both PEM files, repeatable. In the environment they are
    /// separated by semicolons.
    #[arg(
        long = "callback-client-cert",
        env = "DUEQ_CALLBACK_CLIENT_CERT",
        value_name = "NAME=CERT,KEY",
        value_delimiter = ';'
    )]
    pub callback_client_certs: Vec<ClientCert>,
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
    /// File of signing secrets, one per line, instead of --signing-secret; blank lines and lines that begin with # are
    /// skipped.
    #[arg(
        long,
        env = "DUEQ_SIGNING_SECRET_FILE",
        value_name = "PATH",
        conflicts_with = "signing_secrets"
    )]
    pub signing_secret_file: Option<PathBuf>,
    /// How what is derived of --signing-secret signs callbacks: with secrets (hmac), or with key pairs whose public keys receivers
    /// get (ed25519).
    #[arg(long, env = "DUEQ_CALLBACK_SIGNATURE", value_name = "KIND", default_value = "hmac")]
    pub callback_signature: Signing,
    /// Sign callbacks with --signing-secret itself, too, as earlier versions did, until all receivers have derived
    /// secrets. The next version has no such option.
    #[arg(long, env = "DUEQ_SHARED_SIGNING", value_parser = BoolishValueParser::new())]
    pub shared_signing: bool,
    /// Send no callbacks from this instance.
    #[arg(long, env = "DUEQ_NO_DISPATCH", value_parser = BoolishValueParser::new())]
    pub no_dispatch: bool,
}

impl CallbackArgs {
    /// Where callbacks may go.
    pub fn guard(&self) -> AddressGuard {
        AddressGuard {
            allowed: self.callback_allow.clone(),
            only: self.callback_only.clone(),
            denied: self.callback_deny.clone(),
        }
    }

    /// The proxy, if there is one. Errors: its URL is none of a proxy.
    pub fn proxy(&self) -> Result<Option<Proxy>, InvalidProxy> {
        let url = self.callback_proxy.as_ref();
        url.map(|url| Proxy::parse(url.reveal(), &self.callback_no_proxy)).transpose()
    }
}
