//! Makes one call and says what came of it. Redirects are not followed and no proxy is asked: both would be ways around
//! the guard.

use super::{
    dial::{Connector, DialError, Dialler, for_people},
    outcome::{CallOutcome, Verdict, verdict},
    request::CallRequest,
    wire::Heard,
};
use crate::{
    model::{AddressGuard, CallReport, Millis},
    seeded,
};
use bytes::Bytes;
use http::{Extensions, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::capture_connection},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use std::{
    error::Error as _,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, timeout_at};

/// Bytes of an answer that are kept.
const KEPT_BYTES: usize = 1_024;
/// Bytes of an answer that are read, so that the connection can be used again; a longer one ends it.
const READ_BYTES: usize = 65_536;
/// How long an answer is read once it has begun: what it says beyond its status is only noted.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// What a connection buffers at most, the head of an answer included. One that gets no answer needs a quarter.
const BUFFER_BYTES: usize = 32_768;
/// A connection that nobody used for so long is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections to a host that are kept for the next call.
const IDLE_PER_HOST: usize = 64;

/// Makes calls; clones share the connections.
#[derive(Clone)]
pub struct Caller {
    http: legacy::Client<Connector, Full<Bytes>>,
    dialler: Dialler,
}

impl Caller {
    /// One that calls what `guard` lets through and looks names up at `dns` alone, or as the system says. Within a Tokio
    /// runtime. Errors: TLS cannot be set up.
    pub fn new(guard: Arc<AddressGuard>, dns: Option<SocketAddr>) -> Result<Self, rustls::Error> {
        let dialler = Dialler::new(guard, dns);
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls()?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(dialler.clone());
        // A request that a closed connection never took goes over another one; one that may have been sent does not.
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .http1_max_buf_size(BUFFER_BYTES)
            .retry_canceled_requests(true)
            .build(Connector(https));
        Ok(Self { http, dialler })
    }

    /// Where this host (name and port) was last dialled, if it was not long ago.
    pub fn address_of(&self, host: &str) -> Option<IpAddr> {
        self.dialler.address_of(host)
    }

    /// Makes the call, or nothing where it is broken off before there is a connection. It ends within its timeout, and
    /// then nothing of it is left.
    ///
    /// The head of the answer decides. A receiver that said 200 has taken the message, whatever becomes of the rest of
    /// its answer, which is read for a short while only. A receiver that had closed a kept connection is called over
    /// another one where the method allows it, and has not been called before.
    pub async fn call(
        &self,
        request: CallRequest,
        broken_off: impl Future<Output = ()>,
    ) -> Option<CallOutcome> {
        let mut broken_off = std::pin::pin!(broken_off);
        let began = Instant::now();
        let end = began + request.timeout;
        let now = request.now;
        let mut report = CallReport::default();
        let answer = loop {
            let mut http = match to_http(&request) {
                Ok(http) => http,
                Err(error) => break Err((error, false)),
            };
            let connection = capture_connection(&mut http);
            let head = tokio::select! {
                head = timeout_at(end, self.http.request(http)) => head,
                () = &mut broken_off => {
                    let sent = connection.connection_metadata().is_some();
                    if !sent || seeded::bug("broken off is no attempt") {
                        return None;
                    }
                    // The receiver may have got it.
                    break Err(("broken off, since dueq stops".to_owned(), false));
                }
            };
            break match head {
                Ok(Err(error)) if request.method.is_idempotent() && was_closed(&error) => continue,
                Ok(answer) => answer.map_err(|error| failure(&error)),
                Err(_) => {
                    Err((format!("timed out after {} ms", request.timeout.as_millis()), false))
                }
            };
        };
        let verdict = match answer {
            Ok(answer) => {
                let now = now + millis(began);
                let verdict = verdict(answer.status(), answer.headers(), now);
                report.status = Some(answer.status().as_u16());
                let end = end.min(Instant::now() + READ_TIMEOUT);
                report.answer = read(answer, end, broken_off).await;
                verdict
            }
            Err((error, refused)) => {
                report.error = Some(error);
                if refused { Verdict::Dead } else { Verdict::Retry { after: None } }
            }
        };
        report.duration_ms = millis(began);
        Some(CallOutcome { report, verdict })
    }
}

fn millis(since: Instant) -> Millis {
    since.elapsed().as_millis() as Millis
}

fn tls() -> Result<ClientConfig, rustls::Error> {
    let config = || {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
    };
    // A system without root certificates can still call http.
    let config = match config()?.with_native_roots() {
        Ok(config) => config,
        Err(error) => {
            tracing::warn!(%error, "no root certificates: callbacks by https will fail");
            config()?.with_root_certificates(RootCertStore::empty())
        }
    };
    Ok(config.with_no_client_auth())
}

fn to_http(request: &CallRequest) -> Result<Request<Full<Bytes>>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("the URL cannot be called: {error}");
    let mut url = request.url.url().map_err(|error| wrong(&error))?;
    url.set_fragment(None);
    let uri: Uri = url.as_str().parse().map_err(|error: http::uri::InvalidUri| wrong(&error))?;
    let method = request.method.as_str();
    let built = Request::builder().method(method).uri(uri).body(Full::from(request.body.clone()));
    let mut built = built.map_err(|error| wrong(&error))?;
    *built.headers_mut() = request.headers.clone();
    Ok(built)
}

/// Reads an answer up to the cap, the end of the time, or until it is broken off; the beginning of it as text, without
/// the control characters that would blow it up where it is kept.
async fn read(
    answer: Response<Incoming>,
    end: Instant,
    mut broken_off: Pin<&mut impl Future<Output = ()>>,
) -> Option<String> {
    let heard = answer.extensions().get::<Heard>().cloned();
    let mut body = answer.into_body();
    let (mut kept, mut read) = (Vec::new(), 0);
    while read < READ_BYTES {
        let frame = tokio::select! {
            frame = timeout_at(end, body.frame()) => frame,
            () = &mut broken_off => break,
        };
        let Ok(Some(Ok(frame))) = frame else {
            if matches!(frame, Ok(None)) {
                heard.iter().for_each(Heard::answered);
            }
            break;
        };
        let data = frame.into_data().unwrap_or_default();
        read += data.len();
        kept.extend_from_slice(&data[..data.len().min(KEPT_BYTES - kept.len())]);
    }
    let plain = |c: char| {
        if c.is_control() && !c.is_whitespace() { char::REPLACEMENT_CHARACTER } else { c }
    };
    let mut text: String = String::from_utf8_lossy(&kept).chars().map(plain).collect();
    if read > kept.len() || text.len() > KEPT_BYTES {
        // A character that was cut through is left out.
        let fits = |at: &usize| text.is_char_boundary(*at);
        let whole = (0..=KEPT_BYTES.min(text.len())).rev().find(fits).unwrap_or(0);
        text.truncate(whole);
        if read > kept.len() && text.ends_with(char::REPLACEMENT_CHARACTER) {
            text.pop();
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Did the call meet a connection that was kept, and that the receiver had closed?
fn was_closed(error: &legacy::Error) -> bool {
    let mut extras = Extensions::new();
    if let Some(connected) = error.connect_info() {
        connected.get_extras(&mut extras);
    }
    extras.get().is_some_and(Heard::nothing_since)
}

/// Why there is no answer, for people, and whether the address was refused.
fn failure(error: &legacy::Error) -> (String, bool) {
    let mut cause = error.source();
    let mut last = error.to_string();
    while let Some(inner) = cause {
        if let Some(dial) = inner.downcast_ref::<DialError>() {
            return (dial.to_string(), matches!(dial, DialError::Refused(_)));
        }
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return (format!("the connection broke: {}", for_people(io)), false);
        }
        if let Some(http) = inner.downcast_ref::<hyper::Error>() {
            if http.is_incomplete_message() || http.is_canceled() || http.is_closed() {
                return ("the connection was closed before an answer came".to_owned(), false);
            }
            if http.is_parse_too_large() {
                return ("the head of the answer is too large".to_owned(), false);
            }
            if http.is_parse() {
                return (format!("the answer is no HTTP: {http}"), false);
            }
        }
        last = inner.to_string();
        cause = inner.source();
    }
    (last, false)
}
