//! The HTTP client: sends a request and returns the answer unchanged. It supports plain HTTP, and TLS with the system's
//! certificate authorities or others.

use super::{super::server_url, failure::Failure, object::Object};
use crate::tls::{self, Certified, Identity, Trouble, causes};
use bytes::Bytes;
use clap::Args as ClapArgs;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::{
    ConfigBuilderExt as _, FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder,
};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use serde::Serialize;
use std::{error::Error, fmt::Write as _, io, path::PathBuf, time::Duration};
use tokio::time::timeout;

/// Time-out of a connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time-out of an answer, beyond the time that the server was asked to wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Path segments encode everything except the unreserved characters of RFC 3986.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Arguments that name the server, and the form of the output.
#[derive(ClapArgs, Clone, Debug)]
pub struct Server {
    /// Server to send the command to; without a scheme, http://.
    #[arg(
        long,
        env = "DUEQ_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080",
        global = true
    )]
    server: String,
    /// API key, if the server requires one.
    #[arg(long, env = "DUEQ_API_KEY", value_name = "KEY", hide_env_values = true, global = true)]
    api_key: Option<String>,
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
    /// Print the API's answer as is; of a list, one item per line.
    #[arg(long, global = true)]
    pub json: bool,
}

/// An answer of the server.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The body as it came.
    pub body: Bytes,
}

impl Answer {
    /// The body as an object.
    pub fn object(&self) -> Result<Object, Failure> {
        serde_json::from_slice(&self.body).map_err(|_| {
            Failure::Unreachable(
                "the answer is not a JSON object; is this a dueq server?".to_owned(),
            )
        })
    }

    /// The code of a problem, or the empty string.
    pub fn code(&self) -> String {
        self.object().map(|problem| problem.text("code")).unwrap_or_default()
    }
}

/// A client of one server.
pub struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    authorization: Option<HeaderValue>,
}

impl Client {
    /// Creates a client of `server`, which connects on first use.
    pub fn new(server: &Server) -> Result<Self, Failure> {
        let base = server_url::checked(&server.server).map_err(Failure::Usage)?;
        let key = server.api_key.as_deref().filter(|key| !key.is_empty());
        let authorization = key.map(|key| HeaderValue::from_str(&format!("Bearer {key}")));
        let mut authorization = authorization.transpose().map_err(|_| {
            Failure::Usage("the API key contains characters that a header cannot hold".to_owned())
        })?;
        if let Some(value) = &mut authorization {
            value.set_sensitive(true);
        }
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let mut tls =
            HttpsConnectorBuilder::new().with_tls_config(tls(&base, server)?).https_or_http();
        if let Some(name) = &server.server_name {
            let wrong = |_| Failure::Usage(format!("--server-name {name:?} is not a name"));
            let name = ServerName::try_from(name.clone()).map_err(wrong)?;
            tls = tls.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let connector = tls.enable_http1().wrap_connector(connector);
        let http = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { http, base, authorization })
    }

    /// The server's URL.
    pub fn server(&self) -> &str {
        &self.base
    }

    /// Sends a GET of a path and query.
    pub async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.send(Method::GET, path, None, 0).await
    }

    /// Sends a DELETE of a path and query.
    pub async fn delete(&self, path: &str) -> Result<Answer, Failure> {
        self.send(Method::DELETE, path, None, 0).await
    }

    /// Sends a POST with a JSON body.
    pub async fn post(&self, path: &str, body: &impl Serialize) -> Result<Answer, Failure> {
        self.post_waiting(path, body, 0).await
    }

    /// Sends a PUT with a JSON body.
    pub async fn put(&self, path: &str, body: &impl Serialize) -> Result<Answer, Failure> {
        self.send(Method::PUT, path, Some(json(body)?), 0).await
    }

    /// Sends a PATCH with a JSON body.
    pub async fn patch(&self, path: &str, body: &impl Serialize) -> Result<Answer, Failure> {
        self.send(Method::PATCH, path, Some(json(body)?), 0).await
    }

    /// Sends a POST with a JSON body that asks the server to wait up to `wait_ms`.
    pub async fn post_waiting(
        &self,
        path: &str,
        body: &impl Serialize,
        wait_ms: u64,
    ) -> Result<Answer, Failure> {
        self.send(Method::POST, path, Some(json(body)?), wait_ms).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        wait_ms: u64,
    ) -> Result<Answer, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(header::USER_AGENT, concat!("dueq/", env!("CARGO_PKG_VERSION")))
            .header(header::ACCEPT, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::from(body.unwrap_or_default()))
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let limit = ANSWER_TIMEOUT.saturating_add(Duration::from_millis(wait_ms));
        let answer = timeout(limit, self.exchange(request))
            .await
            .unwrap_or_else(|_| {
                Err(format!("{}: no answer within {} s", self.base, limit.as_secs()))
            })
            .map_err(Failure::Unreachable)?;
        if answer.status.is_success() {
            Ok(answer)
        } else {
            Err(Failure::Refused(Box::new(answer)))
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, String> {
        let told = |error: &(dyn Error + 'static)| unreachable(&self.base, error);
        let response = self.http.request(request).await.map_err(|error| told(&error))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| told(&error))?;
        Ok(Answer { status, body: body.to_bytes() })
    }
}

fn json(body: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(body)
        .map_err(|error| Failure::Usage(format!("this cannot be sent as JSON: {error}")))
}

/// Reads certificates only for an https server, so that plain HTTP works on a system without any.
fn tls(base: &str, server: &Server) -> Result<ClientConfig, Failure> {
    let broken = |reason: &dyn std::fmt::Display| Failure::Unreachable(format!("no TLS: {reason}"));
    let config = tls::client().map_err(|error| broken(&error))?;
    if !is_https(base) {
        return Ok(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    }
    let config = match &server.ca {
        Some(path) => config.with_root_certificates(
            tls::authorities(path).map_err(|error| Failure::Usage(format!("--ca: {error}")))?.0,
        ),
        None => config.with_native_roots().map_err(|error| broken(&error))?,
    };
    let (cert, key) = match (server.client_cert.clone(), server.client_key.clone()) {
        (None, None) => return Ok(config.with_no_client_auth()),
        (Some(cert), Some(key)) => (cert, key),
        _ => {
            let reason = "--client-cert and --client-key belong together";
            return Err(Failure::Usage(reason.to_owned()));
        }
    };
    let identity = Identity { cert, key };
    let read = identity.read("the client certificate");
    let Certified { chain, key, .. } =
        read.map_err(|error| Failure::Usage(format!("--client-cert: {error}")))?;
    config.with_client_auth_cert(chain, key).map_err(|error| broken(&error))
}

fn is_https(server: &str) -> bool {
    server.parse().is_ok_and(|uri: Uri| uri.scheme_str() == Some("https"))
}

/// Says why the server at `base` did not answer, and what to do where that is known.
fn unreachable(base: &str, error: &(dyn Error + 'static)) -> String {
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

/// Joins percent-encoded segments to a path such as `/topics/orders/messages`.
pub fn path(segments: &[&str]) -> String {
    let mut path = String::new();
    for segment in segments {
        let _ = write!(path, "/{}", utf8_percent_encode(segment, SEGMENT));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::super::testing::{asked, ok};
    use super::*;

    #[test]
    fn segments_of_a_path_are_encoded() {
        assert_eq!(
            path(&["topics", "a.b-c_d", "keys", "a/b ?ä"]),
            "/topics/a.b-c_d/keys/a%2Fb%20%3F%C3%A4"
        );
    }

    #[tokio::test]
    async fn the_api_key_is_a_bearer_token() {
        for (words, sent) in [(&["--api-key", "s3cret"][..], true), (&["--api-key", ""], false)] {
            let request = asked(&[&["topic", "a"], words].concat(), ok("{}")).await;
            let found = request.headers.contains(&"authorization: bearer s3cret".to_owned());
            assert_eq!(found, sent, "{:?}", request.headers);
        }
    }

    #[tokio::test]
    async fn a_body_is_json() {
        let request = asked(&["pause", "a"], ok("{}")).await;
        assert!(request.headers.contains(&"content-type: application/json".to_owned()));
    }
}
