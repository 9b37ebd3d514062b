//! The HTTP client: sends a request and returns the answer unchanged. It supports plain HTTP, and TLS with the system's
//! certificate authorities or others.

use super::{failure::Failure, object::Object};
use bytes::Bytes;
use clap::Args as ClapArgs;
use dueq_base::remote::{TlsArgs, server_url, unreachable};
use form_urlencoded::Serializer;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::value::RawValue;
use std::{error::Error, time::Duration};
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
    /// The server's URL.
    pub server: String,
    authorization: Option<HeaderValue>,
}

impl Client {
    /// Creates a client of `server`, which connects on first use.
    pub fn new(server: &Server) -> Result<Self, Failure> {
        let base = server_url(&server.server).map_err(Failure::Usage)?;
        let key = server.api_key.as_deref().filter(|key| !key.is_empty());
        let authorization = key.map(|key| HeaderValue::from_str(&format!("Bearer {key}")));
        let mut authorization = authorization.transpose().map_err(|_| {
            Failure::Usage("the API key contains characters that a header cannot hold".to_owned())
        })?;
        authorization.iter_mut().for_each(|value| value.set_sensitive(true));
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let config = server.tls.config(&base).map_err(Failure::Usage)?;
        let mut tls = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
        if let Some(name) = server.tls.name().map_err(Failure::Usage)? {
            tls = tls.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let connector = tls.enable_http1().wrap_connector(connector);
        let http = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { http, server: base, authorization })
    }

    /// Sends a GET of a path and query.
    pub async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.send("GET", path, None, None, 0).await
    }

    /// Sends a GET of a page of a list, of up to `limit` items.
    pub async fn page(
        &self,
        path: &str,
        filter: &[(&str, &str)],
        limit: usize,
        cursor: Option<String>,
    ) -> Result<Page, Failure> {
        let (start, mark) = path.find('?').map_or((path.len(), "?"), |at| (at, ""));
        let mut query = Serializer::for_suffix(format!("{path}{mark}"), start + 1);
        query.append_pair("limit", &limit.min(PAGE).to_string()).extend_pairs(filter);
        query.extend_pairs(cursor.map(|cursor| ("cursor", cursor)));
        let page = self.get(&query.finish()).await?.object()?;
        Ok(Page {
            items: page.get("items").unwrap_or_default(),
            next: page.get("next_cursor"),
            scanned: page.get("scanned").unwrap_or_default(),
        })
    }

    /// Sends a request. The body is JSON, and `revision` the one that a PUT replaces. The server is asked to wait up to
    /// `wait_ms`.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
        revision: Option<i64>,
        wait_ms: u64,
    ) -> Result<Answer, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.server))
            .header(header::USER_AGENT, concat!("dueq/", env!("CARGO_PKG_VERSION")))
            .header(header::ACCEPT, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        if let Some(revision) = revision {
            request = request.header(header::IF_MATCH, format!("\"{revision}\""));
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request
            .body(Full::from(body.unwrap_or_default()))
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let limit = ANSWER_TIMEOUT.saturating_add(Duration::from_millis(wait_ms));
        let late = || format!("{}: no answer within {} s", self.server, limit.as_secs());
        let answer = timeout(limit, self.exchange(request)).await;
        let answer = answer.unwrap_or_else(|_| Err(late())).map_err(Failure::Unreachable)?;
        match answer.status.is_success() {
            true => Ok(answer),
            false => Err(Failure::Refused(Box::new(answer))),
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, String> {
        let reason = |error: &(dyn Error + 'static)| unreachable(&self.server, error);
        let response = self.http.request(request).await.map_err(|error| reason(&error))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| reason(&error))?;
        Ok(Answer { status, body: body.to_bytes() })
    }
}

/// A percent-encoded segment of a path.
pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// Joins segments to a path such as `/topics/orders/messages`.
pub fn path(segments: &[&str]) -> String {
    segments.iter().map(|text| format!("/{}", segment(text))).collect()
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
