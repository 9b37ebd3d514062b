//! Where dueq sends messages by itself: a topic's push settings, a message's own callback, and the parts of both. What is
//! checked here is what can be told without asking the network; `AddressGuard` has the rest.

use super::{CREDENTIALS, CallUrl, MASK, Millis, Unknown, is_credential, names_header};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// How long a call may take unless told otherwise, ms.
pub const DEFAULT_CALL_TIMEOUT_MS: u64 = 15_000;
/// The shortest time that a call can be given, ms.
pub const MIN_CALL_TIMEOUT_MS: u64 = 100;
/// The longest time that a call can be given: 30 minutes in ms.
pub const MAX_CALL_TIMEOUT_MS: u64 = 1_800_000;
/// Calls of a topic that an instance has under way at once, at most, unless told otherwise.
pub const DEFAULT_IN_FLIGHT: u64 = 64;
/// Calls to one host that an instance makes at once, at most.
pub const DEFAULT_IN_FLIGHT_PER_HOST: u64 = 8;
/// The largest bound on calls under way.
pub const MAX_IN_FLIGHT: u64 = 10_000;
/// Secrets that a topic signs with at once, at most.
pub const MAX_SECRETS: usize = 2;

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
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Get => "GET",
            Self::Delete => "DELETE",
        }
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
    /// Headers of the message whose values are secrets, beside `authorization` and `cookie`.
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
        let (method, timeout_ms, secret) = (None, None, None);
        let (secret_headers, unknown) = (Vec::new(), Unknown::new());
        Self { url, method, timeout_ms, secret_headers, secret, unknown }
    }
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

    /// What stands for the secret that is stored, until it is put in its place.
    pub fn kept() -> Self {
        Self(MASK.to_owned())
    }

    /// Does it only stand for the one that is stored?
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

/// How dueq sends the messages of a topic that it consumes itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Push {
    /// Where messages go that have no `callback`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<CallUrl>,
    /// The HTTP method.
    pub method: CallMethod,
    /// Headers of every call, names as given.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// How long a call may take, ms.
    pub timeout_ms: Millis,
    /// Calls that an instance makes at once, at most.
    pub max_in_flight: u32,
    /// Calls to one host that an instance makes at once, at most.
    pub max_in_flight_per_host: u32,
    /// Calls a second of all instances together; `None`: any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// What calls are signed with; more than one while rotating.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SigningSecret>,
    /// Headers whose values are secrets, beside `authorization` and `cookie`: the push's and those of its messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secret_headers: Vec<String>,
    /// Whom the secrets were stored for, where the URL that said so is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_for: Option<String>,
    /// What a later version says of it.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Default for Push {
    fn default() -> Self {
        Self {
            url: None,
            method: CallMethod::default(),
            headers: BTreeMap::new(),
            timeout_ms: DEFAULT_CALL_TIMEOUT_MS as Millis,
            max_in_flight: DEFAULT_IN_FLIGHT as u32,
            max_in_flight_per_host: DEFAULT_IN_FLIGHT_PER_HOST as u32,
            rate_per_s: None,
            secrets: Vec::new(),
            secret_headers: Vec::new(),
            secrets_for: None,
            unknown: Unknown::new(),
        }
    }
}

impl Push {
    /// How dueq's own topic of callbacks is sent, in which everybody's hosts meet: many places, so that dead hosts with
    /// their few leave enough to the others.
    pub fn of_callbacks() -> Self {
        Self { max_in_flight: 1_024, ..Self::default() }
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

    /// Is the value of this header a secret, of the push itself or of a message?
    pub fn is_secret(&self, name: &str) -> bool {
        is_credential(name) || names_header(&self.secret_headers, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
