//! Tells people what needs them, for those without Prometheus: one POST for each event, with a `text` that incoming webhooks of
//! Slack and Mattermost take as it is.
//!
//! Whatever happens only puts its message into a bounded queue. A task sends them one by one, each within a time and a few tries,
//! so neither a slow receiver nor a dead one holds anything up; messages beyond the queue are dropped and logged.

use crate::tls;
use bytes::Bytes;
use dueq_model::{Millis, format_instant};
use http::{Request, Uri, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Map, Value, json};
use std::{fmt, str::FromStr, time::Duration};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

/// Messages that wait to be sent.
const QUEUE: usize = 64;
/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Tries of a message, and the pause after the first; it doubles.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_secs(2);

/// Where to send messages. Its path often is a secret, so it is printed without.
#[derive(Clone)]
pub struct NotifyUrl(Uri);

impl FromStr for NotifyUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let wrong = "must be an absolute http or https URL without user and password";
        let url: Uri = text.parse().map_err(|_| wrong)?;
        let known = matches!(url.scheme_str(), Some("http" | "https"));
        let plain = url.authority().is_some_and(|it| !it.as_str().contains('@'));
        if known && plain { Ok(Self(url)) } else { Err(wrong) }
    }
}

impl fmt::Display for NotifyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host) = (self.0.scheme_str(), self.0.authority());
        write!(f, "{}://{}/***", scheme.unwrap_or_default(), host.map_or("", |it| it.as_str()))
    }
}

impl fmt::Debug for NotifyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Takes messages; clones share a queue. Without a URL it takes none.
#[derive(Clone, Debug, Default)]
pub struct Notifier(Option<mpsc::Sender<Value>>);

impl Notifier {
    /// Sends to this URL from now on. Within a Tokio runtime.
    ///
    /// Errors: TLS cannot be set up.
    pub fn start(url: Option<NotifyUrl>) -> Result<Self, rustls::Error> {
        let Some(url) = url else { return Ok(Self(None)) };
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls::to_anyone()?)
            .https_or_http()
            .enable_http1()
            .build();
        // Messages are rare: no connection is kept.
        let http =
            legacy::Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(https);
        let sender = Sender { url, http };
        let (queue, messages) = mpsc::channel(QUEUE);
        tokio::spawn(sender.run(messages));
        Ok(Self(Some(queue)))
    }

    /// Does it take messages?
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Queues a message: `text` for people, the event's name, when it was (ms), and further fields.
    pub fn send(&self, event: &'static str, text: &str, at: Millis, fields: Value) {
        let Some(queue) = &self.0 else { return };
        let mut message = Map::new();
        message.insert("text".to_owned(), json!(format!("dueq: {text}")));
        message.insert("event".to_owned(), json!(event));
        message.insert("at".to_owned(), json!(format_instant(at)));
        message.extend(fields.as_object().cloned().unwrap_or_default());
        if queue.try_send(Value::Object(message)).is_err() {
            tracing::warn!(event, "a notification is dropped: too many wait");
        }
    }
}

struct Sender {
    url: NotifyUrl,
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Sender {
    async fn run(self, mut messages: mpsc::Receiver<Value>) {
        while let Some(message) = messages.recv().await {
            let body = Bytes::from(message.to_string());
            let mut pause = PAUSE;
            for left in (0..TRIES).rev() {
                match self.post(body.clone()).await {
                    Ok(()) => break,
                    Err(error) if left == 0 => {
                        let (url, event) = (&self.url, message["event"].as_str());
                        tracing::warn!(%url, event, error, "a notification could not be sent");
                    }
                    Err(_) => {
                        sleep(pause).await;
                        pause *= 2;
                    }
                }
            }
        }
    }

    async fn post(&self, body: Bytes) -> Result<(), String> {
        let request = Request::post(self.url.0.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .map_err(|error| error.to_string())?;
        match timeout(TIMEOUT, self.http.request(request)).await {
            Ok(Ok(answer)) if answer.status().is_success() => Ok(()),
            Ok(Ok(answer)) => Err(format!("answered {}", answer.status().as_u16())),
            Ok(Err(error)) if error.is_connect() => Err("no connection".to_owned()),
            Ok(Err(_)) => Err("no answer".to_owned()),
            Err(_) => Err(format!("timed out after {} s", TIMEOUT.as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_absolute_and_printed_without_its_path() {
        let url: NotifyUrl =
            "https://hooks.example.com:8443/services/T0/secret?a=b".parse().unwrap();
        assert_eq!(
            format!("{url} {url:?}"),
            "https://hooks.example.com:8443/*** https://hooks.example.com:8443/***"
        );
        for bad in
            ["", "hooks.example.com", "/services", "ftp://a/b", "https://user:pw@a/b", "https://"]
        {
            assert!(bad.parse::<NotifyUrl>().is_err(), "{bad}");
        }
    }
}
