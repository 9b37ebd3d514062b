//! Tokens of OAuth 2.0 client credentials (RFC 6749, 4.4): each is fetched once for all calls that wait for it, and kept till shortly
//! before its end.

use super::{
    client::{Client, READ_BYTES, failure, to_uri},
    outcome::NoAnswer,
};
use bytes::Bytes;
use dueq_base::seeded;
use dueq_model::{Auth, CallUrl};
use http::{HeaderValue, Request, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, timeout};

/// How long a token server may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a token is kept whose answer does not say it, s.
const DEFAULT_LIFE: f64 = 300.0;
/// The longest and shortest life that is believed, s.
const MAX_LIFE: f64 = 86_400.0;
/// A token is not used in the last part of its life: a tenth, and no more than this, s.
const MAX_MARGIN: f64 = 30.0;
/// A receiver that refuses every token has a new one fetched no more often than this.
const RENEW_INTERVAL: Duration = Duration::from_secs(1);
/// Tokens that are kept, at most.
const MOST_KEPT: usize = 4_096;
/// What a token server may say of a refusal (RFC 6749, 5.2). Its other words may repeat the secret.
const REFUSALS: [&str; 6] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
];

/// Why there is no token: for people, without secrets, and for the verdict.
pub(super) type Failure = (String, NoAnswer);

/// The last fetch of a token.
struct Fetch {
    /// When it ended.
    at: Instant,
    /// When one was last fetched because a receiver refused the one before.
    renewed_at: Option<Instant>,
    /// The value of `authorization`, and until when it is used.
    outcome: Result<(HeaderValue, Instant), Failure>,
}

type Entry = Arc<tokio::sync::Mutex<Option<Fetch>>>;

/// The tokens by all that they are fetched with. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Tokens(Arc<Mutex<HashMap<Auth, Entry>>>);

impl Tokens {
    /// Returns the value of `authorization` with a token. If the receiver `refused` the one that is kept, that is another
    /// one, or the same if one was fetched for this reason a moment ago.
    pub async fn get(
        &self,
        http: &Client,
        auth: &Auth,
        refused: Option<&HeaderValue>,
    ) -> Result<HeaderValue, Failure> {
        let began = Instant::now();
        let mut last = self.entry(auth).lock_owned().await;
        let renewed_at = last.as_ref().and_then(|last| last.renewed_at);
        match &*last {
            // It was fetched while this call waited.
            Some(Fetch { at, outcome, .. }) if *at >= began => {
                return outcome.clone().map(|(token, _)| token);
            }
            Some(Fetch { outcome: Ok((token, until)), .. }) if began < *until => {
                let is_new = |at: Instant| began.duration_since(at) < RENEW_INTERVAL;
                if refused.is_none_or(|refused| refused != token) || renewed_at.is_some_and(is_new)
                {
                    return Ok(token.clone());
                }
            }
            _ => {}
        }
        let (http, auth) = (http.clone(), auth.clone());
        let renewed_at = if refused.is_some() { Some(began) } else { renewed_at };
        // A task of its own, because others wait for the token even when the time of this call is over.
        let fetching = tokio::spawn(async move {
            let outcome = fetch(&http, &auth).await;
            let token = outcome.clone().map(|(token, _)| token);
            *last = Some(Fetch { at: Instant::now(), renewed_at, outcome });
            token
        });
        let lost = |_| Err(("fetching a token failed".to_owned(), NoAnswer::Unrelated));
        fetching.await.unwrap_or_else(lost)
    }

    fn entry(&self, auth: &Auth) -> Entry {
        if seeded::bug("a token for each call") {
            return Entry::default();
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = kept.get(auth) {
            return entry.clone();
        }
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.entry(auth.clone()).or_default().clone()
    }
}

async fn fetch(http: &Client, auth: &Auth) -> Result<(HeaderValue, Instant), Failure> {
    let host = auth.token_url.as_ref().map(CallUrl::host).unwrap_or_default();
    let began = Instant::now();
    let fetched = match auth.token_url.as_ref().map(to_uri) {
        Some(Ok(uri)) => timeout(TIMEOUT, ask(http, uri, auth)).await.unwrap_or_else(|_| {
            Err((format!("timed out after {} ms", TIMEOUT.as_millis()), NoAnswer::Unrelated))
        }),
        Some(Err(error)) => Err((error, NoAnswer::Unrelated)),
        None => Err(("auth has no token_url".to_owned(), NoAnswer::Unrelated)),
    };
    match fetched {
        Ok((token, life)) => {
            let life = life.clamp(0.0, MAX_LIFE);
            let used = Duration::from_secs_f64(life - (life / 10.0).min(MAX_MARGIN));
            Ok((token, began + used))
        }
        Err((error, why)) => Err((format!("no token from {host}: {error}"), why)),
    }
}

/// Asks for a token: the value of `authorization`, and how long it lives, s.
async fn ask(http: &Client, uri: Uri, auth: &Auth) -> Result<(HeaderValue, f64), Failure> {
    let wrong = |why: String| (why, NoAnswer::Unrelated);
    let request = Request::post(uri)
        .header(header::AUTHORIZATION, secret(&auth.basic()).map_err(wrong)?)
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(header::ACCEPT, "application/json")
        .header(header::USER_AGENT, concat!("dueq/", env!("CARGO_PKG_VERSION")))
        .body(Full::from(Bytes::from(auth.grant())));
    let request = request.map_err(|error| wrong(error.to_string()))?;
    let answer = http.request(request).await.map_err(|error| match failure(&error) {
        (error, NoAnswer::Refused) => (error, NoAnswer::Refused),
        (error, _) => wrong(error),
    })?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), READ_BYTES).collect().await;
    let body = body.map_err(|_| wrong("the answer broke off or is too long".to_owned()))?;
    let said: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    if !status.is_success() {
        let word = said["error"].as_str().filter(|word| REFUSALS.contains(word));
        let word = word.map(|word| format!(" ({word})")).unwrap_or_default();
        return Err(wrong(format!("answered {}{word}", status.as_u16())));
    }
    let kind = said["token_type"].as_str().unwrap_or("bearer");
    let token = said["access_token"].as_str().filter(|token| !token.is_empty());
    let Some(token) = token.filter(|_| kind.eq_ignore_ascii_case("bearer")) else {
        return Err(wrong("the answer has no bearer token".to_owned()));
    };
    let life = &said["expires_in"];
    let life =
        life.as_f64().or_else(|| life.as_str()?.parse().ok()).filter(|life| life.is_finite());
    Ok((secret(&format!("Bearer {token}")).map_err(wrong)?, life.unwrap_or(DEFAULT_LIFE)))
}

/// A header's value that is never shown. Errors: it has characters that no header can have.
pub(super) fn secret(text: &str) -> Result<HeaderValue, String> {
    let value = HeaderValue::from_str(text);
    let mut value = value.map_err(|_| "it cannot be sent in a header".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}
