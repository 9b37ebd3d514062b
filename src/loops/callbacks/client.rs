//! Makes one call and says what came of it. Redirects are not followed and no proxy of the environment is asked: both would
//! be ways around the guard.

use super::{
    args::ClientCert,
    dial::{CONNECT_TIMEOUT, Connector, DialError, Dialler, connector, for_people},
    outcome::{
        CallOutcome, KEPT_BYTES, NoAnswer, Verdict, cut, failed_messages, keep_less, verdict,
    },
    request::CallRequest,
    tokens::Tokens,
    wire::ReadCounter,
};
use bytes::Bytes;
use dueq_base::tls::{self, Expiry, TlsError};
use dueq_model::{AddressGuard, AuthKind, CallReport, CallUrl, MASK, Millis, Proxy};
use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header,
};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::{
    client::legacy::{self, connect::capture_connection},
    rt::{TokioExecutor, TokioTimer},
};
use std::{
    collections::{BTreeMap, HashMap},
    error::Error as _,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use tokio::time::{Instant, timeout_at};

/// Headers of an answer that are kept, if it delivers: those that say what the body is, or where to look.
const KEPT_HEADERS: [HeaderName; 5] =
    [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::ETAG, header::LOCATION, REQUEST_ID];
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest value that is kept of one, bytes.
const KEPT_VALUE: usize = 256;
/// Bytes of a secret, at least, for it to be looked for in an answer.
const LEAST_SECRET: usize = 4;
/// Bytes of an answer that are read, so that the connection can be used again; a longer one ends it.
pub(super) const READ_BYTES: usize = 65_536;
/// How long an answer is read once it has begun: what it says beyond its status is only noted.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// What a connection buffers at most, the head of an answer included. One that gets no answer needs a quarter.
const BUFFER_BYTES: usize = 32_768;
/// A timeout noticed so late means that this process was stopped for a while.
const STOPPED: Duration = Duration::from_secs(1);
/// How long an answer that came while the process was stopped may take to be read.
const MOMENT: Duration = Duration::from_millis(200);
/// A connection that nobody used for so long is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections to a host that are kept for the next call.
const IDLE_PER_HOST: usize = 64;

pub(super) type Client = legacy::Client<Connector, Full<Bytes>>;

/// Makes calls; clones share the connections.
#[derive(Clone)]
pub struct Caller {
    plain: Clients,
    /// With client certificates, by their names.
    certified: Arc<RwLock<HashMap<String, Clients>>>,
    tokens: Tokens,
    dialler: Dialler,
}

#[derive(Clone)]
struct Clients {
    http: Client,
    /// Keeps no connections. For calls that are not made again once they may have been received: that a kept connection
    /// breaks does not say whether the receiver had closed it before.
    unkept: Client,
}

impl Clients {
    fn new(dialler: &Dialler, tls: rustls::ClientConfig) -> Self {
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(dialler.service());
        let connector = connector(https);
        // A request that a closed connection never took goes over another one; one that may have been sent does not.
        let client = |kept| {
            legacy::Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE_TIMEOUT)
                .pool_max_idle_per_host(kept)
                .http1_max_buf_size(BUFFER_BYTES)
                .retry_canceled_requests(true)
                .build(connector.clone())
        };
        Self { http: client(IDLE_PER_HOST), unkept: client(0) }
    }
}

impl Caller {
    /// One that calls what `guard` lets through, by the proxy if there is one, and looks names up at `dns` alone, or as the
    /// system says. Within a Tokio runtime. Errors: TLS cannot be set up.
    pub fn new(
        guard: Arc<AddressGuard>,
        dns: Option<SocketAddr>,
        proxy: Option<Proxy>,
    ) -> Result<Self, TlsError> {
        let dialler = Dialler::new(guard, dns, proxy);
        let plain = Clients::new(&dialler, tls::to_anyone()?);
        Ok(Self { plain, certified: Arc::default(), tokens: Tokens::default(), dialler })
    }

    /// Reads this certificate, for the calls to come of all clones. Returns when it ends.
    ///
    /// Errors: it cannot be used; then the one that was there of this name stays in force.
    pub fn certify(&self, ClientCert { name, identity }: &ClientCert) -> Result<Expiry, TlsError> {
        let (tls, expiry) = tls::to_anyone_as(identity)?;
        let clients = Clients::new(&self.dialler, tls);
        let mut certified = self.certified.write().unwrap_or_else(PoisonError::into_inner);
        certified.insert(name.clone(), clients);
        Ok(expiry)
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
        mut request: CallRequest,
        broken_off: impl Future<Output = ()>,
    ) -> Option<CallOutcome> {
        let mut broken_off = pin!(broken_off);
        let began = Instant::now();
        let end = began + request.timeout;
        let now = request.now;
        let secret =
            request.auth.is_some() || request.headers.values().any(HeaderValue::is_sensitive);
        let mut report = CallReport { secret, ..CallReport::default() };
        let (retry, auth) = (request.retry.take(), request.auth.take());
        let retry = retry.as_ref();
        let oauth2 = auth.as_ref().filter(|auth| auth.kind == AuthKind::Oauth2);
        let once = retry.is_some_and(|retry| retry.decides("timeout") == Some(false));
        let certified = request.client_cert.as_ref().map(|name| {
            self.certified.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
        });
        let clients = certified.as_ref().map_or(Some(&self.plain), Option::as_ref);
        let client = clients.map(|clients| if once { &clients.unkept } else { &clients.http });
        // The receiver may have got it over a connection that was closed then.
        let mut repeated = false;
        // A receiver may refuse one token: its answer, and the token.
        let (mut renewed, mut refused) = (false, None::<(Response<Incoming>, HeaderValue)>);
        let answer = loop {
            let Some(client) = client else {
                let name = request.client_cert.unwrap_or_default();
                let error = format!("this instance has no --callback-client-cert {name}");
                break Err((error, NoAnswer::Unrelated));
            };
            if let Some(auth) = oauth2 {
                let old = refused.as_ref().map(|(_, token)| token);
                let token = tokio::select! {
                    token = in_time(end, self.tokens.get(&self.plain.unkept, auth, old)) => token,
                    () = &mut broken_off => return None,
                };
                match (token, refused.take()) {
                    (Some(Ok(token)), Some((answer, old))) if token == old => break Ok(answer),
                    (Some(Ok(token)), _) => {
                        drop(request.headers.insert(header::AUTHORIZATION, token))
                    }
                    (Some(Err(failure)), _) => break Err(failure),
                    (None, _) => {
                        let ms = request.timeout.as_millis();
                        let error = format!("timed out after {ms} ms without a token");
                        break Err((error, NoAnswer::Unrelated));
                    }
                }
            }
            let mut http = match to_http(&request) {
                Ok(http) => http,
                Err(error) => break Err((error, NoAnswer::Unrelated)),
            };
            let connection = capture_connection(&mut http);
            let calling = CONNECT_TIMEOUT.scope(request.connect_timeout, client.request(http));
            let head = tokio::select! {
                head = in_time(end, calling) => head,
                () = &mut broken_off => {
                    let sent = connection.connection_metadata().is_some();
                    if !sent && !repeated {
                        return None;
                    }
                    // The receiver may have got it.
                    let error = "cancelled, because dueq is stopping".to_owned();
                    break Err((error, NoAnswer::Unrelated));
                }
            };
            break match head {
                Some(Err(error)) if request.method.is_idempotent() && was_closed(&error) => {
                    repeated = true;
                    continue;
                }
                Some(Ok(answer))
                    if oauth2.is_some()
                        && !renewed
                        && answer.status() == StatusCode::UNAUTHORIZED =>
                {
                    renewed = true;
                    let old = request.headers.get(header::AUTHORIZATION).cloned();
                    refused = old.map(|old| (answer, old));
                    continue;
                }
                Some(answer) => answer.map_err(|error| failure(&error)),
                None => {
                    let sent = connection.connection_metadata().is_some();
                    let (why, how) = match sent {
                        true => (NoAnswer::Timeout, ""),
                        false => (NoAnswer::Connect, " without a connection"),
                    };
                    Err((format!("timed out after {} ms{how}", request.timeout.as_millis()), why))
                }
            };
        };
        let answered = match &answer {
            Ok(answer) => Some(!answer.status().is_server_error()),
            Err((_, why)) => why.answered(),
        };
        let mut failed = HashMap::new();
        let verdict = match answer {
            Ok(answer) => {
                let now = now + millis(began);
                let mut verdict = verdict(answer.status(), answer.headers(), retry, now);
                report.status = Some(answer.status().as_u16());
                let soon = if request.names_failed { end } else { Instant::now() + READ_TIMEOUT };
                let mut secrets = secrets_of(&request.headers);
                let own = auth.as_ref().map(|auth| auth.secret.reveal().as_bytes());
                secrets.extend(own.filter(|secret| secret.len() >= LEAST_SECRET));
                let mut most = request.keep_answer;
                match verdict {
                    Verdict::Delivered => report.headers = kept_headers(answer.headers(), &secrets),
                    _ => most = most.min(KEPT_BYTES),
                }
                let raw = request.names_failed.then_some(answer.headers().clone());
                let (text, body) =
                    read(answer, end.min(soon), &secrets, (most, raw.is_some()), broken_off).await;
                report.answer = text;
                if let Some(headers) = raw.filter(|_| verdict == Verdict::Delivered) {
                    match failed_messages(&headers, body.as_deref()) {
                        Ok(named) => failed = named,
                        Err(why) => {
                            report.error = Some(why.to_owned());
                            keep_less(&mut report);
                            verdict = Verdict::Retry { after: None };
                        }
                    }
                }
                verdict
            }
            Err((error, why)) => {
                report.error = Some(error);
                match why {
                    NoAnswer::Connect if repeated => NoAnswer::Timeout.verdict(retry),
                    why => why.verdict(retry),
                }
            }
        };
        report.duration_ms = millis(began);
        Some(CallOutcome { report, verdict, answered, failed })
    }
}

fn millis(since: Instant) -> Millis {
    since.elapsed().as_millis() as Millis
}

/// What this gives until then, or nothing. After a stop of the process an answer that came meanwhile counts: another task has
/// yet to read it from the connection.
async fn in_time<T>(end: Instant, answer: impl Future<Output = T>) -> Option<T> {
    let mut answer = pin!(answer);
    if let Ok(answer) = timeout_at(end, &mut answer).await {
        return Some(answer);
    }
    let now = Instant::now();
    if now < end + STOPPED {
        return None;
    }
    timeout_at(now + MOMENT, answer).await.ok()
}

/// The URL as hyper wants it. Errors: what was stored is none.
pub(super) fn to_uri(url: &CallUrl) -> Result<Uri, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("the URL cannot be called: {error}");
    let mut url = url.url().map_err(|error| wrong(&error))?.clone();
    url.set_fragment(None);
    url.as_str().parse().map_err(|error: http::uri::InvalidUri| wrong(&error))
}

fn to_http(request: &CallRequest) -> Result<Request<Full<Bytes>>, String> {
    let (method, body) = (request.method.as_str(), Full::from(request.body.clone()));
    let built = Request::builder().method(method).uri(to_uri(&request.url)?).body(body);
    let mut built = built.map_err(|error| format!("the URL cannot be called: {error}"))?;
    *built.headers_mut() = request.headers.clone();
    Ok(built)
}

/// What must not be shown of an answer: the values of secret headers, which a receiver may say back, also without the
/// scheme before them. Shorter ones than [`LEAST_SECRET`] would blank out anything.
fn secrets_of(headers: &HeaderMap) -> Vec<&[u8]> {
    let values = headers.values().filter(|value| value.is_sensitive());
    let parts = values.flat_map(|value| {
        let whole = value.as_bytes().trim_ascii();
        let blank = whole.iter().position(u8::is_ascii_whitespace);
        [Some(whole), blank.map(|at| whole[at..].trim_ascii())]
    });
    parts.flatten().filter(|part| part.len() >= LEAST_SECRET).collect()
}

/// The headers of an answer that are kept, without the request's secrets.
fn kept_headers(headers: &HeaderMap, secrets: &[&[u8]]) -> BTreeMap<String, String> {
    let kept = KEPT_HEADERS.into_iter().filter_map(|name| {
        let value = headers.get(&name)?.to_str().ok()?;
        let shown = without(secrets, value.as_bytes(), KEPT_VALUE);
        Some((name.as_str().to_owned(), String::from_utf8_lossy(&shown).into_owned()))
    });
    kept.collect()
}

/// What may be shown of the first `most` bytes of an answer: `***` in place of each secret that begins there. Those that
/// overlap are hidden both.
fn without(secrets: &[&[u8]], answer: &[u8], most: usize) -> Vec<u8> {
    let (mut shown, mut hidden) = (Vec::with_capacity(most.min(answer.len())), 0);
    for (at, byte) in answer.iter().enumerate().take(most) {
        let said = |secret: &&&[u8]| answer[at..].starts_with(secret);
        if let Some(longest) = secrets.iter().filter(said).map(|secret| secret.len()).max() {
            if at >= hidden {
                shown.extend_from_slice(MASK.as_bytes());
            }
            hidden = hidden.max(at + longest);
        }
        if at >= hidden {
            shown.push(*byte);
        }
    }
    shown
}

/// Reads an answer up to the cap, the end of the time, or until it is broken off; the beginning of it as text, without
/// the request's secrets, and the control characters that would blow it up where it is kept. And all of it as it came, where it ended in time and that is asked for.
async fn read(
    answer: Response<Incoming>,
    end: Instant,
    secrets: &[&[u8]],
    (keep, raw): (usize, bool),
    mut broken_off: Pin<&mut impl Future<Output = ()>>,
) -> (Option<String>, Option<Vec<u8>>) {
    let heard = answer.extensions().get::<ReadCounter>().cloned();
    let mut body = answer.into_body();
    // Enough for a secret that begins within what is kept.
    let enough = keep + secrets.iter().map(|secret| secret.len()).max().unwrap_or(0);
    let most = if raw { enough.max(READ_BYTES) } else { enough };
    let (mut kept, mut read, mut whole) = (Vec::new(), 0, false);
    while read < READ_BYTES {
        let frame = tokio::select! {
            frame = timeout_at(end, body.frame()) => frame,
            () = &mut broken_off => break,
        };
        let Ok(Some(Ok(frame))) = frame else {
            if matches!(frame, Ok(None)) {
                whole = true;
                heard.iter().for_each(ReadCounter::answered);
            }
            break;
        };
        let data = frame.into_data().unwrap_or_default();
        read += data.len();
        kept.extend_from_slice(&data[..data.len().min(most - kept.len())]);
    }
    let plain = |c: char| {
        if c.is_control() && !c.is_whitespace() { char::REPLACEMENT_CHARACTER } else { c }
    };
    let shown = without(secrets, &kept, keep);
    let mut text: String = String::from_utf8_lossy(&shown).chars().map(plain).collect();
    if read > keep || text.len() > keep {
        cut(&mut text, keep);
        if read > keep && text.ends_with(char::REPLACEMENT_CHARACTER) {
            text.pop();
        }
    }
    ((!text.is_empty()).then_some(text), (whole && read <= most).then_some(kept))
}

/// Did the call meet a connection that was kept, and that the receiver had closed?
fn was_closed(error: &legacy::Error) -> bool {
    let mut extras = Extensions::new();
    if let Some(connected) = error.connect_info() {
        connected.get_extras(&mut extras);
    }
    extras.get().is_some_and(ReadCounter::nothing_since)
}

/// Why there is no answer: for people, and for the verdict. That the receiver had closed a kept connection says nothing.
pub(super) fn failure(error: &legacy::Error) -> (String, NoAnswer) {
    let why = if was_closed(error) { NoAnswer::Unrelated } else { NoAnswer::Timeout };
    let mut cause = error.source();
    let mut last = error.to_string();
    while let Some(inner) = cause {
        if let Some(dial) = inner.downcast_ref::<DialError>() {
            return (dial.to_string(), dial.why());
        }
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return (format!("the connection broke: {}", for_people(io)), why);
        }
        if let Some(http) = inner.downcast_ref::<hyper::Error>() {
            if http.is_incomplete_message() || http.is_canceled() || http.is_closed() {
                return ("the connection was closed before an answer came".to_owned(), why);
            }
            if http.is_parse_too_large() {
                return ("the head of the answer is too large".to_owned(), why);
            }
            if http.is_parse() {
                return (format!("the answer is not HTTP: {http}"), why);
            }
        }
        last = inner.to_string();
        cause = inner.source();
    }
    (last, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_receiver_says_back_of_a_secret_is_hidden() {
        let mut headers = HeaderMap::new();
        for (name, value, secret) in [
            ("authorization", "Bearer  sesame", true),
            ("x-token", " sesame-street ", true),
            ("x-short", "abc", true),
            ("x-open", "open", false),
        ] {
            let mut value = HeaderValue::from_static(value);
            value.set_sensitive(secret);
            headers.insert(name, value);
        }
        let secrets = secrets_of(&headers);
        let told = |answer: &str| {
            String::from_utf8(without(&secrets, answer.as_bytes(), KEPT_BYTES)).unwrap()
        };
        assert_eq!(told("open abc: Bearer  sesame, sesame."), "open abc: ***, ***.");
        assert_eq!(told("Bearer  sesame-street sesam"), "*** sesam", "they overlap");
        assert_eq!(told("sesamesesame"), "******");
        let cut = |before: usize| told(&format!("{}sesame-street", "x".repeat(before)));
        assert_eq!(cut(KEPT_BYTES - 1), format!("{}***", "x".repeat(KEPT_BYTES - 1)));
        assert_eq!(cut(KEPT_BYTES), "x".repeat(KEPT_BYTES));
    }
}
