//! Where dueq sends messages by itself: a topic's push settings, a message's own callback, and the parts of both. The checks
//! here need no network; `AddressGuard` has the others.

use super::{
    Auth, CREDENTIALS, CallUrl, MASK, Millis, Unknown, is_credential, is_default, names_header,
    settings::stored,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// How long a call may take by default, ms.
pub const DEFAULT_CALL_TIMEOUT_MS: u64 = 15_000;
/// The shortest time that a call can be given, ms.
pub const MIN_CALL_TIMEOUT_MS: u64 = 100;
/// The longest time that a call can be given: 30 minutes in ms.
pub const MAX_CALL_TIMEOUT_MS: u64 = 1_800_000;
/// Calls of a topic that an instance has under way at once, at most, by default.
pub const DEFAULT_IN_FLIGHT: u64 = 64;
/// Calls to one host that an instance makes at once, at most.
pub const DEFAULT_IN_FLIGHT_PER_HOST: u64 = 8;
/// Failed calls in a row after which a host fails, by default.
pub const DEFAULT_FAILING_AFTER: u32 = 10;
/// The most that can be set.
pub const MAX_FAILING_AFTER: u64 = 10_000;
/// How long its calls have to fail, at least, by default, ms.
pub const DEFAULT_FAILING_OVER_MS: Millis = 30_000;
/// The shortest time that can be set, ms.
pub const MIN_FAILING_OVER_MS: u64 = 100;
/// The longest: one hour in ms.
pub const MAX_FAILING_OVER_MS: u64 = 3_600_000;
/// The largest bound on calls under way.
pub const MAX_IN_FLIGHT: u64 = 10_000;
/// Bytes of an answer that are kept by default.
pub const DEFAULT_KEPT_ANSWER: u64 = 1_024;
/// Bytes of an answer that are kept, at most.
pub const MAX_KEPT_ANSWER: u64 = 65_536;
/// Secrets that a topic signs with at once, at most.
pub const MAX_SECRETS: usize = 2;
/// Characters of the name of a client certificate, at most.
pub const MAX_CERT_NAME: usize = 64;
/// Entries of each list of [`Retry`], at most.
pub const MAX_RETRY_CAUSES: usize = 32;
/// Messages that one call carries, at most.
pub const MAX_CALL_MESSAGES: u64 = 100;
/// How long messages wait for others by default, ms.
pub const DEFAULT_CALL_WAIT_MS: Millis = 1_000;
/// The longest that can be set: one minute in ms.
pub const MAX_CALL_WAIT_MS: u64 = 60_000;

/// An HTTP method to send a message with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum CallMethod {
    /// POST.
    #[default]
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
    /// GET.
    Get,
    /// DELETE.
    Delete,
}

impl CallMethod {
    /// All of them by their words.
    pub const ALL: [(&'static str, Self); 5] = [
        ("POST", Self::Post),
        ("PUT", Self::Put),
        ("PATCH", Self::Patch),
        ("GET", Self::Get),
        ("DELETE", Self::Delete),
    ];

    /// May a request whose fate is not known be sent again (RFC 9110, 9.2.2)?
    pub fn is_idempotent(self) -> bool {
        matches!(self, Self::Put | Self::Get | Self::Delete)
    }

    /// As HTTP spells it.
    pub fn as_str(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// Where one message is sent, in place of its topic's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callback {
    /// The URL.
    #[serde(rename = "u")]
    pub url: CallUrl,
    /// The HTTP method. Default: the topic's.
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub method: Option<CallMethod>,
    /// How long the call may take, ms. Default: the topic's.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<Millis>,
    /// How long connecting may take, ms. Default: the topic's.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub connect_timeout_ms: Option<Millis>,
    /// Which failed calls are retried, in place of all that the topic says of it.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// How its calls prove who is calling, in place of the topic's way.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Box<Auth>>,
    /// The name of the client certificate of its calls. Default: the topic's.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<String>,
    /// Headers of the message whose values are secrets, besides `authorization` and `cookie`.
    #[serde(rename = "h", default, skip_serializing_if = "Vec::is_empty")]
    pub secret_headers: Vec<String>,
    /// What its calls are signed with, in place of the topic's secrets.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SigningSecret>,
    /// What a later version says of it.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Callback {
    /// One with nothing but a URL.
    pub fn to(url: CallUrl) -> Self {
        let (method, timeout_ms, connect_timeout_ms) = (None, None, None);
        let (retry, auth, secret_headers, secret) = (None, None, Vec::new(), None);
        let (client_cert, unknown) = (None, Unknown::new());
        Self {
            url,
            method,
            timeout_ms,
            connect_timeout_ms,
            retry,
            auth,
            client_cert,
            secret_headers,
            secret,
            unknown,
        }
    }
}

/// Which failed calls are retried. The lists name causes: a status (`429`), a class of them (`5xx`), `timeout`, `connect`.
/// They are texts, so that this version can read those that a later one knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Retried, and no other. `None`: all that `never` does not name, except for 410.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<Vec<String>>,
    /// Not retried.
    #[serde(default, skip_serializing_if = "is_default")]
    pub never: Vec<String>,
    /// What a later version says of it.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Retry {
    /// Whether a call that failed by this cause is retried. A status goes before its class. `None`: this does not say.
    pub fn decides(&self, cause: &str) -> Option<bool> {
        let is_in = |list: &[String], entry: &str| list.iter().any(|listed| listed == entry);
        let listed = |entry: &str| match &self.on {
            _ if is_in(&self.never, entry) => Some(false),
            on => on.as_ref().filter(|on| is_in(on, entry)).map(|_| true),
        };
        let class = || listed(&format!("{}xx", cause.get(..1)?));
        listed(cause).or_else(class).or(self.on.as_ref().map(|_| false))
    }
}

/// How many messages one call carries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushBatch {
    /// So many at most.
    pub max_messages: u32,
    /// How long the first waits for others, ms.
    pub max_wait_ms: Millis,
    /// What a later version says of it.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What calls are signed with, as Standard Webhooks spells it: `whsec_` and 24 to 64 bytes in base64.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SigningSecret(String);

/// The text is no such secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be whsec_ and 24 to 64 bytes in base64")]
pub struct InvalidSecret;

impl SigningSecret {
    /// Checks a text.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let secret = Self(text.to_owned());
        let key = secret.key().ok_or(InvalidSecret)?;
        if (24..=64).contains(&key.len()) { Ok(secret) } else { Err(InvalidSecret) }
    }

    /// The mask, which is replaced by the stored secret.
    pub fn kept() -> Self {
        Self(MASK.to_owned())
    }

    /// Is it the mask?
    pub fn is_kept(&self) -> bool {
        self.0 == MASK
    }

    /// The text, for what must tell one secret from another.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The key; nothing where what was stored is none.
    pub fn key(&self) -> Option<Vec<u8>> {
        STANDARD.decode(self.0.strip_prefix("whsec_")?).ok()
    }
}

/// Whatever prints a configuration does not print its secrets.
impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningSecret(***)")
    }
}

/// For the command line, whose errors must not print the secret.
impl std::str::FromStr for SigningSecret {
    type Err = InvalidSecret;

    fn from_str(text: &str) -> Result<Self, InvalidSecret> {
        Self::parse(text)
    }
}

/// Headers that dueq sets itself on what it calls: users' of these names are refused. So are those that differ in `_` for
/// `-` only, which many receivers (CGI, WSGI, PHP) take for the same.
pub fn is_own_header(name: &str) -> bool {
    const OWN: [&str; 9] = [
        "connection",
        "content-length",
        "content-type",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let name = name.to_ascii_lowercase().replace('_', "-");
    let begins = |prefix: &&str| name.starts_with(*prefix);
    OWN.contains(&name.as_str()) || ["proxy-", "webhook-", "dueq-"].iter().any(begins)
}

/// How dueq sends a topic's messages: see [`topic_settings`](crate::topic_settings).
#[macro_export]
macro_rules! push_settings {
    ($make:ident $($with:tt)*) => { $make! { $($with)*
        /// Where messages go that have no `callback`.
        #[serde(skip_serializing_if = "is_default")]
        url: Option<CallUrl> = None;
            /// Where messages go that have no `callback`: an absolute http or https URL without user and password, on a
            /// host that dueq may call. Without it, every message needs its own.
            put CallUrl;
        /// The HTTP method.
        method: CallMethod = CallMethod::default();
            /// The HTTP method. Default: POST.
            put CallMethod;
        /// Headers of every call. The values of secret headers read `***`.
        #[serde(skip_serializing_if = "is_default")]
        headers: BTreeMap<String, String> = BTreeMap::new();
            /// Headers of every call, with the limits of a message's headers, which win over these. `***` keeps the stored
            /// value of a secret header. Secret headers are sent only to the origin of `url`, and never without `url`.
            /// `host`, `content-length`, `content-type`, hop-by-hop headers, `webhook-*` and `dueq-*` are refused.
            put CallHeaders;
        /// How long a call may take, ms.
        timeout_ms: Millis = DEFAULT_CALL_TIMEOUT_MS as Millis;
            /// How long a call may take, ms. Default: 15000.
            put CallTimeoutMs;
        /// How long looking up the name, connecting and the TLS handshake may take together, ms. Absent: the defaults.
        #[serde(skip_serializing_if = "is_default")]
        connect_timeout_ms: Option<Millis> = None;
            /// How long looking up the name, connecting and the TLS handshake may take together, ms, within `timeout_ms`.
            /// Default: 10000, of which 5000 without the handshake.
            put CallTimeoutMs;
        /// Which failed calls are retried. Absent: all, except for 410 and `dueq-retry: never`.
        #[serde(skip_serializing_if = "is_default")]
        retry: Option<Retry> = None;
            /// Which failed calls are retried. Default: all, except for 410 and `dueq-retry: never`.
            put RetryRequest;
        /// How calls prove who is calling. Absent: only by signatures and headers.
        #[serde(skip_serializing_if = "is_default")]
        auth: Option<Auth> = None;
            /// How calls prove who is calling, in place of a header `authorization`. Sent only to the origin of `url`, and
            /// never without `url`. `***` keeps the stored secret. Default: only by signatures and headers.
            put AuthRequest;
        /// The name of the client certificate of calls by https. Absent: none.
        #[serde(skip_serializing_if = "is_default")]
        client_cert: Option<String> = None;
            /// The name of the client certificate of calls by https to the origin of `url`, as `--callback-client-cert` has it.
            /// Default: none.
            put Text<1, MAX_CERT_NAME>;
        /// Bytes of the answer to a call that delivers which are kept, at most.
        keep_answer_bytes: u32 = DEFAULT_KEPT_ANSWER as u32;
            /// How much of the body of an answer that delivers is kept as the result, bytes: 0 to 65536. Of other answers it is at most
            /// 1024. Default: 1024.
            put Bounded<0, MAX_KEPT_ANSWER>;
        /// How many messages one call carries. Absent: one, as its body.
        #[serde(skip_serializing_if = "is_default")]
        batch: Option<PushBatch> = None;
            /// Sends many messages in one call, as a JSON array of messages as a lease has them, without the lease. Needs
            /// `url`; messages cannot have a `callback` then. Default: one message a call, whose payload is the body.
            put PushBatchRequest;
        /// Calls that an instance makes at once, at most.
        max_in_flight: u32 = DEFAULT_IN_FLIGHT as u32;
            /// Calls that an instance makes at once, at most. Default: 64.
            put Bounded<1, MAX_IN_FLIGHT>;
        /// Calls to one host that an instance makes at once, at most.
        max_in_flight_per_host: u32 = DEFAULT_IN_FLIGHT_PER_HOST as u32;
            /// Calls to one host that an instance makes at once, at most. Default: 8.
            put Bounded<1, MAX_IN_FLIGHT>;
        /// Failed calls in a row after which their host is not called but for probes; 0: any number. Absent: the default.
        #[serde(skip_serializing_if = "is_default")]
        failing_after: Option<u32> = None;
            /// Failed calls in a row (no connection, no answer in time, or a 5xx), over at least `failing_over_ms`, after which
            /// their host fails: its messages wait without an attempt until a probe is answered. 0: its messages do not wait.
            /// Default: 10.
            put Bounded<0, MAX_FAILING_AFTER>;
        /// How long calls have to fail for that, at least, ms. Absent: the default.
        #[serde(skip_serializing_if = "is_default")]
        failing_over_ms: Option<Millis> = None;
            /// How long calls have to fail for that, at least, ms. Default: 30000.
            put Bounded<MIN_FAILING_OVER_MS, MAX_FAILING_OVER_MS>;
        /// Calls per second of all instances together. Absent: unlimited.
        #[serde(skip_serializing_if = "is_default")]
        rate_per_s: Option<f64> = None;
            /// Calls per second of all instances together; with `batch`, messages per second. Default: unlimited.
            put Decimal<1, 10_000_000>;
        /// `***` for each signing secret.
        #[serde(skip_serializing_if = "is_default")]
        secrets: Vec<SigningSecret> = Vec::new();
            /// Signing secrets per Standard Webhooks: `whsec_` and 24 to 64 bytes in base64. Two while you rotate them.
            /// Absent: the stored secrets stay. Each `***` keeps one of them, in order. `[]`: none.
            put List<SigningSecret, 0, MAX_SECRETS>;
        /// Further headers that read `***`, besides `authorization` and `cookie`. Absent: no others.
        #[serde(skip_serializing_if = "is_default")]
        secret_headers: Vec<String> = Vec::new();
            /// Further headers, of the push and of its messages, whose values are never shown, besides `authorization` and
            /// `cookie`. At most 32.
            put SecretHeaders;
    } };
}

push_settings! { stored
    /// How dueq sends the messages of a topic that it consumes itself.
    struct Push {
        /// Whom the secrets were stored for, where the URL that said so is gone.
        #[serde(skip_serializing_if = "is_default")]
        secrets_for: Option<String> = None,
    }
}

impl Push {
    /// How dueq's own topic of callbacks is sent, in which everybody's hosts meet: many places, so that dead hosts with
    /// their few leave enough to the others.
    pub fn of_callbacks() -> Self {
        Self { max_in_flight: 1_024, ..Self::default() }
    }

    /// Failed calls in a row after which a host fails; 0: none does.
    pub fn failing_after(&self) -> u32 {
        self.failing_after.unwrap_or(DEFAULT_FAILING_AFTER)
    }

    /// How long its calls have to fail, at least, ms.
    pub fn failing_over_ms(&self) -> Millis {
        self.failing_over_ms.unwrap_or(DEFAULT_FAILING_OVER_MS)
    }

    /// The origin that its secrets belong to. Without one its secret headers are sent to nobody, and its signing secrets
    /// sign what its messages send wherever they say.
    pub fn origin(&self) -> Option<String> {
        self.url.as_ref().map_or_else(|| self.secrets_for.clone(), CallUrl::origin)
    }

    /// The names of headers that are secrets, in lower case.
    pub fn secret_names(&self) -> impl Iterator<Item = String> + '_ {
        let named = self.secret_headers.iter().map(|name| name.to_ascii_lowercase());
        CREDENTIALS.into_iter().map(str::to_owned).chain(named)
    }

    /// Does every call carry headers that are secrets?
    pub fn has_secret_headers(&self) -> bool {
        self.headers.keys().any(|name| self.is_secret(name))
    }

    /// Is the value of this header a secret, of the push itself or of a message?
    pub fn is_secret(&self, name: &str) -> bool {
        is_credential(name) || names_header(&self.secret_headers, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_goes_before_its_class_and_what_is_not_listed_depends_on_the_first_list() {
        let list = |words: &str| words.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let of = |on: Option<&str>, never: &str| {
            let retry = Retry { on: on.map(list), never: list(never), ..Retry::default() };
            move |cause: &str| retry.decides(cause)
        };
        let both = of(Some("5xx 429 timeout"), "501 4xx");
        for (cause, retried) in
            [("500", true), ("501", false), ("429", true), ("400", false), ("302", false)]
        {
            assert_eq!(both(cause), Some(retried), "{cause}");
        }
        assert_eq!(
            (both("timeout"), both("connect"), both("")),
            (Some(true), Some(false), Some(false))
        );
        let never = of(None, "4xx connect");
        assert_eq!((never("404"), never("connect")), (Some(false), Some(false)));
        assert_eq!((never("500"), never("timeout")), (None, None));
        assert_eq!(of(None, "")("410"), None);
    }

    #[test]
    fn a_secret_is_as_standard_webhooks_has_it_and_is_never_printed() {
        let secret = SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        assert_eq!(secret.key().unwrap().len(), 24);
        assert_eq!(format!("{secret:?}"), "SigningSecret(***)");
        for bad in ["", "whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_?"] {
            assert_eq!(SigningSecret::parse(bad), Err(InvalidSecret), "{bad}");
        }
    }
}
