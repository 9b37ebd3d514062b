//! A dueq server as its clients reach it, the client commands and `dueq-bench`: its URL, TLS, and why it does not answer.

use crate::tls::{self, Certified, Identity, Trouble, causes};
use http::Uri;
use hyper_rustls::ConfigBuilderExt as _;
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use std::{error::Error, io, path::PathBuf};

/// The authorities to trust, and the certificate to present.
#[derive(clap::Args, Clone, Debug)]
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
    ///
    /// Errors: the reason, in one line.
    pub fn config(&self, base: &str) -> Result<ClientConfig, String> {
        let config = tls::client().map_err(|error| error.to_string())?;
        if !is_https(base) {
            return Ok(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
        }
        let config = match &self.ca {
            Some(path) => {
                let (roots, _) =
                    tls::authorities(path).map_err(|error| format!("--ca: {error}"))?;
                config.with_root_certificates(roots)
            }
            None => config.with_native_roots().map_err(|error| format!("no TLS: {error}"))?,
        };
        let (cert, key) = match (self.client_cert.clone(), self.client_key.clone()) {
            (None, None) => return Ok(config.with_no_client_auth()),
            (Some(cert), Some(key)) => (cert, key),
            _ => return Err("--client-cert and --client-key belong together".to_owned()),
        };
        let read = Identity { cert, key }.read("the client certificate");
        let Certified { chain, key, .. } =
            read.map_err(|error| format!("--client-cert: {error}"))?;
        config.with_client_auth_cert(chain, key).map_err(|error| format!("no TLS: {error}"))
    }

    /// The name that the certificate must have, if it is not the host's.
    ///
    /// Errors: it is not a name.
    pub fn name(&self) -> Result<Option<ServerName<'static>>, String> {
        let name = self.server_name.clone().map(ServerName::try_from).transpose();
        name.map_err(|_| format!("--server-name {:?} is not a name", self.server_name))
    }
}

fn is_https(server: &str) -> bool {
    server.parse().is_ok_and(|uri: Uri| uri.scheme_str() == Some("https"))
}

/// Checks the URL of `--server`: sent on, a wrong one would reach another port or host. Adds the scheme if there is none, and
/// drops slashes at the end.
///
/// Errors: it is no URL of a server.
pub fn server_url(text: &str) -> Result<String, String> {
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let fits = |uri: &Uri| {
        let Some(authority) = uri.authority() else { return false };
        let (whole, host) = (authority.as_str(), authority.host());
        // `Uri` takes a port above 65535 for none and drops what follows a `#`, and in `http:8080` http is a host.
        (authority.port_u16().is_some() || whole == host)
            && !(host.is_empty() || whole.contains('@') || text.contains('#'))
            && (text.contains("://") || !["http", "https"].contains(&&*host.to_lowercase()))
            && uri.query().is_none()
    };
    let uri = url.parse().ok().filter(fits);
    match (uri.as_ref().and_then(Uri::scheme_str), url.split_once("://")) {
        (Some(scheme @ ("http" | "https")), Some((_, rest))) => {
            Ok(format!("{scheme}://{}", rest.trim_end_matches('/')))
        }
        // What precedes the @ may be a password, and what prints this may be a log.
        _ if text.contains('@') => {
            Err("--server: expected a URL without user and password; the key belongs in --api-key"
                .to_owned())
        }
        _ => Err(format!(
            "--server {text:?}: expected one such as 127.0.0.1:8080 or https://dueq.example"
        )),
    }
}

/// Why the server at `base` did not answer, and what to do where that is known.
pub fn unreachable(base: &str, error: &(dyn Error + 'static)) -> String {
    if let Some(trouble) = Trouble::of(error) {
        let advice = match trouble {
            Trouble::NoTls => {
                let plain = base.replacen("https", "http", 1);
                return format!("{base} speaks plain HTTP: use {plain}");
            }
            Trouble::UnknownAuthority => ": name the authority with --ca",
            Trouble::WantsCertificate => ": pass --client-cert and --client-key",
            Trouble::WrongName(..) => ": if that is the server, pass --server-name",
            _ => "",
        };
        return format!("{base}: {trouble}{advice}");
    }
    let tls = base.replacen("http", "https", 1);
    let mut reason = String::new();
    for cause in causes(error) {
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if cause.downcast_ref().is_some_and(refused) {
            return format!(
                "nothing listens on {base}: start a server with `dueq serve`, or set DUEQ_SERVER"
            );
        }
        match cause.downcast_ref::<hyper::Error>().filter(|_| !is_https(base)) {
            Some(error) if error.is_parse() => {
                return format!("{base} does not speak plain HTTP: if it speaks TLS, use {tls}");
            }
            Some(error) if error.is_incomplete_message() => {
                return format!("{base} closed the connection: if it speaks TLS, use {tls}");
            }
            _ => {}
        }
        reason = cause.to_string();
    }
    // The innermost cause is the informative one.
    format!("{base}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_http_url() {
        for (text, url) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("https://dueq.example/", "https://dueq.example"),
            ("http://[::1]:1/queue", "http://[::1]:1/queue"),
            ("HTTPS://http:65535", "https://http:65535"),
        ] {
            assert_eq!(server_url(text).as_deref(), Ok(url));
        }
        for bad in ["", "ftp://a", "http://", "http://u:p@a:1", "u@a", "http://a?b=c", "/", "a b"] {
            assert!(server_url(bad).is_err(), "{bad}");
        }
        let refused = server_url("http://user:sesame-open@dueq.example").unwrap_err();
        assert!(refused.contains("--api-key") && !refused.contains("sesame"), "{refused}");
    }

    #[test]
    fn a_wrong_port_or_scheme_is_not_taken_for_something_else() {
        for bad in [
            "127.0.0.1:99999",
            "[::1]:65536",
            "a:",
            "a:1#b",
            "http:127.0.0.1",
            "https:8080",
            "http//a",
            "HTTP:/a",
        ] {
            assert!(server_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_server_without_a_scheme_is_asked_by_http() {
        for (text, url) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("[::1]:8080", "http://[::1]:8080"),
            ("localhost", "http://localhost"),
            ("dueq.example:80/queue", "http://dueq.example:80/queue"),
        ] {
            assert_eq!(server_url(text).as_deref(), Ok(url));
        }
    }
}
