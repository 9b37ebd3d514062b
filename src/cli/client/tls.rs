//! TLS to a server: whom to trust, what to present, and in words why it failed. `dueq bench` speaks it as the client commands
//! do.

use super::failure::Failure;
use clap::Args;
use dueq_base::tls::{self, Certified, Identity, Trouble, causes};
use http::Uri;
use hyper_rustls::ConfigBuilderExt as _;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use std::{error::Error, fmt, io, path::PathBuf};

/// Whom to trust, and what to present.
#[derive(Args, Clone, Debug)]
pub struct TlsArgs {
    /// File (PEM) with the certificate authorities to trust for https://, instead of the system's.
    #[arg(long, env = "DUEQ_CA", value_name = "PATH", global = true)]
    ca: Option<PathBuf>,
    /// File (PEM) with the client certificate for https://, if the server requires one.
    #[arg(long, env = "DUEQ_CLIENT_CERT", value_name = "PATH", global = true)]
    client_cert: Option<PathBuf>,
    /// File (PEM) with the private key of --client-cert.
    #[arg(long, env = "DUEQ_CLIENT_KEY", value_name = "PATH", global = true)]
    client_key: Option<PathBuf>,
    /// Name that the certificate must have, if it is not the host in --server, such as for https://127.0.0.1:8080.
    #[arg(long, env = "DUEQ_SERVER_NAME", value_name = "NAME", global = true)]
    server_name: Option<String>,
}

impl TlsArgs {
    /// The configuration for the server at `base`. Reads certificates only for https, so that plain HTTP works on a system
    /// without any.
    pub fn config(&self, base: &str) -> Result<ClientConfig, Failure> {
        let broken = |reason: &dyn fmt::Display| Failure::Unreachable(format!("no TLS: {reason}"));
        let config = tls::client().map_err(|error| broken(&error))?;
        if !is_https(base) {
            return Ok(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
        }
        let config = match &self.ca {
            Some(path) => {
                let read = tls::authorities(path);
                let (roots, _) = read.map_err(|error| Failure::Usage(format!("--ca: {error}")))?;
                config.with_root_certificates(roots)
            }
            None => config.with_native_roots().map_err(|error| broken(&error))?,
        };
        let (cert, key) = match (self.client_cert.clone(), self.client_key.clone()) {
            (None, None) => return Ok(config.with_no_client_auth()),
            (Some(cert), Some(key)) => (cert, key),
            _ => {
                let reason = "--client-cert and --client-key belong together";
                return Err(Failure::Usage(reason.to_owned()));
            }
        };
        let read = Identity { cert, key }.read("the client certificate");
        let Certified { chain, key, .. } =
            read.map_err(|error| Failure::Usage(format!("--client-cert: {error}")))?;
        config.with_client_auth_cert(chain, key).map_err(|error| broken(&error))
    }

    /// The name that the certificate must have, if it is not the host's.
    pub fn name(&self) -> Result<Option<ServerName<'static>>, Failure> {
        let Some(name) = &self.server_name else { return Ok(None) };
        let wrong = |_| Failure::Usage(format!("--server-name {name:?} is not a name"));
        ServerName::try_from(name.clone()).map_err(wrong).map(Some)
    }
}

fn is_https(server: &str) -> bool {
    server.parse().is_ok_and(|uri: Uri| uri.scheme_str() == Some("https"))
}

/// Says why the server at `base` did not answer, and what to do where that is known.
pub fn unreachable(base: &str, error: &(dyn Error + 'static)) -> String {
    match Trouble::of(error) {
        None => {}
        Some(Trouble::NoTls) => {
            return format!("{base} speaks plain HTTP: use {}", base.replacen("https", "http", 1));
        }
        Some(trouble @ Trouble::UnknownAuthority) => {
            return format!("{base}: {trouble}: name the authority with --ca");
        }
        Some(trouble @ Trouble::WantsCertificate) => {
            return format!("{base}: {trouble}: pass --client-cert and --client-key");
        }
        Some(trouble @ Trouble::WrongName(..)) => {
            return format!("{base}: {trouble}: if that is the server, pass --server-name");
        }
        Some(trouble) => return format!("{base}: {trouble}"),
    }
    let mut reason = String::new();
    for cause in causes(error) {
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if cause.downcast_ref().is_some_and(refused) {
            return format!(
                "nothing listens on {base}: start a server with `dueq serve`, or set DUEQ_SERVER"
            );
        }
        let tls = base.replacen("http", "https", 1);
        match cause.downcast_ref::<hyper::Error>() {
            Some(error) if error.is_parse() && !is_https(base) => {
                return format!("{base} does not speak plain HTTP: if it speaks TLS, use {tls}");
            }
            Some(error) if error.is_incomplete_message() && !is_https(base) => {
                return format!("{base} closed the connection: if it speaks TLS, use {tls}");
            }
            _ => {}
        }
        reason = cause.to_string();
    }
    // The innermost cause is the informative one.
    format!("{base}: {reason}")
}
