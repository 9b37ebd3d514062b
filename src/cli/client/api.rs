//! The HTTP client: sends a request and returns the answer unchanged. It supports plain HTTP, and TLS with the system's
//! certificate authorities or others.

use super::{
    super::server_url,
    failure::Failure,
    object::Object,
    tls::{TlsArgs, unreachable},
};
use bytes::Bytes;
use clap::Args as ClapArgs;
use form_urlencoded::Serializer;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::value::RawValue;
use std::{error::Error, fmt::Write as _, time::Duration};
use tokio::time::timeout;

/// Items of a page, at most.
pub const PAGE: usize = 1_000;

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
    #[command(flatten)]
    tls: TlsArgs,
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

/// A page of a list.
pub struct Page {
    /// The items as they came.
    pub items: Vec<Box<RawValue>>,
    /// The cursor of the next page.
    pub next: Option<String>,
    /// How many messages a search looked at.
    pub scanned: u64,
}

impl Page {
    /// The items that are objects.
    pub fn objects(&self) -> impl Iterator<Item = Object> {
        self.items.iter().filter_map(|item| serde_json::from_str(item.get()).ok())
    }
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
        let config = server.tls.config(&base)?;
        let mut tls = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
        if let Some(name) = server.tls.name()? {
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
        self.send(self.request(Method::GET, path), None, 0).await
    }

    /// Sends a GET of a page of a list, of up to `limit` items.
    pub async fn page(
        &self,
        path: &str,
        filter: &[(&str, &str)],
        limit: usize,
        cursor: Option<String>,
    ) -> Result<Page, Failure> {
        let mut query = Serializer::new(format!("{path}?limit={}", limit.min(PAGE)));
        query.extend_pairs(filter);
        query.extend_pairs(cursor.map(|cursor| ("cursor", cursor)));
        let page = self.get(&query.finish()).await?.object()?;
        Ok(Page {
            items: page.get("items").unwrap_or_default(),
            next: page.get("next_cursor"),
            scanned: page.get("scanned").unwrap_or_default(),
        })
    }

    /// Sends a DELETE of a path and query.
    pub async fn delete(&self, path: &str) -> Result<Answer, Failure> {
        self.send(self.request(Method::DELETE, path), None, 0).await
    }

    /// Sends a POST whose path says all.
    pub async fn act(&self, path: &str) -> Result<Answer, Failure> {
        self.post(path, &serde_json::json!({})).await
    }

    /// Sends a POST with a JSON body.
    pub async fn post(&self, path: &str, body: &impl Serialize) -> Result<Answer, Failure> {
        self.post_waiting(path, body, 0).await
    }

    /// Sends a POST with a JSON body that asks the server to wait up to `wait_ms`.
    pub async fn post_waiting(
        &self,
        path: &str,
        body: &impl Serialize,
        wait_ms: u64,
    ) -> Result<Answer, Failure> {
        self.send(self.request(Method::POST, path), Some(json(body)?), wait_ms).await
    }

    /// Sends a PUT with a JSON body, which is refused where there is another revision than this.
    pub async fn put(
        &self,
        path: &str,
        body: &impl Serialize,
        revision: Option<i64>,
    ) -> Result<Answer, Failure> {
        let mut request = self.request(Method::PUT, path);
        if let Some(revision) = revision {
            request = request.header(header::IF_MATCH, format!("\"{revision}\""));
        }
        self.send(request, Some(json(body)?), 0).await
    }

    /// Sends a PATCH with a JSON body.
    pub async fn patch(&self, path: &str, body: &impl Serialize) -> Result<Answer, Failure> {
        self.send(self.request(Method::PATCH, path), Some(json(body)?), 0).await
    }

    fn request(&self, method: Method, path: &str) -> http::request::Builder {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(header::USER_AGENT, concat!("dueq/", env!("CARGO_PKG_VERSION")))
            .header(header::ACCEPT, "application/json")
    }

    async fn send(
        &self,
        mut request: http::request::Builder,
        body: Option<Vec<u8>>,
        wait_ms: u64,
    ) -> Result<Answer, Failure> {
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
